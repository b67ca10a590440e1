"""The database itself keeps history: what no role and no careless session can do, in every table of both schemas.

Every table gets a row that no foreign key is asked about, inside one transaction of the superuser; each attempt runs in
a savepoint as the role in question, and all of it is rolled back. New tables are covered by being declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from records.errors import IntegrityError
from store import guards
from store.database import translated
from store.install import Definition
from store.ledger.schema import DEFINITION as LEDGER
from store.ledger.schema import RECORD_TABLES
from store.runtime.schema import DEFINITION as RUNTIME
from tests.support.stores import Addresses

Connection = psycopg.Connection[Any]

DEFINITIONS: Final = {"ledger": LEDGER, "runtime": RUNTIME}
GROWING: Final = [("ledger", name) for name in LEDGER.append_only]
MOVING: Final = [(schema, name) for schema, made in DEFINITIONS.items() for name in (*made.movable, guards.MARKER)]
SESSIONS: Final = [(role, mode) for role in ("superuser", "admin") for mode in ("origin", "replica")]


def table_of(schema: str, name: str) -> sa.Table:
    return DEFINITIONS[schema].metadata.tables[f"{schema}.{name}"]


def some_value(column: sa.Column[Any], table: sa.Table) -> Any:
    """Return a value that the column takes: a legal choice where there is a list of them."""
    if isinstance(column.type, sa.BigInteger):
        return 5
    if isinstance(column.type, sa.Boolean):
        return True
    every = {*column.constraints, *table.constraints}
    checks = [str(each.sqltext) for each in every if isinstance(each, sa.CheckConstraint)]
    choices = [text for text in checks if text.startswith(f"{column.name} IN")]
    if any(text.startswith(f"octet_length({column.name})") for text in checks):
        return "a" * 64
    if choices:
        return re.findall(r"'([^']+)'", choices[0])[0]
    return "y" if column.name == "target_memory_id" else "x"  # nothing relates to itself


def put_a_row(link: Connection, table: sa.Table) -> None:
    names = [column.name for column in table.columns]
    link.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier(str(table.schema), table.name),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
        ),
        [some_value(column, table) for column in table.columns],
    )


@pytest.fixture(scope="module")
def filled(ledger_database: Addresses, runtime_database: Addresses) -> Iterator[dict[str, Connection]]:
    """The superuser's open transactions, in which every table has a row."""
    with psycopg.connect(ledger_database.superuser) as ledger, psycopg.connect(runtime_database.superuser) as runtime:
        links = {"ledger": ledger, "runtime": runtime}
        for schema, link in links.items():
            link.execute("SET LOCAL session_replication_role = replica")  # no foreign key is asked
            for table in DEFINITIONS[schema].metadata.sorted_tables:
                put_a_row(link, table)
        yield links
        for link in links.values():
            link.rollback()


@pytest.fixture(scope="module")
def roles(ledger_database: Addresses, runtime_database: Addresses) -> dict[tuple[str, str], str]:
    found = {("ledger", "app"): ledger_database.app_role, ("runtime", "app"): runtime_database.app_role}
    for schema in ("ledger", "runtime"):
        found[schema, "admin"] = f"vrm_{schema}_admin"
    return found


def attempt(link: Connection, role: str | None, mode: str, statement: sql.Composed) -> None:
    """Carry out a statement as a role and undo it."""
    with link.transaction(force_rollback=True):
        link.execute(sql.SQL("SET LOCAL session_replication_role = {}").format(sql.Identifier(mode)))
        if role is not None:
            link.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        link.execute(statement)


def on(template: str, schema: str, table: str, column: str = "") -> sql.Composed:
    return sql.SQL(template).format(sql.Identifier(schema, table), sql.Identifier(column))


def refused(link: Connection, role: str | None, mode: str, statement: sql.Composed, match: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=match):
        attempt(link, role, mode, statement)


class TestGrowingTables:
    @pytest.mark.parametrize(("role", "mode"), SESSIONS)
    @pytest.mark.parametrize(("schema", "table"), GROWING)
    def test_vrm_l01_owner_and_superuser_change_and_remove_nothing(  # noqa: PLR0917  # pytest gives them by name
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str, table: str, role: str,
        mode: str,
    ) -> None:  # fmt: skip
        first = table_of(schema, table).columns.keys()[0]
        for verb in ("UPDATE {0} SET {1} = {1}", "DELETE FROM {0}", "TRUNCATE {0} CASCADE"):
            refused(filled[schema], roles.get((schema, role)), mode, on(verb, schema, table, first), "append-only")

    def test_the_list_is_whole(self) -> None:
        """Records, their children, journal and receipts; what is not in the list is one of the three that move."""
        every = {table.name for table in LEDGER.metadata.sorted_tables}
        assert set(LEDGER.append_only) == every - {"namespace_heads", "scope_variant_heads", "owners"}
        assert {"ledger_commits_v1", "append_receipts", "observation_artifacts"} < set(LEDGER.append_only)
        assert {table.name for table in RECORD_TABLES.values()} < set(LEDGER.append_only)


