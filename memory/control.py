"""What a control event does to a Run: one arbitration for all of them. Pure (spec 6.3, 9.7).

Rules kept here:

- the first event that ends a Run is its primary one: a later cancellation, and a failure that a cancellation may have
  caused, change nothing. A failure that no cancellation can have caused takes a cancelling Run over, and is kept as
  secondary evidence by a Run that is failing already;
- the same event again is a replay, however late it comes;
- a Run with an unresolved grant is not paused; it may begin to cancel or fail, and the grant stays what it is;
- a limit of the budget never falls below what is spent, and an amendment holds for the version it was decided on;
- the command names the version of the Run that was read, so two events never take effect on one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from records.control import INDEPENDENT, BudgetLine, ControlEffect, ControlEvent, ControlKind, RunFacts
from records.errors import (
    CommitArbitrationBusyError,
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    StaleError,
)
from records.runtime import Command, Move, Require, RunBody, Subject
from records.states import Event, Machine, Phase, next_phase

CONTROL: Final = {
    ControlKind.PAUSE: Event.PAUSE,
    ControlKind.RESUME: Event.RESUME,
    ControlKind.AMEND_BUDGET: Event.AMEND_BUDGET,
    ControlKind.CANCEL_EVENT: Event.CANCEL,
    ControlKind.RUNTIME_FAILURE: Event.BEGIN_FAILING,
}
"""The event of the Run's machine for each kind of control event."""

CONTROLLING: Final = frozenset({*CONTROL.values(), Event.RETAIN})
"""The events of a Run that only a published control event brings about."""

_ENDING: Final = frozenset({ControlKind.CANCEL_EVENT, ControlKind.RUNTIME_FAILURE})

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
        StaleError: it is an amendment of another version of the Run.
        InvalidInputError: it sets a limit below what is spent.
    """
    place = (RunBody.load(run.body).namespace, run.id)
    if (event.namespace, event.run_id) != place:
        raise IntegrityError("control_event.run_id", event.run_id, f"The Run is {run.id} of {place[0]}.")
    facts = RunFacts.load(run.facts)
    if event.ref in (facts.control, facts.superseded, *facts.secondary) or event.ref.digest in facts.taken:
        return Ruling(ControlEffect.REPLAYED)
    if run.phase is Phase.FAILING and event.cause in INDEPENDENT:
        kept = facts.model_copy(update={"secondary": (*facts.secondary, event.ref)})
        return Ruling(ControlEffect.RETAINED, _command(run, Event.RETAIN, kept))
    if _comes_second(run.phase, event):
        return Ruling(ControlEffect.SUPPRESSED)
    moved = CONTROL[event.kind]
    next_phase(Machine.RUN, run.phase, moved)
    if event.kind is ControlKind.PAUSE and unresolved:
        raise CommitArbitrationBusyError("authorization", unresolved[0], "It is unresolved; recover it, then pause.")
    if event.expected_version not in (None, run.version):
        raise StaleError("run.version", run.version, f"Expected {event.expected_version}; read it and decide again.")
    return Ruling(ControlEffect.APPLIED, _command(run, moved, _kept(facts, event)))


def ending(run: Subject) -> Command:
    """Return the last step of a Run that is cancelling or failing; again it is a replay.

    Raises:
        IllegalTransitionError: it is neither.
    """
    if run.phase not in ENDS:
        raise IllegalTransitionError("run.phase", run.phase.value, "Cancel or fail the Run before its closure ends it.")
    event = ENDS[run.phase]
    key_phase = next_phase(Machine.RUN, run.phase, event)
    return Command(key=(Machine.RUN, run.id), key_phase=key_phase, moves=(Move.of(run, event),))


def _comes_second(phase: Phase, event: ControlEvent) -> bool:
    """Tell whether an event that would end a Run comes after the one that does."""
    if event.kind not in _ENDING:
        return False
    return phase is Phase.FAILING or (phase is Phase.CANCELLING and event.cause not in INDEPENDENT)


def _kept(facts: RunFacts, event: ControlEvent) -> RunFacts:
    if event.kind in _ENDING:
        return facts.model_copy(update={"control": event.ref, "superseded": facts.control})
    taken = (*facts.taken, event.ref.digest)
    return facts.model_copy(update={"taken": taken, "budget": _amended(facts.budget, event)})


def _amended(budget: Sequence[BudgetLine], event: ControlEvent) -> tuple[BudgetLine, ...]:
    lines = {line.resource: line for line in budget}
    for one in event.limits:
        spent = lines[one.resource].spent if one.resource in lines else 0
        if one.limit < spent:
            raise InvalidInputError(f"budget.{one.resource}", one.limit, f"Give {spent} or more; so much is spent.")
        lines[one.resource] = BudgetLine(resource=one.resource, limit=one.limit, spent=spent)
    return tuple(line for _, line in sorted(lines.items()))


def _command(run: Subject, event: Event, facts: RunFacts) -> Command:
    return Command(requires=(Require.of(run),), moves=(Move.of(run, event, facts.canonical.decode()),))
