"""Chunks found, as Reference Cards with their quotations (spec 8.5).

Rules kept here:

- what retention denies at this moment is left out before any text is read;
- search is exact: words by BM25 and meaning by the pinned model, joined by reciprocal rank; equal places are ordered by
  id. The same sources and words give the same cards in the same order;
- what is near in neither way is not found: a chunk reaches the policy's cosine, or holds its share of the words. Where
  none does the answer is an explicit nothing, and not the least far away;
- the index is the one whose receipt names exactly the sources that count now. Where there is none, or its bytes are
  missing or damaged, it is built again in memory; no record is changed (spec 15);
- a namespace sees its own sources alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memory.index.artifact import LoadedIndex
from memory.index.embedding import Embedder
from memory.index.fusion import FusedHit, fuse
from memory.index.lexical import TERM_RULES
from memory.index.ranking import SCORE_BITS
from memory.reference.catalogue import StoredSource, stored_sources
from memory.reference.index import Progress, build_references, known_vectors, members_of
from policies.references.policy import ReferencePolicy
from policies.references.rendering import QuotedCard
from records.canonical import digest_bytes
from records.errors import IntegrityError, InvalidInputError, NotFoundError
from records.ids import ReferenceChunksId, ReferenceSourceId
from records.reference import ReferenceCard, ReferenceChunk, ReferenceIndexBuild, ReferenceKind
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger

_ADD: Final = "Add some: `vrm reference add FILE`."


class ReferenceStatus(StrEnum):
    """What a search came to; `EMPTY` is an answer: nothing that counts is near enough."""

    FOUND = "found"
    EMPTY = "empty"

    @classmethod
    def of(cls, found: Sized) -> ReferenceStatus:
        """Return the status of what was found."""
        return cls.FOUND if len(found) else cls.EMPTY


@dataclass(frozen=True, slots=True)
class ReferenceHit:
    """A found chunk: its card with the quotation, and its rank in each list that holds it, from one."""

    quote: QuotedCard
    ranks: tuple[tuple[str, int], ...]
    stored: StoredSource


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """The sources of a namespace at one moment, ready to be searched; immutable.

    Attributes:
        build: the receipt of the index; `is_recorded` tells whether the Ledger holds it.
        places: the indexed chunks by id, each with its source.
    """

    namespace: str
    build: ReferenceIndexBuild
    is_recorded: bool
    index: LoadedIndex
    places: dict[str, tuple[StoredSource, ReferenceChunk]]
    artifacts: ArtifactStore
    embedder: Embedder
    policy: ReferencePolicy

    def search(self, text: str, limit: int, kinds: Collection[ReferenceKind] = ()) -> list[ReferenceHit]:
        """Return the best chunks for some words, best first; none where none is near enough.

        Args:
            text: the words.
            limit: at most so many.
            kinds: only sources of these kinds; none for all.

        Raises:
            InvalidInputError: there are no words, or the limit is below one.
            NotFoundError: the bytes of a source are missing.
            IntegrityError: they were changed.
            UnavailableError: the model cannot be used.
        """
        if not text.strip():
            raise InvalidInputError("text", text, "Say what to look for.")
        if limit < 1:
            raise InvalidInputError("limit", limit, "Ask for at least one.")
        rows = self.index.rows(
            key for key, (held, _) in self.places.items() if not kinds or held.source.facts.source_kind in kinds
        )
        depth = max(limit, self.policy.search.candidates)
        vector = self.embedder.embed([text], kind="query")[0]
        meant = self.index.semantic(vector, rows, limit=depth)
        lists = {
            "words": [hit.id for hit in self.index.lexical(text, rows, limit=depth)],
            "meaning": [hit.id for hit in meant],
        }
        floor = self.policy.search.floor.meaning
        near = {hit.id for hit in meant if 1000 * hit.score >= floor << SCORE_BITS}
        return self._nearest(text, fuse(lists), near, limit)

    def _nearest(self, text: str, hits: Iterable[FusedHit], near: Collection[str], limit: int) -> list[ReferenceHit]:
        """Return the best of the hits that are near by their meaning or by their words."""
        search, read = self.policy.search, _Texts(self.artifacts)
        asked = set(TERM_RULES[self.index.identity.words](text))
        per_source: Counter[str] = Counter()
        found: list[ReferenceHit] = []
        for hit in hits:
            stored, part = self.places[hit.id]
            if len(found) == limit or per_source[str(stored.source.id)] == search.per_source:
                continue
            quote = read.quoted(stored, part)
            if hit.id in near or self._shared(asked, quote.quotation) >= search.floor.words:
                per_source[str(stored.source.id)] += 1
                found.append(ReferenceHit(quote, hit.ranks, stored))
        return found

    def _shared(self, asked: Collection[str], quotation: str) -> int:
        """Return the share of the words looked for that a quotation holds, in thousandths."""
        held = set(TERM_RULES[self.index.identity.words](quotation))
        return 1000 * len(held.intersection(asked)) // len(asked) if asked else 0


class _Texts:
    """The texts of sources, each read once for one search."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts
        self._held: dict[str, str] = {}

    def quoted(self, stored: StoredSource, part: ReferenceChunk) -> QuotedCard:
        key = str(stored.source.id)
        text = self._held[key] = self._held.get(key) or stored.text(self._artifacts)
        if digest_bytes(text[part.start : part.end].encode()) != part.sha256:
            raise IntegrityError("reference chunk", part.chunk_id, "Its text has another digest; run fsck.")
        return QuotedCard(card_of(stored, part, text), text[part.quote_start : part.quote_end])


