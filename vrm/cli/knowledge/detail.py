"""Everything about one rule or procedure: where it came from, where it stands, what it rests on. Reads only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from records.errors import NotFoundError
from records.knowledge import (
    Candidate,
    DistillationDecision,
    GovernedRecord,
    LifecycleEvent,
    MemoryRelation,
)
from store.ledger.port import LedgerReader
from vrm.cli.knowledge import words
from vrm.cli.knowledge.entries import Entry, resolve
from vrm.cli.knowledge.evidence import Checked, LinkedPair, linked_pairs


@dataclass(frozen=True, kw_only=True)
class Related:
    """A relation as one of its two records sees it; `other` is None where the Ledger does not hold that record."""

    relation: MemoryRelation
    outgoing: bool
    other: GovernedRecord | None

    @property
    def other_id(self) -> str:
        """The id of the record at the other end."""
        return str(self.relation.target_memory_id if self.outgoing else self.relation.source_memory_id)

    def as_json(self) -> dict[str, Any]:
        """Return the relation as JSON values."""
        return {
            "relation": self.relation.relation.value,
            "direction": "to" if self.outgoing else "from",
            "memory_id": self.other_id,
            "claim": None if self.other is None else words.title(self.other),
            "event_id": str(self.relation.event_id),
            "policy": self.relation.policy.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Everything about one record; candidate and decision are None where an import left them out."""

    entry: Entry
    events: tuple[tuple[str, LifecycleEvent], ...]
    pairs: tuple[LinkedPair, ...]
    candidate: Candidate | None
    decision: DistillationDecision | None
    related: tuple[Related, ...]
    checked: Checked = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        name = words.metric_of(self.entry.record)
        return self.entry.as_json() | {
            "events": [{"id": key, "event": event.as_json()} for key, event in self.events],
            "candidate": None if self.candidate is None else _with_id(self.candidate),
            "decision": None if self.decision is None else _with_id(self.decision),
            "relations": [each.as_json() for each in self.related],
            "evidence": [pair.as_json(name, self.checked) for pair in self.pairs],
        }


def detail(reader: LedgerReader, prefix: str) -> Detail:
    """Return a rule or procedure by any unambiguous beginning of its id, with or without the noun.

    Raises:
        InvalidInputError: the id is of another kind.
        NotFoundError: no record begins so.
        AmbiguousIdError: several records begin so.
    """
    record_id = resolve(reader, prefix)
    stored = reader.get_many([record_id])[record_id].load()
    if not isinstance(stored, GovernedRecord):
        raise NotFoundError("id", prefix, "The record is neither rule nor procedure; run `vrm fsck`.")
    variant = str(stored.scope_variant_id)
    head = reader.variant_heads(stored.namespace, [variant]).get(variant)
    events = lifecycle_events(reader, stored.namespace, variant)
    disposition = next((e.disposition.value for _, e in reversed(events) if str(e.memory_id) == record_id), "none")
    current = head is not None and head.memory_id == record_id
    candidate = reader.get(stored.candidate_id)
    loaded = None if candidate is None else candidate.load()
    return Detail(
        entry=Entry(record=stored, disposition=disposition, current=current),
        events=events,
        pairs=linked_pairs(reader, stored),
        candidate=loaded if isinstance(loaded, Candidate) else None,
        decision=decision_about(reader, stored.namespace, str(stored.candidate_id)),
        related=_related(reader, stored),
    )


def lifecycle_events(reader: LedgerReader, namespace: str, variant: str) -> tuple[tuple[str, LifecycleEvent], ...]:
    """Return the events of a scope variant by id, in journal order."""
    stored = reader.find("knowledge-lifecycle-event", namespace, scope_variant_id=variant)
    loaded = ((item.id, item.load()) for item in stored)
    return tuple((key, event) for key, event in loaded if isinstance(event, LifecycleEvent))


def decision_about(reader: LedgerReader, namespace: str, candidate_id: str) -> DistillationDecision | None:
    """Return the one decision about a candidate."""
    for item in reader.find("distillation-decision", namespace, candidate_id=candidate_id):
        record = item.load()
        if isinstance(record, DistillationDecision):
            return record
    return None


def _related(reader: LedgerReader, record: GovernedRecord) -> tuple[Related, ...]:
    own = str(record.id)
    loaded = (item.load() for item in reader.find("memory-relation", record.namespace))
    mine = [
        each
        for each in loaded
        if isinstance(each, MemoryRelation) and own in {str(each.source_memory_id), str(each.target_memory_id)}
    ]
    ids = {str(part) for each in mine for part in (each.source_memory_id, each.target_memory_id)} - {own}
    others = {key: item.load() for key, item in reader.get_many(ids).items()}
    found = []
    for each in mine:
        outgoing = str(each.source_memory_id) == own
        other = others.get(str(each.target_memory_id if outgoing else each.source_memory_id))
        found.append(
            Related(relation=each, outgoing=outgoing, other=other if isinstance(other, GovernedRecord) else None)
        )
    return tuple(found)


def _with_id(record: Candidate | DistillationDecision) -> dict[str, Any]:
    return {"id": str(record.id), **record.as_json()}
