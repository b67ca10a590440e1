ALTER TABLE ledger."verifications" DROP CONSTRAINT "verifications_namespace_observation_id_fkey";
ALTER TABLE ledger."verifications" DROP CONSTRAINT "verifications_namespace_contract_id_fkey";
ALTER TABLE ledger."trial_provenances" DROP CONSTRAINT "trial_provenances_namespace_observation_id_fkey";
ALTER TABLE ledger."trial_provenances" DROP CONSTRAINT "trial_provenances_namespace_intervention_id_fkey";
ALTER TABLE ledger."trial_provenances" DROP CONSTRAINT "trial_provenances_namespace_attempt_id_fkey";
ALTER TABLE ledger."scope_variant_heads" DROP CONSTRAINT "scope_variant_heads_namespace_memory_id_fkey";
ALTER TABLE ledger."scope_variant_heads" DROP CONSTRAINT "scope_variant_heads_namespace_event_id_fkey";
ALTER TABLE ledger."recall_outcome_attempt_links" DROP CONSTRAINT "recall_outcome_attempt_links_namespace_outcome_id_fkey";
ALTER TABLE ledger."recall_outcome_attempt_links" DROP CONSTRAINT "recall_outcome_attempt_links_namespace_experience_id_fkey";
ALTER TABLE ledger."recall_outcome_attempt_links" DROP CONSTRAINT "recall_outcome_attempt_links_namespace_attempt_id_fkey";
ALTER TABLE ledger."recall_input_snapshots" DROP CONSTRAINT "recall_input_snapshots_namespace_knowledge_snapshot_id_fkey";
ALTER TABLE ledger."recall_input_snapshots" DROP CONSTRAINT "recall_input_snapshots_namespace_evidence_snapshot_id_fkey";
ALTER TABLE ledger."recall_input_index_builds" DROP CONSTRAINT "recall_input_index_builds_namespace_parent_id_fkey";
ALTER TABLE ledger."recall_input_index_builds" DROP CONSTRAINT "recall_input_index_builds_namespace_index_build_id_fkey";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_namespace_intervention_id_fkey";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_namespace_intent_id_fkey";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_namespace_hypothesis_id_fkey";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_namespace_context_id_fkey";
ALTER TABLE ledger."recall_decision_dispositions" DROP CONSTRAINT "recall_decision_dispositions_namespace_parent_id_fkey";
ALTER TABLE ledger."observations" DROP CONSTRAINT "observations_namespace_attempt_id_fkey";
ALTER TABLE ledger."observation_artifacts" DROP CONSTRAINT "observation_artifacts_namespace_parent_id_fkey";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_namespace_target_memory_id_fkey";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_namespace_source_memory_id_fkey";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_namespace_event_id_fkey";
ALTER TABLE ledger."memory_records" DROP CONSTRAINT "memory_records_namespace_prior_memory_id_fkey";
ALTER TABLE ledger."memory_records" DROP CONSTRAINT "memory_records_namespace_candidate_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_verification_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_provenance_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_parent_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_observation_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_intervention_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_experience_id_fkey";
ALTER TABLE ledger."memory_evidence_links" DROP CONSTRAINT "memory_evidence_links_namespace_comparator_id_fkey";
ALTER TABLE ledger."knowledge_snapshot_members" DROP CONSTRAINT "knowledge_snapshot_members_namespace_parent_id_fkey";
ALTER TABLE ledger."knowledge_snapshot_members" DROP CONSTRAINT "knowledge_snapshot_members_namespace_memory_id_fkey";
ALTER TABLE ledger."knowledge_snapshot_members" DROP CONSTRAINT "knowledge_snapshot_members_namespace_event_id_fkey";
ALTER TABLE ledger."knowledge_lifecycle_events" DROP CONSTRAINT "knowledge_lifecycle_events_namespace_memory_id_fkey";
ALTER TABLE ledger."knowledge_lifecycle_events" DROP CONSTRAINT "knowledge_lifecycle_events_namespace_evidence_snapshot_id_fkey";
ALTER TABLE ledger."knowledge_candidates" DROP CONSTRAINT "knowledge_candidates_namespace_evidence_snapshot_id_fkey";
ALTER TABLE ledger."interventions" DROP CONSTRAINT "interventions_namespace_hypothesis_id_fkey";
ALTER TABLE ledger."interventions" DROP CONSTRAINT "interventions_namespace_attempt_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_verification_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_provenance_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_observation_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_intervention_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_hypothesis_id_fkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_attempt_id_fkey";
ALTER TABLE ledger."experience_distillation_receipts" DROP CONSTRAINT "experience_distillation_receipts_namespace_work_item_id_fkey";
ALTER TABLE ledger."experience_distillation_receipts" DROP CONSTRAINT "experience_distillation_receipts_namespace_experience_id_fkey";
ALTER TABLE ledger."evidence_snapshot_members" DROP CONSTRAINT "evidence_snapshot_members_namespace_parent_id_fkey";
ALTER TABLE ledger."evidence_snapshot_members" DROP CONSTRAINT "evidence_snapshot_members_namespace_experience_id_fkey";
ALTER TABLE ledger."enqueue_transactions" DROP CONSTRAINT "enqueue_transactions_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_work_items" DROP CONSTRAINT "distillation_work_items_namespace_experience_id_fkey";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_namespace_decision_id_fkey";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_namespace_candidate_id_fkey";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_namespace_batch_id_fkey";
ALTER TABLE ledger."distillation_work_completions" DROP CONSTRAINT "distillation_work_completions_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_work_completions" DROP CONSTRAINT "distillation_work_completions_namespace_report_id_fkey";
ALTER TABLE ledger."distillation_work_completions" DROP CONSTRAINT "distillation_work_completions_namespace_batch_id_fkey";
ALTER TABLE ledger."distillation_work_assignments" DROP CONSTRAINT "distillation_work_assignments_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_reports" DROP CONSTRAINT "distillation_reports_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_reports" DROP CONSTRAINT "distillation_reports_namespace_batch_id_fkey";
ALTER TABLE ledger."distillation_decisions" DROP CONSTRAINT "distillation_decisions_namespace_memory_id_fkey";
ALTER TABLE ledger."distillation_decisions" DROP CONSTRAINT "distillation_decisions_namespace_candidate_id_fkey";
ALTER TABLE ledger."distillation_batches" DROP CONSTRAINT "distillation_batches_namespace_work_item_id_fkey";
ALTER TABLE ledger."distillation_batches" DROP CONSTRAINT "distillation_batches_namespace_evidence_snapshot_id_fkey";
ALTER TABLE ledger."distillation_batches" DROP CONSTRAINT "distillation_batches_namespace_assignment_id_fkey";
ALTER TABLE ledger."derived_memory_indexes" DROP CONSTRAINT "derived_memory_indexes_namespace_knowledge_snapshot_id_fkey";
ALTER TABLE ledger."derived_memory_indexes" DROP CONSTRAINT "derived_memory_indexes_namespace_evidence_snapshot_id_fkey";
ALTER TABLE ledger."decision_recall_contexts" DROP CONSTRAINT "decision_recall_contexts_namespace_recall_input_id_fkey";
ALTER TABLE ledger."decision_recall_contexts" DROP CONSTRAINT "decision_recall_contexts_namespace_intent_id_fkey";
ALTER TABLE ledger."decision_recall_context_items" DROP CONSTRAINT "decision_recall_context_items_namespace_parent_id_fkey";
ALTER TABLE ledger."decision_recall_context_items" DROP CONSTRAINT "decision_recall_context_items_namespace_memory_id_fkey";
ALTER TABLE ledger."decision_intents" DROP CONSTRAINT "decision_intents_namespace_contract_view_id_fkey";
ALTER TABLE ledger."decision_contract_views" DROP CONSTRAINT "decision_contract_views_namespace_contract_id_fkey";
ALTER TABLE ledger."capture_operations" DROP CONSTRAINT "capture_operations_namespace_snapshot_id_fkey";
ALTER TABLE ledger."attempts" DROP CONSTRAINT "attempts_namespace_recall_context_id_fkey";
ALTER TABLE ledger."attempts" DROP CONSTRAINT "attempts_namespace_hypothesis_id_fkey";
ALTER TABLE ledger."attempts" DROP CONSTRAINT "attempts_namespace_contract_id_fkey";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_relation_check";
ALTER TABLE ledger."verifications" DROP CONSTRAINT "verifications_namespace_id_key";
ALTER TABLE ledger."trial_provenances" DROP CONSTRAINT "trial_provenances_namespace_id_key";
ALTER TABLE ledger."recall_outcome_attempt_links" DROP CONSTRAINT "recall_outcome_attempt_links_namespace_id_key";
ALTER TABLE ledger."recall_input_snapshots" DROP CONSTRAINT "recall_input_snapshots_namespace_id_key";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_namespace_id_key";
ALTER TABLE ledger."observations" DROP CONSTRAINT "observations_namespace_id_key";
ALTER TABLE ledger."no_commit_receipts" DROP CONSTRAINT "no_commit_receipts_namespace_id_key";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_namespace_id_key";
ALTER TABLE ledger."memory_records" DROP CONSTRAINT "memory_records_namespace_id_key";
ALTER TABLE ledger."ledger_commits_v1" DROP CONSTRAINT "ledger_commits_v1_noun_id_key";
ALTER TABLE ledger."knowledge_snapshots" DROP CONSTRAINT "knowledge_snapshots_namespace_id_key";
ALTER TABLE ledger."knowledge_lifecycle_events" DROP CONSTRAINT "knowledge_lifecycle_events_namespace_id_key";
ALTER TABLE ledger."knowledge_candidates" DROP CONSTRAINT "knowledge_candidates_namespace_id_key";
ALTER TABLE ledger."interventions" DROP CONSTRAINT "interventions_namespace_id_key";
ALTER TABLE ledger."hypotheses" DROP CONSTRAINT "hypotheses_namespace_id_key";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_namespace_id_key";
ALTER TABLE ledger."experience_distillation_receipts" DROP CONSTRAINT "experience_distillation_receipts_namespace_id_key";
ALTER TABLE ledger."evidence_snapshots" DROP CONSTRAINT "evidence_snapshots_namespace_id_key";
ALTER TABLE ledger."evaluation_contracts" DROP CONSTRAINT "evaluation_contracts_namespace_id_key";
ALTER TABLE ledger."enqueue_transactions" DROP CONSTRAINT "enqueue_transactions_namespace_id_key";
ALTER TABLE ledger."distillation_work_items" DROP CONSTRAINT "distillation_work_items_namespace_id_key";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_namespace_id_key";
ALTER TABLE ledger."distillation_work_completions" DROP CONSTRAINT "distillation_work_completions_namespace_id_key";
ALTER TABLE ledger."distillation_work_assignments" DROP CONSTRAINT "distillation_work_assignments_namespace_id_key";
ALTER TABLE ledger."distillation_reports" DROP CONSTRAINT "distillation_reports_namespace_id_key";
ALTER TABLE ledger."distillation_decisions" DROP CONSTRAINT "distillation_decisions_namespace_id_key";
ALTER TABLE ledger."distillation_batches" DROP CONSTRAINT "distillation_batches_namespace_id_key";
ALTER TABLE ledger."derived_memory_indexes" DROP CONSTRAINT "derived_memory_indexes_namespace_id_key";
ALTER TABLE ledger."decision_recall_contexts" DROP CONSTRAINT "decision_recall_contexts_namespace_id_key";
ALTER TABLE ledger."decision_intents" DROP CONSTRAINT "decision_intents_namespace_id_key";
ALTER TABLE ledger."decision_contract_views" DROP CONSTRAINT "decision_contract_views_namespace_id_key";
ALTER TABLE ledger."capture_operations" DROP CONSTRAINT "capture_operations_namespace_id_key";
ALTER TABLE ledger."attempts" DROP CONSTRAINT "attempts_namespace_id_key";
ALTER TABLE ledger."verifications" DROP CONSTRAINT "verifications_pkey";
ALTER TABLE ledger."trial_provenances" DROP CONSTRAINT "trial_provenances_pkey";
ALTER TABLE ledger."recall_outcome_attempt_links" DROP CONSTRAINT "recall_outcome_attempt_links_pkey";
ALTER TABLE ledger."recall_input_snapshots" DROP CONSTRAINT "recall_input_snapshots_pkey";
ALTER TABLE ledger."recall_decision_outcomes" DROP CONSTRAINT "recall_decision_outcomes_pkey";
ALTER TABLE ledger."observations" DROP CONSTRAINT "observations_pkey";
ALTER TABLE ledger."no_commit_receipts" DROP CONSTRAINT "no_commit_receipts_pkey";
ALTER TABLE ledger."memory_relations" DROP CONSTRAINT "memory_relations_pkey";
ALTER TABLE ledger."memory_records" DROP CONSTRAINT "memory_records_pkey";
ALTER TABLE ledger."knowledge_snapshots" DROP CONSTRAINT "knowledge_snapshots_pkey";
ALTER TABLE ledger."knowledge_lifecycle_events" DROP CONSTRAINT "knowledge_lifecycle_events_pkey";
ALTER TABLE ledger."knowledge_candidates" DROP CONSTRAINT "knowledge_candidates_pkey";
ALTER TABLE ledger."interventions" DROP CONSTRAINT "interventions_pkey";
ALTER TABLE ledger."hypotheses" DROP CONSTRAINT "hypotheses_pkey";
ALTER TABLE ledger."experiences" DROP CONSTRAINT "experiences_pkey";
ALTER TABLE ledger."experience_distillation_receipts" DROP CONSTRAINT "experience_distillation_receipts_pkey";
ALTER TABLE ledger."evidence_snapshots" DROP CONSTRAINT "evidence_snapshots_pkey";
ALTER TABLE ledger."evaluation_contracts" DROP CONSTRAINT "evaluation_contracts_pkey";
ALTER TABLE ledger."enqueue_transactions" DROP CONSTRAINT "enqueue_transactions_pkey";
ALTER TABLE ledger."distillation_work_items" DROP CONSTRAINT "distillation_work_items_pkey";
ALTER TABLE ledger."distillation_work_dispositions" DROP CONSTRAINT "distillation_work_dispositions_pkey";
ALTER TABLE ledger."distillation_work_completions" DROP CONSTRAINT "distillation_work_completions_pkey";
ALTER TABLE ledger."distillation_work_assignments" DROP CONSTRAINT "distillation_work_assignments_pkey";
ALTER TABLE ledger."distillation_reports" DROP CONSTRAINT "distillation_reports_pkey";
ALTER TABLE ledger."distillation_decisions" DROP CONSTRAINT "distillation_decisions_pkey";
ALTER TABLE ledger."distillation_batches" DROP CONSTRAINT "distillation_batches_pkey";
ALTER TABLE ledger."derived_memory_indexes" DROP CONSTRAINT "derived_memory_indexes_pkey";
ALTER TABLE ledger."decision_recall_contexts" DROP CONSTRAINT "decision_recall_contexts_pkey";
ALTER TABLE ledger."decision_intents" DROP CONSTRAINT "decision_intents_pkey";
ALTER TABLE ledger."decision_contract_views" DROP CONSTRAINT "decision_contract_views_pkey";
ALTER TABLE ledger."capture_operations" DROP CONSTRAINT "capture_operations_pkey";
ALTER TABLE ledger."attempts" DROP CONSTRAINT "attempts_pkey";
DROP INDEX ledger."ledger_commits_v1_by_id";
ALTER TABLE ledger."knowledge_candidates" ADD COLUMN "record_kind" text;
ALTER TABLE ledger."knowledge_candidates" ALTER COLUMN "record_kind" TYPE text USING (payload::jsonb ->> 'record_kind')::text;
ALTER TABLE ledger."knowledge_candidates" ALTER COLUMN "record_kind" SET NOT NULL;
ALTER TABLE ledger."attempts" ADD CONSTRAINT "attempts_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."capture_operations" ADD CONSTRAINT "capture_operations_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."decision_contract_views" ADD CONSTRAINT "decision_contract_views_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."decision_intents" ADD CONSTRAINT "decision_intents_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."decision_recall_contexts" ADD CONSTRAINT "decision_recall_contexts_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."derived_memory_indexes" ADD CONSTRAINT "derived_memory_indexes_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_batches" ADD CONSTRAINT "distillation_batches_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_decisions" ADD CONSTRAINT "distillation_decisions_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_reports" ADD CONSTRAINT "distillation_reports_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_work_assignments" ADD CONSTRAINT "distillation_work_assignments_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_work_completions" ADD CONSTRAINT "distillation_work_completions_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."distillation_work_items" ADD CONSTRAINT "distillation_work_items_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."enqueue_transactions" ADD CONSTRAINT "enqueue_transactions_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."evaluation_contracts" ADD CONSTRAINT "evaluation_contracts_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."evidence_snapshots" ADD CONSTRAINT "evidence_snapshots_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."experience_distillation_receipts" ADD CONSTRAINT "experience_distillation_receipts_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."hypotheses" ADD CONSTRAINT "hypotheses_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."interventions" ADD CONSTRAINT "interventions_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."knowledge_candidates" ADD CONSTRAINT "knowledge_candidates_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."knowledge_lifecycle_events" ADD CONSTRAINT "knowledge_lifecycle_events_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."knowledge_snapshots" ADD CONSTRAINT "knowledge_snapshots_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."memory_records" ADD CONSTRAINT "memory_records_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."no_commit_receipts" ADD CONSTRAINT "no_commit_receipts_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."observations" ADD CONSTRAINT "observations_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."recall_input_snapshots" ADD CONSTRAINT "recall_input_snapshots_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."recall_outcome_attempt_links" ADD CONSTRAINT "recall_outcome_attempt_links_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."trial_provenances" ADD CONSTRAINT "trial_provenances_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."verifications" ADD CONSTRAINT "verifications_pkey" PRIMARY KEY (id, namespace);
ALTER TABLE ledger."decision_recall_context_items" ADD CONSTRAINT "decision_recall_context_items_one_card_id" UNIQUE (parent_id, card_id);
ALTER TABLE ledger."decision_recall_context_items" ADD CONSTRAINT "decision_recall_context_items_one_citation_id" UNIQUE (parent_id, citation_id);
ALTER TABLE ledger."evidence_snapshot_members" ADD CONSTRAINT "evidence_snapshot_members_one_experience_id" UNIQUE (parent_id, experience_id);
ALTER TABLE ledger."knowledge_snapshot_members" ADD CONSTRAINT "knowledge_snapshot_members_one_scope_variant_id" UNIQUE (parent_id, scope_variant_id);
ALTER TABLE ledger."recall_decision_dispositions" ADD CONSTRAINT "recall_decision_dispositions_one_citation_id" UNIQUE (parent_id, citation_id);
ALTER TABLE ledger."recall_input_index_builds" ADD CONSTRAINT "recall_input_index_builds_one_index_build_id" UNIQUE (parent_id, index_build_id);
ALTER TABLE ledger."append_receipts" ADD CONSTRAINT "append_receipts_permit_digest_check" CHECK ((octet_length(permit_digest) = 64));
ALTER TABLE ledger."attempts" ADD CONSTRAINT "attempts_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."capture_operations" ADD CONSTRAINT "capture_operations_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."decision_contract_views" ADD CONSTRAINT "decision_contract_views_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."decision_intents" ADD CONSTRAINT "decision_intents_iteration_check" CHECK ((iteration >= 0));
ALTER TABLE ledger."decision_intents" ADD CONSTRAINT "decision_intents_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."decision_recall_context_items" ADD CONSTRAINT "decision_recall_context_items_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."decision_recall_contexts" ADD CONSTRAINT "decision_recall_contexts_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."derived_memory_indexes" ADD CONSTRAINT "derived_memory_indexes_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_batches" ADD CONSTRAINT "distillation_batches_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_decisions" ADD CONSTRAINT "distillation_decisions_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_reports" ADD CONSTRAINT "distillation_reports_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_work_assignments" ADD CONSTRAINT "distillation_work_assignments_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_work_completions" ADD CONSTRAINT "distillation_work_completions_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."distillation_work_items" ADD CONSTRAINT "distillation_work_items_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."enqueue_transactions" ADD CONSTRAINT "enqueue_transactions_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."evaluation_contracts" ADD CONSTRAINT "evaluation_contracts_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."evidence_snapshot_members" ADD CONSTRAINT "evidence_snapshot_members_bundle_digest_check" CHECK ((octet_length(bundle_digest) = 64));
ALTER TABLE ledger."evidence_snapshot_members" ADD CONSTRAINT "evidence_snapshot_members_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."evidence_snapshots" ADD CONSTRAINT "evidence_snapshots_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."experience_distillation_receipts" ADD CONSTRAINT "experience_distillation_receipts_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."hypotheses" ADD CONSTRAINT "hypotheses_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."interventions" ADD CONSTRAINT "interventions_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."knowledge_candidates" ADD CONSTRAINT "knowledge_candidates_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."knowledge_candidates" ADD CONSTRAINT "knowledge_candidates_record_kind_check" CHECK ((record_kind = ANY (ARRAY['semantic'::text, 'procedure'::text])));
ALTER TABLE ledger."knowledge_lifecycle_events" ADD CONSTRAINT "knowledge_lifecycle_events_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."knowledge_snapshot_members" ADD CONSTRAINT "knowledge_snapshot_members_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."knowledge_snapshots" ADD CONSTRAINT "knowledge_snapshots_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."ledger_commits_v1" ADD CONSTRAINT "ledger_commits_v1_chain_digest_check" CHECK ((octet_length(chain_digest) = 64));
ALTER TABLE ledger."ledger_commits_v1" ADD CONSTRAINT "ledger_commits_v1_payload_digest_check" CHECK ((octet_length(payload_digest) = 64));
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."memory_records" ADD CONSTRAINT "memory_records_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."memory_records" ADD CONSTRAINT "memory_records_record_kind_check" CHECK ((record_kind = ANY (ARRAY['semantic'::text, 'procedure'::text])));
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_check" CHECK ((source_memory_id <> target_memory_id));
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_check1" CHECK (((relation <> 'contests'::text) OR ((source_memory_id COLLATE "C") < target_memory_id)));
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_relation_check" CHECK ((relation = ANY (ARRAY['supersedes'::text, 'contests'::text, 'scope_refines'::text, 'procedure_implements'::text])));
ALTER TABLE ledger."namespace_heads" ADD CONSTRAINT "namespace_heads_chain_digest_check" CHECK ((octet_length(chain_digest) = 64));
ALTER TABLE ledger."namespace_heads" ADD CONSTRAINT "namespace_heads_check1" CHECK ((LEAST(evidence, lifecycle, retention) >= 0));
ALTER TABLE ledger."no_commit_receipts" ADD CONSTRAINT "no_commit_receipts_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."observation_artifacts" ADD CONSTRAINT "observation_artifacts_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."observation_artifacts" ADD CONSTRAINT "observation_artifacts_sha256_check" CHECK ((octet_length(sha256) = 64));
ALTER TABLE ledger."observation_artifacts" ADD CONSTRAINT "observation_artifacts_size_bytes_check" CHECK ((size_bytes >= 0));
ALTER TABLE ledger."observations" ADD CONSTRAINT "observations_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."recall_decision_dispositions" ADD CONSTRAINT "recall_decision_dispositions_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."recall_input_index_builds" ADD CONSTRAINT "recall_input_index_builds_ordinal_check" CHECK ((ordinal > 0));
ALTER TABLE ledger."recall_input_snapshots" ADD CONSTRAINT "recall_input_snapshots_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."recall_outcome_attempt_links" ADD CONSTRAINT "recall_outcome_attempt_links_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."scope_variant_heads" ADD CONSTRAINT "scope_variant_heads_version_check" CHECK ((version > 0));
ALTER TABLE ledger."trial_provenances" ADD CONSTRAINT "trial_provenances_position_check" CHECK (("position" > 0));
ALTER TABLE ledger."verifications" ADD CONSTRAINT "verifications_position_check" CHECK (("position" > 0));
CREATE TABLE ledger.distillation_commit_conflicts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	authorization_id TEXT NOT NULL,
	reason TEXT NOT NULL CHECK (reason IN ('LIFECYCLE_HEAD_STALE', 'RETENTION_REVOKED')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_commit_conflicts_one_authorization_id UNIQUE (authorization_id)
);
CREATE TABLE ledger.legacy_imports (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	source_digest TEXT NOT NULL CHECK (octet_length(source_digest) = 64),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.legacy_records (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	source_table TEXT NOT NULL CHECK (source_table IN ('hypotheses', 'experiment_attempts', 'observations', 'verification_records', 'experience_records', 'knowledge_records', 'knowledge_sources', 'promotion_decisions', 'recall_contexts', 'intervention_records', 'trial_provenance_records')),
	legacy_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.derived_memory_index_failures (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	knowledge_snapshot_id TEXT NOT NULL,
	evidence_snapshot_id TEXT,
	operation_key TEXT NOT NULL,
	reason TEXT NOT NULL CHECK (reason IN ('source_unreadable', 'source_revoked', 'embedder_unavailable', 'not_reproducible', 'artifact_not_published')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT derived_memory_index_failures_one_namespace_operation_key UNIQUE (namespace, operation_key),
	FOREIGN KEY(namespace, knowledge_snapshot_id) REFERENCES ledger.knowledge_snapshots (namespace, id),
	FOREIGN KEY(namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.legacy_import_members (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	record_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.legacy_imports (namespace, id),
	FOREIGN KEY(namespace, record_id) REFERENCES ledger.legacy_records (namespace, id)
);
CREATE TABLE ledger.legacy_knowledge_sources (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	experience_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.legacy_records (namespace, id)
);
CREATE TABLE ledger.retention_erasure_intents (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	retraction_event_id TEXT,
	target_id TEXT NOT NULL,
	incident TEXT NOT NULL,
	target_kind TEXT NOT NULL CHECK (target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', 'artifact')),
	retraction TEXT NOT NULL CHECK (retraction IN ('lifecycle_event', 'not_applicable')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT retention_erasure_intents_one_namespace_target_id UNIQUE (namespace, target_id),
	FOREIGN KEY(namespace, retraction_event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id)
);
CREATE TABLE ledger.memory_retention_tombstones (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	intent_id TEXT NOT NULL,
	retraction_event_id TEXT,
	incident TEXT NOT NULL,
	target_kind TEXT NOT NULL CHECK (target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', 'artifact')),
	target_id TEXT NOT NULL,
	retraction TEXT NOT NULL CHECK (retraction IN ('lifecycle_event', 'not_applicable')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT memory_retention_tombstones_one_intent_id UNIQUE (intent_id),
	FOREIGN KEY(namespace, intent_id) REFERENCES ledger.retention_erasure_intents (namespace, id),
	FOREIGN KEY(namespace, retraction_event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id)
);
CREATE TABLE ledger.retention_affected_artifacts (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	sha256 TEXT NOT NULL CHECK (octet_length(sha256) = 64),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT retention_affected_artifacts_one_sha256 UNIQUE (parent_id, sha256),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.retention_erasure_intents (namespace, id)
);
CREATE TABLE ledger.retention_affected_indexes (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	index_build_id TEXT NOT NULL,
	digest TEXT NOT NULL CHECK (octet_length(digest) = 64),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT retention_affected_indexes_one_index_build_id UNIQUE (parent_id, index_build_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.retention_erasure_intents (namespace, id),
	FOREIGN KEY(namespace, index_build_id) REFERENCES ledger.derived_memory_indexes (namespace, id)
);
ALTER TABLE ledger."attempts" ADD CONSTRAINT "attempts_namespace_contract_id_fkey" FOREIGN KEY (namespace, contract_id) REFERENCES ledger.evaluation_contracts(namespace, id);
ALTER TABLE ledger."attempts" ADD CONSTRAINT "attempts_namespace_hypothesis_id_fkey" FOREIGN KEY (namespace, hypothesis_id) REFERENCES ledger.hypotheses(namespace, id);
ALTER TABLE ledger."attempts" ADD CONSTRAINT "attempts_namespace_recall_context_id_fkey" FOREIGN KEY (namespace, recall_context_id) REFERENCES ledger.decision_recall_contexts(namespace, id);
ALTER TABLE ledger."capture_operations" ADD CONSTRAINT "capture_operations_namespace_snapshot_id_fkey" FOREIGN KEY (namespace, snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."decision_contract_views" ADD CONSTRAINT "decision_contract_views_namespace_contract_id_fkey" FOREIGN KEY (namespace, contract_id) REFERENCES ledger.evaluation_contracts(namespace, id);
ALTER TABLE ledger."decision_intents" ADD CONSTRAINT "decision_intents_namespace_contract_view_id_fkey" FOREIGN KEY (namespace, contract_view_id) REFERENCES ledger.decision_contract_views(namespace, id);
ALTER TABLE ledger."decision_recall_context_items" ADD CONSTRAINT "decision_recall_context_items_namespace_memory_id_fkey" FOREIGN KEY (namespace, memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."decision_recall_context_items" ADD CONSTRAINT "decision_recall_context_items_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.decision_recall_contexts(namespace, id);
ALTER TABLE ledger."decision_recall_contexts" ADD CONSTRAINT "decision_recall_contexts_namespace_intent_id_fkey" FOREIGN KEY (namespace, intent_id) REFERENCES ledger.decision_intents(namespace, id);
ALTER TABLE ledger."decision_recall_contexts" ADD CONSTRAINT "decision_recall_contexts_namespace_recall_input_id_fkey" FOREIGN KEY (namespace, recall_input_id) REFERENCES ledger.recall_input_snapshots(namespace, id);
ALTER TABLE ledger."derived_memory_indexes" ADD CONSTRAINT "derived_memory_indexes_namespace_evidence_snapshot_id_fkey" FOREIGN KEY (namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."derived_memory_indexes" ADD CONSTRAINT "derived_memory_indexes_namespace_knowledge_snapshot_id_fkey" FOREIGN KEY (namespace, knowledge_snapshot_id) REFERENCES ledger.knowledge_snapshots(namespace, id);
ALTER TABLE ledger."distillation_batches" ADD CONSTRAINT "distillation_batches_namespace_assignment_id_fkey" FOREIGN KEY (namespace, assignment_id) REFERENCES ledger.distillation_work_assignments(namespace, id);
ALTER TABLE ledger."distillation_batches" ADD CONSTRAINT "distillation_batches_namespace_evidence_snapshot_id_fkey" FOREIGN KEY (namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."distillation_batches" ADD CONSTRAINT "distillation_batches_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."distillation_decisions" ADD CONSTRAINT "distillation_decisions_namespace_candidate_id_fkey" FOREIGN KEY (namespace, candidate_id) REFERENCES ledger.knowledge_candidates(namespace, id);
ALTER TABLE ledger."distillation_decisions" ADD CONSTRAINT "distillation_decisions_namespace_memory_id_fkey" FOREIGN KEY (namespace, memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."distillation_reports" ADD CONSTRAINT "distillation_reports_namespace_batch_id_fkey" FOREIGN KEY (namespace, batch_id) REFERENCES ledger.distillation_batches(namespace, id);
ALTER TABLE ledger."distillation_reports" ADD CONSTRAINT "distillation_reports_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."distillation_work_assignments" ADD CONSTRAINT "distillation_work_assignments_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."distillation_work_completions" ADD CONSTRAINT "distillation_work_completions_namespace_batch_id_fkey" FOREIGN KEY (namespace, batch_id) REFERENCES ledger.distillation_batches(namespace, id);
ALTER TABLE ledger."distillation_work_completions" ADD CONSTRAINT "distillation_work_completions_namespace_report_id_fkey" FOREIGN KEY (namespace, report_id) REFERENCES ledger.distillation_reports(namespace, id);
ALTER TABLE ledger."distillation_work_completions" ADD CONSTRAINT "distillation_work_completions_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_namespace_batch_id_fkey" FOREIGN KEY (namespace, batch_id) REFERENCES ledger.distillation_batches(namespace, id);
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_namespace_candidate_id_fkey" FOREIGN KEY (namespace, candidate_id) REFERENCES ledger.knowledge_candidates(namespace, id);
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_namespace_decision_id_fkey" FOREIGN KEY (namespace, decision_id) REFERENCES ledger.distillation_decisions(namespace, id);
ALTER TABLE ledger."distillation_work_dispositions" ADD CONSTRAINT "distillation_work_dispositions_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."distillation_work_items" ADD CONSTRAINT "distillation_work_items_namespace_experience_id_fkey" FOREIGN KEY (namespace, experience_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."enqueue_transactions" ADD CONSTRAINT "enqueue_transactions_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."evidence_snapshot_members" ADD CONSTRAINT "evidence_snapshot_members_namespace_experience_id_fkey" FOREIGN KEY (namespace, experience_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."evidence_snapshot_members" ADD CONSTRAINT "evidence_snapshot_members_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."experience_distillation_receipts" ADD CONSTRAINT "experience_distillation_receipts_namespace_experience_id_fkey" FOREIGN KEY (namespace, experience_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."experience_distillation_receipts" ADD CONSTRAINT "experience_distillation_receipts_namespace_work_item_id_fkey" FOREIGN KEY (namespace, work_item_id) REFERENCES ledger.distillation_work_items(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_attempt_id_fkey" FOREIGN KEY (namespace, attempt_id) REFERENCES ledger.attempts(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_hypothesis_id_fkey" FOREIGN KEY (namespace, hypothesis_id) REFERENCES ledger.hypotheses(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_intervention_id_fkey" FOREIGN KEY (namespace, intervention_id) REFERENCES ledger.interventions(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_observation_id_fkey" FOREIGN KEY (namespace, observation_id) REFERENCES ledger.observations(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_provenance_id_fkey" FOREIGN KEY (namespace, provenance_id) REFERENCES ledger.trial_provenances(namespace, id);
ALTER TABLE ledger."experiences" ADD CONSTRAINT "experiences_namespace_verification_id_fkey" FOREIGN KEY (namespace, verification_id) REFERENCES ledger.verifications(namespace, id);
ALTER TABLE ledger."interventions" ADD CONSTRAINT "interventions_namespace_attempt_id_fkey" FOREIGN KEY (namespace, attempt_id) REFERENCES ledger.attempts(namespace, id);
ALTER TABLE ledger."interventions" ADD CONSTRAINT "interventions_namespace_hypothesis_id_fkey" FOREIGN KEY (namespace, hypothesis_id) REFERENCES ledger.hypotheses(namespace, id);
ALTER TABLE ledger."knowledge_candidates" ADD CONSTRAINT "knowledge_candidates_namespace_evidence_snapshot_id_fkey" FOREIGN KEY (namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."knowledge_lifecycle_events" ADD CONSTRAINT "knowledge_lifecycle_events_namespace_evidence_snapshot_id_fkey" FOREIGN KEY (namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."knowledge_lifecycle_events" ADD CONSTRAINT "knowledge_lifecycle_events_namespace_memory_id_fkey" FOREIGN KEY (namespace, memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."knowledge_snapshot_members" ADD CONSTRAINT "knowledge_snapshot_members_namespace_event_id_fkey" FOREIGN KEY (namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events(namespace, id);
ALTER TABLE ledger."knowledge_snapshot_members" ADD CONSTRAINT "knowledge_snapshot_members_namespace_memory_id_fkey" FOREIGN KEY (namespace, memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."knowledge_snapshot_members" ADD CONSTRAINT "knowledge_snapshot_members_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.knowledge_snapshots(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_comparator_id_fkey" FOREIGN KEY (namespace, comparator_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_experience_id_fkey" FOREIGN KEY (namespace, experience_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_intervention_id_fkey" FOREIGN KEY (namespace, intervention_id) REFERENCES ledger.interventions(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_observation_id_fkey" FOREIGN KEY (namespace, observation_id) REFERENCES ledger.observations(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_provenance_id_fkey" FOREIGN KEY (namespace, provenance_id) REFERENCES ledger.trial_provenances(namespace, id);
ALTER TABLE ledger."memory_evidence_links" ADD CONSTRAINT "memory_evidence_links_namespace_verification_id_fkey" FOREIGN KEY (namespace, verification_id) REFERENCES ledger.verifications(namespace, id);
ALTER TABLE ledger."memory_records" ADD CONSTRAINT "memory_records_namespace_candidate_id_fkey" FOREIGN KEY (namespace, candidate_id) REFERENCES ledger.knowledge_candidates(namespace, id);
ALTER TABLE ledger."memory_records" ADD CONSTRAINT "memory_records_namespace_prior_memory_id_fkey" FOREIGN KEY (namespace, prior_memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_namespace_event_id_fkey" FOREIGN KEY (namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events(namespace, id);
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_namespace_source_memory_id_fkey" FOREIGN KEY (namespace, source_memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."memory_relations" ADD CONSTRAINT "memory_relations_namespace_target_memory_id_fkey" FOREIGN KEY (namespace, target_memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."observation_artifacts" ADD CONSTRAINT "observation_artifacts_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.observations(namespace, id);
ALTER TABLE ledger."observations" ADD CONSTRAINT "observations_namespace_attempt_id_fkey" FOREIGN KEY (namespace, attempt_id) REFERENCES ledger.attempts(namespace, id);
ALTER TABLE ledger."recall_decision_dispositions" ADD CONSTRAINT "recall_decision_dispositions_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.recall_decision_outcomes(namespace, id);
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_namespace_context_id_fkey" FOREIGN KEY (namespace, context_id) REFERENCES ledger.decision_recall_contexts(namespace, id);
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_namespace_hypothesis_id_fkey" FOREIGN KEY (namespace, hypothesis_id) REFERENCES ledger.hypotheses(namespace, id);
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_namespace_intent_id_fkey" FOREIGN KEY (namespace, intent_id) REFERENCES ledger.decision_intents(namespace, id);
ALTER TABLE ledger."recall_decision_outcomes" ADD CONSTRAINT "recall_decision_outcomes_namespace_intervention_id_fkey" FOREIGN KEY (namespace, intervention_id) REFERENCES ledger.interventions(namespace, id);
ALTER TABLE ledger."recall_input_index_builds" ADD CONSTRAINT "recall_input_index_builds_namespace_index_build_id_fkey" FOREIGN KEY (namespace, index_build_id) REFERENCES ledger.derived_memory_indexes(namespace, id);
ALTER TABLE ledger."recall_input_index_builds" ADD CONSTRAINT "recall_input_index_builds_namespace_parent_id_fkey" FOREIGN KEY (namespace, parent_id) REFERENCES ledger.recall_input_snapshots(namespace, id);
ALTER TABLE ledger."recall_input_snapshots" ADD CONSTRAINT "recall_input_snapshots_namespace_evidence_snapshot_id_fkey" FOREIGN KEY (namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots(namespace, id);
ALTER TABLE ledger."recall_input_snapshots" ADD CONSTRAINT "recall_input_snapshots_namespace_knowledge_snapshot_id_fkey" FOREIGN KEY (namespace, knowledge_snapshot_id) REFERENCES ledger.knowledge_snapshots(namespace, id);
ALTER TABLE ledger."recall_outcome_attempt_links" ADD CONSTRAINT "recall_outcome_attempt_links_namespace_attempt_id_fkey" FOREIGN KEY (namespace, attempt_id) REFERENCES ledger.attempts(namespace, id);
ALTER TABLE ledger."recall_outcome_attempt_links" ADD CONSTRAINT "recall_outcome_attempt_links_namespace_experience_id_fkey" FOREIGN KEY (namespace, experience_id) REFERENCES ledger.experiences(namespace, id);
ALTER TABLE ledger."recall_outcome_attempt_links" ADD CONSTRAINT "recall_outcome_attempt_links_namespace_outcome_id_fkey" FOREIGN KEY (namespace, outcome_id) REFERENCES ledger.recall_decision_outcomes(namespace, id);
ALTER TABLE ledger."scope_variant_heads" ADD CONSTRAINT "scope_variant_heads_namespace_event_id_fkey" FOREIGN KEY (namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events(namespace, id);
ALTER TABLE ledger."scope_variant_heads" ADD CONSTRAINT "scope_variant_heads_namespace_memory_id_fkey" FOREIGN KEY (namespace, memory_id) REFERENCES ledger.memory_records(namespace, id);
ALTER TABLE ledger."trial_provenances" ADD CONSTRAINT "trial_provenances_namespace_attempt_id_fkey" FOREIGN KEY (namespace, attempt_id) REFERENCES ledger.attempts(namespace, id);
ALTER TABLE ledger."trial_provenances" ADD CONSTRAINT "trial_provenances_namespace_intervention_id_fkey" FOREIGN KEY (namespace, intervention_id) REFERENCES ledger.interventions(namespace, id);
ALTER TABLE ledger."trial_provenances" ADD CONSTRAINT "trial_provenances_namespace_observation_id_fkey" FOREIGN KEY (namespace, observation_id) REFERENCES ledger.observations(namespace, id);
ALTER TABLE ledger."verifications" ADD CONSTRAINT "verifications_namespace_contract_id_fkey" FOREIGN KEY (namespace, contract_id) REFERENCES ledger.evaluation_contracts(namespace, id);
ALTER TABLE ledger."verifications" ADD CONSTRAINT "verifications_namespace_observation_id_fkey" FOREIGN KEY (namespace, observation_id) REFERENCES ledger.observations(namespace, id);
CREATE INDEX derived_memory_index_failures_by_evidence_snapshot_id ON ledger.derived_memory_index_failures USING btree (namespace, evidence_snapshot_id);
CREATE INDEX derived_memory_index_failures_by_knowledge_snapshot_id ON ledger.derived_memory_index_failures USING btree (namespace, knowledge_snapshot_id);
CREATE INDEX derived_memory_index_failures_by_operation_key ON ledger.derived_memory_index_failures USING btree (namespace, operation_key);
CREATE INDEX derived_memory_index_failures_by_reason ON ledger.derived_memory_index_failures USING btree (namespace, reason);
CREATE INDEX distillation_commit_conflicts_by_reason ON ledger.distillation_commit_conflicts USING btree (namespace, reason);
CREATE INDEX knowledge_candidates_by_record_kind ON ledger.knowledge_candidates USING btree (namespace, record_kind);
CREATE INDEX legacy_imports_by_source_digest ON ledger.legacy_imports USING btree (namespace, source_digest);
CREATE INDEX legacy_records_by_legacy_id ON ledger.legacy_records USING btree (namespace, legacy_id);
CREATE INDEX legacy_records_by_source_table ON ledger.legacy_records USING btree (namespace, source_table);
CREATE INDEX memory_retention_tombstones_by_incident ON ledger.memory_retention_tombstones USING btree (namespace, incident);
CREATE INDEX memory_retention_tombstones_by_retraction ON ledger.memory_retention_tombstones USING btree (namespace, retraction);
CREATE INDEX memory_retention_tombstones_by_retraction_event_id ON ledger.memory_retention_tombstones USING btree (namespace, retraction_event_id);
CREATE INDEX memory_retention_tombstones_by_target_id ON ledger.memory_retention_tombstones USING btree (namespace, target_id);
CREATE INDEX memory_retention_tombstones_by_target_kind ON ledger.memory_retention_tombstones USING btree (namespace, target_kind);
CREATE INDEX retention_erasure_intents_by_incident ON ledger.retention_erasure_intents USING btree (namespace, incident);
CREATE INDEX retention_erasure_intents_by_retraction ON ledger.retention_erasure_intents USING btree (namespace, retraction);
CREATE INDEX retention_erasure_intents_by_retraction_event_id ON ledger.retention_erasure_intents USING btree (namespace, retraction_event_id);
CREATE INDEX retention_erasure_intents_by_target_id ON ledger.retention_erasure_intents USING btree (namespace, target_id);
CREATE INDEX retention_erasure_intents_by_target_kind ON ledger.retention_erasure_intents USING btree (namespace, target_kind);
CREATE UNIQUE INDEX ledger_commits_v1_one_id ON ledger.ledger_commits_v1 USING btree (id text_pattern_ops);
CREATE OR REPLACE FUNCTION ledger.advance(resource text, epoch bigint, expected text, namespace text, "position" bigint, chain_digest text, evidence bigint, lifecycle bigint, retention bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM FROM ledger.owners AS owner
        WHERE owner.resource = advance.resource AND owner.epoch = advance.epoch FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of % is over', epoch, resource;
    END IF;
    UPDATE ledger.namespace_heads AS head
        SET position = advance.position, chain_digest = advance.chain_digest, evidence = advance.evidence,
            lifecycle = advance.lifecycle, retention = advance.retention
        WHERE head.namespace = advance.namespace AND head.chain_digest = advance.expected;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the journal of % has moved on', namespace;
    END IF;
END $function$;
CREATE OR REPLACE FUNCTION ledger.refuse_loss()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION '% on %.%: rows are never lost and never move back', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $function$;
CREATE TRIGGER derived_memory_index_failures_keeps_row BEFORE DELETE OR UPDATE ON ledger.derived_memory_index_failures FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.derived_memory_index_failures ENABLE ALWAYS TRIGGER derived_memory_index_failures_keeps_row;
CREATE TRIGGER derived_memory_index_failures_keeps_statement BEFORE TRUNCATE ON ledger.derived_memory_index_failures FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.derived_memory_index_failures ENABLE ALWAYS TRIGGER derived_memory_index_failures_keeps_statement;
CREATE TRIGGER distillation_commit_conflicts_keeps_row BEFORE DELETE OR UPDATE ON ledger.distillation_commit_conflicts FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.distillation_commit_conflicts ENABLE ALWAYS TRIGGER distillation_commit_conflicts_keeps_row;
CREATE TRIGGER distillation_commit_conflicts_keeps_statement BEFORE TRUNCATE ON ledger.distillation_commit_conflicts FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.distillation_commit_conflicts ENABLE ALWAYS TRIGGER distillation_commit_conflicts_keeps_statement;
CREATE TRIGGER legacy_import_members_keeps_row BEFORE DELETE OR UPDATE ON ledger.legacy_import_members FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_import_members ENABLE ALWAYS TRIGGER legacy_import_members_keeps_row;
CREATE TRIGGER legacy_import_members_keeps_statement BEFORE TRUNCATE ON ledger.legacy_import_members FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_import_members ENABLE ALWAYS TRIGGER legacy_import_members_keeps_statement;
CREATE TRIGGER legacy_imports_keeps_row BEFORE DELETE OR UPDATE ON ledger.legacy_imports FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_imports ENABLE ALWAYS TRIGGER legacy_imports_keeps_row;
CREATE TRIGGER legacy_imports_keeps_statement BEFORE TRUNCATE ON ledger.legacy_imports FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_imports ENABLE ALWAYS TRIGGER legacy_imports_keeps_statement;
CREATE TRIGGER legacy_knowledge_sources_keeps_row BEFORE DELETE OR UPDATE ON ledger.legacy_knowledge_sources FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_knowledge_sources ENABLE ALWAYS TRIGGER legacy_knowledge_sources_keeps_row;
CREATE TRIGGER legacy_knowledge_sources_keeps_statement BEFORE TRUNCATE ON ledger.legacy_knowledge_sources FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_knowledge_sources ENABLE ALWAYS TRIGGER legacy_knowledge_sources_keeps_statement;
CREATE TRIGGER legacy_records_keeps_row BEFORE DELETE OR UPDATE ON ledger.legacy_records FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_records ENABLE ALWAYS TRIGGER legacy_records_keeps_row;
CREATE TRIGGER legacy_records_keeps_statement BEFORE TRUNCATE ON ledger.legacy_records FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.legacy_records ENABLE ALWAYS TRIGGER legacy_records_keeps_statement;
CREATE TRIGGER memory_retention_tombstones_keeps_row BEFORE DELETE OR UPDATE ON ledger.memory_retention_tombstones FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.memory_retention_tombstones ENABLE ALWAYS TRIGGER memory_retention_tombstones_keeps_row;
CREATE TRIGGER memory_retention_tombstones_keeps_statement BEFORE TRUNCATE ON ledger.memory_retention_tombstones FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.memory_retention_tombstones ENABLE ALWAYS TRIGGER memory_retention_tombstones_keeps_statement;
CREATE TRIGGER namespace_heads_refuses_delete BEFORE DELETE ON ledger.namespace_heads FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.namespace_heads ENABLE ALWAYS TRIGGER namespace_heads_refuses_delete;
CREATE TRIGGER namespace_heads_refuses_truncate BEFORE TRUNCATE ON ledger.namespace_heads FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.namespace_heads ENABLE ALWAYS TRIGGER namespace_heads_refuses_truncate;
CREATE TRIGGER namespace_heads_refuses_update BEFORE UPDATE ON ledger.namespace_heads FOR EACH ROW WHEN (((new.namespace <> old.namespace) OR (new."position" < old."position") OR (new.evidence < old.evidence) OR (new.lifecycle < old.lifecycle) OR (new.retention < old.retention))) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.namespace_heads ENABLE ALWAYS TRIGGER namespace_heads_refuses_update;
CREATE TRIGGER owners_refuses_delete BEFORE DELETE ON ledger.owners FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.owners ENABLE ALWAYS TRIGGER owners_refuses_delete;
CREATE TRIGGER owners_refuses_truncate BEFORE TRUNCATE ON ledger.owners FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.owners ENABLE ALWAYS TRIGGER owners_refuses_truncate;
CREATE TRIGGER owners_refuses_update BEFORE UPDATE ON ledger.owners FOR EACH ROW WHEN (((new.resource <> old.resource) OR (new.epoch < old.epoch))) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.owners ENABLE ALWAYS TRIGGER owners_refuses_update;
CREATE TRIGGER retention_affected_artifacts_keeps_row BEFORE DELETE OR UPDATE ON ledger.retention_affected_artifacts FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_affected_artifacts ENABLE ALWAYS TRIGGER retention_affected_artifacts_keeps_row;
CREATE TRIGGER retention_affected_artifacts_keeps_statement BEFORE TRUNCATE ON ledger.retention_affected_artifacts FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_affected_artifacts ENABLE ALWAYS TRIGGER retention_affected_artifacts_keeps_statement;
CREATE TRIGGER retention_affected_indexes_keeps_row BEFORE DELETE OR UPDATE ON ledger.retention_affected_indexes FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_affected_indexes ENABLE ALWAYS TRIGGER retention_affected_indexes_keeps_row;
CREATE TRIGGER retention_affected_indexes_keeps_statement BEFORE TRUNCATE ON ledger.retention_affected_indexes FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_affected_indexes ENABLE ALWAYS TRIGGER retention_affected_indexes_keeps_statement;
CREATE TRIGGER retention_erasure_intents_keeps_row BEFORE DELETE OR UPDATE ON ledger.retention_erasure_intents FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_erasure_intents ENABLE ALWAYS TRIGGER retention_erasure_intents_keeps_row;
CREATE TRIGGER retention_erasure_intents_keeps_statement BEFORE TRUNCATE ON ledger.retention_erasure_intents FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.retention_erasure_intents ENABLE ALWAYS TRIGGER retention_erasure_intents_keeps_statement;
CREATE TRIGGER schema_revision_refuses_delete BEFORE DELETE ON ledger.schema_revision FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_delete;
CREATE TRIGGER schema_revision_refuses_truncate BEFORE TRUNCATE ON ledger.schema_revision FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_truncate;
CREATE TRIGGER schema_revision_refuses_update BEFORE UPDATE ON ledger.schema_revision FOR EACH ROW WHEN (((new.revision)::bigint <= (old.revision)::bigint)) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_update;
CREATE TRIGGER scope_variant_heads_refuses_delete BEFORE DELETE ON ledger.scope_variant_heads FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.scope_variant_heads ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_delete;
CREATE TRIGGER scope_variant_heads_refuses_truncate BEFORE TRUNCATE ON ledger.scope_variant_heads FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.scope_variant_heads ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_truncate;
CREATE TRIGGER scope_variant_heads_refuses_update BEFORE UPDATE ON ledger.scope_variant_heads FOR EACH ROW WHEN (((new.scope_variant_id <> old.scope_variant_id) OR (new.namespace IS DISTINCT FROM old.namespace) OR (new.version < old.version))) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger.scope_variant_heads ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_update;
GRANT INSERT ON ledger."derived_memory_index_failures" TO :"app";
GRANT INSERT ON ledger."distillation_commit_conflicts" TO :"app";
GRANT INSERT ON ledger."legacy_import_members" TO :"app";
GRANT INSERT ON ledger."legacy_imports" TO :"app";
GRANT INSERT ON ledger."legacy_knowledge_sources" TO :"app";
GRANT INSERT ON ledger."legacy_records" TO :"app";
GRANT INSERT ON ledger."memory_retention_tombstones" TO :"app";
GRANT INSERT ON ledger."retention_affected_artifacts" TO :"app";
GRANT INSERT ON ledger."retention_affected_indexes" TO :"app";
GRANT INSERT ON ledger."retention_erasure_intents" TO :"app";
GRANT SELECT ON ledger."derived_memory_index_failures" TO :"app";
GRANT SELECT ON ledger."distillation_commit_conflicts" TO :"app";
GRANT SELECT ON ledger."legacy_import_members" TO :"app";
GRANT SELECT ON ledger."legacy_imports" TO :"app";
GRANT SELECT ON ledger."legacy_knowledge_sources" TO :"app";
GRANT SELECT ON ledger."legacy_records" TO :"app";
GRANT SELECT ON ledger."memory_retention_tombstones" TO :"app";
GRANT SELECT ON ledger."retention_affected_artifacts" TO :"app";
GRANT SELECT ON ledger."retention_affected_indexes" TO :"app";
GRANT SELECT ON ledger."retention_erasure_intents" TO :"app";
