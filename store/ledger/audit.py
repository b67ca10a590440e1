"""What only the integrity check reads: rows as the tables really hold them, streamed, with no index taken on trust.

Rules kept here:

- everything is read in the one read transaction that the caller has opened with `reading()`, so it is of one moment;
- streams come through server-side cursors: memory is bounded by the batch, never by the size of a table;
- nothing is interpreted: whether columns, children and payload belong together is decided by who asks.

Not handled here: what a row must look like (`memory.fsck`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from psycopg.pq import TransactionStatus

from records.appends import JournalRow
from records.base import KINDS, Record
from store.database import own_sql, translated
from store.ledger.memory import MemoryReader
from store.ledger.port import LedgerReader
from store.ledger.reader import PostgresReader
from store.ledger.schema import SCHEMA, column_names, column_value

_FETCH: Final = 500
_JOURNAL: Final = "namespace, position, noun, id, payload_digest, chain_digest, permit_key"
_RECEIPT: Final = "namespace, permit_key, permit_digest, transition, receipt"

Children = dict[str, tuple[tuple[Any, ...], ...]]
"""Child rows by table: (ordinal, namespace, further columns), in the order of the ordinal."""


@dataclass(frozen=True, kw_only=True)
class ScannedRow:
    """One record row as it stands: its own columns and the rows of its child tables."""

    id: str
    namespace: str
    position: int
    payload: str
    columns: Mapping[str, Any]
    children: Children


@dataclass(frozen=True, kw_only=True)
class ScannedReceipt:
    """One receipt row as it stands; `receipt` is its canonical text."""

    namespace: str
    permit_key: str
    permit_digest: str
    transition: str
    receipt: str


class LedgerScan(Protocol):
    """Raw reads of a whole Ledger."""

    def namespaces(self) -> list[str]:
        """Return every namespace that the journal or its heads name, sorted."""

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        """Stream a journal by position."""

    def rows(self, noun: str, record_ids: Sequence[str]) -> dict[str, ScannedRow]:
        """Return those rows of a kind that exist, by id."""

    def positions(self, record_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return namespace and journal position of those records that the journal names."""

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        """Return receipts by permit key."""

    def all_receipts(self) -> Iterator[ScannedReceipt]:
        """Stream every receipt, by namespace and permit key."""

    def unjournaled(self) -> Iterator[tuple[str, str]]:
        """Stream table and id of record rows that no journal row names."""

    def stray_children(self) -> Iterator[tuple[str, str]]:
        """Stream table and parent id of child rows that have no parent."""


def open_scan(reader: LedgerReader) -> LedgerScan:
    """Return raw reads over the transaction of a reader that `reading()` gave.

    Raises:
        ValueError: the reader is of no adapter that can be scanned, or has no transaction open.
    """
    if isinstance(reader, PostgresReader):
        return _PostgresScan(reader)
    if isinstance(reader, MemoryReader):
        return _MemoryScan(reader)
    raise ValueError(f"{type(reader).__name__} cannot be scanned")


def expected_columns(record: Record) -> dict[str, Any]:
    """Return the indexed columns that a record's payload gives."""
    return {name: column_value(getattr(record, name)) for name in column_names(record.kind)}


def expected_children(record: Record) -> Children:
    """Return the child rows that a record's payload gives."""
    children: Children = {}
    for child in record.kind.children:
        names = [name for name in child.columns if name != "ordinal"]
        children[child.table] = tuple(
            (ordinal, record.namespace, *(column_value(getattr(entry, name)) for name in names))
            for ordinal, entry in enumerate(getattr(record, child.path), start=1)
        )
    return children


