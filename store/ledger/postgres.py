"""The Ledger on Postgres.

A group is first tried as one pipeline in which nothing waits: the statements that write are sent one after the other,
what this process knows about the journal and its records is taken for granted, and the server itself refuses the rest
(`store.ledger.writing`). Only a group that is refused is carried out again, request by request, with savepoints
(docs/performance.md says what that saves).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from records.appends import AppendReceipt
from records.base import KINDS
from records.errors import FencedError, UnavailableError, VrmError
from store.database import READING, connect, translated
from store.ledger.engine import commit_group, commit_together
from store.ledger.port import Epoch, LedgerReader, Request
from store.ledger.reader import MomentReader, PostgresReader
from store.ledger.schema import DEFINITION, SCHEMA, require_columns
from store.ledger.writing import PostgresTransaction, Remembered, TrustingTransaction
from store.owners import Writer, ended, opened
from store.pipeline import Pipeline

_IDLE: Final = 2
"""Connections for reading that are kept while nobody reads."""


class PostgresLedger(PostgresReader):
    """The Ledger for one process: a connection to read, one to write once it has claimed, some to read one moment."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect as the application role of the Ledger; `holder` names the process in the server's activity view."""
        super().__init__(connect(dsn, holder), (dsn, holder))
        self._dsn = dsn
        self._holder = holder
        self._writer = Writer(dsn, holder, (SCHEMA, DEFINITION.revision))
        self._pipeline: Pipeline | None = None
        self._idle: list[MomentReader] = []  # readers that are done, for the next readings
        self._remembered = Remembered()
        self._trusting = True

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return Epoch(resource, self._writer.claim(resource, holder))

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Write a group of appends in one physical commit."""
        if not group:
            return []
        fences = [(epoch.resource, epoch.number)]
        with self._writer.using(epoch.resource, epoch.number) as connection:
            if self._pipeline is None or self._pipeline.connection is not connection:
                self._pipeline = Pipeline(connection)
            try:
                return self._commit_together(self._pipeline, fences, group)
            except (FencedError, UnavailableError):
                raise
            except VrmError:  # of one request; the others must not suffer from it
                return self._commit_one_by_one(self._pipeline, fences, group)

    def _commit_together(
        self, pipeline: Pipeline, fences: Sequence[tuple[str, int]], group: Sequence[Request]
    ) -> list[AppendReceipt | VrmError]:
        """Carry out a group in one pipeline; how it went decides whether the next one trusts memory, too."""
        trusting, self._trusting = self._trusting, False
        kind = TrustingTransaction if trusting else PostgresTransaction
        transaction = kind(pipeline, self._remembered)
        try:
            answers = commit_together(transaction, fences, group)
            transaction.finish()
        except BaseException:
            self._remembered.heads.clear()
            pipeline.roll_back()
            raise
        self._remembered.heads.update(transaction.moved)
        self._remembered.learn(transaction.met | transaction.written)
        self._trusting = not transaction.met
        return answers

    def _commit_one_by_one(
        self, pipeline: Pipeline, fences: Sequence[tuple[str, int]], group: Sequence[Request]
    ) -> list[AppendReceipt | VrmError]:
        """Carry out a group in which a request fails; each of the others is written all the same."""
        with opened(pipeline.connection, SCHEMA):
            transaction = PostgresTransaction(pipeline, self._remembered, begun=True)
            answers = commit_group(transaction, fences, group)
            transaction.settle()
        self._remembered.learn(transaction.met)
        return answers

    @contextmanager
    def reading(self) -> Iterator[LedgerReader]:
        """Open one read transaction on a connection that is its own meanwhile."""
        reader = self._for_reading()
        try:
            with translated("ledger"):
                yield reader
            reader.end()
        except BaseException:
            reader.close()
            raise
        if len(self._idle) < _IDLE:
            self._idle.append(reader)
        else:
            reader.close()

    def table_counts(self) -> Mapping[str, int]:
        """Return the number of records of each kind."""
        statement = f"SELECT noun, count(*) FROM {SCHEMA}.ledger_commits_v1 GROUP BY noun"
        (rows,) = self._ask([(statement, [])])
        return {str(noun): int(number or 0) for noun, number in sorted(rows, key=str)}

    def tally(self, noun: str, *columns: str) -> Mapping[tuple[str, ...], int]:
        """Return how many records of a kind have which values in indexed columns."""
        require_columns(noun, columns)
        names = ", ".join(f"coalesce({name}::text, '')" for name in columns)
        statement = f"SELECT count(*), {names} FROM {SCHEMA}.{KINDS[noun].table} GROUP BY {names}"
        (rows,) = self._ask([(statement, [])])
        return {tuple(map(str, values)): int(number or 0) for number, *values in sorted(rows, key=lambda row: row[1:])}

    def _for_reading(self) -> MomentReader:
        """Return a reader that is idle, or a new one: to connect costs more than most of what is read."""
        while self._idle:
            reader = self._idle.pop()
            if not ended(reader._connection):  # noqa: SLF001  # a base class of this one
                return reader
            reader.close()
        return MomentReader(connect(self._dsn, f"{self._holder} reader", READING))

    def close(self) -> None:
        """Close all connections."""
        super().close()
        for reader in self._idle:
            reader.close()
        self._writer.close()
