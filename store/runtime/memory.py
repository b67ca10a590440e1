"""The Runtime in memory: the same logical semantics, for tests and simulation."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from operator import itemgetter

from records.errors import VrmError
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase
from store.ledger.port import Epoch, fenced
from store.runtime.engine import Key, carry_out


class MemoryRuntime:
    """The Runtime of one process, in memory."""

    def __init__(self) -> None:
        """Begin empty."""
        self._subjects: dict[Key, Subject] = {}
        self._owners: dict[str, int] = {}
        self._lock = threading.RLock()

    @property
    def remembered(self) -> MemoryRuntime:
        """Reads of what is there: it is all in memory."""
        return self

    def subject(self, machine: Machine, subject_id: str) -> Subject | None:
        """Return one subject."""
        return self._subjects.get((machine, subject_id))

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        """Return those subjects that exist, by id."""
        found = {each: self._subjects.get((machine, each)) for each in subject_ids}
        return {each: subject for each, subject in found.items() if subject is not None}

    def find(
        self, machine: Machine, phases: Iterable[Phase] = (), run_id: str | Sequence[str] | None = None
    ) -> list[Subject]:
        """Return the subjects in one of the phases, of one or some Runs if given, sorted by id."""
        wanted = set(phases)
        runs = {run_id} if isinstance(run_id, str) else None if run_id is None else set(run_id)
        found = [
            (key, subject)
            for (kind, key), subject in self._subjects.items()
            if kind is machine and (not wanted or subject.phase in wanted) and (runs is None or subject.run_id in runs)
        ]
        return [subject for _, subject in sorted(found, key=itemgetter(0))]

    def resolve(self, machine: Machine, prefix: str, limit: int = 10) -> list[str]:
        """Return the ids of a machine's subjects that begin with `prefix`, sorted; at most `limit` of them."""
        return sorted(key for kind, key in self._subjects if kind is machine and key.startswith(prefix))[:limit]

    def phase_counts(self) -> dict[str, dict[str, int]]:
        """Return how many subjects each machine has in each phase."""
        counts: dict[str, dict[str, int]] = {machine.value: {} for machine in Machine}
        for (machine, _), subject in sorted(self._subjects.items()):
            phases = counts[machine.value]
            phases[subject.phase.value] = phases.get(subject.phase.value, 0) + 1
        return counts

    def claim(self, resource: str, holder: str) -> Epoch:  # noqa: ARG002  # the port names the holder
        """Take ownership of a resource."""
        with self._lock:
            self._owners[resource] = self._owners.get(resource, 0) + 1
            return Epoch(resource, self._owners[resource])

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands."""
        with self._lock:
            now = self._owners.get(epoch.resource)
            if now != epoch.number:
                raise fenced(epoch.resource, epoch.number, now)
            outcome = carry_out(commands, self._subjects)
            self._subjects |= outcome.created | outcome.changed
            return outcome.answers

    def close(self) -> None:
        """Nothing to give back."""
