"""What must hold when a scope variant becomes contested (spec 10, "true contradiction").

Rules kept here:

- a contested record that takes the place of one that was not contests it: one symmetric relation, in the same commit,
  caused by the event that starts the contested record;
- both evidence sets are kept: whatever the replaced record cites and the snapshot still holds, the contested one cites
  as well. What retention denied since is in no snapshot any more, and may not be cited.
"""

from __future__ import annotations

from memory.guard_rules import Rules, first_broken, of, read, rejected
from records.appends import Append
from records.ingestion import EvidenceSnapshot
from records.knowledge import EventType, GovernedRecord, LifecycleEvent, MemoryRelation, RelationKind, cited
from records.values import Grade
from store.ledger.port import LedgerReader, Refusal


def guard_conflicts(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a contested record that says nothing to the one it replaces, or drops evidence of it."""
    ended = {str(event.id): event for event in of(append, LifecycleEvent)}
    for event in of(append, LifecycleEvent):
        before = ended.get(event.expected_prior)
        if event.event_type is EventType.PROMOTED_CONTESTED and before is not None:
            refused = first_broken(_kept(reader, append, before, event), rejected)
            if refused is not None:
                return refused
    return None


def _kept(reader: LedgerReader, append: Append, before: LifecycleEvent, event: LifecycleEvent) -> Rules:
    old = read(reader, before.memory_id, GovernedRecord)
    new = next((each for each in of(append, GovernedRecord) if each.id == event.memory_id), None)
    yield old is not None and new is not None, "the contested record or the one it replaces is not there"
    if old is None or new is None:
        return
    kept = cited(old) & _members(reader, event)
    yield kept <= cited(new), "the contested record leaves out evidence of the one it replaces"
    if old.strength.grade is Grade.CONTESTED:
        return
    pair = tuple(sorted((str(old.id), str(new.id))))
    told = [
        (str(each.source_memory_id), str(each.target_memory_id)) == pair and each.event_id == event.id
        for each in of(append, MemoryRelation)
        if each.relation is RelationKind.CONTESTS
    ]
    yield any(told), "the contested record does not say which record it contests"


def _members(reader: LedgerReader, event: LifecycleEvent) -> set[str]:
    snapshot = read(reader, event.evidence_snapshot_id, EvidenceSnapshot)
    return {str(member.experience_id) for member in snapshot.members} if snapshot else set()
