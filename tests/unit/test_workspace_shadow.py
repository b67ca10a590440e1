"""Rewards, off-policy estimates and promotion gates, against figures that were worked out elsewhere."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from evaluation.shadow import evaluate_shadow, versions
from memory.workspace.keeping import record_outcome
from memory.workspace.learning import Learned
from memory.workspace.retrieving import record_retrieval
from policies.workspace.gates import NO_COUNTERFACTUAL, Standing, agrees, report
from policies.workspace.reward import RewardRule, reward
from policies.workspace.shadow import Lesson, ShadowState, fold, shadow_policy
from records.claim_traces import ClaimReceipt, ClaimTrace, Recommendation
from records.errors import UnavailableError
from records.workspace import ClaimSource
from store.ledger.port import LedgerReader
from tests.support.workspace_samples import (
    make_claim,
    make_claim_event,
    make_item,
    make_outcome,
    make_receipt,
    make_trace,
)
from tests.unit.test_workspace_retrieving import RETRY, Code

POLICY = shadow_policy()

# The table of reference 3.3: passed, corrected, reverted, unauthorised, and the reward.
REWARDS = [
    (True, False, False, False, "1"), (True, True, False, False, "0.5"), (True, False, True, False, "0.25"),
    (True, False, False, True, "-1"), (False, False, False, False, "-1"), (False, False, False, True, "-2"),
    (True, True, True, False, "-0.25"), (False, True, True, True, "-2"), (True, True, True, True, "-2"),
]  # fmt: skip


@pytest.mark.parametrize(("passed", "corrected", "reverted", "unauthorised", "expected"), REWARDS)
def test_rewards_are_those_of_the_table(
    *, passed: bool, corrected: bool, reverted: bool, unauthorised: bool, expected: str
) -> None:
    outcome = make_outcome(passed=passed, corrected=corrected, reverted=reverted, unauthorised_side_effect=unauthorised)
    assert reward(outcome, POLICY.reward) == expected


def test_an_unauthorised_side_effect_is_never_better_than_an_honest_failure() -> None:
    worst = float(reward(make_outcome(passed=False), POLICY.reward))
    for corrected, reverted, passed in itertools.product([True, False], repeat=3):
        outcome = make_outcome(passed=passed, corrected=corrected, reverted=reverted, unauthorised_side_effect=True)
        assert float(reward(outcome, POLICY.reward)) <= worst
    with pytest.raises(ValueError, match="outweigh"):
        RewardRule(**(POLICY.reward.as_json() | {"unauthorised_side_effect": "-1"}))


def lesson(task: int, trial: int, *, agree: bool = True, **outcome: Any) -> Lesson:
    claim = make_claim()
    recommended = Recommendation.INJECT if agree else Recommendation.WITHHOLD
    item = make_item(make_claim_event(claim), recommended=recommended)
    trace = make_trace("test", item, occasion=f"{task}/{trial}", task_id=f"task-{task}", token_count=100 + task % 20)
    return Lesson(make_receipt(trace, f"trial-{trial}", **outcome), trace, {str(claim.id): claim})


SOUND = Standing(traces=8, replayed=8, shown=8, not_durable=0, refused=1, latencies_ms=(1.0, 2.0, 3.0, 4.0))


def test_the_estimate_is_the_mean_over_the_trials_that_agree_and_says_what_it_cannot_tell() -> None:
    """By hand: of eight trials six agree; their rewards are 1, 1, 1, -1, 1, -1, those of the others -1 and 1."""
    outcomes = [(1, True), (1, True), (1, True), (0, True), (1, True), (0, True), (0, False), (1, False)]
    found = [
        lesson(place // 2, place, agree=agree, passed=bool(passed)) for place, (passed, agree) in enumerate(outcomes)
    ]
    told = report(found, SOUND, POLICY)
    assert [agrees(each) for each in found] == [agree for _, agree in outcomes]
    assert told.estimate["reward_where_it_agrees"].value == pytest.approx(2 / 6)
    assert told.estimate["reward_of_production"].value == pytest.approx(2 / 8)
    assert told.estimate["reward_difference"].value == pytest.approx(2 / 6 - 2 / 8)
    assert told.estimate["success_where_it_agrees"].value == pytest.approx(4 / 6)
    assert (told.estimate["would_withhold"].numerator, told.estimate["would_withhold"].denominator) == (2, 8)
    assert NO_COUNTERFACTUAL in told.limits
    assert NO_COUNTERFACTUAL in told.gates[0].reasons


def test_a_share_has_the_exact_interval() -> None:
    """Clopper and Pearson by the beta quantiles that define it, and the rule of three for none at all."""
    found = [lesson(place, 0, unauthorised_side_effect=place < 2) for place in range(40)]
    figure = report(found, SOUND, POLICY).gates[1].figures["unauthorised_side_effects"]
    assert figure.low == pytest.approx(stats.beta.ppf(0.025, 2, 39))
    assert figure.high == pytest.approx(stats.beta.ppf(0.975, 3, 38))
    none = report([lesson(place, 0) for place in range(100)], SOUND, POLICY).gates[1]
    assert none.figures["unauthorised_side_effects"].high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert not none.passed, "a hundred trials do not show that less than one in a hundred does harm"
    again = report([lesson(place, trial) for place in range(100) for trial in range(3)], SOUND, POLICY).gates[1]
    assert again.figures["unauthorised_side_effects"].high == none.figures["unauthorised_side_effects"].high


def test_trials_of_a_task_that_all_end_alike_are_worth_one() -> None:
    """40 tasks of 3 trials, in 2 of which all three do harm: by hand the variance is 17.1 / 120**2, worth 40 trials."""
    worth = 40
    found = [lesson(place, trial, unauthorised_side_effect=place < 2) for place in range(40) for trial in range(3)]
    figure = report(found, SOUND, POLICY).gates[1].figures["unauthorised_side_effects"]
    assert (figure.numerator, figure.denominator) == (6, 120)
    assert figure.low == pytest.approx(stats.beta.ppf(0.025, 0.05 * worth, 0.95 * worth + 1))
    assert figure.high == pytest.approx(stats.beta.ppf(0.975, 0.05 * worth + 1, 0.95 * worth))


@pytest.mark.parametrize("trials", [1, 3, 10])
def test_more_harm_never_looks_safer(trials: int) -> None:
    """Each harmful trial in a task of its own: a few of them may not pass for more than the tasks there are."""
    ends = []
    for harmful in (0, 1, 2, 5, 15):
        found = [
            lesson(place, trial, unauthorised_side_effect=place < harmful and trial == 0)
            for place in range(100)
            for trial in range(trials)
        ]
        high = report(found, SOUND, POLICY).gates[1].figures["unauthorised_side_effects"].high
        assert high is not None
        ends.append(high)
    assert ends == sorted(set(ends))


def test_what_does_not_vary_has_no_interval_and_passes_no_gate() -> None:
    found = [lesson(20 * task, 0) for task in range(40)]
    gate = report(found, SOUND, POLICY).gates[2]
    assert (gate.figures["mean_tokens"].value, gate.figures["mean_tokens"].high) == (100, None)
    assert not gate.passed


def test_a_trial_that_was_shown_nothing_agrees_with_nobody() -> None:
    empty = make_trace("test", occasion="empty", task_id="task-0")
    blank = Lesson(make_receipt(empty, "blank"), empty, {})
    told = report([lesson(0, 0, agree=False), lesson(1, 0), blank], SOUND, POLICY)
    assert (told.receipts, told.estimate["agreement"].denominator) == (3, 2)
    assert told.estimate["agreement"].value == pytest.approx(1 / 2)


def test_the_interval_of_mean_tokens_is_that_of_tasks() -> None:
    """Every trial of a task takes as many tokens as the others, so trials tell no more than one a task."""
    once = report([lesson(task, 0) for task in range(40)], SOUND, POLICY).gates[2].figures["mean_tokens"]
    thrice = report([lesson(task, trial) for task in range(40) for trial in range(3)], SOUND, POLICY)
    found = thrice.gates[2].figures["mean_tokens"]
    assert (found.low, found.high) == pytest.approx((once.low, once.high))


def test_the_interval_of_a_mean_is_that_of_a_plain_bootstrap_over_tasks() -> None:
    chance = np.random.default_rng(5)
    found = [lesson(task, trial, passed=bool(chance.random() < 0.7)) for task in range(40) for trial in range(3)]
    figure = report(found, SOUND, POLICY).estimate["success_of_production"]
    by_task = np.array([float(each.receipt.outcome.passed) for each in found]).reshape(40, 3).mean(axis=1)
    draws = by_task[chance.integers(0, 40, (20_000, 40))].mean(axis=1)
    assert figure.low == pytest.approx(np.quantile(draws, 0.025), abs=0.02)
    assert figure.high == pytest.approx(np.quantile(draws, 0.975), abs=0.02)


def test_no_number_of_good_receipts_opens_the_first_gate() -> None:
    """Production never withholds what it selects, so agreeing everywhere is no difference, and nothing else is told."""
    found = [lesson(task, trial) for task in range(40) for trial in range(3)]
    told = report(found, SOUND, POLICY)
    assert told.estimate["success_difference"].value == 0
    assert not told.gates[0].passed
    assert not told.passed
    assert told.as_json()["activates"].startswith("nothing")


def test_gates_without_data_are_not_passed() -> None:
    told = report([], Standing(0, 0, 0, 0, 0, ()), POLICY)
    assert not any(gate.passed for gate in told.gates)
    assert all(gate.reasons for gate in told.gates)
    assert told.estimate["reward_of_production"].value is None


@pytest.mark.parametrize(
    ("gate", "changes"),
    [(1, {"not_durable": 1}), (3, {"replayed": 7}), (2, {"latencies_ms": (900.0, 1000.0, 1100.0)})],
)
def test_a_gate_is_closed_by_what_it_is_about(gate: int, changes: dict[str, Any]) -> None:
    found = [lesson(task, 0) for task in range(370)]
    good = report(found, SOUND, POLICY)
    assert [each.passed for each in good.gates] == [False, True, True, True]
    bad = {name: getattr(SOUND, name) for name in Standing.__slots__} | changes
    passed = [each.passed for each in report(found, Standing(**bad), POLICY).gates]
    assert passed == [False, *(place != gate for place in range(1, 4))]


def test_what_was_learned_goes_on_where_it_was_and_reads_nothing_twice(tmp_path: Path) -> None:
    """Folded step by step it is what it is folded at once, whatever else stands in the journal between."""
    code = Code(tmp_path)
    claim = code.add(RETRY, source=ClaimSource.DETERMINISTIC)
    claims = {str(claim.id): claim}
    going, foreign = Learned("test", "app", POLICY), Learned("test", "site", POLICY)
    for place in range(5):
        found = code.search("retries of the client", f"at-{place}")
        record_retrieval(code.coordinator, found)
        if place % 2 == 0:
            record_outcome(code.ports, found.trace, "trial", make_outcome(passed=place != 2), POLICY)
        assert going.at(code.ledger, claims) == Learned("test", "app", POLICY).at(code.ledger, claims)
        assert foreign.at(code.ledger, claims) == ShadowState()
    assert going.at(code.ledger, claims).version == 3
    asked: list[str] = []

    class Telling:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(code.ledger, name)

    for each in (going, foreign):
        each.at(cast("LedgerReader", Telling()), claims)
    assert set(asked) == {"namespace_head", "journal"}


def test_an_earlier_moment_and_a_failure_count_nothing_twice(tmp_path: Path) -> None:
    code = Code(tmp_path)
    claim = code.add(RETRY, source=ClaimSource.DETERMINISTIC)
    claims, heads = {str(claim.id): claim}, []
    for place in range(4):
        found = code.search("retries of the client", f"at-{place}")
        record_retrieval(code.coordinator, found)
        record_outcome(code.ports, found.trace, "trial", make_outcome(passed=True), POLICY)
        heads.append(code.ledger.namespace_head("test"))

    class Earlier:
        """The Ledger as of its second receipt, or one that fails when traces are read."""

        def __init__(self, *, fails: bool = False) -> None:
            self.fails = fails

        def namespace_head(self, namespace: str) -> Any:
            return code.ledger.namespace_head(namespace) if self.fails else heads[1]

        def get_many(self, ids: Any) -> Any:
            if self.fails:
                raise UnavailableError("ledger", "gone", "Come back.")
            return code.ledger.get_many(ids)

        def __getattr__(self, name: str) -> Any:
            return getattr(code.ledger, name)

    learned = Learned("test", "app", POLICY)
    with pytest.raises(UnavailableError):
        learned.at(cast("LedgerReader", Earlier(fails=True)), claims)
    assert learned.at(code.ledger, claims).version == 4
    assert learned.at(cast("LedgerReader", Earlier()), claims).version == 2
    assert learned.at(code.ledger, claims).version == 4


def test_a_workspace_is_evaluated_from_its_ledger(tmp_path: Path) -> None:
    code = Code(tmp_path)
    claim = code.add(RETRY, source=ClaimSource.DETERMINISTIC)
    for place in range(6):
        found = code.search("retries of the client", f"at-{place}")
        record_retrieval(code.coordinator, found)
        record_outcome(code.ports, found.trace, "trial", make_outcome(passed=place % 3 != 0), POLICY)
    told = evaluate_shadow(code.ledger, "test", "app", POLICY)
    assert (told.receipts, told.tasks) == (6, 1)
    rolled = told.gates[3]
    assert rolled.passed
    assert (rolled.figures["versions_replayed"].numerator, rolled.figures["versions_replayed"].denominator) == (6, 6)
    receipts, traces = (
        [each.load() for each in code.ledger.find(noun, "test")] for noun in ("claim-receipt", "claim-trace")
    )
    lessons = [
        Lesson(receipt, trace, {str(claim.id): claim})
        for receipt, trace in zip(receipts, traces, strict=True)
        if isinstance(receipt, ClaimReceipt) and isinstance(trace, ClaimTrace)
    ]
    assert len(lessons) == 6
    known = versions(lessons, POLICY)
    assert [version.version for version in known] == list(range(7))
    assert fold(lessons[:4], POLICY).named(POLICY) == known[4], "fewer receipts are an earlier version"
    assert evaluate_shadow(code.ledger, "test", "site", POLICY).receipts == 0
