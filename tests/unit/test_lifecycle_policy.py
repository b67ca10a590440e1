"""The lifecycle: every pair of disposition and event, chains, forks, gaps, and plans that fold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.lifecycle_policy import (
    LifecycleFact,
    LifecycleHead,
    advance,
    fold,
    lifecycle_policy,
    next_disposition,
    plan_events,
)
from records.errors import IllegalTransitionError, IntegrityError
from records.knowledge import GENESIS, DecisionKind, EventType, LifecycleEvent
from records.values import Disposition, Grade, PolicyIdentity

E = EventType
D = Disposition
POLICY = lifecycle_policy()

# The arrows of the specification's diagram (section 10), written out once more and by hand.
ARROWS = {
    (None, E.PROMOTED_PROVISIONAL): D.PROVISIONAL,
    (None, E.PROMOTED_ACTIVE): D.ACTIVE,
    (None, E.PROMOTED_CONTESTED): D.CONTESTED,
    (D.PROVISIONAL, E.ACTIVATED): D.ACTIVE,
    (D.PROVISIONAL, E.RETRACTED): D.RETRACTED,
    (D.CONTESTED, E.SUPERSEDED): D.SUPERSEDED,
    (D.ACTIVE, E.SUPERSEDED): D.SUPERSEDED,
    (D.ACTIVE, E.RETRACTED): D.RETRACTED,
}
RESULT = {event: result for (_, event), result in ARROWS.items()}


def chain(*steps: tuple[EventType, str], scope: str = "s") -> list[LifecycleFact]:
    """Return events that each consume the one before."""
    return [
        LifecycleFact(
            scope_variant_id=scope,
            event_id=f"{scope}{i}",
            expected_prior=f"{scope}{i - 1}" if i else GENESIS,
            event_type=event,
            resulting_disposition=RESULT[event],
            memory_id=memory,
        )
        for i, (event, memory) in enumerate(steps)
    ]


@pytest.mark.parametrize(("current", "event"), list(itertools.product([None, *D], E)))
def test_arrows_are_those_of_the_specification(current: Disposition | None, event: EventType) -> None:
    """Every pair either has its arrow or is refused; nothing leaves superseded and retracted."""
    if (current, event) in ARROWS:
        assert next_disposition(current, event) is ARROWS[current, event]
    else:
        with pytest.raises(IllegalTransitionError):
            next_disposition(current, event)


def test_the_order_in_which_events_are_read_does_not_count() -> None:
    """The head is a fold over events, and no order of reading them changes it."""
    events = chain((E.PROMOTED_PROVISIONAL, "m1"), (E.ACTIVATED, "m2"), (E.SUPERSEDED, "m2"), (E.PROMOTED_ACTIVE, "m3"))
    expected = LifecycleHead(scope_variant_id="s", event_id="s3", memory_id="m3", disposition=D.ACTIVE, length=4)
    for order in itertools.permutations(events):
        assert fold(order) == {"s": expected}
    assert fold([*events, events[0]]) == {"s": expected}


def test_vrm_l02_one_head_per_scope_variant() -> None:
    """Chains of different scope variants do not touch; each has one head."""
    heads = fold(chain((E.PROMOTED_ACTIVE, "m1"), scope="t") + chain((E.PROMOTED_CONTESTED, "m2"), scope="s"))
    assert [(scope, head.memory_id) for scope, head in heads.items()] == [("s", "m2"), ("t", "m1")]


def test_true_contradiction_is_superseded_then_contested() -> None:
    """The order of the specification: the old record ends, the new one starts on that event as contested."""
    events = chain((E.PROMOTED_ACTIVE, "old"), (E.SUPERSEDED, "old"), (E.PROMOTED_CONTESTED, "new"))
    assert fold(events)["s"].disposition is D.CONTESTED
    head = fold(events[:1])["s"]
    plan = plan_events(POLICY, head, DecisionKind.PROMOTED_CONTESTED, Grade.CONTESTED, "new")
    assert [(step.event_type, step.memory_id) for step in plan] == [
        (E.SUPERSEDED, "old"),
        (E.PROMOTED_CONTESTED, "new"),
    ]


def test_forks_gaps_and_cycles_are_refused() -> None:
    """Two events on one head, a missing link, a missing genesis, a ring."""
    a, b, c = chain((E.PROMOTED_ACTIVE, "m1"), (E.SUPERSEDED, "m1"), (E.PROMOTED_ACTIVE, "m2"))
    rival = chain((E.PROMOTED_ACTIVE, "m1"), (E.RETRACTED, "m1"))[1]
    rival = replaced(rival, event_id="rival")
    for broken in (
        [a, b, rival],
        [a, c],
        [b, c],
        [replaced(a, expected_prior="s2"), b, c],
        [a, replaced(a, event_id="x")],
    ):
        with pytest.raises(IntegrityError):
            fold(broken)


def test_events_that_do_not_fit_their_chain_are_refused() -> None:
    """One id with two contents, a claim that does not follow, another record's event, a record that comes back."""
    a, b = chain((E.PROMOTED_ACTIVE, "m1"), (E.SUPERSEDED, "m1"))
    with pytest.raises(IntegrityError, match="one content"):
        fold([a, b, replaced(a, memory_id="m9")])
    with pytest.raises(IntegrityError, match="leads to superseded"):
        fold([a, replaced(b, resulting_disposition=D.RETRACTED)])
    with pytest.raises(IllegalTransitionError, match="cannot follow"):
        fold([a, replaced(b, memory_id="m2")])
    with pytest.raises(IllegalTransitionError, match="cannot follow"):
        fold(chain((E.PROMOTED_ACTIVE, "m1"), (E.SUPERSEDED, "m1"), (E.PROMOTED_ACTIVE, "m1")))
    there_and_back = [(E.PROMOTED_ACTIVE, "m1"), (E.SUPERSEDED, "m1"), (E.PROMOTED_ACTIVE, "m2"), (E.SUPERSEDED, "m2")]
    with pytest.raises(IntegrityError, match="never comes back"):
        fold(chain(*there_and_back, (E.PROMOTED_ACTIVE, "m1")))
    with pytest.raises(IllegalTransitionError):
        fold(chain((E.PROMOTED_ACTIVE, "m1"), (E.PROMOTED_ACTIVE, "m2")))


