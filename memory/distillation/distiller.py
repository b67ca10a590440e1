"""The Knowledge Distiller: one leased work item in, one complete proposal out, no writes (spec 8.1).

Rules kept here:

- the first item of a scope variant leads: it commits Candidate, Decision, record, events and relations. Later items
  commit their own Batch, Disposition and Report, which point at that Decision;
- an item may speak for several variants, such as one scope and a narrower one: it leads each that nobody has led, and
  the Decision about the widest covers it;
- a head that already says the same on exactly this evidence stands: its Decision covers the item. Evidence is the same
  if its support units are, whichever import of it is read; what was tried beside it does not count. One that was made
  under a later version of the policy stands as well: an item that pins an earlier one cannot undo it;
- a live record whose variant the snapshot judges no more, such as a part of a split that has ended, is ended by the
  next item of its evidence (VRM-W07), and one of which retention left nothing to draft by any item, first of its own
  task scope (`memory.distillation.revoked`);
- lifecycle events consume the head that was read; if it moves meanwhile, the commit writes nothing and the item is
  proposed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.distillation.drafting import Draft, Judgement, RuleDraft
from memory.distillation.policies import Policies, is_later
from memory.distillation.procedures import ProcedureDraft, is_live
from memory.distillation.revoked import Ending, retraction, undrafted
from memory.distillation.view import Finding, View, read_view
from memory.distillation.wording import Drafter
from memory.ports import Clock
from memory.trace.events import tell
from memory.trace.watching import judged
from policies.distiller import VariantVerdict
from policies.procedures.judging import ProcedureVerdict
from records.appends import Head, Proposal
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
from records.ingestion import ActiveView, Batch, Report, WorkAssignment, WorkDisposition, WorkItem, WorkOutcome
from records.knowledge import DecisionKind, EvidenceLink, GovernedRecord, LifecycleEvent, LinkRelation
from records.runtime import Subject
from records.states import Machine
from records.values import Disposition
from store.ledger.port import LedgerReader

Covering = tuple[CandidateId, DecisionId]

STANDS: Final = {
    DecisionKind.PROMOTED_PROVISIONAL: Disposition.PROVISIONAL,
    DecisionKind.PROMOTED_ACTIVE: Disposition.ACTIVE,
    DecisionKind.PROMOTED_CONTESTED: Disposition.CONTESTED,
}
"""The disposition of a head that a decision has nothing to add to."""


@dataclass(frozen=True, kw_only=True)
class DistillationRequest:
    """One leased work item: the item, its assignment, the Activity as leased, the snapshot to compare within."""

    item: WorkItem
    assignment: WorkAssignment
    activity: Subject
    snapshot_id: EvidenceSnapshotId


@dataclass(frozen=True)
class Cover:
    """The Decision behind one verdict; what a leading item commits of it, and the members that it read for that."""

    covering: Covering
    records: tuple[Record, ...] = ()
    read: tuple[ExperienceId, ...] = ()


class KnowledgeDistiller:
    """Derives evidence-bounded proposals; performs no writes."""

    def __init__(self, reader: LedgerReader, policies: Policies, clock: Clock, drafter: Drafter | None = None) -> None:
        """Read from the Ledger under pinned policies; without a drafter the template words everything."""
        self._reader = reader
        self._policies = policies
        self._clock = clock
        self._drafter = drafter or Drafter()
        self._views: dict[EvidenceSnapshotId, View] = {}
        self._undrafted: dict[EvidenceSnapshotId, dict[ScopeVariantId, Ending]] = {}
        self._committed: dict[tuple[EvidenceSnapshotId, ScopeVariantId], Covering] = {}
        self._moved: dict[ScopeVariantId, tuple[str, str]] = {}

    def view(self, snapshot_id: EvidenceSnapshotId) -> View:
        """Return a snapshot as read and judged; done once per snapshot (see `read_view` for what it raises)."""
        if snapshot_id not in self._views:
            view = read_view(self._reader, snapshot_id, self._policies.distillation, self._policies.procedures)
            self._views[snapshot_id] = view
            tell(lambda: judged(view))
        return self._views[snapshot_id]

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one complete proposal per request, in order; within a call each variant is led once."""
        led: dict[ScopeVariantId, Covering] = {}
        self._moved = {}
        orphaned, revoked = self._orphaned(requests), self._revoked(requests)
        return [
            self._propose(request, self._found(request, orphaned), led, revoked.get(place, ()))
            for place, request in enumerate(requests)
        ]

    def _revoked(self, requests: Sequence[DistillationRequest]) -> dict[int, list[Ending]]:
        """Return by place what each request ends of that of which nothing is left to draft: of its own scope first."""
        found: dict[int, list[Ending]] = {}
        for snapshot_id in dict.fromkeys(request.snapshot_id for request in requests):
            places = [place for place, each in enumerate(requests) if each.snapshot_id == snapshot_id]
            scopes = {requests[place].item.task_scope_id: place for place in reversed(places)}
            for ending in self._still_undrafted(snapshot_id):
                leader = scopes.get(ending[1].scope.task_scope_id, places[0])
                found.setdefault(leader, []).append(ending)
        return found

    def _still_undrafted(self, snapshot_id: EvidenceSnapshotId) -> list[Ending]:
        view = self.view(snapshot_id)
        if snapshot_id not in self._undrafted:
            self._undrafted[snapshot_id] = undrafted(self._reader, view, self._policies.distillation.identity)
        known = self._undrafted[snapshot_id]
        heads = self._reader.variant_heads(view.snapshot.namespace, list(known)) if known else {}
        return [ending for key, ending in known.items() if heads.get(key) == ending[0]]

    def _orphaned(self, requests: Sequence[DistillationRequest]) -> frozenset[ScopeVariantId]:
        """Return the variants of these items whose head is live though their snapshot judges them no more."""
        keys = {
            (request.item.namespace, key)
            for request in requests
            for key in self.view(request.snapshot_id).unjudged(ExperienceId(request.item.experience_id))
        }
        found = set[ScopeVariantId]()
        for namespace in {namespace for namespace, _ in keys}:
            heads = self._reader.variant_heads(namespace, {key for space, key in keys if space == namespace})
            found |= {ScopeVariantId(key) for key, head in heads.items() if is_live(head.disposition)}
        return frozenset(found)

    def _found(self, request: DistillationRequest, orphaned: Collection[ScopeVariantId]) -> Finding:
        """Return what becomes of an item's Experience, with the ends of what nothing carries any more."""
        view, experience_id = self.view(request.snapshot_id), ExperienceId(request.item.experience_id)
        finding = view.find(experience_id)
        keys = [key for key in view.unjudged(experience_id) if key in orphaned]
        ends = tuple(end for key in keys if (end := view.withdrawn(key)) is not None)
        if not ends:
            return finding
        return replace(finding, outcome=WorkOutcome.COVERED, verdicts=(*finding.verdicts, *ends), refused=())

    def _propose(
        self,
        request: DistillationRequest,
        finding: Finding,
        led: dict[ScopeVariantId, Covering],
        revoked: Sequence[Ending],
    ) -> Proposal:
        now = self._clock()
        # From the last: what the first verdict may point at, such as the rules of a procedure, comes before it.
        covers = [self._cover(request, verdict, led, now) for verdict in reversed(finding.verdicts)]
        decided = [record for cover in covers for record in cover.records]
        lifecycle = self._policies.lifecycle.identity
        decided += [retraction(ending, request.snapshot_id, lifecycle, now) for ending in revoked]
        covers.reverse()
        read = sorted({*finding.read, *(each for cover in covers for each in cover.read)})
        batch = self._batch(request, tuple(read), now)
        disposition = _disposition(request, batch, finding, covers)
        report = _report(request, batch, (finding, covers), decided)
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
        self, request: DistillationRequest, verdict: Judgement, led: dict[ScopeVariantId, Covering], now: str
    ) -> Cover:
        """Return the Candidate and Decision behind a verdict, with what this item commits of them."""
        key = verdict.scope_variant_id
        covering = led.get(key) or self._committed.get((request.snapshot_id, key))
        if covering is not None:
            return Cover(covering)
        draft = self._draft(request, verdict, now)
        covering = self._standing(draft) or self._decided(draft)
        if covering is not None:
            self._committed[request.snapshot_id, key] = covering
            return Cover(covering)
        led[key] = draft.covering
        records = tuple(draft.records())
        for event in (record for record in records if isinstance(record, LifecycleEvent)):
            self._moved[key] = (str(event.memory_id), event.disposition.value)
        return Cover(led[key], records, draft.experiences())

    def _draft(self, request: DistillationRequest, verdict: Judgement, now: str) -> Draft[Any]:
        namespace, key = request.item.namespace, verdict.scope_variant_id
        rules = self.view(request.snapshot_id).procedures.rules.get(key, ())
        whole = verdict.refines
        heads = self._reader.variant_heads(namespace, [key, *rules, *([whole] if whole else ())])
        facts: dict[str, Any] = {
            "namespace": namespace,
            "now": now,
            "snapshot_id": request.snapshot_id,
            "policies": self._policies,
            "drafter": self._drafter,
            "verdict": verdict,
            "head": heads.get(key),
            "whole": heads.get(whole) if whole else None,
        }
        match verdict:
            case VariantVerdict():
                return RuleDraft(**facts)
            case ProcedureVerdict():
                return ProcedureDraft(**facts, rules=self._live(rules, heads))
        raise TypeError(f"nothing drafts a {type(verdict).__name__}")

    def _live(self, variants: Iterable[ScopeVariantId], heads: Mapping[str, Head]) -> tuple[MemoryId, ...]:
        """Return the live records of variants, sorted: as they are led in this call, else as their heads stand."""
        stand = {each: (heads[each].memory_id, heads[each].disposition) for each in variants if each in heads}
        stand |= {each: self._moved[each] for each in variants if each in self._moved}
        return tuple(sorted(MemoryId.check(memory) for memory, disposition in stand.values() if is_live(disposition)))

    def _decided(self, draft: Draft[Any]) -> Covering | None:
        """Return the Decision that the Ledger holds about this very candidate."""
        candidate = CandidateId(draft.candidate().id)
        known = self._reader.find("distillation-decision", draft.namespace, candidate_id=str(candidate))
        return (candidate, DecisionId.check(known[0].id)) if known else None

    def _standing(self, draft: Draft[Any]) -> Covering | None:
        """Return the Decision behind a head that says this on exactly this evidence, or is of a later policy."""
        head = draft.head
        stored = None if head is None else self._reader.get(head.memory_id)
        record = None if stored is None else stored.load()
        if head is None or not isinstance(record, GovernedRecord):
            return None
        same = Disposition(head.disposition) is STANDS.get(draft.verdict.verdict.decision)
        same = same and draft.same_claim(record) and _support(record.links) == _support(draft.verdict.links)
        if not same and not is_later(record.distillation_policy, self._policies.distillation.identity):
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
            drafting_adapter=self._drafter.identity,
        )


def _support(links: Iterable[EvidenceLink]) -> frozenset[tuple[LinkRelation, SupportUnitId]]:
    return frozenset((link.relation, link.support_unit_id) for link in links)


def _disposition(
    request: DistillationRequest, batch: Batch, finding: Finding, covers: Sequence[Cover]
) -> WorkDisposition:
    covering = covers[0].covering if covers else None
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
    request: DistillationRequest, batch: Batch, found: tuple[Finding, Sequence[Cover]], decided: Sequence[Record]
) -> Report:
    finding, covers = found
    last = {record.scope_variant_id: record for record in decided if isinstance(record, LifecycleEvent)}
    return Report(
        namespace=batch.namespace,
        created_at=batch.created_at,
        batch_id=BatchId(batch.id),
        work_item_id=WorkItemId(request.item.id),
        work_outcome=finding.outcome,
        decision_ids=tuple(cover.covering[1] for cover in covers),
        memory_ids=tuple(MemoryId(record.id) for record in decided if isinstance(record, GovernedRecord)),
        covered_experience_ids=batch.experience_ids if covers else (),
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
