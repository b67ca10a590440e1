"""Memory records to Evidence Cards (spec 9.6, VRM-R04, R06).

A card names the exact member of the Knowledge Snapshot: record and digest, family, scope variant, event, disposition
and as-of position; and all evidence for and against the rule, so counter-evidence is never on another card.
"""

from __future__ import annotations

from records.decisions import EvidenceCard
from records.ids import ExperienceId, MemoryId
from records.knowledge import LinkRelation, MemoryRecord
from records.snapshots import KnowledgeMember

_BOUND = (
    ("evaluation_task_id", "task"),
    ("dataset_digest", "dataset"),
    ("source_digest", "source"),
    ("model_family", "model family"),
    ("environment_digest", "environment"),
)


def make_card(record: MemoryRecord, member: KnowledgeMember, as_of: int, renderer: str) -> EvidenceCard:
    """Return the card of a record as the snapshot's member that it is, at lifecycle position `as_of`."""
    return EvidenceCard(
        namespace=record.namespace,
        memory_id=MemoryId(record.id),
        memory_digest=record.payload_digest,
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_id=member.event_id,
        disposition=member.disposition,
        as_of_position=as_of,
        claim=record.claim,
        applicability=applicability(record),
        action=record.action,
        target=record.target,
        mechanism=record.mechanism,
        effect=record.effect,
        strength=record.strength,
        supporting=_linked(record, LinkRelation.SUPPORTS),
        contradicting=_linked(record, LinkRelation.CONTRADICTS),
        renderer=renderer,
    )


def applicability(record: MemoryRecord) -> str:
    """Return where a rule applies, in words: its scope, what it is bound to, and what it leaves open."""
    scope = record.scope.as_json()
    bound = [label for name, label in _BOUND if scope[name] is not None]
    free = [label for name, label in _BOUND if scope[name] is None]
    parts = [f"{record.scope_description}; {scope['domain']}, budget {scope['budget_class']}, same contract"]
    parts += [f"only this {', '.join(bound)}"] if bound else []
    parts += [f"any {', '.join(free)}"] if free else []
    return "; ".join(parts)


def _linked(record: MemoryRecord, relation: LinkRelation) -> tuple[ExperienceId, ...]:
    return tuple(sorted({link.experience_id for link in record.links if link.relation is relation}))