def test_advance_consumes_exactly_the_head() -> None:
    """An event planned on an older head is refused."""
    a, b = chain((E.PROMOTED_ACTIVE, "m1"), (E.SUPERSEDED, "m1"))
    head = advance(None, a)
    assert advance(head, b).length == 2
    with pytest.raises(IntegrityError, match="consumes the head"):
        advance(advance(head, b), b)


@pytest.mark.parametrize(
    ("decision", "grade", "legal"),
    [
        (DecisionKind.REJECTED, Grade.SINGLE, True),
        (DecisionKind.DEFERRED, Grade.CONTESTED, True),
        (DecisionKind.PROMOTED_PROVISIONAL, Grade.SINGLE, True),
        (DecisionKind.PROMOTED_PROVISIONAL, Grade.CONTESTED, False),
        (DecisionKind.PROMOTED_ACTIVE, Grade.SINGLE, False),
        (DecisionKind.PROMOTED_ACTIVE, Grade.REPLICATED, True),
        (DecisionKind.PROMOTED_ACTIVE, Grade.STRONG, True),
        (DecisionKind.PROMOTED_ACTIVE, Grade.CONTESTED, False),
        (DecisionKind.PROMOTED_CONTESTED, Grade.CONTESTED, True),
        (DecisionKind.PROMOTED_CONTESTED, Grade.STRONG, False),
    ],
)
def test_grades_that_a_decision_is_legal_with(decision: DecisionKind, grade: Grade, legal: bool) -> None:
    """Active needs replication; what is contested is promoted as nothing else."""
    assert POLICY.permits(decision, grade) is legal
    if not legal:
        with pytest.raises(IllegalTransitionError):
            plan_events(POLICY, None, decision, grade, "m")


decisions = st.sampled_from(
    [
        (DecisionKind.REJECTED, Grade.SINGLE),
        (DecisionKind.DEFERRED, Grade.REPLICATED),
        (DecisionKind.PROMOTED_PROVISIONAL, Grade.REPLICATED),
        (DecisionKind.PROMOTED_ACTIVE, Grade.STRONG),
        (DecisionKind.PROMOTED_CONTESTED, Grade.CONTESTED),
    ]
)


@given(st.lists(decisions, max_size=12))
def test_every_plan_is_a_legal_chain_that_ends_in_its_decision(story: Sequence[tuple[DecisionKind, Grade]]) -> None:
    """Whatever is decided in whatever order, the planned events fold, and the head is what was decided last."""
    events: list[LifecycleFact] = []
    head: LifecycleHead | None = None
    for number, (decision, grade) in enumerate(story):
        for step in plan_events(POLICY, head, decision, grade, f"m{number}"):
            events.append(
                LifecycleFact(
                    scope_variant_id="s",
                    event_id=f"e{len(events)}",
                    expected_prior=head.event_id if head else GENESIS,
                    event_type=step.event_type,
                    resulting_disposition=step.resulting_disposition,
                    memory_id=step.memory_id,
                )
            )
            head = advance(head, events[-1])
        if decision.value.startswith("promoted_"):
            assert head is not None
            assert (f"promoted_{head.disposition.value}", head.memory_id) == (decision.value, f"m{number}")
    assert fold(events) == ({"s": head} if head else {})


def test_a_plan_never_starts_the_heads_own_record_again() -> None:
    """Changed evidence makes a new record."""
    head = fold(chain((E.PROMOTED_ACTIVE, "m1")))["s"]
    with pytest.raises(IllegalTransitionError, match="new record"):
        plan_events(POLICY, head, DecisionKind.PROMOTED_ACTIVE, Grade.STRONG, "m1")


def replaced(event: LifecycleFact, **changes: object) -> LifecycleFact:
    """Return the event with some fields changed."""
    fields = {name: getattr(event, name) for name in LifecycleFact.__dataclass_fields__}
    return LifecycleFact(**{**fields, **changes})


def test_stored_events_fold_by_their_own_ids() -> None:
    """A chain of real records, linked by content-derived ids, folds to its last."""
    digest = "0" * 64
    common = {
        "namespace": "n",
        "created_at": "2026-01-01T00:00:00.000000Z",
        "memory_id": f"memory-record:{digest}",
        "family_id": f"knowledge-family:{digest}",
        "scope_variant_id": f"knowledge-scope-variant:{digest}",
        "reasons": (),
        "evidence_ids": (),
        "evidence_snapshot_id": f"evidence-snapshot:{digest}",
        "policy": PolicyIdentity(policy_id="lifecycle", version="1", digest=digest),
    }
    first = LifecycleEvent.build(**common, event_type=E.PROMOTED_ACTIVE, disposition=D.ACTIVE, expected_prior=GENESIS)
    last = LifecycleEvent.build(**common, event_type=E.RETRACTED, disposition=D.RETRACTED, expected_prior=first.id)
    head = fold([LifecycleFact.of(last), LifecycleFact.of(first)])[first.scope_variant_id]
    assert (head.event_id, head.disposition, head.length) == (last.id, D.RETRACTED, 2)
