"""Runs that are controlled and closed, over a `Stack`: decisions taken to any phase, a grant left unresolved there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from memory.closure import ClosurePorts, RunClosure
from memory.commands import RunCommands
from memory.fsck import FsckReport, fsck
from memory.ports import all_good
from records.appends import Proposal
from records.base import Record
from records.control import ControlCause, Controlled, RunFacts
from records.decisions import RetentionCheck
from records.flows import Authority, Transition
from records.ids import IntentId, RecallInputId, RunId
from records.outcomes import RecallOutcome
from records.runtime import Authorization, Subject
from records.states import Machine, Phase
from tests.support.stack import Stack
from tests.support.stack_decisions import Study
from tests.support.stores import evidence_append, expect, ticking_clock
from tests.support.trials import make_contract

UNRESOLVED: Final = (Phase.REGISTERING, Phase.CONTEXT_COMMITTING, Phase.OUTCOME_COMMITTING)
"""The phases in which a decision has a grant that nobody settled."""


def commands(stack: Stack) -> RunCommands:
    """Return the commands of a stack."""
    return RunCommands(stack.stores.runtime, stack.stores.artifacts, stack.owner, ticking_clock())


def closure(stack: Stack) -> RunClosure:
    """Return the closure of a stack."""
    return RunClosure(
        ClosurePorts(
            ledger=stack.stores.ledger,
            runtime=stack.stores.runtime,
            artifacts=stack.stores.artifacts,
            owner=stack.owner,
            spine=stack.spine,
        )
    )


def proposals(stack: Stack, run_id: str) -> list[Proposal]:
    """Return what closure would propose for the open decisions of a Run."""
    run, closing = run_of(stack, run_id), closure(stack)
    return closing._decisions(run, closing._event(run))


def run_of(stack: Stack, run_id: str) -> Subject:
    """Return a Run."""
    run: Subject = expect(Subject, stack.stores.runtime.subject(Machine.RUN, run_id))
    return run


def stop(stack: Stack, run_id: RunId, *, fail: bool) -> Controlled:
    """Cancel a Run, or let its infrastructure fail."""
    if fail:
        return commands(stack).fail_run(run_id, ControlCause.INFRASTRUCTURE)
    return commands(stack).cancel_run(run_id)


def checked(stack: Stack) -> FsckReport:
    """Check the namespace of a stack with every artifact."""
    with stack.stores.ledger.reading() as reader:
        return fsck(reader, stack.stores.runtime, stack.stores.artifacts, namespace=stack.namespace)


def without_memory(stack: Stack, key: str = "study") -> Study:
    """Return a control arm in a namespace where nothing was learnt."""
    append = evidence_append([make_contract(stack.namespace)], f"contract/{stack.namespace}")
    all_good(stack.spine.direct([append]))
    return Study(stack, key, "control", RecallInputId.derive({"nothing": "learnt"}))


def ended(stage: Staged, *, fail: bool) -> None:
    """Close the Run, twice; its end rests on what the Ledger holds, and both stores are whole."""
    stack, run_id = stage.study.stack, stage.study.run_id
    last = Phase.FAILED if fail else Phase.CANCELLED
    assert closure(stack).close(run_id) is last
    before = stack.state()
    assert closure(stack).close(run_id) is last
    assert stack.state() == before
    facts = RunFacts.load(run_of(stack, run_id).facts)
    assert facts.coverage is not None
    assert facts.coverage.frontier == stack.position()
    assert not stack.stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], run_id)
    report = checked(stack)
    assert report.clean, report.violations


@dataclass
class Staged:
    """A decision that is taken to a phase; `refused` makes the Ledger refuse what is granted last."""

    study: Study
    refused: bool = False
    waiting: list[str] = field(default_factory=list)

    def reach(self, phase: Phase) -> Staged:
        """Take the decision to a phase; in one with an unresolved grant, the authorization is left `waiting`."""
        study, stack = self.study, self.study.stack
        stack.admit(f"{study.key}/{study.arm}", "trial")
        intent: Record = study.intent
        if phase is Phase.REGISTERING:
            if self.refused:  # the view that the intent names is not the one beside it
                intent = intent.model_copy(update={"contract_view_id": "decision-contract-view:" + "0" * 64})
            self._leave(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, intent)
            return self
        study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, intent)
        if phase is Phase.OPEN:
            return self
        if phase is Phase.CONTEXT_COMMITTING:
            stale = RetentionCheck(frontier=7, tombstone_set_digest="0" * 64, blocked=())
            changes = {"retention": stale} if self.refused else {}
            proposed = study.recalled().model_copy(update=changes)
            self._leave(Transition.APPEND_CONTEXT, Authority.NORMAL, proposed)
            return self
        context = study.context() if study.arm == "memory" else None
        if phase is Phase.CONTEXT_COMMITTED:
            return self
        answer = study.answer(context)
        outcome = study.outcome(context, answer, study.execute(answer, context))
        if phase is Phase.OUTCOME_COMMITTED:
            study.carry(Transition.APPEND_OUTCOME, Authority.NORMAL, outcome)
            return self
        changed = {"decision_slot": "another"} if self.refused else {}
        self._leave(Transition.APPEND_OUTCOME, Authority.NORMAL, outcome.model_copy(update=changed))
        return self

    def authorization(self) -> Subject:
        """Return the authorization that nobody settled."""
        (waiting,) = self.waiting
        found = self.study.stack.stores.runtime.subject(Machine.AUTHORIZATION, waiting)
        subject: Subject = expect(Subject, found)
        return subject

    def outcomes(self) -> list[RecallOutcome]:
        """Return what the Ledger holds for outcomes of the Run."""
        ledger, study = self.study.stack.stores.ledger, self.study
        stored = ledger.find("recall-decision-outcome", study.stack.namespace, run_id=str(study.run_id))
        return [expect(RecallOutcome, each.load()) for each in stored]

    @property
    def intent_id(self) -> IntentId:
        """The decision."""
        return IntentId(self.study.intent.id)

    def _leave(self, transition: Transition, authority: Authority, *records: Record) -> None:
        stack = self.study.stack
        proposal = self.study.proposal(transition, authority, *records)
        if transition is Transition.APPEND_INTENT:
            proposal = proposal.model_copy(update={"subject_id": str(records[-1].id)})
        (granted,) = stack.owner.grant([stack.stores.artifacts.publish(proposal.canonical)])
        self.waiting = [str(expect(Authorization, granted).id)]
