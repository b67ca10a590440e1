"""Lifecycle heads: plans on one variant are serialised, stale and illegal ones refused, idle heads dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from memory.heads import HOLD_SECONDS, LifecycleHeads
from records.errors import IllegalTransitionError, StaleError
from records.ids import EventId, EvidenceSnapshotId, FamilyId, MemoryId, ScopeVariantId
from records.knowledge import EventType, LifecycleEvent
from records.values import Disposition
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore
from tests.contract.test_ledger_granted import Rules
from tests.support.samples import POLICY
from tests.support.trials import NOW

A, S = Disposition.ACTIVE, Disposition.SUPERSEDED


@dataclass
class Seconds:
    """A clock that a test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Host:
    """A host over an empty Ledger, and how often it has read a head."""

    warm: int = 100
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    seconds: Seconds = field(default_factory=Seconds)
    reads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.heads = LifecycleHeads(self.counted(), "test", warm=self.warm, seconds=self.seconds)

    def counted(self) -> LedgerStore:
        host = self

        class Counted(MemoryLedger):
            def variant_heads(self, namespace: str, scope_variant_ids: Any = None) -> Any:
                host.reads.extend(scope_variant_ids)
                return host.ledger.variant_heads(namespace, scope_variant_ids)

            def claim(self, resource: str, holder: str) -> Any:
                return host.ledger.claim(resource, holder)

        return Counted()


def event(variant: str, kind: EventType = EventType.PROMOTED_ACTIVE, to: Disposition = A, **fields: Any) -> Any:
    content: dict[str, Any] = {
        "namespace": "space",
        "created_at": NOW,
        "memory_id": MemoryId.derive({"rule": variant}),
        "family_id": FamilyId.derive({"family": 1}),
        "scope_variant_id": ScopeVariantId.derive({"variant": variant}),
        "event_type": kind,
        "disposition": to,
        "expected_prior": "GENESIS",
        "reasons": ("test",),
        "evidence_ids": (),
        "evidence_snapshot_id": EvidenceSnapshotId.derive({"snapshot": 1}),
        "policy": POLICY,
    }
    return LifecycleEvent(**(content | fields))


class TestReservations:
    def test_plans_on_one_variant_are_serialised(self) -> None:
        heads = Host().heads
        heads.reserve("space", "first", [event("v")])
        with pytest.raises(StaleError, match="held for first"):
            heads.reserve("space", "second", [event("v")])
        heads.release("first")
        assert heads.reserve("space", "second", [event("v")]).plan == "second"

    def test_plans_on_different_variants_do_not_meet(self) -> None:
        heads = Host().heads
        first = heads.reserve("space", "first", [event("v")])
        second = heads.reserve("space", "second", [event("w")])
        assert first.fence == second.fence == ("lifecycle-head/0", 1)
        elsewhere = heads.reserve("another space", "third", [event("v")])
        assert elsewhere.plan == "third"

    def test_a_plan_that_cannot_have_all_takes_none(self) -> None:
        heads = Host().heads
        heads.reserve("space", "first", [event("w")])
        with pytest.raises(StaleError):
            heads.reserve("space", "second", [event("v"), event("w")])
        assert heads.reserve("space", "third", [event("v")]).plan == "third"

    def test_the_same_plan_again_is_the_same_reservation(self) -> None:
        heads = Host().heads
        assert heads.reserve("space", "plan", [event("v")]) == heads.reserve("space", "plan", [event("v")])

    def test_release_of_another_plan_lets_nothing_go(self) -> None:
        heads = Host().heads
        heads.reserve("space", "first", [event("v")])
        heads.release("second")
        with pytest.raises(StaleError):
            heads.reserve("space", "second", [event("v")])

    def test_a_reservation_whose_maker_died_lapses(self) -> None:
        host = Host()
        host.heads.reserve("space", "dead", [event("v")])
        host.seconds.now = HOLD_SECONDS - 0.001
        with pytest.raises(StaleError):
            host.heads.reserve("space", "next", [event("v")])
        host.seconds.now = HOLD_SECONDS
        assert host.heads.reserve("space", "next", [event("v")]).plan == "next"
        host.heads.release("dead")
        with pytest.raises(StaleError, match="held for next"):
            host.heads.reserve("space", "third", [event("v")])

    def test_a_host_that_was_replaced_has_an_older_fence(self) -> None:
        ledger = MemoryLedger()
        old, new = LifecycleHeads(ledger, "old", 3), LifecycleHeads(ledger, "new", 3)
        fences = [host.reserve("space", "plan", [event("v")]).fence for host in (old, new)]
        assert fences == [("lifecycle-head/3", 1), ("lifecycle-head/3", 2)]


