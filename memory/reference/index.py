"""The search index over the chunks of a namespace's sources, and its receipt (spec 8.5, 14).

Rules kept here:

- members are the sources that count at one moment, each with its newest chunks; a denied source is never read;
- the same sources and embedder give the same bytes and the same receipt, whatever was built before: vectors that an
  earlier build has are only taken where embedder and text are the same, and a text has one vector;
- hash vectors are refused unless a test says that it wants them, and then the receipt says so (VRM-O02).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from memory.index.artifact import IndexArtifact, IndexDocument, build_index
from memory.index.embedding import NON_SEMANTIC, Embedder, require_semantic
from memory.index.framing import pack, unpack
from memory.index.known import KnownEmbedder, Vector
from memory.reference.catalogue import StoredSource
from records.canonical import digest_bytes, domain_digest
from records.errors import IntegrityError, NotFoundError
from records.ids import ReferenceChunksId, ReferenceSourceId
from records.reference import IndexedSource, ReferenceIndexBuild
from records.values import ArtifactRef
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

REFERENCE_INDEX: Final = "reference-index/1"
_FORMAT: Final = "reference-vectors/1"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index with its receipt; neither is published or appended yet."""

    build: ReferenceIndexBuild
    data: bytes
    vectors: bytes


def members_of(sources: Sequence[StoredSource]) -> tuple[IndexedSource, ...]:
    """Return the members of the index of these sources, sorted by source."""
    made = [
        IndexedSource(source_id=ReferenceSourceId(each.source.id), chunks_id=ReferenceChunksId(each.chunks.id))
        for each in sources
    ]
    return tuple(sorted(made, key=lambda member: member.source_id))


def documents_of(sources: Sequence[StoredSource], artifacts: ArtifactStore) -> list[IndexDocument]:
    """Return the quotations of the sources' chunks; a chunk of space alone has none.

    Raises:
        NotFoundError: the bytes of a source are missing, or were erased.
        IntegrityError: they are not what its chunks were made of.
    """
    made = []
    for each in sources:
        text = each.text(artifacts)
        for part in each.chunks.chunks:
            if digest_bytes(text[part.start : part.end].encode()) != part.sha256:
                raise IntegrityError("reference chunk", part.chunk_id, "Its text has another digest; run fsck.")
            if part.quote_start < part.quote_end:
                made.append(IndexDocument(str(part.chunk_id), text[part.quote_start : part.quote_end]))
    return made


def build_references(
    namespace: str,
    sources: Sequence[StoredSource],
    artifacts: ArtifactStore,
    embedder: Embedder,
    *,
    known: Mapping[str, Vector] | None = None,
    test_index: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> BuiltIndex:
    """Return the index of sources, which must all count.

    Args:
        namespace: of the sources.
        sources: what is indexed; at least one.
        artifacts: where their bytes are.
        embedder: turns quotations into vectors.
        known: vectors by the digest of their text that this embedder has made before.
        test_index: allow vectors without meaning; for tests only.
        progress: told how many chunks are embedded.

    Raises:
        InvalidInputError: the embedder has no meaning and `test_index` is not set.
        NotFoundError: the bytes of a source are missing.
        IntegrityError: they were changed.
        UnavailableError: the embedder cannot be used.
    """
    if not test_index:
        require_semantic(embedder.id)
    knowing = KnownEmbedder(embedder, known or {}, lambda done, total: progress("chunks embedded", done, total))
    documents = documents_of(sources, artifacts)
    search = build_index(documents, knowing)
    vectors = pack_vectors(search, knowing.vectors)
    build = ReferenceIndexBuild(
        namespace=namespace,
        created_at=max(each.source.created_at for each in sources),
        identity=REFERENCE_INDEX,
        identity_digest=identity_digest(search),
        semantic=not embedder.id.startswith(NON_SEMANTIC),
        member_digest=search.members_digest,
        vector_digest=search.vector_digest,
        document_count=len(documents),
        members=members_of(sources),
        artifact=ArtifactRef(role="reference-index", sha256=search.digest, size_bytes=len(search.data)),
        vectors=ArtifactRef(role="reference-vectors", sha256=digest_bytes(vectors), size_bytes=len(vectors)),
    )
    return BuiltIndex(build, search.data, vectors)


def identity_digest(search: IndexArtifact) -> str:
    """Return the digest of everything besides the documents that decides a reference index."""
    return domain_digest("reference-index-identity", [REFERENCE_INDEX, search.identity.model_dump()])


def pack_vectors(search: IndexArtifact, vectors: Mapping[str, Vector]) -> bytes:
    """Return the vectors of an index by the digest of their text as an artifact.

    It names the members of the index, so that no other index has the same bytes: an erasure takes them by their digest.
    """
    names = sorted(vectors)
    matrix = np.array([vectors[name] for name in names], dtype="<f4").reshape(len(names), search.identity.dimensions)
    meta = {
        "format": _FORMAT,
        "embedder_id": search.identity.embedder_id,
        "members": search.members_digest,
        "texts": names,
    }
    return pack(meta, {"vectors": matrix.view("<i4")})


def known_vectors(
    reader: LedgerReader, artifacts: ArtifactStore, namespace: str, embedder: Embedder
) -> dict[str, Vector]:
    """Return the vectors that the newest build of a namespace has for an embedder; none where they cannot be read."""
    stored = reader.find(ReferenceIndexBuild.kind.noun, namespace)
    build = stored[-1].load() if stored else None
    if not isinstance(build, ReferenceIndexBuild):
        return {}
    try:
        frame = unpack(artifacts.read(build.vectors.sha256))
    except (NotFoundError, IntegrityError):  # erased, or damaged: then they are made again
        return {}
    if (frame.meta.get("format"), frame.meta.get("embedder_id")) != (_FORMAT, embedder.id):
        return {}
    return dict(zip(frame.meta["texts"], frame.parts["vectors"].view("<f4"), strict=True))
