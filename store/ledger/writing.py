"""The write transaction of the Ledger on Postgres.

Lock order: epochs, journals of the namespaces (sorted), scope variant heads (sorted by the engine).

Rules kept here:

- rows wait here until something is asked or the transaction ends, and are then sent by table, in one statement where
  they are many; a read, a savepoint and the end wait for them;
- what this process remembers of its own commits stands for a question to the server: where a journal stands, because
  nobody else moves it while the epoch is held, and which records exist, because they stay for ever. The server refuses
  the rows if a memory is wrong, and the group is then carried out with questions asked;
- a permit or record that is not remembered is taken for new; its table has it once only, and refuses a known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from records.appends import AppendReceipt, NamespaceHead, StoredRecord
from records.errors import IntegrityError
from records.knowledge import GENESIS, HeadMove
from store import owners
from store.database import translated
from store.ledger.engine import Placed
from store.ledger.projections import children_of, column_row, references_of
from store.ledger.reader import HEAD_COLUMNS, NAMESPACE_COLUMNS, LedgerQuestions, head_of
from store.ledger.schema import CHILD_TABLES, JOURNAL, RECEIPTS, RECORD_TABLES, SCHEMA, metadata
from store.pipeline import ArrayOf, Pipeline, Row, booleans, integers, texts
from store.questions import Question
from store.recent import Recent

_KEPT: Final = 10_000
"""Records whose place in the journal is remembered; the least recently used are forgotten first."""

_READ: Final = 512
"""Records read for guards that are remembered; among them is the snapshot of a sweep, which may be large."""

_FEW: Final = 4
"""Rows of a table from which on one statement for all of them costs less than one for each (docs/performance.md)."""

_ADVANCE: Final = f"SELECT {SCHEMA}.advance({', '.join(f'${place}' for place in range(1, 10))})"
_SAVE_HEAD: Final = (
    f"UPDATE {SCHEMA}.namespace_heads SET position = $1, chain_digest = $2, evidence = $3, lifecycle = $4, "
    "retention = $5 WHERE namespace = $6"
)


@dataclass
class Remembered:
    """What one process knows of the Ledger from its own commits.

    Attributes:
        heads: where the journals stand that it wrote to; worth nothing once a commit has failed.
        records: position and payload digest of records; true for ever, since records stay as they are.
        read: records that were read for guards; as true.
    """

    heads: dict[str, NamespaceHead] = field(default_factory=dict)
    records: Recent[str, tuple[int, str]] = field(default_factory=lambda: Recent(_KEPT))
    read: Recent[str, StoredRecord] = field(default_factory=lambda: Recent(_READ))

    def learn(self, records: dict[str, tuple[int, str]]) -> None:
        """Remember records, and forget the least recently used beyond the limit."""
        for record_id, known in records.items():
            self.records.put(record_id, known)

    def known(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return those records that are remembered."""
        found = {}
        for record_id in record_ids:
            if record_id in self.records:
                self.records.move_to_end(record_id)
                found[record_id] = self.records[record_id]
        return found


