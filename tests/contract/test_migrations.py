"""Migrations on a real Postgres: from kept stores of earlier revisions, whole or not at all, by nobody unfit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from memory.fsck import fsck
from records.errors import FencedError, OutdatedSchemaError, SchemaError, UnavailableError, VrmError
from store import owners
from store.artifacts import ArtifactStore
from store.database import connect
from store.description import describe
from store.install import check, install
from store.ledger.postgres import PostgresLedger
from store.migrations.chain import LEDGER, RUNTIME, Chain
from store.migrations.run import Migration, migrate, migrate_in, planned, transaction
from store.migrations.steps import Steps
from store.runtime.postgres import PostgresRuntime
from store.server import DatabaseUrls
from tests.data.draft_revision import draft
from tests.support.next_revision import next_chain
from tests.support.old_stores import FOLDERS, cloned, loaded, stored_bytes, unpack_artifacts
from tests.support.stores import Addresses, fresh_database

CHAINS = {"ledger": LEDGER, "runtime": RUNTIME}


@pytest.fixture(scope="module")
def old(postgres_urls: DatabaseUrls) -> Iterator[Addresses]:
    """A Ledger as the program of revision 1 left it; no test changes it."""
    with loaded(postgres_urls, FOLDERS[1], "ledger") as addresses:
        yield addresses


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The Ledger's chain with one revision more."""
    return next_chain(tmp_path_factory.mktemp("revisions"))


@pytest.fixture(scope="module")
def migrated(old: Addresses, chain: Chain) -> tuple[Addresses, Migration]:
    """A copy of the old Ledger after its migration along that chain, and what it said."""
    place = cloned(old)
    return place, migrate(place.admin, place.app_role, chain)


def lines(addresses: Addresses, schema: str = "ledger") -> list[str]:
    with psycopg.connect(addresses.admin) as link:
        return describe(link, schema)


def state(addresses: Addresses) -> tuple[object, ...]:
    """Return all that can be seen of a Ledger."""
    with psycopg.connect(addresses.superuser) as link:
        marks = link.execute("SELECT * FROM ledger.schema_revision").fetchall()
        epochs = link.execute("SELECT resource, epoch FROM ledger.owners ORDER BY 1").fetchall()
        schemas = link.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1").fetchall()
    return lines(addresses), stored_bytes(addresses, "ledger"), marks, epochs, schemas


