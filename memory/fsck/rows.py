"""Each row by itself, against its journal row and its own payload: id, digest, form, columns, children, references."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from functools import cache
from typing import Final

from memory.fsck.case import Case
from memory.fsck.codes import Code
from memory.fsck.reading import is_illegal
from records.appends import JournalRow
from records.base import KINDS, Record, load_record
from records.canonical import digest_bytes
from records.errors import VrmError
from records.models import Id, Model
from store.ledger.audit import Place, ScannedRow
from store.ledger.projections import children_of, columns_of


def read_records(case: Case, rows: tuple[JournalRow, ...]) -> dict[str, Record]:
    """Read the records of a stretch of journal, checking each one on the way."""
    scanned = {
        record_id: found
        for noun, ids in by_noun(rows).items()
        for record_id, found in case.scan.rows(noun, ids).items()
    }
    records: dict[str, Record] = {}
    for row in rows:
        case.known.put(row.id, Place(row.namespace, row.position, row.permit_key))
        record = _check_row(case, row, scanned.get(row.id))
        if record is not None:
            records[row.id] = record
    _check_references(case, rows, records)
    return records


def by_noun(rows: tuple[JournalRow, ...]) -> dict[str, list[str]]:
    """Return the ids of a stretch by kind; kinds that this version does not know are left out."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.noun in KINDS:
            found.setdefault(row.noun, []).append(row.id)
    return found


def check_strays(case: Case) -> None:
    """Find rows that no journal row names and child rows that no record names."""
    for table, record_id in case.scan.unjournaled(case.namespace):
        case.findings.add(Code.ROW_UNJOURNALED, record_id, f"a row of {table} without a journal row")
    for table, parent_id in case.scan.stray_children(case.namespace):
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
    data = found.payload.encode()
    digest = digest_bytes(data)
    if digest != row.payload_digest:
        add(Code.PAYLOAD_DIGEST, row.id, f"payload {digest}, journal {row.payload_digest}")
    try:
        record = load_record(row.noun, found.payload)
        canonical, own_id = record.payload, str(record.id)
    except VrmError as error:
        add(Code.PAYLOAD_ILLEGAL if is_illegal(error) else Code.PAYLOAD_UNREADABLE, row.id, str(error))
        return None
    if canonical != data:
        add(Code.PAYLOAD_NOT_CANONICAL, row.id, found.payload[:200])
    if own_id != row.id:
        add(Code.ID_MISMATCH, row.id, f"the payload gives {own_id}")
    if record.namespace != row.namespace:
        add(Code.ROW_POSITION, row.id, f"the payload says namespace {record.namespace}, the journal {row.namespace}")
    _check_projections(case, record, found)
    return record


def _check_projections(case: Case, record: Record, found: ScannedRow) -> None:
    wanted = columns_of(record)
    for name in wanted if wanted != found.columns else ():
        if found.columns.get(name) != wanted[name]:
            met = f"column {name} is {found.columns.get(name)!r}, the payload says {wanted[name]!r}"
            case.findings.add(Code.COLUMN_MISMATCH, found.id, met)
    for table, rows in children_of(record).items():
        held = found.children.get(table, ())
        if held != rows:
            first = next((n for n, (a, b) in enumerate(zip(held, rows, strict=False), 1) if a != b), None)
            place = f"{len(held)} rows for {len(rows)} entries" if first is None else f"entry {first} differs"
            case.findings.add(Code.CHILD_MISMATCH, found.id, f"{table}: {place}")


def _check_references(case: Case, rows: tuple[JournalRow, ...], records: dict[str, Record]) -> None:
    """Every record that is named must be there, in the same namespace, and before the one that names it."""
    wanted = {(row, *each) for row in rows if row.id in records for each in _references(records[row.id])}
    places = case.places(target for _, _, target in wanted)
    for row, name, target in wanted:
        place = places.get(target)
        if place is None:
            met = f"{name} names {target}, which is not there"
        elif place.namespace != row.namespace:
            met = f"{name} points into namespace {place.namespace}"
        elif place.position >= row.position:
            met = f"{name} names {target}, which came later, at position {place.position}"
        else:
            continue
        case.findings.add(Code.REFERENCE_DANGLING, row.id, met)


def _references(record: Record) -> Iterator[tuple[str, str]]:
    """Yield every id of a record kind that a record holds, wherever it stands, with the field that it stands under."""
    held = vars(record)
    for name in _naming(type(record)):
        for target in _ids(held[name]):
            yield name, target


def _ids(value: object) -> Iterator[str]:
    if isinstance(value, Id):
        if value.noun in KINDS:
            yield str(value)
    elif isinstance(value, tuple):
        for entry in value:
            yield from _ids(entry)
    elif isinstance(value, Model):
        held = vars(value)
        for name in _naming(type(value)):
            yield from _ids(held[name])


_NEVER_THERE: Final = frozenset({"abandoned_work_item_id"})
"""Fields that name a record which must not exist: one that does is found as an item without its receipt."""


@cache
def _naming(model: type[Model]) -> tuple[str, ...]:
    """Return the fields of a model that may hold ids of record kinds which must be there."""
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if name not in _NEVER_THERE and _may_name(field.annotation))


def _may_name(annotation: object) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Id):
        return annotation.noun in KINDS
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return bool(_naming(annotation))
    return any(_may_name(part) for part in typing.get_args(annotation))
