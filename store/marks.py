"""The marks by which a schema of ours is known: which revision it is of, and by which definition.

Rules kept here:

- `schema_revision` is the mark that opening reads: one row with the revision and the digest of its definition. A schema
  of one of our names without that table is foreign and is never touched;
- `alembic_version` is the mark that the migrations read. Both are written in the transaction that makes or changes the
  schema, and a schema in which they differ is refused. Only a schema of revision 1 may lack the second: the programs
  that made those knew no migrations;
- revisions are whole numbers without gaps, so an earlier one is told from a later one without loading the migrations.

Not handled here: whether the tables are there (`store.install`), how a revision is reached (`store.migrations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from psycopg import sql

from records.errors import OutdatedSchemaError, SchemaError
from store.database import Connection, on_table, one

TABLE: Final = "schema_revision"
CHAIN_TABLE: Final = "alembic_version"
FIRST: Final = "1"


@dataclass(frozen=True)
class Marks:
    """What a schema says of itself; None is a mark that is not there."""

    revision: str | None
    digest: str | None
    chain: str | None


def exists(connection: Connection, schema: str) -> bool:
    """Tell whether the database has a schema of this name."""
    return bool(one(connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [schema]).fetchone()))


def read(connection: Connection, schema: str) -> Marks:
    """Return the marks of a schema.

    Raises:
        SchemaError: there is no such schema, it is not ours, or its marks contradict each other.
    """
    if not exists(connection, schema):
        raise SchemaError("database", f"no schema {schema}", "Run `vrm up` once to create it.")
    if not _has(connection, schema, TABLE):
        remedy = "Give a database of its own to vrm; this one was left untouched."
        raise SchemaError("database", f"a foreign schema {schema}", remedy)
    row = connection.execute(on_table("SELECT revision, definition_digest FROM {table}", schema, TABLE)).fetchone()
    chain = _chain(connection, schema) if _has(connection, schema, CHAIN_TABLE) else None
    revision, digest = row or (None, None)
    found = Marks(revision, digest, chain)
    if found.chain != found.revision and not (found.chain is None and found.revision == FIRST):
        shown = f"{found.chain or 'none'}, but {TABLE} says {found.revision or 'none'}"
        raise SchemaError(f"{schema}.{CHAIN_TABLE}", shown, "The schema is partial; restore it from a backup.")
    return found


def require(found: Marks, schema: str, revision: str, digest: str) -> None:
    """Refuse a schema that is not of this revision and definition.

    Raises:
        OutdatedSchemaError: it is of an earlier revision.
        SchemaError: it is of a later or unknown one, or of another definition.
    """
    require_revision(found.revision, schema, revision)
    if found.digest != digest:
        shown = f"another definition of revision {revision}"
        remedy = "A program that this one does not know made or changed it; use that one, or restore a backup."
        raise SchemaError(f"{schema}.{TABLE}", shown, remedy)


def require_revision(found: str | None, schema: str, wanted: str) -> None:
    """Refuse another revision than the one wanted.

    Raises:
        OutdatedSchemaError: it is an earlier one.
        SchemaError: it is a later or an unknown one.
    """
    if found == wanted:
        return
    number = int(found) if found is not None and found.isdecimal() else 0
    if 0 < number < int(wanted):
        remedy = f"Run `vrm migrate` to bring it to revision {wanted}; `vrm migrate --dry-run` says what that does."
        raise OutdatedSchemaError(f"{schema}.{TABLE}", f"revision {found}", remedy)
    remedy = f"This program knows revisions up to {wanted}; use the version that made it."
    raise SchemaError(f"{schema}.{TABLE}", f"revision {found or 'none'}", remedy)


def require_present(connection: Connection, schema: str, wanted: str) -> None:
    """Refuse to go on in a schema that has moved to another revision since this program opened it.

    Raises:
        SchemaError: it has.
    """
    row = connection.execute(on_table("SELECT revision FROM {table}", schema, TABLE)).fetchone()
    require_revision(row[0] if row else None, schema, wanted)


def make(connection: Connection, schema: str, revision: str, digest: str) -> None:
    """Make both marks in a new schema; the second has the shape that Alembic gives it."""
    connection.execute(
        on_table("CREATE TABLE {table} (revision text PRIMARY KEY, definition_digest text NOT NULL)", schema, TABLE)
    )
    connection.execute(on_table("INSERT INTO {table} VALUES (%s, %s)", schema, TABLE), [revision, digest])
    shape = "version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    connection.execute(on_table(f"CREATE TABLE {{table}} ({shape})", schema, CHAIN_TABLE))
    connection.execute(on_table("INSERT INTO {table} VALUES (%s)", schema, CHAIN_TABLE), [revision])


def move(connection: Connection, schema: str, role: str, revision: str, digest: str) -> None:
    """Follow with the mark that opening reads after Alembic has moved its own, and let the application read both."""
    statement = on_table("UPDATE {table} SET revision = %s, definition_digest = %s WHERE revision <> %s", schema, TABLE)
    connection.execute(statement, [revision, digest, revision])
    grant = on_table("GRANT SELECT ON {table} TO {role}", schema, CHAIN_TABLE, role=sql.Identifier(role))
    connection.execute(grant)


def _has(connection: Connection, schema: str, table: str) -> bool:
    return one(connection.execute("SELECT to_regclass(%s)", [f"{schema}.{table}"]).fetchone()) is not None


def _chain(connection: Connection, schema: str) -> str:
    rows = connection.execute(on_table("SELECT version_num FROM {table} ORDER BY 1", schema, CHAIN_TABLE)).fetchall()
    return ", ".join(name for (name,) in rows)
