"""A Run that is cancelled or fails, at every phase of a decision: one outcome, one fate a card, nothing guessed.

What is expected is spec 6.3 and 9.7: closure before recall has no context, after it keeps the context; what was granted
is settled first, and an outcome that was committed stays.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from records.appends import AppendReceipt
from records.control import ControlCause, RunFacts
from records.errors import IllegalTransitionError, IntegrityWaitError, InvalidRecordError, NotFoundError, StaleError
from records.flows import Authority, Transition
from records.ids import RecallInputId, RunId
from records.outcomes import (
    CardReason,
    DecisionStatus,
    ExecutedActor,
    RecallOutcome,
    SourceStatus,
    TerminalEvidenceKind,
    TerminalReason,
)
from records.runtime import Command, Create, Move, Subject
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore, Request
from store.runtime.port import RuntimeStore
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_control import (
    UNRESOLVED,
    Staged,
    closure,
    commands,
    ended,
    proposals,
    run_of,
    stop,
    without_memory,
)
from tests.support.stack_decisions import Study, learn
from tests.support.stores import expect, fresh_namespace, granted
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

BOTH = pytest.mark.parametrize("fail", [False, True], ids=["cancel", "fail"])
PHASES = (
    Phase.REGISTERING,
    Phase.OPEN,
    Phase.CONTEXT_COMMITTING,
    Phase.CONTEXT_COMMITTED,
    Phase.OUTCOME_COMMITTING,
    Phase.OUTCOME_COMMITTED,
)
RESOLUTIONS = [(phase, refused) for phase in PHASES for refused in (False, True) if phase in UNRESOLVED or not refused]
"""Every phase, and for those with an unresolved grant both of its ends."""

EARLY, KEPT, NORMAL, NONE = "early", "kept", "normal", "none"
FATES = {
    (Phase.REGISTERING, False): EARLY,
    (Phase.REGISTERING, True): NONE,
    (Phase.OPEN, False): EARLY,
    (Phase.CONTEXT_COMMITTING, False): KEPT,
    (Phase.CONTEXT_COMMITTING, True): EARLY,
    (Phase.CONTEXT_COMMITTED, False): KEPT,
    (Phase.OUTCOME_COMMITTING, False): NORMAL,
    (Phase.OUTCOME_COMMITTING, True): KEPT,
    (Phase.OUTCOME_COMMITTED, False): NORMAL,
}
"""How the decision of the memory arm ends: before recall, with its context, by its own actor, or as a ghost."""


@dataclass(frozen=True)
class Learned:
    """Stores in which something was learnt, for decisions of many Runs."""

    stores: Stores
    namespace: str
    recall_input: RecallInputId

    def staged(self, *, refused: bool = False) -> Staged:
        """Return a decision of the memory arm in a Run of its own, under owners of its own."""
        stack = Stack(self.stores, self.namespace)
        return Staged(Study(stack, f"pair-{next(_KEYS)}", "memory", self.recall_input), refused)


_KEYS = itertools.count(1)


@pytest.fixture(scope="module")
def learned(ledger: LedgerStore, runtime: RuntimeStore, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    stores = Stores(ledger, runtime, ArtifactStore(str(tmp_path_factory.mktemp("artifacts"))))
    stack = Stack(stores, fresh_namespace())
    return Learned(stores, stack.namespace, learn(stack, GOOD))


def control(stack: Stack, *, refused: bool = False) -> Staged:
    return Staged(without_memory(stack), refused)


class TestEveryPhase:
    @BOTH
    @pytest.mark.parametrize(("phase", "refused"), RESOLUTIONS)
    def test_vrm_r07_a_decision_of_the_memory_arm(
        self, learned: Learned, phase: Phase, *, refused: bool, fail: bool
    ) -> None:
        stage = learned.staged(refused=refused).reach(phase)
        before = stage.authorization() if stage.waiting else None
        answer = stop(stage.study.stack, stage.study.run_id, fail=fail)
        assert answer.phase is (Phase.FAILING if fail else Phase.CANCELLING)
        assert before == (stage.authorization() if stage.waiting else None), "control leaves what is granted alone"
        ended(stage, fail=fail)
        fate = FATES[phase, refused]
        assert len(stage.outcomes()) == (0 if fate == NONE else 1)
        for outcome in stage.outcomes():
            self.check(stage, outcome, fate, fail=fail)

    def check(self, stage: Staged, outcome: RecallOutcome, fate: str, *, fail: bool) -> None:
        if fate == NORMAL:
            assert (outcome.decision_status, outcome.terminal_evidence_digest) == (DecisionStatus.COMPLETED, None)
            return
        control = RunFacts.load(run_of(stage.study.stack, stage.study.run_id).facts).control
        assert control is not None
        status, reason, kind, early = (
            (DecisionStatus.ACTOR_FAILED, TerminalReason.RUNTIME_FAILURE_CLOSURE,
             TerminalEvidenceKind.RUNTIME_FAILURE, SourceStatus.FAILED_BEFORE_RECALL)
            if fail
            else (DecisionStatus.CANCELLED, TerminalReason.CANCELLED_BY_COMMAND,
                  TerminalEvidenceKind.CANCEL_EVENT, SourceStatus.CANCELLED_BEFORE_RECALL)
        )  # fmt: skip
        assert (outcome.decision_status, outcome.terminal_reason) == (status, reason)
        assert (outcome.terminal_evidence_kind, outcome.terminal_evidence_digest) == (kind, control.digest)
        assert not outcome.artifact_committed
        assert (outcome.executed_actor, outcome.memory_binding_digest) == (None, None)
        every = stage.study.stack.load("decision-recall-context")
        contexts = [context for context in every if context.intent_id == outcome.intent_id]
        if fate == EARLY:
            assert (outcome.source_status, outcome.outcome_reason) == (early, early.value)
            assert (outcome.context_id, outcome.dispositions, contexts) == (None, (), [])
            assert outcome.closure_event_digest == control.digest
            return
        (context,) = contexts
        assert (outcome.source_status, outcome.context_id) == (SourceStatus.OK, context.id)
        assert outcome.closure_event_digest is None
        wanted = CardReason.NOT_CONSIDERED_ACTOR_FAILED if fail else CardReason.NOT_CONSIDERED_CANCELLED
        fates = [(each.citation_id, each.card_id, each.reason, each.action_knob) for each in outcome.dispositions]
        assert fates == [(item.citation_id, item.card_id, wanted, None) for item in context.items]
        assert fates

    @BOTH
    @pytest.mark.parametrize("refused", [False, True], ids=["commits", "refused"])
    def test_vrm_r07_a_control_decision_keeps_its_source(self, stack: Stack, *, refused: bool, fail: bool) -> None:
        stage = control(stack, refused=refused).reach(Phase.OUTCOME_COMMITTING)
        stop(stack, stage.study.run_id, fail=fail)
        ended(stage, fail=fail)
        (outcome,) = stage.outcomes()
        closed = DecisionStatus.ACTOR_FAILED if fail else DecisionStatus.CANCELLED
        assert outcome.source_status is SourceStatus.NOT_REQUESTED
        assert outcome.decision_status is (closed if refused else DecisionStatus.COMPLETED)
        assert (outcome.context_id, outcome.closure_event_digest, outcome.dispositions == ()) == (None, None, True)


class TestRace:
    @BOTH
    @pytest.mark.parametrize("refused", [False, True], ids=["commits", "refused"])
    def test_closure_wins_before_any_new_normal_grant(self, learned: Learned, *, refused: bool, fail: bool) -> None:
        """From CONTEXT_COMMITTING, whatever the Ledger says: afterwards only closure is granted (spec 6.3)."""
        stage = learned.staged(refused=refused).reach(Phase.CONTEXT_COMMITTING)
        study, stack = stage.study, stage.study.stack
        stop(stack, study.run_id, fail=fail)
        (receipt,) = stack.spine.recover(stack.stores.runtime, study.run_id)
        assert expect(AppendReceipt, receipt).committed is not refused
        assert study.phase() is (Phase.OPEN if refused else Phase.CONTEXT_COMMITTED)
        before = stack.state()
        context = None if refused else study.context()
        answer = study.answer(context)
        outcome = study.outcome(context, answer, study.verified(answer, context))
        normal = study.proposal(Transition.APPEND_OUTCOME, Authority.NORMAL, outcome)
        assert isinstance(stack.spine.carry([normal])[0], StaleError)
        assert stack.state() == before
        ended(stage, fail=fail)

    def test_nothing_new_is_admitted(self, stack: Stack) -> None:
        stage = control(stack).reach(Phase.OPEN)
        stop(stack, stage.study.run_id, fail=False)
        other = stage.study.intent.model_copy(update={"iteration": 2})
        asked = stage.study.proposal(Transition.APPEND_INTENT, Authority.ADMISSION, stage.study.view, other)
        asked = asked.model_copy(update={"subject_id": str(other.id)})
        assert isinstance(stack.spine.carry([asked])[0], StaleError)
        ended(stage, fail=False)

    def test_a_failure_takes_a_cancellation_over_and_its_grant_stays(self, stack: Stack) -> None:
        """What closure was granted by the cancellation is appended; what it was not granted for is a failure."""
        stage = control(stack).reach(Phase.OPEN)
        run_id, intent = stage.study.run_id, stage.study.intent.model_copy(update={"iteration": 2})
        asked = stage.study.proposal(Transition.APPEND_INTENT, Authority.ADMISSION, stage.study.view, intent)
        (admitted,) = stack.spine.carry([asked.model_copy(update={"subject_id": str(intent.id)})])
        assert expect(AppendReceipt, admitted).committed
        stop(stack, run_id, fail=False)
        closing = proposals(stack, run_id)
        (granted_one,) = stack.owner.grant([stack.stores.artifacts.publish(closing[0].canonical)])
        assert not isinstance(granted_one, Exception)
        assert stop(stack, run_id, fail=True).phase is Phase.FAILING
        (late,) = stack.owner.grant([stack.stores.artifacts.publish(closing[1].canonical)])
        assert isinstance(late, StaleError)  # it was right until the failure took over
        ended(stage, fail=True)
        statuses = {outcome.intent_id: outcome.decision_status for outcome in stage.outcomes()}
        assert statuses == {
            closing[0].subject_id: DecisionStatus.CANCELLED,
            closing[1].subject_id: DecisionStatus.ACTOR_FAILED,
        }


class TestActors:
    """What the actor of one decision did ends that decision by its own reason, and the others by the Run's."""

    def test_its_output_is_malformed(self, learned: Learned) -> None:
        stage = learned.staged().reach(Phase.CONTEXT_COMMITTED)
        actor = ExecutedActor(model="planner", response_digest=digest("not a plan"), rendered_prompt_digest=None)
        commands(stage.study.stack).fail_run(
            stage.study.run_id,
            ControlCause.ACTOR_OUTPUT_MALFORMED,
            intent_id=stage.intent_id,
            executed_actor=actor,
        )
        ended(stage, fail=True)
        (outcome,) = stage.outcomes()
        assert outcome.terminal_reason is TerminalReason.ACTOR_OUTPUT_MALFORMED
        assert outcome.executed_actor == actor
        assert outcome.memory_binding_digest is not None
        assert {each.reason for each in outcome.dispositions} == {CardReason.NOT_CONSIDERED_ACTOR_FAILED}

    def test_a_partial_draft_of_its_own_is_not_trusted(self, learned: Learned) -> None:
        """What the actor had made of the cards is no part of a closure (spec 13)."""
        stage = learned.staged().reach(Phase.CONTEXT_COMMITTED)
        study, stack = stage.study, stage.study.stack
        draft = study.answer(study.context()).dispositions
        stop(stack, study.run_id, fail=False)
        (honest,) = proposals(stack, study.run_id)
        (outcome,) = honest.unpack()
        before = stack.state()
        mixed = outcome.model_copy(update={"dispositions": draft, "proposed_knob": draft[0].action_knob})
        mixed = mixed.model_copy(update={"proposed_value": draft[0].action_value})
        asked = study.proposal(Transition.APPEND_OUTCOME, Authority.RUNTIME_CLOSURE, mixed)
        assert isinstance(stack.spine.carry([asked])[0], InvalidRecordError)
        assert stack.state() == before
        ended(stage, fail=False)

    def test_another_decision_fails_with_the_run(self, stack: Stack) -> None:
        stage = control(stack).reach(Phase.OPEN)
        commands(stack).fail_run(
            stage.study.run_id,
            ControlCause.ACTOR_INVOCATION_FAILED,
            intent_id=type(stage.intent_id).derive({"another": 1}),
        )
        ended(stage, fail=True)
        (outcome,) = stage.outcomes()
        assert outcome.terminal_reason is TerminalReason.RUNTIME_FAILURE_CLOSURE
        assert (outcome.executed_actor, outcome.memory_binding_digest) == (None, None)


