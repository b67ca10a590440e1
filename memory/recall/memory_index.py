"""The index artifacts of a Recall Input: the search index, the columns of the hard filters, what proves a row.

There is one artifact for each kind of source (docs/adr/0061): rules, procedures, episodes. They are framed alike; the
schema says which columns there are.

Rules kept here:

- rows lie in the order of memory ids, in every part; filters choose row numbers, and only then is a text touched;
- the payload digest of every row is in the artifact, so a record that is read later can be told from a changed one;
- equal members and equal search index give equal bytes; loading makes views, copies nothing but the few values of a
  column that has few, and checks everything that it will rely on;
- building takes one record after the other and keeps what the artifact needs of it, never the record or its text.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from memory.index.artifact import IndexArtifact, IndexBuilder, IndexDocument, IndexIdentity, LoadedIndex
from memory.index.embedding import Embedder
from memory.index.framing import Buffer, Frame, pack, unpack
from memory.index.lexical import TERMS_VERSION
from memory.index.packed import PackedTexts
from memory.index.ranking import Rows, contenders
from memory.recall.document import DOCUMENT_RULE, EPISODE_RULE, PROCEDURE_RULE
from policies.hard_filters import FILTER_FIELDS, UNCONSTRAINED, Column, FilterColumns, filter_facts
from policies.lane_facts import EPISODE_FIELDS, PROCEDURE_FIELDS
from policies.ranker import GRADE_STEPS, constrained_fields
from records.canonical import domain_digest
from records.errors import IntegrityError
from records.ids import EvidenceSnapshotId, KnowledgeSnapshotId
from records.knowledge import MemoryRecord
from records.values import Disposition, SourceKind

MEMORY_INDEX: Final = "vrm-memory-index/1"
PROCEDURE_INDEX: Final = "vrm-procedure-index/1"
EPISODE_INDEX: Final = "vrm-episode-index/1"
SCHEMAS: Final[Mapping[str, tuple[SourceKind, tuple[str, ...], str]]] = {
    MEMORY_INDEX: (SourceKind.SEMANTIC, FILTER_FIELDS, DOCUMENT_RULE),
    PROCEDURE_INDEX: (SourceKind.PROCEDURE, PROCEDURE_FIELDS, PROCEDURE_RULE),
    EPISODE_INDEX: (SourceKind.EPISODIC, EPISODE_FIELDS, EPISODE_RULE),
}
"""By schema: the kind of source, the columns, and the rule that makes a text of one."""

_STANDING: Final = ("constrained", "grade", "support")
_DIGEST_BYTES: Final = 32
_FEW: Final = 256
"""Distinct values of a column up to which they are unpacked, since every request looks some of them up."""
_REBUILD: Final = "Build the index again from its snapshot."


@dataclass(frozen=True, eq=False)
class Standing:
    """Integer facts of every row, int64, shape (rows,): constrained scope fields, grade step, supporting units.

    Of an episode the last one is its place in time, so that the newest comes first.
    """

    constrained: NDArray[np.int64]
    grade: NDArray[np.int64]
    support: NDArray[np.int64]

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """The place of every row in the order of these facts, most first, ties by row; int32, shape (rows,)."""
        order = np.lexsort((-self.support, -self.grade, -self.constrained))
        places = np.empty(order.size, dtype=np.int32)
        places[order] = np.arange(order.size, dtype=np.int32)
        return places

    def foremost(self, rows: Rows, limit: int) -> Rows:
        """Return the `limit` rows among `rows` that stand first, in order."""
        places = self.places[rows].astype(np.int64)
        first = contenders(-places, limit)
        return rows[first[np.argsort(places[first])]][:limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """What an artifact holds of one row: payload digest, filter facts by the fields of the schema, and its standing."""

    payload_digest: str
    facts: Mapping[str, str | None]
    standing: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryIndex:
    """A loaded artifact.

    Attributes:
        schema: which of `SCHEMAS` it is.
        evidence_snapshot_id: the Evidence Snapshot, where it was built from one.
        snapshot_id: the Knowledge Snapshot that it was built from.
        search: the lexical and semantic index.
        columns: what hard filters read.
        standing: what the structured candidate list is ordered by.
        payload_digests: uint8, shape (rows, 32): SHA-256 of each record's payload.
    """

    snapshot_id: KnowledgeSnapshotId
    search: LoadedIndex
    columns: FilterColumns
    standing: Standing
    payload_digests: NDArray[np.uint8]
    schema: str = MEMORY_INDEX
    evidence_snapshot_id: EvidenceSnapshotId | None = None

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Load an artifact as views of `data`, whose digest the caller has checked.

        Raises:
            IntegrityError: the bytes are not a whole, unchanged artifact of this release.
        """
        frame = unpack(data)
        meta = frame.meta
        schema = str(meta.get("schema"))
        if schema not in SCHEMAS or meta.get("fields") != list(SCHEMAS[schema][1]):
            raise IntegrityError("memory-index.schema", schema, f"{', '.join(SCHEMAS)} are read here. {_REBUILD}")
        search = LoadedIndex.from_bytes(_part(frame, "search", "|u1", None))
        size = search.size
        fields = {name: _column(frame, name, size) for name in SCHEMAS[schema][1]}
        standing = Standing(*(_part(frame, name, "<i8", (size,)) for name in _STANDING))
        name = next(iter(fields))
        named = PackedTexts(frame.parts[f"{name}.texts"], frame.parts[f"{name}.starts"])
        if not named.same(search.ids) or (fields[name].codes != np.arange(size)).any():
            raise IntegrityError(f"memory-index.{name}", f"{size} rows", f"Rows are not in id order. {_REBUILD}")
        return cls(
            KnowledgeSnapshotId(meta["knowledge_snapshot_id"]),
            search,
            FilterColumns(fields, np.ones(size, dtype=np.bool_)),
            standing,
            _part(frame, "payload_digests", "|u1", (size, _DIGEST_BYTES)),
            schema,
            None if meta.get("evidence_snapshot_id") is None else EvidenceSnapshotId(meta["evidence_snapshot_id"]),
        )

    @property
    def kind(self) -> SourceKind:
        """The kind of source that it holds."""
        return SCHEMAS[self.schema][0]

    def payload_digest(self, row: int) -> str:
        """Return the SHA-256 of the payload of a row's record."""
        return bytes(self.payload_digests[row]).hex()


