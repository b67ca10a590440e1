"""What survives a crash, and the owners that come and go over it.

Rules kept here:

- the owners are the product's own classes over the in-memory stores; what a planted bug changes is one of `Parts`;
- every write of an owner passes a seat, where the owner can be stopped or lost, before and after it takes effect;
- a seat also witnesses what the stores promise: nothing is written under an epoch that is over, or for an attempt that
  is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from memory.coordinator import CommitCoordinator
from memory.garbage import Garbage, collect
from memory.heads import HOLD_SECONDS, LifecycleHeads
from memory.leases import LEASE_SECONDS, later, lease_of
from memory.orphans import Orphans
from memory.run_owner import RunOwner
from memory.spine import Spine
from records.appends import AppendReceipt
from records.canonical import digest_bytes
from records.errors import ErasedError, NotFoundError, VrmError
from records.runtime import Applied, Authorization, Command, Subject
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore, Kept
from store.ledger.memory import MemoryLedger, _State
from store.ledger.port import Epoch, LedgerStore, Request
from store.runtime.engine import Key
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeStore

_BEGUN: Final = "2026-02-01T00:00:00.000000Z"
RUN_OWNER: Final = "run owner"
COORDINATOR: Final = "coordinator"
HEADS: Final = "heads"
RESOURCES: Final = {
    RUN_OWNER: "run-owner/0",
    COORDINATOR: "commit-coordinator/0",
    HEADS: "lifecycle-head/0",
}
"""What the owner of each port claims."""


class OpenRuntime(MemoryRuntime):
    """The Runtime in memory, whose content can be looked at as a whole."""

    @property
    def content(self) -> dict[Key, Subject]:
        """Every subject."""
        return self._subjects

    def begin_with(self, kept: Mapping[Key, Subject]) -> None:
        """Begin with the subjects of another one."""
        self._subjects = dict(kept)


class OpenLedger(MemoryLedger):
    """The Ledger in memory, whose content can be looked at as a whole and begun with."""

    @property
    def content(self) -> _State:
        """Every row."""
        return self._state

    def begin_with(self, kept: _State) -> None:
        """Begin with a copy of what another one holds; records are shared, because they never change."""
        for name, table in vars(kept).items():
            copied = {key: list(value) if isinstance(value, list) else value for key, value in table.items()}
            setattr(self._state, name, copied)


_ERASING: Final = frozenset({"retention-erasure-intent", "memory-retention-tombstone"})
"""Records that name bytes because they are to go."""


class HeldArtifacts(ArtifactStore):
    """Artifact bytes in a mapping of their own; what it begins with was published long ago.

    Attributes:
        moment: the present, which whoever takes steps moves on.
        dropped: what was removed, though it may have been published again.
    """

    def __init__(self, held: Mapping[str, bytes]) -> None:
        """Begin with a copy of what is given."""
        self._held = dict(held)
        self._published: dict[str, float] = {}
        self.moment = 1.0
        self.dropped: set[str] = set()
        self._erased: set[str] = set()
        self.url = "held"

    @property
    def content(self) -> Mapping[str, bytes]:
        """Every artifact by its digest."""
        return self._held

    def publish_many(self, items: Sequence[bytes]) -> list[str]:
        """Keep the bytes, which are young by that."""
        digests = [digest_bytes(data) for data in items]
        for digest in digests:
            if digest in self._erased:
                raise ErasedError("artifact", digest, "Its bytes were erased.")
        self._held.update(zip(digests, items, strict=True))
        self._published.update((digest, self.moment) for digest in digests)
        return digests

    def ages(self) -> Iterator[Kept]:
        """Return everything with its age."""
        return (Kept(name, len(data), self._published.get(name, 0.0)) for name, data in sorted(self._held.items()))

    def drop(self, name: str, published_before: float) -> bool:
        """Remove what was not published again since."""
        if name not in self._held or self._published.get(name, 0.0) >= published_before:
            return False
        del self._held[name]
        self.dropped.add(name)
        return True

    def erase(self, digest: str) -> None:
        """Remove bytes for ever."""
        self._erased.add(digest)
        self._held.pop(digest, None)

    def erased(self, digest: str) -> bool:
        """Tell whether bytes were removed for ever."""
        return digest in self._erased

    def holds(self, digest: str) -> bool:
        """Tell whether the bytes are there."""
        return digest in self._held

    def read(self, digest: str) -> bytes:
        """Return the bytes of a digest.

        Raises:
            NotFoundError: they were never published; `ErasedError`, if they were erased.
        """
        if digest in self._erased:
            raise ErasedError("artifact", digest, "Its bytes were erased.")
        if digest not in self._held:
            raise NotFoundError("artifact", digest, "Its bytes were never published.")
        return self._held[digest]

    def digests(self) -> Iterable[str]:
        """Return every digest, sorted."""
        return sorted(self._held)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a world is made of; a planted bug puts one of its own in."""

    runtime: type[OpenRuntime] = OpenRuntime
    ledger: type[OpenLedger] = OpenLedger
    run_owner: type[RunOwner] = RunOwner
    coordinator: type[CommitCoordinator] = CommitCoordinator
    heads: type[LifecycleHeads] = LifecycleHeads
    spine: type[Spine] = Spine
    orphans: type[Orphans] = Orphans
    artifacts: type[HeldArtifacts] = HeldArtifacts
    collect: Callable[..., Garbage] = collect


