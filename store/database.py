"""Connections to Postgres and the one place where its errors become ours.

Rules kept here: a connection is opened with bounded waits and a name that says who holds it; every psycopg error leaves
as an error of our family with the original as its cause; what the server says about a constraint is named, so that the
caller can map it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow

from records.errors import IntegrityError, UnavailableError

Connection = psycopg.Connection[TupleRow]

SETTINGS: Final = "-c statement_timeout=120000 -c idle_in_transaction_session_timeout=60000 -c lock_timeout=30000"
"""No statement and no forgotten transaction may hold a lock for ever (design, section 6)."""


def connect(dsn: str, holder: str) -> Connection:
    """Open a connection in autocommit mode.

    Raises:
        UnavailableError: the server cannot be reached, or refuses.
    """
    with translated("postgres"):
        return psycopg.connect(
            dsn, autocommit=True, connect_timeout=10, application_name=f"vrm {holder} {os.getpid()}", options=SETTINGS
        )


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Turn psycopg errors into ours.

    Raises:
        IntegrityError: a constraint, a trigger or a privilege of the database refused the statement.
        UnavailableError: the server is gone, full, shutting down or too slow.
    """
    try:
        yield
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError) as error:
        name = error.diag.constraint_name or error.diag.message_primary or type(error).__name__
        raise IntegrityError(
            subject, name, "The database refused the row; nothing of this append was written."
        ) from error
    except (psycopg.errors.RaiseException, psycopg.errors.InsufficientPrivilege) as error:
        message = error.diag.message_primary or type(error).__name__
        raise IntegrityError(subject, message, "Records are append-only; write through the coordinator.") from error
    except psycopg.errors.DiskFull as error:
        raise UnavailableError(subject, "disk full", "Free disk space; nothing was acknowledged.") from error
    except psycopg.Error as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnavailableError(
            subject, message, "Check the server (`vrm status`), then run the command again."
        ) from error


def one(row: TupleRow | None) -> Any:
    """Return the single value of a row that must be there."""
    if row is None:
        raise RuntimeError("the statement returned no row")
    return row[0]
