"""Which sources a namespace has: their chunks, their versions, and which of them an erasure denies.

Rules kept here:

- contents at one address are its versions, counted in the order in which they were added; all of them are kept;
- what was stated about one content at one address later counts instead of what was stated before, and that stays;
- a source is denied if retention denies it or its bytes; nothing of a denied one is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.retention import denials
from records.errors import AmbiguousIdError, ErasedError, IntegrityError, NotFoundError
from records.models import noun_of
from records.reference import ReferenceChunks, ReferenceContext, ReferenceSource
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source as its namespace holds it.

    Attributes:
        chunks: its newest set of chunks.
        number: which content at its address this is, from one.
        versions: how many contents there are at its address.
        is_restated: whether something else was stated about the same content at the same address later.
        is_denied: whether an erasure denies it.
    """

    source: ReferenceSource
    chunks: ReferenceChunks
    number: int
    versions: int
    is_restated: bool
    is_denied: bool

    @property
    def counts(self) -> bool:
        """Whether it is searched."""
        return not self.is_denied and not self.is_restated

    def text(self, artifacts: ArtifactStore) -> str:
        """Return the source's text.

        Raises:
            ErasedError: retention denies it.
            NotFoundError: its bytes are missing.
            IntegrityError: they were changed.
        """
        if self.is_denied:
            raise ErasedError("reference source", self.source.id, "Retention denies it; nothing of it is read.")
        return artifacts.read(self.source.text.sha256).decode("utf-8")


def stored_sources(reader: LedgerReader, namespace: str) -> list[StoredSource]:
    """Return the sources of a namespace in the order in which they were added; `reader` is of one moment.

    Raises:
        IntegrityError: a source has no chunks.
    """
    found = [each.load() for each in reader.find(ReferenceSource.kind.noun, namespace)]
    sources = [each for each in found if isinstance(each, ReferenceSource)]
    if not sources:
        return []
    sets = [each.load() for each in reader.find(ReferenceChunks.kind.noun, namespace)]
    chunks = {str(each.source_id): each for each in sets if isinstance(each, ReferenceChunks)}  # the newest counts
    denied = frozenset(each.target_id for each in denials(reader, namespace))
    contents: dict[str, list[str]] = {}
    newest: dict[tuple[str, str], str] = {}
    for source in sources:
        held = contents.setdefault(source.facts.uri, [])
        if source.content.sha256 not in held:
            held.append(source.content.sha256)
        newest[source.facts.uri, source.content.sha256] = str(source.id)
    made = []
    for source in sources:
        key, content = str(source.id), source.content.sha256
        if key not in chunks:
            raise IntegrityError("reference source", key, "It has no chunks; run fsck on the ledger.")
        versions = contents[source.facts.uri]
        made.append(
            StoredSource(
                source=source,
                chunks=chunks[key],
                number=versions.index(content) + 1,
                versions=len(versions),
                is_restated=newest[source.facts.uri, content] != key,
                is_denied=not denied.isdisjoint({key, *source.artifacts}),
            )
        )
    return made


def read_one(reader: LedgerReader, wanted: str, nouns: Sequence[str]) -> ReferenceSource | ReferenceContext:
    """Return a source or a context by any unambiguous beginning of its id.

    Raises:
        NotFoundError: none of these nouns begins so.
        AmbiguousIdError: several do.
    """
    found = [each for each in reader.resolve(wanted.strip().lower()) if noun_of(each) in nouns]
    if len(found) > 1:
        raise AmbiguousIdError("id", wanted, f"It begins {len(found)} or more ids: {', '.join(found[:3])}.")
    stored = reader.get(found[0]) if found else None
    record = None if stored is None else stored.load()
    if not isinstance(record, ReferenceSource | ReferenceContext):
        raise NotFoundError("id", wanted, "No such source or context; `vrm reference list` shows what there is.")
    return record


def namespaces_of(reader: LedgerReader, namespace: str | None) -> Iterable[str]:
    """Return the namespace that was asked for, or all."""
    return reader.namespaces() if namespace is None else [namespace]
