"""From contrasts to verdicts: the comparative heart of distillation, pure (spec 8.1, 11).

All contrasts of one task scope are judged together, because the gate corrects for having tried them all; each gets an
effect with both intervals, a grade, a decision with reason codes, and its evidence links. Wording comes from a template
over the structured facts and decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.contrasts import Contrast, ContrastTable, Variant
from policies.distillation_policy import DistillationPolicy, Verdict, decide
from policies.effects import Classification, EffectSummary, EffectUnit, effect_units, figure, summarise_effect
from policies.gate import GateResult, family_gate
from policies.statistics import Bounds, mean
from policies.strength import grade_evidence
from records.canonical import metric_text
from records.ids import (
    ExperienceId,
    InterventionId,
    ObservationId,
    ProvenanceId,
    ScopeVariantId,
    VerificationId,
)
from records.knowledge import EvidenceLink, Finding, LinkRelation
from records.values import ActionKind, EffectEstimate, EvidenceStrength, Guardrail, Interval, MetricSpec

DRAFTING_ADAPTER: Final = "structured-template/v1"


@dataclass(frozen=True, kw_only=True)
class VariantVerdict:
    """Everything that was decided about one scope variant; what a candidate and its record are made of."""

    variant: Variant
    summary: EffectSummary
    gate: GateResult
    strength: EvidenceStrength
    verdict: Verdict
    effect: EffectEstimate
    links: tuple[EvidenceLink, ...]
    claim: str

    @property
    def scope_variant_id(self) -> ScopeVariantId:
        """The variant that was judged."""
        return self.variant.scope_variant_id

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The structured findings of validation: reason codes first, then what the gate held against it."""
        codes = [Finding(code=code.value, detail=self.claim) for code in self.verdict.reason_codes]
        gate = [Finding(code=reason.value, detail=_gate_detail(self.gate)) for reason in self.verdict.findings]
        return (*codes, *gate)


def judge(table: ContrastTable, policy: DistillationPolicy) -> Mapping[ScopeVariantId, VariantVerdict]:
    """Judge every variant of a table; families are the registered contrasts of one task scope and metric."""
    families: dict[tuple[str, str, str], list[Variant]] = defaultdict(list)
    for variant in table.variants.values():
        scope = variant.scope
        families[scope.task_scope_id, scope.contract_digest, variant.target.catalog_digest].append(variant)
    verdicts: dict[ScopeVariantId, VariantVerdict] = {}
    for family in families.values():
        verdicts |= _judge_family(family, policy)
    return dict(sorted(verdicts.items()))


def _judge_family(family: list[Variant], policy: DistillationPolicy) -> dict[ScopeVariantId, VariantVerdict]:
    units = {variant.scope_variant_id: _units(variant.contrasts, variant.metric) for variant in family}
    summaries = {
        variant.scope_variant_id: summarise_effect(
            units[variant.scope_variant_id], variant.metric.direction, policy.effect, variant.equivalence_margin
        )
        for variant in family
        if units[variant.scope_variant_id]
    }
    gates = family_gate(summaries, policy.gate)
    judged = {}
    for variant in family:
        key = variant.scope_variant_id
        if key in summaries:
            judged[key] = _judge_one(variant, units[key], (summaries[key], gates[key]), policy)
    return judged


def _judge_one(
    variant: Variant,
    units: tuple[EffectUnit, ...],
    shown: tuple[EffectSummary, GateResult],
    policy: DistillationPolicy,
) -> VariantVerdict:
    summary, gate = shown
    strength = grade_evidence(summary, units, policy.strength, policy.effect)
    verdict = decide(policy, summary, gate, strength.grade, contradiction=False)
    effect = _estimate(variant, summary, gate)
    return VariantVerdict(
        variant=variant,
        summary=summary,
        gate=gate,
        strength=strength,
        verdict=verdict,
        effect=effect,
        links=_links(variant, summary),
        claim=_claim(variant, summary, verdict.action),
    )


def _units(contrasts: Iterable[Contrast], metric: MetricSpec) -> tuple[EffectUnit, ...]:
    return effect_units(pair for contrast in contrasts if (pair := contrast.delta(metric.name)) is not None)


