"""The state machines of the Runtime as one total function.

    run            (start) RUNNING --complete--> COMPLETED
                           RUNNING --pause--> PAUSED --resume--> RUNNING
                           RUNNING, PAUSED --cancel--> CANCELLING --cancelled--> CANCELLED
                           RUNNING, PAUSED --begin_failing--> FAILING --failed--> FAILED
                           CANCELLING --begin_failing--> FAILING
                           CANCELLING --complete--> COMPLETED
                           RUNNING --amend_budget--> RUNNING
                           PAUSED --amend_budget--> PAUSED
    activity       (start) READY --lease--> LEASED --begin--> RUNNING --complete--> COMMITTED
                   (start) AWAITING_ASSIGNMENT --assign--> READY
                           LEASED, RUNNING --expire--> READY
                           RUNNING --grant_commit--> COMMITTING --committed--> COMMITTED
                           COMMITTING --no_commit--> READY
                           AWAITING_ASSIGNMENT, READY, LEASED, RUNNING --grant_close--> CLOSING
                           CLOSING --cancelled--> CANCELLED
                           CLOSING --failed--> FAILED
                           CLOSING --close_retired--> READY
                           READY, LEASED, RUNNING --cancelled--> CANCELLED
                           READY, LEASED, RUNNING --failed--> FAILED
    decision       (start) REGISTERING --admitted--> OPEN
                           REGISTERING --ghost--> RETIRED
                           OPEN --grant_context--> CONTEXT_COMMITTING --context_committed--> CONTEXT_COMMITTED
                           CONTEXT_COMMITTING --context_retired--> OPEN
                           OPEN, CONTEXT_COMMITTED --grant_outcome--> OUTCOME_COMMITTING
                           OUTCOME_COMMITTING --outcome_committed--> OUTCOME_COMMITTED
                           OUTCOME_COMMITTING --outcome_retired_open--> OPEN
                           OUTCOME_COMMITTING --outcome_retired_context--> CONTEXT_COMMITTED
    handoff        (start) PENDING --grant_enqueue--> IN_FLIGHT --bound--> BOUND --release--> RELEASED
                           IN_FLIGHT --enqueue_retired--> PENDING
                           PENDING, IN_FLIGHT, ABANDONING --retire_attempt--> RETIRED --queued_present--> BOUND
                           RETIRED --absent--> PROVED_ABSENT --grant_enqueue--> IN_FLIGHT
                           RETIRED --abandoned_present--> ABANDONED
                           PROVED_ABSENT --grant_abandon--> ABANDONING --abandoned--> ABANDONED --release--> RELEASED
                           ABANDONING --abandon_retired--> RETIRED
    authorization  (start) GRANTED --commit--> COMMITTED
                           GRANTED --retire--> RETIRED_NO_COMMIT
    reference      (start) ACTIVE --release--> RELEASED
    erasure        (start) REGISTERING --admitted--> OPEN
                           REGISTERING --ghost--> RETIRED
                           OPEN --grant_close--> CLOSING --closed--> CLOSED
                           CLOSING --close_retired--> OPEN

Rules: `next_phase` is defined for every (machine, phase, event) and raises for all pairs that are not drawn; a machine
starts only in a phase marked (start); nobody assigns a phase. What else may happen adds arrows here and nowhere else.
An event that ends an attempt at work (expire, no_commit, a retired grant) raises the fence, so that whoever still works
on the old attempt is refused. Control of a Run raises none: a grant that is unresolved is valid until it is settled.
A Run that is cancelling completes after all only where its whole work was done before: a campaign whose commit won.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from records.errors import IllegalTransitionError


class Machine(StrEnum):
    """The kinds of Runtime subject; each has a table of its own."""

    RUN = "run"
    ACTIVITY = "activity"
    DECISION = "decision"
    HANDOFF = "handoff"
    AUTHORIZATION = "authorization"
    REFERENCE = "reference"
    ERASURE = "erasure"


class Phase(StrEnum):
    """Every phase of every machine."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    FAILING = "FAILING"
    FAILED = "FAILED"
    AWAITING_ASSIGNMENT = "AWAITING_ASSIGNMENT"
    READY = "READY"
    LEASED = "LEASED"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"
    REGISTERING = "REGISTERING"
    RETIRED = "RETIRED"
    OPEN = "OPEN"
    CONTEXT_COMMITTING = "CONTEXT_COMMITTING"
    CONTEXT_COMMITTED = "CONTEXT_COMMITTED"
    OUTCOME_COMMITTING = "OUTCOME_COMMITTING"
    OUTCOME_COMMITTED = "OUTCOME_COMMITTED"
    PENDING = "PENDING"
    IN_FLIGHT = "IN_FLIGHT"
    BOUND = "BOUND"
    PROVED_ABSENT = "PROVED_ABSENT"
    ABANDONING = "ABANDONING"
    ABANDONED = "ABANDONED"
    GRANTED = "GRANTED"
    RETIRED_NO_COMMIT = "RETIRED_NO_COMMIT"
    ACTIVE = "ACTIVE"
    RELEASED = "RELEASED"
    CLOSING = "CLOSING"
    CLOSED = "CLOSED"


