"""The same random history on both adapters of the Ledger: every answer, every read and the final journal agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from records.appends import Append, AppendReceipt, JournalRow
from records.base import Record
from records.errors import FencedError, VrmError
from records.flows import Transition
from records.ids import EventId, ExperienceId, MemoryId
from records.knowledge import EventType, MemoryRecord
from records.values import Disposition
from store.ledger.memory import MemoryLedger
from store.ledger.port import Epoch, LedgerStore, Request
from store.ledger.postgres import PostgresLedger
from tests.support.decision_samples import sample_records
from tests.support.samples import Common, baseline_records, make_event, make_memory
from tests.support.stores import Addresses, evidence_append, fresh_namespace, granted
from tests.support.trials import make_evidence

KEYS = st.sampled_from(["k1", "k2", "k3"])
SEEDS = st.integers(0, 2)
CLAIMS = st.sampled_from(["one", "two"])
PRIORS = st.sampled_from(["GENESIS", "head", "astray"])
TIMES = st.sampled_from(["2025-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.000000Z"])
CUTS = st.sampled_from([slice(None), slice(0, 3), slice(2, 5), slice(7, 8)])


def shape(answer: object) -> object:
    """Return what two adapters must agree on: receipts whole, errors by class."""
    return type(answer).__name__ if isinstance(answer, VrmError) else answer


def facts(row: JournalRow) -> tuple[object, ...]:
    """Return what two adapters must agree on; the detail of a refusal may quote a database, and the chain covers it."""
    digest = "" if row.noun == "no-commit-receipt" else row.payload_digest
    return (row.position, row.noun, row.id, row.permit_key, digest)


class Histories(RuleBasedStateMachine):
    """Two stores, one history; the Postgres one is shared, so each history has a namespace of its own."""

    postgres: ClassVar[PostgresLedger]

    def __init__(self) -> None:
        super().__init__()
        self.space = fresh_namespace()
        self.stores: tuple[LedgerStore, LedgerStore] = (MemoryLedger(), self.postgres)
        self.epochs = [store.claim(f"history/{self.space}", "test") for store in self.stores]
        self.old: list[list[Epoch]] = []
        self.heads: list[str] = []
        self.records = sample_records(self.space)

    def both(self, *appends: Append, epochs: list[Epoch] | None = None) -> Any:
        answers: list[Any] = []
        for store, epoch in zip(self.stores, epochs or self.epochs, strict=True):
            try:
                got = store.commit(epoch, [Request(append) for append in appends])
            except FencedError:
                answers.append("fenced")
            else:
                answers.append([shape(answer) for answer in got])
        assert answers[0] == answers[1]
        return answers[0]

    def evidence(self, key: str, seed: int, cut: slice, time: str) -> Append:
        trial: tuple[Record, ...] = make_evidence(self.space, seed=seed, times=(time, time, time))
        return evidence_append(trial[cut], key)

    @rule(key=KEYS, seed=SEEDS, cut=CUTS, time=TIMES)
    def append(self, key: str, seed: int, cut: slice, time: str) -> None:
        self.both(self.evidence(key, seed, cut, time))

    @rule(parts=st.lists(st.tuples(KEYS, SEEDS, CUTS, TIMES), min_size=2, max_size=3))
    def append_group(self, parts: list[tuple[str, int, slice, str]]) -> None:
        self.both(*(self.evidence(*part) for part in parts))

    @rule()
    def capture(self) -> None:
        baseline = baseline_records(self.space)
        pair = (self.records["evidence-snapshot"], self.records["capture-operation"])
        self.both(
            evidence_append([*baseline, *list(self.records.values())[1:8]], "sample"),
            Append.direct(Transition.CAPTURE_SNAPSHOT, "capture", pair),
        )

    @rule(claim=CLAIMS, prior=PRIORS, name=KEYS)
    def distil(self, claim: str, prior: str, name: str) -> None:
        comparator = ExperienceId(baseline_records(self.space)[-1].id)
        candidate, memory = make_memory(Common(self.space), self.records, comparator, claim)
        astray = str(EventId.derive({"astray": 1}))
        expected = {"GENESIS": "GENESIS", "head": (self.heads or [astray])[-1], "astray": astray}[prior]
        event = make_event(Common(self.space), memory, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE, expected)
        body = [str(record.id) for record in (candidate, memory, event)]
        append = granted(Transition.COMMIT_DISTILLATION, [candidate, memory, event], name, body=" ".join(body))
        (answer,) = self.both(append)
        if isinstance(answer, AppendReceipt) and answer.committed:
            self.heads.append(str(event.id))

    @rule()
    def claim(self) -> None:
        self.old.append(self.epochs)
        self.epochs = [store.claim(f"history/{self.space}", "test") for store in self.stores]
        assert self.epochs[0] == self.epochs[1]

    @rule(key=KEYS, seed=SEEDS)
    def append_by_a_former_owner(self, key: str, seed: int) -> None:
        if self.old:
            append = self.evidence(key, seed, slice(None), "2025-03-01T12:00:00.000000Z")
            assert self.both(append, epochs=self.old[-1]) == "fenced"

    @rule(noun=st.sampled_from(["experience", "memory-record", "no-commit-receipt"]))
    def find(self, noun: str) -> None:
        one, two = ([(item.position, item.id) for item in store.find(noun, self.space)] for store in self.stores)
        assert one == two

    @invariant()
    def same_state(self) -> None:
        one, two = (replace(store.namespace_head(self.space), chain_digest="") for store in self.stores)
        assert one == two
        heads = [store.variant_heads(self.space) for store in self.stores]
        assert heads[0] == heads[1]

    def teardown(self) -> None:
        one, two = (store.journal(self.space) for store in self.stores)
        assert [facts(row) for row in one] == [facts(row) for row in two]
        assert [row.position for row in one] == list(range(1, len(one) + 1))
        keys = {row.permit_key for row in one} | {"k1", "k2", "k3"}
        assert self.stores[0].receipts(self.space, keys) == self.stores[1].receipts(self.space, keys)
        ids = [row.id for row in one if row.noun != "no-commit-receipt"]
        assert self.stores[0].get_many(ids) == self.stores[1].get_many(ids)


def test_adapters_agree_on_random_histories(ledger_database: Addresses) -> None:
    Histories.postgres = PostgresLedger(ledger_database.app, "histories")
    try:
        run_state_machine_as_test(
            Histories,
            settings=settings(
                max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
    finally:
        Histories.postgres.close()


def test_the_machine_reaches_what_it_is_for() -> None:
    """A fixed history through the rules, so that a generator that stops reaching them is noticed."""
    memory = MemoryLedger()
    space = fresh_namespace()
    records = sample_records(space)
    epoch = memory.claim("one", "test")
    comparator = baseline_records(space)
    first = records["memory-record"]
    assert isinstance(first, MemoryRecord)
    assert MemoryId(first.id)
    pair = (records["evidence-snapshot"], records["capture-operation"])
    rule_records = [records[noun] for noun in ("knowledge-candidate", "memory-record", "knowledge-lifecycle-event")]
    answers = memory.commit(
        epoch,
        [
            Request(evidence_append([*comparator, *list(records.values())[1:8]], "sample")),
            Request(Append.direct(Transition.CAPTURE_SNAPSHOT, "capture", pair)),
            Request(granted(Transition.COMMIT_DISTILLATION, rule_records, "k1")),
            Request(granted(Transition.COMMIT_DISTILLATION, rule_records, "k2")),
        ],
    )
    assert [isinstance(answer, AppendReceipt) and answer.committed for answer in answers] == [True, True, True, False]
    with pytest.raises(FencedError):
        memory.commit(Epoch("one", 0), [Request(evidence_append(comparator))])
