"""The records of one verdict: Candidate, memory record, Decision, lifecycle events, relations. Pure.

A verdict that no longer carries a live head retracts it, so that counter-evidence is never left without effect
(VRM-W07); one that replaces a live head supersedes it first, as the Lifecycle Policy says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from memory.distillation.view import Policies
from policies.distiller import DRAFTING_ADAPTER, VariantVerdict
from policies.lifecycle_policy import LifecycleHead, PlannedEvent, plan_events
from records.appends import Head
from records.base import Record
from records.ids import CandidateId, DecisionId, EventId, EvidenceSnapshotId, ExperienceId, FamilyId, MemoryId
from records.knowledge import (
    GENESIS,
    DecisionKind,
    DistillationDecision,
    EventType,
    KnowledgeCandidate,
    LifecycleEvent,
    MemoryRecord,
    MemoryRelation,
    RelationKind,
    family_id,
)
from records.values import ActionKind, Disposition

LIVE = frozenset({Disposition.PROVISIONAL, Disposition.ACTIVE, Disposition.CONTESTED})
_NOTHING = frozenset({DecisionKind.REJECTED, DecisionKind.DEFERRED})


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A verdict with all that its records need besides: where, when, under which policies, over which head."""

    namespace: str
    now: str
    snapshot_id: EvidenceSnapshotId
    policies: Policies
    verdict: VariantVerdict
    head: Head | None

    @property
    def covering(self) -> tuple[CandidateId, DecisionId]:
        """The ids of Candidate and Decision; neither depends on time, so every item of the variant derives the same."""
        candidate = self.candidate()
        decision = self.decision(candidate, self.memory(candidate))
        return CandidateId(candidate.id), DecisionId(decision.id)

    def records(self) -> list[Record]:
        """Return everything that the leading item of a variant commits, parents first."""
        candidate = self.candidate()
        memory = self.memory(candidate)
        events = self.events(memory)
        records: list[Record] = [candidate]
        if memory is not None:
            records.append(memory)
        return [*records, *events, *self.relations(memory, events), self.decision(candidate, memory)]

    def experiences(self) -> tuple[ExperienceId, ...]:
        """Return every Experience behind the verdict, changed and baseline."""
        links = self.verdict.links
        return tuple(sorted({link.experience_id for link in links} | {link.comparator_id for link in links}))

    def candidate(self) -> KnowledgeCandidate:
        """Return the untrusted candidate."""
        variant = self.verdict.variant
        return KnowledgeCandidate(
            namespace=self.namespace,
            created_at=self.now,
            proposed_family_id=self._family,
            proposed_scope_variant_id=variant.scope_variant_id,
            evidence_snapshot_id=self.snapshot_id,
            experience_ids=self.experiences(),
            scope=variant.scope,
            target=variant.target,
            mechanism=variant.mechanism,
            claim=self.verdict.claim,
            effect=self.verdict.effect,
            links=self.verdict.links,
            drafting_adapter=DRAFTING_ADAPTER,
            policy=self.policies.distillation.identity,
            findings=self.verdict.findings,
        )

    def memory(self, candidate: KnowledgeCandidate) -> MemoryRecord | None:
        """Return the memory record of a promoted verdict."""
        if self.verdict.verdict.decision in _NOTHING:
            return None
        variant = self.verdict.variant
        return MemoryRecord(
            namespace=self.namespace,
            created_at=self.now,
            family_id=self._family,
            scope_variant_id=variant.scope_variant_id,
            prior_memory_id=None if self.head is None else MemoryId.check(self.head.memory_id),
            candidate_id=CandidateId(candidate.id),
            scope=variant.scope,
            scope_description=variant.scope_description,
            target=variant.target,
            mechanism=variant.mechanism,
            claim=self.verdict.claim,
            action=self.verdict.verdict.action or ActionKind.ABSTAIN,
            effect=self.verdict.effect,
            strength=self.verdict.strength,
            links=self.verdict.links,
            distillation_policy=self.policies.distillation.identity,
        )

    def decision(self, candidate: KnowledgeCandidate, memory: MemoryRecord | None) -> DistillationDecision:
        """Return the deterministic decision with every reason code."""
        verdict = self.verdict.verdict
        codes = [code.value for code in verdict.reason_codes] + [reason.value for reason in verdict.findings]
        return DistillationDecision(
            namespace=self.namespace,
            created_at=self.now,
            candidate_id=CandidateId(candidate.id),
            decision=verdict.decision,
            reasons=tuple(codes),
            memory_id=None if memory is None else MemoryId(memory.id),
            policy=self.policies.lifecycle.identity,
            policy_set_digest=self.policies.digest,
        )

    def events(self, memory: MemoryRecord | None) -> list[LifecycleEvent]:
        """Return the lifecycle events, each consuming the one before it and the first the head."""
        prior: EventId | Literal["GENESIS"] = EventId.check(self.head.event_id) if self.head else GENESIS
        events: list[LifecycleEvent] = []
        for step in self._steps(memory):
            event = LifecycleEvent(
                namespace=self.namespace,
                created_at=self.now,
                memory_id=MemoryId.check(step.memory_id),
                family_id=self._family,
                scope_variant_id=self.verdict.variant.scope_variant_id,
                event_type=step.event_type,
                disposition=step.resulting_disposition,
                expected_prior=prior,
                reasons=tuple(code.value for code in self.verdict.verdict.reason_codes),
                evidence_ids=self.experiences(),
                evidence_snapshot_id=self.snapshot_id,
                policy=self.policies.lifecycle.identity,
            )
            events.append(event)
            prior = EventId(event.id)
        return events

    def relations(self, memory: MemoryRecord | None, events: Sequence[LifecycleEvent]) -> list[MemoryRelation]:
        """Return a `supersedes` relation for the record that made room."""
        if memory is None or self.head is None:
            return []
        return [
            MemoryRelation(
                namespace=self.namespace,
                created_at=self.now,
                source_memory_id=MemoryId(memory.id),
                target_memory_id=event.memory_id,
                relation=RelationKind.SUPERSEDES,
                event_id=EventId(event.id),
                policy=self.policies.lifecycle.identity,
            )
            for event in events
            if event.event_type is EventType.SUPERSEDED
        ]

    @property
    def _family(self) -> FamilyId:
        variant = self.verdict.variant
        return family_id(self.namespace, variant.target, variant.metric.name, variant.mechanism)

    def _steps(self, memory: MemoryRecord | None) -> tuple[PlannedEvent, ...]:
        head = self.head
        if memory is not None:
            current = None if head is None else _folded(head)
            verdict, grade = self.verdict.verdict, self.verdict.strength.grade
            return plan_events(self.policies.lifecycle, current, verdict.decision, grade, str(memory.id))
        if head is None or Disposition(head.disposition) not in LIVE:
            return ()
        retracted = PlannedEvent(
            event_type=EventType.RETRACTED, resulting_disposition=Disposition.RETRACTED, memory_id=head.memory_id
        )
        return (retracted,)


def _folded(head: Head) -> LifecycleHead:
    return LifecycleHead(
        scope_variant_id=head.scope_variant_id,
        event_id=head.event_id,
        memory_id=head.memory_id,
        disposition=Disposition(head.disposition),
        length=head.version,
    )
