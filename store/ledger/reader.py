"""Reading the Ledger on Postgres, over one connection: inside a transaction everything is of one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from records.appends import AppendReceipt, Head, JournalRow, NamespaceHead, StoredRecord
from records.base import KINDS
from store.database import Connection, own_sql, translated
from store.ledger.port import FindValue, require_prefix
from store.ledger.schema import SCHEMA, column_names

HEAD_COLUMNS: Final = ", ".join(Head._fields)
NAMESPACE_COLUMNS: Final = ", ".join(NamespaceHead._fields)
JOURNAL_COLUMNS: Final = ", ".join(JournalRow._fields)
"""What is selected for a head, a namespace's head and a journal row."""


class PostgresReader:
    """Reads over one connection; within a transaction all of them see one moment."""

    def __init__(self, connection: Connection) -> None:
        """Read through `connection`, which the caller owns."""
        self._connection = connection
        self._lock = threading.Lock()

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated("ledger"):
            return self._connection.execute(own_sql(statement), parameters).fetchall()

    def get(self, record_id: str) -> StoredRecord | None:
        """Return a record by id."""
        return self.get_many([record_id]).get(record_id)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the records among `record_ids` that exist, by id."""
        by_noun: dict[str, list[str]] = {}
        for record_id in record_ids:
            by_noun.setdefault(record_id.partition(":")[0], []).append(record_id)
        found: dict[str, StoredRecord] = {}
        for noun, ids in by_noun.items():
            if noun in KINDS:
                statement = f"SELECT id, namespace, position, payload FROM {_table(noun)} WHERE id = ANY(%s)"
                found.update({row[0]: _stored(noun, row) for row in self._rows(statement, [ids])})
        return found

    def find(self, noun: str, namespace: str, **equal: FindValue) -> list[StoredRecord]:
        """Return the records of a kind whose indexed columns equal the values given, in journal order."""
        conditions, parameters = ["namespace = %s"], [namespace]
        for name, value in equal.items():
            if name not in column_names(KINDS[noun]):
                raise ValueError(f"{noun} has no column {name}")
            if value is None:
                conditions.append(f"{name} IS NULL")
                continue
            many = not isinstance(value, str | int | bool)
            conditions.append(f"{name} = ANY(%s)" if many else f"{name} = %s")
            parameters.append(cast("Any", list(cast("Sequence[str]", value)) if many else value))
        statement = (
            f"SELECT id, namespace, position, payload FROM {_table(noun)} "
            f"WHERE {' AND '.join(conditions)} ORDER BY position"
        )
        return [_stored(noun, row) for row in self._rows(statement, parameters)]

    def namespace_head(self, namespace: str) -> NamespaceHead:
        """Return where the journal of a namespace stands."""
        rows = self._rows(f"SELECT {NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = %s", [namespace])
        return NamespaceHead(*rows[0]) if rows else NamespaceHead(namespace=namespace)

    def namespaces(self) -> list[str]:
        """Return every namespace that holds a record."""
        statement = f"SELECT namespace FROM {SCHEMA}.namespace_heads WHERE position > 0"
        return sorted(row[0] for row in self._rows(statement))

    def variant_heads(self, namespace: str, scope_variant_ids: Iterable[str] | None = None) -> dict[str, Head]:
        """Return heads by scope variant id."""
        statement = f"SELECT {HEAD_COLUMNS} FROM {SCHEMA}.scope_variant_heads WHERE namespace = %s"
        parameters: list[Any] = [namespace]
        if scope_variant_ids is not None:
            statement += " AND scope_variant_id = ANY(%s)"
            parameters.append(sorted(scope_variant_ids))
        rows = self._rows(statement + " ORDER BY scope_variant_id", parameters)
        return {row[0]: Head(*row) for row in rows}

    def receipt(self, namespace: str, permit_key: str) -> AppendReceipt | None:
        """Return the receipt that a permit got."""
        return self.receipts(namespace, [permit_key]).get(permit_key)

    def receipts(self, namespace: str, permit_keys: Iterable[str]) -> dict[str, AppendReceipt]:
        """Return receipts by permit key."""
        statement = f"SELECT receipt FROM {SCHEMA}.append_receipts WHERE namespace = %s AND permit_key = ANY(%s)"
        receipts = [AppendReceipt.load(row[0]) for row in self._rows(statement, [namespace, sorted(permit_keys)])]
        return {receipt.permit_key: receipt for receipt in receipts}

    def journal(self, namespace: str, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Return journal rows with a position beyond `after`."""
        statement = (
            f"SELECT {JOURNAL_COLUMNS} FROM {SCHEMA}.ledger_commits_v1 "
            "WHERE namespace = %s AND position > %s ORDER BY position LIMIT %s"
        )
        return [JournalRow(*row) for row in self._rows(statement, [namespace, after, limit])]

    def resolve(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with `prefix`, or whose hex part does."""
        require_prefix(prefix)
        patterns = [f"{prefix}%"] if ":" in prefix else [f"{noun}:{prefix}%" for noun in sorted(KINDS)]
        statement = f'SELECT id FROM {SCHEMA}.ledger_commits_v1 WHERE id LIKE ANY(%s) ORDER BY id COLLATE "C" LIMIT %s'
        return [row[0] for row in self._rows(statement, [patterns, limit])]


def _table(noun: str) -> str:
    return f"{SCHEMA}.{KINDS[noun].table}"


def _stored(noun: str, row: tuple[Any, ...]) -> StoredRecord:
    return StoredRecord(noun=noun, id=row[0], namespace=row[1], position=row[2], payload=row[3])
