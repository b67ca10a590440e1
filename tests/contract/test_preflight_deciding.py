"""An actor that answers what it may not: nothing is executed, and the Ledger holds why, every card accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from policies.catalog import Change
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, open_actions, plan, planner_policy
from records.decisions import AllowedAction, RecallContext
from records.envelopes import PlannerEnvelope
from records.flows import Authority, Transition
from records.outcomes import CardReason, DecisionStatus, RecallOutcome, TerminalReason
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_control import checked
from tests.support.stack_decisions import CATALOG, Study, learn
from tests.support.stores import fresh_namespace
from vrm.mainjob.heldout import HeldOut
from vrm.mainjob.trials import TrialState

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def study(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Study:
    """A decision of the memory arm whose context is committed, with a card."""
    stack = Stack(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace())
    study = Study(stack, "pair-1", "memory", learn(stack, GOOD))
    stack.admit(f"{study.key}/{study.arm}", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    context = study.context()
    assert context is not None
    assert context.items
    return study


class NoExperiments:
    """Experiments that must not be asked for anything."""

    @staticmethod
    def run_wave(settings: Sequence[Any]) -> list[Any]:
        """Run nothing; anything else is a failure."""
        assert not settings
        return []


def trials(study: Study, actor: Any) -> HeldOut:
    """Return what decides, with an actor of one's own."""
    stack = study.stack
    console = SimpleNamespace(print=lambda *_args, **_options: None)
    job = SimpleNamespace(
        stores=stack.stores, namespace=stack.namespace, spine=stack.spine, console=console, keep=lambda: None,
        owners=SimpleNamespace(run_owner=stack.owner), leasing=SimpleNamespace(let_go=lambda _ids: None),
    )  # fmt: skip
    maker = SimpleNamespace(
        catalog=CATALOG,
        view=study.view,
        planner=planner_policy(),
        actions=lambda state: open_actions(CATALOG, state.config, frozenset(state.tried)),
    )
    return HeldOut(cast("Any", job), cast("Any", maker), cast("Any", NoExperiments()), cast("Any", None), actor=actor)


def decided(study: Study, actor: Any) -> RecallOutcome:
    """Let an actor decide and carry the decision to its outcome, as a wave does."""
    work = trials(study, actor)
    state = TrialState(
        task="t", seed=0, arm="memory", run=study.stack.body(f"{study.key}/{study.arm}"), config=dict(CATALOG.baseline)
    )
    context = study.context()
    work._decisions.give([(study.intent, context)])
    pending = [each for each in [work._decided(state, study.intent, context, 0)] if work._goes_on(each)]
    work._decisions.keep_answers([(each.intent, each.answer, each.source) for each in pending if each.answer])
    work._conclude(pending, work._execute(pending, 0))
    assert (state.failed is None) == bool(pending)
    (outcome,) = study.stack.load("recall-decision-outcome")
    assert isinstance(outcome, RecallOutcome)
    return outcome


def protected(question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer:
    """Do what no catalog allows."""
    said = plan(question, policy)
    return replace(
        said,
        change=Change("max_iter", 1, 2, "budget"),
        action=AllowedAction(knob="max_iter", value="2"),
        dispositions=tuple(_released(each) for each in said.dispositions),
    )


def mismatched(question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer:
    """Adopt a card for an action that is not the one proposed."""
    said = plan(question, policy)
    other = {"action_knob": "C", "action_value": "10"}
    return replace(said, dispositions=tuple(each.model_copy(update=other) for each in said.dispositions))


def silent(question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer:
    """Say nothing of any card."""
    return replace(plan(question, policy), dispositions=())


def _released(disposition: Any) -> Any:
    reason = CardReason.NOT_CONSIDERED_BUDGET
    changes = {"reason": reason, "verdict": reason.verdict, "action_knob": None, "action_value": None}
    return disposition.model_copy(update=changes)


@pytest.mark.parametrize(
    ("actor", "reason"),
    [(protected, TerminalReason.PROPOSAL_POLICY_REJECTED), (mismatched, TerminalReason.PREFLIGHT_REJECTED)],
)
def test_vrm_r08_what_preflight_refuses_is_not_executed(study: Study, actor: Any, reason: TerminalReason) -> None:
    outcome = decided(study, actor)
    context = study.context()
    assert isinstance(context, RecallContext)
    assert (outcome.decision_status, outcome.terminal_reason) == (DecisionStatus.REJECTED, reason)
    assert [each.citation_id for each in outcome.dispositions] == [each.citation_id for each in context.items]
    assert (outcome.effective_config_digest, outcome.intervention_id, outcome.artifact_digest) == (None, None, None)
    assert outcome.executed_actor is not None
    answered = outcome.executed_actor.response_digest
    envelope = PlannerEnvelope.load(study.stack.stores.artifacts.read(answered))
    assert envelope.memory.context_id == context.id
    assert envelope.dispositions == outcome.dispositions
    assert not study.stack.load("outcome-attempt-link")


def test_vrm_r07_an_answer_that_leaves_a_card_out_is_no_answer(study: Study) -> None:
    """Its Run is failed and closed: closure says of each card what it alone may say, whatever the actor said."""
    failed(study, silent, TerminalReason.ACTOR_OUTPUT_MALFORMED)


def failed(study: Study, actor: Any, reason: TerminalReason) -> RecallOutcome:
    """Let an actor fail, and check that its decision has the one outcome that closure writes, and its Run is over."""
    outcome = decided(study, actor)
    assert (outcome.decision_status, outcome.terminal_reason) == (DecisionStatus.ACTOR_FAILED, reason)
    assert outcome.dispositions
    assert {each.reason for each in outcome.dispositions} == {CardReason.NOT_CONSIDERED_ACTOR_FAILED}
    assert (outcome.effective_config_digest, outcome.intervention_id, outcome.artifact_digest) == (None, None, None)
    assert outcome.memory_binding_digest is not None, "it was given memory before it failed"
    assert (outcome.executed_actor is not None) == (reason is TerminalReason.ACTOR_OUTPUT_MALFORMED)
    run = study.stack.stores.runtime.subject(Machine.RUN, study.run_id)
    assert run is not None
    assert run.phase is Phase.FAILED
    found = [each for each in checked(study.stack).violations if each.record in {outcome.id, study.intent.id}]
    assert not found
    return outcome


def test_an_honest_answer_passes(study: Study) -> None:
    work = trials(study, plan)
    state = TrialState(
        task="t", seed=0, arm="memory", run=study.stack.body(f"{study.key}/{study.arm}"), config=dict(CATALOG.baseline)
    )
    pending = work._decided(state, study.intent, study.context(), 0)
    assert pending.rejected is None
    assert pending.answer is not None
    assert pending.answer.steered
