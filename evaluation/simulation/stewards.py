"""Participants that see to what others work on: they control Runs, end handoffs, erase, and collect garbage.

Rules kept here: as in `evaluation.simulation.roles`. What a steward begins it also finishes, or a closing role does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from evaluation.simulation.lines import Line
from evaluation.simulation.roles import Role, closure_of, passes, spine_of
from memory.assignments import CAMPAIGN
from memory.commands import RunCommands
from memory.orphans import Abandonment, Orphans
from memory.ports import all_good
from memory.releases import Release, RetentionEnded
from records.control import BudgetLimit, ControlCause, ControlEvent, ControlKind, RunFacts
from records.errors import VrmError
from records.ids import HandoffId, RunId
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
from records.values import ProofRef

_UNDER_WAY: Final = (Phase.PENDING, Phase.IN_FLIGHT, Phase.ABANDONING)
_LOOKS: Final = 8
"""How often somebody looks for handoffs to end."""
_PATIENCE: Final = 60
"""How often somebody looks for the one handoff that he means to give up."""
_CLOSED: Final = (Phase.BOUND, Phase.ABANDONED)


def control(place: int, acts: Sequence[ControlKind]) -> Role:
    """Return the role of one that pauses, resumes and amends a Run, as `acts` say; whichever Run is at `place`."""

    def role(line: Line) -> None:
        for number, act in enumerate(acts):
            runs = line.world.runtime.find(Machine.RUN, [Phase.RUNNING, Phase.PAUSED])
            if runs:
                _ignoring(partial(_act, line, runs[place % len(runs)], act, number))
            line.wait("before the next command")

    return role


def _act(line: Line, run: Subject, act: ControlKind, number: int) -> None:
    run_id, commands = RunId(run.id), _commands(line)
    if act is ControlKind.PAUSE:
        commands.pause_run(run_id)
    elif act is ControlKind.RESUME:
        commands.resume_run(run_id)
    else:
        line.wait("over the budget")  # somebody else may decide on the same version
        commands.amend_budget(run_id, [BudgetLimit(resource="calls", limit=number + 1)], run.version)


def stop_campaign(place: int, *, fail: bool) -> Role:
    """Return the role of one that cancels or fails a campaign, whichever is at `place`, and closes it."""

    def role(line: Line) -> None:
        runs = line.world.runtime.find(Machine.RUN, [Phase.RUNNING, Phase.PAUSED])
        campaigns = [RunId(run.id) for run in runs if RunBody.load(run.body).run_kind == CAMPAIGN]
        if campaigns:
            _ignoring(partial(_stop, line, campaigns[place % len(campaigns)], fail=fail))

    return role


def _stop(line: Line, run_id: RunId, *, fail: bool) -> None:
    if fail:
        _commands(line).fail_run(run_id, ControlCause.INFRASTRUCTURE)
    else:
        _commands(line).cancel_run(run_id)
    closure_of(line).close(run_id)


def resume(line: Line) -> None:
    """Let every Run go on that somebody left paused."""
    passes(line, lambda: [_commands(line).resume_run(RunId(run.id)) for run in _paused(line)] == [])


def _paused(line: Line) -> list[Subject]:
    return line.world.runtime.find(Machine.RUN, [Phase.PAUSED])


def _commands(line: Line) -> RunCommands:
    return RunCommands(line.world.runtime, line.artifacts, line.owner, line.world.clock)


def retire(line: Line) -> None:
    """Watch for handoffs that are under way, end their attempts, and recover what they left."""
    for _ in range(_LOOKS):
        found = line.world.runtime.find(Machine.HANDOFF, _UNDER_WAY)
        _ignoring(partial(_retired, line, found))
        line.wait("for handoffs under way")


def _retired(line: Line, handoffs: Sequence[Subject]) -> None:
    if handoffs:
        orphans = orphans_of(line)
        orphans.retire([HandoffId.check(each.id) for each in handoffs])
        orphans.recover()


def orphans_of(line: Line) -> Orphans:
    """Return who recovers and ends handoffs, over the ports of a participant."""
    world = line.world
    return world.parts.orphans(world.runtime, world.ledger, line.artifacts, line.owner, spine_of(line))


def recover(line: Line) -> None:
    """Recover every attempt that was retired."""
    passes(
        line, lambda: not line.world.runtime.find(Machine.HANDOFF, [Phase.RETIRED]) or not orphans_of(line).recover()
    )


def abandon(run: RunBody) -> Role:
    """Return the role of one that cancels a Run once it has a handoff under way, and gives up what left nothing."""

    def role(line: Line) -> None:
        for _ in range(_PATIENCE):
            found = line.world.runtime.find(Machine.HANDOFF, _UNDER_WAY, run.id)
            ended = line.world.runtime.find(Machine.RUN, (Phase.CANCELLING, Phase.FAILING), run.id)
            if found or ended:  # whoever cancels before leaves nothing to be given up
                return passes(line, lambda: _abandoned(line, run))
            line.wait("for a handoff to give up")
        return None

    return role


def _abandoned(line: Line, run: RunBody) -> bool:
    subject = line.world.runtime.subject(Machine.RUN, run.id)
    if subject is None or subject.phase is Phase.COMPLETED:
        return subject is not None
    handoffs = line.world.runtime.find(Machine.HANDOFF, run_id=run.id)
    if subject.phase in {Phase.RUNNING, Phase.PAUSED}:
        under_way = [HandoffId.check(each.id) for each in handoffs if each.phase in _UNDER_WAY]
        orphans_of(line).retire(under_way)  # what is retired first is not enqueued meanwhile
        _commands(line).cancel_run(run.id)
    _retired(line, [each for each in handoffs if each.phase in _UNDER_WAY])
    absent = line.world.runtime.find(Machine.HANDOFF, [Phase.PROVED_ABSENT], run.id)
    cause = ProofRef(ref=run.id, digest=_cause(line, run).canonical_digest)
    given_up = [Abandonment(HandoffId.check(each.id), cause, "source_run_cancelled") for each in absent]
    all_good(orphans_of(line).abandon(given_up))
    return not line.world.runtime.find(Machine.HANDOFF, (*_UNDER_WAY, Phase.RETIRED, Phase.PROVED_ABSENT), run.id)


def _cause(line: Line, run: RunBody) -> ControlEvent:
    """Return the event that ended a Run's work."""
    subject = line.world.runtime.subjects(Machine.RUN, [run.id])[run.id]
    control = RunFacts.load(subject.facts).control
    digest = "" if control is None else control.digest
    return ControlEvent.read(line.artifacts.read(digest), digest)


