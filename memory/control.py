"""What a control event does to a Run: one arbitration for pause, resumption, cancellation and failure. Pure (spec 6.3).

Rules kept here:

- the first event that ends a Run is its primary one: a later cancellation, and a failure that a cancellation may have
  caused, change nothing. A failure that no cancellation can have caused takes a cancelling Run over;
- the same event again is a replay, however late it comes;
- a Run with an unresolved grant is not paused; it may begin to cancel or fail, and the grant stays what it is;
- the command names the version of the Run that was read, so two events never take effect on one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from records.control import INDEPENDENT, ControlEffect, ControlEvent, ControlKind, RunFacts
from records.errors import CommitArbitrationBusyError, IllegalTransitionError, IntegrityError
from records.runtime import Command, Move, Require, RunBody, Subject
from records.states import Event, Machine, Phase, next_phase

CONTROL: Final = {
    ControlKind.PAUSE: Event.PAUSE,
    ControlKind.RESUME: Event.RESUME,
    ControlKind.CANCEL_EVENT: Event.CANCEL,
    ControlKind.RUNTIME_FAILURE: Event.BEGIN_FAILING,
}
"""The event of the Run's machine for each kind of control event."""

ENDS: Final = {Phase.CANCELLING: Event.CANCELLED, Phase.FAILING: Event.FAILED}
"""The phases in which only closure may be granted, each with the event that ends the Run from there."""


@dataclass(frozen=True)
class Ruling:
    """What a control event is to do: a command, or nothing."""

    effect: ControlEffect
    command: Command | None = None


def rule(run: Subject, event: ControlEvent, unresolved: Sequence[str] = ()) -> Ruling:
    """Decide what an event does to its Run; `unresolved` are the Run's grants that nobody settled.

    Raises:
        IntegrityError: the event is of another Run or namespace.
        IllegalTransitionError: the Run has no such arrow, as one that is over.
        CommitArbitrationBusyError: it is a pause, and a grant is unresolved.
    """
    place = (RunBody.load(run.body).namespace, run.id)
    if (event.namespace, event.run_id) != place:
        raise IntegrityError("control_event.run_id", event.run_id, f"The Run is {run.id} of {place[0]}.")
    facts = RunFacts.load(run.facts)
    if event.ref in (facts.control, facts.superseded) or event.ref.digest in facts.suspensions:
        return Ruling(ControlEffect.REPLAYED)
    if _comes_second(run.phase, event):
        return Ruling(ControlEffect.SUPPRESSED)
    moved = CONTROL[event.kind]
    next_phase(Machine.RUN, run.phase, moved)
    if event.kind is ControlKind.PAUSE and unresolved:
        raise CommitArbitrationBusyError("authorization", unresolved[0], "It is unresolved; recover it, then pause.")
    return Ruling(ControlEffect.APPLIED, _command(run, moved, _kept(facts, event)))


def ending(run: Subject) -> Command:
    """Return the last step of a Run that is cancelling or failing; again it is a replay.

    Raises:
        IllegalTransitionError: it is neither.
    """
    if run.phase not in ENDS:
        raise IllegalTransitionError("run.phase", run.phase.value, "Cancel or fail the Run before its closure ends it.")
    event = ENDS[run.phase]
    move = Move(machine=Machine.RUN, id=run.id, event=event, generation=run.generation, fence=run.fence)
    return Command(key=(Machine.RUN, run.id), key_phase=next_phase(Machine.RUN, run.phase, event), moves=(move,))


def _comes_second(phase: Phase, event: ControlEvent) -> bool:
    """Tell whether an event that would end a Run comes after the one that does."""
    if event.kind in {ControlKind.PAUSE, ControlKind.RESUME}:
        return False
    return phase is Phase.FAILING or (phase is Phase.CANCELLING and event.cause not in INDEPENDENT)


def _kept(facts: RunFacts, event: ControlEvent) -> RunFacts:
    if event.kind in {ControlKind.PAUSE, ControlKind.RESUME}:
        return facts.model_copy(update={"suspensions": (*facts.suspensions, event.ref.digest)})
    return facts.model_copy(update={"control": event.ref, "superseded": facts.control})


def _command(run: Subject, event: Event, facts: RunFacts) -> Command:
    move = Move(
        machine=Machine.RUN,
        id=run.id,
        event=event,
        generation=run.generation,
        fence=run.fence,
        facts=facts.canonical.decode(),
    )
    seen = Require(machine=Machine.RUN, id=run.id, phase=run.phase, version=run.version)
    return Command(requires=(seen,), moves=(move,))
