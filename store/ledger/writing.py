"""The write transaction of the Ledger on Postgres.

Lock order: epochs, journals of the namespaces (sorted), scope variant heads (sorted by the engine).

Rules kept here:

- statements that write are sent through a pipeline and do not wait; a read, a savepoint and the end wait for them;
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
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa

from records.appends import AppendReceipt, JournalRow, NamespaceHead
from records.knowledge import GENESIS, HeadMove
from store import owners
from store.database import translated
from store.ledger.engine import Placed
from store.ledger.projections import children_of, columns_of
from store.ledger.reader import HEAD_COLUMNS, NAMESPACE_COLUMNS, PostgresReader, made
from store.ledger.schema import CHILD_TABLES, JOURNAL, RECEIPTS, RECORD_TABLES, SCHEMA
from store.pipeline import Pipeline
from store.recent import Recent

_KEPT: Final = 10_000
"""Records whose place in the journal is remembered; the least recently used are forgotten first."""

_JOURNAL_ROW: Final = attrgetter(*JournalRow.__dataclass_fields__)
_HOLD: Final = f"SELECT {SCHEMA}.hold($1, $2, $3, $4)"
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
    """

    heads: dict[str, NamespaceHead] = field(default_factory=dict)
    records: Recent[str, tuple[int, str]] = field(default_factory=lambda: Recent(_KEPT))

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


class PostgresTransaction(PostgresReader):
    """One open write transaction that asks the server what is there; see `store.ledger.engine.LedgerTransaction`.

    Attributes:
        moved: where the journals stand when it is committed.
        written: position and payload digest of the records that it wrote.
        met: position and payload digest of the records that it asked for and that were there already.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        """Work on the transaction that is open on the pipeline's connection."""
        super().__init__(pipeline.connection)
        self._pipeline = pipeline
        self.moved: dict[str, NamespaceHead] = {}
        self._unsaved: dict[str, NamespaceHead] = {}
        self.written: dict[str, tuple[int, str]] = {}
        self.met: dict[str, tuple[int, str]] = {}

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.settle()
        return super()._rows(statement, parameters)

    def settle(self) -> None:
        """Wait until everything is in the transaction that was written so far, journal heads included."""
        self.send_heads()
        self._pipeline.drain()

    def send_heads(self) -> None:
        """Send where the journals stand by now."""
        for head in self._unsaved.values():
            places = [head.position, head.chain_digest, head.evidence, head.lifecycle, head.retention]
            self._pipeline.send(_SAVE_HEAD, [*places, head.namespace])
        self._unsaved.clear()

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Hold every epoch row to the end of the transaction."""
        self._pipeline.drain()
        with translated("owners"), self._connection.cursor() as cursor:
            owners.hold(cursor, SCHEMA, fences)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Lock the journals of the namespaces, in the order given."""
        statement = f"SELECT {NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = %s FOR UPDATE"
        heads = {}
        for name in namespaces:
            rows = self._rows(statement, [name])
            if not rows:
                fresh = NamespaceHead(namespace=name)
                self._pipeline.send(
                    f"INSERT INTO {SCHEMA}.namespace_heads VALUES ($1, 0, $2, 0, 0, 0) ON CONFLICT DO NOTHING",
                    [name, fresh.chain_digest],
                )
                rows = self._rows(statement, [name])
            heads[name] = made(NamespaceHead, rows[0])
        return heads

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:
        """Return the receipts that permits have got."""
        return self.receipts(namespace, permit_keys)

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return position and payload digest of those records that exist."""
        statement = f"SELECT id, position, payload_digest FROM {SCHEMA}.ledger_commits_v1 WHERE id = ANY(%s)"
        self.met = {row[0]: (row[1], row[2]) for row in self._rows(statement, [sorted(record_ids)])}
        return dict(self.met)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what happened inside if it ends with an error."""
        self.settle()
        with self._connection.transaction():
            try:
                yield
                self._pipeline.drain()
            except BaseException:
                self._pipeline.abandon()
                raise

    def insert(self, placed: Sequence[Placed]) -> None:
        """Write records, their children and their journal rows."""
        send = self._pipeline.send
        for item in placed:
            record, row = item.record, item.row
            columns = columns_of(record).values()
            values = [row.id, row.namespace, row.position, *columns, record.payload.decode()]
            send(_insert(RECORD_TABLES[row.noun]), values)
            for table, entries in children_of(record).items():
                for ordinal, *rest in entries:
                    send(_insert(CHILD_TABLES[table]), [row.id, ordinal, *rest])
            send(_INSERT_JOURNAL, _JOURNAL_ROW(row))
            self.written[row.id] = (row.position, row.payload_digest)

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        """Write the receipt of a permit."""
        text = receipt.canonical.decode()
        values = [receipt.namespace, receipt.permit_key, receipt.permit_digest, receipt.transition.value, text]
        self._pipeline.send(_INSERT_RECEIPT, values)

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        """Compare-and-swap one scope variant's head."""
        fresh: list[Any] = [move.scope_variant_id, namespace, move.event_id, move.memory_id, move.disposition.value]
        if move.expected == GENESIS:
            statement = (
                f"INSERT INTO {SCHEMA}.scope_variant_heads ({HEAD_COLUMNS}) VALUES (%s, %s, %s, %s, %s, 1) "
                "ON CONFLICT DO NOTHING"
            )
            return self._changes_one(statement, fresh)
        statement = (
            f"UPDATE {SCHEMA}.scope_variant_heads SET event_id = %s, memory_id = %s, disposition = %s, "
            "version = version + 1 WHERE scope_variant_id = %s AND namespace = %s AND event_id = %s"
        )
        return self._changes_one(statement, [*fresh[2:], *fresh[:2], move.expected])

    def save_namespace(self, head: NamespaceHead) -> None:
        """Write where the journal of a namespace now stands, at the latest before something is read."""
        self._unsaved[head.namespace] = self.moved[head.namespace] = head

    def _changes_one(self, statement: str, parameters: Sequence[Any]) -> bool:
        return len(self._rows(f"{statement} RETURNING version", parameters)) == 1


class TrustingTransaction(PostgresTransaction):
    """One open write transaction that trusts what is remembered, and has the server refuse it where that is wrong."""

    def __init__(self, pipeline: Pipeline, remembered: Remembered) -> None:
        """Work on the transaction that is open on the pipeline's connection."""
        super().__init__(pipeline)
        self._remembered = remembered
        self._fence: tuple[str, int] | None = None

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
        for name in namespaces:
            self._pipeline.send(_HOLD, [*self._fence, name, heads[name].chain_digest])
        return heads

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:  # noqa: ARG002
        """Take every permit for new."""
        return {}

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return what is remembered of the records, and take the others for new."""
        return self._remembered.known(record_ids)


@cache
def _insert(table: sa.Table) -> str:
    names = ", ".join(column.name for column in table.columns)
    places = ", ".join(f"${place}" for place in range(1, len(table.columns) + 1))
    return f"INSERT INTO {SCHEMA}.{table.name} ({names}) VALUES ({places})"


_INSERT_JOURNAL: Final = _insert(JOURNAL)
_INSERT_RECEIPT: Final = _insert(RECEIPTS)
