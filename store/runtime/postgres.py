"""The Runtime on Postgres. Lock order: epochs, then subjects by machine and id.

A group takes two round trips: one that opens the transaction, holds the epoch and locks what the commands name, and one
that writes what they changed and commits. Where the owner remembers every subject that they name from its own last
writes, it takes one: the server refuses the whole group if the epoch is over, if a subject is no longer at the version
that is remembered, or if one that is taken for new exists. What is refused so, and what memory alone would refuse or
take for a replay, is asked after all, so memory decides nothing but success (docs/adr/0013).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from records.errors import IntegrityError, VrmError
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase, phases_of
from store.database import connect
from store.ledger.port import Epoch, fenced
from store.owners import Writer
from store.pipeline import Pipeline, Row, texts
from store.questions import Questions
from store.recent import Recent
from store.runtime.engine import Key, Outcome, carry_out, keys_of
from store.runtime.port import SubjectReader
from store.runtime.schema import COLUMNS, DEFINITION, SCHEMA, table_name

_NAMES: Final = ", ".join(COLUMNS)
_COUNTS: Final = ("version", "generation", "fence")
_MOVED: Final = ("phase", *_COUNTS, "facts")
"""What a command may change of a subject."""
_HOLD: Final = f"SELECT epoch FROM {SCHEMA}.owners WHERE resource = $1 FOR SHARE"
_STILL: Final = f"SELECT 1 / (epoch = $2)::int FROM {SCHEMA}.owners WHERE resource = $1 FOR SHARE"
"""Holds an epoch like the above and has the server refuse the transaction, by a division by zero, if it is over."""


class PostgresRuntimeReader:
    """Reads of the Runtime over one connection."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect as the application role of the Runtime."""
        self._questions = Questions(connect(dsn, holder), "runtime", (dsn, holder))

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        (rows,) = self._questions.ask([(statement, values)])
        return rows

    def subject(self, machine: Machine, subject_id: str) -> Subject | None:
        """Return one subject."""
        return self.subjects(machine, [subject_id]).get(subject_id)

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        """Return those subjects that exist, by id."""
        statement = f"SELECT {_NAMES} FROM {SCHEMA}.{table_name(machine)} WHERE id = ANY($1)"
        rows = self._rows(statement, [sorted(subject_ids)])
        return {str(row[0]): subject_of(machine, row) for row in rows}

    def find(
        self, machine: Machine, phases: Iterable[Phase] = (), run_id: str | Sequence[str] | None = None
    ) -> list[Subject]:
        """Return the subjects in one of the phases, of one or some Runs if given, sorted by id."""
        conditions: list[str] = []
        values: list[list[str]] = []
        wanted = [phase.value for phase in phases]
        if run_id is not None and not wanted:
            wanted = [phase.value for phase in phases_of(machine)]  # the index begins with the phase
        if wanted:
            values.append(wanted)
            conditions.append(f"phase = ANY(${len(values)})")
        if run_id is not None:
            values.append([run_id] if isinstance(run_id, str) else sorted(run_id))
            conditions.append(f"run_id = ANY(${len(values)})")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"SELECT {_NAMES} FROM {SCHEMA}.{table_name(machine)} {where} ORDER BY id"
        return [subject_of(machine, row) for row in self._rows(statement, values)]

    def resolve(self, machine: Machine, prefix: str, limit: int = 10) -> list[str]:
        """Return the ids of a machine's subjects that begin with `prefix`, sorted; at most `limit` of them."""
        statement = (
            f"SELECT id FROM {SCHEMA}.{table_name(machine)} WHERE starts_with(id, $1) ORDER BY id LIMIT $2::bigint"
        )
        return [str(row[0]) for row in self._rows(statement, [prefix, limit])]

    def phase_counts(self) -> dict[str, dict[str, int]]:
        """Return how many subjects each machine has in each phase."""
        counts: dict[str, dict[str, int]] = {}
        for machine in Machine:
            statement = f"SELECT phase, count(*) FROM {SCHEMA}.{table_name(machine)} GROUP BY phase ORDER BY phase"
            counts[machine.value] = {str(phase): int(number or 0) for phase, number in self._rows(statement)}
        return counts

    def close(self) -> None:
        """Close the connection."""
        self._questions.connection.close()


_KEPT: Final = 4096
"""Subjects that an owner remembers; the least recently written are forgotten first."""