class _PostgresScan:
    def __init__(self, reader: PostgresReader) -> None:
        self._connection = reader._connection  # noqa: SLF001  # one adapter in two modules; the seam has no raw reads
        self._lock = threading.Lock()
        self._streams = 0
        if self._connection.info.transaction_status is TransactionStatus.IDLE and self._connection.autocommit:
            raise ValueError("open the reader with `reading()`: a scan needs one transaction")

    def namespaces(self) -> list[str]:
        statement = (
            f"SELECT namespace FROM {SCHEMA}.namespace_heads UNION "
            f"SELECT DISTINCT namespace FROM {SCHEMA}.ledger_commits_v1 ORDER BY 1"
        )
        return [row[0] for row in self._rows(statement)]

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        statement = f"SELECT {_JOURNAL} FROM {SCHEMA}.ledger_commits_v1 WHERE namespace = %s ORDER BY position"
        names = _JOURNAL.split(", ")
        for row in self._stream(statement, [namespace]):
            yield JournalRow(**dict(zip(names, row, strict=True)))

    def rows(self, noun: str, record_ids: Sequence[str]) -> dict[str, ScannedRow]:
        kind = KINDS[noun]
        names = column_names(kind)
        columns = ", ".join(("id", "namespace", "position", "payload", *names))
        statement = f"SELECT {columns} FROM {SCHEMA}.{kind.table} WHERE id = ANY(%s)"
        children = {child.table: self._children(child.table, child.columns, record_ids) for child in kind.children}
        return {
            row[0]: ScannedRow(
                id=row[0],
                namespace=row[1],
                position=row[2],
                payload=row[3],
                columns=dict(zip(names, row[4:], strict=True)),
                children={table: tuple(found.get(row[0], ())) for table, found in children.items()},
            )
            for row in self._rows(statement, [list(record_ids)])
        }

    def positions(self, record_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        statement = f"SELECT id, namespace, position FROM {SCHEMA}.ledger_commits_v1 WHERE id = ANY(%s)"
        return {row[0]: (row[1], row[2]) for row in self._rows(statement, [list(record_ids)])}

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        statement = f"SELECT {_RECEIPT} FROM {SCHEMA}.append_receipts WHERE namespace = %s AND permit_key = ANY(%s)"
        return {row[1]: _receipt(row) for row in self._rows(statement, [namespace, list(permit_keys)])}

    def all_receipts(self) -> Iterator[ScannedReceipt]:
        statement = f"SELECT {_RECEIPT} FROM {SCHEMA}.append_receipts ORDER BY namespace, permit_key"
        return (_receipt(row) for row in self._stream(statement, []))

    def unjournaled(self) -> Iterator[tuple[str, str]]:
        for noun, kind in KINDS.items():
            statement = (
                f"SELECT id FROM {SCHEMA}.{kind.table} AS held WHERE NOT EXISTS (SELECT FROM "
                f"{SCHEMA}.ledger_commits_v1 AS journal WHERE journal.noun = %s AND journal.id = held.id) ORDER BY id"
            )
            yield from ((kind.table, row[0]) for row in self._stream(statement, [noun]))

    def stray_children(self) -> Iterator[tuple[str, str]]:
        for kind in KINDS.values():
            for child in kind.children:
                statement = (
                    f"SELECT DISTINCT parent_id FROM {SCHEMA}.{child.table} AS part WHERE NOT EXISTS "
                    f"(SELECT FROM {SCHEMA}.{kind.table} AS whole WHERE whole.id = part.parent_id) ORDER BY parent_id"
                )
                yield from ((child.table, row[0]) for row in self._stream(statement, []))

    def _children(
        self, table: str, columns: tuple[str, ...], parents: Sequence[str]
    ) -> dict[str, list[tuple[Any, ...]]]:
        names = ("parent_id", "ordinal", "namespace", *(name for name in columns if name != "ordinal"))
        statement = (
            f"SELECT {', '.join(names)} FROM {SCHEMA}.{table} WHERE parent_id = ANY(%s) ORDER BY parent_id, ordinal"
        )
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in self._rows(statement, [list(parents)]):
            found.setdefault(row[0], []).append(tuple(row[1:]))
        return found

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated("ledger"):
            return self._connection.execute(own_sql(statement), parameters).fetchall()

    def _stream(self, statement: str, parameters: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        self._streams += 1
        with translated("ledger"), self._connection.cursor(f"vrm_scan_{self._streams}") as cursor:
            cursor.itersize = _FETCH
            cursor.execute(own_sql(statement), parameters)
            yield from cursor


class _MemoryScan:
    def __init__(self, reader: MemoryReader) -> None:
        self._state = reader._state  # noqa: SLF001  # as above

    def namespaces(self) -> list[str]:
        return sorted(self._state.heads.keys() | self._state.journals.keys())

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        return iter(self._state.journals.get(namespace, []))

    def rows(self, noun: str, record_ids: Sequence[str]) -> dict[str, ScannedRow]:
        found = {}
        for record_id in record_ids:
            stored = self._state.records.get(record_id)
            if stored is not None and stored.noun == noun:
                found[record_id] = ScannedRow(
                    id=stored.id,
                    namespace=stored.namespace,
                    position=stored.position,
                    payload=stored.payload,
                    columns=self._state.columns[record_id],
                    children=expected_children(stored.load()),  # this adapter keeps no child rows
                )
        return found

    def positions(self, record_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        wanted = set(record_ids)
        rows = (row for journal in self._state.journals.values() for row in journal if row.id in wanted)
        return {row.id: (row.namespace, row.position) for row in rows}

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        wanted = {(namespace, key) for key in permit_keys}
        return {row.permit_key: row for row in self.all_receipts() if (row.namespace, row.permit_key) in wanted}

    def all_receipts(self) -> Iterator[ScannedReceipt]:
        for (namespace, key), receipt in sorted(self._state.receipts.items()):
            yield ScannedReceipt(
                namespace=namespace,
                permit_key=key,
                permit_digest=receipt.permit_digest,
                transition=receipt.transition.value,
                receipt=receipt.canonical.decode(),
            )

    def unjournaled(self) -> Iterator[tuple[str, str]]:
        journaled = {row.id for journal in self._state.journals.values() for row in journal}
        for record_id, stored in sorted(self._state.records.items()):
            if record_id not in journaled:
                yield KINDS[stored.noun].table, record_id

    def stray_children(self) -> Iterator[tuple[str, str]]:
        return iter(())


def _receipt(row: Iterable[Any]) -> ScannedReceipt:
    return ScannedReceipt(**dict(zip(_RECEIPT.split(", "), row, strict=True)))
