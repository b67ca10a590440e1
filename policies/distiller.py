"""From contrasts to verdicts: the comparative heart of distillation, pure (spec 8.1, 11).

Rules kept here (docs/adr/0030, 0031):

- all contrasts that were registered together are judged together, because the gate corrects for having tried them all:
  those of one task scope, and apart from them those of one evaluation task;
- each gets an effect with both intervals, a grade, a decision with reason codes, and its evidence links;
- where evidence disagrees and a scope field explains it, the parts are judged in the family of the whole, enlarged by
  all such parts; a part never opens the gate for another contrast;
- wording comes from a template over the structured facts and decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policies.claims import claim_text, gate_detail
from policies.contrasts import ContrastTable
from policies.distillation_policy import CandidateReason, DistillationPolicy, ScopeField
from policies.effects import EffectSummary, figure
from policies.estimates import Estimate, GuardrailEffect, estimate, guardrail_effects
from policies.evidence_links import evidence_links
from policies.gate import GateResult, family_gate
from policies.splits import explaining_field
from policies.statistics import Bounds, mean
from policies.strength import grade_evidence
from policies.variants import Variant, has_the_runs
from policies.verdicts import Circumstances, Verdict, decide
from records.canonical import metric_text
from records.ids import ScopeVariantId
from records.knowledge import DecisionKind, EvidenceLink, Finding
from records.values import EffectEstimate, EvidenceStrength, Interval, MemoryScope

DRAFTING_ADAPTER: Final = "structured-template/v1"

Contradicted = Callable[[ScopeVariantId], bool]
"""Tells of a scope variant whether a contradiction of it is open."""


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
    guardrails: tuple[GuardrailEffect, ...] = ()
    split_by: ScopeField | None = None

    @property
    def scope_variant_id(self) -> ScopeVariantId:
        """The scope variant that was judged."""
        return self.variant.scope_variant_id

    @property
    def refines(self) -> ScopeVariantId | None:
        """The variant that it is a part of, if it was drafted to split that one."""
        return self.variant.refines

    @property
    def scope(self) -> MemoryScope:
        """Where it was judged."""
        return self.variant.scope

    @property
    def scope_description(self) -> str:
        """The scope in words."""
        return self.variant.scope_description

    @property
    def mechanism(self) -> str:
        """The mechanism of the change."""
        return self.variant.mechanism

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The structured findings of validation: reason codes, what the gate held against it, and what goes with it."""
        codes = [Finding(code=code.value, detail=self.claim) for code in self.verdict.reason_codes]
        gate = [Finding(code=reason.value, detail=gate_detail(self.gate)) for reason in self.verdict.findings]
        return (*codes, *gate, *(guard.finding for guard in self.guardrails), *self._compared())

    def _compared(self) -> Iterable[Finding]:
        unpaired = sum(not contrast.paired for contrast in self.variant.contrasts)
        if unpaired:
            runs = sum(len(arm.runs) for arm in self.variant.arms)
            yield Finding(
                code="unpaired_arms",
                detail=f"{unpaired} changed runs without a baseline of their seed, {runs} baselines",
            )
        if self.split_by is not None:
            yield Finding(code="split_by", detail=self.split_by.value)


def judge(
    table: ContrastTable, policy: DistillationPolicy, contradicted: Contradicted = lambda _: False
) -> Mapping[ScopeVariantId, VariantVerdict]:
    """Judge every variant of a table, and the parts of those that a scope field splits.

    A family are the registered contrasts of one task scope, or of one evaluation task, under one contract and catalog.

    Args:
        table: all contrasts of a snapshot.
        policy: the policy that the table was made under.
        contradicted: tells which scope variants have an open contradiction; by default none has.
    """
    families: dict[object, _Family] = defaultdict(lambda: _Family(policy, contradicted))
    for variant in table.variants.values():
        scope = variant.scope
        key = (scope.task_scope_id, scope.evaluation_task_id, scope.contract_digest, variant.target.catalog_digest)
        families[key].add(variant)
    verdicts: dict[ScopeVariantId, VariantVerdict] = {}
    for family in families.values():
        verdicts |= family.judge()
    return dict(sorted(verdicts.items()))


def withdraw(variant: Variant, policy: DistillationPolicy) -> VariantVerdict | None:
    """Return the verdict about a variant that nothing asks for any more: deferred, whatever its own figures say.

    A part of a split that has ended, and a task left with too few runs, are not judged; a record that was live of them
    must not stay so. None where nothing of it can be estimated.
    """
    key = variant.scope_variant_id
    found = _Family(policy, lambda _: False, wholes=[variant]).judge().get(key)
    if found is None:
        return None
    decided = Verdict(
        decision=DecisionKind.DEFERRED,
        reason_codes=(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,),
        action=None,
        findings=() if found.gate.passed else found.gate.reasons,
    )
    return replace(found, verdict=decided, claim=claim_text(variant, found.summary, None))