def card_of(stored: StoredSource, part: ReferenceChunk, text: str) -> ReferenceCard:
    """Return the card of a chunk of a source whose text is given."""
    source = stored.source
    return ReferenceCard(
        namespace=source.namespace,
        source_id=ReferenceSourceId(source.id),
        source_digest=source.payload_digest,
        chunks_id=ReferenceChunksId(stored.chunks.id),
        chunk_id=part.chunk_id,
        facts=source.facts,
        retrieved_at=source.created_at,
        content_digest=source.content.sha256,
        start=part.start,
        end=part.end,
        start_byte=part.start_byte,
        end_byte=part.end_byte,
        quote_start=part.quote_start,
        quote_end=part.quote_end,
        unit=part.unit,
        unit_number=part.unit_number,
        quote_digest=digest_bytes(text[part.quote_start : part.quote_end].encode()),
    )


def open_references(
    ledger: OpenLedger,
    artifacts: ArtifactStore,
    namespace: str,
    embedder: Embedder,
    policy: ReferencePolicy,
    *,
    test_index: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> References:
    """Return the sources of a namespace that count now, with their index.

    Raises:
        NotFoundError: there is none.
        VrmError: what `index.build_references` raises, where it has to be built.
    """
    with ledger.reading() as reader:
        sources = [each for each in stored_sources(reader, namespace) if each.counts]
        if not sources:
            raise NotFoundError("reference sources", namespace, f"The namespace has none that count. {_ADD}")
        stored = [each.load() for each in reader.find(ReferenceIndexBuild.kind.noun, namespace)]
        known = known_vectors(reader, artifacts, namespace, embedder)
    builds = {str(each.id): each for each in stored if isinstance(each, ReferenceIndexBuild)}
    found = _loaded(list(builds.values()), sources, artifacts, embedder)
    if found is None:
        built = build_references(
            namespace, sources, artifacts, embedder, known=known, test_index=test_index, progress=progress
        )
        found = built.build, LoadedIndex.from_bytes(built.data)
    build, index = found
    return References(
        namespace=namespace,
        build=build,
        is_recorded=str(build.id) in builds,
        index=index,
        places=_places(sources),
        artifacts=artifacts,
        embedder=embedder,
        policy=policy,
    )


def _places(sources: list[StoredSource]) -> dict[str, tuple[StoredSource, ReferenceChunk]]:
    parts = ((each, part) for each in sources for part in each.chunks.chunks)
    return {str(part.chunk_id): (each, part) for each, part in parts if part.quote_start < part.quote_end}


def _loaded(
    builds: list[ReferenceIndexBuild], sources: list[StoredSource], artifacts: ArtifactStore, embedder: Embedder
) -> tuple[ReferenceIndexBuild, LoadedIndex] | None:
    """Return the newest usable index of exactly these sources."""
    members = members_of(sources)
    for build in reversed(builds):
        if build.members != members:
            continue
        try:
            index = LoadedIndex.from_bytes(artifacts.read(build.artifact.sha256), digest=build.artifact.sha256)
        except (NotFoundError, IntegrityError):
            continue
        if index.identity.embedder_id == embedder.id and index.members_digest == build.member_digest:
            return build, index
    return None
