"""The planner: seeded exploration, steering and release, one reason per card, the catalog above any card."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.recall.cards import make_card
from policies.planner import (
    PlannerAnswer,
    PlannerQuestion,
    allowed_action_digest,
    current_settings,
    exploration_order,
    open_actions,
    plan,
    planner_policy,
)
from records.decisions import AllowedAction, ContextItem, ScorePart, citation_id
from records.ids import EventId, IntentId, MemoryId, RecallInputId
from records.knowledge import MemoryRecord
from records.outcomes import CardReason
from records.snapshots import KnowledgeMember
from records.values import ActionKind, Disposition, Grade
from tests.unit.recall_support import CATALOG, METRIC, effect, rule, strength, view

POLICY = planner_policy()
EVERY = open_actions(CATALOG, CATALOG.baseline, frozenset())


def card(record: MemoryRecord, ordinal: int = 1) -> ContextItem:
    member = KnowledgeMember(
        scope_variant_id=record.scope_variant_id,
        family_id=record.family_id,
        memory_id=MemoryId(record.id),
        event_id=EventId.derive({}),
        disposition=Disposition.ACTIVE,
    )
    made = make_card(record, member, 1, "vrm-cards/1")
    return ContextItem(
        ordinal=ordinal,
        citation_id=citation_id(IntentId.derive({}), RecallInputId.derive({}), made.card_id, ordinal),
        card_id=made.card_id,
        memory_id=made.memory_id,
        card=made,
        score=(ScorePart(feature="total", value=1),),
        token_count=100,
    )


def ask(*records: MemoryRecord, **changes: Any) -> PlannerAnswer:
    question = PlannerQuestion(
        cards=tuple(card(record, at) for at, record in enumerate(records, start=1)),
        config=CATALOG.baseline,
        catalog=CATALOG,
        tried=frozenset(),
        decision_index=0,
        seed=7,
        view=view(),
    )
    return plan(replace(question, **changes), POLICY)


def warning(knob: str, value: str, start: str) -> MemoryRecord:
    return rule(knob, value, start=start, action=ActionKind.AVOID, effect=effect(-0.05, low=-0.09, high=-0.01))


def reasons(answer: PlannerAnswer) -> list[CardReason]:
    return [entry.reason for entry in answer.dispositions]


def test_exploration_covers_the_catalog_once_in_a_seeded_order() -> None:
    """Every allowed change but the value in effect; 3 + 3 + 1 + 2 + 2 + 1 by the shipped catalog."""
    assert len(EVERY) == 12
    order = exploration_order(EVERY, 7)
    assert sorted(order, key=str) == sorted(EVERY, key=str)
    assert exploration_order(tuple(reversed(EVERY)), 7) == order
    assert any(exploration_order(EVERY, seed) != order for seed in range(8))


@given(st.integers(0, 2**53 - 1), st.sets(st.sampled_from(EVERY)))
@settings(max_examples=60, deadline=None)
def test_two_arms_with_one_seed_explore_alike(seed: int, tried: set[AllowedAction]) -> None:
    """Trying an action moves no other, and cards that are released leave no trace in the order."""
    left = tuple(action for action in exploration_order(EVERY, seed) if action not in tried)
    control = ask(seed=seed, tried=frozenset(tried))
    released = ask(rule(), seed=seed, tried=frozenset(tried), decision_index=POLICY.steered_decisions)
    assert control.action == released.action == (left[0] if left else None)
    assert control.steered is released.steered is False


def test_a_good_card_is_adopted_and_mapped_to_the_change() -> None:
    answer = ask(rule())
    assert reasons(answer) == [CardReason.ADOPTED_APPLICABLE]
    assert answer.action == AllowedAction(knob="C", value="10")
    assert answer.dispositions[0].action_knob == "C"
    assert answer.dispositions[0].action_value == "10"
    assert answer.change is not None
    assert (answer.change.from_value, answer.change.to_value) == (1, 10)
    assert answer.steered


def test_at_most_one_card_is_adopted() -> None:
    second = rule("scaler", '"standard"', start='"none"', mechanism="feature_scaling")
    answer = ask(rule(), second)
    assert reasons(answer) == [CardReason.ADOPTED_APPLICABLE, CardReason.NOT_CONSIDERED_BUDGET]
    assert answer.action == AllowedAction(knob="C", value="10")


def test_memory_lets_go_after_the_steered_decisions() -> None:
    last = ask(rule(), decision_index=POLICY.steered_decisions - 1)
    after = ask(rule(), decision_index=POLICY.steered_decisions)
    assert reasons(last) == [CardReason.ADOPTED_APPLICABLE]
    assert reasons(after) == [CardReason.NOT_CONSIDERED_BUDGET]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (rule("gamma", '"auto"', start='"scale"'), CardReason.REJECTED_PROTECTED_ACTION),
        (rule("C", "1000"), CardReason.REJECTED_PROTECTED_ACTION),
        (rule("C", "10.0"), CardReason.REJECTED_PROTECTED_ACTION),
        (rule("C", "not json"), CardReason.REJECTED_PROTECTED_ACTION),
        (rule("shrinking", "0", start="true"), CardReason.REJECTED_PROTECTED_ACTION),
        (rule(catalog_digest="c" * 64), CardReason.REJECTED_STALE_DEPENDENCY),
        (rule("C", "10", start="100"), CardReason.REJECTED_SCOPE_MISMATCH),
        (rule(effect=effect().model_copy(update={"metric": METRIC.model_copy(update={"name": "accuracy"})})),
         CardReason.REJECTED_SCOPE_MISMATCH),
        (rule(strength=strength(Grade.CONTESTED)), CardReason.REJECTED_COUNTEREVIDENCE),
        (rule(strength=strength(Grade.STRONG, 6, 5)), CardReason.REJECTED_COUNTEREVIDENCE),
        (rule(effect=effect(0.004)), CardReason.REJECTED_LOW_EXPECTED_UTILITY),
        (rule(effect=effect(-0.05, low=-0.1, high=0)), CardReason.REJECTED_LOW_EXPECTED_UTILITY),
        (rule(action=ActionKind.ABSTAIN), CardReason.REJECTED_LOW_EXPECTED_UTILITY),
    ],
)  # fmt: skip
def test_vrm_r09_the_planner_judges_a_card_by_its_own_rules(record: MemoryRecord, reason: CardReason) -> None:
    """Whatever a card claims, the proposal is one that exploration would have made."""
    answer = ask(record)
    assert reasons(answer) == [reason]
    assert answer.action == exploration_order(EVERY, 7)[0]
    assert answer.dispositions[0].action_knob is None


def test_an_action_that_was_tried_is_not_adopted_again() -> None:
    tried = frozenset({AllowedAction(knob="C", value="10")})
    answer = ask(rule(), tried=tried)
    assert reasons(answer) == [CardReason.REJECTED_LOW_EXPECTED_UTILITY]
    assert answer.action not in tried


def test_a_warning_makes_exploration_pass_over_the_action() -> None:
    """Adopted only where it changed the decision; then it is bound to what was done instead."""
    first, second, *_ = exploration_order(EVERY, 7)
    settings_now = {entry.knob: entry.value for entry in current_settings(CATALOG, CATALOG.baseline)}
    against_first = warning(first.knob, first.value, settings_now[first.knob])
    against_second = warning(second.knob, second.value, settings_now[second.knob])
    answer = ask(against_first)
    assert answer.action == second
    assert reasons(answer) == [CardReason.ADOPTED_APPLICABLE]
    assert (answer.dispositions[0].action_knob, answer.dispositions[0].action_value) == (second.knob, second.value)
    idle = ask(against_second)
    assert idle.action == first
    assert reasons(idle) == [CardReason.NOT_CONSIDERED_BUDGET]
    both = ask(against_second, against_first)
    assert both.action not in {first, second}
    assert reasons(both) == [CardReason.NOT_CONSIDERED_BUDGET, CardReason.ADOPTED_APPLICABLE]


def test_nothing_left_is_no_action() -> None:
    answer = ask(tried=frozenset(EVERY))
    assert answer.action is None
    assert answer.change is None
    last = EVERY[0]
    settings_now = {entry.knob: entry.value for entry in current_settings(CATALOG, CATALOG.baseline)}
    only = ask(warning(last.knob, last.value, settings_now[last.knob]), tried=frozenset(EVERY[1:]))
    assert only.action is None
    assert reasons(only) == [CardReason.NOT_CONSIDERED_BUDGET]


def test_one_spelling_of_a_number() -> None:
    """A configuration read back from JSON as 10.0 is the catalog's 10."""
    config = CATALOG.effective_config({"C": 10})
    floating = config | {"C": 10.0}
    assert current_settings(CATALOG, floating) == current_settings(CATALOG, config)
    assert AllowedAction(knob="C", value="10") not in open_actions(CATALOG, floating, frozenset())
    answer = ask(rule("C", "100", start="10"), config=floating)
    assert reasons(answer) == [CardReason.ADOPTED_APPLICABLE]


def test_allowed_action_digest_is_of_the_set() -> None:
    assert allowed_action_digest(EVERY) == allowed_action_digest(tuple(reversed(EVERY)))
    assert allowed_action_digest(EVERY) != allowed_action_digest(EVERY[1:])
