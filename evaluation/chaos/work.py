"""The work that goes on while the faults happen: decisions to their outcomes, and evidence to knowledge.

Rules kept here:

- what a piece of work is about, ids included, is known before it begins, so what is due is known whatever happens;
- everything is the product's own code over its own owners; only decisions and trials are made up;
- a step begins with what is stored and may be taken any number of times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evaluation.bench.corpus import CONTRACT, SPACE
from evaluation.chaos.accounting import OF_A_DECISION, OF_AN_EXPERIENCE, Unit
from evaluation.chaos.driver import Driver, Work
from evaluation.chaos.faults import Call, Fault, Who
from evaluation.simulation import material
from evaluation.simulation.material import Decision, Ending
from evaluation.simulation.trials import trial
from memory.leases import admission, completion
from memory.ports import all_good
from memory.retention import check_input
from records.appends import Append, Proposal
from records.base import Record
from records.control import ControlCause
from records.decisions import RecallContext
from records.errors import StaleError
from records.evidence import Experience
from records.flows import Authority, Transition
from records.outcomes import DecisionStatus, SourceStatus
from records.runtime import RunBody
from records.states import Machine, Phase

_TASKS: Final = 3
"""Datasets of a piece of evidence: enough for a rule that becomes active."""
_MOST_DECISIONS: Final = 4
_OVER: Final = {Phase.OUTCOME_COMMITTED, Phase.RETIRED}


@dataclass(frozen=True)
class Ground:
    """What the rest stands on: the contract, and a Recall Input over nothing."""

    def due(self) -> Iterator[Unit]:
        """Return nothing: none of it is counted."""
        return iter(())

    def advance(self, driver: Driver) -> bool:
        """Append it."""
        appends, index = material.recall_input()
        driver.place.artifacts.publish_many([index, material.ANSWER])
        made = [Append.direct(Transition.APPEND_EVIDENCE, "contract", (CONTRACT,))]
        made += [Append.direct(transition, key, (record,)) for transition, key, record in appends]
        for each in made:
            all_good(driver.spine.direct([each]))
        return True


@dataclass(frozen=True)
class Decisions:
    """Some decisions, each of a Run of its own, from admission to the end of the Run."""

    subjects: tuple[Decision, ...]

    def due(self) -> Iterator[Unit]:
        """Return what every decision and its Run owe."""
        for subject in self.subjects:
            yield Unit("end of a run", str(subject.run.id))
            yield from (Unit(what, str(subject.intent.id)) for what in OF_A_DECISION)
            if subject.ending.source is SourceStatus.EMPTY:
                yield Unit("context", str(subject.intent.id))

    def advance(self, driver: Driver) -> bool:
        """Take every decision one append further, or end what is to end by the Run's closure."""
        runtime = driver.place.runtime
        driver.place.artifacts.publish_many([made for each in self.subjects for made in each.admitted])
        all_good(driver.owner.apply([admission(each.run, [material.SLOT]) for each in self.subjects]))
        found = runtime.subjects(Machine.DECISION, [str(each.intent.id) for each in self.subjects])
        runs = runtime.subjects(Machine.RUN, [str(each.run.id) for each in self.subjects])
        proposals: list[Proposal] = []
        for each in self.subjects:
            known = found.get(str(each.intent.id))
            if known is None or known.phase not in _OVER:
                attempt = (1, 1) if known is None else (known.generation, known.fence)
                proposals += _next(driver, each, None if known is None else known.phase, attempt)
        for receipt in all_good(driver.spine.carry(proposals)):
            if not receipt.committed:
                raise StaleError("decision", receipt.reason, "The Ledger wrote nothing; take it up again.")
        running = [run for run in runs.values() if run.phase is Phase.RUNNING]
        if proposals or not running:
            return not proposals and not driver.closure.waiting()
        closed = {str(each.run.id) for each in self.subjects if _decided(found.get(str(each.intent.id)))}
        all_good(driver.owner.apply([completion(RunBody.load(run.body).id) for run in running if run.id in closed]))
        return False


def _decided(subject: Any) -> bool:
    return subject is not None and subject.phase in _OVER