class PostgresRuntime(PostgresRuntimeReader):
    """The Runtime for one run owner."""

    def __init__(self, dsn: str, holder: str) -> None:
        """Connect to read; the writing connection is opened with the first claim."""
        super().__init__(dsn, holder)
        self._writer = Writer(dsn, holder, (SCHEMA, DEFINITION.revision))
        self._pipeline: Pipeline | None = None
        self._known: Recent[Key, Subject] = Recent(_KEPT)

    @property
    def remembered(self) -> SubjectReader:
        """Reads that are answered from memory where they can be; see `store.runtime.port`."""
        return _Remembering(self, self._known)

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        self._known.clear()
        return Epoch(resource, self._writer.claim(resource, holder))

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands in one physical commit."""
        if not commands:
            return []
        with self._writer.using(epoch.resource, epoch.number) as connection:
            if self._pipeline is None or self._pipeline.connection is not connection:
                self._pipeline = Pipeline(connection, SCHEMA)
            outcome = self._carried_out(self._pipeline, epoch, commands)
        for key, subject in (outcome.created | outcome.changed).items():
            self._known.put(key, subject)
        return outcome.answers

    def _carried_out(self, pipeline: Pipeline, epoch: Epoch, commands: Sequence[Command]) -> Outcome:
        """Carry out a group by what is remembered, or else by what is there."""
        try:
            outcome = _foreseen(commands, self._known)
            if outcome is not None and self._written(pipeline, epoch, commands, outcome):
                return outcome
            loaded = _locked(pipeline, epoch, commands)
            outcome = carry_out(commands, loaded)
            _write(pipeline, outcome)
        except BaseException:
            self._known.clear()
            pipeline.roll_back()
            raise
        for key, subject in loaded.items():
            self._known.put(key, subject)
        return outcome

    def _written(self, pipeline: Pipeline, epoch: Epoch, commands: Sequence[Command], outcome: Outcome) -> bool:
        """Write what a group comes to by memory; False if something is not as it is remembered."""
        try:
            _write_trusting(pipeline, epoch, keys_of(commands), outcome, self._known)
        except IntegrityError:
            self._known.clear()
            pipeline.roll_back()
            return False
        return True

    def close(self) -> None:
        """Close both connections."""
        super().close()
        self._writer.close()


class _Remembering:
    """Reads that are answered from memory; what is not there is read."""

    def __init__(self, reader: SubjectReader, known: Mapping[Key, Subject]) -> None:
        self._reader, self._known = reader, known

    def subject(self, machine: Machine, subject_id: str) -> Subject | None:
        return self._known.get((machine, subject_id)) or self._reader.subject(machine, subject_id)

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        known = {each: self._known.get((machine, each)) for each in subject_ids}
        missing = [each for each, subject in known.items() if subject is None]
        found = self._reader.subjects(machine, missing) if missing else {}
        return found | {each: subject for each, subject in known.items() if subject is not None}


def _foreseen(commands: Sequence[Command], known: Mapping[Key, Subject]) -> Outcome | None:
    """Return what a group comes to if all is as remembered and every command does something new; None if not so."""
    keys = keys_of(commands)
    fresh = {(create.machine, create.id) for command in commands for create in command.creates}
    if not all(key in known or key in fresh for key in keys):
        return None
    outcome = carry_out(commands, {key: known[key] for key in keys if key in known})
    return outcome if all(answer == Applied(replayed=False) for answer in outcome.answers) else None


def _write_trusting(
    pipeline: Pipeline, epoch: Epoch, keys: Sequence[Key], outcome: Outcome, known: Mapping[Key, Subject]
) -> None:
    """Write what commands changed in one transaction that the server refuses if anything is not as remembered."""
    pipeline.send(_STILL, [epoch.resource, epoch.number])
    for key in keys:
        if key in outcome.changed:
            subject = outcome.changed[key]
            moved = [getattr(subject, name) for name in _MOVED]
            pipeline.send(_update_from(key[0]), [*moved, subject.id, known[key].version])
        elif key not in outcome.created:
            pipeline.send(_unmoved(key[0]), [key[1], known[key].version])
    for (machine, _), subject in outcome.created.items():
        pipeline.send(_insert(machine), [getattr(subject, name) for name in COLUMNS])
    pipeline.drain()


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


@cache
def _update_from(machine: Machine) -> str:
    place = len(_MOVED) + 2
    return f"WITH moved AS ({_update(machine)} AND version = ${place} RETURNING id) SELECT 1 / count(*) FROM moved"


@cache
def _unmoved(machine: Machine) -> str:
    held = f"SELECT id FROM {SCHEMA}.{table_name(machine)} WHERE id = $1 AND version = $2 FOR SHARE"
    return f"SELECT 1 / count(*) FROM ({held}) AS held"


def _by_machine(keys: Sequence[Key]) -> dict[Machine, list[str]]:
    grouped: dict[Machine, list[str]] = {}
    for machine, subject_id in keys:
        grouped.setdefault(machine, []).append(subject_id)
    return grouped


def subject_of(machine: Machine, row: Row) -> Subject:
    """Return the subject that a row holds."""
    fields = cast("dict[str, str]", dict(zip(COLUMNS, row, strict=True)))
    counts = {name: int(fields[name]) for name in _COUNTS}
    return Subject.build(machine=machine, **(fields | counts | {"phase": Phase(fields["phase"])}))
