"""Who works on Activities, over the owner: leases taken, kept while the work goes on, and told of when they are lost.

Rules kept here:

- what is held is what the Runtime says afterwards, not what the owner answered: a reply may be lost. An Activity that
  did not move is refused, even to whoever held it before;
- a lease is renewed in the second half of its time, whenever the worker says that it still works;
- whoever comes back under the same name takes its own leases anew and waits for no deadline. Two that live at the same
  time have two names; if they had one, they would fence each other off, and nothing would be written twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.leases import LEASE_SECONDS, is_held, later, lease_of, leases, renewals
from memory.ports import Clock, RunOwnerPort
from records.errors import StaleError, VrmError
from records.runtime import Command, Subject
from records.states import Machine, Phase
from store.runtime.port import RuntimeReader


@dataclass(frozen=True)
class Taken:
    """What came of asking for leases: the Activities that are held now, and why others are not, by id."""

    held: dict[str, Subject]
    refused: dict[str, VrmError]

    def require_all(self) -> None:
        """Demand that nothing was refused.

        Raises:
            VrmError: why the first one was.
        """
        for _, error in sorted(self.refused.items()):
            raise error


class Leasing:
    """The leases of one worker."""

    def __init__(self, runtime: RuntimeReader, owner: RunOwnerPort, clock: Clock, holder: str) -> None:
        """Work under the name `holder`; nothing is held yet."""
        self._runtime = runtime
        self._owner = owner
        self._clock = clock
        self._holder = holder
        self._held: dict[str, Subject] = {}

    def take(self, activity_ids: Sequence[str]) -> Taken:
        """Lease and begin Activities; those that are committing or committed are neither held nor refused."""
        subjects = self._runtime.subjects(Machine.ACTIVITY, activity_ids)
        asked = leases((subjects[each] for each in activity_ids if each in subjects), self._holder, self._clock())
        taken = self._carry_out(asked, subjects)
        self._held |= taken.held
        return taken

    def held(self, activity_id: str) -> Subject | None:
        """Return an Activity as it was when its lease was taken or renewed, if that was done here."""
        return self._held.get(activity_id)

    def let_go(self, activity_ids: Iterable[str]) -> None:
        """Forget Activities that are worked on no more; what is open of them is taken anew."""
        for activity_id in activity_ids:
            self._held.pop(activity_id, None)

    def keep(self) -> list[StaleError]:
        """Renew what is in the second half of its time, and return what was lost; what was committed is let go."""
        now = self._clock()
        due = [key for key, subject in self._held.items() if _is_due(subject, now)]
        if not due:
            return []
        subjects = self._runtime.subjects(Machine.ACTIVITY, due)
        working = [each for each in subjects.values() if each.phase not in {Phase.COMMITTING, Phase.COMMITTED}]
        own = [each for each in working if each.fence == self._held[each.id].fence]
        kept = self._carry_out(renewals(own, self._holder, now), subjects)
        lost = {each.id: _fenced(each) for each in working if each not in own} | kept.refused
        for key in due:
            del self._held[key]
        self._held |= kept.held
        return [StaleError(f"lease of {key}", error.value, error.remedy) for key, error in sorted(lost.items())]

    def _carry_out(self, asked: dict[str, Command | StaleError], seen: dict[str, Subject]) -> Taken:
        commands = {key: each for key, each in asked.items() if isinstance(each, Command)}
        answers = dict(zip(commands, self._owner.apply(list(commands.values())), strict=True)) if commands else {}
        now = self._runtime.subjects(Machine.ACTIVITY, list(commands)) if commands else {}
        held = {
            key: each for key, each in now.items() if is_held(each, self._holder) and each.version > seen[key].version
        }
        refused: dict[str, VrmError] = {key: each for key, each in asked.items() if isinstance(each, StaleError)}
        for key, answer in answers.items():
            if key not in held:
                moved = StaleError("activity.phase", now[key].phase.value, f"{key} moved on meanwhile; try again.")
                refused[key] = answer if isinstance(answer, VrmError) else moved
        return Taken(held, refused)


def _is_due(activity: Subject, now: str) -> bool:
    lease = lease_of(activity)
    return lease is None or lease.until <= later(now, LEASE_SECONDS / 2)


def _fenced(activity: Subject) -> VrmError:
    return StaleError("activity.fence", activity.fence, "Another attempt has begun; this one is over.")
