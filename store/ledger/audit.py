"""What only the integrity check reads: rows as the tables really hold them, streamed, with no index taken on trust.

Rules kept here:

- everything is read in the one read transaction that the caller has opened with `reading()`, so it is of one moment;
- streams come through server-side cursors: memory is bounded by the batch, never by the size of a table;
- a check takes as long as it takes: the time limits of a session are lifted for its transaction, which locks nothing;
- nothing is interpreted: whether columns, children and payload belong together is decided by who asks.

Not handled here: what a row must look like (`memory.fsck`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from psycopg.pq import TransactionStatus

from records.appends import Head, JournalRow
from records.base import KINDS
from records.knowledge import LifecycleEvent
from store.database import own_sql, translated
from store.ledger.memory import MemoryReader
from store.ledger.port import LedgerReader
from store.ledger.projections import Children, children_of
from store.ledger.reader import HEAD_COLUMNS, JOURNAL_COLUMNS, MomentReader, PostgresReader
from store.ledger.schema import SCHEMA, column_names

_FETCH: Final = 500
_RECEIPT: Final = "namespace, permit_key, permit_digest, transition, receipt"
_EVENTS: Final = f"{SCHEMA}.{LifecycleEvent.kind.table}"
_WITHIN: Final = "(%s::text IS NULL OR namespace = %s)"
_UNHURRIED: Final = ("statement_timeout = 0", "idle_in_transaction_session_timeout = 0", "cursor_tuple_fraction = 1")


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


class Place(NamedTuple):
    """Where the journal has a record, and the permit that it was written under."""

    namespace: str
    position: int
    permit_key: str


class LedgerScan(Protocol):
    """Raw reads of a whole Ledger; a namespace of None means all of them."""

    def namespaces(self) -> list[str]:
        """Return every namespace that a journal, a head or a receipt names, sorted."""

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        """Stream a journal by position."""

    def sizes(self, record_ids: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the length of the payload of those records that exist, by id, without reading it."""

    def rows(self, noun: str, record_ids: Sequence[str]) -> dict[str, ScannedRow]:
        """Return those rows of a kind that exist, by id."""

    def places(self, record_ids: Sequence[str]) -> dict[str, Place]:
        """Return where the journal has those records that it names."""

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        """Return receipts by permit key."""

    def unused_receipts(self, namespace: str) -> Iterator[ScannedReceipt]:
        """Stream the receipts whose permit no journal row names."""

    def chains(self, namespace: str) -> Iterator[tuple[str, str]]:
        """Stream scope variant and id of every lifecycle event, the events of one variant together."""

    def stray_heads(self, namespace: str) -> Iterator[Head]:
        """Stream the heads of scope variants that have no lifecycle event."""

    def owners(self) -> dict[str, int]:
        """Return the epoch of every owner."""

    def unjournaled(self, namespace: str | None) -> Iterator[tuple[str, str]]:
        """Stream table and id of record rows that no journal row names."""

    def stray_children(self, namespace: str | None) -> Iterator[tuple[str, str]]:
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