class Event(StrEnum):
    """Every event that moves a machine."""

    COMPLETE = "complete"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CANCELLED = "cancelled"
    BEGIN_FAILING = "begin_failing"
    FAILED = "failed"
    AMEND_BUDGET = "amend_budget"
    ASSIGN = "assign"
    LEASE = "lease"
    BEGIN = "begin"
    EXPIRE = "expire"
    GRANT_COMMIT = "grant_commit"
    COMMITTED = "committed"
    NO_COMMIT = "no_commit"
    ADMITTED = "admitted"
    GHOST = "ghost"
    GRANT_CONTEXT = "grant_context"
    CONTEXT_COMMITTED = "context_committed"
    CONTEXT_RETIRED = "context_retired"
    GRANT_OUTCOME = "grant_outcome"
    OUTCOME_COMMITTED = "outcome_committed"
    OUTCOME_RETIRED_OPEN = "outcome_retired_open"
    OUTCOME_RETIRED_CONTEXT = "outcome_retired_context"
    GRANT_ENQUEUE = "grant_enqueue"
    BOUND = "bound"
    ENQUEUE_RETIRED = "enqueue_retired"
    RETIRE_ATTEMPT = "retire_attempt"
    QUEUED_PRESENT = "queued_present"
    ABANDONED_PRESENT = "abandoned_present"
    ABSENT = "absent"
    GRANT_ABANDON = "grant_abandon"
    ABANDONED = "abandoned"
    ABANDON_RETIRED = "abandon_retired"
    COMMIT = "commit"
    RETIRE = "retire"
    RELEASE = "release"
    GRANT_CLOSE = "grant_close"
    CLOSED = "closed"
    CLOSE_RETIRED = "close_retired"


STARTS: Final[dict[Machine, frozenset[Phase]]] = {
    Machine.RUN: frozenset({Phase.RUNNING}),
    Machine.ACTIVITY: frozenset({Phase.READY, Phase.AWAITING_ASSIGNMENT}),
    Machine.DECISION: frozenset({Phase.REGISTERING}),
    Machine.HANDOFF: frozenset({Phase.PENDING}),
    Machine.AUTHORIZATION: frozenset({Phase.GRANTED}),
    Machine.REFERENCE: frozenset({Phase.ACTIVE}),
    Machine.ERASURE: frozenset({Phase.REGISTERING}),
}
"""The phases in which a subject may come to be."""

