"""Statements sent to Postgres without waiting for each other: prepared once a connection, in libpq's pipeline mode.

Rules kept here:

- `drain` waits for everything that was sent and raises the first refusal; the statements after it were not carried out;
- `answers` waits likewise and returns the rows, as the server writes them: text, not converted. Other reads go through
  psycopg as ever, after either of them, because the connection is out of pipeline mode then;
- what is sent between two drains is one transaction, unless BEGIN was sent before: then it is part of that one, and a
  refusal leaves the connection in a failed transaction, which the caller rolls back.

psycopg's own pipeline costs the client 35 to 45 microseconds a statement, this one about 5 (docs/performance.md).
"""

from __future__ import annotations

import itertools
import select
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import psycopg
from psycopg import errors, pq

from records.errors import IntegrityError, InvalidInputError, VrmError
from store.database import Connection, translated, translation

_NUMBERS: Final = itertools.count(1)
"""Names of statements are never used twice, on whatever connection."""


class Pipeline:
    """The pipeline of one connection; statements stay prepared as long as the connection lives."""

    def __init__(self, connection: Connection, subject: str = "ledger") -> None:
        """Send through `connection`, of `store.database.connect`, which nobody else uses meanwhile.

        Errors are about `subject`.
        """
        self.connection = connection
        self._subject = subject
        self._names: dict[str, bytes] = {}
        self._unproven: list[str] = []  # prepared since the last drain; a refusal may have kept the server from it
        self._waiting = 0  # results to come

    def send(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Send one of our own statements; `$1` and so on stand for the values, of which a list is an array of text.

        Raises:
            InvalidInputError: a text cannot be sent as it is.
            UnavailableError: the connection is gone.
        """
        parameters = [None if value is None else _encoded(value, self._subject) for value in values]
        formats = [pq.Format.BINARY if type(value) is list else pq.Format.TEXT for value in values]
        self._send(statement, parameters, formats)

    def send_columns(self, statement: str, columns: Iterable[tuple[ArrayOf, Sequence[Any]]]) -> None:
        """Send one of our own statements whose parameters are arrays: the columns of several rows.

        Raises:
            InvalidInputError: a text cannot be sent as it is.
            UnavailableError: the connection is gone.
        """
        arrays: list[bytes | None] = [encoded(values) for encoded, values in columns]
        self._send(statement, arrays, [pq.Format.BINARY] * len(arrays))

    def _send(self, statement: str, parameters: list[bytes | None], formats: list[pq.Format] | None) -> None:
        try:
            pgconn = self.connection.pgconn
            if not self._waiting:
                pgconn.enter_pipeline_mode()
            pgconn.send_query_prepared(self._names.get(statement) or self._prepare(statement), parameters, formats)
            self._waiting += 1
        except psycopg.Error as error:
            raise translation(self._subject, error) from error

    def drain(self) -> list[str]:
        """Wait for everything sent so far and return the command tags, such as `INSERT 0 1`, in order.

        Raises:
            IntegrityError: a statement was refused by a constraint, a trigger or a question of ours.
            UnavailableError: the server is gone or too slow.
        """
        return [(result.command_status or b"").decode() for result in self._results()]

    def answers(self) -> list[list[Row]]:
        """Wait for everything sent so far and return the rows of each statement that is a question, in order.

        Raises:
            IntegrityError: as for `drain`.
            UnavailableError: as for `drain`.
        """
        return [_rows(result) for result in self._results() if result.status == pq.ExecStatus.TUPLES_OK]

    def hand_over(self) -> None:
        """Have the server begin with what was sent, without waiting for it."""
        with translated(self._subject):
            self.connection.pgconn.flush()

    def commit(self) -> None:
        """Send COMMIT and wait until everything is durable.

        Raises:
            IntegrityError: something was refused; nothing of the transaction was written.
            UnavailableError: as for `drain`.
        """
        self.send("COMMIT")
        tags = self.drain()
        if not tags or tags[-1] != "COMMIT":  # in a failed transaction COMMIT rolls back and says so
            found = tags[-1] if tags else "no answer"
            raise IntegrityError("transaction", found, "Nothing of this group was written.")

    def _results(self) -> list[pq.abc.PGresult]:
        if not self._waiting:
            return []
        pgconn = self.connection.pgconn
        try:
            pgconn.pipeline_sync()
            results, refused = self._collect(pgconn)
            pgconn.exit_pipeline_mode()
        except psycopg.Error as error:
            raise translation(self._subject, error) from error
        unproven, self._unproven = self._unproven, []
        if refused is not None:
            for statement in unproven:
                del self._names[statement]
            refusal = errors.error_from_result(refused)
            raise translation(self._subject, refusal) from refusal
        return results

    def abandon(self) -> None:
        """Forget what was sent: the connection takes ordinary statements again, or is closed if it cannot."""
        try:
            self.drain()
        except VrmError:
            pass  # whatever it was, the caller has an error already
        finally:
            if self.connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
                self.connection.close()

    def roll_back(self) -> None:
        """Abandon what was sent and undo the transaction that it was in."""
        self.abandon()
        if not self.connection.closed:
            with translated(self._subject):
                self.connection.rollback()

    def _prepare(self, statement: str) -> bytes:
        name = b"vrm_%d" % next(_NUMBERS)
        self.connection.pgconn.send_prepare(name, statement.encode())
        self._waiting += 1
        self._names[statement] = name
        self._unproven.append(statement)
        return name

    def _collect(self, pgconn: pq.abc.PGconn) -> tuple[list[pq.abc.PGresult], pq.abc.PGresult | None]:
        """Read results up to the synchronisation point: those of what was carried out, and the first refusal."""
        results: list[pq.abc.PGresult] = []
        refused: pq.abc.PGresult | None = None
        _await(pgconn)
        while True:
            if pgconn.is_busy():
                _await(pgconn)
            result = pgconn.get_result()
            if result is None:  # the end of one statement's results
                if pgconn.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError("the server has ended the connection")
                continue
            match result.status:
                case pq.ExecStatus.PIPELINE_SYNC:
                    self._waiting = 0
                    return results, refused
                case pq.ExecStatus.FATAL_ERROR:
                    refused = refused or result
                case _:
                    results.append(result)


def _await(pgconn: pq.abc.PGconn) -> None:
    """Send what is left and wait until a result can be read."""
    while True:
        unsent = pgconn.flush()
        if not unsent and not pgconn.is_busy():
            return
        select.select([pgconn.socket], [pgconn.socket] if unsent else [], [])
        pgconn.consume_input()


Row = tuple[str | None, ...]
"""A row as the server writes it."""


def _rows(result: pq.abc.PGresult) -> list[Row]:
    places = range(result.nfields)
    return [tuple(_text(result.get_value(at, place)) for place in places) for at in range(result.ntuples)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _encoded(value: str | int | bool | bytes | list[str], subject: str) -> bytes:
    match value:
        case str():
            data = value.encode()
        case True | False:
            return b"true" if value else b"false"
        case int():
            return b"%d" % value
        case bytes():
            data = value
        case _:
            if any("\0" in each for each in value):
                raise InvalidInputError(subject, str(value), "Remove the NUL character.")
            return texts(value)
    if b"\0" in data:  # libpq takes text up to the first NUL
        raise InvalidInputError(subject, data.decode(), "Remove the NUL character.")
    return data


ArrayOf = Callable[[Sequence[Any]], bytes]
"""Gives an array in the server's binary form: dimensions, whether there are nulls, type, length, lower bound, items."""

_HEADER: Final = struct.Struct(">iiIii")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = _LENGTH.pack(-1)


def texts(values: Sequence[str | bytes | None]) -> bytes:
    """Return an array of text; ids, digests and namespaces of one column mostly have one length, which costs least."""
    items: list[bytes | None]
    try:
        items = list(map(str.encode, values))  # type: ignore[arg-type]  # most columns hold nothing but text
    except TypeError:
        items = [each.encode() if isinstance(each, str) else each for each in values]
    lengths = {None if each is None else len(each) for each in items}
    if len(lengths) == 1 and (length := lengths.pop()) is not None:
        prefix = _LENGTH.pack(length)
        return _array("text", len(items), prefix + prefix.join(items))  # type: ignore[arg-type]  # no None is among them
    parts = (_NULL if each is None else _LENGTH.pack(len(each)) + each for each in items)
    return _array("text", len(items), b"".join(parts))


def integers(values: Sequence[int | None]) -> bytes:
    """Return an array of bigint."""
    return _array("int8", len(values), b"".join(_NULL if each is None else _INTEGER.pack(8, each) for each in values))


def booleans(values: Sequence[bool | None]) -> bytes:
    """Return an array of boolean."""
    return _array("bool", len(values), b"".join(_NULL if each is None else _BOOLEAN.pack(1, each) for each in values))


_INTEGER: Final = struct.Struct(">iq")
_BOOLEAN: Final = struct.Struct(">i?")


def _array(kind: str, length: int, items: bytes) -> bytes:
    return _HEADER.pack(1, 1, psycopg.adapters.types[kind].oid, length, 1) + items
