"""The seam of the Durable Runtime: subjects of state machines, moved by commands. Not for implementation outside.

Contract, for every adapter:

- each command of a group MUST be all or nothing and gets its own answer; a replay changes nothing;
- an answer MUST NOT be returned before it is durable;
- a stale epoch MUST abort the whole group with `FencedError`;
- a body never changes; a phase changes only along an arrow of `records.states`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from records.errors import VrmError
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase
from store.ledger.port import Epoch


class SubjectReader(Protocol):
    """Read access to subjects whose ids are known."""

    def subject(self, machine: Machine, subject_id: str) -> Subject | None:
        """Return one subject."""

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        """Return those subjects that exist, by id."""


class RuntimeReader(SubjectReader, Protocol):
    """Read access to the Runtime; all that the commit coordinator ever gets."""

    def find(
        self, machine: Machine, phases: Iterable[Phase] = (), run_id: str | Sequence[str] | None = None
    ) -> list[Subject]:
        """Return the subjects in one of the phases (all, if none is given), of one or some Runs if given, by id."""

    def resolve(self, machine: Machine, prefix: str, limit: int = 10) -> list[str]:
        """Return the ids of a machine's subjects that begin with `prefix`, sorted; at most `limit` of them."""

    def phase_counts(self) -> dict[str, dict[str, int]]:
        """Return how many subjects each machine has in each phase, for `vrm status`."""


class RuntimeStore(RuntimeReader, Protocol):
    """The Runtime as a run owner sees it."""

    @property
    def remembered(self) -> SubjectReader:
        """Reads that may be answered by what this owner wrote or met last.

        They are true as long as it owns the subjects. Who acts on them does so by `apply`, which notices if they are
        not; nobody is refused anything by them. A body is true in any case, for it never changes.
        """

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource; whoever owned it before is refused from its next statement on."""

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands in one physical commit."""

    def close(self) -> None:
        """Give back connections; ownership is not released, the next owner claims."""
