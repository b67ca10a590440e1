"""What must hold inside the Ledger transaction when sources, their index or a Reference Context are appended.

Rules kept here: chunks cover the whole text of the source that they are of; an index and a context name sets of chunks
of the very sources that they name; a card repeats its source and its chunk; nothing rests on what retention denies.
"""

from __future__ import annotations

from memory.guard_rules import Rules, first_broken, held, of, precondition
from memory.retention import revoked
from records.appends import Append, StoredRecord
from records.reference import (
    ReferenceCard,
    ReferenceChunks,
    ReferenceContext,
    ReferenceIndexBuild,
    ReferenceSource,
)
from store.ledger.port import LedgerReader, Refusal

_REPEATED = ("start", "end", "start_byte", "end_byte", "quote_start", "quote_end", "unit", "unit_number")


def guard_references(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse reference records that do not fit each other, or rest on what retention denies."""
    check = revoked(reader, append)
    if check is not None:
        return precondition(f"retention denies {check.blocked[0].target_id}")
    return (
        first_broken(_sets(reader, append), precondition)
        or first_broken(_builds(reader, append), precondition)
        or first_broken(_contexts(reader, append), precondition)
    )


def _sets(reader: LedgerReader, append: Append) -> Rules:
    here = {str(source.id): source for source in of(append, ReferenceSource)}
    for each in of(append, ReferenceChunks):
        source = here.get(each.source_id) or held(reader.get_many([each.source_id]), each.source_id, ReferenceSource)
        yield source is not None, "the source of the chunks is not there"
        covered = source is not None and each.chunks[-1].end_byte == source.text.size_bytes
        yield covered, "the chunks do not cover the text of their source"


def _builds(reader: LedgerReader, append: Append) -> Rules:
    for build in of(append, ReferenceIndexBuild):
        stored = reader.get_many([member.chunks_id for member in build.members])
        for member in build.members:
            chunks = held(stored, member.chunks_id, ReferenceChunks)
            fits = chunks is not None and chunks.source_id == member.source_id
            yield fits, "a member of the index has chunks of another source"


def _contexts(reader: LedgerReader, append: Append) -> Rules:
    for context in of(append, ReferenceContext):
        named = [name for card in context.cards for name in (card.source_id, card.chunks_id)]
        stored = reader.get_many([*named, context.index_build_id])
        build = held(stored, context.index_build_id, ReferenceIndexBuild)
        yield build is not None and build.payload_digest == context.index_digest, "the index is not in the Ledger"
        indexed = {(each.source_id, each.chunks_id) for each in build.members} if build is not None else set()
        for card in context.cards:
            yield (card.source_id, card.chunks_id) in indexed, "a card is of a source that was not searched"
            yield repeats(card, stored), "a card does not repeat its source and its chunk"


def repeats(card: ReferenceCard, stored: dict[str, StoredRecord]) -> bool:
    """Tell whether a card says what its source and its chunk say."""
    source = held(stored, card.source_id, ReferenceSource)
    chunks = held(stored, card.chunks_id, ReferenceChunks)
    if source is None or chunks is None or chunks.source_id != card.source_id:
        return False
    part = next((each for each in chunks.chunks if each.chunk_id == card.chunk_id), None)
    own = (source.payload_digest, source.facts, source.created_at, source.content.sha256)
    told = (card.source_digest, card.facts, card.retrieved_at, card.content_digest)
    return part is not None and own == told and all(getattr(part, name) == getattr(card, name) for name in _REPEATED)
