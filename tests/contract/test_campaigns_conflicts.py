"""Typed conflicts on both adapters: a true contradiction is one exact transition, and what stands is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memory import guards
from memory.campaigns import Failure
from memory.distillation.distiller import DistillationRequest
from memory.evidence import Trial
from memory.fsck import Code, fsck
from records.appends import Proposal
from records.base import Record
from records.knowledge import DecisionKind, EventType, MemoryRelation, RelationKind
from records.values import Disposition, Grade
from tests.contract.test_campaigns import heads, require_clean
from tests.contract.test_work_guards import Dishonest
from tests.support.stack import GOOD, NULL, Stack, effects, quiet

UPHELD = (0.05, 0.052, 0.048)
TURNED = (-0.05, -0.049, -0.053)
"""Two camps of seeds of one task: each would predict the next seed on its own side of zero."""

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def seeds(stack: Stack, key: str, deltas: Sequence[float], first: int) -> list[Trial]:
    """Seeds of task "a", one for each difference."""
    return [
        trial
        for seed, delta in enumerate(deltas, start=first)
        for trial in effects(stack, key, {"a": delta}, seed=seed)
    ]


def upheld(stack: Stack) -> None:
    """An active rule, with seeds of task "a" that agree."""
    stack.study("first", effects(stack, "first", GOOD) + seeds(stack, "first", UPHELD, 1))


def turned(stack: Stack, first: int = 4) -> list[Any]:
    """More seeds of the same task, which say the opposite."""
    return stack.study(f"from-{first}", seeds(stack, f"from-{first}", TURNED, first))


class TestTrueContradiction:
    def test_vrm_w07_one_exact_transition(self, stack: Stack) -> None:
        """Spec 10: superseded, then contested on that very event, one symmetric relation, both evidence sets kept."""
        upheld(stack)
        assert not turned(stack)
        contested = next(rule for rule in stack.load("memory-record") if rule.strength.grade is Grade.CONTESTED)
        old = next(rule for rule in stack.load("memory-record") if rule.id == contested.prior_memory_id)
        events = {event.id: event for event in stack.load("knowledge-lifecycle-event")}
        (head,) = heads(stack)
        begun = events[head.event_id]
        ended = events[begun.expected_prior]
        assert (begun.event_type, begun.memory_id) == (EventType.PROMOTED_CONTESTED, contested.id)
        assert (ended.event_type, ended.memory_id) == (EventType.SUPERSEDED, old.id)
        (contests,) = [each for each in stack.load("memory-relation") if each.relation is RelationKind.CONTESTS]
        assert [contests.source_memory_id, contests.target_memory_id] == sorted([old.id, contested.id])
        assert contests.event_id == begun.id
        assert {link.experience_id for link in old.links} < {link.experience_id for link in contested.links}
        (decision,) = [each for each in stack.load("distillation-decision") if each.memory_id == contested.id]
        assert decision.decision is DecisionKind.PROMOTED_CONTESTED
        assert head.disposition == Disposition.CONTESTED
        require_clean(stack)

    def test_more_of_the_same_dispute_contests_nothing_new(self, stack: Stack) -> None:
        upheld(stack)
        turned(stack)
        assert not turned(stack, 7)
        (head,) = heads(stack)
        assert head.disposition == Disposition.CONTESTED
        contests = [each for each in stack.load("memory-relation") if each.relation is RelationKind.CONTESTS]
        assert len(contests) == 1
        require_clean(stack)

    @pytest.mark.parametrize("lacks", ["relation", "evidence"])
    def test_a_contested_record_that_hides_the_other_side_is_refused(self, stack: Stack, lacks: str) -> None:
        upheld(stack)
        before = heads(stack)
        assert self.lie(stack, lacks)
        assert heads(stack) == before
        assert not [each for each in stack.load("memory-record") if each.strength.grade is Grade.CONTESTED]

    @pytest.mark.parametrize("lacks", ["relation", "evidence"])
    def test_the_integrity_check_finds_one_that_got_through(
        self, stack: Stack, lacks: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upheld(stack)
        monkeypatch.setattr(guards, "guard_conflicts", lambda _reader, _append: None)
        self.lie(stack, lacks)
        hidden = next(each for each in stack.load("memory-record") if each.strength.grade is Grade.CONTESTED)
        with stack.stores.ledger.reading() as reader:
            report = fsck(reader, stack.stores.runtime, None)
        assert Code.KNOWLEDGE_UNFOUNDED in {found.code for found in report.violations if found.record == hidden.id}

    def lie(self, stack: Stack, lacks: str) -> list[Failure]:
        """Distil evidence against the rule with a distiller that hides one side of it."""
        run_id = stack.admit("against")
        stack.evidence(seeds(stack, "against", TURNED, 4))
        stack.campaigns.ingest(run_id, quiet)
        stack.campaigns.project(quiet)
        liar = Unrelated(stack) if lacks == "relation" else Dishonest(stack, "memory-record", one_sided)
        return stack.campaigns.distil(stack.capture(), liar, quiet)


class Unrelated:
    """A distiller whose contested records do not say what they contest."""

    def __init__(self, stack: Stack) -> None:
        self._inner = stack.distiller

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        return [
            proposal.model_copy(update={"records": Proposal.bodies(tuple(filter(told, proposal.unpack())))})
            for proposal in self._inner.propose(requests)
        ]


def told(record: Record) -> bool:
    return not (isinstance(record, MemoryRelation) and record.relation is RelationKind.CONTESTS)


def one_sided(record: Any, _stack: Stack) -> Any:
    """The rule without what speaks against it."""
    return record.model_copy(update={"links": record.links[len(record.links) // 2 :]})


class TestWhatStands:
    def test_another_change_tried_in_the_scope_replaces_no_rule(self, stack: Stack) -> None:
        """Trying more moves adjusted p-values; a rule that still passes its gate is not written anew for that."""
        stack.study("first", effects(stack, "first", GOOD))
        before = heads(stack)
        small = {"a": 0.0001, "b": -0.0001, "c": 0.0, "d": 0.0001}
        assert not stack.study("second", effects(stack, "second", small, change=NULL)[1::2])
        assert heads(stack) == before
        assert len(stack.load("memory-record")) == 1
        assert len(stack.load("knowledge-candidate")) == 2
        require_clean(stack)
