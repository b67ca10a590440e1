"""Selection of a Knowledge Snapshot (spec 4.11, 8.3, VRM-L02, L05).

Rules kept here:

- this is the only place that folds lifecycle events and selects members; the fold must agree with the heads that the
  Ledger keeps, or nothing is frozen;
- at most one member per scope variant: its head, if the policy admits it;
- nothing that retention denies, and nothing that rests on it, is a member;
- identity covers members, lifecycle position, namespace and selection policy, so unrelated growth of the Ledger and any
  change of retrieval leaves it as it was.
"""

from __future__ import annotations

from memory.retention import denials, reachable
from memory.snapshots.evidence import newest
from policies.lifecycle_policy import LifecycleFact, LifecycleHead, fold
from policies.selection_policy import SelectionPolicy
from records.errors import IntegrityError
from records.ids import EventId, MemoryId
from records.knowledge import GovernedRecord, LifecycleEvent
from records.legacy import require_scoped
from records.snapshots import KnowledgeMember, KnowledgeSnapshot
from store.ledger.port import LedgerReader

_FSCK = "Nothing was frozen; run fsck on the ledger."


class KnowledgeSnapshotBuilder:
    """Freezes the heads that a Snapshot-Selection Policy admits."""

    def __init__(self, policy: SelectionPolicy) -> None:
        """Select under `policy`."""
        self._policy = policy

    def freeze(self, reader: LedgerReader, namespace: str) -> KnowledgeSnapshot:
        """Return the snapshot at the namespace's lifecycle frontier; `reader` is one read transaction.

        Raises:
            IntegrityError: events, heads and records of the Ledger contradict each other.
            IllegalTransitionError: a stored event has no arrow from where its chain stood.
            InvalidInputError: the namespace is that of legacy records.
        """
        require_scoped(namespace)
        stored = [item.load() for item in reader.find("knowledge-lifecycle-event", namespace)]
        events = {str(item.id): item for item in stored if isinstance(item, LifecycleEvent)}
        heads = fold(LifecycleFact.of(event) for event in events.values())
        _require_same_heads(reader, namespace, heads)
        records = _records(reader, heads)
        denied = {target.target_id for target in denials(reader, namespace)}
        members = []
        for variant, head in heads.items():
            record, event = records[head.memory_id], events[head.event_id]
            if (record.scope_variant_id, record.family_id, record.namespace) != (variant, event.family_id, namespace):
                raise IntegrityError("lifecycle event", str(event.id), f"It is about another rule. {_FSCK}")
            if denied and not denied.isdisjoint(reachable(reader, [head.memory_id])):
                continue
            if self._policy.admits(record.record_kind, head.disposition, record.strength.grade):
                members.append((event, record))
        return KnowledgeSnapshot(
            namespace=namespace,
            created_at=newest(event.created_at for event, _ in members),
            lifecycle_position=reader.namespace_head(namespace).lifecycle,
            selection_policy=self._policy.identity,
            members=tuple(_member(event) for event, _ in members),
        )


def knowledge_key(snapshot: KnowledgeSnapshot) -> str:
    """Return the operation key under which a snapshot is appended."""
    return f"freeze-knowledge:{snapshot.id}"


def _member(event: LifecycleEvent) -> KnowledgeMember:
    return KnowledgeMember(
        scope_variant_id=event.scope_variant_id,
        family_id=event.family_id,
        memory_id=MemoryId(event.memory_id),
        event_id=EventId(event.id),
        disposition=event.disposition,
    )


def _require_same_heads(reader: LedgerReader, namespace: str, heads: dict[str, LifecycleHead]) -> None:
    kept = {
        variant: (head.event_id, head.memory_id, head.disposition)
        for variant, head in reader.variant_heads(namespace).items()
    }
    folded = {variant: (head.event_id, head.memory_id, head.disposition.value) for variant, head in heads.items()}
    differing = sorted(variant for variant in kept.keys() | folded.keys() if kept.get(variant) != folded.get(variant))
    if differing:
        raise IntegrityError("scope variant heads", ", ".join(differing), f"They are not what events fold to. {_FSCK}")


def _records(reader: LedgerReader, heads: dict[str, LifecycleHead]) -> dict[str, GovernedRecord]:
    wanted = {head.memory_id for head in heads.values()}
    loaded = {key: stored.load() for key, stored in reader.get_many(wanted).items()}
    records = {key: record for key, record in loaded.items() if isinstance(record, GovernedRecord)}
    missing = sorted(wanted - records.keys())
    if missing:
        raise IntegrityError("memory record", ", ".join(missing), f"A head names it, but it is not stored. {_FSCK}")
    return records