ARROWS: Final[dict[tuple[Machine, Phase, Event], Phase]] = {
    (Machine.RUN, Phase.RUNNING, Event.COMPLETE): Phase.COMPLETED,
    (Machine.RUN, Phase.RUNNING, Event.PAUSE): Phase.PAUSED,
    (Machine.RUN, Phase.PAUSED, Event.RESUME): Phase.RUNNING,
    (Machine.RUN, Phase.RUNNING, Event.CANCEL): Phase.CANCELLING,
    (Machine.RUN, Phase.PAUSED, Event.CANCEL): Phase.CANCELLING,
    (Machine.RUN, Phase.CANCELLING, Event.CANCELLED): Phase.CANCELLED,
    (Machine.RUN, Phase.RUNNING, Event.BEGIN_FAILING): Phase.FAILING,
    (Machine.RUN, Phase.PAUSED, Event.BEGIN_FAILING): Phase.FAILING,
    (Machine.RUN, Phase.CANCELLING, Event.BEGIN_FAILING): Phase.FAILING,
    (Machine.RUN, Phase.CANCELLING, Event.COMPLETE): Phase.COMPLETED,
    (Machine.RUN, Phase.FAILING, Event.FAILED): Phase.FAILED,
    (Machine.RUN, Phase.RUNNING, Event.AMEND_BUDGET): Phase.RUNNING,
    (Machine.RUN, Phase.PAUSED, Event.AMEND_BUDGET): Phase.PAUSED,
    (Machine.ACTIVITY, Phase.AWAITING_ASSIGNMENT, Event.ASSIGN): Phase.READY,
    (Machine.ACTIVITY, Phase.READY, Event.LEASE): Phase.LEASED,
    (Machine.ACTIVITY, Phase.LEASED, Event.BEGIN): Phase.RUNNING,
    (Machine.ACTIVITY, Phase.LEASED, Event.EXPIRE): Phase.READY,
    (Machine.ACTIVITY, Phase.RUNNING, Event.EXPIRE): Phase.READY,
    (Machine.ACTIVITY, Phase.RUNNING, Event.GRANT_COMMIT): Phase.COMMITTING,
    (Machine.ACTIVITY, Phase.RUNNING, Event.COMPLETE): Phase.COMMITTED,
    (Machine.ACTIVITY, Phase.COMMITTING, Event.COMMITTED): Phase.COMMITTED,
    (Machine.ACTIVITY, Phase.COMMITTING, Event.NO_COMMIT): Phase.READY,
    (Machine.ACTIVITY, Phase.AWAITING_ASSIGNMENT, Event.GRANT_CLOSE): Phase.CLOSING,
    (Machine.ACTIVITY, Phase.READY, Event.GRANT_CLOSE): Phase.CLOSING,
    (Machine.ACTIVITY, Phase.LEASED, Event.GRANT_CLOSE): Phase.CLOSING,
    (Machine.ACTIVITY, Phase.RUNNING, Event.GRANT_CLOSE): Phase.CLOSING,
    (Machine.ACTIVITY, Phase.CLOSING, Event.CANCELLED): Phase.CANCELLED,
    (Machine.ACTIVITY, Phase.CLOSING, Event.FAILED): Phase.FAILED,
    (Machine.ACTIVITY, Phase.CLOSING, Event.CLOSE_RETIRED): Phase.READY,
    (Machine.ACTIVITY, Phase.READY, Event.CANCELLED): Phase.CANCELLED,
    (Machine.ACTIVITY, Phase.LEASED, Event.CANCELLED): Phase.CANCELLED,
    (Machine.ACTIVITY, Phase.RUNNING, Event.CANCELLED): Phase.CANCELLED,
    (Machine.ACTIVITY, Phase.READY, Event.FAILED): Phase.FAILED,
    (Machine.ACTIVITY, Phase.LEASED, Event.FAILED): Phase.FAILED,
    (Machine.ACTIVITY, Phase.RUNNING, Event.FAILED): Phase.FAILED,
    (Machine.DECISION, Phase.REGISTERING, Event.ADMITTED): Phase.OPEN,
    (Machine.DECISION, Phase.REGISTERING, Event.GHOST): Phase.RETIRED,
    (Machine.DECISION, Phase.OPEN, Event.GRANT_CONTEXT): Phase.CONTEXT_COMMITTING,
    (Machine.DECISION, Phase.CONTEXT_COMMITTING, Event.CONTEXT_COMMITTED): Phase.CONTEXT_COMMITTED,
    (Machine.DECISION, Phase.CONTEXT_COMMITTING, Event.CONTEXT_RETIRED): Phase.OPEN,
    (Machine.DECISION, Phase.OPEN, Event.GRANT_OUTCOME): Phase.OUTCOME_COMMITTING,
    (Machine.DECISION, Phase.CONTEXT_COMMITTED, Event.GRANT_OUTCOME): Phase.OUTCOME_COMMITTING,
    (Machine.DECISION, Phase.OUTCOME_COMMITTING, Event.OUTCOME_COMMITTED): Phase.OUTCOME_COMMITTED,
    (Machine.DECISION, Phase.OUTCOME_COMMITTING, Event.OUTCOME_RETIRED_OPEN): Phase.OPEN,
    (Machine.DECISION, Phase.OUTCOME_COMMITTING, Event.OUTCOME_RETIRED_CONTEXT): Phase.CONTEXT_COMMITTED,
    (Machine.HANDOFF, Phase.PENDING, Event.GRANT_ENQUEUE): Phase.IN_FLIGHT,
    (Machine.HANDOFF, Phase.IN_FLIGHT, Event.BOUND): Phase.BOUND,
    (Machine.HANDOFF, Phase.IN_FLIGHT, Event.ENQUEUE_RETIRED): Phase.PENDING,
    (Machine.HANDOFF, Phase.PENDING, Event.RETIRE_ATTEMPT): Phase.RETIRED,
    (Machine.HANDOFF, Phase.IN_FLIGHT, Event.RETIRE_ATTEMPT): Phase.RETIRED,
    (Machine.HANDOFF, Phase.ABANDONING, Event.RETIRE_ATTEMPT): Phase.RETIRED,
    (Machine.HANDOFF, Phase.RETIRED, Event.QUEUED_PRESENT): Phase.BOUND,
    (Machine.HANDOFF, Phase.RETIRED, Event.ABANDONED_PRESENT): Phase.ABANDONED,
    (Machine.HANDOFF, Phase.RETIRED, Event.ABSENT): Phase.PROVED_ABSENT,
    (Machine.HANDOFF, Phase.PROVED_ABSENT, Event.GRANT_ENQUEUE): Phase.IN_FLIGHT,
    (Machine.HANDOFF, Phase.PROVED_ABSENT, Event.GRANT_ABANDON): Phase.ABANDONING,
    (Machine.HANDOFF, Phase.ABANDONING, Event.ABANDONED): Phase.ABANDONED,
    (Machine.HANDOFF, Phase.ABANDONING, Event.ABANDON_RETIRED): Phase.RETIRED,
    (Machine.HANDOFF, Phase.BOUND, Event.RELEASE): Phase.RELEASED,
    (Machine.HANDOFF, Phase.ABANDONED, Event.RELEASE): Phase.RELEASED,
    (Machine.AUTHORIZATION, Phase.GRANTED, Event.COMMIT): Phase.COMMITTED,
    (Machine.AUTHORIZATION, Phase.GRANTED, Event.RETIRE): Phase.RETIRED_NO_COMMIT,
    (Machine.REFERENCE, Phase.ACTIVE, Event.RELEASE): Phase.RELEASED,
    (Machine.ERASURE, Phase.REGISTERING, Event.ADMITTED): Phase.OPEN,
    (Machine.ERASURE, Phase.REGISTERING, Event.GHOST): Phase.RETIRED,
    (Machine.ERASURE, Phase.OPEN, Event.GRANT_CLOSE): Phase.CLOSING,
    (Machine.ERASURE, Phase.CLOSING, Event.CLOSED): Phase.CLOSED,
    (Machine.ERASURE, Phase.CLOSING, Event.CLOSE_RETIRED): Phase.OPEN,
}
"""Every legal arrow."""

