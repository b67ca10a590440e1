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
CREATE INDEX lineage_entries_by_checkpoint_id ON ledger.lineage_entries (namespace, checkpoint_id);
CREATE INDEX lineage_entries_by_entry_kind ON ledger.lineage_entries (namespace, entry_kind);
CREATE INDEX lineage_entries_by_node_id ON ledger.lineage_entries (namespace, node_id);
CREATE INDEX lineage_entries_by_node_report_id ON ledger.lineage_entries (namespace, node_report_id);
CREATE INDEX lineage_entries_by_target_id ON ledger.lineage_entries (namespace, target_id);
CREATE INDEX node_reports_by_checkpoint_id ON ledger.node_reports (namespace, checkpoint_id);
CREATE INDEX node_reports_by_node_id ON ledger.node_reports (namespace, node_id);
CREATE INDEX node_reports_by_parent_report_id ON ledger.node_reports (namespace, parent_report_id);
CREATE INDEX node_reports_by_report_digest ON ledger.node_reports (namespace, report_digest);
CREATE TABLE ledger.claim_traces (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	workspace TEXT NOT NULL,
	task_id TEXT NOT NULL,
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
CREATE INDEX claim_events_by_claim_id ON ledger.claim_events (namespace, claim_id);
CREATE INDEX claim_events_by_counterpart ON ledger.claim_events (namespace, counterpart);
CREATE INDEX claim_events_by_expected_prior ON ledger.claim_events (namespace, expected_prior);
CREATE INDEX claim_events_by_state ON ledger.claim_events (namespace, state);
CREATE INDEX claim_events_by_workspace ON ledger.claim_events (namespace, workspace);
CREATE INDEX claim_receipts_by_task_id ON ledger.claim_receipts (namespace, task_id);
CREATE INDEX claim_receipts_by_trace_id ON ledger.claim_receipts (namespace, trace_id);
CREATE INDEX claim_receipts_by_trial_id ON ledger.claim_receipts (namespace, trial_id);
CREATE INDEX claim_traces_by_task_id ON ledger.claim_traces (namespace, task_id);
CREATE INDEX claim_traces_by_workspace ON ledger.claim_traces (namespace, workspace);
CREATE INDEX workspace_claims_by_workspace ON ledger.workspace_claims (namespace, workspace);