def execute(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as link:
        cursor = link.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def undone(addresses: Addresses, *statements: str) -> Iterator[sa.Connection]:
    """Give a transaction in which something was changed, and undo it afterwards."""
    with transaction(addresses.admin) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        try:
            yield connection
        finally:
            connection.rollback()


def by_migrations(addresses: Addresses, chain: Chain, revision: str = "head") -> None:
    """Make a schema by every revision of its chain, as a history without stores would."""
    schema = chain.definition.schema
    with transaction(addresses.admin) as connection:
        raw: Any = connection.connection.driver_connection
        raw.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        chain.upgrade(connection, Steps(raw, schema, addresses.app_role), revision)


class TestChain:
    @pytest.mark.parametrize("name", sorted(CHAINS))
    def test_schema_from_scratch_equals_schema_by_migrations(self, postgres_urls: DatabaseUrls, name: str) -> None:
        chain = CHAINS[name]
        admin, app = (getattr(postgres_urls, f"{name}_{role}") for role in ("admin", "app"))
        with fresh_database(admin, app, chain.definition) as new, fresh_database(admin, app, None) as walked:
            by_migrations(walked, chain)
            assert lines(walked, name) == lines(new, name)
            mark = f"TABLE {name}.alembic_version"
            assert execute(walked.admin, mark) == execute(new.admin, mark) == [(chain.head,)]

    def test_one_revision_more_equals_its_schema_from_scratch(
        self, postgres_urls: DatabaseUrls, migrated: tuple[Addresses, Migration], chain: Chain
    ) -> None:
        admin, app = postgres_urls.ledger_admin, postgres_urls.ledger_app
        with fresh_database(admin, app, chain.definition) as new:
            assert lines(migrated[0]) == lines(new)

    @pytest.mark.parametrize("name", sorted(CHAINS))
    def test_revision_1_is_what_its_program_made(self, postgres_urls: DatabaseUrls, name: str) -> None:
        admin, app = (getattr(postgres_urls, f"{name}_{role}") for role in ("admin", "app"))
        with loaded(postgres_urls, FOLDERS[1], name) as kept, fresh_database(admin, app, None) as walked:
            by_migrations(walked, CHAINS[name], "1")
            assert [line for line in lines(walked, name) if "alembic_version" not in line] == lines(kept, name)
            mark = f"TABLE {name}.schema_revision"
            assert execute(walked.admin, mark) == execute(kept.admin, mark)

    def test_a_draft_of_a_revision_leads_to_the_definition(
        self, old: Addresses, migrated: tuple[Addresses, Migration], chain: Chain
    ) -> None:
        given, wanted = (
            [line for line in lines(place) if "alembic_version" not in line] for place in (old, migrated[0])
        )
        with undone(old) as connection:
            raw: Any = connection.connection.driver_connection
            Steps(raw, "ledger", old.app_role).run(draft(given, wanted, chain))
            assert describe(raw, "ledger") == wanted


class TestKeptStores:
    @pytest.mark.parametrize("revision", sorted(FOLDERS))
    def test_opens_after_migration_with_every_byte_as_it_was(
        self, postgres_urls: DatabaseUrls, tmp_path: Path, revision: int
    ) -> None:
        folder = FOLDERS[revision]
        unpack_artifacts(folder, tmp_path)
        with (
            loaded(postgres_urls, folder, "ledger") as ledger_place,
            loaded(postgres_urls, folder, "runtime") as runtime_place,
        ):
            for name, place in (("ledger", ledger_place), ("runtime", runtime_place)):
                before = stored_bytes(place, name)
                if revision < int(CHAINS[name].head):
                    with pytest.raises(OutdatedSchemaError, match="vrm migrate"):
                        install(place.admin, place.app_role, CHAINS[name].definition)
                migrate(place.admin, place.app_role, CHAINS[name])
                install(place.admin, place.app_role, CHAINS[name].definition)
                assert stored_bytes(place, name) == before
            ledger, runtime = PostgresLedger(ledger_place.app, "test"), PostgresRuntime(runtime_place.app, "test")
            with ledger.reading() as reader:
                report = fsck(reader, runtime, ArtifactStore(str(tmp_path)))
            assert report.clean, report.text()
            assert report.checked["records"] > 100
            ledger.close()
            runtime.close()

    def test_an_old_store_is_refused_with_the_remedy(self, old: Addresses, chain: Chain) -> None:
        with psycopg.connect(old.app) as link, pytest.raises(OutdatedSchemaError, match="vrm migrate"):
            check(link, chain.definition)

    def test_next_revision_fills_what_it_adds_and_keeps_every_byte(
        self, old: Addresses, migrated: tuple[Addresses, Migration], chain: Chain
    ) -> None:
        place, done = migrated
        assert (done.before, done.after) == ("1", chain.definition.revision)
        assert done.steps[-1].what == "Files become rows, roots a column, and notes a kind."
        with psycopg.connect(place.app) as link:
            check(link, chain.definition)
        assert stored_bytes(place, "ledger") == stored_bytes(old, "ledger")
        files = execute(
            place.app,
            "SELECT count(*), count(*) FILTER (WHERE file.sha256 = payload::jsonb -> 'artifacts' -> (ordinal - 1)::int "
            "->> 'sha256' AND file.namespace = whole.namespace) "
            "FROM ledger.observation_files AS file JOIN ledger.observations AS whole ON whole.id = file.parent_id",
        )
        assert files == [(10, 10)]
        roots = execute(place.app, "SELECT dataset_root, count(*) FROM ledger.attempts GROUP BY 1 ORDER BY 1")
        assert roots == [("a", 2), ("b", 2), ("c", 2), ("d", 2), ("held-out", 2)]
        assert execute(place.app, "SELECT DISTINCT exit_code FROM ledger.observations") == [(0,)]

    def test_new_tables_are_guarded_and_granted(self, migrated: tuple[Addresses, Migration]) -> None:
        place, _ = migrated
        for statement in ("UPDATE {} SET namespace = 'x'", "DELETE FROM {}", "TRUNCATE {} CASCADE"):
            for table in ("ledger.observation_files", "ledger.attempts"):
                with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                    execute(place.superuser, statement.format(table))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(place.app, "DELETE FROM ledger.field_notes")

    def test_a_second_time_there_is_nothing_to_do(self, migrated: tuple[Addresses, Migration], chain: Chain) -> None:
        place, done = migrated
        before = state(place)
        again = migrate(place.admin, place.app_role, chain)
        assert (again.before, again.after, again.steps) == (done.after, done.after, ())
        assert state(place) == before

    def test_a_plan_changes_nothing(self, old: Addresses, chain: Chain) -> None:
        before = state(old)
        plan = planned(old.admin, chain)
        assert plan.as_json()["to"] == chain.definition.revision
        assert [step.revision for step in plan.steps][-1] == chain.definition.revision
        assert state(old) == before


class TestWholeOrNotAtAll:
    @pytest.mark.parametrize(
        ("fault", "error", "finding"),
        [
            ("raise KeyError('lost')", KeyError, "lost"),
            ('steps.run("INSERT INTO ledger.no_such_table VALUES (1)")', UnavailableError, "no_such_table"),
            ('steps.run("UPDATE ledger.attempts SET seed = 1")', VrmError, "append-only"),
            ('steps.run("DROP TRIGGER attempts_keeps_row ON ledger.attempts")', SchemaError, "attempts_keeps_row"),
            ("steps.replace_check('attempts', 'seed', 'seed = 0')", RuntimeError, "0 constraints"),
        ],
    )
    def test_a_failing_step_leaves_the_earlier_revision(
        self, old: Addresses, tmp_path: Path, fault: str, error: type[Exception], finding: str
    ) -> None:
        before = state(old)
        with pytest.raises(error, match=finding):
            migrate(old.admin, old.app_role, next_chain(tmp_path, fault))
        assert state(old) == before

    @pytest.mark.parametrize(
        ("damage", "finding"),
        [
            ("DROP TABLE ledger.recall_outcome_attempt_links", "recall_outcome_attempt_links"),
            ("DROP INDEX ledger.attempts_by_corpus", "attempts_by_corpus"),
            ("ALTER TABLE ledger.attempts ALTER seed TYPE numeric", "attempts.seed bigint"),
            ("ALTER TABLE ledger.attempts ALTER contract_id DROP NOT NULL", "attempts.contract_id"),
            ("ALTER TABLE ledger.attempts DROP CONSTRAINT attempts_corpus_check", "attempts_corpus_check"),
            ("ALTER TABLE ledger.attempts DROP CONSTRAINT attempts_pkey CASCADE, ADD UNIQUE (id)", "attempts_pkey"),
            ("ALTER TABLE ledger.attempts ENABLE REPLICA TRIGGER attempts_keeps_row", "attempts_keeps_row"),
            ("DROP TRIGGER attempts_keeps_row ON ledger.attempts", "attempts_keeps_row"),
            ("REVOKE INSERT ON ledger.attempts FROM vrm_ledger_app", "INSERT on attempts"),
            ("UPDATE ledger.schema_revision SET definition_digest = 'x'", "another definition"),
        ],
    )
    def test_a_partial_schema_is_refused(self, old: Addresses, chain: Chain, damage: str, finding: str) -> None:
        with undone(old, damage) as connection, pytest.raises(SchemaError, match=finding):
            migrate_in(connection, old.app_role, chain)

    def test_a_refused_schema_is_untouched(self, old: Addresses, chain: Chain) -> None:
        place = cloned(old)
        execute(place.admin, "DROP INDEX ledger.attempts_by_corpus")
        before = state(place)
        with pytest.raises(SchemaError, match="attempts_by_corpus"):
            migrate(place.admin, place.app_role, chain)
        assert state(place) == before

    def test_what_somebody_added_is_left_alone(self, old: Addresses, chain: Chain) -> None:
        with undone(old, "CREATE INDEX mine ON ledger.attempts (run_id)") as connection:
            assert migrate_in(connection, old.app_role, chain).steps
            assert connection.exec_driver_sql("SELECT to_regclass('ledger.mine') IS NOT NULL").scalar()


class TestRefusals:
    @pytest.mark.parametrize("revision", ["99", "0", "draft"])
    def test_a_later_or_unknown_revision(self, old: Addresses, revision: str) -> None:
        moved = (
            f"UPDATE ledger.schema_revision SET revision = '{revision}'",
            f"CREATE TABLE ledger.alembic_version AS SELECT '{revision}' AS version_num",
        )
        with undone(old, *moved) as connection:
            raw: Any = connection.connection.driver_connection
            with pytest.raises(SchemaError, match=f"revision {revision}.*use the version that made it") as refusal:
                check(raw, LEDGER.definition)
            assert not isinstance(refusal.value, OutdatedSchemaError)
            with pytest.raises(SchemaError, match=revision):
                migrate_in(connection, old.app_role, LEDGER)

    def test_marks_that_contradict_each_other(self, old: Addresses) -> None:
        with undone(old, "CREATE TABLE ledger.alembic_version AS SELECT '2' AS version_num") as connection:
            raw: Any = connection.connection.driver_connection
            with pytest.raises(SchemaError, match="alembic_version"):
                check(raw, LEDGER.definition)
            with pytest.raises(SchemaError, match="alembic_version"):
                migrate_in(connection, old.app_role, LEDGER)

    def test_no_schema_and_a_foreign_one(self, postgres_urls: DatabaseUrls) -> None:
        with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, None) as made:
            with pytest.raises(SchemaError, match="vrm up"):
                migrate(made.admin, made.app_role, LEDGER)
            execute(made.admin, "CREATE SCHEMA ledger; CREATE TABLE ledger.attempts (mine int)")
            with pytest.raises(SchemaError, match="foreign"):
                migrate(made.admin, made.app_role, LEDGER)
            assert execute(made.admin, "SELECT tablename FROM pg_tables WHERE schemaname = 'ledger'") == [("attempts",)]

    def test_a_role_that_does_not_own_the_schema(self, old: Addresses, chain: Chain) -> None:
        with pytest.raises(UnavailableError, match="ADMIN_DSN"):
            migrate(old.app, old.app_role, chain)


def test_owners_are_kept_out(old: Addresses, chain: Chain) -> None:
    """One that is connected is a refusal; one that comes back is fenced; a program of before cannot claim."""
    place, resource = cloned(old), "commit-coordinator/0"
    with connect(place.app, "owner writer") as link:
        epoch = owners.claim(link, ("ledger", "1"), resource, "coordinator here 7")
        before = state(place)
        with pytest.raises(UnavailableError, match=r"commit-coordinator/0 by coordinator here 7.*vrm down"):
            migrate(place.admin, place.app_role, chain)
        assert state(place) == before
    assert migrate(place.admin, place.app_role, chain).steps
    with connect(place.app, "owner writer") as link:
        with pytest.raises(SchemaError, match="use the version"):
            owners.claim(link, ("ledger", "1"), resource, "test")
        owners.rebind(link, "ledger", resource, epoch)
        with link.transaction(), link.cursor() as cursor, pytest.raises(FencedError):
            owners.hold(cursor, "ledger", [(resource, epoch)])
        assert owners.claim(link, ("ledger", chain.definition.revision), resource, "test") == epoch + 2
