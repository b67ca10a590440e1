"""Runtime commands that every kind of work uses: admitting a Run, leasing an Activity, completing a Run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from records.canonical import canonical_bytes
from records.ids import RunId
from records.runtime import Command, Create, Move, RunBody, Subject, activity_id
from records.states import Event, Machine, Phase


def admission(body: RunBody, slots: Iterable[str]) -> Command:
    """Admit a scientific Run with one READY Activity per slot: DriveRun. The same body again is a replay."""
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
    run = Create(machine=Machine.RUN, id=run_id, run_id=run_id, phase=Phase.RUNNING, body=body.canonical.decode())
    return Command(key=(Machine.RUN, run_id), creates=(run, *activities))


def leases(subjects: Iterable[Subject]) -> list[Command]:
    """Lease and begin each Activity; one that somebody left unfinished is expired first, which fences them off.

    One whose assignment was appended just before a crash is bound to it now. One that is committing has an unresolved
    grant and is left alone: recovery settles it.
    """
    first = {Phase.LEASED: Event.EXPIRE, Phase.RUNNING: Event.EXPIRE, Phase.AWAITING_ASSIGNMENT: Event.ASSIGN}
    commands = []
    for subject in subjects:
        if subject.phase not in first and subject.phase is not Phase.READY:
            continue
        opening = [_move(subject, first[subject.phase], 0)] if subject.phase in first else []
        raised = 1 if first.get(subject.phase) is Event.EXPIRE else 0
        moves = (*opening, _move(subject, Event.LEASE, raised), _move(subject, Event.BEGIN, raised))
        commands.append(Command(moves=moves))
    return commands


def completion(run_id: RunId, activity: Subject | None = None) -> Command:
    """Complete a Run, and with it the Activity that is still running in it."""
    running = [] if activity is None or activity.phase is not Phase.RUNNING else [_move(activity, Event.COMPLETE, 0)]
    move = Move(machine=Machine.RUN, id=run_id, event=Event.COMPLETE, generation=1, fence=1)
    return Command(key=(Machine.RUN, run_id), key_phase=Phase.COMPLETED, moves=(*running, move))


def _move(subject: Subject, event: Event, raised: int) -> Move:
    return Move(
        machine=Machine.ACTIVITY,
        id=subject.id,
        event=event,
        generation=subject.generation + raised,
        fence=subject.fence + raised,
    )
