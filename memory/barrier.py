"""The terminal barrier: when a Run may end, and what its end rests on (spec 6.3, VRM-R07).

Rules kept here:

- no decision, handoff, erasure or grant of the Run is open;
- Ledger and Runtime hold the same decisions of it (`memory.coverage`); the last step of the Run binds what was found;
- the caller owns the Runs and grants nothing meanwhile, so what was read still holds when the step is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.control import ENDS
from memory.coverage import coverage, join
from records.control import RunFacts
from records.errors import StaleError, VrmError
from records.runtime import Command, Move, RunBody, Subject
from records.states import Event, Machine, Phase, phases_of
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

_OPEN: Final[dict[Machine, tuple[Phase, ...]]] = {
    Machine.DECISION: tuple(set(phases_of(Machine.DECISION)) - {Phase.OUTCOME_COMMITTED, Phase.RETIRED}),
    Machine.HANDOFF: tuple(set(phases_of(Machine.HANDOFF)) - {Phase.BOUND, Phase.ABANDONED, Phase.RELEASED}),
    Machine.ERASURE: tuple(set(phases_of(Machine.ERASURE)) - {Phase.CLOSED, Phase.RETIRED}),
    Machine.AUTHORIZATION: (Phase.GRANTED,),
}
"""The phases in which a subject keeps its Run from ending."""

_ENDING: Final = {Phase.RUNNING: Event.COMPLETE, **ENDS}
"""The phases from which a Run ends, each with its last event."""


class TerminalBarrier:
    """Lets a Run end when everything in it is closed."""

    def __init__(self, runtime: RuntimeReader, ledger: LedgerReader) -> None:
        """Read both stores."""
        self._runtime = runtime
        self._ledger = ledger

    def pass_through(self, commands: Sequence[Command | VrmError]) -> list[Command | VrmError]:
        """Return each command as it is to be carried out: one that ends a Run with what it rests on, or why not yet.

        What was refused before stays refused, in its place.
        """
        moves = [move for each in commands if isinstance(each, Command) for move in each.moves]
        answers = self._ask({move.id for move in moves if _ends(move)})
        return [each if isinstance(each, VrmError) else _bound(each, answers) for each in commands]

    def _ask(self, run_ids: set[str]) -> dict[str, str | VrmError]:
        """Return for each Run that is to end why it must not yet, or the facts that it ends with."""
        runs = [run for run in self._runtime.subjects(Machine.RUN, run_ids).values() if run.phase in _ENDING]
        if not runs:
            return {}
        ids = [run.id for run in runs]
        found = [subject for machine, phases in _OPEN.items() for subject in self._runtime.find(machine, phases, ids)]
        barrier: dict[str, str | VrmError] = {str(each.run_id): _still_open(each) for each in found}
        spaces: dict[str, list[Subject]] = {}
        for run in runs:
            if run.id not in barrier:
                spaces.setdefault(RunBody.load(run.body).namespace, []).append(run)
        for namespace, closed in spaces.items():
            barrier |= self._covered(namespace, closed)
        return barrier

    def _covered(self, namespace: str, runs: Sequence[Subject]) -> dict[str, str | VrmError]:
        """Compare both stores for Runs that have nothing open; return the facts that each ends with, or its error."""
        ids = [run.id for run in runs]
        held = coverage(self._ledger, namespace, ids)
        decisions = self._runtime.find(Machine.DECISION, [Phase.OUTCOME_COMMITTED], ids)
        answers: dict[str, str | VrmError] = {}
        for run in runs:
            try:
                covered = join(held[run.id], [each for each in decisions if each.run_id == run.id])
                facts = RunFacts.load(run.facts).model_copy(update={"coverage": covered})
                answers[run.id] = facts.canonical.decode()
            except VrmError as error:
                answers[run.id] = error
        return answers


def _ends(move: Move) -> bool:
    return move.machine is Machine.RUN and move.event in _ENDING.values()


def _still_open(subject: Subject) -> StaleError:
    met = f"{subject.machine} {subject.id} {subject.phase}"
    return StaleError("run", met, "It is still open; close it before the Run ends.")


def _bound(command: Command, answers: dict[str, str | VrmError]) -> Command | VrmError:
    moves = []
    for move in command.moves:
        answer = answers.get(move.id) if _ends(move) else None
        if isinstance(answer, VrmError):
            return answer
        moves.append(move if answer is None else move.model_copy(update={"facts": answer}))
    return command.model_copy(update={"moves": tuple(moves)})