class _PostgresScan:
    def __init__(self, reader: PostgresReader) -> None:
        if isinstance(reader, MomentReader):
            reader.begin()
        self._connection = reader._connection  # noqa: SLF001  # one adapter in two modules; the seam has no raw reads
        self._lock = threading.Lock()
        self._streams = 0
        if self._connection.info.transaction_status is TransactionStatus.IDLE and self._connection.autocommit:
            raise ValueError("open the reader with `reading()`: a scan needs one transaction")
        with translated("ledger"):
            for setting in _UNHURRIED:
                self._connection.execute(own_sql(f"SET LOCAL {setting}"))

    def namespaces(self) -> list[str]:
        tables = ("namespace_heads", "ledger_commits_v1", "append_receipts", "scope_variant_heads")
        parts = (f"SELECT DISTINCT namespace FROM {SCHEMA}.{table}" for table in tables)
        return sorted(row[0] for row in self._rows(" UNION ".join(parts)))

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        statement = f"SELECT {JOURNAL_COLUMNS} FROM {SCHEMA}.ledger_commits_v1 WHERE namespace = %s ORDER BY position"
        for row in self._stream(statement, [namespace]):
            yield JournalRow(*row)

    def sizes(self, record_ids: Mapping[str, Sequence[str]]) -> dict[str, int]:
        parts = [
            f"SELECT id, octet_length(payload) FROM {SCHEMA}.{KINDS[noun].table} WHERE id = ANY(%s)"
            for noun in record_ids
        ]
        return dict(self._rows(" UNION ALL ".join(parts), [list(ids) for ids in record_ids.values()])) if parts else {}

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

    def places(self, record_ids: Sequence[str]) -> dict[str, Place]:
        statement = f"SELECT id, namespace, position, permit_key FROM {SCHEMA}.ledger_commits_v1 WHERE id = ANY(%s)"
        return {row[0]: Place(*row[1:]) for row in self._rows(statement, [list(record_ids)])}

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        statement = f"SELECT {_RECEIPT} FROM {SCHEMA}.append_receipts WHERE namespace = %s AND permit_key = ANY(%s)"
        return {row[1]: _receipt(row) for row in self._rows(statement, [namespace, list(permit_keys)])}

    def unused_receipts(self, namespace: str) -> Iterator[ScannedReceipt]:
        statement = (
            f"SELECT {_RECEIPT} FROM {SCHEMA}.append_receipts AS receipt WHERE namespace = %s AND NOT EXISTS "
            f"(SELECT FROM {SCHEMA}.ledger_commits_v1 AS journal WHERE journal.namespace = receipt.namespace "
            "AND journal.permit_key = receipt.permit_key) ORDER BY permit_key"
        )
        return (_receipt(row) for row in self._stream(statement, [namespace]))

    def chains(self, namespace: str) -> Iterator[tuple[str, str]]:
        statement = (
            f"SELECT scope_variant_id, id FROM {_EVENTS} WHERE namespace = %s ORDER BY scope_variant_id, position"
        )
        return ((row[0], row[1]) for row in self._stream(statement, [namespace]))

    def stray_heads(self, namespace: str) -> Iterator[Head]:
        statement = (
            f"SELECT {HEAD_COLUMNS} FROM {SCHEMA}.scope_variant_heads AS head WHERE namespace = %s AND NOT EXISTS "
            f"(SELECT FROM {_EVENTS} AS event WHERE event.namespace = head.namespace "
            "AND event.scope_variant_id = head.scope_variant_id) ORDER BY scope_variant_id"
        )
        return (Head(*row) for row in self._stream(statement, [namespace]))

    def owners(self) -> dict[str, int]:
        return dict(self._rows(f"SELECT resource, epoch FROM {SCHEMA}.owners ORDER BY resource"))

    def unjournaled(self, namespace: str | None) -> Iterator[tuple[str, str]]:
        for noun, kind in KINDS.items():
            statement = (
                f"SELECT id FROM {SCHEMA}.{kind.table} AS held WHERE {_WITHIN} AND NOT EXISTS (SELECT FROM "
                f"{SCHEMA}.ledger_commits_v1 AS journal WHERE journal.noun = %s AND journal.id = held.id) ORDER BY id"
            )
            yield from ((kind.table, row[0]) for row in self._stream(statement, [namespace, namespace, noun]))

    def stray_children(self, namespace: str | None) -> Iterator[tuple[str, str]]:
        for kind in KINDS.values():
            for child in kind.children:
                statement = (
                    f"SELECT DISTINCT parent_id FROM {SCHEMA}.{child.table} AS part WHERE {_WITHIN} AND NOT EXISTS "
                    f"(SELECT FROM {SCHEMA}.{kind.table} AS whole WHERE whole.id = part.parent_id) ORDER BY parent_id"
                )
                yield from ((child.table, row[0]) for row in self._stream(statement, [namespace, namespace]))

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
        heads = {head.namespace for head in self._state.variants.values()}
        return sorted(self._state.heads.keys() | self._state.journals.keys() | heads)

    def journal(self, namespace: str) -> Iterator[JournalRow]:
        return iter(self._state.journals.get(namespace, []))

    def sizes(self, record_ids: Mapping[str, Sequence[str]]) -> dict[str, int]:
        held = self._state.records
        return {key: len(held[key].payload) for ids in record_ids.values() for key in ids if key in held}

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
                    children=children_of(stored.load()),  # this adapter keeps no child rows
                )
        return found

    def places(self, record_ids: Sequence[str]) -> dict[str, Place]:
        wanted = set(record_ids)
        rows = (row for journal in self._state.journals.values() for row in journal if row.id in wanted)
        return {row.id: Place(row.namespace, row.position, row.permit_key) for row in rows}

    def receipts(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, ScannedReceipt]:
        wanted = {(namespace, key) for key in permit_keys}
        return {row.permit_key: row for row in self._receipts() if (row.namespace, row.permit_key) in wanted}

    def unused_receipts(self, namespace: str) -> Iterator[ScannedReceipt]:
        used = {row.permit_key for row in self.journal(namespace)}
        return (row for row in self._receipts() if row.namespace == namespace and row.permit_key not in used)

    def chains(self, namespace: str) -> Iterator[tuple[str, str]]:
        events = self._state.by_kind.get((LifecycleEvent.kind.noun, namespace), [])
        return iter(sorted((self._state.columns[key]["scope_variant_id"], key) for key in events))

    def stray_heads(self, namespace: str) -> Iterator[Head]:
        known = {variant for variant, _ in self.chains(namespace)}
        heads = (head for _, head in sorted(self._state.variants.items()) if head.namespace == namespace)
        return (head for head in heads if head.scope_variant_id not in known)

    def owners(self) -> dict[str, int]:
        return dict(sorted(self._state.owners.items()))

    def unjournaled(self, namespace: str | None) -> Iterator[tuple[str, str]]:
        journaled = {row.id for journal in self._state.journals.values() for row in journal}
        for record_id, stored in sorted(self._state.records.items()):
            if record_id not in journaled and namespace in (None, stored.namespace):
                yield KINDS[stored.noun].table, record_id

    def stray_children(self, namespace: str | None) -> Iterator[tuple[str, str]]:  # noqa: ARG002  # there are none
        return iter(())

    def _receipts(self) -> Iterator[ScannedReceipt]:
        for (namespace, key), receipt in sorted(self._state.receipts.items()):
            yield ScannedReceipt(
                namespace=namespace,
                permit_key=key,
                permit_digest=receipt.permit_digest,
                transition=receipt.transition.value,
                receipt=receipt.canonical.decode(),
            )


def _receipt(row: Iterable[Any]) -> ScannedReceipt:
    return ScannedReceipt(**dict(zip(_RECEIPT.split(", "), row, strict=True)))
