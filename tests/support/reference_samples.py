"""One record of each kind of the Source/Reference plane, and files of every form with known text."""

from __future__ import annotations

from typing import Any

from policies.references.policy import reference_policy
from records.base import Record
from records.ids import ReferenceChunksId, ReferenceIndexId, ReferenceSourceId
from records.reference import (
    ChunkUnit,
    IndexedSource,
    LicenceOrigin,
    ReferenceCard,
    ReferenceChunk,
    ReferenceChunks,
    ReferenceContext,
    ReferenceIndexBuild,
    ReferenceKind,
    ReferenceSource,
    SourceFacts,
    chunk_id,
)
from records.values import ArtifactRef
from tests.support.samples import by_noun
from tests.support.trials import NOW, digest

TEXT = "Ridge.\n"
TOKENIZER = "tiktoken/cl100k_base"


def facts(**changes: Any) -> SourceFacts:
    """Return what is said about a source."""
    given: dict[str, Any] = {
        "source_kind": ReferenceKind.PAPER, "uri": "papers/ridge.md", "title": "ridge.md", "version": None,
        "licence": "MIT", "licence_origin": LicenceOrigin.GIVEN, "access": None,
    }  # fmt: skip
    return SourceFacts(**(given | changes))


def artifact(role: str, data: str) -> ArtifactRef:
    """Return a reference to text."""
    return ArtifactRef(role=role, sha256=digest(data), size_bytes=len(data.encode()))


def make_source(namespace: str = "test", text: str = TEXT, **changes: Any) -> ReferenceSource:
    """Return a source of one text."""
    return ReferenceSource(
        namespace=namespace, created_at=NOW, facts=facts(**changes), content=artifact("reference-content", text),
        text=artifact("reference-text", text), reader="plain/1", encoding="utf-8",
    )  # fmt: skip


def make_chunks(source: ReferenceSource, text: str = TEXT) -> ReferenceChunks:
    """Return a text of ASCII as one chunk."""
    key, policy = ReferenceSourceId(source.id), reference_policy()
    part = ReferenceChunk(
        chunk_id=chunk_id(key, 0, len(text), digest(text)), start=0, end=len(text), start_byte=0, end_byte=len(text),
        quote_start=0, quote_end=len(text.rstrip()), unit=ChunkUnit.TEXT, unit_number=1, tokens=3, sha256=digest(text),
    )  # fmt: skip
    return ReferenceChunks(
        namespace=source.namespace, created_at=NOW, source_id=key, rule="vrm-chunks/1", policy=policy.identity,
        tokenizer=TOKENIZER, chunks=(part,),
    )  # fmt: skip


def make_build(source: ReferenceSource, chunks: ReferenceChunks) -> ReferenceIndexBuild:
    """Return the receipt of an index over one source."""
    member = IndexedSource(source_id=ReferenceSourceId(source.id), chunks_id=ReferenceChunksId(chunks.id))
    return ReferenceIndexBuild(
        namespace=source.namespace, created_at=NOW, identity="reference-index/1", identity_digest=digest("identity"),
        semantic=True, member_digest=digest("members"), vector_digest=digest("vectors"), document_count=1,
        members=(member,), artifact=artifact("reference-index", "index"), vectors=artifact("reference-vectors", "rows"),
    )  # fmt: skip


def make_reference_card(source: ReferenceSource, chunks: ReferenceChunks) -> ReferenceCard:
    """Return the card of the first chunk of a source."""
    part = chunks.chunks[0]
    names = ("chunk_id", "start", "end", "start_byte", "end_byte", "quote_start", "quote_end", "unit", "unit_number")
    return ReferenceCard(
        namespace=source.namespace, source_id=ReferenceSourceId(source.id), source_digest=source.payload_digest,
        chunks_id=ReferenceChunksId(chunks.id), facts=source.facts, retrieved_at=source.created_at,
        content_digest=source.content.sha256, quote_digest=digest(TEXT.rstrip()),
        **{name: getattr(part, name) for name in names},
    )  # fmt: skip


def make_reference_context(build: ReferenceIndexBuild, *cards: ReferenceCard) -> ReferenceContext:
    """Return a context of some cards."""
    return ReferenceContext(
        namespace=build.namespace, created_at=NOW, research_context_digest=digest("research context"),
        index_build_id=ReferenceIndexId(build.id), index_digest=build.payload_digest, query_digest=digest("ridge"),
        policy=reference_policy().identity, renderer="vrm-references/1", tokenizer=TOKENIZER, cards=cards,
        rendered=artifact("reference-context", "section"), token_count=90, dropped=0,
    )  # fmt: skip


def reference_samples(namespace: str = "test") -> dict[str, Record]:
    """Return a source, its chunks, their index and a context, by noun and in the order in which they are appended."""
    source = make_source(namespace)
    chunks = make_chunks(source)
    build = make_build(source, chunks)
    context = make_reference_context(build, make_reference_card(source, chunks))
    return by_noun(source, chunks, build, context)


def make_pdf(*pages: str, encrypted: bool = False) -> bytes:
    """Return a PDF with one line of text a page, written out object by object (ISO 32000-1, 7.5)."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    resources = "/Resources << /Font << /F1 3 0 R >> >>"
    for number, page in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET" if page else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {resources} /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    lock = "/Encrypt << /Filter /Standard /V 1 /R 2 /O (x) /U (x) /P -4 >> /ID [(x) (x)] " if encrypted else ""
    trailer = f"<< /Size {len(objects) + 1} {lock}/Root 1 0 R >>"
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(data)}\n%%EOF\n"
    return data + end.encode()
