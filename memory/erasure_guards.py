"""What must hold inside the Ledger transaction when an erasure begins and when it ends (spec 4.15, 15).

Rules kept here:

- the target is stored with the digest that the intent binds; an artifact is named by its own digest;
- the erasure of a memory record ends the record's lifecycle in the same append, or names the event that did before;
- the affected set holds every index build that rests on the target, each with the digest of its receipt, and the bytes
  of every reference index, Reference Context and prompt section that hold something of it, and of every malformed
  answer to such a section;
- a tombstone closes the open intent of its own incident, repeats it, and acknowledges exactly what was affected.

That one target has one erasure, and one intent one tombstone, is kept by the tables.
"""

from __future__ import annotations

from memory.guard_rules import Rules, first_broken, of, precondition, read, rejected
from memory.material import material_of
from memory.retention import affected_indexes, affected_references, affected_sections
from records.appends import Append
from records.base import Record
from records.knowledge import EventType, LifecycleEvent
from records.models import noun_of
from records.retention import ErasureIntent, RetentionTombstone, TargetKind
from store.ledger.port import LedgerReader, Refusal


def guard_begin(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse an intent whose target, retraction or affected set is not what the Ledger holds."""
    intents, events = list(of(append, ErasureIntent)), list(of(append, LifecycleEvent))
    if len(intents) != 1:
        return rejected("an erasure begins with one intent")
    return first_broken(_begins(reader, intents[0], events), precondition)


def guard_close(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a tombstone that is not the end of its own erasure."""
    tombstones = list(of(append, RetentionTombstone))
    if len(tombstones) != 1:
        return rejected("an erasure ends with one tombstone")
    return first_broken(_closes(reader, tombstones[0]), precondition)


def _begins(reader: LedgerReader, intent: ErasureIntent, events: list[LifecycleEvent]) -> Rules:
    if intent.target_kind is TargetKind.ARTIFACT:
        yield intent.target_id == intent.target_digest, "an artifact is named by its digest"
    else:
        target = read(reader, intent.target_id, Record)
        here = target is not None and target.namespace == intent.namespace
        yield here and noun_of(intent.target_id) == intent.target_kind, "the target is not in the Ledger"
        yield target is not None and target.payload_digest == intent.target_digest, "the target has another digest"
    yield (
        not reader.find("retention-erasure-intent", intent.namespace, target_id=intent.target_id),
        ("the target's erasure has begun already; finish that incident"),
    )
    yield from _retracts(reader, intent, events)
    listed = {str(part.index_build_id): part.digest for part in intent.affected_indexes}
    builds = {str(build.id): build for build in affected_indexes(reader, intent.namespace, intent.target_id)}
    yield builds.keys() <= listed.keys(), "an index build that rests on the target is not listed as affected"
    stored = reader.get_many(listed)
    digests = {key: item.load().payload_digest for key, item in stored.items()}
    yield digests == listed, "an affected index build is not in the Ledger, or has another digest"
    derived = affected_references(reader, intent.namespace, intent.target_id)
    made = {digest for each in derived for digest in material_of(each)}
    listed_bytes = {part.sha256 for part in intent.affected_artifacts}
    yield made <= listed_bytes, "bytes made of the reference source are not listed as affected"
    sections = affected_sections(reader, intent.namespace, intent.target_id)
    told = "a prompt section that shows something of it, or a malformed answer to one, is not listed as affected"
    yield listed_bytes.issuperset(sections), told


def _retracts(reader: LedgerReader, intent: ErasureIntent, events: list[LifecycleEvent]) -> Rules:
    if intent.retraction_event_id is None:
        yield not events, "what has no lifecycle is not retracted"
        return
    here = {str(event.id): event for event in events}
    yield here.keys() <= {str(intent.retraction_event_id)}, "the intent names another retraction"
    event = here.get(intent.retraction_event_id) or read(reader, intent.retraction_event_id, LifecycleEvent)
    ends = event is not None and event.event_type is EventType.RETRACTED and event.memory_id == intent.target_id
    yield ends, "the target is not retracted"


def _closes(reader: LedgerReader, tombstone: RetentionTombstone) -> Rules:
    intent = read(reader, tombstone.intent_id, ErasureIntent)
    yield intent is not None and intent.namespace == tombstone.namespace, "the intent is not in the Ledger"
    if intent is None:
        return
    yield (
        not reader.find("memory-retention-tombstone", tombstone.namespace, intent_id=str(intent.id)),
        ("the erasure is closed already"),
    )
    for name in ("incident", "target_kind", "target_id", "target_digest", "reason", "retraction_event_id"):
        yield getattr(tombstone, name) == getattr(intent, name), f"the intent has another {name}"
    acknowledged = sorted(part.affected for part in tombstone.acknowledgements)
    yield acknowledged == sorted(intent.affected), "acknowledged is not exactly what was affected"
