"""Draft the statements of the next revision: `python -m tests.data.draft_revision ledger > .../versions/r000M.sql`.

Both schemas are made on a server of their own, by the revisions that there are and from the definition, and described
by it; what differs becomes statements. A column that is new in a table of records is taken to hold the payload field of
its name, as those of the registry do. What needs a thought is a comment that begins with TODO: rows of new child tables
above all. The tests of the migrations say whether the draft is right.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import psycopg

from store.database import address_of
from store.description import describe
from store.install import create
from store.migrations.chain import LEDGER, RUNTIME, Chain
from store.migrations.run import transaction
from store.migrations.steps import Steps
from store.server import DatabaseUrls
from tests.data.freeze_store import throwaway

_APP: Final = ':"app"'
_FOREIGN_LAST: Final = ("PRIMARY", "UNIQUE", "CHECK", "FOREIGN")


def draft(before: Iterable[str], after: Iterable[str], chain: Chain) -> str:
    """Return the statements that lead from one description of a schema to another."""
    old, new = set(before), set(after)
    moved = _pointing(old - new, old & new)  # foreign keys hold the key that they point at
    old, new = old - new | moved, new - old | moved
    return "\n".join(_statements(_Lines(old, chain), _Lines(new, chain), set(after)))


def _pointing(gone: set[str], kept: set[str]) -> set[str]:
    """Return the foreign keys among `kept` whose target loses a key."""
    keys = [line.split(" ") for line in gone if re.match(r"constraint \S+ \S+ (PRIMARY|UNIQUE)", line)]
    targets = [
        f"REFERENCES {schema}.{words[1]}("
        for words in keys
        for schema in (LEDGER.definition.schema, RUNTIME.definition.schema)
    ]
    return {line for line in kept if line.startswith("constraint ") and any(each in line for each in targets)}


class _Lines:
    """What is in one description only, by kind, in a form that statements are made of."""

    def __init__(self, lines: Iterable[str], chain: Chain) -> None:
        self._lines = sorted(lines)
        self.definition = chain.definition

    def of(self, kind: str) -> list[str]:
        return [line.partition(" ")[2] for line in self._lines if line.startswith(f"{kind} ")]

    def place(self, table: str) -> str:
        return f'{self.definition.schema}."{table}"'

    def constraints(self) -> list[tuple[str, str, str]]:
        parts = [line.split(" ", 2) for line in self.of("constraint")]
        rank = {kind: place for place, kind in enumerate(_FOREIGN_LAST)}
        parts.sort(key=lambda part: (rank.get(part[2].split()[0], 0), part))
        return [(table, name, text) for table, name, text in parts]

    def indexes(self) -> list[tuple[str, str]]:
        owned = {name for _, name, _ in self.constraints()}
        named = [(re.split(r"INDEX (\S+) ", line)[1], line) for line in self.of("index")]
        return [(name, line) for name, line in named if name not in owned]

    def triggers(self) -> list[tuple[str, str, str]]:
        found = []
        for line in self.of("trigger"):
            text = line.rpartition(" state ")[0]
            name, table = re.match(r"CREATE TRIGGER (\S+) .*? ON (\S+) ", text).groups()  # type: ignore[union-attr]  # the server's own form
            found.append((name, table, text))
        return found

    def columns(self) -> list[tuple[str, str, str]]:
        parts = [line.split(" ", 1) for line in self.of("column")]
        return [(*name.split(".", 1), rest) for name, rest in parts]  # type: ignore[misc]  # a table and a column


def _statements(gone: _Lines, new: _Lines, after: set[str]) -> Iterator[str]:
    made = set(new.of("table"))
    foreign = [each for each in new.constraints() if each[2].startswith("FOREIGN")]
    yield from _dropped(gone)
    yield from _columns(gone, new, made, after)
    keys = [each for each in new.constraints() if each not in foreign]  # new tables point at them
    yield from _constraints(new, made, keys)
    for text in new.definition.statements():
        if (found := re.match(r'\s*CREATE TABLE \w+\."?(\w+)"? ', text)) and found[1] in made:
            yield f"{text.strip()};"
            if f'column {found[1]}.parent_id text collate "default" not null' in after:
                yield f'-- TODO steps.fill_child(..., "{found[1]}", ...), if records have such items already'
    yield from _constraints(new, made, foreign)
    yield from (f"{text};" for _, text in new.indexes())
    yield from (f"{text.strip()};" for text in new.of("function"))
    for name, table, text in new.triggers():
        yield f"{text};"
        yield f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name};"
    for line in new.of("grant"):
        verb, _, table, *_ = line.split()
        yield f"GRANT {verb} ON {new.place(table)} TO {_APP};"


def _constraints(new: _Lines, made: set[str], wanted: list[tuple[str, str, str]]) -> Iterator[str]:
    for table, name, text in wanted:
        if table not in made:
            yield f'ALTER TABLE {new.place(table)} ADD CONSTRAINT "{name}" {text};'


def _dropped(gone: _Lines) -> Iterator[str]:
    lost = set(gone.of("table"))
    for table in sorted(lost):
        yield f"-- TODO table {table} is no longer defined; records are never dropped"
    for name, table, _ in gone.triggers():
        yield f"DROP TRIGGER {name} ON {table};"
    for table, name, _ in reversed(gone.constraints()):
        yield f'ALTER TABLE {gone.place(table)} DROP CONSTRAINT "{name}";'
    yield from (f"DROP INDEX {gone.place(name)};" for name, _ in gone.indexes())
    for text in gone.of("function"):
        yield f"-- TODO drop or replace: {text.splitlines()[0]}"


def _columns(gone: _Lines, new: _Lines, made: set[str], after: set[str]) -> Iterator[str]:
    changed = {(table, name): rest for table, name, rest in gone.columns()}
    for table, name, rest in new.columns():
        if table in made:
            continue
        kind = rest.split(" collate ")[0].removesuffix(" not null")
        before = changed.get((table, name))
        if before is not None and before.removesuffix(" not null") == rest.removesuffix(" not null"):
            verb = "SET" if rest.endswith("not null") else "DROP"
            yield f'ALTER TABLE {new.place(table)} ALTER COLUMN "{name}" {verb} NOT NULL;'
            continue
        of_records = any(line.startswith(f"column {table}.payload ") for line in after)
        if (table, name) in changed or not of_records:
            yield f"-- TODO column {table}.{name}: {rest}"
            continue
        place = f"ALTER TABLE {new.place(table)}"
        yield f'{place} ADD COLUMN "{name}" {kind};'
        yield f"{place} ALTER COLUMN \"{name}\" TYPE {kind} USING (payload::jsonb ->> '{name}')::{kind};"
        if rest.endswith("not null"):
            yield f'{place} ALTER COLUMN "{name}" SET NOT NULL;'


def described(urls: DatabaseUrls, chain: Chain) -> tuple[list[str], list[str]]:
    """Return what the revisions make and what the definition makes on a server whose databases are empty."""
    definition = chain.definition
    admin, app = (getattr(urls, f"{definition.schema}_{role}") for role in ("admin", "app"))
    role, found = address_of(app).role, []
    for walked in (True, False):
        with transaction(admin) as connection:
            raw: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg's own
            if walked:
                raw.execute(f"CREATE SCHEMA {definition.schema}".encode())
                chain.upgrade(connection, Steps(raw, definition.schema, role), "head")
            else:
                create(raw, role, definition)
            found.append(describe(raw, definition.schema))
            connection.rollback()
    return found[0], found[1]


if __name__ == "__main__":
    wanted = {"ledger": LEDGER, "runtime": RUNTIME}[sys.argv[1]]
    with throwaway() as (server_urls, _):
        sys.stdout.write(draft(*described(server_urls, wanted), wanted) + "\n")
