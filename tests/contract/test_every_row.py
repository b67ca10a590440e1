"""Every row of a whole campaign and of decisions in both arms, as the database saw it come: none without a receipt.

A trigger of the test writes down each insert, update and delete on every table of the Ledger with its transaction. The
public methods of the adapters are called one by one beside that: only two of them leave a mark.
"""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from records.flows import FLOWS
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore, Request, records, standing
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import CHILD_TABLES, DEFINITION, MOVABLE, RECORD_TABLES
from store.runtime.memory import MemoryRuntime
from store.server import DatabaseUrls
from tests.support.samples import authorization_id
from tests.support.stack import GOOD, Stack, Stores, effects
from tests.support.stack_decisions import ARMS, Study, learn
from tests.support.stores import Addresses, Writer, evidence_append, fresh_database, fresh_namespace
from tests.support.trials import make_evidence

RECORDS: Final = {table.name: noun for noun, table in RECORD_TABLES.items()}
_WATCH: Final = """
    CREATE SCHEMA watch;
    CREATE TABLE watch.log (n bigserial, tx text, relation text, verb text, line jsonb);
    CREATE FUNCTION watch.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO watch.log (tx, relation, verb, line) VALUES (pg_current_xact_id()::text, TG_TABLE_NAME, TG_OP,
            CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END);
        RETURN NULL;
    END $$
"""


@dataclass(frozen=True)
class Line:
    """One change of one row."""

    tx: str
    table: str
    verb: str
    row: dict[str, Any]