def identity_digest(search: IndexIdentity, schema: str = MEMORY_INDEX) -> str:
    """Return the digest of all that decides the bytes of an artifact besides the snapshot's members."""
    _, fields, rule = SCHEMAS[schema]
    return domain_digest(
        "memory-index-identity",
        {"schema": schema, "document": rule, "fields": list(fields), "search": search.model_dump()},
    )


def memory_row(record: MemoryRecord, disposition: Disposition) -> IndexRow:
    """Return the row of a rule."""
    standing = (constrained_fields(record.scope), GRADE_STEPS[record.strength.grade], record.strength.support_count)
    facts = filter_facts(record, disposition)
    return IndexRow(payload_digest=record.payload_digest, facts=facts, standing=standing)


class MemoryIndexBuilder:
    """Takes the rows of an index of a schema one by one, in the order of their ids."""

    def __init__(self, schema: str, embedder: Embedder, *, rule: str = TERMS_VERSION) -> None:
        """Begin without rows; `schema` is one of `SCHEMAS`, `rule` one of `TERM_RULES`."""
        self._schema = schema
        self._search = IndexBuilder(embedder, rule=rule)
        self._columns = {name: ColumnBuilder() for name in SCHEMAS[schema][1]}
        self._standing = {name: array("q") for name in _STANDING}
        self._digests = bytearray()

    def add(self, document: IndexDocument, row: IndexRow) -> None:
        """Take the next row with its text.

        Raises:
            UnavailableError: the embedder cannot be used.
        """
        self._search.add(document)
        for name, column in self._columns.items():
            column.add(row.facts[name])
        for name, fact in zip(_STANDING, row.standing, strict=True):
            self._standing[name].append(fact)
        self._digests += bytes.fromhex(row.payload_digest)

    def finish(self, **sources: str) -> tuple[IndexArtifact, bytes]:
        """Return the search index of the rows, and the artifact that holds it with everything else.

        Args:
            sources: the ids of the snapshots that the rows are of, by name.

        Raises:
            UnavailableError: the embedder cannot be used.
        """
        search = self._search.finish()
        parts: dict[str, NDArray[Any]] = {"search": np.frombuffer(search.data, dtype=np.uint8)}
        for name, built in self._columns.items():
            packed, codes = built.finish()
            parts |= {f"{name}.codes": codes, f"{name}.texts": packed.blob, f"{name}.starts": packed.starts}
        parts |= {name: np.array(facts, dtype=np.int64) for name, facts in self._standing.items()}
        parts["payload_digests"] = np.frombuffer(bytes(self._digests), dtype=np.uint8).reshape(-1, _DIGEST_BYTES)
        return search, pack({"schema": self._schema, "fields": list(self._columns), **sources}, parts)


class ColumnBuilder:
    """Takes one text, or None, per row; each distinct text is kept once."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._numbers: dict[str, int] = {}  # of texts, in order of appearance
        self._codes = array("i")

    def add(self, text: str | None) -> None:
        """Take the next row."""
        self._codes.append(UNCONSTRAINED if text is None else self._numbers.setdefault(text, len(self._numbers)))

    def finish(self) -> tuple[PackedTexts, NDArray[np.int32]]:
        """Return the distinct texts, sorted, and the place of each row's text among them."""
        texts = sorted(self._numbers)
        places = np.full(len(texts) + 1, UNCONSTRAINED, dtype=np.int32)  # the last one is what UNCONSTRAINED points at
        places[[self._numbers[text] for text in texts]] = np.arange(len(texts), dtype=np.int32)
        return PackedTexts.pack(texts), places[np.array(self._codes, dtype=np.int32)]


def _part(frame: Frame, name: str, dtype: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
    part = frame.parts.get(name)
    if part is None or part.dtype.str != dtype or (shape is not None and part.shape != shape):
        met = "missing" if part is None else f"{part.dtype.str} {part.shape}"
        raise IntegrityError(f"memory-index.{name}", met, _REBUILD)
    return part


def _column(frame: Frame, name: str, size: int) -> Column:
    texts, starts = frame.parts.get(f"{name}.texts"), frame.parts.get(f"{name}.starts")
    codes = _part(frame, f"{name}.codes", "<i4", (size,))
    if texts is None or starts is None:
        raise IntegrityError(f"memory-index.{name}", "missing", _REBUILD)
    values = PackedTexts(texts, starts)
    flaw = values.flaw()
    if flaw is not None:
        raise IntegrityError(f"memory-index.{name}", flaw, _REBUILD)
    if size and (codes.min() < UNCONSTRAINED or codes.max() >= len(values)):
        raise IntegrityError(f"memory-index.{name}", "a code names no value", _REBUILD)
    return Column(tuple(values) if len(values) <= _FEW else values, codes)