def _next(driver: Driver, subject: Decision, phase: Phase | None, attempt: tuple[int, int]) -> list[Proposal]:
    """Return what is to be appended next; where the Run is to be stopped instead, that is done, and nothing is."""
    if phase in {None, Phase.REGISTERING}:
        return [material.proposal(subject, Transition.APPEND_INTENT, attempt, None)]
    stored = driver.place.ledger.find("decision-recall-context", SPACE, intent_id=str(subject.intent.id))
    held = stored[0].load() if stored else None
    if subject.ending.source is SourceStatus.EMPTY and held is None:
        denied = check_input(driver.place.ledger, SPACE, material.input_id())
        return [material.proposal(subject, Transition.APPEND_CONTEXT, attempt, None, denied)]
    if subject.ending.account.authority is Authority.RUNTIME_CLOSURE:
        _stop(driver, subject)
        return []
    driver.place.artifacts.publish_many(subject.artifacts)
    context = held if isinstance(held, RecallContext) else None
    return [material.proposal(subject, Transition.APPEND_OUTCOME, attempt, context)]


def _stop(driver: Driver, subject: Decision) -> None:
    """Stop a decision's Run, unless that was done, and close it."""
    run = driver.place.runtime.subject(Machine.RUN, subject.run.id)
    if run is not None and run.phase is Phase.RUNNING:
        if subject.ending.account.status is DecisionStatus.CANCELLED:
            driver.commands.cancel_run(subject.run.id)
        else:
            driver.commands.fail_run(subject.run.id, ControlCause.INFRASTRUCTURE)
    driver.closure.close(subject.run.id)


@dataclass(frozen=True)
class Evidence:
    """The trials of one Run about a rule of its own, from their append to the end of every campaign."""

    number: int

    @property
    def run(self) -> RunBody:
        """The Run that made them."""
        return material.study(f"evidence/{self.number}")

    def trials(self) -> Iterator[tuple[Record, ...]]:
        """Return the records of each trial: a baseline and a changed one for each dataset."""
        for task in range(_TASKS):
            for changed in (False, True):
                yield trial(f"evidence/{self.number}", task, changed=changed, scope=self.number)

    def due(self) -> Iterator[Unit]:
        """Return what every experience and the Run owe."""
        yield Unit("end of a run", str(self.run.id))
        for records in self.trials():
            (experience,) = (each.id for each in records if isinstance(each, Experience))
            yield from (Unit(what, str(experience)) for what in OF_AN_EXPERIENCE)

    def advance(self, driver: Driver) -> bool:
        """Do every step for whatever waits for it."""
        all_good(driver.owner.apply([admission(self.run, ["sweep"])]))
        appends = [Append.direct(Transition.APPEND_EVIDENCE, f"trial/{each[-1].id}", each) for each in self.trials()]
        all_good(driver.spine.direct(appends))
        failures = driver.campaigns.ingest(self.run.id, _quiet)
        failures += driver.campaigns.project(_quiet)
        failures += driver.campaigns.distil(driver.capture(), driver.distillers, _quiet)
        if failures:
            raise failures[0].error
        if driver.campaigns.waiting() or driver.campaigns.without_receipt(self.run.id):
            return False
        all_good(driver.owner.apply([completion(self.run.id)]))
        return True


_SHARE_OF_EVIDENCE: Final = 0.25
"""How much of the work is evidence where the next fault leaves the choice."""
_OF_EVIDENCE: Final = {Call.RESERVE, Call.PROPOSE, Call.APPEND_DIRECT}
_OF_CLOSURE: Final = tuple(each for each in Ending if each.account.authority is Authority.RUNTIME_CLOSURE)


class Plan:
    """Makes one piece of work after the other, such that the point of the next fault comes.

    Attributes:
        pieces, decisions, experiences: how many were made.
    """

    def __init__(self, chance: random.Random) -> None:
        """Make it up by chance."""
        self._chance = chance
        self.decisions = self.experiences = self.pieces = 0

    def next(self, fault: Fault | None) -> Work:
        """Return another piece of work."""
        self.pieces += 1
        evidence = fault is not None and (fault.call in _OF_EVIDENCE or fault.who in {Who.HEAD_HOST, Who.WORKER})
        closing = fault is not None and fault.call is Call.CONTROL
        if evidence or (not closing and self._chance.random() < _SHARE_OF_EVIDENCE):
            self.experiences += 2 * _TASKS
            return Evidence(self.pieces)
        return Decisions(tuple(self._decisions(closing=closing)))

    def _decisions(self, *, closing: bool) -> Iterator[Decision]:
        endings: Sequence[Ending] = tuple(Ending)
        for place in range(self._chance.randint(1, _MOST_DECISIONS)):
            ending = self._chance.choice(_OF_CLOSURE if closing and place == 0 else endings)
            yield material.decision(self.decisions, ending, late=False, arm="arm")
            self.decisions += 1


def _quiet(_done: int) -> None:
    """Report no progress."""
