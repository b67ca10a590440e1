"""The chain of the Ledger's schema."""