@dataclass(frozen=True)
class Beginning:
    """What a schedule begins with."""

    ledger: _State
    artifacts: Mapping[str, bytes]
    runtime: Mapping[Key, Subject] = field(default_factory=dict)


class Interrupter(Protocol):
    """Whoever makes the call that an owner is carrying out."""

    def before_write(self, port: str) -> None:
        """Called by a seat before the write of an owner."""

    def after_write(self, port: str) -> None:
        """Called by a seat after the write of an owner took effect."""


@dataclass
class World:
    """The stores of one schedule, and the owners over them.

    Attributes:
        pace: seconds that pass whenever a host of heads reads its clock; a reservation lapses by it, sooner or later.
            Leases are longer, and their clock is as much faster.
        acting: whoever takes the present step.
        complaints: what was promised and not kept, as it was seen.
        faults: how often each fault came about.
        writes: how many writes were tried, whatever came of them.
        oldest: the moment at which the oldest job that is under way began.
    """

    parts: Parts
    beginning: Beginning
    pace: float = 1.0
    acting: Interrupter | None = None
    complaints: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    epochs: dict[str, int] = field(default_factory=dict)
    writes: int = 0
    oldest: Callable[[], float] = lambda: 0.0

    def __post_init__(self) -> None:
        """Begin with what is given, and let the first owners claim."""
        self.ledger = self.parts.ledger()
        self.ledger.begin_with(self.beginning.ledger)
        self.runtime = self.parts.runtime()
        self.runtime.begin_with(self.beginning.runtime)
        self.artifacts = self.parts.artifacts(self.beginning.artifacts)
        self._ticks, self._seconds, self._leased = 0, 0.0, 0.0
        self._owners: dict[str, list[Any]] = {}
        for port in RESOURCES:
            self.succeed(port)

    def clock(self) -> str:
        """Return a moment later than the one before."""
        self._ticks += 1
        return f"{_BEGUN[:-7]}{self._ticks:06d}Z"

    def seconds(self) -> float:
        """Return the clock of reservations, which goes on whenever it is read."""
        self._seconds += self.pace
        return self._seconds

    def lease_clock(self) -> str:
        """Return the clock of leases, which goes on whenever it is read."""
        self._leased += self.pace * LEASE_SECONDS / HOLD_SECONDS
        return self.lease_time

    @property
    def lease_time(self) -> str:
        """What the clock of leases showed when it was read last."""
        return later(_BEGUN, self._leased)

    def lapse(self) -> None:
        """Let every lease come to its deadline."""
        self._leased += LEASE_SECONDS

    def succeed(self, port: str) -> None:
        """Let another owner of a port claim; the former one does not know yet."""
        ledger = cast("LedgerStore", LedgerSeat(self, port))
        if port == RUN_OWNER:
            runtime = cast("RuntimeStore", RuntimeSeat(self, port))
            made: Any = self.parts.run_owner(runtime, self.ledger, self.artifacts, self.clock, "simulation")
        elif port == COORDINATOR:
            made = self.parts.coordinator(ledger, self.runtime, self.artifacts, "simulation")
        else:
            made = self.parts.heads(ledger, "simulation", seconds=self.seconds)
        self._owners[port] = [*self._owners.get(port, [])[-1:], made]

    def owner(self, port: str) -> Any:
        """Return whoever owns a port now, or the port itself where nobody does."""
        return self._owners[port][-1] if port in self._owners else self.artifacts

    def former(self, port: str) -> Any:
        """Return an owner that was replaced and lives on."""
        if len(self._owners[port]) == 1:
            self.succeed(port)
        return self._owners[port][0]

    def require_unnamed(self, digest: str) -> None:
        """Complain if an artifact that was removed is named: by a record, by a subject, by a grant's proposal."""
        naming = (stored for stored in self.ledger.content.records.values() if digest in stored.payload)
        if any(stored.noun not in _ERASING for stored in naming):
            self.complain(f"artifact {digest} was removed, and a record names it")
        for subject in self.runtime.content.values():
            if subject.machine is Machine.ERASURE:
                continue
            held = subject.machine is not Machine.REFERENCE or subject.phase is Phase.ACTIVE
            if held and (digest in subject.body or digest in subject.facts):
                self.complain(f"artifact {digest} was removed, and {subject.machine} {subject.id} names it")
            if subject.phase is Phase.GRANTED:
                proposal = self.artifacts.content.get(Authorization.load(subject.body).proposal_digest, b"")
                if digest.encode() in proposal:
                    self.complain(f"artifact {digest} was removed, and what {subject.id} grants rests on it")

    def complain(self, text: str) -> None:
        """Tell what was promised and not kept."""
        self.complaints.append(text)


