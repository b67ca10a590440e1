"""The recovery scanner: one loop over a table of sweeps, each from stored facts alone (design 3 and 6, spec 4.15, 8.1).

Rules kept here:

- a sweep finds what is unresolved in the stores, resumes it by the step that its own module has for that, and looks
  again: what is no longer found was resumed, by whomever; what is still found waits, with its typed reason;
- every step is safe to repeat and to race: anybody may sweep at any time, two at once included. Nothing is held here,
  so there is no owner of recovery, and the owners of the two stores serialise what it asks of them;
- the order matters. Grants come first, because what they write says where everything else stands, and nothing is called
  absent before. Erasures come before Runs, since a Run does not end with one; leases before Runs, so that a late worker
  is refused before his Run is closed; retired handoffs before the Runs whose end they would hold up; releases last,
  since they rest on Runs that are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.closure import ClosurePorts, RunClosure
from memory.control import ENDS
from memory.erasing import ErasurePorts, RetentionOfficer
from memory.erasing.officer import unfinished
from memory.leases import expiry, is_expired
from memory.orphans import Orphans
from memory.ports import Clock, CoordinatorPort, HandoffOwnerPort
from memory.releases import Release, RetentionEnded, ground_of, read_holdings, release_decision
from memory.spine import GROUP, Spine, chunks
from records.canonical import parse_canonical
from records.errors import FencedError, StaleError, VrmError
from records.handoffs import HandoffBody
from records.ids import HandoffId
from records.runtime import Command, Subject
from records.states import Machine, Phase
from records.values import CampaignProfile
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger
from store.runtime.port import RuntimeReader

_AT_WORK: Final = frozenset({Phase.RUNNING, Phase.PAUSED})
"""The phases of a Run in which its Activities may be worked on."""

Errors = dict[str, VrmError]


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What recovery looks at."""

    ledger: OpenLedger
    runtime: RuntimeReader
    artifacts: ArtifactStore
    clock: Clock


@dataclass(frozen=True)
class Waiting:
    """Something unresolved, and why it stays so for now; no reason where nothing was tried."""

    subject: str
    reason: VrmError | None = None

    def as_json(self) -> dict[str, str]:
        """Return it as JSON values."""
        return {"subject": self.subject} | ({} if self.reason is None else self.reason.as_dict())


@dataclass(frozen=True)
class Swept:
    """What one sweep came to."""

    sweep: str
    resumed: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        waiting = [each.as_json() for each in self.waiting]
        return {"sweep": self.sweep, "resumed": list(self.resumed), "waiting": waiting}


class Recovery:
    """Resumes whatever is unresolved."""

    def __init__(self, reads: Reads, owner: HandoffOwnerPort, coordinator: CoordinatorPort) -> None:
        """Read the stores and act through the owners, each of which may live in another process."""
        self.reads = reads
        self.owner = owner
        ledger, runtime, artifacts = reads.ledger, reads.runtime, reads.artifacts
        self.spine = Spine(artifacts, owner, coordinator)
        self.orphans = Orphans(runtime, ledger, artifacts, owner, self.spine)
        self.closure = RunClosure(
            ClosurePorts(ledger=ledger, runtime=runtime, artifacts=artifacts, owner=owner, spine=self.spine)
        )
        self.officer = RetentionOfficer(
            ErasurePorts(
                ledger=ledger, runtime=runtime, artifacts=artifacts, owner=owner, spine=self.spine, clock=reads.clock
            )
        )

    def sweep(self) -> tuple[Swept, ...]:
        """Make every sweep once, in order, and say what each resumed and what still waits.

        Raises:
            FencedError: this process owns what it acts through no longer.
            UnavailableError: a store cannot be read.
        """
        return tuple(self._swept(each) for each in SWEEPS)

    def _swept(self, sweep: Sweep) -> Swept:
        found = sweep.find(self.reads)
        if not found:
            return Swept(sweep.name)
        errors = sweep.resume(self, found)
        left = set(sweep.find(self.reads))
        waiting = (Waiting(each, errors.get(each) or _untold(each)) for each in found if each in left)
        return Swept(sweep.name, tuple(each for each in found if each not in left), tuple(waiting))

    def settle(self, _found: list[str]) -> Errors:
        """Append and settle the grants that nobody settled; what waits is met again, with its own error."""
        return _errors(self.spine.recovered(self.reads.runtime).items())

    def erase(self, found: list[str]) -> Errors:
        """Finish erasures."""
        return _each(found, self.officer.resume)

    def give_back(self, found: list[str]) -> Errors:
        """Take Activities back from workers whose lease is over; their fence refuses them from now on."""
        subjects = self.reads.runtime.subjects(Machine.ACTIVITY, found)
        answers = self.owner.apply([expiry(subjects[each]) for each in found])
        return _errors(zip(found, answers, strict=True))

    def close_attempts(self, _found: list[str]) -> Errors:
        """Prove and close retired attempts."""
        return _errors(self.orphans.close().items())

    def close_runs(self, found: list[str]) -> Errors:
        """Close Runs that are cancelling or failing."""
        return _each(found, self.closure.close)

    def release(self, found: list[str]) -> Errors:
        """Let the profile bytes of finished campaigns go."""
        due = [each for each in _due_releases(self.reads) if each.handoff_id in found]
        answers = self.owner.release(due)
        return _errors((str(each.handoff_id), answer) for each, answer in zip(due, answers, strict=True))


