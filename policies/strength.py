"""How strong the evidence for an effect is: a grade by fixed rules, never a probability (spec 9.3).

Rules kept here (docs/adr/0030); the first that holds gives the grade:

    contested    inside one comparable stratum the evidence disagrees with itself
    strong       replicated, from `strong_units` roots on, and the interval of the mean is clear of zero
    replicated   two or more units share the sign of the mean and outnumber those of the other sign
    single       all else

- The runs of one evaluation task may replicate each other, but one root is never strong.
- Units of different roots that disagree are heterogeneity: they widen the interval and lower the consistency, and count
  as counter-evidence (VRM-W07), but they contest nothing, for a different dataset is a different scope (VRM-L03).
- A stratum disagrees with itself when its seeds fall into two camps, each of which would predict the next seed on its
  own side: the prediction interval of the seeds above zero and that of the seeds below zero both stay clear of the
  equivalence margin. Noise around zero makes no such camps, because its two halves reach down to zero. Unpaired runs
  have one baseline mean in common, so that their camps would be those of one arm: they contest nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from policies.effects import EffectPolicy, EffectSummary, EffectUnit, StratumEffect, figure
from policies.loading import PolicyPart
from policies.statistics import MIN_T_VALUES, prediction_interval
from records.canonical import metric_text
from records.values import EvidenceStrength, Grade


class StrengthPolicy(PolicyPart):
    """The cut-offs between grades.

    Attributes:
        replicated_units: units that must share the sign of the mean for `replicated`.
        strong_units: dataset roots needed for `strong`.
        camp_seeds: seeds that each side of a stratum needs before it can disagree with the other.
    """

    replicated_units: Annotated[int, Field(ge=2)]
    strong_units: Annotated[int, Field(ge=3)]
    camp_seeds: Annotated[int, Field(ge=MIN_T_VALUES)]


class StrengthReason(StrEnum):
    """The facts a grade rests on."""

    ONE_UNIT = "one_unit"
    NO_SIGN = "mean_is_zero"
    NOT_REPLICATED = "too_few_units_of_one_sign"
    MINORITY_SIGN = "sign_of_the_mean_is_not_the_majority"
    SIGN_REPLICATED = "sign_replicated"
    FEW_ROOTS = "too_few_roots_for_strong"
    INTERVAL_SPANS_ZERO = "interval_of_mean_spans_zero"
    INTERVAL_CLEAR = "interval_of_mean_clear_of_zero"
    HETEROGENEOUS = "roots_disagree_in_sign"
    RUNS_DISAGREE = "runs_disagree_in_sign"
    STRATUM_DISAGREES = "stratum_disagrees_with_itself"


def grade_evidence(
    summary: EffectSummary, units: Sequence[EffectUnit], strength: StrengthPolicy, effect: EffectPolicy
) -> EvidenceStrength:
    """Grade one effect and say why; `units` are those that `summary` was made from.

    `support_count` and `counter_count` are units with the sign of the mean and against it; `effect_consistency` is the
    share of all units that have the sign of the mean, ties being neither support nor counter-evidence.

    Raises:
        ValueError: `units` are not those of the summary.
    """
    if len(units) != summary.n_roots:
        raise ValueError("the units are not those that the summary was made from")
    support, counter = _sides(summary)
    grade, reasons = _grade(summary, support, counter, strength)
    if counter:
        of_roots = summary.n_units == summary.n_roots
        reasons.append(StrengthReason.HETEROGENEOUS if of_roots else StrengthReason.RUNS_DISAGREE)
    if disputed_strata(units, strength, effect.confidence, summary.equivalence_margin):
        grade = Grade.CONTESTED
        reasons.insert(0, StrengthReason.STRATUM_DISAGREES)
    return EvidenceStrength(
        grade=grade,
        support_count=support,
        counter_count=counter,
        paired_comparison_count=summary.n_pairs,
        effect_consistency=metric_text(figure(support / summary.n_units)),
        uncertainty_method=summary.method.value,
        reasons=tuple(reason.value for reason in reasons),
    )


def disputed_strata(
    units: Sequence[EffectUnit], strength: StrengthPolicy, confidence: float, margin: float
) -> tuple[str, ...]:
    """Return the evaluation tasks whose seeds form two camps of opposite sign, sorted."""
    return tuple(
        sorted(
            stratum.evaluation_task
            for unit in units
            for stratum in unit.strata
            if _disagrees(stratum, strength.camp_seeds, confidence, margin)
        )
    )


def _disagrees(stratum: StratumEffect, camp_seeds: int, confidence: float, margin: float) -> bool:
    if not stratum.paired:
        return False
    gains = [delta for delta in stratum.deltas if delta > 0]
    losses = [-delta for delta in stratum.deltas if delta < 0]
    return all(
        len(camp) >= camp_seeds and prediction_interval(camp, confidence).low > margin for camp in (gains, losses)
    )


def _sides(summary: EffectSummary) -> tuple[int, int]:
    signs = summary.signs
    if summary.mean == 0:
        return 0, 0
    return (signs.up, signs.down) if summary.mean > 0 else (signs.down, signs.up)


def _grade(
    summary: EffectSummary, support: int, counter: int, policy: StrengthPolicy
) -> tuple[Grade, list[StrengthReason]]:
    if summary.n_units == 1:
        return Grade.SINGLE, [StrengthReason.ONE_UNIT]
    if summary.mean == 0:
        return Grade.SINGLE, [StrengthReason.NO_SIGN]
    if support < policy.replicated_units:
        return Grade.SINGLE, [StrengthReason.NOT_REPLICATED]
    if support <= counter:
        return Grade.SINGLE, [StrengthReason.MINORITY_SIGN]
    reasons = [StrengthReason.SIGN_REPLICATED]
    clear = summary.mean_interval is not None and summary.mean_interval.clear_of_zero
    reasons.append(StrengthReason.INTERVAL_CLEAR if clear else StrengthReason.INTERVAL_SPANS_ZERO)
    if summary.n_roots < policy.strong_units:
        reasons.append(StrengthReason.FEW_ROOTS)
        return Grade.REPLICATED, reasons
    return (Grade.STRONG if clear else Grade.REPLICATED), reasons
