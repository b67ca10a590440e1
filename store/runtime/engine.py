"""The command algorithm of the Runtime, once and pure: loaded subjects in, answers and changed subjects out.

An adapter locks and loads every subject that a group names, calls `carry_out`, and writes what changed. Commands of one
group see each other's effects in order; one that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from records.control import RunFacts
from records.errors import IdentityConflictError, IllegalTransitionError, NotFoundError, StaleError, VrmError
from records.runtime import Applied, Command, Create, Move, Require, Subject
from records.states import FENCING, STARTS, Machine, Phase, next_phase

Key = tuple[Machine, str]


@dataclass
class Outcome:
    """What a group did: an answer per command, and the subjects to insert and to update."""

    answers: list[Applied | VrmError] = field(default_factory=list)
    created: dict[Key, Subject] = field(default_factory=dict)
    changed: dict[Key, Subject] = field(default_factory=dict)


def keys_of(commands: Iterable[Command]) -> list[Key]:
    """Return every subject that the commands name, in lock order."""
    keys: set[Key] = set()
    for command in commands:
        if command.key is not None:
            keys.add((command.key[0], command.key[1]))
        named: tuple[Require | Create | Move, ...] = (*command.requires, *command.creates, *command.moves)
        keys |= {(part.machine, part.id) for part in named}
        keys |= {(Machine.RUN, charge.run_id) for charge in command.charges}
    order = list(Machine)
    return sorted(keys, key=lambda key: (order.index(key[0]), key[1]))


def carry_out(commands: Sequence[Command], loaded: dict[Key, Subject]) -> Outcome:
    """Carry out commands over the loaded subjects; `loaded` is not changed."""
    now = dict(loaded)
    outcome = Outcome()
    for command in commands:
        try:
            answer, fresh, moved = _one(command, now)
        except VrmError as error:
            outcome.answers.append(error)
            continue
        outcome.answers.append(answer)
        now |= fresh | moved
        outcome.created |= fresh
        for key, subject in moved.items():
            (outcome.created if key in outcome.created else outcome.changed)[key] = subject
    return outcome


def _one(command: Command, now: dict[Key, Subject]) -> tuple[Applied, dict[Key, Subject], dict[Key, Subject]]:
    if _was_done(command, now):
        return Applied(replayed=True), {}, {}
    for require in command.requires:
        _check(require, now)
    fresh: dict[Key, Subject] = {}
    for create in command.creates:
        known = now.get((create.machine, create.id))
        if known is None:
            fresh[create.machine, create.id] = _start(create)
        elif known.body != create.body:
            raise _conflict(create)
    moved: dict[Key, Subject] = {}
    for move in command.moves:
        key = (move.machine, move.id)
        moved[key] = _moved(move, moved.get(key) or fresh.get(key) or now.get(key))
    moved |= _charged(command, now | fresh | moved)
    return (
        Applied(replayed=bool(command.charges) and not fresh and not moved),
        {key: moved.get(key, subject) for key, subject in fresh.items()},
        {key: subject for key, subject in moved.items() if key not in fresh},
    )


def _was_done(command: Command, now: dict[Key, Subject]) -> bool:
    subject = None if command.key is None else now.get((command.key[0], command.key[1]))
    if subject is None or (command.key_phase is not None and subject.phase is not command.key_phase):
        return False
    for create in command.creates:
        if (create.machine, create.id) == (subject.machine, subject.id) and create.body != subject.body:
            raise _conflict(create)
    return True


def _check(require: Require, now: dict[Key, Subject]) -> None:
    subject = now.get((require.machine, require.id))
    if subject is None:
        raise NotFoundError(require.machine.value, require.id, "It was never admitted; admit it first.")
    if subject.phase is not require.phase:
        paused = "It is paused; resume it, then try again."
        remedy = paused if subject.phase is Phase.PAUSED else f"Expected {require.phase}; read it again."
        raise StaleError(f"{require.machine}.phase", subject.phase.value, remedy)
    if require.version is not None and subject.version != require.version:
        raise StaleError(
            f"{require.machine}.version", subject.version, f"Expected {require.version}; read it and decide again."
        )


def _start(create: Create) -> Subject:
    if create.phase not in STARTS[create.machine]:
        legal = ", ".join(sorted(STARTS[create.machine]))
        raise IllegalTransitionError(f"{create.machine}.start", create.phase.value, f"Start phases: {legal}.")
    return Subject(
        machine=create.machine,
        id=create.id,
        run_id=create.run_id,
        phase=create.phase,
        version=1,
        generation=1,
        fence=1,
        body=create.body,
        facts=create.facts,
    )


def _moved(move: Move, subject: Subject | None) -> Subject:
    if subject is None:
        raise NotFoundError(move.machine.value, move.id, "It was never created.")
    if (subject.generation, subject.fence) != (move.generation, move.fence):
        raise StaleError(
            f"{move.machine}.fence",
            f"generation {move.generation}, fence {move.fence}",
            f"It is at generation {subject.generation}, fence {subject.fence}; this attempt is over.",
        )
    fenced = 1 if move.event in FENCING else 0
    return subject.model_copy(
        update={
            "phase": next_phase(move.machine, subject.phase, move.event),
            "version": subject.version + 1,
            "generation": subject.generation + fenced,
            "fence": subject.fence + fenced,
            "facts": subject.facts if move.facts is None else move.facts,
        }
    )


def _charged(command: Command, now: dict[Key, Subject]) -> dict[Key, Subject]:
    """Return the Runs that a command charges as they are afterwards; a charge that is known changes nothing."""
    changed: dict[Key, Subject] = {}
    for charge in command.charges:
        key = (Machine.RUN, str(charge.run_id))
        run = changed.get(key) or now.get(key)
        if run is None:
            raise NotFoundError("run", charge.run_id, "It was never admitted; admit it first.")
        facts = RunFacts.load(run.facts)
        if facts.knows(charge):
            continue
        if run.phase is not Phase.RUNNING:
            raise StaleError("run.phase", run.phase.value, "Only a RUNNING Run is charged; nothing was changed.")
        spent = facts.charged(charge).canonical.decode()
        changed[key] = run.model_copy(update={"facts": spent, "version": run.version + (key not in changed)})
    return changed


def _conflict(create: Create) -> IdentityConflictError:
    return IdentityConflictError(create.machine.value, create.id, "It exists with another specification.")