class PostgresTransaction(LedgerQuestions):
    """One open write transaction that asks the server what is there; see `store.ledger.engine.LedgerTransaction`.

    Attributes:
        moved: where the journals stand when it is committed.
        written: position and payload digest of the records that it wrote.
        met: position and payload digest of the records that it asked for and that were there already.
    """

    def __init__(self, pipeline: Pipeline, remembered: Remembered, *, begun: bool = False) -> None:
        """Work on the pipeline's connection; `begun` says whether its transaction is open already."""
        self._pipeline = pipeline
        self._read = remembered.read
        self._foreseen: dict[str, StoredRecord] = {}
        self._placed: dict[str, Placed] = {}
        self._connection = pipeline.connection
        self._begun = begun
        self._rows_of: dict[sa.Table, list[Sequence[Any]]] = {}
        self._awaited: set[str] = set()
        self._unsaved: dict[str, NamespaceHead] = {}
        self._standing: dict[str, NamespaceHead] = {}  # where the locked journals stand
        self.moved: dict[str, NamespaceHead] = {}
        self.written: dict[str, tuple[int, str]] = {}
        self.met: dict[str, tuple[int, str]] = {}

    def _ask(self, questions: Sequence[Question]) -> list[list[Row]]:
        self.begin()
        self._send_rows()
        with translated("ledger"):
            for statement, values in questions:
                self._pipeline.send(statement, values)
        found = self._pipeline.answers()
        return found[len(found) - len(questions) :]  # those before are of what opened the transaction

    def begin(self) -> None:
        """Open the transaction, if it is not open yet."""
        if not self._begun:
            self._begun = True
            self._pipeline.send("BEGIN")

    def settle(self) -> None:
        """Wait until everything is in the transaction that was written so far, journal heads included."""
        self.begin()
        self._send_rows()
        self._pipeline.drain()

    def finish(self) -> None:
        """Commit.

        Raises:
            IntegrityError: something was refused; nothing of the transaction was written.
        """
        self.begin()
        self._send_rows()
        self._pipeline.commit()

    def _send_rows(self) -> None:
        """Send the rows that are waiting, those that others point at first, and where the journals stand by now."""
        for table in sorted(self._rows_of, key=_RANK.__getitem__):
            rows = self._rows_of[table]
            if len(rows) < _FEW:
                for row in rows:
                    self._pipeline.send(_insert(table), row)
            else:
                columns = zip(_arrays(table), zip(*rows, strict=True), strict=True)
                self._pipeline.send_columns(_insert_many(table), columns)
        self._rows_of.clear()
        self._awaited.clear()
        for head in self._unsaved.values():
            self._pipeline.send(_SAVE_HEAD, [*head[1:], head.namespace])
        self._unsaved.clear()

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Hold every epoch row to the end of the transaction."""
        self.settle()
        with translated("owners"), self._connection.cursor() as cursor:
            owners.hold(cursor, SCHEMA, fences)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Lock the journals of the namespaces, in the order given."""
        statement = f"SELECT {NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = $1 FOR UPDATE"
        heads = {}
        for name in namespaces:
            (rows,) = self._ask([(statement, [name])])
            if not rows:
                fresh = NamespaceHead(namespace=name)
                self._pipeline.send(
                    f"INSERT INTO {SCHEMA}.namespace_heads VALUES ($1, 0, $2, 0, 0, 0) ON CONFLICT DO NOTHING",
                    [name, fresh.chain_digest],
                )
                (rows,) = self._ask([(statement, [name])])
            heads[name] = head_of(rows[0])
        self._standing |= heads
        return heads

    def namespace_head(self, namespace: str) -> NamespaceHead:
        """Return where the journal of a namespace stands; where it is locked, nobody else moves it."""
        return self._standing.get(namespace) or super().namespace_head(namespace)

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:
        """Return the receipts that permits have got."""
        return self.receipts(namespace, permit_keys)

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return position and payload digest of those records that exist."""
        statement = f"SELECT id, position, payload_digest FROM {SCHEMA}.ledger_commits_v1 WHERE id = ANY($1)"
        (rows,) = self._ask([(statement, [sorted(record_ids)])])
        self.met = {str(row[0]): (int(row[1] or 0), str(row[2])) for row in rows}
        return dict(self.met)

    def foresee(self, record_ids: Iterable[str]) -> None:
        """Read records that will be asked for, before this transaction writes anything: so what is found stays."""
        wanted = set(record_ids)
        self._foreseen = {each: self._read[each] for each in wanted & self._read.keys()}
        missing = wanted - self._foreseen.keys()
        self._foreseen |= super().get_many(missing) if missing else {}
        for record_id, stored in self._foreseen.items():
            self._read.put(record_id, stored)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the records among `record_ids` that exist; those foreseen, or written here, are at hand."""
        wanted = list(record_ids)
        held = {each: self._foreseen[each] for each in wanted if each in self._foreseen}
        held |= {each: _stored(self._placed[each]) for each in wanted if each in self._placed}
        missing = [each for each in wanted if each not in held]
        return held | super().get_many(missing) if missing else held

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what happened inside if it ends with an error."""
        self.settle()
        before = dict(self._placed)
        with self._connection.transaction():
            try:
                yield
                self.settle()
            except BaseException:
                self._placed = before
                self._rows_of.clear()
                self._awaited.clear()
                self._pipeline.abandon()
                raise

    def insert(self, placed: Sequence[Placed]) -> None:
        """Write records, their children and their journal rows.

        Raises:
            IntegrityError: a record that waits to be sent points at one that comes after it. Sent by table it would not
                be refused, but what comes first in the journal must not rest on what comes later.
        """
        for record, row in placed:
            if row.id in self._awaited:
                raise IntegrityError("ledger", row.id, "A record before it points at it; nothing was written.")
            self._awaited.update(target for _, target in references_of(record) if target not in self.written)
            values = (row.id, row.namespace, row.position, *column_row(record), record.payload)
            self._add(RECORD_TABLES[row.noun], values)
            for table, entries in children_of(record).items():
                for ordinal, *rest in entries:
                    self._add(CHILD_TABLES[table], (row.id, ordinal, *rest))
            self._add(JOURNAL, row)
            self.written[row.id] = (row.position, row.payload_digest)
            self._placed[row.id] = Placed(record, row)

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        """Write the receipt of a permit."""
        values = (receipt.namespace, receipt.permit_key, receipt.permit_digest, receipt.transition.value)
        self._add(RECEIPTS, (*values, receipt.canonical))

    def _add(self, table: sa.Table, row: Sequence[Any]) -> None:
        self._rows_of.setdefault(table, []).append(row)

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        """Compare-and-swap one scope variant's head."""
        fresh: list[Any] = [move.scope_variant_id, namespace, move.event_id, move.memory_id, move.disposition.value]
        if move.expected == GENESIS:
            statement = (
                f"INSERT INTO {SCHEMA}.scope_variant_heads ({HEAD_COLUMNS}) VALUES ($1, $2, $3, $4, $5, 1) "
                "ON CONFLICT DO NOTHING"
            )
            return self._changes_one(statement, fresh)
        statement = (
            f"UPDATE {SCHEMA}.scope_variant_heads SET event_id = $1, memory_id = $2, disposition = $3, "
            "version = version + 1 WHERE scope_variant_id = $4 AND namespace = $5 AND event_id = $6"
        )
        return self._changes_one(statement, [*fresh[2:], *fresh[:2], move.expected])

    def save_namespace(self, head: NamespaceHead) -> None:
        """Write where the journal of a namespace now stands, at the latest before something is read."""
        self._unsaved[head.namespace] = self._standing[head.namespace] = self.moved[head.namespace] = head

    def _changes_one(self, statement: str, parameters: Sequence[Any]) -> bool:
        (rows,) = self._ask([(f"{statement} RETURNING version", parameters)])
        return len(rows) == 1


