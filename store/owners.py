"""Ownership epochs in Postgres (design, section 6; style 5.3).

An owner claims a resource once and then opens every transaction with its epoch row locked FOR SHARE to the end, so
there is no gap between check and commit. A claim first ends the backend of the previous owner and waits until it is
gone, so that an owner stopped in the middle of a transaction cannot block its successor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import psycopg
from psycopg import sql

from records.errors import FencedError
from store.database import Connection, one, translated

_END_OLD: Final = """
    SELECT pg_terminate_backend(activity.pid, 10000)
    FROM {owners} AS owner JOIN pg_stat_activity AS activity ON activity.pid = owner.backend_pid
    WHERE owner.resource = %s AND activity.backend_start::text = owner.backend_start
        AND activity.pid <> pg_backend_pid()
"""
_CLAIM: Final = """
    INSERT INTO {owners} AS owner (resource, epoch, holder, backend_pid, backend_start)
    SELECT %s, 1, %s, pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()
    ON CONFLICT (resource) DO UPDATE SET epoch = owner.epoch + 1, holder = excluded.holder,
        backend_pid = excluded.backend_pid, backend_start = excluded.backend_start
    RETURNING epoch
"""
_REBIND: Final = """
    UPDATE {owners} AS owner SET backend_pid = activity.pid, backend_start = activity.backend_start::text
    FROM pg_stat_activity AS activity
    WHERE activity.pid = pg_backend_pid() AND owner.resource = %s AND owner.epoch = %s
"""
_HOLD: Final = "SELECT resource, epoch FROM {owners} WHERE resource = ANY(%s) ORDER BY resource FOR SHARE"


def _statement(text: str, schema: str) -> sql.Composed:
    return sql.SQL(text).format(owners=sql.Identifier(schema, "owners"))


def claim(connection: Connection, schema: str, resource: str, holder: str) -> int:
    """Take ownership of a resource with this connection's backend and return the new epoch."""
    with translated("owners"):
        connection.execute(_statement(_END_OLD, schema), [resource])
        return int(one(connection.execute(_statement(_CLAIM, schema), [resource, holder]).fetchone()))


def rebind(connection: Connection, schema: str, resource: str, epoch: int) -> None:
    """Record this connection's backend as that of an epoch that is still owned, after a reconnect."""
    with translated("owners"):
        connection.execute(_statement(_REBIND, schema), [resource, epoch])


def hold(cursor: psycopg.Cursor[Any], schema: str, fences: Iterable[tuple[str, int]]) -> None:
    """Lock the epoch rows of `fences` to the end of the transaction.

    Raises:
        FencedError: one of them has been claimed by another owner.
    """
    wanted = dict(fences)
    found = dict(cursor.execute(_statement(_HOLD, schema), [sorted(wanted)]).fetchall())
    for resource, epoch in sorted(wanted.items()):
        if found.get(resource) != epoch:
            raise FencedError(
                resource, f"epoch {epoch}, now {found.get(resource)}", "Another owner took over; stop and look it up."
            )
