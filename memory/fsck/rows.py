"""Each row by itself, against its journal row and its own payload: id, digest, form, columns, children, references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from records.appends import JournalRow
from records.base import KINDS, Model, Record, load_record
from records.canonical import digest_bytes
from records.errors import VrmError
from store.ledger.audit import ScannedRow, expected_children, expected_columns
from store.ledger.schema import child_model, column_names, referenced

CHUNK: Final = 500
"""Journal rows that are read and checked together; bounds the memory of a check."""


def read_chunk(case: Case, rows: tuple[JournalRow, ...]) -> Chunk:
    """Read the records of a stretch of journal, checking each one on the way."""
    by_noun: dict[str, list[str]] = {}
    for row in rows:
        by_noun.setdefault(row.noun, []).append(row.id)
    scanned = {
        record_id: found
        for noun, ids in by_noun.items()
        if noun in KINDS
        for record_id, found in case.scan.rows(noun, ids).items()
    }
    records: dict[str, Record] = {}
    for row in rows:
        record = _check_row(case, row, scanned.get(row.id))
        if record is not None:
            records[row.id] = record
    chunk = Chunk(rows[0].namespace, rows, records)
    _check_references(case, chunk)
    return chunk


def check_strays(case: Case) -> None:
    """Find rows that no journal row names and child rows that no record names."""
    for table, record_id in case.scan.unjournaled():
        case.findings.add(Code.ROW_UNJOURNALED, record_id, f"a row of {table} without a journal row")
    for table, parent_id in case.scan.stray_children():
        case.findings.add(Code.CHILD_STRAY, parent_id, f"rows of {table} without their record")


def _check_row(case: Case, row: JournalRow, found: ScannedRow | None) -> Record | None:
    add = case.findings.add
    if row.noun not in KINDS:
        add(Code.UNKNOWN_KIND, row.id, row.noun)
        return None
    if found is None:
        add(Code.ROW_MISSING, row.id, f"journal position {row.position}, no row in {KINDS[row.noun].table}")
        return None
    if (found.namespace, found.position) != (row.namespace, row.position):
        where = f"row at {found.namespace}/{found.position}, journal at {row.namespace}/{row.position}"
        add(Code.ROW_POSITION, row.id, where)
    digest = digest_bytes(found.payload.encode())
    if digest != row.payload_digest:
        add(Code.PAYLOAD_DIGEST, row.id, f"payload {digest}, journal {row.payload_digest}")
    try:
        record = load_record(row.noun, found.payload)
        canonical, own_id = record.payload.decode(), str(record.id)
    except VrmError as error:
        add(Code.PAYLOAD_UNREADABLE, row.id, str(error))
        return None
    if canonical != found.payload:
        add(Code.PAYLOAD_NOT_CANONICAL, row.id, found.payload[:200])
    if own_id != row.id:
        add(Code.ID_MISMATCH, row.id, f"the payload gives {own_id}")
    if record.namespace != row.namespace:
        add(Code.ROW_POSITION, row.id, f"the payload says namespace {record.namespace}, the journal {row.namespace}")
    _check_projections(case, record, found)
    return record


def _check_projections(case: Case, record: Record, found: ScannedRow) -> None:
    for name, wanted in expected_columns(record).items():
        if found.columns.get(name) != wanted:
            met = f"column {name} is {found.columns.get(name)!r}, the payload says {wanted!r}"
            case.findings.add(Code.COLUMN_MISMATCH, found.id, met)
    for table, rows in expected_children(record).items():
        held = found.children.get(table, ())
        if held != rows:
            first = next((n for n, (a, b) in enumerate(zip(held, rows, strict=False), 1) if a != b), None)
            place = f"{len(held)} rows for {len(rows)} entries" if first is None else f"entry {first} differs"
            case.findings.add(Code.CHILD_MISMATCH, found.id, f"{table}: {place}")


def _check_references(case: Case, chunk: Chunk) -> None:
    wanted = {(key, name, str(value)) for key, record in chunk.records.items() for name, value in _references(record)}
    targets = case.scan.positions(sorted({target for _, _, target in wanted}))
    for key, name, target in sorted(wanted):
        if target not in targets:
            case.findings.add(Code.REFERENCE_DANGLING, key, f"{name} names {target}, which is not there")
        elif targets[target][0] != chunk.namespace:
            case.findings.add(Code.REFERENCE_DANGLING, key, f"{name} points into namespace {targets[target][0]}")


def _references(record: Record) -> Iterator[tuple[str, object]]:
    kind = record.kind
    yield from _of_model(kind.model, record, column_names(kind))
    for child in kind.children:
        model = child_model(kind.model, child)
        for entry in getattr(record, child.path):
            yield from _of_model(model, entry, child.columns)


def _of_model(model: type[Model], value: object, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name in names:
        target = getattr(value, name)
        if target is not None and referenced(model.model_fields[name].annotation) is not None:
            yield name, target
