"""The Source/Reference plane: what external sources say, apart from what was experienced (spec 5, 8.5, 15).

Rules kept here:

- nothing here is evidence: no kind advances a frontier, and no record of another plane has a field that takes an id of
  these nouns. So a source is a member of no snapshot of evidence or knowledge, and supports no rule;
- records hold digests, offsets and metadata, never text of a source: its bytes are artifacts, which an erasure reaches;
- the time of a source is when it was retrieved, as its file or its user says, and part of no identity;
- a licence that nobody stated is null, and says so; it is never guessed;
- offsets count characters of the source's text, and bytes of that text in UTF-8. The chunks of a source follow each
  other without gap or overlap, and the quotation of a chunk lies within it.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from records.base import Child, Kind, Record
from records.fields import Digest, Name, Namespace, Text, Timestamp
from records.ids import (
    ReferenceCardId,
    ReferenceChunkId,
    ReferenceChunksId,
    ReferenceIndexId,
    ReferenceSourceId,
)
from records.models import Model, once
from records.values import ArtifactRef, Count, PolicyIdentity

Label = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]
"""A short text that somebody gave: a title, an address, a version, a licence."""


class ReferenceKind(StrEnum):
    """What sort of source it is."""

    PAPER = "paper"
    CODE = "code"
    DATASET = "dataset"
    TOOL = "tool"


class LicenceOrigin(StrEnum):
    """Who stated the licence: whoever added the source, the source itself by an SPDX tag, or nobody."""

    GIVEN = "given"
    STATED = "stated"
    UNKNOWN = "unknown"


class SourceFacts(Model):
    """What a source and each of its cards say about it.

    Attributes:
        uri: its address or path, as it was given.
        version: as it was given; null where nobody gave one. Contents are told apart by their digest.
        licence: an SPDX expression or other words for it; null is unknown.
        access: the terms of access, as they were given; null is unknown.
    """

    source_kind: ReferenceKind
    uri: Label
    title: Label
    version: Label | None
    licence: Label | None
    licence_origin: LicenceOrigin
    access: Label | None

    @model_validator(mode="after")
    def _nobody_guessed(self) -> Self:
        if (self.licence is None) != (self.licence_origin is LicenceOrigin.UNKNOWN):
            raise ValueError("a licence is unknown exactly if nobody stated it")
        return self


class ReferenceSource(Record, kind=Kind(noun="reference-source", table="reference_sources")):
    """One content of one source, with its metadata; another content at the same address is another record.

    `created_at` is the time of retrieval. `content` are the bytes as they were read, `text` is what was read out of
    them by `reader`; for a file of plain text both are the same bytes.
    """

    facts: SourceFacts
    content: ArtifactRef
    text: ArtifactRef
    reader: Label
    encoding: Name

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The digests of its bytes, each once."""
        return tuple(dict.fromkeys((self.content.sha256, self.text.sha256)))


class ChunkUnit(StrEnum):
    """The part of a source's structure that a chunk begins in."""

    SECTION = "section"
    DEFINITION = "definition"
    CELL = "cell"
    PAGE = "page"
    TEXT = "text"


class ReferenceChunk(Model):
    """A stretch of a source's text.

    Attributes:
        start: first character of the stretch; `end` is the one after the last.
        start_byte: the same in bytes of the text in UTF-8.
        quote_start: first character of the quotation, which is the stretch without the space around it.
        unit: the part of the source that it begins in, `unit_number` counts those from one.
        tokens: of the stretch, by the tokenizer of its set.
        sha256: digest of the stretch in UTF-8.
    """

    chunk_id: ReferenceChunkId
    start: Count
    end: Count
    start_byte: Count
    end_byte: Count
    quote_start: Count
    quote_end: Count
    unit: ChunkUnit
    unit_number: Annotated[int, Field(ge=1, le=2**53 - 1)]
    tokens: Count
    sha256: Digest

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.start < self.end or not self.start_byte < self.end_byte:
            raise ValueError("a chunk holds at least one character")
        if not self.start <= self.quote_start <= self.quote_end <= self.end:
            raise ValueError("a quotation lies within its chunk")
        return self


def chunk_id(source_id: ReferenceSourceId, start: int, end: int, sha256: str) -> ReferenceChunkId:
    """Return the id of a stretch of a source's text."""
    return ReferenceChunkId.derive({"source_id": source_id, "start": start, "end": end, "sha256": sha256})


