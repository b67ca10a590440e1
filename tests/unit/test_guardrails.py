"""Guardrails: a gain at their price is never recommended, and one that was not looked at waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats

from policies.distillation_policy import CandidateReason
from policies.distiller import VariantVerdict
from records.knowledge import DecisionKind
from records.values import ActionKind, Direction, MetricSpec
from tests.support.trials import make_contract
from tests.unit.comparisons import FIRST, POLICY, run, task, verdicts

ACCURACY = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, unit="share")
LATENCY = MetricSpec(name="latency", direction=Direction.MINIMIZE, unit="s")
GAINS = (0.05, 0.07, 0.03, 0.05, 0.06)
HARM = (-0.04, -0.05, -0.03, -0.06, -0.045)


def guarded(guard: Sequence[float | None], gains: Sequence[float] = GAINS, metric: MetricSpec = ACCURACY) -> list[Any]:
    """Return one pair per root, with the change of the guardrail; None where the changed run has it not verified."""
    contract = make_contract(guardrail_metrics=(metric,))
    found = []
    for at, (gain, change) in enumerate(zip(gains, guard, strict=True)):
        where: dict[str, Any] = {"task": task(f"r{at}"), "contract": contract, "seed": 0}
        before = {"balanced_accuracy": 0.5, metric.name: 0.9}
        after = {"balanced_accuracy": round(0.5 + gain, 9)} | ({} if change is None else {metric.name: 0.9 + change})
        found.append(run(f"b{at}", 0.5, change=None, **where | {"verified": before}))
        found.append(run(f"c{at}", 0.5, **where | {"verified": after}))
    return found


def codes(verdict: VariantVerdict) -> set[str]:
    """Return the codes of the findings."""
    return {finding.code for finding in verdict.findings}


def test_a_gain_that_harms_a_guardrail_is_not_recommended() -> None:
    """Rejected, for no action follows from it; the finding has the guardrail's interval, which is scipy's."""
    (verdict,) = verdicts(guarded(HARM))
    assert verdict.verdict.decision is DecisionKind.REJECTED
    assert verdict.verdict.reason_codes == (CandidateReason.GENERIC_OR_NON_ACTIONABLE,)
    assert verdict.verdict.action is None
    (finding,) = [each for each in verdict.findings if each.code == "guardrail_harms"]
    half = stats.t.ppf(0.975, 4) * stats.sem(HARM)
    centre = sum(HARM) / 5
    assert f"interval {centre - half:+.4g} to {centre + half:+.4g} over 5 units" in finding.detail


def test_a_loss_that_buys_a_guardrail_is_no_avoidance() -> None:
    """The mirror image: slower and better is a trade as well, for whoever reads it to decide."""
    (verdict,) = verdicts(guarded([-each for each in HARM], gains=[-each for each in GAINS]))
    assert verdict.verdict.reason_codes == (CandidateReason.GENERIC_OR_NON_ACTIONABLE,)
    assert verdict.verdict.action is None
    assert "guardrail_improves" in codes(verdict)
    (alone,) = verdicts(guarded([0.0] * 5, gains=[-each for each in GAINS]))
    assert alone.verdict.action is ActionKind.AVOID


def test_the_guardrails_direction_says_what_harms() -> None:
    """The same numbers of a latency are a gain, and their opposite is a harm."""
    (better,) = verdicts(guarded(HARM, metric=LATENCY))
    (worse,) = verdicts(guarded([-each for each in HARM], metric=LATENCY))
    assert (better.verdict.action, worse.verdict.action) == (ActionKind.RECOMMEND, None)
    assert "guardrail_improves" in codes(better)


@pytest.mark.parametrize(
    ("guard", "code"),
    [
        ((-0.001, 0.001, -0.002, 0.001, 0.0), "guardrail_no_effect"),
        ((-0.004, -0.0035, -0.003, -0.004, -0.0038), "guardrail_no_effect"),
        ((-0.04, 0.05, -0.03, 0.06, -0.02), "guardrail_uncertain"),
        ((0.04, 0.05, 0.03, 0.06, 0.02), "guardrail_improves"),
    ],
)
def test_what_is_not_shown_to_be_harmed_beyond_its_margin_stands_in_nothings_way(
    guard: tuple[float, ...], code: str
) -> None:
    (verdict,) = verdicts(guarded(guard))
    assert verdict.verdict.action is ActionKind.RECOMMEND
    assert code in codes(verdict)


def test_a_guardrail_that_too_few_units_have_verified_is_waited_for() -> None:
    """Two of five roots are not the three that an active rule needs; three are."""
    (missing,) = verdicts(guarded((0.01, 0.0, None, None, None)))
    assert missing.verdict.decision is DecisionKind.DEFERRED
    assert missing.verdict.reason_codes == (CandidateReason.MISSING_GUARDRAIL_EVIDENCE,)
    (never,) = verdicts(guarded((None,) * 5))
    assert never.verdict.reason_codes == (CandidateReason.MISSING_GUARDRAIL_EVIDENCE,)
    assert "guardrail_not_verified" in codes(never)
    (enough,) = verdicts(guarded((0.01, 0.0, 0.0, None, None)))
    assert enough.verdict.decision is DecisionKind.PROMOTED_ACTIVE


def test_an_avoidance_needs_no_guardrail() -> None:
    """What does harm is to be avoided, whatever else it does."""
    (verdict,) = verdicts(guarded((None,) * 5, [-gain for gain in GAINS]))
    assert verdict.verdict.action is ActionKind.AVOID


def test_under_version_1_a_guardrail_is_reported_only() -> None:
    (verdict,) = verdicts(guarded(HARM), FIRST)
    assert verdict.verdict.action is ActionKind.RECOMMEND
    assert codes(verdict) == {"eligible_active"}
    (shown,) = verdict.effect.guardrails
    assert shown == verdicts(guarded(HARM), POLICY)[0].effect.guardrails[0]


def test_of_two_arms_the_guardrail_is_seen_as_often_as_in_the_smaller_one() -> None:
    """Five changed runs have it verified and one baseline: nobody has looked at what the change costs."""
    contract = make_contract(guardrail_metrics=(ACCURACY,))
    found = []
    for at in range(5):
        before = {"balanced_accuracy": round(0.5 + at / 1000, 6)} | ({"accuracy": 0.9} if at == 0 else {})
        after = {"balanced_accuracy": round(0.6 + at / 1000, 6), "accuracy": 0.5}
        found.append(run(f"b{at}", 0.5, seed=1000 + at, change=None, contract=contract, verified=before))
        found.append(run(f"c{at}", 0.6, seed=2000 + at, contract=contract, verified=after))
    (instance,) = [each for each in verdicts(found) if each.variant.of_one_task]
    assert instance.verdict.decision is DecisionKind.DEFERRED
    assert instance.verdict.reason_codes == (CandidateReason.MISSING_GUARDRAIL_EVIDENCE,)
