"""What a card must be inside the Ledger transaction: the exact member of the queried snapshot (spec 9.6, VRM-R06, L04).

Rules kept here: a memory card is a member of the Knowledge Snapshot of the Recall Input; an episodic one is a member of
its Evidence Snapshot, and of the decision's own Run, arm and pair; both are exactly what the builder of cards makes of
the bytes that the Ledger has; id and citation follow from content and place. The members of a Knowledge Snapshot are
read once a process: there may be a million, and its id follows from all that is asked of it here. That this Ledger has
it, the foreign key of its Recall Input says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory.evidence import resolve_bundles
from memory.guard_rules import Rules, held, read
from memory.recall.cards import Queried
from policies.episodes import Episode
from records.appends import StoredRecord
from records.cards import EpisodicCard, ProcedureCard
from records.decisions import Card, ContextItem, DecisionIntent, EvidenceCard, RecallContext, citation_id
from records.evidence import Attempt, Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId, KnowledgeSnapshotId, MemoryId, RunId
from records.ingestion import EvidenceSnapshot
from records.knowledge import MemoryRecord
from records.models import noun_of
from records.procedures import ProcedureRecord
from records.snapshots import KnowledgeMember, KnowledgeSnapshot, RecallInput
from store.ledger.port import LedgerReader
from store.recent import Recent

_OTHERWISE: Final = "the card says something else than its record"


def source_of(card: Card) -> MemoryId | ExperienceId:
    """Return the id of the record that a card was made from."""
    return card.experience_id if isinstance(card, EpisodicCard) else card.memory_id


def card_rules(reader: LedgerReader, context: RecallContext, stored: Mapping[str, StoredRecord]) -> Rules:
    """Say what the cards of a context must be; `stored` holds its intent, its Recall Input and the cards' sources."""
    if not context.items:
        return
    queried = held(stored, context.recall_input_id, RecallInput)
    snapshot = None if queried is None else _membership(reader, queried.knowledge_snapshot_id)
    yield snapshot is not None and snapshot.namespace == context.namespace, "the snapshot is not of this namespace"
    intent = held(stored, context.intent_id, DecisionIntent)
    episodes: EvidenceSnapshot | None = None
    if queried is not None and any(isinstance(item.card, EpisodicCard) for item in context.items):
        named = queried.evidence_snapshot_id
        episodes = None if named is None else read(reader, named, EvidenceSnapshot)
        yield from _own_snapshot(episodes, intent)
    shown = Queried({} if snapshot is None else snapshot.members, 0 if snapshot is None else snapshot.as_of, episodes)
    for item in context.items:
        cited = citation_id(context.intent_id, context.recall_input_id, item.card.card_id, item.ordinal)
        own = (item.card_id, item.memory_id, item.citation_id) == (item.card.card_id, item.card.memory_id, cited)
        yield own, "card and citation do not follow from their content"
        if isinstance(item.card, EpisodicCard):
            yield from _episodic_rules(reader, item, item.card, shown, stored)
            yield from _own_rules(item.card, intent)
        else:
            yield from _memory_rules(item.card, shown, stored)


@dataclass(frozen=True)
class _Membership:
    """What is asked of a Knowledge Snapshot: its namespace, its lifecycle position, and its members by memory id."""

    namespace: str
    as_of: int
    members: Mapping[MemoryId, KnowledgeMember]


_READ: Final = Recent[str, _Membership](4)


def _membership(reader: LedgerReader, snapshot_id: KnowledgeSnapshotId) -> _Membership | None:
    if snapshot_id not in _READ:
        snapshot = read(reader, snapshot_id, KnowledgeSnapshot)
        if snapshot is None:
            return None
        members = {member.memory_id: member for member in snapshot.members}
        _READ.put(snapshot_id, _Membership(snapshot.namespace, snapshot.lifecycle_position, members))
    return _READ[snapshot_id]


def own_members(reader: LedgerReader, snapshot: EvidenceSnapshot) -> Rules:
    """Say what the members of an episodic snapshot must be: of the Run, arm and pair that it is for (VRM-L04)."""
    if noun_of(snapshot.visibility) != RunId.noun:
        return
    own = (snapshot.visibility, snapshot.arm, snapshot.pair)
    stored = reader.get_many(member.experience_id for member in snapshot.members)
    experiences = [held(stored, member.experience_id, Experience) for member in snapshot.members]
    attempts = reader.get_many(each.attempt_id for each in experiences if each is not None)
    for each in experiences:
        attempt = None if each is None else held(attempts, each.attempt_id, Attempt)
        met = None if attempt is None else (attempt.run_id, attempt.arm, attempt.pair)
        yield met == own, "a member of the snapshot is of another Run, arm or pair"


def _memory_rules(card: EvidenceCard | ProcedureCard, shown: Queried, stored: Mapping[str, StoredRecord]) -> Rules:
    member = shown.members.get(card.memory_id)
    head = None if member is None else (member.event_id, member.disposition, member.scope_variant_id)
    yield head == (card.event_id, card.disposition, card.scope_variant_id), "the card is not of a snapshot member"
    model = ProcedureRecord if isinstance(card, ProcedureCard) else MemoryRecord
    record = held(stored, card.memory_id, model)
    same = record is not None and record.payload_digest == card.memory_digest
    yield same, "the card was made from other bytes than its record has"
    source = record if isinstance(record, MemoryRecord | ProcedureRecord) else None
    yield source is not None and shown.makes(card, source), _OTHERWISE


def _episodic_rules(
    reader: LedgerReader, item: ContextItem, card: EpisodicCard, shown: Queried, stored: Mapping[str, StoredRecord]
) -> Rules:
    snapshot = shown.episodes
    yield snapshot is not None and snapshot.id == card.evidence_snapshot_id, "the card is of another evidence snapshot"
    members = {member.experience_id: member.bundle_digest for member in snapshot.members} if snapshot else {}
    yield members.get(card.experience_id) == card.bundle_digest, "the card is not of a snapshot member"
    position = None if snapshot is None else snapshot.evidence_position
    yield position == card.evidence_position, "the card is as of another position"
    record = held(stored, card.experience_id, Experience)
    same = record is not None and record.payload_digest == card.experience_digest
    yield same, "the card was made from other bytes than its record has"
    verified = None if record is None else record.verification_id
    yield verified == card.verification_id, f"card {item.ordinal} names another verification than its experience"
    bundle = None if record is None else resolve_bundles(reader, [record]).get(ExperienceId(record.id))
    yield isinstance(bundle, VerifiedEvidenceBundle) and shown.makes(card, Episode(bundle)), _OTHERWISE


def _own_snapshot(snapshot: EvidenceSnapshot | None, intent: DecisionIntent | None) -> Rules:
    """Say whose episodes were queried: what a card claims of itself proves nothing (VRM-L04, O03)."""
    own = None if intent is None else (intent.run_id, intent.arm, intent.pair)
    met = None if snapshot is None else (snapshot.visibility, snapshot.arm, snapshot.pair)
    yield met is not None and met == own, "queried episodes are shown to their own Run, arm and pair alone"


def _own_rules(card: EpisodicCard, intent: DecisionIntent | None) -> Rules:
    own = None if intent is None else (intent.run_id, intent.arm, intent.pair)
    yield own == (card.run_id, card.arm, card.pair), "an episode is shown to its own Run, arm and pair alone"