class ReferenceChunks(
    Record,
    kind=Kind(
        noun="reference-chunks",
        table="reference_chunk_sets",
        children=(
            Child(path="chunks", table="reference_chunks", columns=("chunk_id", "sha256"), unique=("chunk_id",)),
        ),
    ),
):
    """All chunks of a source by one rule, under one policy and tokenizer."""

    source_id: ReferenceSourceId
    rule: Name
    policy: PolicyIdentity
    tokenizer: Name
    chunks: Annotated[tuple[ReferenceChunk, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _cover_the_text(self) -> Self:
        first = self.chunks[0]
        if (first.start, first.start_byte) != (0, 0):
            raise ValueError("the first chunk begins with the text")
        for before, after in pairwise(self.chunks):
            if (before.end, before.end_byte) != (after.start, after.start_byte):
                raise ValueError("chunks follow each other without gap or overlap")
        for each in self.chunks:
            if each.chunk_id != chunk_id(self.source_id, each.start, each.end, each.sha256):
                raise ValueError("the id of a chunk follows from its source, place and text")
        return self


class IndexedSource(Model):
    """A source with the chunks of it that are indexed."""

    source_id: ReferenceSourceId
    chunks_id: ReferenceChunksId


class ReferenceIndexBuild(
    Record,
    kind=Kind(
        noun="reference-index-build",
        table="reference_index_builds",
        children=(
            Child(
                path="members",
                table="reference_index_members",
                columns=("source_id", "chunks_id"),
                unique=("source_id",),
            ),
        ),
    ),
):
    """The receipt of an index over chunks: its members, its identity and the artifacts that hold it.

    `vectors` are the exact vectors of its documents, from which the next build takes those that it has already.
    """

    identity: Name
    identity_digest: Digest
    semantic: bool
    member_digest: Digest
    vector_digest: Digest
    document_count: Count
    members: tuple[IndexedSource, ...]
    artifact: ArtifactRef
    vectors: ArtifactRef


class ReferenceCard(Model):
    """A quotation of a source, by digest and place; never an Evidence Card, and never support.

    Attributes:
        source_digest: digest of the source's record.
        retrieved_at: when the source was retrieved.
        content_digest: digest of its bytes.
        quote_start: first character of the quotation in the source's text; `quote_digest` is its digest in UTF-8.
    """

    namespace: Namespace
    source_id: ReferenceSourceId
    source_digest: Digest
    chunks_id: ReferenceChunksId
    chunk_id: ReferenceChunkId
    facts: SourceFacts
    retrieved_at: Timestamp
    content_digest: Digest
    start: Count
    end: Count
    start_byte: Count
    end_byte: Count
    quote_start: Count
    quote_end: Count
    unit: ChunkUnit
    unit_number: Count
    quote_digest: Digest

    @once
    def card_id(self) -> ReferenceCardId:
        """The content id of the card."""
        return ReferenceCardId.derive(self.as_json())


class ReferenceContext(
    Record,
    kind=Kind(
        noun="reference-context",
        table="reference_contexts",
        columns=("research_context_digest",),
        children=(
            Child(
                path="cards",
                table="reference_context_cards",
                columns=("source_id", "chunks_id", "chunk_id"),
                unique=("chunk_id",),
            ),
        ),
    ),
):
    """The bounded set of Reference Cards for one Research Context, as they were rendered.

    Attributes:
        research_context_digest: the Research Context that it stands beside.
        index_build_id: the index that was searched, with the digest of its receipt.
        query_digest: digest of the words that were searched for.
        rendered: the section; its bytes hold the quotations.
        token_count: of the whole section.
        dropped: cards that were found and did not fit.
    """

    research_context_digest: Digest
    index_build_id: ReferenceIndexId
    index_digest: Digest
    query_digest: Digest
    policy: PolicyIdentity
    renderer: Name
    tokenizer: Name
    cards: tuple[ReferenceCard, ...]
    rendered: ArtifactRef
    token_count: Count
    dropped: Count

    @model_validator(mode="after")
    def _of_one_namespace(self) -> Self:
        if any(card.namespace != self.namespace for card in self.cards):
            raise ValueError("a card is of the namespace of its context")
        return self
