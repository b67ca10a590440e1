"""Records that a guard will ask for are read together: it sees what it would see without that, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from records.appends import Append
from records.outcomes import NoCommitReason
from store.ledger.port import LedgerReader, LedgerStore, Refusal, Request
from tests.support.stores import Writer, evidence_append
from tests.support.trials import make_evidence

pytestmark = pytest.mark.parametrize("ledger", ["memory", "postgres"], indirect=True)


class Looking:
    """A guard that looks for records, and may refuse."""

    def __init__(self, *wanted: str, refuse: bool = False) -> None:
        """Look for `wanted`."""
        self.wanted, self.refuse = wanted, refuse
        self.seen: list[set[str]] = []
        self.records: dict[str, Any] = {}

    def __call__(self, reader: LedgerReader, _append: Append) -> Refusal | None:
        found = reader.get_many(self.wanted)
        self.seen.append(set(found))
        self.records = {key: stored.load() for key, stored in found.items()}
        return Refusal(NoCommitReason.PRECONDITION_CONFLICT, "looking only") if self.refuse else None


def made(writer: Writer, seed: int) -> tuple[Append, list[str]]:
    """Return an append of a bundle, and the ids of its records."""
    records = make_evidence(writer.namespace, seed=seed)
    return evidence_append(records, f"import-{seed}"), [str(each.id) for each in records]


def test_what_is_there_and_what_a_neighbour_writes_is_seen(ledger: LedgerStore) -> None:
    writer = Writer.claim(ledger)
    (first, old), (second, new), (third, last) = (made(writer, seed) for seed in range(3))
    writer.good(first)
    before, after = Looking(*old, *new), Looking(*old, *new, *last)
    foreseen = (*old, *new, *last)
    answers = ledger.commit(writer.epoch, [Request(second, before, foreseen), Request(third, after, foreseen)])
    assert all(hasattr(each, "positions") for each in answers)
    assert before.seen == [set(old)], "the contract that both share is old"
    assert after.seen == [{*old, *new}]
    assert after.records == {key: stored.load() for key, stored in ledger.get_many([*old, *new]).items()}


def test_what_a_refused_neighbour_would_have_written_is_not_seen(ledger: LedgerStore) -> None:
    writer = Writer.claim(ledger)
    (first, gone), (second, written_ids) = made(writer, 0), made(writer, 1)
    shared = {*gone} & {*written_ids}
    looking = Looking(*gone)
    group = [Request(first, Looking(refuse=True), tuple(gone)), Request(second, looking, tuple(gone))]
    refused, written = ledger.commit(writer.epoch, group)
    assert not hasattr(refused, "positions")
    assert hasattr(written, "positions")
    assert all(not seen for seen in looking.seen)
    again = Looking(*gone)
    (answer,) = ledger.commit(writer.epoch, [Request(made(writer, 2)[0], again, tuple(gone))])
    assert hasattr(answer, "positions")
    assert again.seen[-1] == shared, "the second bundle wrote what both share, such as the contract"