class TrustingTransaction(PostgresTransaction):
    """One write transaction that trusts what is remembered, and has the server refuse it where that is wrong.

    As long as nothing is asked nothing is sent, and what is never interrupted by a question needs no BEGIN: everything
    up to one synchronisation point is one transaction, which ends there (PostgreSQL: "Pipelining").
    """

    def __init__(self, pipeline: Pipeline, remembered: Remembered) -> None:
        """Work on the pipeline's connection, which has no transaction open."""
        super().__init__(pipeline, remembered)
        self._remembered = remembered
        self._fence: tuple[str, int] | None = None
        self._trusted: dict[str, tuple[str, int, str]] = {}  # epoch and chain digest that each journal must stand at

    def begin(self) -> None:
        """Open the transaction and hold epoch and journals, if it is not open yet."""
        if not self._begun:
            super().begin()
            for name in self._trusted:
                self._advance(name, self._remembered.heads[name])

    def finish(self) -> None:
        """Commit."""
        if self._begun:
            super().finish()
            return
        for name in self._trusted:
            self._advance(name, self._unsaved.pop(name, self._remembered.heads[name]))
        self._send_rows()
        self._pipeline.drain()

    def _advance(self, name: str, head: NamespaceHead) -> None:
        """Hold epoch and journal to the end of the transaction, and let the journal stand at `head`."""
        self._pipeline.send(_ADVANCE, [*self._trusted[name], *head])

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Hold every epoch row to the end of the transaction; a single one is held together with the journals."""
        wanted = list(fences)
        if len(wanted) == 1:
            self._fence = wanted[0]
        else:
            super().check_fences(wanted)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Lock the journals of the namespaces where they are remembered to stand; ask for the others."""
        heads = {name: self._remembered.heads[name] for name in namespaces if name in self._remembered.heads}
        if self._fence is None:
            return super().lock_namespaces(namespaces)
        if len(heads) < len(namespaces):
            super().check_fences([self._fence])
            return super().lock_namespaces(namespaces)
        self._trusted = {name: (*self._fence, head.chain_digest) for name, head in heads.items()}
        self._standing |= heads
        return heads

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:  # noqa: ARG002
        """Take every permit for new."""
        return {}

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return what is remembered of the records, and take the others for new."""
        return self._remembered.known(record_ids)


def _stored(placed: Placed) -> StoredRecord:
    record, row = placed
    return StoredRecord(
        noun=row.noun, id=row.id, namespace=row.namespace, position=row.position, payload=record.payload.decode()
    )


@cache
def _insert(table: sa.Table) -> str:
    names, places = _names(table), ", ".join(f"${place}" for place in range(1, len(table.columns) + 1))
    return f"INSERT INTO {SCHEMA}.{table.name} ({names}) VALUES ({places})"


@cache
def _insert_many(table: sa.Table) -> str:
    items = ", ".join(f"unnest(${place}::{column.type}[])" for place, column in enumerate(table.columns, start=1))
    return f"INSERT INTO {SCHEMA}.{table.name} ({_names(table)}) SELECT {items}"


@cache
def _arrays(table: sa.Table) -> tuple[ArrayOf, ...]:
    return tuple(_ARRAYS[type(column.type)] for column in table.columns)


def _names(table: sa.Table) -> str:
    return ", ".join(column.name for column in table.columns)


_ARRAYS: Final[dict[type, ArrayOf]] = {sa.Text: texts, sa.BigInteger: integers, sa.Boolean: booleans}
_RANK: Final = {table: rank for rank, table in enumerate(metadata.sorted_tables)}
"""The order in which tables are filled: a row comes after those that it points at."""
