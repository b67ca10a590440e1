"""The Knowledge Distiller: one leased work item in, one complete proposal out, no writes (spec 8.1).

Rules kept here:

- the first item of a scope variant leads: it commits Candidate, Decision, record, events and relations. Later items
  commit their own Batch, Disposition and Report, which point at that Decision;
- a head that already rests on exactly this evidence stands: its Decision covers the item. Evidence is the same if its
  support units are, whichever import of it is read;
- lifecycle events consume the head that was read; if it moves meanwhile, the commit writes nothing and the item is
  proposed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.distillation.drafting import LIVE, Draft
from memory.distillation.view import Finding, Policies, View, read_view
from memory.ports import Clock
from policies.distiller import DRAFTING_ADAPTER
from records.appends import Proposal
from records.base import Record
from records.flows import Authority, Transition
from records.ids import (
    AssignmentId,
    BatchId,
    CandidateId,
    DecisionId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    MemoryId,
    ScopeVariantId,
    SupportUnitId,
    WorkItemId,
)
from records.ingestion import ActiveView, Batch, Report, WorkAssignment, WorkDisposition, WorkItem
from records.knowledge import EvidenceLink, LifecycleEvent, LinkRelation, MemoryRecord
from records.runtime import Subject
from records.states import Machine
from records.values import Disposition
from store.ledger.port import LedgerReader

Covering = tuple[CandidateId, DecisionId]


@dataclass(frozen=True, kw_only=True)
class DistillationRequest:
    """One leased work item: the item, its assignment, the Activity as leased, the snapshot to compare within."""

    item: WorkItem
    assignment: WorkAssignment
    activity: Subject
    snapshot_id: EvidenceSnapshotId


class KnowledgeDistiller:
    """Derives evidence-bounded proposals; performs no writes."""

    def __init__(self, reader: LedgerReader, policies: Policies, clock: Clock) -> None:
        """Read from the Ledger under pinned policies."""
        self._reader = reader
        self._policies = policies
        self._clock = clock
        self._views: dict[EvidenceSnapshotId, View] = {}
        self._committed: dict[tuple[EvidenceSnapshotId, ScopeVariantId], Covering] = {}

    def view(self, snapshot_id: EvidenceSnapshotId) -> View:
        """Return a snapshot as read and judged; done once per snapshot (see `read_view` for what it raises)."""
        if snapshot_id not in self._views:
            self._views[snapshot_id] = read_view(self._reader, snapshot_id, self._policies.distillation)
        return self._views[snapshot_id]

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one complete proposal per request, in order; within a call each variant is led once."""
        led: dict[ScopeVariantId, Covering] = {}
        return [self._propose(request, led) for request in requests]

    def _propose(self, request: DistillationRequest, led: dict[ScopeVariantId, Covering]) -> Proposal:
        finding = self.view(request.snapshot_id).find(ExperienceId(request.item.experience_id))
        now = self._clock()
        covering, decided, read = self._cover(request, finding, led, now)
        batch = self._batch(request, read, now)
        disposition = _disposition(request, batch, finding, covering)
        report = _report(request, batch, (finding, covering), decided)
        return Proposal(
            namespace=request.item.namespace,
            transition=Transition.COMMIT_DISTILLATION,
            authority=Authority.NORMAL,
            machine=Machine.ACTIVITY,
            subject_id=request.activity.id,
            run_id=request.assignment.run_id,
            generation=request.activity.generation,
            fence=request.activity.fence,
            records=Proposal.bodies((batch, *decided, disposition, report)),
        )

    def _cover(
        self, request: DistillationRequest, finding: Finding, led: dict[ScopeVariantId, Covering], now: str
    ) -> tuple[Covering | None, list[Record], tuple[ExperienceId, ...]]:
        """Return the covering Candidate and Decision, what this item commits of them, and the members it read."""
        verdict = finding.verdict
        if verdict is None:
            return None, [], finding.read
        key = verdict.variant.scope_variant_id
        covering = led.get(key) or self._committed.get((request.snapshot_id, key))
        if covering is not None:
            return covering, [], finding.read
        draft = Draft(
            namespace=request.item.namespace,
            now=now,
            snapshot_id=request.snapshot_id,
            policies=self._policies,
            verdict=verdict,
            head=self._reader.variant_heads(request.item.namespace, [key]).get(key),
        )
        covering = self._standing(draft) or self._decided(draft)
        if covering is not None:
            self._committed[request.snapshot_id, key] = covering
            return covering, [], finding.read
        led[key] = draft.covering
        return led[key], draft.records(), draft.experiences()

    def _decided(self, draft: Draft) -> Covering | None:
        """Return the Decision that the Ledger holds about this very candidate."""
        candidate = CandidateId(draft.candidate().id)
        known = self._reader.find("distillation-decision", draft.namespace, candidate_id=str(candidate))
        return (candidate, DecisionId.check(known[0].id)) if known else None

    def _standing(self, draft: Draft) -> Covering | None:
        """Return the Decision behind the head if the head already rests on exactly this evidence."""
        head = draft.head
        if head is None or Disposition(head.disposition) not in LIVE:
            return None
        stored = self._reader.get(head.memory_id)
        record = None if stored is None else stored.load()
        verdict = draft.verdict
        if not isinstance(record, MemoryRecord) or record.effect != verdict.effect:
            return None
        if _support(record.links) != _support(verdict.links):
            return None
        decisions = self._reader.find("distillation-decision", draft.namespace, candidate_id=str(record.candidate_id))
        return (record.candidate_id, DecisionId.check(decisions[0].id)) if decisions else None

    def _batch(self, request: DistillationRequest, read: tuple[ExperienceId, ...], now: str) -> Batch:
        return Batch(
            namespace=request.item.namespace,
            created_at=now,
            work_item_id=WorkItemId(request.item.id),
            assignment_id=AssignmentId(request.assignment.id),
            evidence_snapshot_id=request.snapshot_id,
            experience_ids=read,
            distillation_policy=self._policies.distillation.identity,
            lifecycle_policy=self._policies.lifecycle.identity,
            drafting_adapter=DRAFTING_ADAPTER,
        )


