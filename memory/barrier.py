"""The terminal barrier: when a Run may end, how, and what its end rests on (spec 6.3, 8.1, VRM-R07, W09).

Rules kept here:

- no decision, handoff, erasure or grant of the Run is open;
- every Experience of a scientific Run has its receipt, every queued one a BOUND handoff whose bytes are held ACTIVE;
- Ledger and Runtime hold the same decisions of it, or of a campaign the same work (`memory.coverage`,
  `memory.campaign_coverage`); the last step of the Run binds what was found, all of it read at one moment;
- who completes a Run is refused where another end is due; closure takes the end that is due. Activities that are open
  in a Run that is cancelled or failed end as it does, in the same step;
- the caller owns the Runs and grants nothing meanwhile, so what was read still holds when the step is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.assignments import CAMPAIGN
from memory.campaign_coverage import CampaignCoverage, campaign_coverage, campaign_end
from memory.control import ENDS
from memory.coverage import Coverage, coverage, join
from memory.receipts import unclosed
from records.control import RunFacts
from records.errors import StaleError, VrmError
from records.runtime import Command, Move, RunBody, Subject
from records.states import Event, Machine, Phase, ends_of, next_phase, phases_of
from store.ledger.port import LedgerReader, OpenLedger
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


@dataclass(frozen=True)
class _Due:
    """The end of a Run: its last event, whether closure ends it, the facts it ends with, the Activities that do too."""

    event: Event
    is_closed: bool
    phase: Phase
    facts: str
    activities: tuple[Move, ...] = ()


class TerminalBarrier:
    """Lets a Run end when everything in it is closed."""

    def __init__(self, runtime: RuntimeReader, ledger: OpenLedger) -> None:
        """Read both stores."""
        self._runtime = runtime
        self._ledger = ledger

    def pass_through(self, commands: Sequence[Command | VrmError]) -> list[Command | VrmError]:
        """Return each command as it is to be carried out: one that ends a Run with what it rests on, or why not yet.

        What was refused before stays refused, in its place.
        """
        moves = [move for each in commands if isinstance(each, Command) for move in each.moves]
        due = self._ask({move.id for move in moves if _ends(move)})
        return [each if isinstance(each, VrmError) else _bound(each, due) for each in commands]

    def _ask(self, run_ids: set[str]) -> dict[str, _Due | VrmError]:
        """Return for each Run that is to end why it must not yet, or how it does."""
        runs = [run for run in self._runtime.subjects(Machine.RUN, run_ids).values() if run.phase in _ENDING]
        if not runs:
            return {}
        ids = [run.id for run in runs]
        found = [subject for machine, phases in _OPEN.items() for subject in self._runtime.find(machine, phases, ids)]
        due: dict[str, _Due | VrmError] = {str(each.run_id): _still_open(each) for each in found}
        spaces: dict[str, list[Subject]] = {}
        for run in runs:
            if run.id not in due:
                spaces.setdefault(RunBody.load(run.body).namespace, []).append(run)
        for namespace, closed in spaces.items():
            with self._ledger.reading() as reader:
                due |= _Space(self._runtime, reader, namespace, closed).due()
        return due


class _Space:
    """What both stores hold of Runs of one namespace that have nothing open."""

    def __init__(self, runtime: RuntimeReader, reader: LedgerReader, namespace: str, runs: Sequence[Subject]) -> None:
        self._runs = runs
        ids = [run.id for run in runs]
        campaigns = [run.id for run in runs if RunBody.load(run.body).run_kind == CAMPAIGN]
        self._decided: dict[str, Coverage] = coverage(reader, namespace, ids)
        self._worked: dict[str, CampaignCoverage] = campaign_coverage(reader, namespace, campaigns) if campaigns else {}
        self._decisions = runtime.find(Machine.DECISION, [Phase.OUTCOME_COMMITTED], ids)
        self._activities = runtime.find(Machine.ACTIVITY, run_id=ids)
        self._unclosed = unclosed(runtime, reader, namespace, set(ids) - set(campaigns))

    def due(self) -> dict[str, _Due | VrmError]:
        answers: dict[str, _Due | VrmError] = {}
        for run in self._runs:
            try:
                answers[run.id] = self._campaign(run) if run.id in self._worked else self._scientific(run)
            except VrmError as error:
                answers[run.id] = error
        return answers

    def _scientific(self, run: Subject) -> _Due:
        if run.id in self._unclosed:
            raise self._unclosed[run.id]
        covered = join(self._decided[run.id], [each for each in self._decisions if each.run_id == run.id])
        event = _ENDING[run.phase]
        facts = RunFacts.load(run.facts).model_copy(update={"coverage": covered})
        ended = () if event is Event.COMPLETE else tuple(Move.of(each, event) for each in self._open(run))
        return _due(run, event, facts, ended)

    def _campaign(self, run: Subject) -> _Due:
        join(self._decided[run.id], ())
        found = self._worked[run.id]
        event, end = campaign_end(run, found, [each for each in self._activities if each.run_id == run.id])
        facts = RunFacts.load(run.facts).model_copy(update={"coverage": found.ref, "end": end})
        return _due(run, event, facts)

    def _open(self, run: Subject) -> list[Subject]:
        over = ends_of(Machine.ACTIVITY)
        return [each for each in self._activities if each.run_id == run.id and each.phase not in over]


def _due(run: Subject, event: Event, facts: RunFacts, activities: tuple[Move, ...] = ()) -> _Due:
    phase = next_phase(Machine.RUN, run.phase, event)
    return _Due(event, run.phase in ENDS, phase, facts.canonical.decode(), activities)


def _ends(move: Move) -> bool:
    return move.machine is Machine.RUN and move.event in _ENDING.values()


def _still_open(subject: Subject) -> StaleError:
    met = f"{subject.machine} {subject.id} {subject.phase}"
    return StaleError("run", met, "It is still open; close it before the Run ends.")


def _bound(command: Command, answers: dict[str, _Due | VrmError]) -> Command | VrmError:
    if not any(_ends(move) for move in command.moves):
        return command
    moves: list[Move] = []
    key_phase = command.key_phase
    for move in command.moves:
        due = answers.get(move.id) if _ends(move) else None
        if isinstance(due, VrmError):
            return due
        if due is None:
            moves.append(move)
            continue
        if move.event is Event.COMPLETE and due.event is not Event.COMPLETE:
            return StaleError("run.end", due.event.value, "Something else ended this Run; its closure says so.")
        if move.event is not due.event and not due.is_closed:
            return command  # nobody began to end this Run so; the state machine says what it may do
        moves += [*due.activities, move.model_copy(update={"event": due.event, "facts": due.facts})]
        key_phase = due.phase
    return command.model_copy(update={"moves": tuple(moves), "key_phase": key_phase})
