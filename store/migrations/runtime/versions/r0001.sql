CREATE TABLE runtime.activities (
    id TEXT NOT NULL,
    run_id TEXT,
    phase TEXT NOT NULL CHECK (phase IN ('RUNNING', 'AWAITING_ASSIGNMENT', 'READY', 'LEASED', 'COMMITTING', 'COMMITTED')),
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
CREATE TABLE runtime.handoffs (
    id TEXT NOT NULL,
    run_id TEXT,
    phase TEXT NOT NULL CHECK (phase IN ('PENDING', 'IN_FLIGHT', 'BOUND')),
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
    phase TEXT NOT NULL CHECK (phase IN ('RUNNING', 'COMPLETED', 'FAILED')),
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
CREATE INDEX handoffs_by_phase ON runtime.handoffs (phase, run_id);
CREATE INDEX references_by_phase ON runtime."references" (phase, run_id);
CREATE INDEX runs_by_phase ON runtime.runs (phase, run_id);
CREATE FUNCTION "runtime".refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.%: records are append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;
CREATE TABLE "runtime".schema_revision (revision text PRIMARY KEY, definition_digest text NOT NULL);
INSERT INTO "runtime".schema_revision VALUES ('1', '1cba4f0f332a9f5f2297a846483830bca781cac5114be568ffa6c0b9ff4dd464');
GRANT USAGE ON SCHEMA "runtime" TO :"app";
GRANT SELECT ON ALL TABLES IN SCHEMA "runtime" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."runs" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."activities" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."decisions" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."handoffs" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."authorizations" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."references" TO :"app";
GRANT INSERT, UPDATE ON "runtime"."owners" TO :"app";
