"""Reference sources: chunks cover the text that is there; indexes and contexts name what they were made of (8.5)."""

from __future__ import annotations

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.reference.guards import repeats
from records.canonical import digest_bytes
from records.errors import IntegrityError, NotFoundError
from records.reference import ReferenceChunks, ReferenceContext, ReferenceIndexBuild, ReferenceSource


def check_references(case: Case, chunk: Chunk) -> None:
    """Check the chunks, indexes and contexts of a stretch of journal."""
    sets = chunk.of(ReferenceChunks)
    sources = case.read((each.source_id for each in sets.values()), ReferenceSource)
    for key, each in sets.items():
        source = sources.get(str(each.source_id))
        if source is not None:  # a reference that leads nowhere is another check's finding
            _check_set(case, key, each, source)
    for key, build in chunk.of(ReferenceIndexBuild).items():
        _check_build(case, key, build)
    for key, context in chunk.of(ReferenceContext).items():
        stored = case.reader.get_many([name for card in context.cards for name in (card.source_id, card.chunks_id)])
        for card in context.cards:
            if not repeats(card, stored):
                case.findings.add(Code.REFERENCE_MISMATCH, key, f"its card of {card.chunk_id} is not that chunk's")


def _check_set(case: Case, key: str, chunks: ReferenceChunks, source: ReferenceSource) -> None:
    if chunks.chunks[-1].end_byte != source.text.size_bytes:
        case.findings.add(Code.REFERENCE_MISMATCH, key, f"it does not cover the text of {source.id}")
    if case.artifacts is None:
        return
    try:
        data = case.artifacts.read(source.text.sha256)
    except (NotFoundError, IntegrityError):
        return  # erased, or found where artifacts are checked
    for each in chunks.chunks:
        if digest_bytes(data[each.start_byte : each.end_byte]) != each.sha256:
            case.findings.add(Code.REFERENCE_MISMATCH, key, f"{each.chunk_id} is not what stands at its place")


def _check_build(case: Case, key: str, build: ReferenceIndexBuild) -> None:
    sets = case.read((member.chunks_id for member in build.members), ReferenceChunks)
    if len(sets) != len(build.members):
        return
    count = sum(part.quote_start < part.quote_end for each in sets.values() for part in each.chunks)
    if count != build.document_count:
        met = f"{build.document_count} documents of {count} chunks"
        case.findings.add(Code.REFERENCE_MISMATCH, key, met)