class TestMovingTables:
    @pytest.mark.parametrize(("role", "mode"), SESSIONS)
    @pytest.mark.parametrize(("schema", "table"), MOVING)
    def test_no_row_is_lost(  # noqa: PLR0917  # pytest gives them by name
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str, table: str, role: str,
        mode: str,
    ) -> None:  # fmt: skip
        for verb in ("DELETE FROM {}", "TRUNCATE {} CASCADE"):
            refused(filled[schema], roles.get((schema, role)), mode, on(verb, schema, table), "never lost")

    @pytest.mark.parametrize("mode", ["origin", "replica"])
    @pytest.mark.parametrize("role", ["superuser", "admin", "app"])
    @pytest.mark.parametrize(("schema", "table"), [place for place in MOVING if place[1] != guards.MARKER])
    def test_no_counter_goes_back_and_no_key_changes(  # noqa: PLR0917  # pytest gives them by name
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str, table: str, role: str,
        mode: str,
    ) -> None:  # fmt: skip
        if (role, mode) == ("app", "replica"):
            mode = "origin"  # it may not choose; `test_the_application_role_cannot_switch_triggers_off`
        made = table_of(schema, table)
        steps = [(column.name, "{1} - 1") for column in made.columns if column.info == guards.RISES]
        steps += [(column.name, "{1} || 'y'") for column in made.columns if column.info == guards.FIXED]
        steps += [(column.name, "{1} || 'y'") for column in made.primary_key.columns]
        assert any(change == "{1} - 1" for _, change in steps), "a movable table has a counter"
        for column, change in steps:
            statement = on(f"UPDATE {{0}} SET {{1}} = {change}", schema, table, column)
            refused(filled[schema], roles.get((schema, role)), mode, statement, "never move back")

    @pytest.mark.parametrize(("schema", "table"), [place for place in MOVING if place[1] != guards.MARKER])
    def test_forward_and_in_place_are_free(
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str, table: str
    ) -> None:
        for column in table_of(schema, table).columns:
            if column.info == guards.RISES and column.name not in {"evidence", "lifecycle", "retention"}:
                statement = on("UPDATE {0} SET {1} = {1} + 1", schema, table, column.name)
                attempt(filled[schema], roles[schema, "app"], "origin", statement)
                statement = on("UPDATE {0} SET {1} = {1}", schema, table, column.name)
                attempt(filled[schema], roles[schema, "app"], "origin", statement)

    @pytest.mark.parametrize("schema", sorted(DEFINITIONS))
    def test_the_marker_changes_only_with_a_higher_revision(self, filled: dict[str, Connection], schema: str) -> None:
        link = filled[schema]
        for change in ("definition_digest = 'x'", "revision = '0'"):
            refused(link, None, "replica", on(f"UPDATE {{}} SET {change}", schema, guards.MARKER), "never move back")
        attempt(link, None, "origin", on("UPDATE {} SET revision = '1000'", schema, guards.MARKER))


class TestApplicationRole:
    @pytest.mark.parametrize(("schema", "table"), GROWING + MOVING)
    def test_it_may_not_even_try(
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str, table: str
    ) -> None:
        moving = (schema, table) in MOVING and table != guards.MARKER
        verbs = ["DELETE FROM {}", "TRUNCATE {} CASCADE"] + ([] if moving else ["UPDATE {} SET {} = NULL"])
        column = "revision" if table == guards.MARKER else table_of(schema, table).columns.keys()[0]
        for verb in verbs:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attempt(filled[schema], roles[schema, "app"], "origin", on(verb, schema, table, column))

    @pytest.mark.parametrize("schema", sorted(DEFINITIONS))
    def test_it_has_no_more_than_it_needs(
        self, filled: dict[str, Connection], roles: dict[tuple[str, str], str], schema: str
    ) -> None:
        definition: Definition = DEFINITIONS[schema]
        rows = filled[schema].execute(
            "SELECT c.relname, p.verb FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, "
            "unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER']) AS p(verb) "
            "WHERE n.nspname = %s AND c.relkind = 'r' AND has_table_privilege(%s, c.oid, p.verb)",
            [schema, roles[schema, "app"]],
        )
        granted: dict[str, set[str]] = {}
        for table, verb in rows.fetchall():
            granted.setdefault(table, set()).add(verb)
        expected = {table: {"SELECT", "INSERT"} for table in definition.append_only}
        expected |= {table: {"SELECT", "INSERT", "UPDATE"} for table in definition.movable}
        assert granted == expected | {guards.MARKER: {"SELECT"}, "alembic_version": {"SELECT"}}

    @pytest.mark.parametrize(
        "statement",
        [
            "SET session_replication_role = replica",
            "ALTER TABLE ledger.attempts DISABLE TRIGGER ALL",
            "DROP TRIGGER attempts_keeps_row ON ledger.attempts",
            "CREATE TABLE ledger.mine (n int)",
            "CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE sql AS 'SELECT NULL'",
        ],
    )
    def test_it_cannot_switch_triggers_off(self, ledger_database: Addresses, statement: str) -> None:
        with psycopg.connect(ledger_database.app) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute(statement.encode())

    @pytest.mark.parametrize("statement", ["DELETE FROM ledger.owners", "UPDATE ledger.attempts SET payload = ''"])
    def test_refusals_are_our_errors(self, ledger_database: Addresses, statement: str) -> None:
        with psycopg.connect(ledger_database.app) as link, pytest.raises(IntegrityError), translated("ledger"):
            link.execute(statement.encode())


@pytest.mark.parametrize("schema", sorted(DEFINITIONS))
def test_every_table_has_its_guards_and_they_fire_always(filled: dict[str, Connection], schema: str) -> None:
    definition = DEFINITIONS[schema]
    rows = filled[schema].execute(
        "SELECT c.relname, array_agg(t.tgtype ORDER BY t.tgtype) FROM pg_trigger t "
        "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND NOT t.tgisinternal AND t.tgenabled = 'A' GROUP BY 1",
        [schema],
    )
    # pg_trigger.h: ROW 1, BEFORE 2, DELETE 8, UPDATE 16, TRUNCATE 32
    expected = {table: [1 | 2 | 8 | 16, 2 | 32] for table in definition.append_only}
    expected |= {table: [1 | 2 | 8, 1 | 2 | 16, 2 | 32] for table in (*definition.movable, guards.MARKER)}
    assert dict(rows.fetchall()) == expected
