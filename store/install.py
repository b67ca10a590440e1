"""Bringing a database up to this program's schema, or refusing it.

Rules kept here:

- everything is made in one transaction, so a half-made schema cannot be met;
- opening compares the marks (`store.marks`) with the definition and refuses what is unknown or partial; an earlier
  revision is refused with the remedy and is brought up to date by `store.migrations` alone;
- append-only tables get triggers against UPDATE, DELETE and TRUNCATE, movable ones against loss and against a step
  back (`store.guards`), and the application role gets no more than it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from records.canonical import digest_bytes
from records.errors import InvalidInputError, SchemaError, UnavailableError
from store import guards, marks
from store.database import Connection, connect, on_table, translated
from store.shape import require_shape

ALONE: Final = "SELECT pg_advisory_xact_lock(hashtext('vrm install'))"
"""Who makes or migrates a schema does so alone in its database."""

_REFUSE: Final = """
CREATE FUNCTION {schema}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.%: records are append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$
"""

_GUARDED: Final = """
    SELECT kind.relname FROM pg_trigger AS guard
    JOIN pg_class AS kind ON kind.oid = guard.tgrelid
    JOIN pg_namespace AS space ON space.oid = kind.relnamespace
    JOIN pg_proc AS action ON action.oid = guard.tgfoid
    WHERE space.nspname = %s AND action.proname = %s AND guard.tgenabled = 'A'
    GROUP BY kind.relname HAVING count(*) = %s
"""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A schema as this program wants it; `revision` is the last one of its chain in `store.migrations`."""

    schema: str
    revision: str
    metadata: sa.MetaData
    append_only: tuple[str, ...]
    movable: tuple[str, ...]
    functions: tuple[str, ...] = ()

    def statements(self) -> list[str]:
        """Return the DDL, in an order that satisfies every foreign key."""
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
        tables = self.metadata.sorted_tables
        made = [str(CreateTable(table).compile(dialect=dialect)) for table in tables]
        indexes = [index for table in tables for index in sorted(table.indexes, key=lambda item: str(item.name))]
        made += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
        return [*made, *self.functions]

    def guards(self) -> list[str]:
        """Return the DDL that guards the movable tables and the revision row."""
        return guards.guard_statements(
            self.schema, [table for table in self.metadata.sorted_tables if table.name in self.movable]
        )

    @property
    def digest(self) -> str:
        """The digest of the definition; it changes with every table, column, constraint and guard."""
        parts = [*self.statements(), *self.guards(), *sorted(self.append_only), *sorted(self.movable)]
        return digest_bytes("\n".join(parts).encode())


def install(admin_dsn: str, application_role: str, definition: Definition) -> None:
    """Make the schema if the database has none, or check that it has this one.

    Raises:
        OutdatedSchemaError: the database holds an earlier revision of it.
        SchemaError: the database holds a schema of that name that is not this program's, or a later revision of it.
        UnavailableError: the server cannot be reached, or the role may not create a schema.
    """
    connection = connect(admin_dsn, "install")
    try:
        with translated("install"), connection.transaction():
            connection.execute(ALONE)
            if marks.exists(connection, definition.schema):
                check(connection, definition)
            else:
                require_creator(connection)
                create(connection, application_role, definition)
    finally:
        connection.close()


def check(connection: Connection, definition: Definition) -> None:
    """Refuse a database that does not hold exactly this schema.

    Raises:
        OutdatedSchemaError: the schema is of an earlier revision.
        SchemaError: the schema is missing, foreign, partial or of an unknown revision.
    """
    schema = definition.schema
    found = marks.read(connection, schema)
    marks.require(found, schema, definition.revision, definition.digest)
    require_shape(connection, definition.metadata)
    open_tables = sorted(
        (set(definition.append_only) - _guarded(connection, schema, "refuse_change", 2))
        | ({*definition.movable, guards.MARKER} - _guarded(connection, schema, guards.FUNCTION, guards.COUNT))
    )
    if open_tables:
        raise SchemaError(
            f"{schema} triggers", ", ".join(open_tables), "These tables could be changed; restore the schema."
        )


def _guarded(connection: Connection, schema: str, function: str, count: int) -> set[str]:
    """Return the tables with so many triggers that fire always and call the function."""
    return {name for (name,) in connection.execute(_GUARDED, [schema, function, count]).fetchall()}


def require_creator(connection: Connection) -> None:
    """Refuse a role that may not create a schema, before the database does it in its own words."""
    row = connection.execute(
        "SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE')"
    ).fetchone()
    if row is not None and not row[2]:
        remedy = f"Name a role that may create a schema in {row[1]} by VRM_LEDGER_ADMIN_DSN or VRM_RUNTIME_ADMIN_DSN."
        raise UnavailableError("database role", row[0], remedy)


def create(connection: Connection, role: str, definition: Definition) -> None:
    """Make the schema from its definition, with its marks, in the transaction of the caller."""
    schema = definition.schema
    if not role.replace("_", "").isalnum():
        raise InvalidInputError("application role", role, "Use letters, digits and underscores.")
    connection.execute(_sql("CREATE SCHEMA {schema}", schema))
    for statement in definition.statements():
        connection.execute(statement)
    connection.execute(_sql(_REFUSE, schema))
    for table in definition.append_only:
        guard_table(connection, schema, table)
    marks.make(connection, schema, definition.revision, definition.digest)
    for statement in definition.guards():
        connection.execute(statement)
    grants = sql.Identifier(role)
    connection.execute(_sql("GRANT USAGE ON SCHEMA {schema} TO {role}", schema, role=grants))
    connection.execute(_sql("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}", schema, role=grants))
    for table in definition.append_only:
        connection.execute(on_table("GRANT INSERT ON {table} TO {role}", schema, table, role=grants))
    for table in definition.movable:
        connection.execute(on_table("GRANT INSERT, UPDATE ON {table} TO {role}", schema, table, role=grants))


def guard_table(connection: Connection, schema: str, table: str) -> None:
    """Make a table append-only, for its owner and for superusers too."""
    for event, scope in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        name = sql.Identifier(f"{table[:40]}_keeps_{scope.lower()}")
        statement = (
            f"CREATE TRIGGER {{name}} BEFORE {event} ON {{table}} FOR EACH {scope} "
            "EXECUTE FUNCTION {schema}.refuse_change()"
        )
        connection.execute(on_table(statement, schema, table, name=name))
        connection.execute(on_table("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}", schema, table, name=name))


def _sql(statement: str, schema: str, **parts: Any) -> sql.Composed:
    return sql.SQL(statement).format(schema=sql.Identifier(schema), **parts)