class TestLegality:
    def test_events_of_one_plan_build_on_each_other(self) -> None:
        first = event("v")
        ends = event("v", EventType.SUPERSEDED, S, expected_prior=EventId(first.id))
        starts = event("v", expected_prior=EventId(ends.id), memory_id=MemoryId.derive({"rule": "new"}))
        assert Host().heads.reserve("space", "plan", [first, ends, starts]).fence
        with pytest.raises(StaleError, match="stands at"):
            Host().heads.reserve("space", "plan", [first, starts])

    def test_an_arrow_that_the_policy_does_not_have(self) -> None:
        host = Host()
        with pytest.raises(IllegalTransitionError):
            host.heads.reserve("space", "plan", [event("v", EventType.RETRACTED, Disposition.RETRACTED)])
        assert host.heads.reserve("space", "other", [event("v")]).fence

    def test_a_head_that_moved_is_refused_and_then_read_again(self) -> None:
        host = Host()
        rules = Rules.begin(host.ledger)
        namespace = rules.writer.namespace
        _, start = rules.started()
        variant = str(start.scope_variant_id)
        with pytest.raises(StaleError, match=start.id):
            host.heads.reserve(namespace, "late", [event("x", scope_variant_id=start.scope_variant_id)])
        ending = {
            "scope_variant_id": start.scope_variant_id,
            "memory_id": start.memory_id,
            "expected_prior": EventId(start.id),
        }
        plan = [event("x", EventType.RETRACTED, Disposition.RETRACTED, **ending)]
        assert host.heads.reserve(namespace, "plan", plan).fence
        assert host.heads.head(namespace, variant) == host.heads.head(namespace, variant)
        assert host.reads == [variant, variant]

    def test_what_recovery_moved_meanwhile_is_seen(self) -> None:
        """Recovery appends without a reservation, so a warm head may be behind; it costs one refusal, not all."""
        host = Host()
        rules = Rules.begin(host.ledger)
        namespace = rules.writer.namespace
        start = rules.event(rules.rule("first")[1], EventType.PROMOTED_ACTIVE, A)
        assert host.heads.head(namespace, str(start.scope_variant_id)) is None
        memory, start = rules.started()
        ends = rules.event(memory, EventType.SUPERSEDED, S, str(start.id))
        with pytest.raises(StaleError, match="GENESIS now"):
            host.heads.reserve(namespace, "plan", [ends])
        assert host.heads.reserve(namespace, "plan", [ends]).fence


class TestWarmth:
    def test_a_warm_head_is_read_once_and_an_idle_one_is_dropped(self) -> None:
        host = Host(warm=2)
        names = {name: str(ScopeVariantId.derive({"variant": name})) for name in "abc"}
        for name in ("a", "a", "b", "a", "c", "a", "b"):
            host.heads.head("space", names[name])
        assert host.reads == [names["a"], names["b"], names["c"], names["b"]]

    def test_what_is_held_is_never_dropped(self) -> None:
        host = Host(warm=1)
        host.heads.reserve("space", "plan", [event("held")])
        for name in "abc":
            host.heads.head("space", str(ScopeVariantId.derive({"variant": name})))
        host.heads.reserve("space", "plan", [event("held")])
        assert host.reads.count(str(ScopeVariantId.derive({"variant": "held"}))) == 1
