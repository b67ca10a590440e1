"""What a distillation commit makes: founded on its batch's snapshot, decided, and live as decided (VRM-W03, W08, W09).

A commit is the records of one permit; a stretch of journal holds whole permits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from memory.fsck.case import Case, Chunk, only
from memory.fsck.codes import Code
from records.base import Record
from records.flows import Transition
from records.ingestion import Batch, EvidenceSnapshot, Report, WorkDisposition
from records.knowledge import (
    Candidate,
    DecisionKind,
    DistillationDecision,
    EventType,
    GovernedRecord,
    LifecycleEvent,
    MemoryRelation,
    RelationKind,
    cited,
)
from records.values import Disposition, Grade
from store.recent import Recent

Fault = tuple[str, str]
"""The record that it is about, and what was met."""

_DECIDED: Final = {
    Disposition.PROVISIONAL: DecisionKind.PROMOTED_PROVISIONAL,
    Disposition.ACTIVE: DecisionKind.PROMOTED_ACTIVE,
    Disposition.CONTESTED: DecisionKind.PROMOTED_CONTESTED,
}


class CommitCheck:
    """Checks distillation commits; keeps the members of the snapshots used last."""

    def __init__(self) -> None:
        self._members: Recent[str, frozenset[str]] = Recent(2)

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the distillation commits of a stretch of journal."""
        commits: dict[str, dict[str, Record]] = defaultdict(dict)
        for row in chunk.rows:
            receipt = chunk.receipts.get(row.permit_key)
            if row.id in chunk.records and receipt and receipt.transition is Transition.COMMIT_DISTILLATION:
                commits[row.permit_key][row.id] = chunk.records[row.id]
        for records in commits.values():
            faults = (*self._founded(case, records), *_decided(records), *_covered(case, records))
            for key, met in (*faults, *self._contesting(case, records)):
                case.findings.add(Code.KNOWLEDGE_UNFOUNDED, key, met)

    def _founded(self, case: Case, records: dict[str, Record]) -> Iterator[Fault]:
        """Yield what rests on evidence outside of the snapshot that its batch read."""
        batch = next(iter(only(records, Batch).values()), None)
        candidates, memories = only(records, Candidate), only(records, GovernedRecord)
        if batch is None or not (candidates or memories):
            return
        members = self._read_members(case, str(batch.evidence_snapshot_id))
        for key, candidate in candidates.items():
            if candidate.evidence_snapshot_id != batch.evidence_snapshot_id:
                yield key, f"its batch read {batch.evidence_snapshot_id}, it names {candidate.evidence_snapshot_id}"
        founded: list[tuple[str, Candidate | GovernedRecord]] = [*candidates.items(), *memories.items()]
        for key, made in founded:
            named = cited(made)
            if isinstance(made, Candidate):
                named |= {str(part) for part in made.experience_ids}
            if not named <= members or not made.links:
                met = ", ".join(sorted(named - members)[:3]) or "nothing"
                yield key, f"it rests on {met}, which {batch.evidence_snapshot_id} does not hold"

    def _read_members(self, case: Case, key: str) -> frozenset[str]:
        if key not in self._members:
            snapshot = case.read([key], EvidenceSnapshot).get(key)
            named = () if snapshot is None else snapshot.members
            self._members.put(key, frozenset(str(member.experience_id) for member in named))
        return self._members[key]

    def _contesting(self, case: Case, records: dict[str, Record]) -> Iterator[Fault]:
        """Yield contested records that drop evidence of the one they replace, or do not say that they contest it."""
        events, memories = only(records, LifecycleEvent), only(records, GovernedRecord)
        told = {
            frozenset((str(each.source_memory_id), str(each.target_memory_id)))
            for each in only(records, MemoryRelation).values()
            if each.relation is RelationKind.CONTESTS
        }
        for event in events.values():
            ended, new = events.get(str(event.expected_prior)), memories.get(str(event.memory_id))
            if event.event_type is not EventType.PROMOTED_CONTESTED or ended is None or new is None:
                continue
            old = case.read([str(ended.memory_id)], GovernedRecord).get(str(ended.memory_id))
            if old is None:
                continue  # a reference that leads nowhere is another check's finding
            kept = cited(old) & self._read_members(case, str(event.evidence_snapshot_id))
            if not kept <= cited(new):
                yield str(new.id), f"it leaves out evidence of {old.id}, which it replaces"
            if old.strength.grade is not Grade.CONTESTED and frozenset((str(old.id), str(new.id))) not in told:
                yield str(new.id), f"it does not say that it contests {old.id}"


def _decided(records: dict[str, Record]) -> Iterator[Fault]:
    """Yield what was made without a decision, or otherwise than decided."""
    candidates, memories = only(records, Candidate), only(records, GovernedRecord)
    kinds: dict[str, DecisionKind] = {}
    for key, decision in only(records, DistillationDecision).items():
        if str(decision.candidate_id) not in candidates:
            yield key, f"{decision.candidate_id} is not of this commit"
        if decision.memory_id is not None:
            record = memories.get(str(decision.memory_id))
            if record is None or record.candidate_id != decision.candidate_id:
                yield key, "it promotes the record of another candidate"
            kinds[str(decision.memory_id)] = decision.decision
    for key in sorted(memories.keys() - kinds.keys()):
        yield key, "no decision of its commit promotes it"
    for key, event in only(records, LifecycleEvent).items():
        wanted, decided = _DECIDED.get(event.disposition), kinds.get(str(event.memory_id))
        if wanted is not None and decided is not wanted:
            yield key, f"{event.memory_id} becomes {event.disposition}, its decision is {decided}"


def _covered(case: Case, records: dict[str, Record]) -> Iterator[Fault]:
    """Yield what a work disposition says of a decision that the decision and the report do not say."""
    report = next(iter(only(records, Report).values()), None)
    for key, disposition in only(records, WorkDisposition).items():
        if disposition.decision_id is None:
            continue
        name = str(disposition.decision_id)
        here = only(records, DistillationDecision)
        decision = here.get(name) or case.read([name], DistillationDecision).get(name)
        if decision is not None and decision.candidate_id != disposition.candidate_id:
            yield key, f"{name} is about another candidate than {disposition.candidate_id}"
        if report is not None and report.decision_ids[:1] != (disposition.decision_id,):
            yield key, f"its report does not name {name} first"
        for made in sorted(here.keys() - set(() if report is None else report.decision_ids)):
            yield key, f"its report leaves {made} out"
