"""Promoted rules and refused candidates, with the effect on every root behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies.distillation_policy import CandidateReason
from policies.effects import EffectUnit, effect_units
from policies.gate import GateReason
from policies.linked import LinkedRun, linked_deltas
from records.knowledge import DistillationDecision, EvidenceLink, KnowledgeCandidate, LifecycleEvent, MemoryRecord
from records.values import DecisionTarget, Disposition, EffectEstimate, Interval, MemoryScope
from store.ledger.port import LedgerReader
from vrm.mainjob.facts.reading import EvidenceIndex, find, tallies
from vrm.mainjob.facts.shapes import (
    Change,
    EffectFacts,
    GuardrailFacts,
    RefusedFacts,
    RootEffect,
    RuleFacts,
    Span,
)

_ORDER = {place.value: number for number, place in enumerate((
    Disposition.ACTIVE, Disposition.CONTESTED, Disposition.PROVISIONAL, Disposition.SUPERSEDED, Disposition.RETRACTED,
))}  # fmt: skip
_NO_EVENT = "without_event"


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """Everything that distillation wrote in a namespace, by record id."""

    candidates: Mapping[str, KnowledgeCandidate]
    decisions: Mapping[str, DistillationDecision]
    records: Mapping[str, MemoryRecord]
    events: Mapping[str, LifecycleEvent]
    heads: frozenset[str]

    @property
    def latest(self) -> dict[str, DistillationDecision]:
        """The last decision about each scope variant, by its id."""
        return {
            str(self.candidates[each.candidate_id].proposed_scope_variant_id): each
            for each in self.decisions.values()
            if each.candidate_id in self.candidates  # the others are about procedures
        }

    @property
    def families(self) -> Counter[tuple[str, str | None, str, str]]:
        """How many contrasts of each task scope or evaluation task, contract and catalog have a p-value."""
        judged = [self.candidates[each.candidate_id] for each in self.latest.values()]
        return Counter(_family(each.scope, each.target) for each in judged if each.effect.p_value is not None)


def read_knowledge(reader: LedgerReader, namespace: str) -> Knowledge:
    """Read what distillation wrote in a namespace."""
    return Knowledge(
        candidates=find(reader, KnowledgeCandidate, namespace),
        decisions=find(reader, DistillationDecision, namespace),
        records=find(reader, MemoryRecord, namespace),
        events=find(reader, LifecycleEvent, namespace),
        heads=frozenset(head.memory_id for head in reader.variant_heads(namespace).values()),
    )


def rule_facts(knowledge: Knowledge, evidence: EvidenceIndex) -> tuple[RuleFacts, ...]:
    """Return every promoted rule with its present disposition: active ones first, larger effects first."""
    last = {str(event.memory_id): event for event in knowledge.events.values()}
    families = knowledge.families
    rules = [
        _rule(key, record, last.get(key), (knowledge, evidence, families[_family(record.scope, record.target)]))
        for key, record in knowledge.records.items()
    ]
    return tuple(
        sorted(rules, key=lambda rule: (_ORDER.get(rule.disposition, len(_ORDER)), -abs(rule.effect.mean), rule.claim))
    )


def refused_facts(knowledge: Knowledge, evidence: EvidenceIndex) -> tuple[RefusedFacts, ...]:
    """Return the scope variants whose last candidate became no rule: true nulls first, then by number of roots."""
    families = knowledge.families
    refused = []
    for decision in knowledge.latest.values():
        candidate = knowledge.candidates[decision.candidate_id]
        if decision.memory_id is None:
            family = families[_family(candidate.scope, candidate.target)]
            refused.append(_refused(decision, candidate, evidence, family))
    return tuple(
        sorted(refused, key=lambda item: (not item.shown_null, -item.effect.roots, -abs(item.effect.mean), item.claim))
    )


def _rule(
    memory_id: str,
    record: MemoryRecord,
    event: LifecycleEvent | None,
    context: tuple[Knowledge, EvidenceIndex, int],
) -> RuleFacts:
    knowledge, evidence, family = context
    experiences = (evidence.experiences[link.experience_id] for link in record.links)
    kinds = (found.verification_kind.value for each in experiences if (found := evidence.verification(each)))
    return RuleFacts(
        memory_id=memory_id,
        claim=record.claim,
        action=record.action.value,
        change=_change(record.target),
        scope=record.scope_description,
        task_scope_id=str(record.scope.task_scope_id),
        mechanism=record.mechanism,
        disposition=_NO_EVENT if event is None else event.disposition.value,
        is_head=memory_id in knowledge.heads,
        reasons=() if event is None else event.reasons,
        grade=record.strength.grade.value,
        grade_reasons=record.strength.reasons,
        support=record.strength.support_count,
        counter=record.strength.counter_count,
        verifications=tallies(kinds),
        effect=_effect(record.effect, record.links, evidence, family),
    )


def _refused(
    decision: DistillationDecision, candidate: KnowledgeCandidate, evidence: EvidenceIndex, family: int
) -> RefusedFacts:
    closed = {reason.value for reason in CandidateReason}
    reasons = tuple(reason for reason in decision.reasons if reason in closed)
    findings = tuple(reason for reason in decision.reasons if reason not in closed)
    scope_id = str(candidate.scope.task_scope_id)
    return RefusedFacts(
        candidate_id=str(decision.candidate_id),
        claim=candidate.claim,
        change=_change(candidate.target),
        scope=evidence.scopes.get(scope_id, scope_id),
        decision=decision.decision.value,
        reasons=reasons,
        findings=findings,
        shown_null=GateReason.INSIDE_MARGIN.value in findings,
        effect=_effect(candidate.effect, candidate.links, evidence, family),
    )


def _effect(
    estimate: EffectEstimate, links: tuple[EvidenceLink, ...], evidence: EvidenceIndex, family: int
) -> EffectFacts:
    metric = estimate.metric
    return EffectFacts(
        metric=metric.name,
        unit=metric.unit,
        direction=metric.direction.value,
        mean=float(estimate.mean_delta),
        baseline_mean=float(estimate.baseline_mean),
        changed_mean=float(estimate.changed_mean),
        mean_interval=_span(estimate.mean_interval),
        prediction_interval=_span(estimate.prediction_interval),
        unit_range=(float(estimate.unit_range[0]), float(estimate.unit_range[1])),
        roots=estimate.unit_count,
        pairs=estimate.pair_count,
        improved=estimate.improved_count,
        worsened=estimate.worsened_count,
        tied=estimate.tied_count,
        p_value=None if estimate.p_value is None else float(estimate.p_value),
        adjusted_p_value=None if estimate.adjusted_p_value is None else float(estimate.adjusted_p_value),
        tested_in_family=family,
        guardrails=tuple(
            GuardrailFacts(
                metric=each.metric.name, unit=each.metric.unit, mean=float(each.mean_delta), roots=each.unit_count
            )
            for each in estimate.guardrails
        ),
        by_root=tuple(
            RootEffect(root=unit.root, effect=unit.effect, pairs=unit.n_pairs)
            for unit in units_behind(links, evidence, metric.name)
        ),
    )


def units_behind(links: Iterable[EvidenceLink], evidence: EvidenceIndex, metric: str) -> tuple[EffectUnit, ...]:
    """Return the effect on each root, recomputed from the verified metrics that the links point at."""
    runs = []
    for link in links:
        ids = (link.experience_id, link.comparator_id)
        attempt, other = (evidence.attempts[evidence.experiences[each].attempt_id] for each in ids)
        after, before = (evidence.metric(each, metric) for each in ids)
        if before is not None and after is not None:
            runs.append(
                LinkedRun(
                    stratum_id=str(link.stratum_id),
                    changed_id=str(link.experience_id),
                    baseline_id=str(link.comparator_id),
                    root=attempt.dataset_root,
                    seed=attempt.seed,
                    baseline_seed=other.seed,
                    changed=after,
                    baseline=before,
                )
            )
    return effect_units(linked_deltas(runs))


def _family(scope: MemoryScope, target: DecisionTarget) -> tuple[str, str | None, str, str]:
    return (str(scope.task_scope_id), scope.evaluation_task_id, scope.contract_digest, target.catalog_digest)


def _change(target: DecisionTarget) -> Change:
    knob = target.knob
    return Change(knob=knob.name, from_value=knob.from_value, to_value=knob.to_value)


def _span(interval: Interval | None) -> Span | None:
    if interval is None:
        return None
    return Span(low=float(interval.low), high=float(interval.high), level=float(interval.level))
