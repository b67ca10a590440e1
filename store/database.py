"""Connections to Postgres and the one place where its errors become ours.

Rules kept here: a connection is opened with bounded waits and a name that says who holds it; every psycopg error leaves
as an error of our family with the original as its cause; what the server says about a constraint is named, so that the
caller can map it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from records.errors import IntegrityError, InvalidInputError, UnavailableError, VrmError

Connection = psycopg.Connection[TupleRow]

_SETTINGS: Final = (
    "-c statement_timeout=120000 -c idle_in_transaction_session_timeout={idle} -c lock_timeout=30000 "
    "-c synchronous_commit=on"
)
SETTINGS: Final = _SETTINGS.format(idle="1min")
"""No statement and no forgotten transaction may hold a lock for ever, and no acknowledged commit may be lost, whatever
the database or the role has for a default."""
READING: Final = _SETTINGS.format(idle="6h")
"""The same for what reads one moment, which keeps nobody from writing: an index of a hundred thousand texts is made
between two questions, and a model takes most of an hour for it. Every reading has it, though index builds alone need
it: readers share connections, and the port of the Ledger has no word for how long one may take. A reader that idles
holds no lock that a writer waits for; what it costs is that dead rows behind its moment stay until it ends."""

TRANSACTION_LIMIT: Final = "SET transaction_timeout = 300000"
"""What ends a writer that stands still in the middle of a group: there the server waits for the rest of what was sent,
which it does not count as idling."""
_KNOWS_TRANSACTION_LIMIT: Final = 170000


def connect(dsn: str, holder: str, settings: str = SETTINGS) -> Connection:
    """Open a connection in autocommit mode, on which only `store.pipeline` prepares statements.

    The driver would prepare what it is given six times, and at each rollback after that drop every prepared statement
    of the connection, those of a pipeline with its own.

    Raises:
        UnavailableError: the server cannot be reached, or refuses.
    """
    with translated("postgres"):
        return psycopg.connect(
            dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=10,
            application_name=f"vrm {holder} {os.getpid()}",
            options=settings,
        )


def limit_transactions(connection: Connection) -> None:
    """Bound the whole of each transaction, on servers that can; for connections that write."""
    if connection.info.server_version >= _KNOWS_TRANSACTION_LIMIT:
        connection.execute(own_sql(TRANSACTION_LIMIT))


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Turn psycopg errors into ours.

    Raises:
        InvalidInputError: a value cannot be sent at all.
        IntegrityError: a constraint, a trigger or a privilege of the database refused the statement.
        UnavailableError: the server is gone, full, shutting down or too slow.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidInputError(subject, error.object, "Remove the lone surrogate; text is valid Unicode.") from error
    except psycopg.Error as error:
        raise translation(subject, error) from error


def translation(subject: str, error: psycopg.Error) -> VrmError:
    """Return what an error of psycopg is in our family."""
    match error:
        case psycopg.errors.DataError(sqlstate=None):  # the driver refused it, not the server
            return InvalidInputError(subject, str(error), "Remove the NUL character.")
        case psycopg.errors.IntegrityError() | psycopg.errors.DataError():
            name = error.diag.constraint_name or error.diag.message_primary or type(error).__name__
            return IntegrityError(subject, name, "The database refused the row; nothing of this append was written.")
        case psycopg.errors.RaiseException() | psycopg.errors.InsufficientPrivilege():
            message = error.diag.message_primary or type(error).__name__
            return IntegrityError(subject, message, "Records are append-only; write through the coordinator.")
        case psycopg.errors.DiskFull():
            return UnavailableError(subject, "disk full", "Free disk space; nothing was acknowledged.")
        case _:
            message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            return UnavailableError(subject, message, "Check the server (`vrm status`), then run the command again.")


def on_table(statement: str, schema: str, table: str, **parts: sql.Composable) -> sql.Composed:
    """Return a statement of ours with `{table}`, `{schema}` and further parts put in as identifiers."""
    places = {"schema": sql.Identifier(schema), "table": sql.Identifier(schema, table)}
    return sql.SQL(statement).format(**places, **parts)


def own_sql(statement: str) -> sql.SQL:
    """Mark a statement as ours: it is built from the registries and constants, never from input."""
    return sql.SQL(statement)


@dataclass(frozen=True)
class Address:
    """What a connection string says: who connects, to which database, on which server."""

    role: str
    database: str
    server: tuple[str, str]

    @property
    def place(self) -> tuple[str, tuple[str, str]]:
        """The database and its server, whoever connects."""
        return self.database, self.server


def address_of(dsn: str) -> Address:
    """Read a connection string.

    Raises:
        InvalidInputError: libpq cannot read it; the string is not shown, since it may hold a password.
    """
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError as error:
        raise InvalidInputError("connection string", "(not shown)", f"libpq cannot read it: {error}") from error
    role = parts.get("user", "")
    return Address(role, parts.get("dbname", role), (parts.get("host", ""), parts.get("port", "5432")))


def one(row: TupleRow | None) -> Any:
    """Return the single value of a row that must be there."""
    if row is None:
        raise RuntimeError("the statement returned no row")
    return row[0]
