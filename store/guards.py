"""Triggers for tables whose rows move: no row is ever lost, a key never changes, a counter never goes back.

Rules kept here:

- the condition stands in WHEN, so that the function is called on a violation only: an update that moves forward, of
  which each commit has one, pays for a comparison and no call;
- a column says in its declaration what it promises (`RISES`, `FIXED`); primary keys are always fixed;
- triggers fire ALWAYS, in sessions of replication too.

Tables that only grow have a stricter guard, made by `store.install`.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from store import marks

RISES: Final = {"promise": "rises"}
"""Information of a column whose value never gets smaller."""

FIXED: Final = {"promise": "fixed"}
"""Information of a column whose value never changes."""

FUNCTION: Final = "refuse_loss"
"""What the triggers call."""

COUNT: Final = 3
"""How many triggers guard one table: against DELETE, against TRUNCATE, against a step back."""

MARKER: Final = marks.TABLE
"""A table beside the movable ones: a change of its row, which says the schema's revision, must raise the revision."""

_FUNCTION: Final = """
CREATE FUNCTION {schema}.{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.%: rows are never lost and never move back', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$
"""


def guard_statements(schema: str, tables: list[sa.Table]) -> list[str]:
    """Return the DDL of the function and of every trigger, the marker's included; the tables exist by then."""
    statements = [_FUNCTION.format(schema=schema, name=FUNCTION)]
    for table in tables:
        statements += _guard(schema, table.name, _steps_back(table))
    return [*statements, *_guard(schema, MARKER, "new.revision::bigint <= old.revision::bigint")]


def _steps_back(table: sa.Table) -> str:
    """Return the condition under which an update breaks what the columns promise."""
    broken = [f"new.{name} <> old.{name}" for name in table.primary_key.columns.keys()]  # noqa: SIM118  # not a dict
    for column in table.columns:
        match column.info.get("promise"):
            case "rises":
                broken.append(f"new.{column.name} < old.{column.name}")
            case "fixed":
                broken.append(f"new.{column.name} IS DISTINCT FROM old.{column.name}")
    return " OR ".join(broken)


def _guard(schema: str, table: str, condition: str) -> list[str]:
    place, statements = f'{schema}."{table}"', []
    for event, scope, when in (
        ("DELETE", "ROW", ""),
        ("TRUNCATE", "STATEMENT", ""),
        ("UPDATE", "ROW", f" WHEN ({condition})"),
    ):
        name = f"{table[:40]}_refuses_{event.lower()}"
        statements.append(
            f"CREATE TRIGGER {name} BEFORE {event} ON {place} FOR EACH {scope}{when} "
            f"EXECUTE FUNCTION {schema}.{FUNCTION}()"
        )
        statements.append(f"ALTER TABLE {place} ENABLE ALWAYS TRIGGER {name}")
    return statements