def _support(links: Iterable[EvidenceLink]) -> frozenset[tuple[LinkRelation, SupportUnitId]]:
    return frozenset((link.relation, link.support_unit_id) for link in links)


def _disposition(
    request: DistillationRequest, batch: Batch, finding: Finding, covering: Covering | None
) -> WorkDisposition:
    return WorkDisposition(
        namespace=batch.namespace,
        created_at=batch.created_at,
        work_item_id=WorkItemId(request.item.id),
        batch_id=BatchId(batch.id),
        outcome=finding.outcome,
        candidate_id=covering[0] if covering else None,
        decision_id=covering[1] if covering else None,
    )


def _report(
    request: DistillationRequest, batch: Batch, found: tuple[Finding, Covering | None], decided: Sequence[Record]
) -> Report:
    finding, covering = found
    last = {record.scope_variant_id: record for record in decided if isinstance(record, LifecycleEvent)}
    return Report(
        namespace=batch.namespace,
        created_at=batch.created_at,
        batch_id=BatchId(batch.id),
        work_item_id=WorkItemId(request.item.id),
        work_outcome=finding.outcome,
        decision_ids=(covering[1],) if covering else (),
        memory_ids=tuple(MemoryId(record.id) for record in decided if isinstance(record, MemoryRecord)),
        covered_experience_ids=batch.experience_ids if covering else (),
        refused=finding.refused,
        active_view=tuple(
            ActiveView(
                scope_variant_id=variant,
                memory_id=event.memory_id,
                event_id=EventId(event.id),
                disposition=event.disposition,
            )
            for variant, event in sorted(last.items())
        ),
    )
