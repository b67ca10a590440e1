CREATE TABLE ledger.append_receipts (
	namespace TEXT NOT NULL,
	permit_key TEXT NOT NULL,
	permit_digest TEXT NOT NULL CHECK (octet_length(permit_digest) = 64),
	transition TEXT NOT NULL,
	receipt TEXT NOT NULL,
	PRIMARY KEY (namespace, permit_key)
);
CREATE TABLE ledger.claim_traces (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	workspace TEXT NOT NULL,
	task_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
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
CREATE TABLE ledger.evaluation_contracts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	name TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.evidence_snapshots (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.hypotheses (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.knowledge_snapshots (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.ledger_commits_v1 (
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL,
	noun TEXT NOT NULL,
	id TEXT NOT NULL,
	payload_digest TEXT NOT NULL CHECK (octet_length(payload_digest) = 64),
	chain_digest TEXT NOT NULL CHECK (octet_length(chain_digest) = 64),
	permit_key TEXT NOT NULL,
	PRIMARY KEY (namespace, position),
	CHECK (position > 0)
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
CREATE TABLE ledger.namespace_heads (
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL,
	chain_digest TEXT NOT NULL CHECK (octet_length(chain_digest) = 64),
	evidence BIGINT NOT NULL,
	lifecycle BIGINT NOT NULL,
	retention BIGINT NOT NULL,
	PRIMARY KEY (namespace),
	CHECK (position >= greatest(evidence, lifecycle, retention)),
	CHECK (least(evidence, lifecycle, retention) >= 0)
);
CREATE TABLE ledger.no_commit_receipts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	authorization_id TEXT NOT NULL,
	reason TEXT NOT NULL CHECK (reason IN ('PRECONDITION_CONFLICT', 'CANONICAL_RECORD_CONFLICT', 'AUTHORIZED_PAYLOAD_REJECTED', 'RETENTION_FRONTIER_STALE', 'RETENTION_REVOKED', 'LIFECYCLE_HEAD_STALE')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT no_commit_receipts_one_authorization_id UNIQUE (authorization_id)
);
CREATE TABLE ledger.node_reports (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	parent_report_id TEXT,
	checkpoint_id TEXT NOT NULL,
	node_id TEXT NOT NULL,
	report_digest TEXT NOT NULL CHECK (octet_length(report_digest) = 64),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT node_reports_one_namespace_checkpoint_id_node_id UNIQUE (namespace, checkpoint_id, node_id),
	FOREIGN KEY(namespace, parent_report_id) REFERENCES ledger.node_reports (namespace, id)
);
CREATE TABLE ledger.owners (
	resource TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	holder TEXT NOT NULL,
	backend_pid BIGINT NOT NULL,
	backend_start TEXT NOT NULL,
	PRIMARY KEY (resource)
);
CREATE TABLE ledger.reference_index_builds (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.reference_sources (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.workspace_claims (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	workspace TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.capture_operations (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	snapshot_id TEXT NOT NULL,
	operation_key TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT capture_operations_one_namespace_operation_key UNIQUE (namespace, operation_key),
	FOREIGN KEY(namespace, snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.claim_events (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	claim_id TEXT NOT NULL,
	counterpart TEXT,
	expected_prior TEXT NOT NULL,
	workspace TEXT NOT NULL,
	state TEXT NOT NULL CHECK (state IN ('probationary', 'durable', 'contested', 'stale', 'superseded', 'quarantined')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT claim_events_one_claim_id_expected_prior UNIQUE (claim_id, expected_prior),
	FOREIGN KEY(namespace, claim_id) REFERENCES ledger.workspace_claims (namespace, id),
	FOREIGN KEY(namespace, counterpart) REFERENCES ledger.workspace_claims (namespace, id)
);
CREATE TABLE ledger.claim_receipts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	trace_id TEXT NOT NULL,
	trial_id TEXT NOT NULL,
	task_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT claim_receipts_one_trace_id_trial_id UNIQUE (trace_id, trial_id),
	FOREIGN KEY(namespace, trace_id) REFERENCES ledger.claim_traces (namespace, id)
);
CREATE TABLE ledger.claim_trace_items (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	claim_id TEXT NOT NULL,
	reason TEXT NOT NULL CHECK (reason IN ('selected', 'quota', 'budget', 'limit')),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT claim_trace_items_one_claim_id UNIQUE (parent_id, claim_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.claim_traces (namespace, id),
	FOREIGN KEY(namespace, claim_id) REFERENCES ledger.workspace_claims (namespace, id)
);
CREATE TABLE ledger.decision_contract_views (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	contract_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, contract_id) REFERENCES ledger.evaluation_contracts (namespace, id)
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
CREATE TABLE ledger.derived_memory_indexes (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	knowledge_snapshot_id TEXT NOT NULL,
	evidence_snapshot_id TEXT,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, knowledge_snapshot_id) REFERENCES ledger.knowledge_snapshots (namespace, id),
	FOREIGN KEY(namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.knowledge_candidates (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	evidence_snapshot_id TEXT NOT NULL,
	record_kind TEXT NOT NULL CHECK (record_kind IN ('semantic', 'procedure')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
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
CREATE TABLE ledger.lineage_entries (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	node_report_id TEXT,
	target_id TEXT,
	checkpoint_id TEXT NOT NULL,
	node_id TEXT NOT NULL,
	entry_kind TEXT NOT NULL CHECK (entry_kind IN ('observation', 'experiment_result', 'failure_case', 'procedure', 'reflection', 'artifact_summary', 'paper_claim', 'reproducibility_event')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, node_report_id) REFERENCES ledger.node_reports (namespace, id),
	FOREIGN KEY(namespace, target_id) REFERENCES ledger.lineage_entries (namespace, id)
);
CREATE TABLE ledger.node_report_artifacts (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	relative_path TEXT NOT NULL,
	claimed TEXT CHECK (octet_length(claimed) = 64),
	computed TEXT CHECK (octet_length(computed) = 64),
	integrity TEXT NOT NULL CHECK (integrity IN ('verified', 'missing', 'mismatch', 'unhashed')),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT node_report_artifacts_one_relative_path UNIQUE (parent_id, relative_path),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.node_reports (namespace, id)
);
CREATE TABLE ledger.recall_input_snapshots (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	knowledge_snapshot_id TEXT NOT NULL,
	evidence_snapshot_id TEXT,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, knowledge_snapshot_id) REFERENCES ledger.knowledge_snapshots (namespace, id),
	FOREIGN KEY(namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.reference_chunk_sets (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	source_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id)
);
CREATE TABLE ledger.reference_contexts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	index_build_id TEXT NOT NULL,
	research_context_digest TEXT NOT NULL CHECK (octet_length(research_context_digest) = 64),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, index_build_id) REFERENCES ledger.reference_index_builds (namespace, id)
);
CREATE TABLE ledger.decision_intents (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	contract_view_id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	activity_id TEXT NOT NULL,
	iteration BIGINT NOT NULL CHECK (iteration >= 0),
	arm TEXT,
	pair TEXT,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT decision_intents_one_run_id_activity_id_iteration UNIQUE (run_id, activity_id, iteration),
	FOREIGN KEY(namespace, contract_view_id) REFERENCES ledger.decision_contract_views (namespace, id)
);
CREATE TABLE ledger.lineage_entry_artifacts (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	relative_path TEXT NOT NULL,
	sha256 TEXT NOT NULL CHECK (octet_length(sha256) = 64),
	integrity TEXT NOT NULL CHECK (integrity IN ('verified', 'unverified')),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT lineage_entry_artifacts_one_relative_path UNIQUE (parent_id, relative_path),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.lineage_entries (namespace, id)
);
CREATE TABLE ledger.memory_records (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	prior_memory_id TEXT,
	candidate_id TEXT NOT NULL,
	record_kind TEXT NOT NULL CHECK (record_kind IN ('semantic', 'procedure')),
	family_id TEXT NOT NULL,
	scope_variant_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, prior_memory_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, candidate_id) REFERENCES ledger.knowledge_candidates (namespace, id)
);
CREATE TABLE ledger.recall_input_index_builds (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	index_build_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT recall_input_index_builds_one_index_build_id UNIQUE (parent_id, index_build_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.recall_input_snapshots (namespace, id),
	FOREIGN KEY(namespace, index_build_id) REFERENCES ledger.derived_memory_indexes (namespace, id)
);
CREATE TABLE ledger.reference_chunks (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	chunk_id TEXT NOT NULL,
	sha256 TEXT NOT NULL CHECK (octet_length(sha256) = 64),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_chunks_one_chunk_id UNIQUE (parent_id, chunk_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE TABLE ledger.reference_context_cards (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	source_id TEXT NOT NULL,
	chunks_id TEXT NOT NULL,
	chunk_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_context_cards_one_chunk_id UNIQUE (parent_id, chunk_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_contexts (namespace, id),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id),
	FOREIGN KEY(namespace, chunks_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE TABLE ledger.reference_index_members (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	source_id TEXT NOT NULL,
	chunks_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_index_members_one_source_id UNIQUE (parent_id, source_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_index_builds (namespace, id),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id),
	FOREIGN KEY(namespace, chunks_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE TABLE ledger.decision_recall_contexts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	intent_id TEXT NOT NULL,
	recall_input_id TEXT NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('ok', 'empty', 'degraded')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT decision_recall_contexts_one_intent_id UNIQUE (intent_id),
	FOREIGN KEY(namespace, intent_id) REFERENCES ledger.decision_intents (namespace, id),
	FOREIGN KEY(namespace, recall_input_id) REFERENCES ledger.recall_input_snapshots (namespace, id)
);
CREATE TABLE ledger.distillation_decisions (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	candidate_id TEXT NOT NULL,
	memory_id TEXT,
	decision TEXT NOT NULL CHECK (decision IN ('rejected', 'deferred', 'promoted_provisional', 'promoted_active', 'promoted_contested')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_decisions_one_candidate_id UNIQUE (candidate_id),
	FOREIGN KEY(namespace, candidate_id) REFERENCES ledger.knowledge_candidates (namespace, id),
	FOREIGN KEY(namespace, memory_id) REFERENCES ledger.memory_records (namespace, id)
);
CREATE TABLE ledger.knowledge_lifecycle_events (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	memory_id TEXT NOT NULL,
	evidence_snapshot_id TEXT NOT NULL,
	scope_variant_id TEXT NOT NULL,
	expected_prior TEXT NOT NULL,
	disposition TEXT NOT NULL CHECK (disposition IN ('provisional', 'active', 'contested', 'superseded', 'retracted')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT knowledge_lifecycle_events_one_scope_variant_id_expected_prior UNIQUE (scope_variant_id, expected_prior),
	FOREIGN KEY(namespace, memory_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.attempts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	hypothesis_id TEXT NOT NULL,
	contract_id TEXT NOT NULL,
	recall_context_id TEXT,
	run_id TEXT NOT NULL,
	evaluation_task_id TEXT NOT NULL,
	task_scope_id TEXT NOT NULL,
	corpus TEXT NOT NULL CHECK (corpus IN ('development', 'evaluation')),
	seed BIGINT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, hypothesis_id) REFERENCES ledger.hypotheses (namespace, id),
	FOREIGN KEY(namespace, contract_id) REFERENCES ledger.evaluation_contracts (namespace, id),
	FOREIGN KEY(namespace, recall_context_id) REFERENCES ledger.decision_recall_contexts (namespace, id)
);
CREATE TABLE ledger.decision_recall_context_items (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	citation_id TEXT NOT NULL,
	card_id TEXT NOT NULL,
	memory_id TEXT,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT decision_recall_context_items_one_citation_id UNIQUE (parent_id, citation_id),
	CONSTRAINT decision_recall_context_items_one_card_id UNIQUE (parent_id, card_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.decision_recall_contexts (namespace, id),
	FOREIGN KEY(namespace, memory_id) REFERENCES ledger.memory_records (namespace, id)
);
CREATE TABLE ledger.knowledge_snapshot_members (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	scope_variant_id TEXT NOT NULL,
	memory_id TEXT NOT NULL,
	event_id TEXT NOT NULL,
	disposition TEXT NOT NULL CHECK (disposition IN ('provisional', 'active', 'contested', 'superseded', 'retracted')),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT knowledge_snapshot_members_one_scope_variant_id UNIQUE (parent_id, scope_variant_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.knowledge_snapshots (namespace, id),
	FOREIGN KEY(namespace, memory_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id)
);
CREATE TABLE ledger.memory_relations (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	source_memory_id TEXT NOT NULL,
	target_memory_id TEXT NOT NULL,
	event_id TEXT NOT NULL,
	relation TEXT NOT NULL CHECK (relation IN ('supersedes', 'contests', 'scope_refines', 'procedure_implements')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, source_memory_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, target_memory_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id),
	CHECK (source_memory_id <> target_memory_id),
	CHECK (relation <> 'contests' OR source_memory_id COLLATE "C" < target_memory_id)
);
CREATE TABLE ledger.retention_erasure_intents (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	retraction_event_id TEXT,
	target_id TEXT NOT NULL,
	incident TEXT NOT NULL,
	target_kind TEXT NOT NULL CHECK (target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', 'reference-source', 'node-report', 'lineage-entry', 'artifact')),
	retraction TEXT NOT NULL CHECK (retraction IN ('lifecycle_event', 'not_applicable')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT retention_erasure_intents_one_namespace_target_id UNIQUE (namespace, target_id),
	FOREIGN KEY(namespace, retraction_event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id)
);
CREATE TABLE ledger.scope_variant_heads (
	scope_variant_id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	event_id TEXT NOT NULL,
	memory_id TEXT NOT NULL,
	disposition TEXT NOT NULL,
	version BIGINT NOT NULL CHECK (version > 0),
	PRIMARY KEY (scope_variant_id),
	FOREIGN KEY(namespace, event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id),
	FOREIGN KEY(namespace, memory_id) REFERENCES ledger.memory_records (namespace, id)
);
CREATE TABLE ledger.interventions (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	attempt_id TEXT NOT NULL,
	hypothesis_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id),
	FOREIGN KEY(namespace, hypothesis_id) REFERENCES ledger.hypotheses (namespace, id)
);
CREATE TABLE ledger.memory_retention_tombstones (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	intent_id TEXT NOT NULL,
	retraction_event_id TEXT,
	incident TEXT NOT NULL,
	target_kind TEXT NOT NULL CHECK (target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', 'reference-source', 'node-report', 'lineage-entry', 'artifact')),
	target_id TEXT NOT NULL,
	retraction TEXT NOT NULL CHECK (retraction IN ('lifecycle_event', 'not_applicable')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT memory_retention_tombstones_one_intent_id UNIQUE (intent_id),
	FOREIGN KEY(namespace, intent_id) REFERENCES ledger.retention_erasure_intents (namespace, id),
	FOREIGN KEY(namespace, retraction_event_id) REFERENCES ledger.knowledge_lifecycle_events (namespace, id)
);
CREATE TABLE ledger.observations (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	attempt_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id)
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
CREATE TABLE ledger.observation_artifacts (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	role TEXT NOT NULL,
	sha256 TEXT NOT NULL CHECK (octet_length(sha256) = 64),
	size_bytes BIGINT NOT NULL CHECK (size_bytes >= 0),
	PRIMARY KEY (parent_id, ordinal),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.observations (namespace, id)
);
CREATE TABLE ledger.recall_decision_outcomes (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	intent_id TEXT NOT NULL,
	context_id TEXT,
	hypothesis_id TEXT,
	intervention_id TEXT,
	run_id TEXT NOT NULL,
	source_status TEXT NOT NULL CHECK (source_status IN ('blocked', 'not_requested', 'cancelled_before_recall', 'failed_before_recall', 'empty', 'degraded', 'ok')),
	decision_status TEXT NOT NULL CHECK (decision_status IN ('blocked', 'actor_failed', 'rejected', 'no_op', 'completed', 'cancelled')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT recall_decision_outcomes_one_intent_id UNIQUE (intent_id),
	FOREIGN KEY(namespace, intent_id) REFERENCES ledger.decision_intents (namespace, id),
	FOREIGN KEY(namespace, context_id) REFERENCES ledger.decision_recall_contexts (namespace, id),
	FOREIGN KEY(namespace, hypothesis_id) REFERENCES ledger.hypotheses (namespace, id),
	FOREIGN KEY(namespace, intervention_id) REFERENCES ledger.interventions (namespace, id)
);
CREATE TABLE ledger.trial_provenances (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	attempt_id TEXT NOT NULL,
	observation_id TEXT NOT NULL,
	intervention_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT trial_provenances_one_observation_id UNIQUE (observation_id),
	FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id),
	FOREIGN KEY(namespace, observation_id) REFERENCES ledger.observations (namespace, id),
	FOREIGN KEY(namespace, intervention_id) REFERENCES ledger.interventions (namespace, id)
);
CREATE TABLE ledger.verifications (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	observation_id TEXT NOT NULL,
	contract_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, observation_id) REFERENCES ledger.observations (namespace, id),
	FOREIGN KEY(namespace, contract_id) REFERENCES ledger.evaluation_contracts (namespace, id)
);
CREATE TABLE ledger.experiences (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	hypothesis_id TEXT NOT NULL,
	attempt_id TEXT NOT NULL,
	observation_id TEXT NOT NULL,
	verification_id TEXT,
	intervention_id TEXT,
	provenance_id TEXT,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT experiences_one_attempt_id UNIQUE (attempt_id),
	FOREIGN KEY(namespace, hypothesis_id) REFERENCES ledger.hypotheses (namespace, id),
	FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id),
	FOREIGN KEY(namespace, observation_id) REFERENCES ledger.observations (namespace, id),
	FOREIGN KEY(namespace, verification_id) REFERENCES ledger.verifications (namespace, id),
	FOREIGN KEY(namespace, intervention_id) REFERENCES ledger.interventions (namespace, id),
	FOREIGN KEY(namespace, provenance_id) REFERENCES ledger.trial_provenances (namespace, id)
);
CREATE TABLE ledger.recall_decision_dispositions (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	citation_id TEXT NOT NULL,
	card_id TEXT NOT NULL,
	verdict TEXT NOT NULL CHECK (verdict IN ('adopted', 'rejected', 'not_considered')),
	reason TEXT NOT NULL CHECK (reason IN ('adopted_applicable', 'rejected_scope_mismatch', 'rejected_counterevidence', 'rejected_protected_action', 'rejected_stale_dependency', 'rejected_low_expected_utility', 'not_considered_budget', 'not_considered_cancelled', 'not_considered_actor_failed')),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT recall_decision_dispositions_one_citation_id UNIQUE (parent_id, citation_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.recall_decision_outcomes (namespace, id)
);
CREATE TABLE ledger.distillation_work_items (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	experience_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_work_items_one_experience_id UNIQUE (experience_id),
	FOREIGN KEY(namespace, experience_id) REFERENCES ledger.experiences (namespace, id)
);
CREATE TABLE ledger.evidence_snapshot_members (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	experience_id TEXT NOT NULL,
	bundle_digest TEXT NOT NULL CHECK (octet_length(bundle_digest) = 64),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT evidence_snapshot_members_one_experience_id UNIQUE (parent_id, experience_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.evidence_snapshots (namespace, id),
	FOREIGN KEY(namespace, experience_id) REFERENCES ledger.experiences (namespace, id)
);
CREATE TABLE ledger.memory_evidence_links (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	experience_id TEXT NOT NULL,
	comparator_id TEXT NOT NULL,
	observation_id TEXT NOT NULL,
	verification_id TEXT NOT NULL,
	intervention_id TEXT NOT NULL,
	provenance_id TEXT NOT NULL,
	relation TEXT NOT NULL CHECK (relation IN ('supports', 'contradicts', 'ties')),
	support_unit_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.memory_records (namespace, id),
	FOREIGN KEY(namespace, experience_id) REFERENCES ledger.experiences (namespace, id),
	FOREIGN KEY(namespace, comparator_id) REFERENCES ledger.experiences (namespace, id),
	FOREIGN KEY(namespace, observation_id) REFERENCES ledger.observations (namespace, id),
	FOREIGN KEY(namespace, verification_id) REFERENCES ledger.verifications (namespace, id),
	FOREIGN KEY(namespace, intervention_id) REFERENCES ledger.interventions (namespace, id),
	FOREIGN KEY(namespace, provenance_id) REFERENCES ledger.trial_provenances (namespace, id)
);
CREATE TABLE ledger.recall_outcome_attempt_links (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	outcome_id TEXT NOT NULL,
	attempt_id TEXT NOT NULL,
	experience_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT recall_outcome_attempt_links_one_outcome_id UNIQUE (outcome_id),
	FOREIGN KEY(namespace, outcome_id) REFERENCES ledger.recall_decision_outcomes (namespace, id),
	FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id),
	FOREIGN KEY(namespace, experience_id) REFERENCES ledger.experiences (namespace, id)
);
CREATE TABLE ledger.distillation_work_assignments (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	work_item_id TEXT NOT NULL,
	activity_id TEXT NOT NULL,
	run_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_work_assignments_one_work_item_id UNIQUE (work_item_id),
	CONSTRAINT distillation_work_assignments_one_activity_id UNIQUE (activity_id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id)
);
CREATE TABLE ledger.enqueue_transactions (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	work_item_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT enqueue_transactions_one_work_item_id UNIQUE (work_item_id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id)
);
CREATE TABLE ledger.experience_distillation_receipts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	experience_id TEXT NOT NULL,
	work_item_id TEXT,
	disposition TEXT NOT NULL CHECK (disposition IN ('queued_for_comparison', 'deferred_ineligible', 'not_required', 'abandoned_before_enqueue')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT experience_distillation_receipts_one_experience_id UNIQUE (experience_id),
	FOREIGN KEY(namespace, experience_id) REFERENCES ledger.experiences (namespace, id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id)
);
CREATE TABLE ledger.distillation_batches (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	work_item_id TEXT NOT NULL,
	assignment_id TEXT NOT NULL,
	evidence_snapshot_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_batches_one_work_item_id UNIQUE (work_item_id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id),
	FOREIGN KEY(namespace, assignment_id) REFERENCES ledger.distillation_work_assignments (namespace, id),
	FOREIGN KEY(namespace, evidence_snapshot_id) REFERENCES ledger.evidence_snapshots (namespace, id)
);
CREATE TABLE ledger.distillation_reports (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	batch_id TEXT NOT NULL,
	work_item_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_reports_one_batch_id UNIQUE (batch_id),
	FOREIGN KEY(namespace, batch_id) REFERENCES ledger.distillation_batches (namespace, id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id)
);
CREATE TABLE ledger.distillation_work_dispositions (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	work_item_id TEXT NOT NULL,
	batch_id TEXT NOT NULL,
	candidate_id TEXT,
	decision_id TEXT,
	outcome TEXT NOT NULL CHECK (outcome IN ('covered_by_decision', 'deferred_no_comparator', 'rejected_not_comparable', 'rejected_no_candidate')),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_work_dispositions_one_work_item_id UNIQUE (work_item_id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id),
	FOREIGN KEY(namespace, batch_id) REFERENCES ledger.distillation_batches (namespace, id),
	FOREIGN KEY(namespace, candidate_id) REFERENCES ledger.knowledge_candidates (namespace, id),
	FOREIGN KEY(namespace, decision_id) REFERENCES ledger.distillation_decisions (namespace, id)
);
CREATE TABLE ledger.distillation_work_completions (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	work_item_id TEXT NOT NULL,
	batch_id TEXT,
	report_id TEXT,
	status TEXT NOT NULL CHECK (status IN ('completed', 'dead_letter', 'cancelled')),
	run_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	CONSTRAINT distillation_work_completions_one_work_item_id UNIQUE (work_item_id),
	FOREIGN KEY(namespace, work_item_id) REFERENCES ledger.distillation_work_items (namespace, id),
	FOREIGN KEY(namespace, batch_id) REFERENCES ledger.distillation_batches (namespace, id),
	FOREIGN KEY(namespace, report_id) REFERENCES ledger.distillation_reports (namespace, id)
);
CREATE INDEX claim_traces_by_task_id ON ledger.claim_traces (namespace, task_id);
CREATE INDEX claim_traces_by_workspace ON ledger.claim_traces (namespace, workspace);
CREATE INDEX distillation_commit_conflicts_by_reason ON ledger.distillation_commit_conflicts (namespace, reason);
CREATE INDEX evaluation_contracts_by_name ON ledger.evaluation_contracts (namespace, name);
CREATE UNIQUE INDEX ledger_commits_v1_one_id ON ledger.ledger_commits_v1 (id text_pattern_ops);
CREATE INDEX legacy_imports_by_source_digest ON ledger.legacy_imports (namespace, source_digest);
CREATE INDEX legacy_records_by_legacy_id ON ledger.legacy_records (namespace, legacy_id);
CREATE INDEX legacy_records_by_source_table ON ledger.legacy_records (namespace, source_table);
CREATE INDEX no_commit_receipts_by_reason ON ledger.no_commit_receipts (namespace, reason);
CREATE INDEX node_reports_by_checkpoint_id ON ledger.node_reports (namespace, checkpoint_id);
CREATE INDEX node_reports_by_node_id ON ledger.node_reports (namespace, node_id);
CREATE INDEX node_reports_by_parent_report_id ON ledger.node_reports (namespace, parent_report_id);
CREATE INDEX node_reports_by_report_digest ON ledger.node_reports (namespace, report_digest);
CREATE INDEX workspace_claims_by_workspace ON ledger.workspace_claims (namespace, workspace);
CREATE INDEX capture_operations_by_operation_key ON ledger.capture_operations (namespace, operation_key);
CREATE INDEX capture_operations_by_snapshot_id ON ledger.capture_operations (namespace, snapshot_id);
CREATE INDEX claim_events_by_claim_id ON ledger.claim_events (namespace, claim_id);
CREATE INDEX claim_events_by_counterpart ON ledger.claim_events (namespace, counterpart);
CREATE INDEX claim_events_by_expected_prior ON ledger.claim_events (namespace, expected_prior);
CREATE INDEX claim_events_by_state ON ledger.claim_events (namespace, state);
CREATE INDEX claim_events_by_workspace ON ledger.claim_events (namespace, workspace);
CREATE INDEX claim_receipts_by_task_id ON ledger.claim_receipts (namespace, task_id);
CREATE INDEX claim_receipts_by_trace_id ON ledger.claim_receipts (namespace, trace_id);
CREATE INDEX claim_receipts_by_trial_id ON ledger.claim_receipts (namespace, trial_id);
CREATE INDEX decision_contract_views_by_contract_id ON ledger.decision_contract_views (namespace, contract_id);
CREATE INDEX derived_memory_index_failures_by_evidence_snapshot_id ON ledger.derived_memory_index_failures (namespace, evidence_snapshot_id);
CREATE INDEX derived_memory_index_failures_by_knowledge_snapshot_id ON ledger.derived_memory_index_failures (namespace, knowledge_snapshot_id);
CREATE INDEX derived_memory_index_failures_by_operation_key ON ledger.derived_memory_index_failures (namespace, operation_key);
CREATE INDEX derived_memory_index_failures_by_reason ON ledger.derived_memory_index_failures (namespace, reason);
CREATE INDEX derived_memory_indexes_by_evidence_snapshot_id ON ledger.derived_memory_indexes (namespace, evidence_snapshot_id);
CREATE INDEX derived_memory_indexes_by_knowledge_snapshot_id ON ledger.derived_memory_indexes (namespace, knowledge_snapshot_id);
CREATE INDEX knowledge_candidates_by_evidence_snapshot_id ON ledger.knowledge_candidates (namespace, evidence_snapshot_id);
CREATE INDEX knowledge_candidates_by_record_kind ON ledger.knowledge_candidates (namespace, record_kind);
CREATE INDEX lineage_entries_by_checkpoint_id ON ledger.lineage_entries (namespace, checkpoint_id);
CREATE INDEX lineage_entries_by_entry_kind ON ledger.lineage_entries (namespace, entry_kind);
CREATE INDEX lineage_entries_by_node_id ON ledger.lineage_entries (namespace, node_id);
CREATE INDEX lineage_entries_by_node_report_id ON ledger.lineage_entries (namespace, node_report_id);
CREATE INDEX lineage_entries_by_target_id ON ledger.lineage_entries (namespace, target_id);
CREATE INDEX recall_input_snapshots_by_evidence_snapshot_id ON ledger.recall_input_snapshots (namespace, evidence_snapshot_id);
CREATE INDEX recall_input_snapshots_by_knowledge_snapshot_id ON ledger.recall_input_snapshots (namespace, knowledge_snapshot_id);
CREATE INDEX reference_chunk_sets_by_source_id ON ledger.reference_chunk_sets (namespace, source_id);
CREATE INDEX reference_contexts_by_index_build_id ON ledger.reference_contexts (namespace, index_build_id);
CREATE INDEX reference_contexts_by_research_context_digest ON ledger.reference_contexts (namespace, research_context_digest);
CREATE INDEX decision_intents_by_activity_id ON ledger.decision_intents (namespace, activity_id);
CREATE INDEX decision_intents_by_arm ON ledger.decision_intents (namespace, arm);
CREATE INDEX decision_intents_by_contract_view_id ON ledger.decision_intents (namespace, contract_view_id);
CREATE INDEX decision_intents_by_iteration ON ledger.decision_intents (namespace, iteration);
CREATE INDEX decision_intents_by_pair ON ledger.decision_intents (namespace, pair);
CREATE INDEX decision_intents_by_run_id ON ledger.decision_intents (namespace, run_id);
CREATE INDEX memory_records_by_candidate_id ON ledger.memory_records (namespace, candidate_id);
CREATE INDEX memory_records_by_family_id ON ledger.memory_records (namespace, family_id);
CREATE INDEX memory_records_by_prior_memory_id ON ledger.memory_records (namespace, prior_memory_id);
CREATE INDEX memory_records_by_record_kind ON ledger.memory_records (namespace, record_kind);
CREATE INDEX memory_records_by_scope_variant_id ON ledger.memory_records (namespace, scope_variant_id);
CREATE INDEX decision_recall_contexts_by_recall_input_id ON ledger.decision_recall_contexts (namespace, recall_input_id);
CREATE INDEX decision_recall_contexts_by_status ON ledger.decision_recall_contexts (namespace, status);
CREATE INDEX distillation_decisions_by_decision ON ledger.distillation_decisions (namespace, decision);
CREATE INDEX distillation_decisions_by_memory_id ON ledger.distillation_decisions (namespace, memory_id);
CREATE INDEX knowledge_lifecycle_events_by_disposition ON ledger.knowledge_lifecycle_events (namespace, disposition);
CREATE INDEX knowledge_lifecycle_events_by_evidence_snapshot_id ON ledger.knowledge_lifecycle_events (namespace, evidence_snapshot_id);
CREATE INDEX knowledge_lifecycle_events_by_expected_prior ON ledger.knowledge_lifecycle_events (namespace, expected_prior);
CREATE INDEX knowledge_lifecycle_events_by_memory_id ON ledger.knowledge_lifecycle_events (namespace, memory_id);
CREATE INDEX knowledge_lifecycle_events_by_scope_variant_id ON ledger.knowledge_lifecycle_events (namespace, scope_variant_id);
CREATE INDEX attempts_by_contract_id ON ledger.attempts (namespace, contract_id);
CREATE INDEX attempts_by_corpus ON ledger.attempts (namespace, corpus);
CREATE INDEX attempts_by_evaluation_task_id ON ledger.attempts (namespace, evaluation_task_id);
CREATE INDEX attempts_by_hypothesis_id ON ledger.attempts (namespace, hypothesis_id);
CREATE INDEX attempts_by_recall_context_id ON ledger.attempts (namespace, recall_context_id);
CREATE INDEX attempts_by_run_id ON ledger.attempts (namespace, run_id);
CREATE INDEX attempts_by_seed ON ledger.attempts (namespace, seed);
CREATE INDEX attempts_by_task_scope_id ON ledger.attempts (namespace, task_scope_id);
CREATE INDEX memory_relations_by_event_id ON ledger.memory_relations (namespace, event_id);
CREATE INDEX memory_relations_by_relation ON ledger.memory_relations (namespace, relation);
CREATE INDEX memory_relations_by_source_memory_id ON ledger.memory_relations (namespace, source_memory_id);
CREATE INDEX memory_relations_by_target_memory_id ON ledger.memory_relations (namespace, target_memory_id);
CREATE INDEX retention_erasure_intents_by_incident ON ledger.retention_erasure_intents (namespace, incident);
CREATE INDEX retention_erasure_intents_by_retraction ON ledger.retention_erasure_intents (namespace, retraction);
CREATE INDEX retention_erasure_intents_by_retraction_event_id ON ledger.retention_erasure_intents (namespace, retraction_event_id);
CREATE INDEX retention_erasure_intents_by_target_id ON ledger.retention_erasure_intents (namespace, target_id);
CREATE INDEX retention_erasure_intents_by_target_kind ON ledger.retention_erasure_intents (namespace, target_kind);
CREATE INDEX interventions_by_attempt_id ON ledger.interventions (namespace, attempt_id);
CREATE INDEX interventions_by_hypothesis_id ON ledger.interventions (namespace, hypothesis_id);
CREATE INDEX memory_retention_tombstones_by_incident ON ledger.memory_retention_tombstones (namespace, incident);
CREATE INDEX memory_retention_tombstones_by_retraction ON ledger.memory_retention_tombstones (namespace, retraction);
CREATE INDEX memory_retention_tombstones_by_retraction_event_id ON ledger.memory_retention_tombstones (namespace, retraction_event_id);
CREATE INDEX memory_retention_tombstones_by_target_id ON ledger.memory_retention_tombstones (namespace, target_id);
CREATE INDEX memory_retention_tombstones_by_target_kind ON ledger.memory_retention_tombstones (namespace, target_kind);
CREATE INDEX observations_by_attempt_id ON ledger.observations (namespace, attempt_id);
CREATE INDEX recall_decision_outcomes_by_context_id ON ledger.recall_decision_outcomes (namespace, context_id);
CREATE INDEX recall_decision_outcomes_by_decision_status ON ledger.recall_decision_outcomes (namespace, decision_status);
CREATE INDEX recall_decision_outcomes_by_hypothesis_id ON ledger.recall_decision_outcomes (namespace, hypothesis_id);
CREATE INDEX recall_decision_outcomes_by_intervention_id ON ledger.recall_decision_outcomes (namespace, intervention_id);
CREATE INDEX recall_decision_outcomes_by_run_id ON ledger.recall_decision_outcomes (namespace, run_id);
CREATE INDEX recall_decision_outcomes_by_source_status ON ledger.recall_decision_outcomes (namespace, source_status);
CREATE INDEX trial_provenances_by_attempt_id ON ledger.trial_provenances (namespace, attempt_id);
CREATE INDEX trial_provenances_by_intervention_id ON ledger.trial_provenances (namespace, intervention_id);
CREATE INDEX verifications_by_contract_id ON ledger.verifications (namespace, contract_id);
CREATE INDEX verifications_by_observation_id ON ledger.verifications (namespace, observation_id);
CREATE INDEX experiences_by_hypothesis_id ON ledger.experiences (namespace, hypothesis_id);
CREATE INDEX experiences_by_intervention_id ON ledger.experiences (namespace, intervention_id);
CREATE INDEX experiences_by_observation_id ON ledger.experiences (namespace, observation_id);
CREATE INDEX experiences_by_provenance_id ON ledger.experiences (namespace, provenance_id);
CREATE INDEX experiences_by_verification_id ON ledger.experiences (namespace, verification_id);
CREATE INDEX recall_outcome_attempt_links_by_attempt_id ON ledger.recall_outcome_attempt_links (namespace, attempt_id);
CREATE INDEX recall_outcome_attempt_links_by_experience_id ON ledger.recall_outcome_attempt_links (namespace, experience_id);
CREATE INDEX distillation_work_assignments_by_run_id ON ledger.distillation_work_assignments (namespace, run_id);
CREATE INDEX experience_distillation_receipts_by_disposition ON ledger.experience_distillation_receipts (namespace, disposition);
CREATE INDEX experience_distillation_receipts_by_work_item_id ON ledger.experience_distillation_receipts (namespace, work_item_id);
CREATE INDEX distillation_batches_by_assignment_id ON ledger.distillation_batches (namespace, assignment_id);
CREATE INDEX distillation_batches_by_evidence_snapshot_id ON ledger.distillation_batches (namespace, evidence_snapshot_id);
CREATE INDEX distillation_reports_by_work_item_id ON ledger.distillation_reports (namespace, work_item_id);
CREATE INDEX distillation_work_dispositions_by_batch_id ON ledger.distillation_work_dispositions (namespace, batch_id);
CREATE INDEX distillation_work_dispositions_by_candidate_id ON ledger.distillation_work_dispositions (namespace, candidate_id);
CREATE INDEX distillation_work_dispositions_by_decision_id ON ledger.distillation_work_dispositions (namespace, decision_id);
CREATE INDEX distillation_work_dispositions_by_outcome ON ledger.distillation_work_dispositions (namespace, outcome);
CREATE INDEX distillation_work_completions_by_batch_id ON ledger.distillation_work_completions (namespace, batch_id);
CREATE INDEX distillation_work_completions_by_report_id ON ledger.distillation_work_completions (namespace, report_id);
CREATE INDEX distillation_work_completions_by_run_id ON ledger.distillation_work_completions (namespace, run_id);
CREATE INDEX distillation_work_completions_by_status ON ledger.distillation_work_completions (namespace, status);
CREATE FUNCTION ledger.advance(resource text, epoch bigint, expected text, namespace text, "position" bigint,
    chain_digest text, evidence bigint, lifecycle bigint, retention bigint) RETURNS void
LANGUAGE plpgsql AS $$
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
END $$;
CREATE FUNCTION ledger.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.%: rows are never lost and never move back', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;
CREATE TRIGGER namespace_heads_refuses_delete BEFORE DELETE ON ledger."namespace_heads" FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."namespace_heads" ENABLE ALWAYS TRIGGER namespace_heads_refuses_delete;
CREATE TRIGGER namespace_heads_refuses_truncate BEFORE TRUNCATE ON ledger."namespace_heads" FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."namespace_heads" ENABLE ALWAYS TRIGGER namespace_heads_refuses_truncate;
CREATE TRIGGER namespace_heads_refuses_update BEFORE UPDATE ON ledger."namespace_heads" FOR EACH ROW WHEN (new.namespace <> old.namespace OR new.position < old.position OR new.evidence < old.evidence OR new.lifecycle < old.lifecycle OR new.retention < old.retention) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."namespace_heads" ENABLE ALWAYS TRIGGER namespace_heads_refuses_update;
CREATE TRIGGER owners_refuses_delete BEFORE DELETE ON ledger."owners" FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."owners" ENABLE ALWAYS TRIGGER owners_refuses_delete;
CREATE TRIGGER owners_refuses_truncate BEFORE TRUNCATE ON ledger."owners" FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."owners" ENABLE ALWAYS TRIGGER owners_refuses_truncate;
CREATE TRIGGER owners_refuses_update BEFORE UPDATE ON ledger."owners" FOR EACH ROW WHEN (new.resource <> old.resource OR new.epoch < old.epoch) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."owners" ENABLE ALWAYS TRIGGER owners_refuses_update;
CREATE TRIGGER scope_variant_heads_refuses_delete BEFORE DELETE ON ledger."scope_variant_heads" FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."scope_variant_heads" ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_delete;
CREATE TRIGGER scope_variant_heads_refuses_truncate BEFORE TRUNCATE ON ledger."scope_variant_heads" FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."scope_variant_heads" ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_truncate;
CREATE TRIGGER scope_variant_heads_refuses_update BEFORE UPDATE ON ledger."scope_variant_heads" FOR EACH ROW WHEN (new.scope_variant_id <> old.scope_variant_id OR new.namespace IS DISTINCT FROM old.namespace OR new.version < old.version) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."scope_variant_heads" ENABLE ALWAYS TRIGGER scope_variant_heads_refuses_update;
CREATE TRIGGER schema_revision_refuses_delete BEFORE DELETE ON ledger."schema_revision" FOR EACH ROW EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_delete;
CREATE TRIGGER schema_revision_refuses_truncate BEFORE TRUNCATE ON ledger."schema_revision" FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_truncate;
CREATE TRIGGER schema_revision_refuses_update BEFORE UPDATE ON ledger."schema_revision" FOR EACH ROW WHEN (new.revision::bigint <= old.revision::bigint) EXECUTE FUNCTION ledger.refuse_loss();
ALTER TABLE ledger."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_update;
CREATE TABLE runtime.activities (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('RUNNING', 'CANCELLED', 'FAILED', 'AWAITING_ASSIGNMENT', 'READY', 'LEASED', 'COMMITTING', 'COMMITTED', 'CLOSING')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.authorizations (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('COMMITTED', 'GRANTED', 'RETIRED_NO_COMMIT')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.decisions (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('REGISTERING', 'RETIRED', 'OPEN', 'CONTEXT_COMMITTING', 'CONTEXT_COMMITTED', 'OUTCOME_COMMITTING', 'OUTCOME_COMMITTED')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.erasures (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('REGISTERING', 'RETIRED', 'OPEN', 'CLOSING', 'CLOSED')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.handoffs (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('RETIRED', 'PENDING', 'IN_FLIGHT', 'BOUND', 'PROVED_ABSENT', 'ABANDONING', 'ABANDONED', 'RELEASED')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.owners (
	resource TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	holder TEXT NOT NULL,
	backend_pid BIGINT NOT NULL,
	backend_start TEXT NOT NULL,
	PRIMARY KEY (resource)
);
CREATE TABLE runtime."references" (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('ACTIVE', 'RELEASED')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE runtime.runs (
	id TEXT NOT NULL,
	run_id TEXT,
	phase TEXT NOT NULL CHECK (phase IN ('RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILING', 'FAILED')),
	version BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	fence BIGINT NOT NULL,
	body TEXT NOT NULL,
	facts TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX activities_by_phase ON runtime.activities (phase, run_id);
CREATE INDEX authorizations_by_phase ON runtime.authorizations (phase, run_id);
CREATE INDEX decisions_by_phase ON runtime.decisions (phase, run_id);
CREATE INDEX erasures_by_phase ON runtime.erasures (phase, run_id);
CREATE INDEX handoffs_by_phase ON runtime.handoffs (phase, run_id);
CREATE INDEX references_by_phase ON runtime."references" (phase, run_id);
CREATE INDEX runs_by_phase ON runtime.runs (phase, run_id);
CREATE FUNCTION runtime.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.%: rows are never lost and never move back', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;
CREATE TRIGGER activities_refuses_delete BEFORE DELETE ON runtime."activities" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."activities" ENABLE ALWAYS TRIGGER activities_refuses_delete;
CREATE TRIGGER activities_refuses_truncate BEFORE TRUNCATE ON runtime."activities" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."activities" ENABLE ALWAYS TRIGGER activities_refuses_truncate;
CREATE TRIGGER activities_refuses_update BEFORE UPDATE ON runtime."activities" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."activities" ENABLE ALWAYS TRIGGER activities_refuses_update;
CREATE TRIGGER authorizations_refuses_delete BEFORE DELETE ON runtime."authorizations" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."authorizations" ENABLE ALWAYS TRIGGER authorizations_refuses_delete;
CREATE TRIGGER authorizations_refuses_truncate BEFORE TRUNCATE ON runtime."authorizations" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."authorizations" ENABLE ALWAYS TRIGGER authorizations_refuses_truncate;
CREATE TRIGGER authorizations_refuses_update BEFORE UPDATE ON runtime."authorizations" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."authorizations" ENABLE ALWAYS TRIGGER authorizations_refuses_update;
CREATE TRIGGER decisions_refuses_delete BEFORE DELETE ON runtime."decisions" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."decisions" ENABLE ALWAYS TRIGGER decisions_refuses_delete;
CREATE TRIGGER decisions_refuses_truncate BEFORE TRUNCATE ON runtime."decisions" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."decisions" ENABLE ALWAYS TRIGGER decisions_refuses_truncate;
CREATE TRIGGER decisions_refuses_update BEFORE UPDATE ON runtime."decisions" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."decisions" ENABLE ALWAYS TRIGGER decisions_refuses_update;
CREATE TRIGGER erasures_refuses_delete BEFORE DELETE ON runtime."erasures" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."erasures" ENABLE ALWAYS TRIGGER erasures_refuses_delete;
CREATE TRIGGER erasures_refuses_truncate BEFORE TRUNCATE ON runtime."erasures" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."erasures" ENABLE ALWAYS TRIGGER erasures_refuses_truncate;
CREATE TRIGGER erasures_refuses_update BEFORE UPDATE ON runtime."erasures" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."erasures" ENABLE ALWAYS TRIGGER erasures_refuses_update;
CREATE TRIGGER handoffs_refuses_delete BEFORE DELETE ON runtime."handoffs" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."handoffs" ENABLE ALWAYS TRIGGER handoffs_refuses_delete;
CREATE TRIGGER handoffs_refuses_truncate BEFORE TRUNCATE ON runtime."handoffs" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."handoffs" ENABLE ALWAYS TRIGGER handoffs_refuses_truncate;
CREATE TRIGGER handoffs_refuses_update BEFORE UPDATE ON runtime."handoffs" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."handoffs" ENABLE ALWAYS TRIGGER handoffs_refuses_update;
CREATE TRIGGER owners_refuses_delete BEFORE DELETE ON runtime."owners" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."owners" ENABLE ALWAYS TRIGGER owners_refuses_delete;
CREATE TRIGGER owners_refuses_truncate BEFORE TRUNCATE ON runtime."owners" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."owners" ENABLE ALWAYS TRIGGER owners_refuses_truncate;
CREATE TRIGGER owners_refuses_update BEFORE UPDATE ON runtime."owners" FOR EACH ROW WHEN (new.resource <> old.resource OR new.epoch < old.epoch) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."owners" ENABLE ALWAYS TRIGGER owners_refuses_update;
CREATE TRIGGER references_refuses_delete BEFORE DELETE ON runtime."references" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_delete;
CREATE TRIGGER references_refuses_truncate BEFORE TRUNCATE ON runtime."references" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_truncate;
CREATE TRIGGER references_refuses_update BEFORE UPDATE ON runtime."references" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_update;
CREATE TRIGGER runs_refuses_delete BEFORE DELETE ON runtime."runs" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."runs" ENABLE ALWAYS TRIGGER runs_refuses_delete;
CREATE TRIGGER runs_refuses_truncate BEFORE TRUNCATE ON runtime."runs" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."runs" ENABLE ALWAYS TRIGGER runs_refuses_truncate;
CREATE TRIGGER runs_refuses_update BEFORE UPDATE ON runtime."runs" FOR EACH ROW WHEN (new.id <> old.id OR new.run_id IS DISTINCT FROM old.run_id OR new.version < old.version OR new.generation < old.generation OR new.fence < old.fence OR new.body IS DISTINCT FROM old.body) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."runs" ENABLE ALWAYS TRIGGER runs_refuses_update;
CREATE TRIGGER schema_revision_refuses_delete BEFORE DELETE ON runtime."schema_revision" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_delete;
CREATE TRIGGER schema_revision_refuses_truncate BEFORE TRUNCATE ON runtime."schema_revision" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_truncate;
CREATE TRIGGER schema_revision_refuses_update BEFORE UPDATE ON runtime."schema_revision" FOR EACH ROW WHEN (new.revision::bigint <= old.revision::bigint) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."schema_revision" ENABLE ALWAYS TRIGGER schema_revision_refuses_update;
