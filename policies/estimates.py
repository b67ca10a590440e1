"""What the contrasts of one variant show of one metric, at the level at which the variant speaks (docs/adr/0031).

Pure. The units of a task scope are dataset roots, those of one evaluation task its pairs or runs; guardrails are
estimated by the same rule, over the same contrasts, with the policy's margin.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.distillation_policy import DistillationPolicy
from policies.effects import (
    Arms,
    Classification,
    EffectSummary,
    EffectUnit,
    effect_units,
    summarise_effect,
    summarise_runs,
)
from policies.variants import Variant
from records.canonical import metric_text
from records.knowledge import Finding
from records.values import Guardrail, MetricSpec


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One effect: `units` has one entry per dataset root, `summary` what follows at the level of the variant."""

    units: tuple[EffectUnit, ...]
    summary: EffectSummary


@dataclass(frozen=True, kw_only=True)
class GuardrailEffect:
    """What a change did to one guardrail.

    Attributes:
        estimate: None where it was never verified on both sides.
        n_baselines: of two unpaired arms, the baselines that have it verified; None where runs are paired.
    """

    metric: MetricSpec
    estimate: Estimate | None
    n_baselines: int | None = None

    @property
    def n_units(self) -> int:
        """How many units have the guardrail verified; of two arms, how many runs of the smaller one."""
        units = self.estimate.summary.n_units if self.estimate else 0
        return units if self.n_baselines is None else min(units, self.n_baselines)

    @property
    def classification(self) -> Classification | None:
        """What the change is shown to do to it, against its margin; None where nothing was verified."""
        return self.estimate.summary.classification if self.estimate else None

    @property
    def recorded(self) -> Guardrail:
        """What the effect of a record holds of it."""
        delta = self.estimate.summary.mean if self.estimate else 0.0
        return Guardrail(metric=self.metric, mean_delta=metric_text(delta), unit_count=self.n_units)

    @property
    def finding(self) -> Finding:
        """The guardrail's class with its figures."""
        if self.estimate is None:
            return Finding(code="guardrail_not_verified", detail=f"{self.metric.name}: on no pair of both sides")
        summary = self.estimate.summary
        bounds, unit = summary.mean_interval, self.metric.unit
        level = f"{100 * summary.confidence:g} %"
        interval = "no interval" if bounds is None else f"{level} interval {bounds.low:+.4g} to {bounds.high:+.4g}"
        return Finding(
            code=f"guardrail_{summary.classification.value}",
            detail=(
                f"{self.metric.name} {summary.mean:+.4g} {unit}, {interval} over {summary.n_units} units, "
                f"margin {summary.equivalence_margin:g}"
            ),
        )


def estimate(variant: Variant, metric: MetricSpec, margin: float, policy: DistillationPolicy) -> Estimate | None:
    """Return the effect of a variant on a metric, or None where no contrast has it verified on both sides."""
    pairs = [pair for contrast in variant.contrasts if (pair := contrast.delta(metric.name)) is not None]
    units = effect_units(pairs)
    if not units:
        return None
    if not variant.of_one_task:
        return Estimate(units=units, summary=summarise_effect(units, metric.direction, policy.effect, margin))
    strata = [stratum for unit in units for stratum in unit.strata]
    arms = None if any(pair.paired for pair in pairs) else _arms(variant, metric, [pair.changed for pair in pairs])
    return Estimate(units=units, summary=summarise_runs(strata, arms, metric.direction, policy.effect, margin))


def guardrail_effects(variant: Variant, policy: DistillationPolicy) -> tuple[GuardrailEffect, ...]:
    """Return what the change did to each guardrail of the contract; version 1 has no margin of their own."""
    margin = policy.comparison.guardrail_margin if policy.comparison else policy.effect.equivalence_margin
    return tuple(
        GuardrailEffect(
            metric=metric,
            estimate=estimate(variant, metric, margin, policy),
            n_baselines=_verified_baselines(variant, metric),
        )
        for metric in variant.guardrails
    )


def _verified_baselines(variant: Variant, metric: MetricSpec) -> int | None:
    """Return how many baselines of unpaired arms have a metric verified; None where runs are paired, or of roots."""
    if not variant.of_one_task or any(contrast.paired for contrast in variant.contrasts):
        return None
    return sum(len(arm.values(metric.name)) for arm in variant.arms)


def _arms(variant: Variant, metric: MetricSpec, changed: list[float]) -> Arms | None:
    """Return both arms of unpaired runs, or None where they lie in several strata."""
    if len(variant.arms) > 1:
        return None
    return changed, variant.arms[0].values(metric.name)
