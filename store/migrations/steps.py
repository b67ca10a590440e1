"""What revisions are written with.

Rules kept here:

- every step runs in the one transaction of the migration, so a revision is applied whole or not at all;
- a revision says what it does in statements of its own, never by the registry of kinds: the registry of a later program
  is another one, and a revision must make the same then;
- the triggers that keep records append-only are never switched off. A column that is added to records gets its values
  by DDL (`add_column`), rows that are added are inserts (`fill`), and nothing else changes in what is stored;
- a constraint keeps the name it has, so that a migrated schema has the names of a new one.

A step that meets what it does not expect is a mistake of the revision and raises `RuntimeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from psycopg import sql

from records.canonical import parse_canonical
from store.database import Connection, on_table
from store.install import guard_table

_BATCH: Final = 500
_ROLE: Final = ':"app"'
_HELD: Final = """
    SELECT held.conname FROM pg_constraint AS held
    WHERE held.conrelid = %s::regclass AND held.contype = %s AND (%s::text[] IS NULL OR %s::text[] = ARRAY(
        SELECT part.attname::text FROM unnest(held.conkey) WITH ORDINALITY AS key (number, place)
        JOIN pg_attribute AS part ON part.attrelid = held.conrelid AND part.attnum = key.number ORDER BY key.place))
"""
_POINTING: Final = """
    SELECT held.conrelid::regclass::text, held.conname, pg_get_constraintdef(held.oid)
    FROM pg_constraint AS held WHERE held.confrelid = %s::regclass AND held.contype = 'f' ORDER BY 1, 2
