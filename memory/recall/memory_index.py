"""The index artifact of a Recall Input: the search index, the columns of the hard filters, what proves a row.

Rules kept here:

- rows lie in the order of memory ids, in every part; filters choose row numbers, and only then is a text touched;
- the payload digest of every row is in the artifact, so a record that is read later can be told from a changed one;
- equal members and equal search index give equal bytes; loading makes views, copies nothing but the few values of a
  column that has few, and checks everything that it will rely on;
- building takes one record after the other and keeps what the artifact needs of it, never the record or its text.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from memory.index.artifact import IndexArtifact, IndexBuilder, IndexDocument, IndexIdentity, LoadedIndex
from memory.index.embedding import Embedder
from memory.index.framing import Buffer, Frame, pack, unpack
from memory.index.packed import PackedTexts
from memory.index.ranking import Rows, contenders
from memory.recall.document import DOCUMENT_RULE, document_text
from policies.hard_filters import FILTER_FIELDS, UNCONSTRAINED, Column, FilterColumns, filter_facts
from policies.ranker import GRADE_STEPS, constrained_fields
from records.canonical import domain_digest
from records.errors import IntegrityError
from records.ids import KnowledgeSnapshotId
from records.knowledge import MemoryRecord
from records.values import Disposition

MEMORY_INDEX: Final = "vrm-memory-index/1"
_STANDING: Final = ("constrained", "grade", "support")
_DIGEST_BYTES: Final = 32
_FEW: Final = 256
"""Distinct values of a column up to which they are unpacked, since every request looks some of them up."""
_REBUILD: Final = "Build the index again from its snapshot."


@dataclass(frozen=True, eq=False)
class Standing:
    """Integer facts of every row, int64, shape (rows,): constrained scope fields, grade step, supporting units."""

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


@dataclass(frozen=True, slots=True, eq=False)
class MemoryIndex:
    """A loaded artifact.

    Attributes:
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

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Load an artifact as views of `data`, whose digest the caller has checked.

        Raises:
            IntegrityError: the bytes are not a whole, unchanged artifact of this release.
        """
        frame = unpack(data)
        meta = frame.meta
        if meta.get("schema") != MEMORY_INDEX or meta.get("fields") != list(FILTER_FIELDS):
            raise IntegrityError("memory-index.schema", meta.get("schema"), f"{MEMORY_INDEX} is read here. {_REBUILD}")
        search = LoadedIndex.from_bytes(_part(frame, "search", "|u1", None))
        size = search.size
        fields = {name: _column(frame, name, size) for name in FILTER_FIELDS}
        standing = Standing(*(_part(frame, name, "<i8", (size,)) for name in _STANDING))
        named = PackedTexts(frame.parts["memory_id.texts"], frame.parts["memory_id.starts"])
        if not named.same(search.ids) or (fields["memory_id"].codes != np.arange(size)).any():
            raise IntegrityError("memory-index.memory_id", f"{size} rows", f"Rows are not in id order. {_REBUILD}")
        return cls(
            KnowledgeSnapshotId(meta["knowledge_snapshot_id"]),
            search,
            FilterColumns(fields, np.ones(size, dtype=np.bool_)),
            standing,
            _part(frame, "payload_digests", "|u1", (size, _DIGEST_BYTES)),
        )

    def payload_digest(self, row: int) -> str:
        """Return the SHA-256 of the payload of a row's record."""
        return bytes(self.payload_digests[row]).hex()


def identity_digest(search: IndexIdentity) -> str:
    """Return the digest of all that decides the bytes of an artifact besides the snapshot's members."""
    return domain_digest(
        "memory-index-identity",
        {
            "schema": MEMORY_INDEX,
            "document": DOCUMENT_RULE,
            "fields": list(FILTER_FIELDS),
            "search": search.model_dump(),
        },
    )


class MemoryIndexBuilder:
    """Takes the members of a snapshot one by one, in the order of their ids."""

    def __init__(self, embedder: Embedder) -> None:
        """Begin without members."""
        self._search = IndexBuilder(embedder)
        self._columns = {name: ColumnBuilder() for name in FILTER_FIELDS}
        self._standing = {name: array("q") for name in _STANDING}
        self._digests = bytearray()

    def add(self, record: MemoryRecord, disposition: Disposition) -> None:
        """Take a member.

        Raises:
            UnavailableError: the embedder cannot be used.
        """
        self._search.add(IndexDocument(str(record.id), document_text(record)))
        for name, fact in filter_facts(record, disposition).items():
            self._columns[name].add(fact)
        facts = (constrained_fields(record.scope), GRADE_STEPS[record.strength.grade], record.strength.support_count)
        for name, step in zip(_STANDING, facts, strict=True):
            self._standing[name].append(step)
        self._digests += bytes.fromhex(record.payload_digest)

    def finish(self, snapshot_id: KnowledgeSnapshotId) -> tuple[IndexArtifact, bytes]:
        """Return the search index of the members, and the artifact that holds it with everything else.

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
        meta = {"schema": MEMORY_INDEX, "fields": list(FILTER_FIELDS), "knowledge_snapshot_id": snapshot_id}
        return search, pack(meta, parts)


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
