"""What only a database has: foreign and partial schemas, durability, lost connections, stubborn owners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from records.appends import AppendReceipt
from records.errors import FencedError, IdentityConflictError, IntegrityError, UnavailableError
from store.database import connect, translated
from store.install import check, install
from store.ledger.port import LedgerReader
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls
from tests.support.stores import Addresses, Writer, evidence_append, expect, fresh_database
from tests.support.trials import make_evidence

DEFENCELESS = "ALTER TABLE ledger.schema_revision DISABLE TRIGGER ALL"


@pytest.fixture
def store(ledger_database: Addresses) -> Iterator[PostgresLedger]:
    store = PostgresLedger(ledger_database.app, "test")
    yield store
    store.close()


@pytest.fixture
def pg(store: PostgresLedger) -> Writer:
    return Writer.claim(store)


def link(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True)


def backend(store: PostgresLedger) -> int:
    """Return the process id of the backend that writes."""
    connection = store._writer._connection
    assert connection is not None
    return connection.info.backend_pid


class TestInstall:
    def test_twice_is_once(self, ledger_database: Addresses) -> None:
        install(ledger_database.admin, ledger_database.app_role, DEFINITION)

    def test_foreign_schema_is_refused_and_untouched(self, postgres_urls: DatabaseUrls) -> None:
        with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, None) as made:
            with link(made.admin) as connection:
                connection.execute("CREATE SCHEMA ledger")
                connection.execute("CREATE TABLE ledger.attempts (mine int)")
            with pytest.raises(IntegrityError, match="foreign"):
                install(made.admin, made.app_role, DEFINITION)
            with link(made.admin) as connection:
                tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'ledger'").fetchall()
            assert tables == [("attempts",)]

    def test_missing_schema_is_refused(self, postgres_urls: DatabaseUrls) -> None:
        made = fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, None)
        with made as database, link(database.app) as connection, pytest.raises(IntegrityError, match="no schema"):
            check(connection, DEFINITION)

    @pytest.mark.parametrize(
        ("damage", "finding"),
        [
            ("UPDATE ledger.schema_revision SET revision = '99'", "99"),
            (f"{DEFENCELESS}; UPDATE ledger.schema_revision SET definition_digest = 'x'", "revision"),
            (f"{DEFENCELESS}; DELETE FROM ledger.schema_revision", "none"),
            ("UPDATE ledger.alembic_version SET version_num = '7'", "alembic_version"),
            (DEFENCELESS, "schema_revision"),
            ("DROP TRIGGER owners_refuses_update ON ledger.owners", "owners"),
            ("ALTER TABLE ledger.namespace_heads ENABLE TRIGGER namespace_heads_refuses_delete", "namespace_heads"),
            ("DROP TABLE ledger.recall_outcome_attempt_links", "recall_outcome_attempt_links"),
            ("ALTER TABLE ledger.recall_outcome_attempt_links SET UNLOGGED", "recall_outcome_attempt_links"),
            ("ALTER TABLE ledger.attempts ALTER seed TYPE numeric", "attempts.seed bigint not null"),
            ("ALTER TABLE ledger.attempts ALTER contract_id DROP NOT NULL", "attempts.contract_id text not null"),
            ("ALTER TABLE ledger.attempts RENAME COLUMN corpus TO body", "attempts.corpus"),
            ("DROP INDEX ledger.ledger_commits_v1_one_id", "ledger_commits_v1_one_id"),
            ("DROP INDEX ledger.attempts_by_seed", "attempts_by_seed"),
            ("ALTER TABLE ledger.attempts DROP CONSTRAINT attempts_corpus_check", "check 2 on attempts"),
            (
                "ALTER TABLE ledger.capture_operations DROP CONSTRAINT capture_operations_pkey, ADD UNIQUE (id)",
                "primary key 1 on capture_operations",
            ),
            ("ALTER TABLE ledger.experiences DROP CONSTRAINT experiences_one_attempt_id", "unique 1 on experiences"),
            ("ALTER TABLE ledger.attempts DISABLE TRIGGER ALL", "attempts"),
            ("DROP TRIGGER attempts_keeps_row ON ledger.attempts", "attempts"),
        ],
    )
    def test_unknown_or_partial_schema_is_refused(self, postgres_urls: DatabaseUrls, damage: str, finding: str) -> None:
        with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, DEFINITION) as made:
            with link(made.superuser) as connection:
                connection.execute(damage.encode())
            with pytest.raises(IntegrityError, match=finding):
                install(made.admin, made.app_role, DEFINITION)

    def test_failed_install_leaves_nothing(self, postgres_urls: DatabaseUrls) -> None:
        broken = replace(DEFINITION, append_only=(*DEFINITION.append_only, "no_such_table"))
        with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, None) as made:
            with pytest.raises(UnavailableError):
                install(made.admin, made.app_role, broken)
            with link(made.admin) as connection:
                assert connection.execute("SELECT to_regnamespace('ledger')").fetchone() == (None,)

    def test_both_authorities_fit_into_one_server(
        self, ledger_database: Addresses, runtime_database: Addresses
    ) -> None:
        for made, definition in ((ledger_database, DEFINITION), (runtime_database, RUNTIME)):
            with link(made.app) as connection:
                check(connection, definition)


class TestDurability:
    def test_settings_of_a_writing_session(self, store: PostgresLedger) -> None:
        store.claim("durable", "test")
        connection = store._writer._connection
        assert connection is not None
        rows = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)",
            [["fsync", "synchronous_commit", "full_page_writes", "statement_timeout", "lock_timeout",
              "idle_in_transaction_session_timeout"]],
        ).fetchall()  # fmt: skip
        assert dict(rows) == {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "statement_timeout": "120000",
            "lock_timeout": "30000",
            "idle_in_transaction_session_timeout": "60000",
        }

    def test_reading_of_one_moment_may_pause_for_hours_and_holds_up_no_writer(self, store: PostgresLedger) -> None:
        """What is read is embedded between two questions; a model takes minutes for a few thousand texts."""
        with store.reading() as reader:
            reader.namespaces()
            (idle,) = reader._connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()  # type: ignore[attr-defined]
            assert idle == "6h"
            store.claim("beside a reader", "test")

    def test_role_that_asks_for_less_does_not_get_it(self, ledger_database: Addresses) -> None:
        role = sql.Identifier(ledger_database.app_role)
        with link(ledger_database.superuser) as connection:
            connection.execute(sql.SQL("ALTER ROLE {} SET synchronous_commit = off").format(role))
            try:
                ours = connect(ledger_database.app, "test")
                assert ours.execute("SHOW synchronous_commit").fetchone() == ("on",)
                ours.close()
            finally:
                connection.execute(sql.SQL("ALTER ROLE {} RESET synchronous_commit").format(role))


class TestOwners:
    def test_claim_ends_an_owner_that_sits_in_a_transaction(self, pg: Writer, ledger_database: Addresses) -> None:
        old = pg.store
        assert isinstance(old, PostgresLedger)
        connection = old._writer._connection
        assert connection is not None
        connection.execute("BEGIN")
        connection.execute("SELECT epoch FROM ledger.owners WHERE resource = %s FOR SHARE", [pg.epoch.resource])
        connection.execute("SELECT 1")
        pid = connection.info.backend_pid
        successor = PostgresLedger(ledger_database.app, "successor")
        epoch = successor.claim(pg.epoch.resource, "successor")
        assert epoch.number == pg.epoch.number + 1
        with link(ledger_database.superuser) as watcher:
            assert watcher.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() == (0,)
        with pytest.raises(FencedError):
            pg.commit(evidence_append(make_evidence(pg.namespace)))
        with pytest.raises(FencedError):
            pg.commit(evidence_append(make_evidence(pg.namespace)))
        assert not pg.journal()
        receipt = Writer(successor, pg.namespace, epoch).good(evidence_append(make_evidence(pg.namespace)))
        assert receipt[0].committed
        successor.close()

    def test_claims_by_one_process_do_not_end_its_own_backend(self, store: PostgresLedger) -> None:
        first = store.claim("twice", "test")
        pid = backend(store)
        second = store.claim("twice", "test")
        assert (second.number, backend(store)) == (first.number + 1, pid)

    def test_many_claims_before_the_first_append_do_not_spoil_the_appends_after_a_refusal(
        self, store: PostgresLedger
    ) -> None:
        """The driver sees the statements of a claim often, and every refusal is rolled back."""
        writer = [Writer.claim(store) for _ in range(8)][-1]
        for number in range(3):
            good = evidence_append(make_evidence(writer.namespace, seed=number), f"good-{number}")
            alone = evidence_append(make_evidence(writer.namespace, seed=10 + number)[-1:], f"bad-{number}")
            receipt, refusal = writer.commit(good, alone)
            assert isinstance(receipt, AppendReceipt)
            assert isinstance(refusal, IdentityConflictError)  # of an Experience with no Attempt

    def test_owner_is_recorded_with_its_backend(self, pg: Writer, store: PostgresLedger) -> None:
        statement = (
            "SELECT o.holder, o.backend_pid, o.backend_start = a.backend_start::text FROM ledger.owners o "
            "JOIN pg_stat_activity a ON a.pid = o.backend_pid WHERE o.resource = $1"
        )
        assert store._ask([(statement, [pg.epoch.resource])]) == [[("test", str(backend(store)), "t")]]


class TestLostConnections:
    def kill(self, addresses: Addresses, pid: int) -> None:
        with link(addresses.superuser) as connection:
            assert connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid]).fetchone() == (True,)

    def test_killed_in_the_middle_of_a_commit(
        self, pg: Writer, store: PostgresLedger, ledger_database: Addresses
    ) -> None:
        first = evidence_append(make_evidence(pg.namespace, seed=1), "first")
        second = evidence_append(make_evidence(pg.namespace, seed=2), "second")
        calls: list[int] = []

        def guard(_reader: object, _append: object) -> None:
            calls.append(1)
            if len(calls) == 2:  # the first append is written, the second is not
                self.kill(ledger_database, backend(store))

        with pytest.raises(UnavailableError):
            pg.commit(first, second, guard=guard)
        assert not pg.journal()
        assert not store.receipts(pg.namespace, ["first", "second"])
        assert all(answer.committed for answer in pg.good(first, second))
        with link(ledger_database.superuser) as connection:
            owner = connection.execute(
                "SELECT backend_pid FROM ledger.owners WHERE resource = %s", [pg.epoch.resource]
            ).fetchone()
        assert owner == (backend(store),)

    def test_killed_after_the_commit_is_told_by_asking_again(
        self, pg: Writer, store: PostgresLedger, ledger_database: Addresses
    ) -> None:
        append = evidence_append(make_evidence(pg.namespace))
        (first,) = pg.good(append)
        self.kill(ledger_database, backend(store))
        # The connection was idle when it was ended, which is noticed before it is used again.
        assert pg.good(append) == [first]

    def test_reads_find_their_way_back(self, pg: Writer, store: PostgresLedger, ledger_database: Addresses) -> None:
        (receipt,) = pg.good(evidence_append(make_evidence(pg.namespace)))
        self.kill(ledger_database, store._connection.info.backend_pid)
        assert store.receipt(pg.namespace, "import-1") == receipt

    def test_statement_timeout_aborts_the_group(self, pg: Writer, store: PostgresLedger) -> None:
        connection = store._writer._connection
        assert connection is not None

        def guard(reader: LedgerReader, append: object) -> None:
            if append is second:
                reader.namespace_head(pg.namespace)  # a read waits for what was sent
                with translated("ledger"):
                    connection.execute("SET LOCAL statement_timeout = 20")
                    connection.execute("SELECT pg_sleep(10)")

        first = evidence_append(make_evidence(pg.namespace, seed=1), "first")
        second = evidence_append(make_evidence(pg.namespace, seed=2), "second")
        with pytest.raises(UnavailableError, match="timeout"):
            pg.commit(first, second, guard=guard)
        assert not pg.journal()
        assert [expect(AppendReceipt, answer).committed for answer in pg.commit(first, second)] == [True, True]

    def test_no_server(self) -> None:
        with pytest.raises(UnavailableError):
            PostgresLedger("postgresql:///nowhere?host=/nonexistent", "test")


def test_readings_are_repeatable_and_cannot_write(pg: Writer, store: PostgresLedger) -> None:
    with store.reading() as reader:
        before = reader.namespace_head(pg.namespace)
        pg.good(evidence_append(make_evidence(pg.namespace)))
        assert reader.namespace_head(pg.namespace) == before
        assert reader.journal(pg.namespace) == []
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader._connection.execute("SELECT epoch FROM ledger.owners FOR UPDATE")  # type: ignore[attr-defined]


class TestReading:
    def readers(self, dsn: str) -> list[int]:
        """Return the backends that a store keeps for reading one moment."""
        with link(dsn) as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE 'vrm kept reader%' ORDER BY pid"
            )
            return [row[0] for row in found.fetchall()]

    @pytest.fixture
    def kept(self, ledger_database: Addresses) -> Iterator[PostgresLedger]:
        store = PostgresLedger(ledger_database.app, "kept")
        yield store
        store.close()

    def test_a_connection_is_used_again_and_sees_a_later_moment(
        self, kept: PostgresLedger, pg: Writer, ledger_database: Addresses
    ) -> None:
        for seed in range(3):
            pg.good(evidence_append(make_evidence(pg.namespace, seed=seed), f"k{seed}"))
            with kept.reading() as reader:
                assert reader.namespace_head(pg.namespace).position == len(pg.journal())
        assert len(self.readers(ledger_database.superuser)) == 1

    def test_readers_at_one_time_have_connections_of_their_own(
        self, kept: PostgresLedger, ledger_database: Addresses
    ) -> None:
        with kept.reading() as first, kept.reading() as second, kept.reading() as third:
            assert first is not second is not third
            assert len(self.readers(ledger_database.superuser)) == 3
        with kept.reading() as reader:
            assert isinstance(reader.namespaces(), list)
        assert len(kept._idle) == 2

    def test_one_that_the_server_has_ended_is_left(self, kept: PostgresLedger, ledger_database: Addresses) -> None:
        with kept.reading() as reader:
            known = reader.namespaces()
        (pid,) = self.readers(ledger_database.superuser)
        with link(ledger_database.superuser) as connection:
            assert connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid]).fetchone() == (True,)
        with kept.reading() as reader:
            assert reader.namespaces() == known
        assert pid not in self.readers(ledger_database.superuser)

    def test_one_on_which_something_failed_is_not_kept(self, kept: PostgresLedger) -> None:
        with pytest.raises(LookupError), kept.reading():
            raise LookupError
        assert kept._idle == []
