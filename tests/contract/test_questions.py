"""Questions that share a round trip: the same answers as alone, of one moment or of a later one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from records.errors import InvalidInputError
from store.database import connect
from store.ledger.port import LedgerStore, answers, matching, records, standing
from store.ledger.postgres import PostgresLedger
from store.questions import Questions
from tests.support.stores import Addresses, Writer, evidence_append
from tests.support.trials import make_evidence


def test_two_questions_get_what_each_gets_alone(writer: Writer, ledger: LedgerStore) -> None:
    bundle = make_evidence(writer.namespace)
    writer.good(evidence_append(bundle, "one"))
    ids = [*(str(each.id) for each in bundle), "attempt:" + "0" * 64, "nothing"]
    hypothesis = str(bundle[1].id)
    found, head = ledger.both(records(ids), standing(writer.namespace))
    assert found == ledger.get_many(ids)
    assert found.keys() == set(ids[:-2])
    assert head == ledger.namespace_head(writer.namespace)
    receipts, attempts = ledger.both(
        answers(writer.namespace, ["one", "two"]), matching("attempt", writer.namespace, hypothesis_id=hypothesis)
    )
    assert receipts == ledger.receipts(writer.namespace, ["one"])
    assert attempts == ledger.find("attempt", writer.namespace, hypothesis_id=hypothesis)
    assert attempts
    assert ledger.both(records([]), standing("empty")) == ({}, ledger.namespace_head("empty"))


@pytest.fixture
def asking(ledger_database: Addresses) -> Iterator[Questions]:
    asked = Questions(connect(ledger_database.app, "asking"), "ledger", (ledger_database.app, "asking"))
    yield asked
    asked.connection.close()


def test_answers_come_in_order_as_text(asking: Questions) -> None:
    found = asking.ask([("SELECT $1::bigint, $2::text", [7, None]), ("SELECT unnest($1::text[])", [["a", "b"]])])
    assert found == [[("7", None)], [("a",), ("b",)]]
    assert asking.ask([]) == []


def test_what_cannot_be_sent_leaves_the_connection_usable(asking: Questions) -> None:
    for bad in ("a\0b", ["a\0b"], "a\ud800b", ["a\ud800b"]):
        with pytest.raises(InvalidInputError):
            asking.ask([("SELECT 1", []), ("SELECT $1", [bad])])
        assert asking.ask([("SELECT 1", [])]) == [[("1",)]]


def test_a_moment_that_is_over_holds_no_transaction_open(ledger_database: Addresses) -> None:
    """Nobody waits for the end of a reading, and it ends all the same."""
    store = PostgresLedger(ledger_database.app, "moments")
    with store.reading() as reader:
        reader.namespaces()
    query = "SELECT xact_start FROM pg_stat_activity WHERE application_name LIKE 'vrm moments reader%'"
    limit = time.monotonic() + 60
    with psycopg.connect(ledger_database.superuser, autocommit=True) as connection:
        while connection.execute(query).fetchone() != (None,):
            assert time.monotonic() < limit, "the transaction of a reading stays open"
    with store.reading() as reader:
        assert isinstance(reader.namespaces(), list)
    store.close()
