"""The Ledger in memory: the same logical semantics, for tests and simulation.

It enforces what the tables of Postgres enforce: foreign keys within the namespace, uniqueness, gapless journals, heads
by compare-and-swap, epochs. Durability, triggers, roles and lost connections only a database has. A write transaction
works on the state itself and keeps an undo log, so that a savepoint costs what it changed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from records.appends import AppendReceipt, Head, JournalRow, NamespaceHead, StoredRecord
from records.base import KINDS, Child, Kind, Record
from records.errors import IntegrityError, VrmError
from records.knowledge import GENESIS, HeadMove
from records.models import noun_of
from store.ledger.engine import Placed, commit_group
from store.ledger.port import Asked, Epoch, FindValue, LedgerReader, Request, fenced, require_prefix
from store.ledger.projections import columns_of, references_of
from store.ledger.schema import column_names, require_columns

A = TypeVar("A")
B = TypeVar("B")


class _State:
    def __init__(self) -> None:
        self.records: dict[str, StoredRecord] = {}
        self.columns: dict[str, dict[str, Any]] = {}
        self.by_kind: dict[tuple[str, str], list[str]] = {}
        self.unique: dict[tuple[str, tuple[Any, ...]], str] = {}
        self.journals: dict[str, list[JournalRow]] = {}
        self.digests: dict[str, tuple[int, str]] = {}
        self.heads: dict[str, NamespaceHead] = {}
        self.variants: dict[str, Head] = {}
        self.receipts: dict[tuple[str, str], AppendReceipt] = {}
        self.owners: dict[str, int] = {}


class MemoryReader:
    """Reads over a state."""

    def __init__(self, state: _State) -> None:
        """Read `state`, which the caller keeps from changing meanwhile."""
        self._state = state

    def both(self, first: Asked[A], second: Asked[B]) -> tuple[A, B]:
        """Answer two questions."""
        one, other = (getattr(self, each.getter)(*each.given, **each.equal) for each in (first, second))
        return one, other

    def get(self, record_id: str) -> StoredRecord | None:
        """Return a record by id."""
        return self._state.records.get(record_id)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the records among `record_ids` that exist, by id."""
        return {each: self._state.records[each] for each in record_ids if each in self._state.records}

    def find(self, noun: str, namespace: str, **equal: FindValue) -> list[StoredRecord]:
        """Return the records of a kind whose indexed columns equal the values given, in journal order."""
        for name in equal:
            if name not in column_names(KINDS[noun]):
                raise ValueError(f"{noun} has no column {name}")
        ids = self._state.by_kind.get((noun, namespace), [])
        return [self._state.records[each] for each in ids if _matches(self._state.columns[each], equal)]

    def namespace_head(self, namespace: str) -> NamespaceHead:
        """Return where the journal of a namespace stands."""
        return self._state.heads.get(namespace, NamespaceHead(namespace=namespace))

    def namespaces(self) -> list[str]:
        """Return every namespace that holds a record."""
        return sorted(name for name, head in self._state.heads.items() if head.position)

    def variant_heads(self, namespace: str, scope_variant_ids: Iterable[str] | None = None) -> dict[str, Head]:
        """Return heads by scope variant id."""
        wanted = None if scope_variant_ids is None else set(scope_variant_ids)
        return {
            key: head
            for key, head in sorted(self._state.variants.items())
            if head.namespace == namespace and (wanted is None or key in wanted)
        }

    def receipt(self, namespace: str, permit_key: str) -> AppendReceipt | None:
        """Return the receipt that a permit got."""
        return self._state.receipts.get((namespace, permit_key))

    def receipts(self, namespace: str, permit_keys: Iterable[str]) -> dict[str, AppendReceipt]:
        """Return receipts by permit key."""
        found = {key: self._state.receipts.get((namespace, key)) for key in permit_keys}
        return {key: receipt for key, receipt in found.items() if receipt is not None}

    def journal(self, namespace: str, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Return journal rows with a position beyond `after`."""
        return self._state.journals.get(namespace, [])[after : after + limit]

    def resolve(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with `prefix`, or whose hex part does."""
        require_prefix(prefix)
        whole = ":" in prefix
        texts = {each: each if whole else each.partition(":")[2] for each in self._state.records}
        return sorted(each for each, text in texts.items() if text.startswith(prefix))[:limit]


class MemoryTransaction(MemoryReader):
    """One open write transaction; see `store.ledger.engine.LedgerTransaction`."""

    def __init__(self, state: _State) -> None:
        """Begin on `state`, which the caller has locked."""
        super().__init__(state)
        self._undo: list[Callable[[], object]] = []

    def rollback(self, mark: int = 0) -> None:
        """Undo everything since `mark`."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Refuse epochs that have moved on."""
        for resource, epoch in fences:
            now = self._state.owners.get(resource)
            if now != epoch:
                raise fenced(resource, epoch, now)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Return where the journals stand; the state is locked as a whole."""
        return {name: self.namespace_head(name) for name in namespaces}

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:
        """Return the receipts that permits have got."""
        return self.receipts(namespace, permit_keys)

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return position and payload digest of those records that exist."""
        return {each: self._state.digests[each] for each in record_ids if each in self._state.digests}

    def foresee(self, record_ids: Iterable[str]) -> None:
        """Read nothing: everything is at hand."""

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what happened inside if it ends with an error."""
        mark = len(self._undo)
        try:
            yield
        except BaseException:
            self.rollback(mark)
            raise

    def insert(self, placed: Sequence[Placed]) -> None:
        """Write records and their journal rows after checking what the tables would."""
        for item in placed:
            self._insert_one(item)

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        """Write the receipt of a permit."""
        self._put(self._state.receipts, (receipt.namespace, receipt.permit_key), receipt)

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        """Compare-and-swap one scope variant's head."""
        current = self._state.variants.get(move.scope_variant_id)
        if (current.event_id if current else GENESIS) != move.expected:
            return False
        head = Head(
            scope_variant_id=str(move.scope_variant_id),
            namespace=namespace,
            event_id=str(move.event_id),
            memory_id=str(move.memory_id),
            disposition=move.disposition.value,
            version=current.version + 1 if current else 1,
        )
        self._put(self._state.variants, head.scope_variant_id, head)
        return True

    def save_namespace(self, head: NamespaceHead) -> None:
        """Write where the journal of a namespace now stands."""
        self._put(self._state.heads, head.namespace, head)

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        before = table.get(key)
        table[key] = value
        self._undo.append(lambda: table.pop(key) if before is None else table.__setitem__(key, before))

    def _push(self, table: dict[Any, list[Any]], key: Any, value: Any) -> None:
        table.setdefault(key, []).append(value)
        self._undo.append(table[key].pop)

    def _insert_one(self, item: Placed) -> None:
        record, row, kind = item.record, item.row, item.record.kind
        columns = columns_of(record)
        if row.id in self._state.records:
            raise IntegrityError("ledger", f"{kind.table}_pkey", "The record is stored already.")
        self._check_references(record, kind)
        for names in kind.unique:
            key = (kind.noun, (names, *(columns.get(name, record.namespace) for name in names)))
            if key in self._state.unique:
                raise IntegrityError("ledger", f"{kind.table}_one_{'_'.join(names)}", "Nothing was written.")
            self._put(self._state.unique, key, row.id)
        stored = StoredRecord(
            noun=kind.noun,
            id=row.id,
            namespace=record.namespace,
            position=row.position,
            payload=record.payload.decode(),
        )
        self._put(self._state.records, row.id, stored)
        self._put(self._state.columns, row.id, columns)
        self._put(self._state.digests, row.id, (row.position, row.payload_digest))
        self._push(self._state.by_kind, (kind.noun, record.namespace), row.id)
        self._push(self._state.journals, record.namespace, row)

    def _check_references(self, record: Record, kind: Kind) -> None:
        for child in kind.children:
            _check_children(record, child)
        for name, value in references_of(record):
            target = self._state.records.get(str(value))
            if target is None or target.namespace != record.namespace:
                raise IntegrityError("ledger", f"{kind.table}.{name} -> {noun_of(value)}", "Nothing was written.")


class MemoryLedger(MemoryReader):
    """The Ledger of one process, in memory."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__(_State())
        self._lock = threading.RLock()

    def claim(self, resource: str, holder: str) -> Epoch:  # noqa: ARG002  # the port names the holder
        """Take ownership of a resource."""
        with self._lock:
            self._state.owners[resource] = self._state.owners.get(resource, 0) + 1
            return Epoch(resource, self._state.owners[resource])

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Write a group of appends."""
        if not group:
            return []
        with self._lock:
            transaction = MemoryTransaction(self._state)
            try:
                return commit_group(transaction, [(epoch.resource, epoch.number)], group)
            except BaseException:
                transaction.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[LedgerReader]:
        """Hold the state still while reading."""
        with self._lock:
            yield self

    def table_counts(self) -> Mapping[str, int]:
        """Return the number of records of each kind."""
        counts: dict[str, int] = {}
        for (noun, _namespace), ids in self._state.by_kind.items():
            counts[noun] = counts.get(noun, 0) + len(ids)
        return {noun: count for noun, count in sorted(counts.items()) if count}  # an undone append leaves a place

    def tally(self, noun: str, *columns: str) -> Mapping[tuple[str, ...], int]:
        """Return how many records of a kind have which values in indexed columns."""
        require_columns(noun, columns)
        counts: Counter[tuple[str, ...]] = Counter()
        for (kind, _namespace), ids in self._state.by_kind.items():
            if kind == noun:
                counts.update(tuple(_as_text(self._state.columns[each][name]) for name in columns) for each in ids)
        return dict(sorted(counts.items()))

    def close(self) -> None:
        """Nothing to give back."""


def _check_children(record: Record, child: Child) -> None:
    for name in child.unique:
        values = [getattr(entry, name) for entry in getattr(record, child.path)]
        if len(values) != len(set(values)):
            raise IntegrityError("ledger", f"{child.table}_one_{name}", "Nothing was written.")


def _as_text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _matches(columns: dict[str, Any], equal: dict[str, FindValue]) -> bool:
    return all(
        columns[name] == value if isinstance(value, str | int | bool | None) else columns[name] in value
        for name, value in equal.items()
    )
