"""The Runtime on Postgres. Lock order: epochs, then subjects by machine and id.

A group takes two round trips: one that opens the transaction, holds the epoch and locks what the commands name, and one
that writes what they changed and commits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, cast

from records.errors import VrmError
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase
from store.database import connect, own_sql, read, translated
from store.ledger.port import Epoch, fenced
from store.owners import Writer
from store.pipeline import Pipeline, texts
from store.runtime.engine import Key, Outcome, carry_out, keys_of
from store.runtime.schema import COLUMNS, DEFINITION, SCHEMA, table_name

_NAMES: Final = ", ".join(COLUMNS)
_COUNTS: Final = ("version", "generation", "fence")
_MOVED: Final = ("phase", *_COUNTS, "facts")
"""What a command may change of a subject."""
_HOLD: Final = f"SELECT epoch FROM {SCHEMA}.owners WHERE resource = $1 FOR SHARE"


class PostgresRuntimeReader:
    """Reads of the Runtime over one connection."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect as the application role of the Runtime."""
        self._dsn = dsn
        self._holder = holder
        self._connection = connect(dsn, holder)
        self._lock = threading.Lock()

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, translated("runtime"):
            self._connection, rows = read(self._connection, own_sql(statement), parameters, (self._dsn, self._holder))
            return rows

    def subject(self, machine: Machine, subject_id: str) -> Subject | None:
        """Return one subject."""
        return self.subjects(machine, [subject_id]).get(subject_id)

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        """Return those subjects that exist, by id."""
        statement = f"SELECT {_NAMES} FROM {SCHEMA}.{table_name(machine)} WHERE id = ANY(%s)"
        return {row[0]: subject_of(machine, row) for row in self._rows(statement, [sorted(subject_ids)])}

    def find(
        self, machine: Machine, phases: Iterable[Phase] = (), run_id: str | Sequence[str] | None = None
    ) -> list[Subject]:
        """Return the subjects in one of the phases, of one or some Runs if given, sorted by id."""
        conditions, parameters = ["TRUE"], []
        wanted = [phase.value for phase in phases]
        if wanted:
            conditions.append("phase = ANY(%s)")
            parameters.append(cast("Any", wanted))
        if run_id is not None:
            conditions.append("run_id = ANY(%s)")
            parameters.append(cast("Any", [run_id] if isinstance(run_id, str) else sorted(run_id)))
        statement = f"SELECT {_NAMES} FROM {SCHEMA}.{table_name(machine)} WHERE {' AND '.join(conditions)} ORDER BY id"
        return [subject_of(machine, row) for row in self._rows(statement, parameters)]

    def resolve(self, machine: Machine, prefix: str, limit: int = 10) -> list[str]:
        """Return the ids of a machine's subjects that begin with `prefix`, sorted; at most `limit` of them."""
        statement = f"SELECT id FROM {SCHEMA}.{table_name(machine)} WHERE starts_with(id, %s) ORDER BY id LIMIT %s"
        return [row[0] for row in self._rows(statement, [prefix, limit])]

    def phase_counts(self) -> dict[str, dict[str, int]]:
        """Return how many subjects each machine has in each phase."""
        counts: dict[str, dict[str, int]] = {}
        for machine in Machine:
            statement = f"SELECT phase, count(*) FROM {SCHEMA}.{table_name(machine)} GROUP BY phase ORDER BY phase"
            counts[machine.value] = dict(self._rows(statement))
        return counts

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresRuntime(PostgresRuntimeReader):
    """The Runtime for one run owner."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect to read; the writing connection is opened with the first claim."""
        super().__init__(dsn, holder)
        self._writer = Writer(dsn, holder, (SCHEMA, DEFINITION.revision))
        self._pipeline: Pipeline | None = None

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return Epoch(resource, self._writer.claim(resource, holder))

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands in one physical commit."""
        if not commands:
            return []
        with self._writer.using(epoch.resource, epoch.number) as connection:
            if self._pipeline is None or self._pipeline.connection is not connection:
                self._pipeline = Pipeline(connection, SCHEMA)
            try:
                outcome = carry_out(commands, _locked(self._pipeline, epoch, commands))
                _write(self._pipeline, outcome)
            except BaseException:
                self._pipeline.roll_back()
                raise
            return outcome.answers

    def close(self) -> None:
        """Close both connections."""
        super().close()
        self._writer.close()


def _locked(pipeline: Pipeline, epoch: Epoch, commands: Sequence[Command]) -> dict[Key, Subject]:
    """Open the transaction, hold the epoch to its end, and lock and load what the commands name."""
    pipeline.send("BEGIN")
    pipeline.send(_HOLD, [epoch.resource])
    machines = _by_machine(keys_of(commands))
    for machine, ids in machines.items():
        pipeline.send_columns(_lock(machine), [(texts, ids)])
    held, *found = pipeline.answers()
    now = int(held[0][0] or 0) if held else None
    if now != epoch.number:
        raise fenced(epoch.resource, epoch.number, now)
    return {
        (machine, str(row[0])): subject_of(machine, row)
        for machine, rows in zip(machines, found, strict=True)
        for row in rows
    }


def _write(pipeline: Pipeline, outcome: Outcome) -> None:
    """Write what the commands changed, and commit."""
    for (machine, _), subject in outcome.created.items():
        pipeline.send(_insert(machine), [getattr(subject, name) for name in COLUMNS])
    for (machine, _), subject in outcome.changed.items():
        pipeline.send(_update(machine), [getattr(subject, name) for name in (*_MOVED, "id")])
    pipeline.commit()


@cache
def _lock(machine: Machine) -> str:
    return f"SELECT {_NAMES} FROM {SCHEMA}.{table_name(machine)} WHERE id = ANY($1) ORDER BY id FOR UPDATE"


@cache
def _insert(machine: Machine) -> str:
    places = ", ".join(f"${place}" for place in range(1, len(COLUMNS) + 1))
    return f"INSERT INTO {SCHEMA}.{table_name(machine)} ({_NAMES}) VALUES ({places})"


@cache
def _update(machine: Machine) -> str:
    changes = ", ".join(f"{name} = ${place}" for place, name in enumerate(_MOVED, start=1))
    return f"UPDATE {SCHEMA}.{table_name(machine)} SET {changes} WHERE id = ${len(_MOVED) + 1}"


def _by_machine(keys: Sequence[Key]) -> dict[Machine, list[str]]:
    grouped: dict[Machine, list[str]] = {}
    for machine, subject_id in keys:
        grouped.setdefault(machine, []).append(subject_id)
    return grouped


def subject_of(machine: Machine, row: tuple[Any, ...]) -> Subject:
    """Return the subject that a row holds."""
    fields = dict(zip(COLUMNS, row, strict=True))
    counts = {name: int(fields[name]) for name in _COUNTS}
    return Subject.build(machine=machine, **(fields | counts | {"phase": Phase(fields["phase"])}))
