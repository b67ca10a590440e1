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

from collections.abc import Iterator, Mapping
from typing import Final

from memory.retention import denials, reachable
from memory.snapshots.evidence import newest
from policies.lifecycle_policy import LifecycleFact, LifecycleHead, fold
from policies.selection_policy import SelectionPolicy
from records.appends import StoredRecord
from records.errors import IntegrityError
from records.ids import EventId, MemoryId
from records.knowledge import GovernedRecord, LifecycleEvent
from records.legacy import require_scoped
from records.snapshots import KnowledgeMember, KnowledgeSnapshot
from store.ledger.port import LedgerReader

_FSCK: Final = "Nothing was frozen; run fsck on the ledger."
_READ_AT_ONCE: Final = 1000


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
        stored = {item.id: item for item in reader.find("knowledge-lifecycle-event", namespace)}
        heads = fold(LifecycleFact.of(_event(item)) for item in stored.values())
        _require_same_heads(reader, namespace, heads)
        denied = {target.target_id for target in denials(reader, namespace)}
        members, times = [], []
        for variant, head, record in _standing(reader, heads):
            event = _event(stored[head.event_id])
            if (record.scope_variant_id, record.family_id, record.namespace) != (variant, event.family_id, namespace):
                raise IntegrityError("lifecycle event", str(event.id), f"It is about another rule. {_FSCK}")
            if denied and not denied.isdisjoint(reachable(reader, [head.memory_id])):
                continue
            if self._policy.admits(record.record_kind, head.disposition, record.strength.grade):
                members.append(_member(event))
                times.append(event.created_at)
        return KnowledgeSnapshot(
            namespace=namespace,
            created_at=newest(times),
            lifecycle_position=reader.namespace_head(namespace).lifecycle,
            selection_policy=self._policy.identity,
            members=tuple(members),
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


def _event(stored: StoredRecord) -> LifecycleEvent:
    event = stored.load()
    if not isinstance(event, LifecycleEvent):
        raise IntegrityError("lifecycle event", stored.id, f"The record of that id is none. {_FSCK}")
    return event


def _standing(
    reader: LedgerReader, heads: Mapping[str, LifecycleHead]
) -> Iterator[tuple[str, LifecycleHead, GovernedRecord]]:
    """Yield each variant with its head and the record that this names; some are read at a time, for there are many."""
    ordered = list(heads.items())
    for begin in range(0, len(ordered), _READ_AT_ONCE):
        part = ordered[begin : begin + _READ_AT_ONCE]
        found = reader.get_many({head.memory_id for _, head in part})
        for variant, head in part:
            record = found[head.memory_id].load() if head.memory_id in found else None
            if not isinstance(record, GovernedRecord):
                raise IntegrityError("memory record", head.memory_id, f"A head names it, but it is not stored. {_FSCK}")
            yield variant, head, record