@dataclass(frozen=True)
class Sweep:
    """One row: what it is called, what it finds unresolved, and how that is resumed."""

    name: str
    find: Callable[[Reads], list[str]]
    resume: Callable[[Recovery, list[str]], Errors]


def unresolved(reads: Reads) -> tuple[Swept, ...]:
    """Return what the sweeps would take up now; nothing is changed."""
    return tuple(Swept(each.name, waiting=tuple(Waiting(key) for key in each.find(reads))) for each in SWEEPS)


def _in(machine: Machine, *phases: Phase) -> Callable[[Reads], list[str]]:
    return lambda reads: [subject.id for subject in reads.runtime.find(machine, phases)]


def _due_leases(reads: Reads) -> list[str]:
    activities = reads.runtime.find(Machine.ACTIVITY, [Phase.LEASED, Phase.RUNNING])
    runs = reads.runtime.subjects(Machine.RUN, {str(each.run_id) for each in activities})
    now = reads.clock()
    return [each.id for each in activities if is_expired(each, now) or _is_over(runs.get(str(each.run_id)))]


def _is_over(run: Subject | None) -> bool:
    """Tell whether nobody may work on an Activity of a Run any more."""
    return run is None or run.phase not in _AT_WORK


def _due_releases(reads: Reads) -> Iterator[Release]:
    """Yield the handoffs whose profile bytes may go now; what is kept is at rest and waits for nobody."""
    profiles: dict[str, RetentionEnded | None] = {}
    for group in chunks(reads.runtime.find(Machine.HANDOFF, [Phase.BOUND, Phase.ABANDONED]), GROUP):
        releases = list(_releases(reads, group, profiles))
        holdings = read_holdings(reads.runtime, reads.ledger, releases)
        decided = ((each, release_decision(holdings[each.handoff_id], each.ground, reads.clock())) for each in releases)
        yield from (each for each, decision in decided if isinstance(decision, Command))


def _releases(
    reads: Reads, handoffs: Sequence[Subject], profiles: dict[str, RetentionEnded | None]
) -> Iterator[Release]:
    bodies = {each.id: HandoffBody.load(each.body) for each in handoffs if each.phase is Phase.BOUND}
    references = reads.runtime.subjects(Machine.REFERENCE, {body.reference_id for body in bodies.values()})
    for handoff in handoffs:
        ground: RetentionEnded | None = RetentionEnded(0)  # an abandoned one waits for nothing
        if handoff.id in bodies:
            reference = references.get(bodies[handoff.id].reference_id)
            digest = "" if reference is None else str(parse_canonical(reference.body)["digest"])
            if digest not in profiles:
                profiles[digest] = _ground(reads, digest)
            ground = profiles[digest]
        if ground is not None:
            yield Release(HandoffId.check(handoff.id), ground)


def _ground(reads: Reads, digest: str) -> RetentionEnded | None:
    """Return the ground that a profile gives; one that cannot be read, which fsck tells, lets nothing go."""
    try:
        return ground_of(CampaignProfile.load(reads.artifacts.read(digest)))
    except VrmError:
        return None


SWEEPS: Final = (
    Sweep("authorizations", _in(Machine.AUTHORIZATION, Phase.GRANTED), Recovery.settle),
    Sweep("erasures", lambda reads: unfinished(reads.runtime), Recovery.erase),
    Sweep("leases", _due_leases, Recovery.give_back),
    Sweep("handoffs", _in(Machine.HANDOFF, Phase.RETIRED), Recovery.close_attempts),
    Sweep("runs", _in(Machine.RUN, *ENDS), Recovery.close_runs),
    Sweep("releases", lambda reads: [str(each.handoff_id) for each in _due_releases(reads)], Recovery.release),
)
"""Every sweep, in the order in which they are made."""


def _each(found: Iterable[str], act: Callable[[str], object]) -> Errors:
    """Act on each; one that fails does not keep the others from their turn."""
    errors: Errors = {}
    for key in found:
        try:
            act(key)
        except FencedError:
            raise
        except VrmError as error:
            errors[key] = error
    return errors


def _errors(answers: Iterable[tuple[str, object]]) -> Errors:
    return {key: answer for key, answer in answers if isinstance(answer, VrmError)}


def _untold(subject: str) -> VrmError:
    return StaleError("recovery", subject, "Somebody else was at work on it; run recovery again.")
