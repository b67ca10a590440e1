"""What the Ledger is measured against, on the same server with the same durability.

- `RawInserts`: the least that a durable append can cost: one row of the same payload, a primary key and one more index,
  one INSERT in autocommit through the same driver. No validation, no chain, no receipt, no fence.
- `EventRecorder`: the application recorder of the `eventsourcing` package, one event of the same size at a time: a
  library that people use for the same purpose, with a total order of events but no validation, chain or receipt.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from evaluation.bench.server import Bench
from store.database import Connection

_SCHEMA: Final = "bench_reference"
_MADE: Final = (
    "CREATE SCHEMA IF NOT EXISTS bench_reference",
    "CREATE TABLE bench_reference.rows (id text PRIMARY KEY, position bigint NOT NULL UNIQUE, payload text NOT NULL)",
)


class RawInserts:
    """One row, one commit; or many rows of one payload."""

    def __init__(self, admin: Connection) -> None:
        """Make the table."""
        self._admin = admin
        for statement in _MADE:
            admin.execute(statement)

    def insert(self, number: int, record_id: str, payload: str) -> None:
        """Write one row durably."""
        self._admin.execute("INSERT INTO bench_reference.rows VALUES (%s, %s, %s)", [record_id, number, payload])

    def insert_many(self, numbers: range, payload: str) -> None:
        """Write many rows durably, in one statement and one commit."""
        self._admin.execute(
            "INSERT INTO bench_reference.rows SELECT 'raw:' || at, at, %s FROM generate_series(%s::bigint, %s) AS at",
            [payload, numbers.start, numbers.stop - 1],
        )


def event_recorder(bench: Bench) -> Callable[[bytes], None] | None:
    """Return a function that records one event durably, or None where the package is not installed."""
    try:
        from eventsourcing.persistence import StoredEvent  # noqa: PLC0415  # a development dependency
        from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore  # noqa: PLC0415
    except ImportError:
        return None
    place = bench.admin.info
    bench.admin.execute("CREATE SCHEMA IF NOT EXISTS bench_reference")
    datastore = PostgresDatastore(
        dbname=place.dbname, host=place.host, port=place.port, user=place.user, password=place.password, schema=_SCHEMA
    )
    recorder = PostgresApplicationRecorder(datastore)
    recorder.create_table()

    def record(payload: bytes) -> None:
        event = StoredEvent(originator_id=uuid.uuid4(), originator_version=1, topic="bench:Appended", state=payload)
        recorder.insert_events([event])

    return record
