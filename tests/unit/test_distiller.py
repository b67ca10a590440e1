"""From pairs to verdicts: effects, families, links and actions, on numbers that were computed by hand and by scipy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from memory.evidence import TaskIdentity
from policies.contrasts import tabulate
from policies.distillation_policy import CandidateReason, distillation_policy
from policies.distiller import VariantVerdict, judge
from policies.gate import GateReason
from records.evidence import VerifiedEvidenceBundle
from records.knowledge import DecisionKind, LinkRelation
from records.values import ActionKind, Direction, Grade, MetricSpec
from tests.support.trials import BALANCED_ACCURACY, make_contract, make_task
from tests.unit.test_contrasts import baseline, changed

POLICY = distillation_policy()
GOOD = {"a": 0.05, "b": 0.07, "c": 0.03, "d": 0.05}
# By hand: mean 0.2 / 4; sd sqrt((0 + 4e-4 + 4e-4 + 0) / 3); t(0.975, 3) from any table.
MEAN, SD, T3 = 0.05, 0.016329931618554522, 3.182446305284263
SCALER, TOL = ("scaler", "none", "standard"), ("tol", 0.001, 0.01)


def pairs(
    deltas: dict[str, float],
    change: tuple[str, object, object] = SCALER,
    *,
    size: str = "small",
    start: float = 0.5,
    **fields: Any,
) -> list[VerifiedEvidenceBundle]:
    """Return baseline and changed bundle of each root, with the delta that it is given."""
    found = []
    for root, delta in deltas.items():
        task = _task(root, size)
        found.append(baseline(task=task, verified={"balanced_accuracy": start}, **fields))
        value = round(start + delta, 9)
        found.append(changed(task=task, change=change, verified={"balanced_accuracy": value}, **fields))
    return found


def _task(root: str, size: str) -> TaskIdentity:
    return replace(make_task(root), attributes={"problem": "multiclass", "size": size})


def verdicts(bundles: Iterable[VerifiedEvidenceBundle]) -> dict[str, VariantVerdict]:
    """Return the verdicts by the knob that they are about."""
    table = tabulate(bundles, POLICY)
    return {verdict.variant.target.knob.name: verdict for verdict in judge(table, POLICY).values()}


def test_effect_by_hand() -> None:
    effect = verdicts(pairs(GOOD))["scaler"].effect
    half = T3 * SD / 2
    wide = T3 * SD * 1.25**0.5
    assert (effect.baseline_mean, effect.changed_mean, effect.mean_delta) == ("0.5", "0.55", "0.05")
    assert effect.mean_interval is not None
    assert effect.prediction_interval is not None
    assert float(effect.mean_interval.low) == pytest.approx(MEAN - half)
    assert float(effect.mean_interval.high) == pytest.approx(MEAN + half)
    assert float(effect.prediction_interval.low) == pytest.approx(MEAN - wide)
    assert float(effect.prediction_interval.high) == pytest.approx(MEAN + wide)
    assert effect.mean_interval.level == effect.prediction_interval.level == "0.95"
    assert effect.unit_range == ("0.03", "0.07")
    assert (effect.unit_count, effect.pair_count) == (4, 4)
    assert (effect.improved_count, effect.worsened_count, effect.tied_count) == (4, 0, 0)
    independent = stats.ttest_1samp(list(GOOD.values()), 0.0).pvalue
    assert effect.p_value is not None
    assert float(effect.p_value) == pytest.approx(float(independent))


def test_seeds_of_one_root_are_averaged_before_roots_are() -> None:
    """Two seeds of `a` at 0.04 and 0.06 weigh as much as the one seed of every other root."""
    bundles = pairs({"b": 0.07, "c": 0.03, "d": 0.05}) + pairs({"a": 0.04}) + pairs({"a": 0.06}, seed=1)
    effect = verdicts(bundles)["scaler"].effect
    assert effect.mean_delta == "0.05"
    assert (effect.unit_count, effect.pair_count) == (4, 5)


def test_a_consistent_effect_is_an_active_recommendation() -> None:
    verdict = verdicts(pairs(GOOD))["scaler"]
    assert verdict.verdict.decision is DecisionKind.PROMOTED_ACTIVE
    assert verdict.verdict.action is ActionKind.RECOMMEND
    assert verdict.strength.grade is Grade.REPLICATED
    assert verdict.strength.support_count == 4
    assert verdict.claim == (
        'Changing scaler from "none" to "standard" improves balanced_accuracy by 0.0500 share, on average '
        "over 4 independent dataset roots."
    )


def test_a_consistent_harm_is_an_active_avoidance() -> None:
    verdict = verdicts(pairs({root: -delta for root, delta in GOOD.items()}))["scaler"]
    assert verdict.verdict.decision is DecisionKind.PROMOTED_ACTIVE
    assert verdict.verdict.action is ActionKind.AVOID
    assert " worsens balanced_accuracy by 0.0500 share, " in verdict.claim


def test_the_metric_says_which_sign_is_good() -> None:
    loss = MetricSpec(name="balanced_accuracy", direction=Direction.MINIMIZE, unit="share")
    verdict = verdicts(pairs(GOOD, contract=make_contract(primary_metric=loss)))["scaler"]
    assert verdict.verdict.action is ActionKind.AVOID
    assert (verdict.effect.improved_count, verdict.effect.worsened_count) == (0, 4)


def test_a_true_null_stays_out() -> None:
    """Smaller than the contract's margin of 0.005 with certainty: a finding, and no rule."""
    verdict = verdicts(pairs({"a": 0.001, "b": -0.001, "c": 0.002, "d": -0.001, "e": 0.0}, TOL))["tol"]
    assert verdict.verdict.decision is DecisionKind.REJECTED
    assert verdict.verdict.reason_codes == (CandidateReason.GENERIC_OR_NON_ACTIONABLE,)
    assert verdict.verdict.action is None
    assert GateReason.INSIDE_MARGIN in verdict.verdict.findings