class _Seat:
    """Where an owner sits: what it reads goes through, what it writes can be broken."""

    def __init__(self, world: World, port: str) -> None:
        self._world, self._port = world, port

    def _around(self, write: Callable[[], Any]) -> Any:
        acting = self._world.acting
        if acting is not None:
            acting.before_write(self._port)
        self._world.writes += 1
        answer = write()
        if acting is not None:
            acting.after_write(self._port)
        return answer

    def _claimed(self, epoch: Epoch) -> Epoch:
        self._world.epochs[epoch.resource] = epoch.number
        return epoch

    def _require_now(self, fences: Iterable[tuple[str, int]]) -> None:
        """Complain if one of the epochs under which something was written is over."""
        for resource, number in fences:
            now = self._world.epochs.get(resource)
            if now != number:
                self._world.complain(f"epoch {number} of {resource} wrote, and it is at {now}")


class RuntimeSeat(_Seat):
    """The Runtime as a run owner of a world sees it."""

    def __getattr__(self, name: str) -> Any:
        """Read what there is."""
        return getattr(self._world.runtime, name)

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return self._claimed(self._world.runtime.claim(resource, holder))

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out a group of commands."""
        answers: list[Applied | VrmError] = self._around(lambda: self._apply(epoch, commands))
        return answers

    def _apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        content = self._world.runtime.content
        before = {
            (move.machine, move.id): content.get((move.machine, move.id))
            for command in commands
            for move in command.moves
        }
        answers = self._world.runtime.apply(epoch, commands)
        done = [
            command
            for command, answer in zip(commands, answers, strict=True)
            if isinstance(answer, Applied) and not answer.replayed
        ]
        if done:
            self._require_now([(epoch.resource, epoch.number)])
        for command in done:
            self._require_attempt(command, before)
        return answers

    def _require_attempt(self, command: Command, before: dict[tuple[Machine, str], Subject | None]) -> None:
        """Complain if a command moved a subject for an attempt that was over."""
        for move in command.moves:
            subject = before.pop((move.machine, move.id), None)  # only the first move meets what was there before
            if subject is not None and move.event is Event.EXPIRE:
                self._require_over(subject)
            if subject is not None and (subject.generation, subject.fence) != (move.generation, move.fence):
                self._world.complain(
                    f"{move.machine} {move.id} took {move.event} of fence {move.fence} at fence {subject.fence}"
                )

    def _require_over(self, activity: Subject) -> None:
        """Complain if a lease was taken from its holder before the deadline, other than by the holder itself."""
        had, has = lease_of(activity), lease_of(self._world.runtime.content[activity.machine, activity.id])
        mine = had is not None and has is not None and had.holder == has.holder
        if had is not None and not mine and had.until > self._world.lease_time:
            self._world.complain(f"{activity.id} was taken from {had.holder} at {self._world.lease_time}")


class LedgerSeat(_Seat):
    """The Ledger as its writer and as the host of heads see it."""

    def __getattr__(self, name: str) -> Any:
        """Read what there is."""
        return getattr(self._world.ledger, name)

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource."""
        return self._claimed(self._world.ledger.claim(resource, holder))

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Write a group of appends."""
        answers: list[AppendReceipt | VrmError] = self._around(lambda: self._commit(epoch, group))
        return answers

    def _commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        rows = len(self._world.ledger.content.records)
        answers = self._world.ledger.commit(epoch, group)
        if len(self._world.ledger.content.records) != rows:
            self._require_now([(epoch.resource, epoch.number), *(each for one in group for each in one.append.fences)])
        return answers
