"""The ports that a participant is given; every call over them is a step that the scheduler may break.

Rules kept here:

- a call that got no answer is made again or given up, as the scheduler decides; whoever gives up begins again from what
  is stored;
- an owner that was replaced refuses a call, and it is made again to its successor;
- what is answered is compared with what the stores hold: a receipt that is handed out is the stored one, an
  authorization is about the proposal that was asked for, and no owner meets rows that contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from evaluation.simulation.faults import Fate, Fault, Step
from evaluation.simulation.strands import Steps
from evaluation.simulation.world import COORDINATOR, HEADS, RESOURCES, RUN_OWNER, World
from memory.heads import Reservation
from memory.ports import CoordinatorPort, Fence
from memory.releases import Release
from memory.reserving import HeadsPort
from records.appends import Append, AppendReceipt
from records.control import Controlled
from records.errors import FencedError, IntegrityError, UnavailableError, VrmError
from records.knowledge import LifecycleEvent
from records.runtime import Applied, Authorization, Command
from store.artifacts import ArtifactStore, Kept

T = TypeVar("T")
_ARTIFACTS: Final = "artifacts"
Told = Callable[[str, Step, Fate, str], None]
"""Told of every step: who took it, what it was, what was done to it, what came of it."""


class Line:
    """One participant's way to the ports."""

    def __init__(
        self,
        world: World,
        strand: Steps[Step, Fate],
        told: Told,
        post: Callable[[Line, Any], None],
        since: float | None = None,
    ) -> None:
        """Call as `strand`, who began now or at a moment before; `post` takes a call that is to be delivered later."""
        self.world = world
        self._strand = strand
        self._told = told
        self._post = post
        self._fault: Fault | None = None
        self.since = world.artifacts.moment if since is None else since
        self.owner = _RunOwnerLine(self)
        self.coordinator: CoordinatorPort = _CoordinatorLine(self)
        self.heads: HeadsPort = _HeadsLine(self)
        self.artifacts: ArtifactStore = _ArtifactLine(self)

    @property
    def name(self) -> str:
        """Who calls."""
        return self._strand.name

    def wait(self, why: str) -> None:
        """Let others go on."""
        step = Step("clock", "wait", why, whole=False)
        self._told(self._strand.name, step, self._pause(step), "")

    def call(self, step: Step, act: Callable[[Any], T]) -> T:
        """Make a call, again if it must be.

        Raises:
            Gone: the participant's process ended.
            UnavailableError: no answer came, and the call is given up.
            FencedError: a fence of the call itself is over.
        """
        while True:
            fate = self._pause(step)
            try:
                answer = self._take(step, fate, act)
            except BaseException as error:
                self._contradicts(step, error)
                self._told(self._strand.name, step, fate, str(error) or type(error).__name__)
                if isinstance(error, UnavailableError) and fate.again:
                    continue
                if isinstance(error, FencedError) and error.field == RESOURCES.get(step.port):
                    continue
                raise
            for each in answer if isinstance(answer, list) else ():
                self._contradicts(step, each)
            self._told(self._strand.name, step, fate, _outcome(answer))
            return answer

    def _contradicts(self, step: Step, answer: object) -> None:
        """Complain if an owner met rows that contradict each other: no order of honest steps leads there."""
        if isinstance(answer, IntegrityError):
            self.world.complain(f"{step} met a contradiction: {answer}")

    def before_write(self, port: str) -> None:
        """Stop the owner here, or lose it."""
        fault, self._fault = self._fault, None if self._fault is not Fault.OWNER_LOST_AFTER else self._fault
        if fault is Fault.OWNER_PAUSED:
            self.world.succeed(port)
            step = Step(port, "write", "the former owner goes on", whole=False)
            self._told(self._strand.name, step, self._pause(step), "")
        elif fault is Fault.OWNER_LOST_BEFORE:
            self.world.succeed(port)
            raise UnavailableError(port, "owner lost", "Nothing was written.")

    def after_write(self, port: str) -> None:
        """Lose the owner here."""
        if self._fault is Fault.OWNER_LOST_AFTER:
            self._fault = None
            self.world.succeed(port)
            raise UnavailableError(port, "owner lost", "What was written is there.")

    def _pause(self, step: Step) -> Fate:
        fate = self._strand.step(step)
        self.world.acting = self
        self.world.artifacts.moment += 1
        return fate

    def _take(self, step: Step, fate: Fate, act: Callable[[Any], T]) -> T:
        fault = fate.fault
        if fault is not None:
            self.world.faults[fault.name] += 1
        if fault is Fault.CRASH_BEFORE:
            raise self._strand.leave()
        if fault is Fault.DELAY:
            self._post(self, (step, act))
            raise UnavailableError(step.port, "no answer", "It may be carried out later.")
        owner = self.world.former(step.port) if fault is Fault.OLD_OWNER else self.world.owner(step.port)
        self._fault = fault
        try:
            if step.port == HEADS and fault in {Fault.OWNER_PAUSED, Fault.OWNER_LOST_BEFORE}:
                self.world.succeed(HEADS)
            answer = act(owner)
            if step.port == HEADS and fault is Fault.OWNER_LOST_AFTER:
                self.world.succeed(HEADS)
        finally:
            self._fault = None
        self._after(step, fault, act)
        return answer

    def _after(self, step: Step, fault: Fault | None, act: Callable[[Any], object]) -> None:
        if fault is Fault.DUPLICATE:
            act(self.world.owner(step.port))
        elif fault is Fault.LATE_DUPLICATE:
            self._post(self, (step, act))
        elif fault is Fault.CRASH_AFTER:
            raise self._strand.leave()
        elif fault is Fault.LOST_REPLY:
            raise UnavailableError(step.port, "no answer", "It was carried out.")


