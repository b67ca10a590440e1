"""One row of a legacy ledger against its own columns, its id and the form of its table. Pure.

Rules kept here:

- the payload is an object in the program's canonical form, byte for byte; whatever was edited by hand is refused;
- its fields are those of its table, its id is that of the row, and every column repeats what the payload says;
- an id or digest that looks computed must compute from the payload (`importers.ai_researcher.identity`);
- its time is its own, in UTC; a time without an offset is taken as UTC.

Every refusal names table, row and field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from importers.ai_researcher.identity import broken_digests, canonical_text, is_forged, rule_of
from importers.ai_researcher.layout import LAYOUT, PAYLOAD, TIMES, Table
from records.errors import InvalidSourceError
from records.legacy import MAX_PAYLOAD, LegacyTable, legacy_key

T = TypeVar("T")

MAX_KEY: Final = 1000
_CHANGED: Final = "The row was changed after it was written; import an untouched copy of the ledger."
_VERSION: Final = "This version of the ledger's program is not known here; report it, with the field."
_SHOWN: Final = 80


@dataclass(frozen=True, kw_only=True)
class LegacyRow:
    """A row that passed every check.

    Attributes:
        data: the payload's exact bytes.
        payload: the same, as JSON values.
        id_rule: the rule that computes its id again; None for a given name, or where no rule is known.
        created_at: the payload's time as a record timestamp.
    """

    table: LegacyTable
    record_id: str
    data: bytes
    payload: Mapping[str, Any]
    id_rule: str | None
    created_at: str


def check_row(table: Table, record_id: str, data: bytes, columns: Mapping[str, Any] | None = None) -> LegacyRow:
    """Return the row after checking all that can be checked without its neighbours.

    Args:
        table: where it stands.
        record_id: its id there.
        data: its payload.
        columns: what its further columns hold; None if the source keeps payloads without columns.

    Raises:
        InvalidSourceError: a rule is broken; table, row, field and remedy are named.
    """
    place = place_of(table.name, record_id)
    if len(data) > MAX_PAYLOAD:
        raise InvalidSourceError(f"{place}: {PAYLOAD}", f"{len(data)} bytes", f"At most {MAX_PAYLOAD} bytes are taken.")
    if not record_id or len(legacy_key(record_id)) > MAX_KEY:
        raise InvalidSourceError(f"{place}: record_id", _shown(record_id), f"An id has 1 to {MAX_KEY} characters.")
    payload = _parsed(place, data)
    _check_fields(place, table, payload)
    _check_columns(place, table, record_id, payload, columns or {})
    if table.name is LegacyTable.KNOWLEDGE:
        _check_sources(place, payload)
    forged = guarded(place, lambda: is_forged(table.name, record_id, payload))
    if forged:
        raise InvalidSourceError(f"{place}: {table.id_field}", "not computed from this payload", _CHANGED)
    for field in guarded(place, lambda: list(broken_digests(table.name, payload))):
        raise InvalidSourceError(f"{place}: {field}", payload[field], _CHANGED)
    return LegacyRow(
        table=table.name,
        record_id=record_id,
        data=data,
        payload=payload,
        id_rule=guarded(place, lambda: rule_of(table.name, record_id, payload)),
        created_at=_timestamp(f"{place}: {table.time_field}", payload[table.time_field]),
    )


def place_of(table: LegacyTable, record_id: str) -> str:
    """Return how errors name a row."""
    return f"{table} row {_shown(record_id)}"


def row_of(name: LegacyTable, payload: Mapping[str, Any], place: str) -> LegacyRow:
    """Return the row that a payload from a JSON file would have; its bytes are the program's canonical form of it.

    Raises:
        InvalidSourceError: as for `check_row`, or the payload has no id.
    """
    table = LAYOUT[name]
    record_id = payload.get(str(table.id_field))
    if not isinstance(record_id, str):
        raise InvalidSourceError(f"{place}: {table.id_field}", record_id, _VERSION)
    return check_row(table, record_id, _encoded(place, payload))


def _encoded(place: str, payload: Mapping[str, Any]) -> bytes:
    try:
        return canonical_text(payload).encode()
    except UnicodeEncodeError as error:
        raise InvalidSourceError(place, "half of a character", _CHANGED) from error


def _parsed(place: str, data: bytes) -> dict[str, Any]:
    where = f"{place}: {PAYLOAD}"
    try:
        text = data.decode("utf-8")
        payload = json.loads(text)
        same = canonical_text(payload) == text  # doubled keys, spaces, another order or escapes are not the same
    except (ValueError, RecursionError) as error:
        raise InvalidSourceError(where, str(error), _CHANGED) from error
    if not isinstance(payload, dict):
        raise InvalidSourceError(where, type(payload).__name__, "A payload is a JSON object.")
    if not same:
        raise InvalidSourceError(where, f"not in canonical form: {text[:_SHOWN]}", _CHANGED)
    return payload


def _check_fields(place: str, table: Table, payload: Mapping[str, Any]) -> None:
    missing = sorted(table.fields - table.optional - payload.keys())
    unknown = sorted(payload.keys() - table.fields)
    if missing or unknown:
        field = (missing or unknown)[0]
        raise InvalidSourceError(f"{place}: {_shown(field)}", "missing" if missing else "unknown field", _VERSION)
    if payload["schema_version"] != "1":
        raise InvalidSourceError(f"{place}: schema_version", payload["schema_version"], _VERSION)


def _check_columns(
    place: str, table: Table, record_id: str, payload: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    if payload[str(table.id_field)] != record_id:
        raise InvalidSourceError(f"{place}: {table.id_field}", payload[str(table.id_field)], _CHANGED)
    for name, value in columns.items():
        expected = guarded(place, lambda name=name: table.repeats[name](payload))  # type: ignore[misc]  # the usual way to bind
        if name in TIMES:
            same = _instant(f"{place}: {name}", value) == _instant(f"{place}: {name}", expected)
        else:
            same = type(value) is type(expected) and value == expected
        if not same:
            met = f"column {_shown(value)}, payload {_shown(expected)}"
            raise InvalidSourceError(f"{place}: {name}", met, _CHANGED)


def _check_sources(place: str, payload: Mapping[str, Any]) -> None:
    sources = payload["source_experience_ids"]
    texts = isinstance(sources, list) and all(isinstance(each, str) and each for each in sources)
    if not texts or not sources or len(set(sources)) != len(sources):
        raise InvalidSourceError(f"{place}: source_experience_ids", sources, "It names one or more experiences, once.")
    if any(len(legacy_key(each)) > MAX_KEY for each in sources):
        raise InvalidSourceError(f"{place}: source_experience_ids", "too long", f"An id has 1 to {MAX_KEY} characters.")


def guarded(place: str, compute: Callable[[], T]) -> T:
    """Compute from a payload whose inner shape nobody has checked.

    Raises:
        InvalidSourceError: it is of another shape.
    """
    try:
        return compute()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidSourceError(f"{place}: {PAYLOAD}", f"{type(error).__name__}: {error}", _VERSION) from error


def _instant(where: str, value: object) -> datetime:
    if not isinstance(value, str):
        raise InvalidSourceError(where, value, "A time is text in ISO 8601.")
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidSourceError(where, value, "A time is text in ISO 8601.") from error


def _timestamp(where: str, value: object) -> str:
    return _instant(where, value).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _shown(value: object) -> str:
    text = ascii(value)[1:-1] if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
