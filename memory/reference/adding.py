"""Sources appended with their chunks, their bytes held by artifact references (spec 8.5, 15).

Rules kept here:

- the order for each source is: bytes published, references by which the source holds them made ACTIVE, then source and
  chunks in one direct append. So what the Ledger names is always held, and a source is there whole or not at all;
- the same file again is a replay: ids follow from content and metadata, the first persisted time stays, and an addition
  that was cut short goes on where it stopped;
- another content at the same address, or something else stated about the same content, is another record;
- a file that is refused is told with its error and stops no other file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from memory.ports import CoordinatorPort, RunOwnerPort, all_good
from memory.reference.holding import holding
from memory.reference.reading import SourceFile, read_source
from memory.retention import denials
from policies.references.chunking import chunk, quotation
from policies.references.policy import ReferencePolicy
from records.appends import Append
from records.canonical import digest_bytes
from records.errors import ErasedError, InvalidInputError, VrmError
from records.flows import Transition
from records.ids import ReferenceSourceId
from records.reference import (
    LicenceOrigin,
    ReferenceChunk,
    ReferenceChunks,
    ReferenceKind,
    ReferenceSource,
    SourceFacts,
    chunk_id,
)
from records.values import ArtifactRef
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

_GROUP: Final = 16
"""Sources that share one physical commit, and are held in memory together."""
_CONTENT: Final = "reference-content"
_TEXT: Final = "reference-text"


@dataclass(frozen=True, kw_only=True)
class Given:
    """What whoever adds sources says about all of them; null is not said.

    Attributes:
        retrieved_at: when they were retrieved, as a timestamp; where it is null the time of each file counts.
    """

    kind: ReferenceKind | None = None
    uri: str | None = None
    title: str | None = None
    version: str | None = None
    licence: str | None = None
    access: str | None = None
    retrieved_at: str | None = None
    encoding: str = "utf-8"


class Addition(StrEnum):
    """What became of a file."""

    ADDED = "added"
    REPLAYED = "replayed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Added:
    """A file with what became of it: the source that it is, or why it is none."""

    path: str
    addition: Addition
    source: ReferenceSource | None = None
    chunk_count: int = 0
    error: VrmError | None = None


@dataclass(frozen=True, kw_only=True)
class AddingPorts:
    """Where sources go, and through whom."""

    ledger: LedgerReader
    artifacts: ArtifactStore
    owner: RunOwnerPort
    coordinator: CoordinatorPort
    count: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class _Prepared:
    path: str
    file: SourceFile
    source: ReferenceSource
    chunks: ReferenceChunks


def add_sources(
    ports: AddingPorts,
    namespace: str,
    paths: Sequence[Path],
    given: Given,
    policy: ReferencePolicy,
    *,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> list[Added]:
    """Add files as sources of a namespace, and say of each what became of it.

    Raises:
        InvalidInputError: one address or title was given for several files.
        VrmError: a store or an owner cannot be used; what was added stays, and the same call goes on.
    """
    for name in ("uri", "title"):
        if len(paths) > 1 and getattr(given, name) is not None:
            raise InvalidInputError(f"--{name}", getattr(given, name), f"It names one source; there are {len(paths)}.")
    done: list[Added] = []
    for start in range(0, len(paths), _GROUP):
        done += _add_group(ports, namespace, paths[start : start + _GROUP], given, policy)
        progress("sources", len(done), len(paths))
    return done


def _add_group(
    ports: AddingPorts, namespace: str, paths: Sequence[Path], given: Given, policy: ReferencePolicy
) -> list[Added]:
    denied = {each.target_id for each in denials(ports.ledger, namespace)}
    told: dict[str, Added] = {}
    ready: dict[str, _Prepared] = {}
    for path in paths:
        try:
            made = _prepare(ports, namespace, path, given, policy)
            if not denied.isdisjoint({str(made.source.id), *made.source.artifacts}):
                raise ErasedError("reference source", made.source.id, "Retention erased it; it is not added again.")
            stored = ports.ledger.get_many([str(made.chunks.id)])
            if stored or str(made.chunks.id) in ready:
                told[made.path] = Added(made.path, Addition.REPLAYED, made.source, len(made.chunks.chunks))
                continue
            ports.artifacts.publish_many([made.file.data, made.file.read.text.encode()])
            ready[str(made.chunks.id)] = made
        except VrmError as error:
            told[str(path)] = Added(str(path), Addition.REFUSED, error=error)
    if ready:
        all_good(ports.owner.apply([command for made in ready.values() for command in holding(made.source)]))
    appends = [_append(made.source, made.chunks) for made in ready.values()]
    answers = ports.coordinator.append_direct(appends) if appends else []
    for made, answer in zip(ready.values(), answers, strict=True):
        if isinstance(answer, VrmError):
            told[made.path] = Added(made.path, Addition.REFUSED, error=answer)
        else:
            told[made.path] = Added(made.path, Addition.ADDED, made.source, len(made.chunks.chunks))
    return [told[str(path)] for path in paths]


def _append(source: ReferenceSource, chunks: ReferenceChunks) -> Append:
    return Append.direct(Transition.ADD_REFERENCE, f"add-reference/{chunks.id}", (source, chunks))


def _prepare(ports: AddingPorts, namespace: str, path: Path, given: Given, policy: ReferencePolicy) -> _Prepared:
    file = read_source(path, policy.files, given.encoding)
    source = source_of(namespace, file, given)
    stored = ports.ledger.get(str(source.id))
    kept = None if stored is None else stored.load()
    if isinstance(kept, ReferenceSource):
        source = kept  # with the time that was persisted first
    return _Prepared(str(path), file, source, chunks_of(source, file, policy, ports.count))


def source_of(namespace: str, file: SourceFile, given: Given) -> ReferenceSource:
    """Return the record of a file.

    Raises:
        InvalidRecordError: what was given is refused; the field is named.
    """
    licence = given.licence or file.stated_licence
    origin = LicenceOrigin.GIVEN if given.licence else LicenceOrigin.STATED
    text = file.read.text.encode()
    facts = SourceFacts.build(
        source_kind=given.kind or file.kind,
        uri=_normal(given.uri or file.path),
        title=_normal(given.title or Path(file.path).name),
        version=_normal(given.version),
        licence=_normal(licence),
        licence_origin=LicenceOrigin.UNKNOWN if licence is None else origin,
        access=_normal(given.access),
    )
    return ReferenceSource.build(
        namespace=namespace,
        created_at=given.retrieved_at or file.modified_at,
        facts=facts,
        content=_artifact(_CONTENT, file.data, file.media_type),
        text=_artifact(_TEXT, text, "text/plain; charset=utf-8"),
        reader=file.read.reader,
        encoding=given.encoding,
    )


def _artifact(role: str, data: bytes, media_type: str) -> ArtifactRef:
    return ArtifactRef(role=role, sha256=digest_bytes(data), size_bytes=len(data), media_type=media_type)


def _normal(text: str | None) -> str | None:
    return None if text is None else unicodedata.normalize("NFC", text)


def chunks_of(
    source: ReferenceSource, file: SourceFile, policy: ReferencePolicy, count: Callable[[str], int]
) -> ReferenceChunks:
    """Return the chunks of a source under a policy.

    Raises:
        InvalidInputError: the policy is for another algorithm.
    """
    source_id, text, at_byte, made = ReferenceSourceId(source.id), file.read.text, 0, []
    for piece in chunk(text, file.read.units, policy.chunks, count):
        data = text[piece.start : piece.end].encode()
        digest = digest_bytes(data)
        begin, end = quotation(text, piece.start, piece.end)
        made.append(
            ReferenceChunk(
                chunk_id=chunk_id(source_id, piece.start, piece.end, digest),
                start=piece.start,
                end=piece.end,
                start_byte=at_byte,
                end_byte=at_byte + len(data),
                quote_start=begin,
                quote_end=end,
                unit=piece.unit.unit,
                unit_number=piece.unit.number,
                tokens=count(text[piece.start : piece.end]),
                sha256=digest,
            )
        )
        at_byte += len(data)
    return ReferenceChunks.build(
        namespace=source.namespace,
        created_at=source.created_at,
        source_id=source_id,
        rule=policy.chunks.rule,
        policy=policy.identity,
        tokenizer=policy.rendering.tokenizer,
        chunks=tuple(made),
    )