class _RunOwnerLine:
    def __init__(self, line: Line) -> None:
        self._line = line

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        about = ", ".join(_command(each) for each in commands)
        return self._line.call(Step(RUN_OWNER, "apply", about, owned=True), lambda owner: owner.apply(commands))

    def control(self, event_digests: Sequence[str]) -> list[Controlled | VrmError]:
        step = Step(RUN_OWNER, "control", _short(event_digests), owned=True)
        return self._line.call(step, lambda owner: owner.control(event_digests))

    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        step = Step(RUN_OWNER, "grant", _short(proposal_digests), owned=True)
        grants: list[Authorization | VrmError] = self._line.call(step, lambda owner: owner.grant(proposal_digests))
        for digest, grant in zip(proposal_digests, grants, strict=True):
            if isinstance(grant, Authorization) and grant.proposal_digest != digest:
                self._line.world.complain(f"{grant.id} was handed out for proposal {digest} and is about another one")
        return grants

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        step = Step(RUN_OWNER, "reconcile", _short(authorization_ids), owned=True)
        answers = self._line.call(step, lambda owner: owner.reconcile(authorization_ids))
        return _witnessed(self._line.world, authorization_ids, answers)

    def resolve(self, proof_digests: Sequence[str]) -> list[Applied | VrmError]:
        step = Step(RUN_OWNER, "resolve", _short(proof_digests), owned=True)
        return self._line.call(step, lambda owner: owner.resolve(proof_digests))

    def release(self, releases: Sequence[Release]) -> list[Applied | VrmError]:
        step = Step(RUN_OWNER, "release", _short([each.handoff_id for each in releases]), owned=True)
        return self._line.call(step, lambda owner: owner.release(releases))


