ALTER TABLE ledger."decision_recall_context_items" ALTER COLUMN "memory_id" DROP NOT NULL;
