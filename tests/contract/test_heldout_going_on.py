"""A round whose actor may fail: what is concluded is asked of nobody again, and one failed Run stops no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory.acting import LlmActor
from memory.chat import ChatModel, Limits
from policies.acting import Said
from policies.catalog import load_catalog
from policies.planner import planner_policy
from records.evidence import EvaluationContract
from records.governance import Mode
from records.values import ArtifactRef
from tests.support.model_server import completion, model_server
from tests.support.stack import Stack
from tests.support.stack_jobs import job_over
from tests.support.trials import digest, make_trial
from vrm.domain import CATALOG
from vrm.mainjob.heldout import HeldOut
from vrm.mainjob.plan import SMALL, Round, held_out_tasks
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


class Rounds:
    """One round over a stack; every call of `carried` is a job that goes on, or begins."""

    def __init__(self, stack: Stack, mode: Mode = Mode.DECISION_MEMORY) -> None:
        self.stack, self.round = stack, Round(namespace=stack.namespace, number=0, size=SMALL, modes=(mode,))

    def states(self, tasks: int, arms: Sequence[str]) -> list[TrialState]:
        """Return the arms of the first seed of some tasks, at their start."""
        every = new_trials(self.round, held_out_tasks(SMALL)[:tasks], OFFERED)
        return [each for each in every if each.arm in arms and each.seed == self.round.trial_seeds[0]]

    def heldout(self, actor: Any, recall: Any = lambda _asked: []) -> HeldOut:
        """Return what decides, as a job that was started again has it."""
        contract = contract_of(self.stack.namespace, OFFERED.domain)
        maker = DecisionMaker(
            round=self.round,
            catalog=OFFERED,
            contract=contract,
            planner=planner_policy(),
            recall_input_id=None,
        )
        return HeldOut(job_over(self.stack), maker, cast("Any", Baselines(self.stack, contract)), recall, actor=actor)


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
