"""Runtime commands that every kind of work uses: admitting a Run, leasing an Activity, spending a budget. Pure.

Rules kept here:

- a lease has a holder and a deadline. One that is not over is nobody else's; its own holder renews it before the
  deadline, and takes it anew after a crash, when nobody knows what the old attempt still does;
- a lease that is taken from an attempt ends that attempt first, which raises the fence: a late worker is refused by it;
- a command holds the version of the Activity that it was decided on, so no renewal and no other taker is overlooked;
- nothing is activated or leased in a Run that is not RUNNING, and each lease is charged to its budget by the same
  command;
- what is committing has an unresolved grant, which has no deadline; recovery settles it.

Whether a deadline is over is decided by the clock of whoever asks. Clocks that differ cost at most an attempt: what is
granted is decided by the fence alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from records.canonical import canonical_bytes
from records.control import BudgetLimit, BudgetLine, Charge, RunFacts
from records.errors import StaleError
from records.ids import RunId
from records.runtime import ActivityFacts, Command, Create, Lease, Move, Require, RunBody, Subject, activity_id
from records.states import Event, Machine, Phase

LEASE_SECONDS: Final = 900.0
"""How long a lease lasts unless it is renewed; whoever works longer renews it in the second half."""

ATTEMPTS: Final = "activity_attempts"
"""The resource of which each lease is charged one."""

LEASED: Final = (Phase.LEASED, Phase.RUNNING)
"""The phases in which an Activity has a lease."""


def envelope(budget: Iterable[BudgetLimit]) -> str:
    """Return the facts that a Run begins with: its Budget Envelope, of which nothing is spent."""
    lines = sorted((BudgetLine(resource=each.resource, limit=each.limit) for each in budget), key=lambda x: x.resource)
    return RunFacts(budget=tuple(lines)).canonical.decode() if lines else "{}"


def admission(body: RunBody, slots: Iterable[str], budget: Iterable[BudgetLimit] = ()) -> Command:
    """Admit a scientific Run with one READY Activity per slot: DriveRun.

    The same body again is a replay, whatever budget it comes with: that of a Run that is there is amended.
    """
    run_id = body.id
    activities = tuple(
        Create(
            machine=Machine.ACTIVITY,
            id=activity_id(run_id, slot),
            run_id=run_id,
            phase=Phase.READY,
            body=canonical_bytes({"slot": slot}).decode(),
        )
        for slot in slots
    )
    run = Create(
        machine=Machine.RUN,
        id=run_id,
        run_id=run_id,
        phase=Phase.RUNNING,
        body=body.canonical.decode(),
        facts=envelope(budget),
    )
    return Command(key=(Machine.RUN, run_id), creates=(run, *activities))


def attempts_left(run: Subject) -> int | None:
    """Return how often Activities of a Run may still be leased; None if nothing limits it."""
    line = next((each for each in RunFacts.load(run.facts).budget if each.resource == ATTEMPTS), None)
    return None if line is None or line.limit is None else line.limit - line.spent


def spending(run_id: RunId, key: str, amounts: Mapping[str, int]) -> Command:
    """Charge resources to a Run for what `key` names; again it is a replay."""
    charges = tuple(
        Charge.build(run_id=run_id, resource=resource, amount=amount, key=key)
        for resource, amount in sorted(amounts.items())
    )
    return Command(charges=charges)


def later(now: str, seconds: float) -> str:
    """Return the moment that is so many seconds after another one."""
    moment = datetime.fromisoformat(now) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease_of(activity: Subject) -> Lease | None:
    """Return the lease of an Activity, if it has one."""
    return ActivityFacts.load(activity.facts).lease if activity.phase in LEASED else None


def is_held(activity: Subject, holder: str) -> bool:
    """Tell whether somebody holds an Activity and may work on it."""
    lease = lease_of(activity)
    return activity.phase is Phase.RUNNING and lease is not None and lease.holder == holder


def is_expired(activity: Subject, now: str) -> bool:
    """Tell whether the attempt at an Activity is past its deadline; one of which no deadline is known is."""
    lease = lease_of(activity)
    return activity.phase in LEASED and (lease is None or lease.until <= now)


def leases(activities: Iterable[Subject], holder: str, now: str) -> dict[str, Command | StaleError]:
    """Return for each Activity that can be worked on how `holder` leases and begins it, or who has it.

    An attempt that somebody left unfinished is expired first. One whose assignment was appended just before a crash is
    bound to it now. What is committing or committed is left out.
    """
    opening = {
        Phase.READY: None,
        Phase.AWAITING_ASSIGNMENT: Event.ASSIGN,
        Phase.LEASED: Event.EXPIRE,
        Phase.RUNNING: Event.EXPIRE,
    }
    wanted = [activity for activity in activities if activity.phase in opening]
    return {
        activity.id: _others(activity, holder, now) or _lease(activity, opening[activity.phase], holder, now)
        for activity in wanted
    }


def renewals(activities: Iterable[Subject], holder: str, now: str) -> dict[str, Command | StaleError]:
    """Return for each Activity how its holder extends the lease, or that it is not his any more."""
    return {activity.id: _renewal(activity, holder, now) for activity in activities}


def expiries(activities: Iterable[Subject], now: str) -> list[Command]:
    """Return how the leases that are over are ended, so that anybody may take the Activities."""
    return [expiry(each) for each in activities if is_expired(each, now)]


def expiry(activity: Subject) -> Command:
    """End an attempt, whether its deadline is over or its Run is."""
    return Command(requires=(Require.of(activity),), moves=(Move.of(activity, Event.EXPIRE, _ended(activity)),))


def completion(run_id: RunId, activity: Subject | None = None) -> Command:
    """Complete a Run, and with it the Activity that is still running in it."""
    running = [] if activity is None or activity.phase is not Phase.RUNNING else [Move.of(activity, Event.COMPLETE)]
    move = Move(machine=Machine.RUN, id=run_id, event=Event.COMPLETE, generation=1, fence=1)
    return Command(key=(Machine.RUN, run_id), key_phase=Phase.COMPLETED, moves=(*running, move))


def running(run_id: RunId) -> Require:
    """Demand that a Run is RUNNING."""
    return Require(machine=Machine.RUN, id=run_id, phase=Phase.RUNNING)


def _others(activity: Subject, holder: str, now: str) -> StaleError | None:
    """Return who else holds an Activity now."""
    lease = lease_of(activity)
    if lease is None or lease.holder == holder or lease.until <= now:
        return None
    met = f"held by {lease.holder} until {lease.until}"
    return StaleError("activity.lease", met, f"Wait for it, or for the deadline of {activity.id}; then try again.")


def _lease(activity: Subject, opening: Event | None, holder: str, now: str) -> Command:
    run_id = _run_of(activity)
    raised = 1 if opening is Event.EXPIRE else 0
    facts = _leased(activity, holder, now)
    return Command(
        requires=(running(run_id), Require.of(activity)),
        moves=(
            *([] if opening is None else [Move.of(activity, opening)]),
            Move.of(activity, Event.LEASE, facts, raised=raised),
            Move.of(activity, Event.BEGIN, raised=raised),
        ),
        charges=(Charge(run_id=run_id, resource=ATTEMPTS, amount=1),),
    )


def _renewal(activity: Subject, holder: str, now: str) -> Command | StaleError:
    lease = lease_of(activity)
    if lease is None or lease.holder != holder or lease.until <= now:
        met = "nobody's" if lease is None else f"of {lease.holder} until {lease.until}"
        return StaleError("activity.lease", met, f"{holder} holds {activity.id} no more at {now}; lease it again.")
    return Command(
        requires=(Require.of(activity),), moves=(Move.of(activity, Event.RENEW, _leased(activity, holder, now)),)
    )


def _leased(activity: Subject, holder: str, now: str) -> str:
    lease = Lease.build(holder=holder, until=later(now, LEASE_SECONDS))
    return ActivityFacts.load(activity.facts).model_copy(update={"lease": lease}).canonical.decode()


def _ended(activity: Subject) -> str:
    return ActivityFacts.load(activity.facts).model_copy(update={"lease": None}).canonical.decode()


def _run_of(activity: Subject) -> RunId:
    if activity.run_id is None:
        raise ValueError(f"{activity.id} is of no Run")
    return activity.run_id
