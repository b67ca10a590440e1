"""Whether a database has exactly the schema of a known revision: told from SQLite's own account of it."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from importers.ai_researcher.layout import LAYOUT, USER_VERSIONS, Table, tables_of
from records.errors import InvalidSourceError
from records.legacy import LegacyTable

_FOREIGN: Final = "Give the SQLite ledger of AI-Researcher, schema revision 1 or 2."
_PARTIAL: Final = "The schema was changed or its migration cut short; import an untouched copy of the ledger."


def check_shape(link: sqlite3.Connection, version: int) -> None:
    """Check the whole schema of an open database.

    Args:
        link: the database.
        version: its `user_version`.

    Raises:
        InvalidSourceError: it is of no known revision; the first difference is named by table and column.
    """
    names = {_str(row[0]) for row in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    tables = {name for name in names if not name.startswith("sqlite_")}
    if not tables & {table.value for table in LegacyTable}:
        raise InvalidSourceError("ledger", ", ".join(sorted(tables)) or "no table", _FOREIGN)
    if version not in USER_VERSIONS:
        remedy = "Revision 1 has user_version 0, revision 2 has 2; another one was written by another program."
        raise InvalidSourceError("user_version", version, remedy)
    expected = tables_of(USER_VERSIONS[version])
    _check_names(link, tables, expected)
    for table in expected:
        _check_columns(link, table)
        _check_keys(link, table)


def _check_names(link: sqlite3.Connection, tables: set[str], expected: tuple[Table, ...]) -> None:
    known = {table.name.value for table in expected}
    for name in sorted(known - tables):
        raise InvalidSourceError(name, "the table is missing", _PARTIAL)
    for name in sorted(tables - known):
        later = LAYOUT.get(LegacyTable(name)) if name in set(LegacyTable) else None
        remedy = f"It belongs to revision {later.revision}. {_PARTIAL}" if later else _FOREIGN
        raise InvalidSourceError(name, "a table that this revision does not have", remedy)
    for kind, name in link.execute("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY 2"):
        raise InvalidSourceError(_str(name), f"a {_str(kind)}", _PARTIAL)


def _check_columns(link: sqlite3.Connection, table: Table) -> None:
    found = [
        (_str(name), _str(kind).upper(), bool(required), key, hidden)
        for _, name, kind, required, _, key, hidden in link.execute(f"PRAGMA table_xinfo({table.name})")
    ]
    expected = [(column.name, column.type, column.required, column.key, 0) for column in table.columns]
    for place, (wanted, met) in enumerate(zip(expected, found, strict=False), start=1):
        if wanted != met:
            raise InvalidSourceError(f"{table.name}: {wanted[0]}", f"column {place} is {_told(met)}", _wanted(wanted))
    for missing in expected[len(found) :]:
        raise InvalidSourceError(f"{table.name}: {missing[0]}", "the column is missing", _PARTIAL)
    for further in found[len(expected) :]:
        raise InvalidSourceError(f"{table.name}: {further[0]}", "a column that this revision does not have", _PARTIAL)


def _check_keys(link: sqlite3.Connection, table: Table) -> None:
    keys = {
        (_str(row[3]), _str(row[2]), _str(row[4])) for row in link.execute(f"PRAGMA foreign_key_list({table.name})")
    }
    _same(f"{table.name}: foreign keys", keys, set(table.foreign_keys))
    unique, indexes = set(), {}
    for _, name, is_unique, origin, partial in link.execute(f"PRAGMA index_list({table.name})"):
        index = _str(name)
        columns = tuple(
            _str(row[0] or "an expression") for row in link.execute("SELECT name FROM pragma_index_info(?)", [index])
        )
        if is_unique and not partial:
            unique.add(columns)
        if _str(origin) == "c":
            indexes[index] = ("partial", *columns) if partial else columns
    _same(f"{table.name}: unique columns", unique, set(table.unique))
    _same(f"{table.name}: indexes", set(indexes.items()), set(table.indexes.items()))


def _same(field: str, met: set[Any], wanted: set[Any]) -> None:
    if met != wanted:
        text = "; ".join(sorted(str(each) for each in met)) or "none"
        expected = "; ".join(sorted(str(each) for each in wanted)) or "none"
        raise InvalidSourceError(field, text, f"Expected: {expected}. {_PARTIAL}")


def _told(column: tuple[str, str, bool, int, int]) -> str:
    name, kind, required, key, hidden = column
    parts = [name, kind or "of no type"]
    parts += ["NOT NULL"] if required else []
    parts += [f"key {key}"] if key else []
    parts += ["hidden or generated"] if hidden else []
    return " ".join(parts)


def _wanted(column: tuple[str, str, bool, int, int]) -> str:
    return f"Expected: {_told(column)}. {_PARTIAL}"


def _str(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