@pytest.mark.parametrize(
    ("deltas", "decision"),
    [
        ({"a": 0.09}, DecisionKind.DEFERRED),
        ({"a": 0.09, "b": 0.08}, DecisionKind.PROMOTED_PROVISIONAL),
        ({"a": 0.09, "b": -0.08}, DecisionKind.DEFERRED),
        ({"a": 0.30, "b": -0.02, "c": -0.03, "d": -0.01}, DecisionKind.DEFERRED),
        ({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, DecisionKind.REJECTED),
    ],
)
def test_thin_or_mixed_evidence_is_never_active(deltas: dict[str, float], decision: DecisionKind) -> None:
    assert verdicts(pairs(deltas))["scaler"].verdict.decision is decision


class TestFamilies:
    """The gate corrects for the contrasts of one task scope, and of no other."""

    def test_alone_the_p_value_is_not_adjusted(self) -> None:
        effect = verdicts(pairs(GOOD))["scaler"].effect
        assert effect.adjusted_p_value == effect.p_value

    def test_another_contrast_of_the_scope_is_corrected_for(self) -> None:
        """Benjamini-Hochberg of two: the smaller p doubles, the larger stays."""
        other = {"a": 0.02, "b": -0.02, "c": 0.03, "d": 0.01}
        both = verdicts(pairs(GOOD) + pairs(other, TOL))
        first, second = both["scaler"].effect, both["tol"].effect
        p, q = (float(stats.ttest_1samp(list(deltas.values()), 0.0).pvalue) for deltas in (GOOD, other))
        assert p < q
        assert float(first.adjusted_p_value or "nan") == pytest.approx(min(2 * p, q))
        assert float(second.adjusted_p_value or "nan") == pytest.approx(q)
        assert (both["scaler"].gate.family_size, both["scaler"].gate.family_untested) == (2, 0)

    def test_enough_trying_closes_the_gate(self) -> None:
        """p is 0.0088 here; corrected for nine more contrasts that show nothing it is above 0.05."""
        noise = {"a": 0.02, "b": -0.02, "c": 0.015, "d": -0.016}
        many = pairs(GOOD)
        for number in range(9):
            many += pairs(noise, (f"knob_{number}", 0, 1))
        verdict = verdicts(many)["scaler"]
        assert verdict.gate.family_size == 10
        assert float(verdict.effect.adjusted_p_value or "nan") == pytest.approx(0.0876, abs=1e-3)
        assert verdict.verdict.decision is not DecisionKind.PROMOTED_ACTIVE
        assert GateReason.ADJUSTED_P_ABOVE_Q in verdict.verdict.findings

    def test_another_scope_changes_nothing(self) -> None:
        alone = verdicts(pairs(GOOD))["scaler"]
        with_others = verdicts(pairs(GOOD) + pairs({"e": 0.01, "f": -0.01, "g": 0.012}, TOL, size="large"))["scaler"]
        assert with_others == alone

    def test_contrasts_below_three_units_are_not_counted(self) -> None:
        both = verdicts(pairs(GOOD) + pairs({"a": 0.01, "b": 0.02}, TOL))
        assert (both["scaler"].gate.family_size, both["scaler"].gate.family_untested) == (1, 1)
        assert both["scaler"].effect.adjusted_p_value == both["scaler"].effect.p_value


def test_links_say_which_pairs_support_and_which_contradict() -> None:
    """A pair on the side of the mean supports; one against it, and a tie, contradict and stay (VRM-W07)."""
    bundles = pairs(GOOD | {"against": -0.01, "tie": 0.0})
    verdict = verdicts(bundles)["scaler"]
    roots = {bundle.experience.id: bundle.attempt.dataset_root for bundle in bundles}
    relations: dict[LinkRelation, set[str]] = {}
    for link in verdict.links:
        assert roots[link.experience_id] == roots[link.comparator_id]
        assert link.experience_id != link.comparator_id
        relations.setdefault(link.relation, set()).add(roots[link.experience_id])
    assert relations == {
        LinkRelation.SUPPORTS: set(GOOD),
        LinkRelation.CONTRADICTS: {"against"},
        LinkRelation.TIES: {"tie"},
    }
    assert (verdict.effect.improved_count, verdict.effect.worsened_count, verdict.effect.tied_count) == (4, 1, 1)


def test_links_resolve_to_the_records_of_their_pair() -> None:
    bundles = {bundle.experience.id: bundle for bundle in pairs(GOOD)}
    links = verdicts(bundles.values())["scaler"].links
    assert len({link.support_unit_id for link in links}) == len(links) == 4
    for link in links:
        bundle = bundles[link.experience_id]
        assert (link.observation_id, link.verification_id) == (bundle.observation.id, bundle.verification.id)
        assert (link.intervention_id, link.provenance_id) == (bundle.intervention.id, bundle.provenance.id)


def test_guardrails_are_reported_beside_the_effect() -> None:
    accuracy = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, unit="share")
    guarded = make_contract(guardrail_metrics=(accuracy,), primary_metric=BALANCED_ACCURACY)
    bundles = []
    for place, (root, delta) in enumerate(GOOD.items()):
        task = make_task(root)
        base = {"balanced_accuracy": 0.5, "accuracy": 0.9}
        after = {"balanced_accuracy": 0.5 + delta, "accuracy": 0.9 - place / 100}
        bundles += [baseline(task=task, contract=guarded, verified=base)]
        bundles += [changed(task=task, contract=guarded, verified=after)]
    (guard,) = verdicts(bundles)["scaler"].effect.guardrails
    assert (guard.metric, guard.unit_count) == (accuracy, 4)
    assert float(guard.mean_delta) == pytest.approx(-0.015)


def test_order_does_not_matter_to_a_verdict() -> None:
    bundles = pairs(GOOD) + pairs({"a": 0.01, "b": -0.02, "c": 0.03}, TOL)
    assert verdicts(reversed(bundles)) == verdicts(bundles)
