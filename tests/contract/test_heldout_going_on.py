"""A round whose actor may fail: what is concluded is asked of nobody again, and one failed Run stops no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory.acting import LlmActor
from memory.chat import ChatModel, Limits
from policies.acting import ActorFailure, Said, malformed
from policies.catalog import load_catalog
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, planner_policy
from records.control import ControlCause
from records.decisions import BlockedProposal, CorruptInputEvidence, DecisionIntent, RecallRequest
from records.evidence import EvaluationContract
from records.governance import Mode
from records.ids import IntentId, RecallInputId
from records.states import Machine, Phase
from records.values import ArtifactRef
from tests.support.model_server import completion, model_server
from tests.support.samples import POLICY
from tests.support.stack import Stack
from tests.support.stack_control import stop
from tests.support.stack_jobs import job_over
from tests.support.trials import digest, make_trial
from vrm.domain import CATALOG
from vrm.mainjob.heldout import HeldOut
from vrm.mainjob.plan import SMALL, Round, held_out_tasks
from vrm.mainjob.run import next_round
from vrm.mainjob.tabular import PRIMARY, STEERING, Setting, contract_of, identity_of
from vrm.mainjob.trials import DecisionMaker, TrialState, new_trials

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

OFFERED = load_catalog(CATALOG)
NOTHING = completion(json.dumps({"proposal": None, "cards": [], "explanation": ""}))
BEYOND = completion(json.dumps({"proposal": {"knob": "no_knob", "value": 1}, "cards": [], "explanation": ""}))
LIMITS = Limits(wait_seconds=0, seconds=20, rest_seconds=0)


class Baselines:
    """Experiments of which only baselines are asked for: the actors here propose nothing that is carried out."""

    def __init__(self, stack: Stack, contract: EvaluationContract) -> None:
        self._stack, self._contract = stack, contract

    def run_wave(self, settings: Sequence[Setting]) -> list[Any]:
        """Append the evidence of each baseline, and return what was measured."""
        assert all(setting.change is None for setting in settings)
        measured = {PRIMARY.name: 0.5, STEERING: 0.5}
        self._stack.evidence(
            make_trial(
                self._stack.namespace,
                task=identity_of(setting.task, OFFERED.domain),
                contract=self._contract,
                run_id=setting.run_id,
                seed=setting.seed,
                change=None,
                mechanism="baseline",
                verified=measured,
                artifacts=tuple(
                    ArtifactRef(role=role, sha256=digest(f"{setting.run_id} {role}"), size_bytes=12)
                    for role in self._contract.required_artifacts
                ),
                corpus=setting.corpus,
                arm=setting.arm,
                pair=setting.pair,
            )
            for setting in settings
        )
        return [SimpleNamespace(metrics=measured) for _ in settings]


def blocked(asked: Sequence[tuple[DecisionIntent, RecallRequest]]) -> list[BlockedProposal]:
    """Answer that memory cannot be read."""
    return [
        BlockedProposal(
            intent_id=IntentId(intent.id),
            request_digest=request.canonical_digest,
            retrieval_policy=POLICY,
            recall_input_id=None,
            evidence=CorruptInputEvidence(attempted="index", finding="index.digest"),
        )
        for intent, request in asked
    ]


class Rounds:
    """One round over a stack; every call of `carried` is a job that goes on, or begins."""

    def __init__(self, stack: Stack, mode: Mode = Mode.DECISION_MEMORY) -> None:
        self.stack, self.round = stack, Round(namespace=stack.namespace, number=0, size=SMALL, modes=(mode,))

    def states(self, tasks: int, arms: Sequence[str]) -> list[TrialState]:
        """Return the arms of the first seed of some tasks, at their start."""
        every = new_trials(self.round, held_out_tasks(SMALL)[:tasks], OFFERED)
        return [each for each in every if each.arm in arms and each.seed == self.round.trial_seeds[0]]

    def heldout(self, actor: Any) -> HeldOut:
        """Return what decides, as a job that was started again has it."""
        contract = contract_of(self.stack.namespace, OFFERED.domain)
        maker = DecisionMaker(
            round=self.round,
            catalog=OFFERED,
            contract=contract,
            planner=planner_policy(),
            recall_input_id=RecallInputId.derive({"input": "none"}),
        )
        return HeldOut(job_over(self.stack), maker, cast("Any", Baselines(self.stack, contract)), blocked, actor=actor)


@pytest.mark.parametrize("reply", [NOTHING, BEYOND])
def test_a_concluded_decision_is_asked_of_no_model_again(stack: Stack, reply: Any) -> None:
    """No note is kept beside the stores, and the model would say another thing: what the Ledger holds is read."""
    rounds = Rounds(stack)
    with model_server([reply]) as server:
        chat = ChatModel(server.url, "some/model:7b", "sk", name="decision", schema=Said, limits=LIMITS)
        actor = LlmActor(chat, stack.stores.artifacts)
        first = rounds.states(1, ["control"])
        rounds.heldout(actor).carry(first, 1, "Held-out decisions")
        assert len(server.asked) == 1
        before = stack.state()
        again = rounds.states(1, ["control"])
        work = rounds.heldout(actor)
        work._start(again)
        work._wave(again, 0)
        chat.close()
    assert len(server.asked) == 1
    assert again[0].answers == first[0].answers
    assert again[0].failed is None
    assert stack.state() == before


class Failing:
    """An actor that gives no decision where it is told not to, and proposes nothing elsewhere."""

    def __init__(self, *seeds: int) -> None:
        self.seeds, self.asked = seeds, list[int]()

    def __call__(self, question: PlannerQuestion, _policy: PlannerPolicy) -> PlannerAnswer | ActorFailure:
        """Answer by the seed of the arm."""
        self.asked.append(question.seed)
        if question.seed in self.seeds:
            return malformed("wrong_shape", f"no answer of {question.seed}")
        return PlannerAnswer(change=None, action=None, dispositions=(), steered=False)


class KilledError(Exception):
    """The job was killed."""


def phases(stack: Stack, states: Sequence[TrialState]) -> list[Phase]:
    found = stack.stores.runtime.subjects(Machine.RUN, [str(each.run_id) for each in states])
    return [found[str(each.run_id)].phase for each in states]


def number_of(rounds: Rounds) -> int:
    stores = rounds.stack.stores
    return next_round(stores.runtime, stores.artifacts, rounds.stack.namespace, SMALL, rounds.round.modes).number


def test_a_failed_run_and_a_crash_leave_the_other_pairs_to_go_on(stack: Stack) -> None:
    """The round is the same one, the failed Run is left as it is, and the others come to their ends."""
    rounds = Rounds(stack)
    states = rounds.states(2, ["control"])
    bad, good = (each.exploration_seed for each in states)

    def killed(question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer | ActorFailure:
        if question.seed == good:
            raise KilledError
        return Failing(bad)(question, policy)

    with pytest.raises(KilledError):
        rounds.heldout(killed).carry(states, 2, "Held-out decisions")
    assert phases(stack, states) == [Phase.FAILED, Phase.RUNNING], "failed before the next actor was asked"
    assert number_of(rounds) == 0
    again, actor = rounds.states(2, ["control"]), Failing(bad)
    rounds.heldout(actor).carry(again, 2, "Held-out decisions")
    assert actor.asked == [good, good]
    assert [each.failed for each in again] == [ControlCause.ACTOR_OUTPUT_MALFORMED, None]
    assert phases(stack, states)[0] is Phase.FAILED
    receipted = {each.experience_id for each in stack.load("distillation-receipt")}
    assert {each.id for each in stack.load("experience")} == receipted, "those of the failed Run too"
    assert phases(stack, states)[1] is Phase.COMPLETED


def test_a_round_whose_every_actor_fails_ends(stack: Stack) -> None:
    rounds = Rounds(stack)
    for _ in range(2):
        states = rounds.states(1, ["control"])
        rounds.heldout(Failing(states[0].exploration_seed)).carry(states, 2, "Held-out decisions")
        assert phases(stack, states) == [Phase.FAILED]


def test_another_failure_or_a_cancellation_still_ends_the_round(stack: Stack) -> None:
    rounds = Rounds(stack)
    states = rounds.states(1, ["control"])
    rounds.heldout(Failing())._admit(states)
    assert number_of(rounds) == 0
    stop(stack, states[0].run_id, fail=True)
    assert number_of(rounds) == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_shadow_ends_with_its_leader(stack: Stack, killed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing left that it could be asked about; also where the job was killed between the two."""
    rounds = Rounds(stack, Mode.MEMORY_SHADOW)
    states = rounds.states(1, ["control", "shadow"])
    actor = Failing(states[0].exploration_seed)
    work = rounds.heldout(actor)
    if killed:

        def lost(state: TrialState) -> bool:
            if state.leader is not None and state.leader.failed:
                raise KilledError
            return False

        monkeypatch.setattr(work, "_without_leader", lost)
        with pytest.raises(KilledError):
            work.carry(states, 2, "Held-out decisions")
        assert phases(stack, states) == [Phase.FAILED, Phase.RUNNING]
        states, work = rounds.states(1, ["control", "shadow"]), rounds.heldout(actor)
    work.carry(states, 2, "Held-out decisions")
    assert phases(stack, states) == [Phase.FAILED, Phase.FAILED]
    assert len(actor.asked) == 1
    assert len(stack.load("decision-intent")) == len(stack.load("recall-decision-outcome")) == 2
    assert number_of(rounds) == 0
