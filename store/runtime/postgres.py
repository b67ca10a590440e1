"""The Runtime on Postgres. Lock order: epochs, then subjects by machine and id."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from records.errors import VrmError
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase
from store import owners
from store.database import connect, own_sql, read, translated
from store.ledger.port import Epoch
from store.owners import Writer
from store.runtime.engine import Key, carry_out, keys_of
from store.runtime.schema import COLUMNS, DEFINITION, SCHEMA, table_name

_NAMES: Final = ", ".join(COLUMNS)


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

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return Epoch(resource, self._writer.claim(resource, holder))

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands in one physical commit."""
        if not commands:
            return []
        with self._writer.transaction(epoch.resource, epoch.number) as connection, connection.cursor() as cursor:
            owners.hold(cursor, SCHEMA, [(epoch.resource, epoch.number)])
            loaded: dict[Key, Subject] = {}
            for machine, ids in _by_machine(keys_of(commands)).items():
                table = f"{SCHEMA}.{table_name(machine)}"
                statement = f"SELECT {_NAMES} FROM {table} WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
                for row in cursor.execute(own_sql(statement), [ids]).fetchall():
                    loaded[machine, row[0]] = subject_of(machine, row)
            outcome = carry_out(commands, loaded)
            for machine, subjects in _grouped(outcome.created).items():
                places = ", ".join(["%s"] * len(COLUMNS))
                statement = f"INSERT INTO {SCHEMA}.{table_name(machine)} ({_NAMES}) VALUES ({places})"
                cursor.executemany(own_sql(statement), [_row(subject) for subject in subjects])
            for machine, subjects in _grouped(outcome.changed).items():
                statement = (
                    f"UPDATE {SCHEMA}.{table_name(machine)} SET phase = %s, version = %s, generation = %s, "
                    "fence = %s, facts = %s WHERE id = %s"
                )
                rows = [(s.phase.value, s.version, s.generation, s.fence, s.facts, s.id) for s in subjects]
                cursor.executemany(own_sql(statement), rows)
            return outcome.answers

    def close(self) -> None:
        """Close both connections."""
        super().close()
        self._writer.close()


def _by_machine(keys: Sequence[Key]) -> dict[Machine, list[str]]:
    grouped: dict[Machine, list[str]] = {}
    for machine, subject_id in keys:
        grouped.setdefault(machine, []).append(subject_id)
    return grouped


def _grouped(subjects: dict[Key, Subject]) -> dict[Machine, list[Subject]]:
    grouped: dict[Machine, list[Subject]] = {}
    for (machine, _), subject in subjects.items():
        grouped.setdefault(machine, []).append(subject)
    return grouped


def _row(subject: Subject) -> tuple[Any, ...]:
    values = (getattr(subject, name) for name in COLUMNS)
    return tuple(str(value) if isinstance(value, str) else value for value in values)


def subject_of(machine: Machine, row: tuple[Any, ...]) -> Subject:
    """Return the subject that a row holds."""
    fields = dict(zip(COLUMNS, row, strict=True))
    return Subject.build(machine=machine, **(fields | {"phase": Phase(fields["phase"])}))
