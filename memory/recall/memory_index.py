"""The index artifacts of a Recall Input: the search index, the columns of the hard filters, what proves a row.

There is one artifact for each kind of source (docs/adr/0061): rules, procedures, episodes. They are framed alike; the
schema says which columns there are.

Rules kept here:

- rows lie in the order of memory ids, in every part; filters choose row numbers, and only then is a text touched;
- the payload digest of every row is in the artifact, so a record that is read later can be told from a changed one;
- equal members and equal search index give equal bytes; loading makes views, copies nothing but the few values of a
  column that has few, and checks everything that it will rely on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from memory.index.artifact import IndexIdentity, LoadedIndex
from memory.index.framing import Buffer, Frame, pack, unpack
from memory.index.packed import PackedTexts
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


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Integer facts of every row, int64, shape (rows,): constrained scope fields, grade step, supporting units.

    Of an episode the last one is its place in time, so that the newest comes first.
    """

    constrained: NDArray[np.int64]
    grade: NDArray[np.int64]
    support: NDArray[np.int64]


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
        name, rows = next(iter(fields.items()))
        if list(rows.values) != list(search.ids) or (rows.codes != np.arange(size)).any():
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


def pack_memory_index(
    snapshot_id: KnowledgeSnapshotId, rows: Sequence[tuple[MemoryRecord, Disposition]], search: bytes
) -> bytes:
    """Return the artifact of rules in id order and their search index."""
    return pack_index(MEMORY_INDEX, [memory_row(*row) for row in rows], search, knowledge_snapshot_id=snapshot_id)


def pack_index(schema: str, rows: Sequence[IndexRow], search: bytes, **sources: str) -> bytes:
    """Return the artifact of rows in id order and their search index; `sources` are the ids of their snapshots."""
    fields = SCHEMAS[schema][1]
    parts: dict[str, NDArray[Any]] = {"search": np.frombuffer(search, dtype=np.uint8)}
    for name in fields:
        column = Column.of([row.facts[name] for row in rows])
        packed = PackedTexts.pack(column.values)
        parts |= {f"{name}.codes": column.codes, f"{name}.texts": packed.blob, f"{name}.starts": packed.starts}
    for place, name in enumerate(_STANDING):
        parts[name] = np.array([row.standing[place] for row in rows], dtype=np.int64)
    digests = b"".join(bytes.fromhex(row.payload_digest) for row in rows)
    parts["payload_digests"] = np.frombuffer(digests, dtype=np.uint8).reshape(len(rows), _DIGEST_BYTES)
    return pack({"schema": schema, "fields": list(fields), **sources}, parts)


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
