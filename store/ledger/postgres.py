"""The Ledger on Postgres.

Lock order in a write transaction: epochs, journals of the namespaces (sorted), scope variant heads (sorted by the
engine). Hot statements go to the driver as prepared text; SQLAlchemy holds the schema only.

A group is first tried as one pipeline: writes are sent without waiting for each other and without savepoints, and what
the database refuses is told at the next read or at the end. Only then is it carried out again request by request
(docs/performance.md says what that saves).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import psycopg

from records.appends import AppendReceipt, Head, JournalRow, NamespaceHead, StoredRecord
from records.base import KINDS, Record
from records.errors import FencedError, UnavailableError, VrmError
from records.knowledge import GENESIS, HeadMove
from store import owners
from store.database import Connection, connect, own_sql, read, translated
from store.ledger.engine import Placed, commit_group, commit_together
from store.ledger.port import Epoch, FindValue, LedgerReader, Request, require_prefix
from store.ledger.schema import DEFINITION, SCHEMA, column_names, column_value
from store.owners import Writer

_HEAD_COLUMNS: Final = "scope_variant_id, namespace, event_id, memory_id, disposition, version"
_NAMESPACE_COLUMNS: Final = "namespace, position, chain_digest, evidence, lifecycle, retention"
_JOURNAL_COLUMNS: Final = "namespace, position, noun, id, payload_digest, chain_digest, permit_key"
_JOURNAL_INSERT: Final = (
    f"INSERT INTO {SCHEMA}.ledger_commits_v1 ({_JOURNAL_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
)


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
        rows = self._rows(
            f"SELECT {_NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = %s", [namespace]
        )
        return _namespace(rows[0]) if rows else NamespaceHead(namespace=namespace)

    def namespaces(self) -> list[str]:
        """Return every namespace that holds a record."""
        statement = f"SELECT namespace FROM {SCHEMA}.namespace_heads WHERE position > 0"
        return sorted(row[0] for row in self._rows(statement))

    def variant_heads(self, namespace: str, scope_variant_ids: Iterable[str] | None = None) -> dict[str, Head]:
        """Return heads by scope variant id."""
        statement = f"SELECT {_HEAD_COLUMNS} FROM {SCHEMA}.scope_variant_heads WHERE namespace = %s"
        parameters: list[Any] = [namespace]
        if scope_variant_ids is not None:
            statement += " AND scope_variant_id = ANY(%s)"
            parameters.append(sorted(scope_variant_ids))
        names = _HEAD_COLUMNS.split(", ")
        rows = self._rows(statement + " ORDER BY scope_variant_id", parameters)
        return {row[0]: Head(**dict(zip(names, row, strict=True))) for row in rows}

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
            f"SELECT {_JOURNAL_COLUMNS} FROM {SCHEMA}.ledger_commits_v1 "
            "WHERE namespace = %s AND position > %s ORDER BY position LIMIT %s"
        )
        names = _JOURNAL_COLUMNS.split(", ")
        return [
            JournalRow(**dict(zip(names, row, strict=True))) for row in self._rows(statement, [namespace, after, limit])
        ]

    def payload_digests(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return position and payload digest of those records that exist."""
        statement = f"SELECT id, position, payload_digest FROM {SCHEMA}.ledger_commits_v1 WHERE id = ANY(%s)"
        return {row[0]: (row[1], row[2]) for row in self._rows(statement, [sorted(record_ids)])}

    def resolve(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with `prefix`, or whose hex part does."""
        require_prefix(prefix)
        patterns = [f"{prefix}%"] if ":" in prefix else [f"{noun}:{prefix}%" for noun in sorted(KINDS)]
        statement = f'SELECT id FROM {SCHEMA}.ledger_commits_v1 WHERE id LIKE ANY(%s) ORDER BY id COLLATE "C" LIMIT %s'
        return [row[0] for row in self._rows(statement, [patterns, limit])]


class PostgresTransaction(PostgresReader):
    """One open write transaction; see `store.ledger.engine.LedgerTransaction`."""

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Hold every epoch row to the end of the transaction."""
        with translated("owners"), self._connection.cursor() as cursor:
            owners.hold(cursor, SCHEMA, fences)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Lock the journals of the namespaces, in the order given."""
        statement = f"SELECT {_NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = %s FOR UPDATE"
        heads = {}
        for name in namespaces:
            rows = self._rows(statement, [name])
            if not rows:
                fresh = NamespaceHead(namespace=name)
                self._send(
                    f"INSERT INTO {SCHEMA}.namespace_heads VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    [name, 0, fresh.chain_digest, 0, 0, 0],
                )
                rows = self._rows(statement, [name])
            heads[name] = _namespace(rows[0])
        return heads

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what happened inside if it ends with an error."""
        with self._connection.transaction():
            yield

    def insert(self, placed: Sequence[Placed]) -> None:
        """Write records, their children and their journal rows."""
        with translated("ledger"), self._connection.cursor() as cursor:
            for noun, group in _runs(placed):
                cursor.executemany(own_sql(_INSERTS[noun]), [_record_row(item) for item in group])
                for child in KINDS[noun].children:
                    rows = [row for item in group for row in _child_rows(item.record, child.path, child.columns)]
                    if rows:
                        cursor.executemany(own_sql(_child_insert(child.table, child.columns)), rows)
            cursor.executemany(own_sql(_JOURNAL_INSERT), [tuple(vars(item.row).values()) for item in placed])

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        """Write the receipt of a permit."""
        self._send(
            f"INSERT INTO {SCHEMA}.append_receipts VALUES (%s, %s, %s, %s, %s)",
            [receipt.namespace, receipt.permit_key, receipt.permit_digest, receipt.transition.value,
             receipt.canonical.decode()],
        )  # fmt: skip

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        """Compare-and-swap one scope variant's head."""
        fresh = [move.scope_variant_id, namespace, move.event_id, move.memory_id, move.disposition.value]
        if move.expected == GENESIS:
            places = "(%s, %s, %s, %s, %s, 1) ON CONFLICT DO NOTHING"
            statement = f"INSERT INTO {SCHEMA}.scope_variant_heads VALUES {places}"
            return self._changes_one(statement, fresh)
        statement = (
            f"UPDATE {SCHEMA}.scope_variant_heads SET event_id = %s, memory_id = %s, disposition = %s, "
            "version = version + 1 WHERE scope_variant_id = %s AND namespace = %s AND event_id = %s"
        )
        return self._changes_one(statement, [*fresh[2:], *fresh[:2], move.expected])

    def save_namespace(self, head: NamespaceHead) -> None:
        """Write where the journal of a namespace now stands."""
        self._send(
            f"UPDATE {SCHEMA}.namespace_heads SET position = %s, chain_digest = %s, evidence = %s, lifecycle = %s, "
            "retention = %s WHERE namespace = %s",
            [head.position, head.chain_digest, head.evidence, head.lifecycle, head.retention, head.namespace],
        )

    def _send(self, statement: str, parameters: Sequence[Any]) -> None:
        with translated("ledger"):
            self._connection.execute(own_sql(statement), parameters)

    def _changes_one(self, statement: str, parameters: Sequence[Any]) -> bool:
        return len(self._rows(f"{statement} RETURNING version", parameters)) == 1


class PostgresLedger(PostgresReader):
    """The Ledger for one process: one connection to read, and one to write once something is claimed."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect as the application role of the Ledger; `holder` names the process in the server's activity view."""
        super().__init__(connect(dsn, holder))
        self._dsn = dsn
        self._holder = holder
        self._writer = Writer(dsn, holder, (SCHEMA, DEFINITION.revision))

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated("ledger"):
            self._connection, rows = read(self._connection, own_sql(statement), parameters, (self._dsn, self._holder))
            return rows

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return Epoch(resource, self._writer.claim(resource, holder))

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Write a group of appends in one physical commit."""
        if not group:
            return []
        fences = [(epoch.resource, epoch.number)]
        try:
            with self._writer.transaction(epoch.resource, epoch.number) as connection, _pipelined(connection):
                return commit_together(PostgresTransaction(connection), fences, group)
        except (FencedError, UnavailableError):
            raise
        except VrmError:  # of one request; the others must not suffer from it
            with self._writer.transaction(epoch.resource, epoch.number) as connection:
                return commit_group(PostgresTransaction(connection), fences, group)

    @contextmanager
    def reading(self) -> Iterator[LedgerReader]:
        """Open one read transaction on a connection of its own."""
        with translated("ledger"):
            connection = connect(self._dsn, f"{self._holder} reader")
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with connection, connection.transaction():
                yield PostgresReader(connection)

    def table_counts(self) -> Mapping[str, int]:
        """Return the number of records of each kind."""
        rows = self._rows(f"SELECT noun, count(*) FROM {SCHEMA}.ledger_commits_v1 GROUP BY noun")
        return dict(sorted(rows))

    def close(self) -> None:
        """Close both connections."""
        self._connection.close()
        self._writer.close()


@contextmanager
def _pipelined(connection: Connection) -> Iterator[None]:
    """Send the statements inside without waiting; if one is refused, its error comes out, not that of what follows."""
    failure: BaseException | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except BaseException as error:  # noqa: BLE001  # raised again below, once the pipeline is empty
                failure = error
    except psycopg.Error as error:
        skipped = isinstance(error, psycopg.errors.PipelineAborted)
        failure = failure or (error.__context__ if skipped else None) or error
    if failure is not None:
        raise failure


def _table(noun: str) -> str:
    return f"{SCHEMA}.{KINDS[noun].table}"


def _namespace(row: tuple[Any, ...]) -> NamespaceHead:
    return NamespaceHead(**dict(zip(_NAMESPACE_COLUMNS.split(", "), row, strict=True)))


def _stored(noun: str, row: tuple[Any, ...]) -> StoredRecord:
    return StoredRecord(noun=noun, id=row[0], namespace=row[1], position=row[2], payload=row[3])


def _insert(noun: str) -> str:
    names = ("id", "namespace", "position", *column_names(KINDS[noun]), "payload")
    return f"INSERT INTO {_table(noun)} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"


_INSERTS: Final[dict[str, str]] = {noun: _insert(noun) for noun in KINDS}


def _child_insert(table: str, columns: tuple[str, ...]) -> str:
    names = ("parent_id", "ordinal", "namespace", *(name for name in columns if name != "ordinal"))
    return f"INSERT INTO {SCHEMA}.{table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"


def _record_row(item: Placed) -> tuple[Any, ...]:
    record = item.record
    values = [getattr(record, name) for name in column_names(record.kind)]
    return (str(record.id), record.namespace, item.row.position, *map(column_value, values), record.payload.decode())


def _child_rows(record: Record, path: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    rows = []
    for ordinal, entry in enumerate(getattr(record, path), start=1):
        values = [column_value(getattr(entry, name)) for name in columns if name != "ordinal"]
        rows.append((str(record.id), ordinal, record.namespace, *values))
    return rows


def _runs(placed: Sequence[Placed]) -> list[tuple[str, list[Placed]]]:
    """Group neighbours of one kind, so that parents are still written before what refers to them."""
    runs: list[tuple[str, list[Placed]]] = []
    for item in placed:
        if runs and runs[-1][0] == item.row.noun:
            runs[-1][1].append(item)
        else:
            runs.append((item.row.noun, [item]))
    return runs