def release(line: Line) -> None:
    """Release every handoff whose profile need no longer be held; what is still needed is refused."""
    for handoff in line.world.runtime.find(Machine.HANDOFF, _CLOSED):
        _ignoring(partial(line.owner.release, [Release(HandoffId.check(handoff.id), RetentionEnded(days=0))]))


def collect(line: Line) -> None:
    """Remove what nobody needs and was published before any job that is under way began."""
    for _ in range(2):
        world = line.world
        slowly = _Slowly(line, world.ledger), _Slowly(line, world.runtime)
        work = partial(world.parts.collect, *slowly, line.artifacts, published_before=world.oldest(), remove=True)
        _ignoring(work)
        line.wait("for more garbage")


class _Slowly:
    """A store that others go on writing to before it is read."""

    def __init__(self, line: Line, inner: Any) -> None:
        self._line, self._inner = line, inner

    def reading(self) -> Any:
        self._line.wait("before the Ledger is read")
        return self._inner.reading()

    def find(self, machine: Machine, phases: Iterable[Phase] = ()) -> list[Subject]:
        if machine is Machine.REFERENCE:
            self._line.wait("before the Runtime is read")
        found: list[Subject] = self._inner.find(machine, phases)
        return found


def _ignoring(act: Callable[[], object]) -> None:
    """Do something that may be refused."""
    try:
        act()
    except VrmError:
        return