class Watched:
    """A database whose every change is written down."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses = addresses
        self._link = psycopg.connect(addresses.superuser, autocommit=True)
        self._link.execute(_WATCH)
        for table in DEFINITION.metadata.sorted_tables:
            statement = "CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW {}"
            note = sql.SQL("EXECUTE FUNCTION watch.note()")
            self._link.execute(sql.SQL(statement).format(sql.Identifier("ledger", table.name), note))

    def lines(self) -> list[Line]:
        rows = self._link.execute("SELECT tx, relation, verb, line FROM watch.log ORDER BY n").fetchall()
        return [Line(*row) for row in rows]

    def close(self) -> None:
        self._link.close()


@pytest.fixture(scope="module")
def watched(postgres_urls: DatabaseUrls) -> Iterator[Watched]:
    with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, DEFINITION) as addresses:
        made = Watched(addresses)
        yield made
        made.close()


@pytest.fixture(scope="module")
def transactions(watched: Watched) -> list[list[Line]]:
    """The transactions of a sweep that is distilled, and of one decision in each arm."""
    store = PostgresLedger(watched.addresses.app, "watched")
    stack = Stack(Stores(store, MemoryRuntime(), ArtifactStore(f"memory://{fresh_namespace()}")), fresh_namespace())
    recall_input = learn(stack, GOOD)
    for arm in ARMS:
        Study(stack, "study", arm, recall_input).decide()
    assert not stack.study("second", effects(stack, "second", {"e": 0.06, "f": 0.055}, seed=1))
    store.close()
    grouped: dict[str, list[Line]] = {}
    for line in watched.lines():
        grouped.setdefault(line.tx, []).append(line)
    return list(grouped.values())


def of(lines: list[Line], table: str, verb: str = "INSERT") -> list[dict[str, Any]]:
    return [line.row for line in lines if (line.table, line.verb) == (table, verb)]


def test_every_record_comes_with_its_journal_row_and_its_receipt(transactions: list[list[Line]]) -> None:
    written = 0
    for lines in transactions:
        records = [(RECORDS[line.table], line.row["id"]) for line in lines if line.table in RECORDS]
        journal = of(lines, "ledger_commits_v1")
        assert sorted(records) == sorted((row["noun"], row["id"]) for row in journal)
        receipts = {row["permit_key"]: json.loads(row["receipt"]) for row in of(lines, "append_receipts")}
        for row in journal:
            assert row["id"] in receipts[row["permit_key"]]["record_ids"]
        written += len(records)
    assert written > 150


def test_every_child_row_comes_with_its_parent(transactions: list[list[Line]]) -> None:
    seen = set()
    for lines in transactions:
        ids = {line.row["id"] for line in lines if line.table in RECORDS}
        for line in lines:
            if line.table in CHILD_TABLES:
                assert line.row["parent_id"] in ids
                seen.add(line.table)
    assert "observation_artifacts" in seen


def test_heads_move_with_the_rows_that_move_them(transactions: list[list[Line]]) -> None:
    for lines in transactions:
        events = {line.row["id"] for line in lines if line.table == "knowledge_lifecycle_events"}
        for line in lines:
            if line.table == "scope_variant_heads":
                assert line.row["event_id"] in events
        journal = of(lines, "ledger_commits_v1")
        last = of(lines, "namespace_heads", "UPDATE")
        assert bool(journal) == bool(last)
        if journal:
            top = max(journal, key=lambda row: int(row["position"]))
            assert (last[-1]["position"], last[-1]["chain_digest"]) == (top["position"], top["chain_digest"])


def test_nothing_else_is_ever_written(transactions: list[list[Line]]) -> None:
    for lines in transactions:
        verbs = {(line.table, line.verb) for line in lines}
        assert not [table for table, verb in verbs if verb == "DELETE"]
        assert {table for table, verb in verbs if verb == "UPDATE"} <= set(MOVABLE)
        tables = {line.table for line in lines}
        assert tables == {"owners"} or "append_receipts" in tables, tables  # a claim, or appends
        assert "owners" not in tables or tables == {"owners"}


UNSEEN: Final = {
    "CLOSE_WORK_ITEM", "IMPORT_LEGACY", "BEGIN_ERASURE", "CLOSE_ERASURE", "ABANDON_ENQUEUE", "ADD_REFERENCE",
    "INDEX_REFERENCES", "FREEZE_REFERENCES", "ADD_NODE_REPORT", "ADD_LINEAGE_ENTRY",
    "APPEND_CLAIMS", "TRACE_CLAIMS", "RECEIPT_CLAIMS",
}  # fmt: skip
"""Rows of the registry that a campaign and two decisions have no use for; they differ in no step from their like."""


def test_both_classes_of_append_go_this_way(transactions: list[list[Line]]) -> None:
    receipts = [json.loads(row["receipt"]) for lines in transactions for row in of(lines, "append_receipts")]
    pairs = {(receipt["transition"], receipt["authority"]) for receipt in receipts}
    granted = {flow.transition.value for flow in FLOWS.values() if flow.is_granted}
    direct = {flow.transition.value for flow in FLOWS.values() if not flow.is_granted}
    assert granted | direct > UNSEEN
    granted, direct = granted - UNSEEN, direct - UNSEEN
    assert {name for name, authority in pairs if authority != "DIRECT"} == granted
    assert {name for name, authority in pairs if authority == "DIRECT"} == direct


def _read_all(store: LedgerStore, space: str) -> None:
    with store.reading() as reader:
        reader.journal(space)


ANY_ID: Final = "attempt:" + "0" * 64
READS: Final[Mapping[str, Callable[[LedgerStore, str], object]]] = {
    "both": lambda store, space: store.both(records([ANY_ID]), standing(space)),
    "get": lambda store, _: store.get(ANY_ID),
    "get_many": lambda store, _: store.get_many([ANY_ID]),
    "find": lambda store, space: store.find("attempt", space),
    "namespace_head": lambda store, space: (store.namespace_head(space), store.namespace_head("never_seen")),
    "namespaces": lambda store, _: store.namespaces(),
    "variant_heads": lambda store, space: store.variant_heads(space),
    "receipt": lambda store, space: store.receipt(space, str(authorization_id(space))),
    "receipts": lambda store, space: store.receipts(space, ["k"]),
    "journal": lambda store, space: store.journal(space),
    "resolve": lambda store, _: store.resolve("attempt:0"),
    "table_counts": lambda store, _: store.table_counts(),
    "tally": lambda store, _: store.tally("attempt", "corpus"),
    "reading": _read_all,
    "close": lambda store, _: store.close(),
}
"""Every public method of a Ledger but the two that write, with a call of it."""


def marks(store: LedgerStore, watched: Watched) -> object:
    """Return something that any write changes."""
    if isinstance(store, MemoryLedger):
        return pickle.dumps(vars(store._state))
    return len(watched.lines())


@pytest.mark.parametrize("adapter", ["memory", "postgres"])
def test_claim_and_commit_are_the_only_public_methods_that_write(adapter: str, watched: Watched) -> None:
    store: LedgerStore = MemoryLedger() if adapter == "memory" else PostgresLedger(watched.addresses.app, "methods")
    public = {name for name, _ in inspect.getmembers(store, callable) if not name.startswith("_")}
    assert public == {*READS, "claim", "commit"}
    before = marks(store, watched)
    writer = Writer.claim(store)
    claimed = marks(store, watched)
    assert claimed != before
    append = evidence_append(make_evidence(writer.namespace))
    store.commit(writer.epoch, [Request(append)])
    written = marks(store, watched)
    assert written != claimed
    store.commit(writer.epoch, [Request(append)])
    assert marks(store, watched) == written, "a replay writes nothing"
    for name, call in sorted(READS.items(), key=lambda item: item[0] == "close"):
        call(store, writer.namespace)
        assert marks(store, watched) == written, name