class _CoordinatorLine:
    def __init__(self, line: Line) -> None:
        self._line = line

    def append_granted(
        self, authorization_ids: Sequence[str], fences: Sequence[Fence] = ()
    ) -> list[AppendReceipt | VrmError]:
        step = Step(COORDINATOR, "append_granted", _short(authorization_ids), owned=True)
        answers = self._line.call(step, lambda owner: self._append(owner, authorization_ids, fences))
        return _witnessed(self._line.world, authorization_ids, answers)

    def _append(self, owner: Any, authorization_ids: Sequence[str], fences: Sequence[Fence]) -> Any:
        """Append, and see whether the fences of the call were held to its end."""
        world = self._line.world
        rows = len(world.ledger.content.records)
        answers = owner.append_granted(authorization_ids, fences)
        over = [fence for fence in fences if world.epochs.get(fence[0]) != fence[1]]
        if over and len(world.ledger.content.records) != rows:
            world.complain(f"an append was made under {over[0]}, which is over")
        return answers

    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        keys = [append.permit_key for append in appends]
        step = Step(COORDINATOR, "append_direct", _short(keys), owned=True)
        answers = self._line.call(step, lambda owner: owner.append_direct(appends))
        return _witnessed(self._line.world, keys, answers)


class _HeadsLine:
    def __init__(self, line: Line) -> None:
        self._line = line

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        step = Step(HEADS, "reserve", plan[:12], owned=True)
        return [self._line.call(step, lambda host: host.reserve(namespace, plan, events))]

    def release(self, plan: str) -> None:
        self._line.call(Step(HEADS, "release", plan[:12], owned=True), lambda host: host.release(plan))


class _ArtifactLine(ArtifactStore):
    def __init__(self, line: Line) -> None:
        self._line = line
        self.url = line.world.artifacts.url

    def publish_many(self, items: Sequence[bytes]) -> list[str]:
        step = Step(_ARTIFACTS, "publish", f"{len(items)} items")
        return self._line.call(step, lambda store: list(store.publish_many(items)))

    def ages(self) -> Iterator[Kept]:
        kept = self._line.call(Step(_ARTIFACTS, "ages", "all"), lambda store: list(store.ages()))
        return iter(kept)

    def drop(self, name: str, published_before: float) -> bool:
        step = Step(_ARTIFACTS, "drop", name[:12])
        return self._line.call(step, lambda store: self._drop(store, name, published_before))

    def _drop(self, store: ArtifactStore, name: str, published_before: float) -> bool:
        """Remove an artifact, and see whether somebody needs it."""
        dropped = store.drop(name, published_before)
        if dropped:
            self._line.world.require_unnamed(name)
        return dropped

    def erase(self, digest: str) -> None:
        self._line.call(Step(_ARTIFACTS, "erase", digest[:12]), lambda store: store.erase(digest))

    def erased(self, digest: str) -> bool:
        return self._line.world.artifacts.erased(digest)

    def holds(self, digest: str) -> bool:
        return self._line.world.artifacts.holds(digest)

    def read(self, digest: str) -> bytes:
        return self._line.world.artifacts.read(digest)

    def digests(self) -> Iterable[str]:
        return self._line.world.artifacts.digests()


def _witnessed(
    world: World, keys: Sequence[str], answers: list[AppendReceipt | VrmError]
) -> list[AppendReceipt | VrmError]:
    """Return the answers, after comparing each receipt with the one that the Ledger holds."""
    held = world.ledger.content.receipts
    for key, answer in zip(keys, answers, strict=True):
        if isinstance(answer, AppendReceipt) and held.get((answer.namespace, key)) != answer:
            world.complain(f"{key} was answered by a receipt that the Ledger does not hold")
    return answers


def _short(keys: Sequence[str]) -> str:
    return ", ".join(key if len(key) < len("sha256") else f"{key[:30]}" for key in keys)


def _command(command: Command) -> str:
    made = [f"+{each.machine}" for each in command.creates]
    return " ".join([*made, *(f"{each.machine} {each.event} at {each.fence}" for each in command.moves)])


def _outcome(answer: object) -> str:
    """Say in a few words what came of a call."""
    if not isinstance(answer, list):
        return "done"
    return ", ".join(_one(each) for each in answer)


def _one(answer: object) -> str:
    match answer:
        case VrmError():
            return f"{type(answer).__name__}: {answer}"
        case AppendReceipt():
            return "committed" if answer.committed else f"no commit: {answer.reason}"
        case Authorization():
            return f"{answer.transition} at fence {answer.fence}: {str(answer.id)[:24]}"
        case Applied():
            return "replayed" if answer.replayed else "applied"
        case _:
            return str(answer)[:12]
