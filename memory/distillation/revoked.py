"""Live records that rest on what retention denies, and of which a snapshot drafts nothing any more (VRM-W07, VRM-L01).

Rules kept here (docs/adr/0036):

- a record that still is drafted is judged by what is left of its evidence; this is about those of which nothing is;
- it is retracted by the next distillation of its namespace, with `retention_revoked` as the reason. The event names no
  evidence: what it would name is denied;
- a contested record has no such arrow: it stays until a record takes its place, and is in no snapshot meanwhile;
- a record that was made under a later version of the policy is left to that version, as everywhere.
"""

from __future__ import annotations

from memory.distillation.drafting import CARRIED
from memory.distillation.policies import is_later
from memory.distillation.view import View
from memory.retention import REVOKED, denials, reachable
from records.appends import Head
from records.ids import EventId, EvidenceSnapshotId, MemoryId, ScopeVariantId
from records.knowledge import EventType, GovernedRecord, LifecycleEvent
from records.values import Disposition, PolicyIdentity
from store.ledger.port import LedgerReader

Ending = tuple[Head, GovernedRecord]
"""A record that is to be retracted, and the head that it is."""


def undrafted(reader: LedgerReader, view: View, policy: PolicyIdentity) -> dict[ScopeVariantId, Ending]:
    """Return by scope variant the live records whose evidence is denied and of which a view drafts nothing."""
    namespace = view.snapshot.namespace
    denied = {target.target_id for target in denials(reader, namespace)}
    if not denied:
        return {}
    live = {
        ScopeVariantId(key): head
        for key, head in reader.variant_heads(namespace).items()
        if Disposition(head.disposition) in CARRIED and not view.drafts(ScopeVariantId(key))
    }
    stored = reader.get_many(head.memory_id for head in live.values())
    found: dict[ScopeVariantId, Ending] = {}
    for key, head in live.items():
        record = stored[head.memory_id].load()
        if not isinstance(record, GovernedRecord) or is_later(record.distillation_policy, policy):
            continue
        if not denied.isdisjoint(reachable(reader, [head.memory_id])):
            found[key] = (head, record)
    return found


def retraction(ending: Ending, snapshot_id: EvidenceSnapshotId, policy: PolicyIdentity, now: str) -> LifecycleEvent:
    """Return the event that ends such a record, under a Lifecycle Policy."""
    head, record = ending
    return LifecycleEvent(
        namespace=record.namespace,
        created_at=now,
        memory_id=MemoryId(record.id),
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_type=EventType.RETRACTED,
        disposition=Disposition.RETRACTED,
        expected_prior=EventId.check(head.event_id),
        reasons=(REVOKED,),
        evidence_ids=(),
        evidence_snapshot_id=snapshot_id,
        policy=policy,
    )
