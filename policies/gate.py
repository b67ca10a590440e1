"""The gate against rules found by trying many changes.

Rules kept here (docs/adr/0030):

- a family is the registered knob contrasts of ONE task scope; Benjamini-Hochberg is taken over the p-values of that
  family and of nothing else, so what happens in other scopes cannot open or close the gate here;
- a contrast without a p-value (below three units) is not tested, does not enter the family's count and never passes;
- beside the adjusted p, three things must agree with the sign of the mean: the policy's quantile of units on the near
  side, the majority of signs, and an interval that is not inside the equivalence margin. A mean carried by a few large
  units, or a majority of small gains that hides large losses, passes neither as a gain nor as a loss;
- harm is symmetric: a change that does harm passes on the same terms, as a claim of harm.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field

from policies.effects import Classification, EffectSummary, UnitInterval, figure
from policies.loading import PolicyPart
from policies.statistics import benjamini_hochberg

K = TypeVar("K", bound=Hashable)


class GatePolicy(PolicyPart):
    """The numbers of the gate.

    Attributes:
        q: highest accepted share of false rules among those that pass a family (Benjamini-Hochberg).
        sign_test_units: from how many untied units on the sign test counts as a test; below, it only checks that
            the signs are consistent with the mean.
    """

    q: UnitInterval
    sign_test_units: Annotated[int, Field(ge=1)]


class Claim(StrEnum):
    """What a contrast would say as a rule, from the sign of its mean and the metric's direction."""

    IMPROVES = "improves"
    HARMS = "harms"
    NOTHING = "nothing"


class SignRole(StrEnum):
    """What the sign test can be used for with so many untied units."""

    TEST = "test"
    CONSISTENCY = "consistency_check"


class GateReason(StrEnum):
    """Why a contrast passed or did not."""

    PASSED = "passed"
    NOT_TESTED = "not_tested"
    MEAN_IS_ZERO = "mean_is_zero"
    ADJUSTED_P_ABOVE_Q = "adjusted_p_above_q"
    QUANTILE_DISAGREES = "quantile_disagrees"
    SIGNS_DISAGREE = "signs_disagree"
    INSIDE_MARGIN = "inside_equivalence_margin"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The gate's answer for one contrast, with every figure it looked at.

    Attributes:
        passed: whether the claim may become a rule.
        claim: what the rule would say.
        reasons: PASSED alone, or everything that stood against it.
        p_value: the contrast's own p; adjusted_p: within the family; both None if it was not tested.
        q: the level of the family; family_size: how many contrasts were tested; family_untested: how many were not.
        mean: mean over units; guard_quantile: the quantile on the near side (lower for a positive mean).
        with_claim, against_claim, ties: units by sign; sign_p_value and sign_role: the sign test and its use.
    """

    passed: bool
    claim: Claim
    reasons: tuple[GateReason, ...]
    p_value: float | None
    adjusted_p: float | None
    q: float
    family_size: int
    family_untested: int
    mean: float
    guard_quantile: float
    with_claim: int
    against_claim: int
    ties: int
    sign_p_value: float
    sign_role: SignRole


def family_gate(summaries: Mapping[K, EffectSummary], policy: GatePolicy) -> dict[K, GateResult]:
    """Judge every contrast of one task scope together; the mapping keeps the order it came in."""
    tested = [key for key, summary in summaries.items() if summary.p_value is not None]
    p_values = [p for summary in summaries.values() if (p := summary.p_value) is not None]
    # Rounded like every figure before it is compared, so that the record shows the number that was decided on.
    adjusted = {key: figure(p) for key, p in zip(tested, benjamini_hochberg(p_values), strict=True)}
    sizes = (len(tested), len(summaries) - len(tested))
    return {key: _judge(summary, adjusted.get(key), sizes, policy) for key, summary in summaries.items()}


def _judge(summary: EffectSummary, adjusted: float | None, sizes: tuple[int, int], policy: GatePolicy) -> GateResult:
    up = summary.mean > 0
    signs = summary.signs
    with_claim, against = (signs.up, signs.down) if up else (signs.down, signs.up)
    reasons = _objections(summary, adjusted, with_claim > against, policy.q)
    untied = signs.up + signs.down
    return GateResult(
        passed=not reasons,
        claim=_claim(summary),
        reasons=reasons or (GateReason.PASSED,),
        p_value=summary.p_value,
        adjusted_p=adjusted,
        q=policy.q,
        family_size=sizes[0],
        family_untested=sizes[1],
        mean=summary.mean,
        guard_quantile=summary.lower_quantile if up else summary.upper_quantile,
        with_claim=with_claim,
        against_claim=against,
        ties=signs.ties,
        sign_p_value=signs.p_value,
        sign_role=SignRole.TEST if untied >= policy.sign_test_units else SignRole.CONSISTENCY,
    )


def _claim(summary: EffectSummary) -> Claim:
    if summary.mean == 0:
        return Claim.NOTHING
    return Claim.IMPROVES if summary.improves(summary.mean) else Claim.HARMS


def _objections(summary: EffectSummary, adjusted: float | None, majority: bool, q: float) -> tuple[GateReason, ...]:
    quantile_agrees = summary.lower_quantile >= 0 if summary.mean > 0 else summary.upper_quantile <= 0
    found = {
        GateReason.NOT_TESTED: adjusted is None,
        GateReason.MEAN_IS_ZERO: summary.mean == 0,
        GateReason.ADJUSTED_P_ABOVE_Q: adjusted is not None and adjusted > q,
        GateReason.QUANTILE_DISAGREES: summary.mean != 0 and not quantile_agrees,
        GateReason.SIGNS_DISAGREE: summary.mean != 0 and not majority,
        GateReason.INSIDE_MARGIN: summary.classification is Classification.NO_EFFECT,
    }
    return tuple(reason for reason, holds in found.items() if holds)