@dataclass
class _Family:
    """The contrasts that were registered together, each with its parts by the field that makes them."""

    policy: DistillationPolicy
    contradicted: Contradicted
    wholes: list[Variant] = field(default_factory=list)
    parts: dict[ScopeVariantId, dict[ScopeField, list[Variant]]] = field(default_factory=dict)
    found: dict[ScopeVariantId, Estimate | None] = field(default_factory=dict)

    def add(self, variant: Variant) -> None:
        """Register a variant; a part goes with the variant that it refines."""
        if variant.refines is None:
            self.wholes.append(variant)
        else:
            self.parts.setdefault(variant.refines, {}).setdefault(variant.bound[-1], []).append(variant)

    def judge(self) -> dict[ScopeVariantId, VariantVerdict]:
        """Judge the contrasts together, then the parts of those that are split together with them all."""
        judged = self._judged(self.wholes, self._gates(self.wholes))
        split = [
            part
            for key, verdict in judged.items()
            if verdict.split_by is not None
            for part in self.parts[key][verdict.split_by]
        ]
        return judged | self._judged(split, self._gates([*self.wholes, *split]))

    def _gates(self, family: Iterable[Variant]) -> dict[ScopeVariantId, GateResult]:
        shown = {variant.scope_variant_id: self._estimate(variant) for variant in family}
        return family_gate({key: each.summary for key, each in shown.items() if each is not None}, self.policy.gate)

    def _estimate(self, variant: Variant) -> Estimate | None:
        key = variant.scope_variant_id
        if key not in self.found:
            self.found[key] = estimate(variant, variant.metric, variant.equivalence_margin, self.policy)
        return self.found[key]

    def _judged(
        self, variants: Iterable[Variant], gates: Mapping[ScopeVariantId, GateResult]
    ) -> dict[ScopeVariantId, VariantVerdict]:
        judged = {}
        for variant in variants:
            shown = self._estimate(variant)
            if shown is not None:
                judged[variant.scope_variant_id] = self._judge_one(variant, shown, gates[variant.scope_variant_id])
        return judged

    def _judge_one(self, variant: Variant, shown: Estimate, gate: GateResult) -> VariantVerdict:
        policy, summary = self.policy, shown.summary
        strength = grade_evidence(summary, shown.units, policy.strength, policy.effect, policy.adjudication_share)
        guards = guardrail_effects(variant, policy)
        judged = guards if policy.comparison is not None else ()  # version 1 only reports their means
        around = Circumstances(
            contradiction=self.contradicted(variant.scope_variant_id),
            enough_runs=has_the_runs(variant, policy.comparison),
            divisible=not variant.of_one_task or sum(len(unit.strata) for unit in shown.units) > 1,
            guardrails=judged,
            guardrail_units=policy.comparison.instance_runs if policy.comparison and variant.of_one_task else 0,
        )
        verdict, split_by = self._verdict(variant, (summary, gate, strength), around)
        return VariantVerdict(
            variant=variant,
            summary=summary,
            gate=gate,
            strength=strength,
            verdict=verdict,
            effect=_effect(variant, summary, gate, guards),
            links=evidence_links(variant, summary.mean),
            claim=claim_text(variant, summary, verdict.action),
            guardrails=judged,
            split_by=split_by,
        )

    def _verdict(
        self, variant: Variant, shown: tuple[EffectSummary, GateResult, EvidenceStrength], around: Circumstances
    ) -> tuple[Verdict, ScopeField | None]:
        """Return the verdict, and the field that splits the variant, if one explains why its evidence disagrees.

        A rule for a task scope that is active in spite of its parts stays one; what holds on one task in different
        strata never becomes one rule while a field tells them apart.
        """
        summary, gate, strength = shown
        verdict = decide(self.policy, summary, gate, strength.grade, around)
        parts = self.parts.get(variant.scope_variant_id, {})
        if not parts or (verdict.decision is DecisionKind.PROMOTED_ACTIVE and not variant.of_one_task):
            return verdict, None
        effects = {
            name: [each.summary for part in made if (each := self._estimate(part))] for name, made in parts.items()
        }
        name = explaining_field(effects, self.policy.gate.q)
        if name is None:
            return verdict, None
        split = decide(self.policy, summary, gate, strength.grade, replace(around, explained=True))
        if CandidateReason.SCOPE_SPLIT_REQUIRED not in split.reason_codes:
            return verdict, None
        return split, name


def _effect(
    variant: Variant, summary: EffectSummary, gate: GateResult, guards: Iterable[GuardrailEffect]
) -> EffectEstimate:
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
        guardrails=tuple(guard.recorded for guard in guards),
    )


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
