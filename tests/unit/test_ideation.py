"""Ideation: coverage and dependence by hand, the cap kept whatever cards say, and a report that claims nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluation.ideation import CLAIM, BranchResult, Search, ideation_report
from policies.ideation import (
    Branch,
    Idea,
    coverage,
    dependence,
    dependence_cap,
    ideation_policy,
    propose,
    steerable,
)
from policies.loading import load_policy
from policies.planner import PlannerQuestion, planner_policy
from policies.retrieval_policy import FreshStart, confirmatory_policy, retrieval_policy
from records.decisions import AllowedAction, ContextItem
from records.errors import InvalidInputError
from records.values import DecisionPoint
from tests.unit.recall_support import CATALOG, rule, view
from tests.unit.test_planner import card

POLICY = ideation_policy()
CAP = dependence_cap(retrieval_policy())
STEERED = steerable(POLICY.proposals, CAP)


def idea(family: str | None, *, valid: bool = True, steered: bool = False) -> Idea:
    """Return an idea."""
    return Idea(family=family, valid=valid, steered=steered)


def test_coverage_counts_distinct_families_of_valid_ideas_over_what_was_allowed() -> None:
    """Reference 1.3: distinct valid families / k."""
    ideas = [idea("a"), idea("a"), idea("b"), idea("c", valid=False)]
    assert coverage(ideas, 4) == 0.5
    assert coverage(ideas[:1], 4) == 0.25
    assert coverage([idea(None, valid=False)], 4) == 0.0
    assert coverage([], 4) == 0.0
    assert coverage([idea(name) for name in "abcd"], 4) == 1.0


def test_dependence_is_the_share_that_followed_from_a_card() -> None:
    assert dependence([idea("a", steered=True), idea("b"), idea("c")], 4) == 0.25


def search_by(cards: tuple[ContextItem, ...], seed: int) -> list[tuple[AllowedAction, bool]]:
    """Have as many ideas as the policy allows, each from the same start."""
    had: list[tuple[AllowedAction, bool]] = []
    for index in range(POLICY.proposals):
        question = PlannerQuestion(
            cards=cards,
            config=CATALOG.baseline,
            catalog=CATALOG,
            tried=frozenset(action for action, _ in had),
            decision_index=index,
            seed=seed,
            view=view(),
        )
        answer = propose(question, planner_policy(), STEERED)
        assert answer.action is not None
        had.append((answer.action, answer.steered))
    return had


@given(st.integers(0, 2**31), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_vrm_o05_memory_steers_no_more_than_its_cap_and_the_rest_explores(seed: int, cards: int) -> None:
    """However many cards there are, at most half of four ideas follow from them; all ideas of a branch differ."""
    shown = tuple(
        card(rule(knob, value, start=start, mechanism=mechanism), at)
        for at, (knob, value, start, mechanism) in enumerate(
            [
                ("C", "10", "1", "regularisation"),
                ("scaler", '"standard"', '"none"', "feature_scaling"),
                ("class_weight", '"balanced"', '"none"', "class_weighting"),
            ][:cards],
            start=1,
        )
    )
    with_memory, fresh = search_by(shown, seed), search_by((), seed)
    assert sum(steered for _, steered in with_memory) <= STEERED == 2
    assert not any(steered for _, steered in fresh)
    assert with_memory[0][1]
    assert not any(steered for _, steered in with_memory[STEERED:])
    for ideas in (with_memory, fresh):
        assert len({action for action, _ in ideas}) == POLICY.proposals


def result(quality: float | None, *families: str, steered: int = 0) -> BranchResult:
    """Return a branch with valid ideas of some families."""
    ideas = tuple(idea(family, steered=place < steered) for place, family in enumerate(families))
    return BranchResult(ideas=ideas, quality=quality, cards=2 * steered)


SEARCHES = [
    Search(
        task=task,
        seed=0,
        branches={
            Branch.WITH_MEMORY: result(0.8 + step, "a", "a", "b", "c", steered=2),
            Branch.FRESH_START: result(0.7, "a", "b", "c", "d") if step else result(None),
        },
    )
    for task, step in (("t1", 0.0), ("t2", 0.05), ("t3", 0.1))
]


def test_vrm_o05_both_branches_are_reported_with_quality_diversity_and_intervals() -> None:
    """Intervals against scipy; the fresh branch of `t1` failed, and counts as it was planned to."""
    report = ideation_report(SEARCHES, POLICY, CAP, "accuracy")
    memory, fresh = (report["branches"][branch.value] for branch in Branch)
    assert memory["coverage"]["mean"] == 0.75
    assert fresh["coverage"]["mean"] == pytest.approx((0 + 1 + 1) / 3)
    low, high = stats.t.interval(0.95, 2, loc=2 / 3, scale=stats.sem([0, 1, 1]))
    assert (fresh["coverage"]["low"], fresh["coverage"]["high"]) == pytest.approx((low, high))
    assert fresh["quality"]["mean"] == pytest.approx(1.4 / 3)
    assert (fresh["failed"], memory["failed"]) == (1, 0)
    assert report["difference"]["quality"]["mean"] == pytest.approx((0.8 + 0.15 + 0.2) / 3)
    assert report["difference"]["coverage"]["mean"] == pytest.approx((0.75 - 0.25 - 0.25) / 3)
    assert memory["families"] == {"a": 6, "b": 3, "c": 3}
    assert report["memory_dependence"] == {"cap": 0.5, "largest": 0.5, "within_cap": True}
    assert json.loads(json.dumps(report)) == report


def test_two_tasks_have_no_interval_and_nothing_is_claimed() -> None:
    report = ideation_report(SEARCHES[:2], POLICY, CAP, "accuracy")
    assert report["branches"]["with_memory"]["coverage"]["low"] is None
    assert report["difference"]["quality"]["low"] is None
    assert report["claim"] == CLAIM
    assert CLAIM.startswith("none")
    assert "finding" not in json.dumps(report)


def test_seeds_of_a_task_are_no_tasks() -> None:
    doubled = [*SEARCHES, *(Search(task=each.task, seed=1, branches=each.branches) for each in SEARCHES)]
    one, two = (ideation_report(searches, POLICY, CAP, "m") for searches in (SEARCHES, doubled))
    assert two["searches"] == 2 * one["searches"]
    assert two["branches"]["fresh_start"]["coverage"] == one["branches"]["fresh_start"]["coverage"]


def test_exceeding_the_cap_is_told() -> None:
    over = Search(task="t", seed=0, branches={each: result(0.5, "a", "b", "c", "d", steered=3) for each in Branch})
    assert ideation_report([over], POLICY, CAP, "m")["memory_dependence"] == {
        "cap": 0.5, "largest": 0.75, "within_cap": False,
    }  # fmt: skip


@pytest.mark.parametrize("changes", [{"proposals": 1}, {"dependence_cap": 500}, {"level": "0.950"}])
def test_what_is_no_policy_is_refused(changes: dict[str, Any]) -> None:
    text = json.dumps(POLICY.as_json() | changes)
    with pytest.raises(InvalidInputError, match=next(iter(changes))):
        load_policy(type(POLICY), text, "f")


def test_the_cap_stands_in_the_retrieval_policy_alone() -> None:
    """What the profile for ideation says is what a search keeps, and a policy without one has no search."""
    assert not [name for name in type(POLICY).model_fields if "cap" in name]
    profile = retrieval_policy().require_profile(DecisionPoint.IDEATION)
    start = FreshStart(branches=1, dependence_cap=250)
    changed = retrieval_policy().model_copy(update={"profiles": (profile.model_copy(update={"fresh_start": start}),)})
    assert steerable(POLICY.proposals, dependence_cap(changed)) == 1
    without = retrieval_policy().model_copy(update={"profiles": ()})
    for policy in (retrieval_policy("1"), confirmatory_policy(), without):
        assert policy.profile(DecisionPoint.IDEATION) is None
        with pytest.raises(ValueError, match="ideation"):
            dependence_cap(policy)