class TestClosing:
    def test_only_a_run_that_closes(self, stack: Stack) -> None:
        stage = control(stack).reach(Phase.OPEN)
        before = stack.state()
        with pytest.raises(IllegalTransitionError):
            closure(stack).close(stage.study.run_id)
        with pytest.raises(NotFoundError):
            closure(stack).close(RunId.derive({"never": "admitted"}))
        assert stack.state() == before

    def test_a_run_without_decisions(self, stack: Stack) -> None:
        run_id = stack.admit("empty")
        stop(stack, run_id, fail=False)
        assert run_id in closure(stack).waiting()
        assert closure(stack).close(run_id) is Phase.CANCELLED
        assert run_id not in closure(stack).waiting()


class TestCoverage:
    """Both stores must hold the same decisions of a Run before it ends, whichever of its ends that is (spec 6.3)."""

    @pytest.fixture(params=["complete", "cancel", "fail"])
    def end(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def waits(self, stack: Stack, run_id: RunId, end: str) -> None:
        if end != "complete":
            stop(stack, run_id, fail=end == "fail")
        before = stack.state()
        finish = stack.complete if end == "complete" else closure(stack).close
        with pytest.raises(IntegrityWaitError):
            finish(run_id)
        assert stack.state() == before

    def test_an_intent_that_only_the_ledger_holds(self, stack: Stack, end: str) -> None:
        study = without_memory(stack)
        run_id = stack.admit("study/control", "trial")
        append = granted(
            Transition.APPEND_INTENT, (study.view, study.intent), f"forged/{stack.namespace}", Authority.ADMISSION
        )
        epoch = stack.stores.ledger.claim(f"forger/{stack.namespace}", "test")
        (answer,) = stack.stores.ledger.commit(epoch, [Request(append)])
        assert expect(AppendReceipt, answer).committed
        self.waits(stack, run_id, end)

    def test_a_decision_that_only_the_runtime_holds(self, stack: Stack, end: str) -> None:
        run_id = stack.admit("study", "trial")
        key = f"decision-intent:{digest(stack.namespace)}"
        made = Create(machine=Machine.DECISION, id=key, run_id=run_id, phase=Phase.REGISTERING, body="{}")
        self.forge(stack, key, Event.ADMITTED, Event.GRANT_OUTCOME, Event.OUTCOME_COMMITTED, made=made)
        self.waits(stack, run_id, end)

    def test_an_outcome_that_the_ledger_has_lost(self, stack: Stack, end: str) -> None:
        stage = control(stack).reach(Phase.OPEN)
        self.forge(stack, str(stage.intent_id), Event.GRANT_OUTCOME, Event.OUTCOME_COMMITTED)
        self.waits(stack, stage.study.run_id, end)

    def test_a_ghost_that_the_ledger_holds(self, stack: Stack, end: str) -> None:
        stage = control(stack).reach(Phase.REGISTERING)
        stack.coordinator.append_granted(stage.waiting)
        runtime = stack.stores.runtime
        forger = runtime.claim(f"forger/{stack.namespace}", "test")
        retire = Move(machine=Machine.AUTHORIZATION, id=stage.waiting[0], event=Event.RETIRE, generation=1, fence=1)
        runtime.apply(forger, [Command(moves=(retire,))])
        self.forge(stack, str(stage.intent_id), Event.GHOST)
        self.waits(stack, stage.study.run_id, end)

    def forge(self, stack: Stack, key: str, *events: Event, made: Create | None = None) -> None:
        """Move a decision as somebody with the Runtime's password could."""
        runtime = stack.stores.runtime
        forger = runtime.claim(f"forger/{stack.namespace}", "test")
        moves = [Move(machine=Machine.DECISION, id=key, event=event, generation=1, fence=1) for event in events]
        commands_made = [Command(creates=(made,))] if made else []
        answers = runtime.apply(forger, [*commands_made, *(Command(moves=(move,)) for move in moves)])
        assert not [answer for answer in answers if isinstance(answer, Exception)], answers
        assert expect(Subject, runtime.subject(Machine.DECISION, key))