def _estimate(variant: Variant, summary: EffectSummary, gate: GateResult) -> EffectEstimate:
    pairs = [pair for contrast in variant.contrasts if (pair := contrast.delta(variant.metric.name)) is not None]
    level = metric_text(summary.confidence)
    return EffectEstimate(
        metric=variant.metric,
        baseline_mean=metric_text(figure(_root_mean([(pair.root, pair.baseline) for pair in pairs]))),
        changed_mean=metric_text(figure(_root_mean([(pair.root, pair.changed) for pair in pairs]))),
        mean_delta=metric_text(summary.mean),
        method=summary.method.value,
        mean_interval=_interval(summary.mean_interval, level),
        prediction_interval=_interval(summary.prediction_interval, level),
        unit_range=(metric_text(summary.unit_range.low), metric_text(summary.unit_range.high)),
        unit_count=summary.n_units,
        pair_count=summary.n_pairs,
        improved_count=summary.improved,
        worsened_count=summary.worsened,
        tied_count=summary.signs.ties,
        p_value=None if summary.p_value is None else metric_text(summary.p_value),
        adjusted_p_value=None if gate.adjusted_p is None else metric_text(gate.adjusted_p),
        guardrails=tuple(_guardrail(variant, metric) for metric in variant.guardrails),
    )


def _guardrail(variant: Variant, metric: MetricSpec) -> Guardrail:
    units = _units(variant.contrasts, metric)
    delta = figure(mean([unit.effect for unit in units])) if units else 0.0
    return Guardrail(metric=metric, mean_delta=metric_text(delta), unit_count=len(units))


def _root_mean(values: list[tuple[str, float]]) -> float:
    """Return the mean over roots of the mean within a root, as effects are averaged."""
    by_root: dict[str, list[float]] = defaultdict(list)
    for root, value in values:
        by_root[root].append(value)
    return mean([mean(items) for items in by_root.values()])


def _interval(bounds: Bounds | None, level: str) -> Interval | None:
    if bounds is None:
        return None
    return Interval(low=metric_text(bounds.low), high=metric_text(bounds.high), level=level)


def _links(variant: Variant, summary: EffectSummary) -> tuple[EvidenceLink, ...]:
    """Link every pair to the rule, with what it says of it."""
    links = []
    for contrast in variant.contrasts:
        pair = contrast.delta(variant.metric.name)
        if pair is None:
            continue
        changed = contrast.changed
        links.append(
            EvidenceLink(
                experience_id=ExperienceId(changed.experience.id),
                comparator_id=ExperienceId(contrast.baseline.experience.id),
                observation_id=ObservationId(changed.observation.id),
                verification_id=VerificationId(changed.verification.id),
                intervention_id=InterventionId(changed.intervention.id),
                provenance_id=ProvenanceId(changed.provenance.id),
                relation=_relation(pair.delta, summary.mean),
                support_unit_id=contrast.support_unit_id,
                stratum_id=contrast.stratum_id,
            )
        )
    return tuple(sorted(links, key=lambda link: (link.relation.value, link.experience_id)))


def _relation(delta: float, mean_delta: float) -> LinkRelation:
    """A pair supports the rule if it moved the way the mean did, contradicts it the other way, and ties at zero."""
    if delta == 0:
        return LinkRelation.TIES
    return LinkRelation.SUPPORTS if delta * mean_delta > 0 else LinkRelation.CONTRADICTS


def _claim(variant: Variant, summary: EffectSummary, action: ActionKind | None) -> str:
    knob, metric = variant.target.knob, variant.metric
    roots = f"{summary.n_units} independent dataset root{'s' if summary.n_units > 1 else ''}"
    size = f"{abs(summary.mean):.4f} {metric.unit}"
    match action:
        case ActionKind.RECOMMEND:
            said = f"improves {metric.name} by {size}"
        case ActionKind.AVOID:
            said = f"worsens {metric.name} by {size}"
        case _ if summary.classification is Classification.NO_EFFECT:
            said = f"makes no difference to {metric.name} that matters ({summary.mean:+.4f} {metric.unit})"
        case _:
            said = f"is not shown to change {metric.name} ({summary.mean:+.4f} {metric.unit})"
    return f"Changing {knob.name} from {knob.from_value} to {knob.to_value} {said}, on average over {roots}."


def _gate_detail(gate: GateResult) -> str:
    adjusted = "not tested" if gate.adjusted_p is None else f"adjusted p {gate.adjusted_p:.4g}"
    return (
        f"{adjusted} at q {gate.q} among {gate.family_size} contrasts; {gate.with_claim} units with the claim, "
        f"{gate.against_claim} against, {gate.ties} tied"
    )
