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
CREATE INDEX claim_events_by_claim_id ON ledger.claim_events USING btree (namespace, claim_id);
CREATE INDEX claim_events_by_counterpart ON ledger.claim_events USING btree (namespace, counterpart);
CREATE INDEX claim_events_by_expected_prior ON ledger.claim_events USING btree (namespace, expected_prior);
CREATE INDEX claim_events_by_state ON ledger.claim_events USING btree (namespace, state);
CREATE INDEX claim_events_by_workspace ON ledger.claim_events USING btree (namespace, workspace);
CREATE INDEX claim_receipts_by_task_id ON ledger.claim_receipts USING btree (namespace, task_id);
CREATE INDEX claim_receipts_by_trace_id ON ledger.claim_receipts USING btree (namespace, trace_id);
CREATE INDEX claim_receipts_by_trial_id ON ledger.claim_receipts USING btree (namespace, trial_id);
CREATE INDEX claim_traces_by_task_id ON ledger.claim_traces USING btree (namespace, task_id);
CREATE INDEX claim_traces_by_workspace ON ledger.claim_traces USING btree (namespace, workspace);
CREATE INDEX workspace_claims_by_workspace ON ledger.workspace_claims USING btree (namespace, workspace);
