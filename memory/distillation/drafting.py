"""The records of one verdict: Candidate, memory record, Decision, lifecycle events, relations. Pure.

Rules kept here:

- rules and procedures (`memory.distillation.procedures`) are drafted alike; only what their Candidate and record hold
  is their own;
- a verdict that no longer carries a live head retracts it, so that counter-evidence is never left without effect
  (VRM-W07); one that replaces a live head supersedes it first, as the Lifecycle Policy says. A contested head carries
  both sides already, and stays until a verdict takes its place;
- a contested record that takes the place of one which was not contests it, in the same commit (spec 10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from memory.distillation.policies import Policies
from memory.distillation.wording import Drafter
from policies.distiller import VariantVerdict
from policies.drafting.wording import Wording
from policies.lifecycle_policy import LifecycleHead, PlannedEvent, plan_events
from policies.verdicts import Verdict
from records.appends import Head
from records.base import Record
from records.ids import (
    CandidateId,
    DecisionId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    FamilyId,
    MemoryId,
    ScopeVariantId,
)
from records.knowledge import (
    GENESIS,
    Candidate,
    DecisionKind,
    DistillationDecision,
    EventType,
    EvidenceLink,
    GovernedRecord,
    KnowledgeCandidate,
    LifecycleEvent,
    MemoryRecord,
    MemoryRelation,
    RelationKind,
    family_id,
)
from records.values import ActionKind, Disposition, EvidenceStrength, MemoryScope

LIVE: Final = frozenset({Disposition.PROVISIONAL, Disposition.ACTIVE, Disposition.CONTESTED})
_NOTHING: Final = frozenset({DecisionKind.REJECTED, DecisionKind.DEFERRED})
CARRIED: Final = LIVE - {Disposition.CONTESTED}
"""What its evidence must go on carrying; a contested record keeps both sides until a new one takes its place."""


class Judgement(Protocol):
    """What was decided about one scope variant, of either sort."""

    @property
    def scope_variant_id(self) -> ScopeVariantId:
        """The variant."""

    @property
    def refines(self) -> ScopeVariantId | None:
        """The variant that it is a part of, if it was drafted to split that one."""

    @property
    def scope(self) -> MemoryScope:
        """Where it was judged."""

    @property
    def scope_description(self) -> str:
        """The scope in words."""

    @property
    def mechanism(self) -> str:
        """By what the change is thought to act."""

    @property
    def verdict(self) -> Verdict:
        """The decision with its reasons."""

    @property
    def strength(self) -> EvidenceStrength:
        """The grade with what it rests on."""

    @property
    def links(self) -> tuple[EvidenceLink, ...]:
        """All evidence, sorted as records hold it."""


V = TypeVar("V", bound=Judgement)


@dataclass(frozen=True, kw_only=True)
class Draft(ABC, Generic[V]):
    """A verdict with all that its records need besides: where, when, under which policies.

    Attributes:
        head: where the variant stands; None if it has no record yet.
        whole: where the variant stands that this one refines; None if it refines none, or one without a record.
    """

    namespace: str
    now: str
    snapshot_id: EvidenceSnapshotId
    policies: Policies
    drafter: Drafter
    verdict: V
    head: Head | None
    whole: Head | None = None

    @property
    @abstractmethod
    def family(self) -> FamilyId:
        """The Knowledge Family."""

    @abstractmethod
    def candidate(self) -> Candidate:
        """Return the untrusted candidate."""

    @abstractmethod
    def record(self, candidate: Candidate) -> GovernedRecord:
        """Return the record that the verdict, being promoted, becomes."""

    @abstractmethod
    def same_claim(self, record: GovernedRecord) -> bool:
        """Tell whether a record says what this verdict would, whatever was tried beside it."""

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

    def of_candidate(self) -> dict[str, Any]:
        """Return the fields that candidates of both sorts share."""
        verdict = self.verdict
        return {
            "namespace": self.namespace,
            "created_at": self.now,
            "proposed_family_id": self.family,
            "proposed_scope_variant_id": verdict.scope_variant_id,
            "evidence_snapshot_id": self.snapshot_id,
            "experience_ids": self.experiences(),
            "scope": verdict.scope,
            "mechanism": verdict.mechanism,
            "links": verdict.links,
            "policy": self.policies.distillation.identity,
        }

    def of_record(self, candidate: Candidate) -> dict[str, Any]:
        """Return the fields that records of both sorts share."""
        verdict = self.verdict
        return {
            "namespace": self.namespace,
            "created_at": self.now,
            "family_id": self.family,
            "scope_variant_id": verdict.scope_variant_id,
            "prior_memory_id": None if self.head is None else MemoryId.check(self.head.memory_id),
            "candidate_id": CandidateId(candidate.id),
            "scope": verdict.scope,
            "scope_description": verdict.scope_description,
            "mechanism": verdict.mechanism,
            "strength": verdict.strength,
            "links": verdict.links,
            "distillation_policy": self.policies.distillation.identity,
        }

    def memory(self, candidate: Candidate) -> GovernedRecord | None:
        """Return the memory record of a promoted verdict."""
        return None if self.verdict.verdict.decision in _NOTHING else self.record(candidate)

    def decision(self, candidate: Candidate, memory: GovernedRecord | None) -> DistillationDecision:
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

    def events(self, memory: GovernedRecord | None) -> list[LifecycleEvent]:
        """Return the lifecycle events, each consuming the one before it and the first the head."""
        prior: EventId | Literal["GENESIS"] = EventId.check(self.head.event_id) if self.head else GENESIS
        events: list[LifecycleEvent] = []
        for step in self._steps(memory):
            event = LifecycleEvent(
                namespace=self.namespace,
                created_at=self.now,
                memory_id=MemoryId.check(step.memory_id),
                family_id=self.family,
                scope_variant_id=self.verdict.scope_variant_id,
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

    def relations(self, memory: GovernedRecord | None, events: Sequence[LifecycleEvent]) -> list[MemoryRelation]:
        """Return what the new record is to the one that made room for it, and to the one that it refines."""
        if memory is None or not events:
            return []
        own, starts = MemoryId(memory.id), events[-1]
        relations = [
            self._relation((own, event.memory_id), RelationKind.SUPERSEDES, event)
            for event in events
            if event.event_type is EventType.SUPERSEDED
        ]
        undisputed = self.head is not None and Disposition(self.head.disposition) in CARRIED
        if self.head is not None and undisputed and starts.event_type is EventType.PROMOTED_CONTESTED:
            first, second = sorted((own, MemoryId.check(self.head.memory_id)))
            relations.append(self._relation((first, second), RelationKind.CONTESTS, starts))
        if self.whole is not None:
            ends = own, MemoryId.check(self.whole.memory_id)
            relations.append(self._relation(ends, RelationKind.SCOPE_REFINES, starts))
        return relations

    def _relation(self, ends: tuple[MemoryId, MemoryId], kind: RelationKind, event: LifecycleEvent) -> MemoryRelation:
        return MemoryRelation(
            namespace=self.namespace,
            created_at=self.now,
            source_memory_id=ends[0],
            target_memory_id=ends[1],
            relation=kind,
            event_id=EventId(event.id),
            policy=self.policies.lifecycle.identity,
        )

    def _steps(self, memory: GovernedRecord | None) -> tuple[PlannedEvent, ...]:
        head = self.head
        if memory is not None:
            current = None if head is None else _folded(head)
            verdict, grade = self.verdict.verdict, self.verdict.strength.grade
            return plan_events(self.policies.lifecycle, current, verdict.decision, grade, str(memory.id))
        if head is None or Disposition(head.disposition) not in CARRIED:
            return ()
        retracted = PlannedEvent(
            event_type=EventType.RETRACTED, resulting_disposition=Disposition.RETRACTED, memory_id=head.memory_id
        )
        return (retracted,)


class RuleDraft(Draft[VariantVerdict]):
    """The draft of a conditional action-effect rule."""

    @property
    def family(self) -> FamilyId:
        """The Knowledge Family: target, metric and mechanism."""
        variant = self.verdict.variant
        return family_id(self.namespace, variant.target, variant.metric.name, variant.mechanism)

    @property
    def wording(self) -> Wording:
        """The words of Candidate and record; the same whenever it is asked for."""
        return self.drafter.word(self.snapshot_id, self.verdict)

    def candidate(self) -> KnowledgeCandidate:
        """Return the untrusted candidate."""
        return KnowledgeCandidate(
            **self.of_candidate(),
            target=self.verdict.variant.target,
            claim=self.wording.claim,
            effect=self.verdict.effect,
            drafting_adapter=self.wording.adapter,
            findings=(*self.verdict.findings, *self.wording.findings),
        )

    def record(self, candidate: Candidate) -> MemoryRecord:
        """Return the rule."""
        return MemoryRecord(
            **self.of_record(candidate),
            target=self.verdict.variant.target,
            claim=self.wording.claim,
            action=self.verdict.verdict.action or ActionKind.ABSTAIN,
            effect=self.verdict.effect,
        )

    def same_claim(self, record: GovernedRecord) -> bool:
        """Tell whether a rule has this action, effect and grade.

        The adjusted p-value is left out: it moves whenever another change of the scope is tried, and a rule that still
        passes its gate is not a new rule for that.
        """
        return (
            isinstance(record, MemoryRecord)
            and record.action is self.verdict.verdict.action
            and record.strength.grade is self.verdict.strength.grade
            and record.effect.as_json() | _UNADJUSTED == self.verdict.effect.as_json() | _UNADJUSTED
        )


_UNADJUSTED: Final = {"adjusted_p_value": None}


def _folded(head: Head) -> LifecycleHead:
    return LifecycleHead(
        scope_variant_id=head.scope_variant_id,
        event_id=head.event_id,
        memory_id=head.memory_id,
        disposition=Disposition(head.disposition),
        length=head.version,
    )
