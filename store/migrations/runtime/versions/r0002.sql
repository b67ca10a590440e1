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
CREATE INDEX erasures_by_phase ON runtime.erasures USING btree (phase, run_id);
CREATE OR REPLACE FUNCTION runtime.refuse_loss()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION '% on %.%: rows are never lost and never move back', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $function$;
CREATE TRIGGER activities_refuses_delete BEFORE DELETE ON runtime.activities FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.activities ENABLE ALWAYS TRIGGER activities_refuses_delete;
CREATE TRIGGER activities_refuses_truncate BEFORE TRUNCATE ON runtime.activities FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.activities ENABLE ALWAYS TRIGGER activities_refuses_truncate;
CREATE TRIGGER activities_refuses_update BEFORE UPDATE ON runtime.activities FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.activities ENABLE ALWAYS TRIGGER activities_refuses_update;
CREATE TRIGGER authorizations_refuses_delete BEFORE DELETE ON runtime.authorizations FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.authorizations ENABLE ALWAYS TRIGGER authorizations_refuses_delete;
CREATE TRIGGER authorizations_refuses_truncate BEFORE TRUNCATE ON runtime.authorizations FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.authorizations ENABLE ALWAYS TRIGGER authorizations_refuses_truncate;
CREATE TRIGGER authorizations_refuses_update BEFORE UPDATE ON runtime.authorizations FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.authorizations ENABLE ALWAYS TRIGGER authorizations_refuses_update;
CREATE TRIGGER decisions_refuses_delete BEFORE DELETE ON runtime.decisions FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.decisions ENABLE ALWAYS TRIGGER decisions_refuses_delete;
CREATE TRIGGER decisions_refuses_truncate BEFORE TRUNCATE ON runtime.decisions FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.decisions ENABLE ALWAYS TRIGGER decisions_refuses_truncate;
CREATE TRIGGER decisions_refuses_update BEFORE UPDATE ON runtime.decisions FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.decisions ENABLE ALWAYS TRIGGER decisions_refuses_update;
CREATE TRIGGER erasures_refuses_delete BEFORE DELETE ON runtime.erasures FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.erasures ENABLE ALWAYS TRIGGER erasures_refuses_delete;
CREATE TRIGGER erasures_refuses_truncate BEFORE TRUNCATE ON runtime.erasures FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.erasures ENABLE ALWAYS TRIGGER erasures_refuses_truncate;
CREATE TRIGGER erasures_refuses_update BEFORE UPDATE ON runtime.erasures FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.erasures ENABLE ALWAYS TRIGGER erasures_refuses_update;
CREATE TRIGGER handoffs_refuses_delete BEFORE DELETE ON runtime.handoffs FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.handoffs ENABLE ALWAYS TRIGGER handoffs_refuses_delete;
CREATE TRIGGER handoffs_refuses_truncate BEFORE TRUNCATE ON runtime.handoffs FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.handoffs ENABLE ALWAYS TRIGGER handoffs_refuses_truncate;
CREATE TRIGGER handoffs_refuses_update BEFORE UPDATE ON runtime.handoffs FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.handoffs ENABLE ALWAYS TRIGGER handoffs_refuses_update;
CREATE TRIGGER owners_refuses_delete BEFORE DELETE ON runtime.owners FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.owners ENABLE ALWAYS TRIGGER owners_refuses_delete;
CREATE TRIGGER owners_refuses_truncate BEFORE TRUNCATE ON runtime.owners FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.owners ENABLE ALWAYS TRIGGER owners_refuses_truncate;
CREATE TRIGGER owners_refuses_update BEFORE UPDATE ON runtime.owners FOR EACH ROW WHEN (((new.resource <> old.resource) OR (new.epoch < old.epoch))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.owners ENABLE ALWAYS TRIGGER owners_refuses_update;
CREATE TRIGGER references_refuses_delete BEFORE DELETE ON runtime."references" FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_delete;
CREATE TRIGGER references_refuses_truncate BEFORE TRUNCATE ON runtime."references" FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_truncate;
CREATE TRIGGER references_refuses_update BEFORE UPDATE ON runtime."references" FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime."references" ENABLE ALWAYS TRIGGER references_refuses_update;
CREATE TRIGGER runs_refuses_delete BEFORE DELETE ON runtime.runs FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.runs ENABLE ALWAYS TRIGGER runs_refuses_delete;
CREATE TRIGGER runs_refuses_truncate BEFORE TRUNCATE ON runtime.runs FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.runs ENABLE ALWAYS TRIGGER runs_refuses_truncate;
CREATE TRIGGER runs_refuses_update BEFORE UPDATE ON runtime.runs FOR EACH ROW WHEN (((new.id <> old.id) OR (new.run_id IS DISTINCT FROM old.run_id) OR (new.version < old.version) OR (new.generation < old.generation) OR (new.fence < old.fence) OR (new.body IS DISTINCT FROM old.body))) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.runs ENABLE ALWAYS TRIGGER runs_refuses_update;
CREATE TRIGGER schema_revision_refuses_delete BEFORE DELETE ON runtime.schema_revision FOR EACH ROW EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_delete;
CREATE TRIGGER schema_revision_refuses_truncate BEFORE TRUNCATE ON runtime.schema_revision FOR EACH STATEMENT EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_truncate;
CREATE TRIGGER schema_revision_refuses_update BEFORE UPDATE ON runtime.schema_revision FOR EACH ROW WHEN (((new.revision)::bigint <= (old.revision)::bigint)) EXECUTE FUNCTION runtime.refuse_loss();
ALTER TABLE runtime.schema_revision ENABLE ALWAYS TRIGGER schema_revision_refuses_update;
GRANT INSERT ON runtime."erasures" TO :"app";
GRANT SELECT ON runtime."erasures" TO :"app";
GRANT UPDATE ON runtime."erasures" TO :"app";
