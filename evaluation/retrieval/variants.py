"""Records made by hand from records that are there: variants of a rule, and their way into a Ledger in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evaluation.retrieval.asking import NOW, Appender
from evaluation.simulation.world import OpenLedger
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.canonical import metric_text
from records.flows import Authority, Transition
from records.ids import CandidateId, EventId, EvidenceSnapshotId, MemoryId
from records.knowledge import (
    GENESIS,
    EventType,
    KnowledgeCandidate,
    LifecycleEvent,
    MemoryRecord,
    family_id,
    scope_variant_id,
)
from records.values import Disposition, EffectEstimate, Interval

_LEADS_TO: Final = {
    EventType.PROMOTED_ACTIVE: Disposition.ACTIVE,
    EventType.PROMOTED_CONTESTED: Disposition.CONTESTED,
    EventType.SUPERSEDED: Disposition.SUPERSEDED,
    EventType.RETRACTED: Disposition.RETRACTED,
}
_A_COMMIT: Final = 50
_DIGITS: Final = 6


@dataclass(frozen=True)
class Standing:
    """A rule, and the events that it went through."""

    record: MemoryRecord
    events: tuple[EventType, ...] = (EventType.PROMOTED_ACTIVE,)


def variant(record: MemoryRecord, **changes: Any) -> MemoryRecord:
    """Return a rule with other content, its ids made anew."""
    content: dict[str, Any] = {name: getattr(record, name) for name in MemoryRecord.model_fields} | changes
    content["scope"] = content["scope"].model_copy(update=content.pop("bound", {}))
    family = family_id(content["namespace"], content["target"], content["effect"].metric.name, content["mechanism"])
    variant_id = scope_variant_id(content["namespace"], family, content["scope"], content["target"])
    return MemoryRecord(**(content | {"family_id": family, "scope_variant_id": variant_id}))


def scaled(effect: EffectEstimate, factor: float) -> EffectEstimate:
    """Return an effect that is `factor` times as large, with the spread that it had."""
    mean = float(effect.mean_delta)
    more = mean * (factor - 1.0)
    return effect.model_copy(
        update={
            "mean_delta": _text(mean + more),
            "changed_mean": _text(float(effect.changed_mean) + more),
            "mean_interval": _moved(effect.mean_interval, more),
            "prediction_interval": _moved(effect.prediction_interval, more),
            "unit_range": tuple(_text(float(end) + more) for end in effect.unit_range),
        }
    )


class Planter:
    """Plants rules into a copy of a Ledger, each with its candidate and its events."""

    def __init__(self, ledger: OpenLedger, namespace: str) -> None:
        """Copy a Ledger; what it holds stays as it is."""
        self.ledger = OpenLedger()
        self.ledger.begin_with(ledger.content)
        self._appender = Appender(self.ledger)
        self._space = namespace
        self._snapshots: dict[str, EvidenceSnapshotId] = {}

    def plant(self, standing: Iterable[Standing]) -> list[MemoryRecord]:
        """Append rules with candidates and events; return them as they are stored."""
        taken, fresh = set(self.ledger.variant_heads(self._space)), list[Standing]()
        for each in standing:  # two rules may have become one claim by what was changed; the first one stands for both
            if each.record.scope_variant_id not in taken:
                taken.add(str(each.record.scope_variant_id))
                fresh.append(each)
        stored = [self._records(each) for each in fresh]
        for start in range(0, len(stored), _A_COMMIT):
            part = stored[start : start + _A_COMMIT]
            rounds = max((len(events) for _, _, events in part), default=0)
            for place in range(rounds):
                rows = [
                    record
                    for candidate, rule, events in part
                    for record in ((candidate, rule) if not place else ()) + events[place : place + 1]
                ]
                self._appender.granted(Transition.COMMIT_DISTILLATION, Authority.NORMAL, *rows)
        return [rule for _, rule, _ in stored]

    def _snapshot(self, namespace: str) -> EvidenceSnapshotId:
        """Return the evidence snapshot that rules of a namespace are drafted from; it is captured at first use."""
        if namespace not in self._snapshots:
            with self.ledger.reading() as reader:
                asked = FreezeEvidence(namespace=namespace, operation_key="planted")
                frozen, operation = EvidenceSnapshotBuilder(distillation_policy()).freeze(reader, asked)
            self._appender.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), frozen, operation)
            self._snapshots[namespace] = EvidenceSnapshotId(frozen.id)
        return self._snapshots[namespace]

    def _records(self, standing: Standing) -> tuple[KnowledgeCandidate, MemoryRecord, tuple[LifecycleEvent, ...]]:
        record = standing.record
        candidate = KnowledgeCandidate(
            namespace=record.namespace,
            created_at=record.created_at,
            proposed_family_id=record.family_id,
            proposed_scope_variant_id=record.scope_variant_id,
            evidence_snapshot_id=self._snapshot(record.namespace),
            experience_ids=(),
            scope=record.scope,
            target=record.target,
            mechanism=record.mechanism,
            claim=record.claim,
            effect=record.effect,
            links=record.links,
            drafting_adapter="planted",
            policy=distillation_policy().identity,
            findings=(),
        )
        rule = record.model_copy(update={"candidate_id": CandidateId(candidate.id), "prior_memory_id": None})
        return candidate, rule, self._events(rule, standing.events)

    def _events(self, rule: MemoryRecord, types: Sequence[EventType]) -> tuple[LifecycleEvent, ...]:
        prior, made = GENESIS, list[LifecycleEvent]()
        for event_type in types:
            event = LifecycleEvent(
                namespace=rule.namespace,
                created_at=NOW,
                memory_id=MemoryId(rule.id),
                family_id=rule.family_id,
                scope_variant_id=rule.scope_variant_id,
                event_type=event_type,
                disposition=_LEADS_TO[event_type],
                expected_prior=EventId(prior) if made else GENESIS,
                reasons=("planted",),
                evidence_ids=(),
                evidence_snapshot_id=self._snapshot(rule.namespace),
                policy=lifecycle_policy().identity,
            )
            prior = str(event.id)
            made.append(event)
        return tuple(made)


def _moved(interval: Interval | None, more: float) -> Interval | None:
    if interval is None:
        return None
    low, high = (_text(float(end) + more) for end in (interval.low, interval.high))
    return interval.model_copy(update={"low": low, "high": high})


def _text(value: float) -> str:
    return metric_text(round(value, _DIGITS))