"""


class Parent(NamedTuple):
    """A stored record as a back-fill reads it."""

    id: str
    namespace: str
    payload: dict[str, Any]


class Steps:
    """The steps of one migration of one schema."""

    def __init__(self, connection: Connection, schema: str, role: str) -> None:
        """Work in the open transaction of `connection`; `role` is the application's."""
        self.connection = connection
        self.schema = schema
        self.role = role
        self._streams = 0

    def run(self, statements: str) -> None:
        """Run statements as they stand; `:"app"` in them is the application role."""
        self.connection.execute(statements.replace(_ROLE, sql.Identifier(self.role).as_string()).encode())

    def run_file(self, path: Path) -> None:
        """Run the statements of a file beside the revision."""
        self.run(path.read_text(encoding="utf-8"))

    def append_only(self, *tables: str) -> None:
        """Make new tables append-only: guards, and the application may read and insert."""
        for table in tables:
            guard_table(self.connection, self.schema, table)
            self._on("GRANT SELECT, INSERT ON {table} TO {role}", table, role=sql.Identifier(self.role))

    def movable(self, *tables: str) -> None:
        """Let the application read, insert and update in new tables whose rows move."""
        for table in tables:
            self._on("GRANT SELECT, INSERT, UPDATE ON {table} TO {role}", table, role=sql.Identifier(self.role))

    def fill(
        self, source: str, target: str, columns: Sequence[str], rows: Callable[[Parent], Iterable[Sequence[Any]]]
    ) -> int:
        """Insert into `target` the rows that each record of `source` gives, in batches; return how many.

        Args:
            source: a table of records.
            target: the table to fill.
            columns: the columns of each row.
            rows: returns the rows of one record.
        """
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        places = sql.SQL(", ").join(sql.Placeholder() * len(columns))
        insert = self._text("INSERT INTO {table} ({names}) VALUES ({places})", target, names=names, places=places)
        count = 0
        with self.connection.cursor() as cursor:
            for batch in self._batches(source):
                made = [tuple(row) for parent in batch for row in rows(parent)]
                if made:
                    cursor.executemany(insert, made)
                count += len(made)
        return count

    def fill_child(self, source: str, field: str, target: str, columns: Sequence[str]) -> int:
        """Fill a child table from a list in the payload: one row for each item, `ordinal` from 1; return how many."""

        def rows(parent: Parent) -> Iterator[Sequence[Any]]:
            for ordinal, item in enumerate(parent.payload[field], start=1):
                yield parent.id, ordinal, parent.namespace, *(item[name] for name in columns)

        return self.fill(source, target, ("parent_id", "ordinal", "namespace", *columns), rows)

    def add_column(self, table: str, name: str, kind: str, value: str, *, nullable: bool = False) -> None:
        """Add a column to a table of records, with the value that an expression gives for each row.

        The value is computed while the table is rewritten, so no row is updated and the guards stay on.

        Args:
            table: the table.
            name: the new column.
            kind: its type.
            value: an SQL expression over the row, such as `payload::jsonb ->> 'name'`.
            nullable: whether the column may be null.
        """
        parts = {"name": sql.Identifier(name), "kind": sql.SQL(kind), "value": sql.SQL(value)}
        self._on("ALTER TABLE {table} ADD COLUMN {name} {kind}", table, **parts)
        self._on("ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind} USING ({value})::{kind}", table, **parts)
        if not nullable:
            self._on("ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL", table, **parts)

    def replace_check(self, table: str, column: str, condition: str) -> None:
        """Put another condition in the place of the one CHECK over a column; every row is checked."""
        self._replace(table, self._constraint(table, "c", (column,)), f"CHECK ({condition})")

    def replace_primary_key(self, table: str, columns: Sequence[str]) -> None:
        """Make other columns the primary key."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns)).as_string()
        self._replace(table, self._constraint(table, "p", None), f"PRIMARY KEY ({names})")

    def drop_unique(self, table: str, *columns: str) -> None:
        """Drop the UNIQUE over exactly these columns."""
        name = self._constraint(table, "u", columns)
        self._on("ALTER TABLE {table} DROP CONSTRAINT {name}", table, name=sql.Identifier(name))

    def drop_index(self, *names: str) -> None:
        """Drop indexes."""
        for name in names:
            self._on("DROP INDEX {table}", name)

    @contextmanager
    def without_references(self, table: str) -> Iterator[None]:
        """Drop the foreign keys that point at a table, and make them again after the block; every row is checked."""
        found = self.connection.execute(_POINTING, [f"{self.schema}.{table}"]).fetchall()
        for place, name, _ in found:
            self.run(f"ALTER TABLE {place} DROP CONSTRAINT {sql.Identifier(name).as_string()}")
        yield
        for place, name, text in found:
            self.run(f"ALTER TABLE {place} ADD CONSTRAINT {sql.Identifier(name).as_string()} {text}")

    def _replace(self, table: str, name: str, definition: str) -> None:
        place = sql.Identifier(self.schema, table).as_string()
        named = sql.Identifier(name).as_string()
        self.run(f"ALTER TABLE {place} DROP CONSTRAINT {named}, ADD CONSTRAINT {named} {definition}")

    def _constraint(self, table: str, kind: str, columns: Sequence[str] | None) -> str:
        wanted = None if columns is None else list(columns)
        parameters = [sql.Identifier(self.schema, table).as_string(), kind, wanted, wanted]
        found = self.connection.execute(_HELD, parameters).fetchall()
        if len(found) != 1:
            raise RuntimeError(f"{table} has {len(found)} constraints of kind {kind} over {columns}, not one")
        return str(found[0][0])

    def _batches(self, table: str) -> Iterator[list[Parent]]:
        self._streams += 1
        with self.connection.cursor(f"vrm_fill_{self._streams}") as cursor:
            cursor.execute(self._text("SELECT id, namespace, payload FROM {table} ORDER BY namespace, position", table))
            while batch := cursor.fetchmany(_BATCH):
                yield [Parent(row[0], row[1], parse_canonical(row[2])) for row in batch]

    def _text(self, statement: str, table: str, **parts: sql.Composable) -> sql.Composed:
        return on_table(statement, self.schema, table, **parts)

    def _on(self, statement: str, table: str, **parts: sql.Composable) -> None:
        self.connection.execute(self._text(statement, table, **parts))
