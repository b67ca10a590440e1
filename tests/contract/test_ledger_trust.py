"""What a writer remembers of its own commits: it saves questions, and where it is wrong the server refuses the rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from records.errors import IdentityConflictError
from store.ledger.postgres import PostgresLedger
from store.ledger.writing import Remembered
from tests.support.stores import Addresses, Writer, evidence_append, expect
from tests.support.trials import make_evidence


@pytest.fixture
def first(ledger_database: Addresses) -> Iterator[Writer]:
    store = PostgresLedger(ledger_database.app, "first")
    yield Writer.claim(store)
    store.close()


@pytest.fixture
def second(ledger_database: Addresses, first: Writer) -> Iterator[Writer]:
    """Another process with an epoch of its own, which writes to the same namespace."""
    store = PostgresLedger(ledger_database.app, "second")
    yield Writer(store, first.namespace, store.claim(f"writer/{first.namespace}/second", "test"))
    store.close()


def test_a_journal_that_somebody_else_moved_is_read_again(first: Writer, second: Writer) -> None:
    for number in range(6):
        writer = (first, second)[number % 2]
        writer.good(evidence_append(make_evidence(first.namespace, seed=number), f"import-{number}"))
    rows = first.journal()
    assert [row.position for row in rows] == list(range(1, len(rows) + 1))
    assert first.store.namespace_head(first.namespace).chain_digest == rows[-1].chain_digest


def test_a_record_that_somebody_else_wrote_keeps_its_position(first: Writer, second: Writer) -> None:
    (receipt,) = first.good(evidence_append(make_evidence(first.namespace, seed=1), "mine"))
    shared, fresh = make_evidence(first.namespace, seed=1), make_evidence(first.namespace, seed=2)
    same, others = second.good(evidence_append(shared, "yours"), evidence_append(fresh, "more"))
    assert same.positions == receipt.positions
    new = [position for position in others.positions if position not in receipt.positions]
    assert new == list(range(len(receipt.positions) + 1, len(receipt.positions) + 1 + len(new)))


def test_a_permit_that_somebody_else_used_gets_its_receipt(first: Writer, second: Writer) -> None:
    append = evidence_append(make_evidence(first.namespace, seed=1), "mine")
    (receipt,) = first.good(append)
    second.good(evidence_append(make_evidence(first.namespace, seed=2), "other"))
    assert second.good(append) == [receipt]
    other = evidence_append(make_evidence(first.namespace, seed=3), "mine")
    expect(IdentityConflictError, second.commit(other)[0])


def test_a_refused_group_teaches_nothing_false(first: Writer) -> None:
    orphan = evidence_append(make_evidence(first.namespace, seed=1)[3:], "orphan")
    before = first.state()
    assert not hasattr(first.commit(orphan)[0], "positions")
    assert first.state() == before
    first.good(evidence_append(make_evidence(first.namespace, seed=1), "whole"))
    assert [row.position for row in first.journal()] == list(range(1, len(first.journal()) + 1))


def test_memory_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    remembered = Remembered()
    remembered.learn({f"record-{number}": (number, "digest") for number in range(10_000)})
    assert remembered.known(["record-0"]) == {"record-0": (0, "digest")}
    remembered.learn({f"record-{number}": (number, "digest") for number in range(10_000, 19_999)})
    assert len(remembered.records) == 10_000
    assert remembered.known(["record-0", "record-1", "record-19998"]).keys() == {"record-0", "record-19998"}
