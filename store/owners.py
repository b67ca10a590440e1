"""Ownership epochs in Postgres: their table, and the statements that claim, hold and check one.

An owner claims a resource once and then opens every transaction with its epoch row locked FOR SHARE to the end, so
there is no gap between check and commit. A claim first ends the backend of the previous owner and waits until it is
gone, so that an owner stopped in the middle of a transaction cannot block its successor. Claims of one resource wait
for each other, so that none is made between the end of an owner and the new epoch. An owner that finds its connection
ended asks once more whether it is still the owner, and is told so if it is not. A program of another schema revision
cannot claim: one that was left running does not write into a schema that was migrated meanwhile.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import sql

from records.errors import UnavailableError
from store import marks
from store.database import Connection, connect, limit_transactions, one, translated
from store.guards import RISES
from store.ledger.port import fenced

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
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_NOW: Final = "SELECT epoch FROM {owners} WHERE resource = %s"
_HOLD: Final = "SELECT resource, epoch FROM {owners} WHERE resource = ANY(%s) ORDER BY resource FOR SHARE"


def owners_table(metadata: sa.MetaData) -> sa.Table:
    """Return the table of owners of one authority: its present epoch and the backend that claimed it, by resource."""
    return sa.Table(
        "owners",
        metadata,
        sa.Column("resource", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False, info=RISES),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("backend_pid", sa.BigInteger, nullable=False),
        sa.Column("backend_start", sa.Text, nullable=False),
    )


def _statement(text: str, schema: str) -> sql.Composed:
    return sql.SQL(text).format(owners=sql.Identifier(schema, "owners"))


def claim(connection: Connection, place: tuple[str, str], resource: str, holder: str) -> int:
    """Take ownership of a resource with this connection's backend and return the new epoch.

    Args:
        connection: of the new owner.
        place: the schema and its revision that the owner's program knows.
        resource: what is claimed.
        holder: who claims.

    Raises:
        SchemaError: the schema has moved to another revision.
    """
    schema, revision = place
    with translated("owners"), connection.transaction():
        connection.execute(_ALONE, [f"{schema}.owners {resource}"])
        marks.require_present(connection, schema, revision)
        connection.execute(_statement(_END_OLD, schema), [resource])
        return int(one(connection.execute(_statement(_CLAIM, schema), [resource, holder]).fetchone()))


def rebind(connection: Connection, schema: str, resource: str, epoch: int) -> None:
    """Record this connection's backend as that of an epoch that is still owned, after a reconnect.

    A claim that is under way has ended the backend that was recorded; it is waited for, so that it cannot miss this
    one, and whoever asks for the epoch afterwards learns the new one.
    """
    with translated("owners"), connection.transaction():
        connection.execute(_ALONE, [f"{schema}.owners {resource}"])
        connection.execute(_statement(_REBIND, schema), [resource, epoch])


def hold(cursor: psycopg.Cursor[Any], schema: str, fences: Iterable[tuple[str, int]]) -> None:
    """Lock the epoch rows of `fences` to the end of the transaction.

    Raises:
        FencedError: one of them has been claimed by another owner.
    """
    wanted = sorted(set(fences))
    resources = sorted({resource for resource, _ in wanted})
    found = dict(cursor.execute(_statement(_HOLD, schema), [resources]).fetchall())
    for resource, epoch in wanted:
        if found.get(resource) != epoch:
            raise fenced(resource, epoch, found.get(resource))


def ended(connection: Connection) -> bool:
    """Tell whether the server has ended an idle connection, without asking it anything.

    Nobody here listens for notifications, so what can be read from an idle connection is the server's last word; its
    end is seen by reading on.
    """
    try:
        while select.select([connection.fileno()], [], [], 0)[0]:
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return connection.pgconn.status != psycopg.pq.ConnStatus.OK


@contextmanager
def opened(connection: Connection, schema: str) -> Iterator[None]:
    """Open a transaction; it is durable when the block ends without an error.

    A connection may be lost while a savepoint is undone, which psycopg tells its log and nobody else; it then leaves
    the block without a commit and without an error. Likewise the server answers the COMMIT of a failed transaction with
    a rollback and no error. So the transaction must still be there when the block ends.

    Raises:
        UnavailableError: the transaction is over; nothing of it was written.
    """
    with translated(schema), connection.transaction():
        yield
        status = connection.info.transaction_status
        if status != psycopg.pq.TransactionStatus.INTRANS:
            found = f"transaction {status.name.lower()} before its commit"
            raise UnavailableError(schema, found, "Nothing was written; run the command again.")


def _abandon_unless_idle(connection: Connection) -> None:
    """Close a connection that could not even leave its transaction; it would hold its locks and be of no more use."""
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.close()


class Writer:
    """The writing connection of an owner: one transaction at a time, opened again after the server ended it.

    A transaction that was cut short is never repeated here; its outcome is told by asking again under the same key.
    """

    def __init__(self, dsn: str, holder: str, place: tuple[str, str]) -> None:
        """Connect later, with the first claim, as `holder`; `place` is the schema and its revision."""
        self._dsn = dsn
        self._holder = f"{holder} writer"
        self._schema, self._revision = place
        self._connection: Connection | None = None
        self._claimed: dict[str, int] = {}
        self._lock = threading.RLock()

    def claim(self, resource: str, holder: str) -> int:
        """Take ownership of a resource and return the new epoch."""
        with self._lock:
            self._claimed[resource] = claim(self._open(), (self._schema, self._revision), resource, holder)
            return self._claimed[resource]

    @contextmanager
    def transaction(self, resource: str, epoch: int) -> Iterator[Connection]:
        """Open a transaction in the name of an epoch; it is durable when the block ends without an error.

        Raises:
            FencedError: as for `using`.
            UnavailableError: likewise.
        """
        with self.using(resource, epoch) as connection, opened(connection, self._schema):
            yield connection

    @contextmanager
    def using(self, resource: str, epoch: int) -> Iterator[Connection]:
        """Give the connection, on which the caller opens a transaction in the name of an epoch.

        Raises:
            FencedError: the connection was ended because somebody else has claimed the resource.
            UnavailableError: it was ended for another reason.
        """
        with self._lock:
            try:
                with translated(self._schema):
                    connection = self._open()
                    try:
                        yield connection
                    finally:
                        _abandon_unless_idle(connection)
            except UnavailableError as error:
                now = self._epoch(resource)
                if now is not None and now != epoch:
                    raise fenced(resource, epoch, now) from error
                raise

    def close(self) -> None:
        """Close the connection; ownership is not released."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed or ended(self._connection):
            self._connection = self._bound()
        return self._connection

    def _bound(self) -> Connection:
        """Connect, and record the new backend wherever this owner still owns; a connection without that is not used."""
        fresh = connect(self._dsn, self._holder)
        try:
            with translated("owners"):
                limit_transactions(fresh)
            for resource, number in self._claimed.items():
                rebind(fresh, self._schema, resource, number)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _epoch(self, resource: str) -> int | None:
        """Return the epoch that a resource is at now; None if that cannot be learnt."""
        try:
            with translated("owners"):
                row = self._open().execute(_statement(_NOW, self._schema), [resource]).fetchone()
        except UnavailableError:
            return None
        return None if row is None else int(row[0])
