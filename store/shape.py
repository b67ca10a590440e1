"""Whether the tables of a schema have the shape that their definition gives them.

Looked at on every opening, so it is three queries: each table is there and durable, with its columns by type and
nullability, its indexes by name, and as many constraints of each kind as it should have. What a definition says in
words of its own, the text of a CHECK for one, is compared by the migrations, which have a second schema to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from records.errors import SchemaError
from store.database import Connection

_COLUMNS: Final = """
    SELECT kind.relname, part.attname, format_type(part.atttypid, part.atttypmod), part.attnotnull
    FROM pg_attribute AS part JOIN pg_class AS kind ON kind.oid = part.attrelid
    JOIN pg_namespace AS space ON space.oid = kind.relnamespace
    WHERE space.nspname = %s AND kind.relkind = 'r' AND kind.relpersistence = 'p'
        AND part.attnum > 0 AND NOT part.attisdropped
"""
_INDEXES: Final = """
    SELECT kind.relname, name.relname FROM pg_index AS way JOIN pg_class AS name ON name.oid = way.indexrelid
    JOIN pg_class AS kind ON kind.oid = way.indrelid JOIN pg_namespace AS space ON space.oid = kind.relnamespace
    WHERE space.nspname = %s AND way.indisvalid
"""
_CONSTRAINTS: Final = """
    SELECT kind.relname, held.contype::text FROM pg_constraint AS held JOIN pg_class AS kind ON kind.oid = held.conrelid
    JOIN pg_namespace AS space ON space.oid = kind.relnamespace WHERE space.nspname = %s AND held.convalidated
"""
_KINDS: Final = {"p": "primary key", "u": "unique", "f": "foreign key", "c": "check"}
_SHOWN: Final = 3


def require_shape(connection: Connection, metadata: sa.MetaData) -> None:
    """Refuse a schema that lacks something of its definition; what it has besides is not looked at.

    Raises:
        SchemaError: it is partial; the first things missing are named.
    """
    schema = str(metadata.schema)
    found = _found(connection, schema)
    missing = sorted(_wanted(metadata) - found)
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        shown = "; ".join(missing[:_SHOWN]) + more
        raise SchemaError(f"{schema} lacks", shown, "The schema is partial; restore it from a backup.")


def _wanted(metadata: sa.MetaData) -> set[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
    facts: set[str] = set()
    for table in metadata.sorted_tables:
        facts.add(f"table {table.name}")
        for column in table.columns:
            facts.add(_column(table.name, column.name, column.type.compile(dialect).lower(), not column.nullable))
        facts |= {f"index {index.name} on {table.name}" for index in table.indexes}
        kinds = [_kind(constraint) for constraint in table.constraints]
        kinds += ["c" for column in table.columns for _ in column.constraints]
        facts |= _counted((table.name, kind) for kind in kinds)
    return facts


def _found(connection: Connection, schema: str) -> set[str]:
    columns = connection.execute(_COLUMNS, [schema]).fetchall()
    facts = {f"table {row[0]}" for row in columns} | {_column(*row) for row in columns}
    facts |= {f"index {name} on {table}" for table, name in connection.execute(_INDEXES, [schema]).fetchall()}
    return facts | _counted(connection.execute(_CONSTRAINTS, [schema]).fetchall())


def _column(table: str, name: str, kind: str, filled: bool) -> str:
    return f"column {table}.{name} {kind}{' not null' if filled else ''}"


def _kind(constraint: sa.Constraint) -> str:
    match constraint:
        case sa.PrimaryKeyConstraint():
            return "p"
        case sa.UniqueConstraint():
            return "u"
        case sa.ForeignKeyConstraint():
            return "f"
        case _:
            return "c"


def _counted(pairs: Iterable[tuple[str, ...]]) -> set[str]:
    """Return a fact for the first, the second... constraint of a kind on a table."""
    return {
        f"{_KINDS[kind]} {number} on {table}"
        for (table, kind), count in Counter(pairs).items()
        if kind in _KINDS
        for number in range(1, count + 1)
    }