FENCING: Final[frozenset[Event]] = frozenset(
    {Event.EXPIRE, Event.NO_COMMIT, Event.CONTEXT_RETIRED, Event.OUTCOME_RETIRED_OPEN,
     Event.OUTCOME_RETIRED_CONTEXT, Event.ENQUEUE_RETIRED, Event.RETIRE_ATTEMPT, Event.ABANDON_RETIRED,
     Event.CLOSE_RETIRED}
)  # fmt: skip
"""Events that end an attempt and so raise the subject's generation and fence."""


def next_phase(machine: Machine, phase: Phase, event: Event) -> Phase:
    """Return the phase after `event`.

    Raises:
        IllegalTransitionError: the machine has no such arrow.
    """
    try:
        return ARROWS[machine, phase, event]
    except KeyError:
        legal = sorted(arrow[2] for arrow in ARROWS if arrow[:2] == (machine, phase))
        remedy = f"From {phase} a {machine} takes: {', '.join(legal) or 'nothing, the phase is terminal'}."
        raise IllegalTransitionError(f"{machine}.{phase}", event.value, remedy) from None


def ends_of(machine: Machine) -> frozenset[Phase]:
    """Return the phases of a machine that no event leaves."""
    return frozenset(phases_of(machine)) - {phase for kind, phase, _ in ARROWS if kind is machine}


def phases_of(machine: Machine) -> tuple[Phase, ...]:
    """Return every phase that a machine can be in, in the order in which they are declared."""
    reached = set(STARTS[machine])
    reached |= {arrow[1] for arrow in ARROWS if arrow[0] is machine}
    reached |= {target for arrow, target in ARROWS.items() if arrow[0] is machine}
    return tuple(phase for phase in Phase if phase in reached)
