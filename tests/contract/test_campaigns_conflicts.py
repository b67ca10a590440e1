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
from records.knowledge import DecisionKind, EventType, LinkRelation, MemoryRelation, RelationKind
from records.values import ActionKind, Disposition, Grade
from tests.contract.test_campaigns import heads, require_clean
from tests.contract.test_work_guards import Dishonest
from tests.support.stack import GOOD, NULL, Stack, effects, quiet
from tests.support.trials import digest

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


def scope_head(stack: Stack) -> Any:
    """Return the head of the rule for the task scope; task "a" has seeds enough to have one of its own beside it."""
    scopes = {record.id: record.scope for record in stack.load("memory-record")}
    (head,) = [each for each in heads(stack) if scopes[each.memory_id].evaluation_task_id is None]
    return head


class TestTrueContradiction:
    def test_vrm_w07_one_exact_transition(self, stack: Stack) -> None:
        """Spec 10: superseded, then contested on that very event, one symmetric relation, both evidence sets kept."""
        upheld(stack)
        assert not turned(stack)
        contested = next(
            rule
            for rule in stack.load("memory-record")
            if rule.strength.grade is Grade.CONTESTED and rule.prior_memory_id is not None
        )
        old = next(rule for rule in stack.load("memory-record") if rule.id == contested.prior_memory_id)
        events = {event.id: event for event in stack.load("knowledge-lifecycle-event")}
        head = scope_head(stack)
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
        head = scope_head(stack)
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
        contested = [each for each in stack.load("memory-record") if each.strength.grade is Grade.CONTESTED]
        hidden = next(each for each in contested if each.prior_memory_id is not None)
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


class TestAdjudication:
    def test_more_seeds_decide_and_the_contested_record_is_superseded(self, stack: Stack) -> None:
        """Spec 10: another replacement, which ends the contested record before it starts; three camps of old remain."""
        upheld(stack)
        turned(stack)
        contested = scope_head(stack)
        agreed = [0.05 + place / 10_000 for place in range(10)]
        assert not stack.study("decides", seeds(stack, "decides", agreed, 10))
        head = scope_head(stack)
        events = {event.id: event for event in stack.load("knowledge-lifecycle-event")}
        begun = events[head.event_id]
        ended = events[begun.expected_prior]
        assert (ended.event_type, ended.memory_id) == (EventType.SUPERSEDED, contested.memory_id)
        assert (begun.event_type, head.disposition) == (EventType.PROMOTED_ACTIVE, Disposition.ACTIVE)
        (rule,) = [each for each in stack.load("memory-record") if each.id == head.memory_id]
        against = [link for link in rule.links if link.relation is LinkRelation.CONTRADICTS]
        assert len(against) == len(TURNED)
        require_clean(stack)


class TestScopeSplit:
    def test_vrm_l03_an_environment_that_explains_the_difference_makes_two_variants(self, stack: Stack) -> None:
        """Spec 10: different environments explain it, so the family gets two variants and the pooled rule ends."""
        stack.study("here", effects(stack, "here", GOOD))
        (pooled,) = stack.load("memory-record")
        worse = {root: -delta for root, delta in zip("efgh", GOOD.values(), strict=True)}
        elsewhere = digest("another environment")
        assert not stack.study("there", effects(stack, "there", worse, environment_digest=elsewhere))
        rules = {rule.scope.environment_digest: rule for rule in stack.load("memory-record") if rule.id != pooled.id}
        assert {key: rule.action for key, rule in rules.items()} == {
            digest("environment"): ActionKind.RECOMMEND,
            elsewhere: ActionKind.AVOID,
        }
        assert {rule.family_id for rule in rules.values()} == {pooled.family_id}
        refined = [each for each in stack.load("memory-relation") if each.relation is RelationKind.SCOPE_REFINES]
        assert {(each.source_memory_id, each.target_memory_id) for each in refined} == {
            (rule.id, pooled.id) for rule in rules.values()
        }
        assert {head.memory_id: head.disposition for head in heads(stack)} == {
            pooled.id: Disposition.RETRACTED,
            **{rule.id: Disposition.ACTIVE for rule in rules.values()},
        }
        last = stack.load("distillation-decision")
        assert any("scope_split_required" in decision.reasons for decision in last)
        require_clean(stack)


class TestLateBaselines:
    def test_vrm_w07_baselines_run_again_move_every_rule_of_their_stratum(self, stack: Stack) -> None:
        """Two changes looked good beside baselines that were unlucky; reruns of the baselines end both rules."""
        other = ("class_weight", "none", "balanced")
        trials = effects(stack, "first", GOOD) + effects(stack, "first", GOOD, change=other)[1::2]
        stack.study("first", trials)
        assert sorted(head.disposition for head in heads(stack)) == ["active", "active"]
        better = {"balanced_accuracy": 0.95}
        left = (stack.stores.artifacts.reference("predictions", b"of the baselines, run again"),)
        again = effects(stack, "again", GOOD, verified=better, artifacts=left)[0::2]
        assert not stack.study("again", again)
        actions = {rule.id: rule.action for rule in stack.load("memory-record")}
        live = [actions[head.memory_id] for head in heads(stack) if head.disposition == Disposition.ACTIVE]
        assert ActionKind.RECOMMEND not in live
        assert {head.version for head in heads(stack)} != {1}
        assert all(head.version > 1 for head in heads(stack))
        require_clean(stack)


class TestSplitThatEnds:
    def test_vrm_w07_a_part_that_nothing_asks_for_any_more_is_retracted(self, stack: Stack) -> None:
        """The other environment turns out to be mixed: it explains nothing any more, and its rule must not stay."""
        elsewhere = digest("another environment")
        worse = {root: -delta for root, delta in zip("efgh", GOOD.values(), strict=True)}
        stack.study("both", effects(stack, "both", GOOD) + effects(stack, "both", worse, environment_digest=elsewhere))
        avoided = [rule for rule in stack.load("memory-record") if rule.action is ActionKind.AVOID]
        assert [rule.scope.environment_digest for rule in avoided] == [elsewhere]
        mixed = {"i": 0.25, "j": 0.20}
        assert not stack.study("mixed", effects(stack, "mixed", mixed, environment_digest=elsewhere))
        dispositions = {head.memory_id: head.disposition for head in heads(stack)}
        assert dispositions[avoided[0].id] == Disposition.RETRACTED
        require_clean(stack)


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
