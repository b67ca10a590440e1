"""A language model as the actor, on a real socket: what it decides, what it may not, and what is no answer at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory.acting import LlmActor
from memory.chat import ChatModel, Limits
from memory.distillation.exchanges import Exchanges
from memory.erasing import ErasureRequest
from policies.acting import Said
from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer
from records.decisions import RecallContext
from records.outcomes import CardReason, CardVerdict, DecisionStatus, TerminalReason
from records.retention import ErasureReason
from tests.contract.test_preflight_deciding import decided, failed, study, trials
from tests.support.incidents import Incident
from tests.support.model_server import ModelServer, Reply, completion, model_server
from tests.support.stack_control import checked
from tests.support.stack_decisions import CATALOG, Study
from vrm.mainjob.trials import TrialState

__all__ = ["study"]

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

QUICK = Limits(wait_seconds=0, seconds=20, rest_seconds=0)
IMPATIENT = Limits(wait_seconds=0, seconds=0.2, attempts=2, rest_seconds=0)
SCALE = {"knob": "scaler", "value": "standard"}
ADOPTED = [{"card": 1, "reason": "adopted_applicable", **SCALE}]
REFUSED = [{"card": 1, "reason": "rejected_low_expected_utility", "knob": None, "value": None}]


def said(proposal: Any = None, cards: Any = None, **more: Any) -> Reply:
    return completion(json.dumps({"proposal": proposal, "cards": cards or REFUSED, "explanation": "", **more}))


@contextmanager
def acting(
    study: Study, *script: Reply, limits: Limits = QUICK, exchanges: Exchanges | None = None
) -> Iterator[tuple[LlmActor, ModelServer]]:
    """Give an actor whose server answers by a script."""
    with model_server(script) as server:
        chat = ChatModel(server.url, "some/model:7b", "sk-test", name="decision", schema=Said, limits=limits)
        yield LlmActor(chat, study.stack.stores.artifacts, exchanges), server
        chat.close()


def answered(study: Study, actor: Any) -> Any:
    """Return what comes of one question, before anything is executed."""
    state = TrialState(
        task="t", seed=0, arm="memory", run=study.stack.body(f"{study.key}/{study.arm}"), config=dict(CATALOG.baseline)
    )
    return trials(study, actor)._decided(state, study.intent, study.context(), 0)


def test_a_model_adopts_a_card_by_its_number(study: Study) -> None:
    with acting(study, said(SCALE, ADOPTED)) as (actor, server):
        pending = answered(study, actor)
    assert (pending.rejected, pending.failed) == (None, None)
    answer = pending.answer
    assert isinstance(answer, PlannerAnswer)
    assert answer.steered
    assert answer.change is not None
    assert (answer.change.knob, answer.change.from_value, answer.change.to_value) == ("scaler", "none", "standard")
    assert [each.verdict for each in answer.dispositions] == [CardVerdict.ADOPTED]
    system, user = server.asked[0]["messages"]
    assert system["content"].startswith(actor_instruction().text)
    start, decision, end, *section = user["content"].split("\n")
    assert (start, end) == ("DECISION", "END OF DECISION")
    assert SCALE in json.loads(decision)["allowed_actions"]
    context = study.context()
    assert isinstance(context, RecallContext)
    rendered = study.stack.stores.artifacts.read(context.rendered_digest).decode()
    assert "\n".join(section) == rendered


def test_a_model_that_proposes_nothing_ends_as_no_op(study: Study) -> None:
    with acting(study, said(None)) as (actor, _):
        outcome = decided(study, actor)
    assert (outcome.decision_status, outcome.terminal_reason) == (
        DecisionStatus.NO_OP, TerminalReason.NO_APPLICABLE_ACTION,
    )  # fmt: skip
    assert [each.reason for each in outcome.dispositions] == [CardReason.REJECTED_LOW_EXPECTED_UTILITY]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said({"knob": "max_iter", "value": 2}), TerminalReason.PROPOSAL_POLICY_REJECTED),
        (said({"knob": "evaluation_contract", "value": "mine"}), TerminalReason.PROPOSAL_POLICY_REJECTED),
        (said({"knob": "C", "value": 12345}), TerminalReason.PROPOSAL_POLICY_REJECTED),
        (said({"knob": "C", "value": 10}, ADOPTED), TerminalReason.PREFLIGHT_REJECTED),
    ],
)
def test_vrm_r09_a_model_that_reaches_beyond_is_rejected(study: Study, reply: Reply, reason: TerminalReason) -> None:
    """A knob that no catalog has, a protected one, a value that is not allowed, a card for another action."""
    with acting(study, reply) as (actor, _):
        outcome = decided(study, actor)
    assert (outcome.decision_status, outcome.terminal_reason) == (DecisionStatus.REJECTED, reason)
    assert (outcome.effective_config_digest, outcome.intervention_id) == (None, None)


@pytest.mark.parametrize(
    "reply",
    [
        completion("I would scale the features."),
        completion("{}"),
        said(SCALE, [*ADOPTED, {"card": 7, "reason": "rejected_scope_mismatch", "knob": None, "value": None}]),
        said(SCALE, [*ADOPTED, *ADOPTED]),
        completion(json.dumps({"proposal": None, "cards": [], "explanation": ""})),
        said(None, [{"card": 1, "reason": "not_considered_cancelled", "knob": None, "value": None}]),
        said(None, [{"card": 1, "reason": "sounds_good", "knob": None, "value": None}]),
        said(SCALE, [{"card": 1, "reason": "adopted_applicable", "knob": None, "value": None}]),
        said(SCALE, ADOPTED, authority="all"),
        said({"knob": "no name\n", "value": 1}),
    ],
)
def test_vrm_r07_what_is_no_answer_fails_the_run(study: Study, reply: Reply) -> None:
    """Prose, another object, a card that was not given, one twice, none, a code of closure, no code, no mapping."""
    with acting(study, reply) as (actor, server):
        outcome = failed(study, actor, TerminalReason.ACTOR_OUTPUT_MALFORMED)
    assert outcome.executed_actor is not None
    kept = study.stack.stores.artifacts.read(outcome.executed_actor.response_digest)
    assert kept.decode() == json.loads(reply.body)["choices"][0]["message"]["content"]
    assert len(server.asked) == 1, "it is not asked until it pleases"


@pytest.mark.parametrize(
    ("reply", "limits"),
    [
        (Reply(silent=True), IMPATIENT),
        (Reply(500, b"oops"), IMPATIENT),
        (Reply(401, b"{}"), QUICK),
        (Reply(200, b"no json"), QUICK),
        (completion(None, refusal="I cannot."), QUICK),
        (completion('{"proposal":', finish_reason="length"), QUICK),
    ],
)
def test_a_model_that_cannot_be_asked_fails_the_run(study: Study, reply: Reply, limits: Limits) -> None:
    """Silence, a broken server, a refused key, no chat completion, a refusal, an answer that was cut short."""
    with acting(study, reply, limits=limits) as (actor, _):
        failed(study, actor, TerminalReason.ACTOR_INVOCATION_FAILED)


def test_a_section_that_was_erased_fails_its_run_and_no_job(study: Study) -> None:
    """Retention came between the context and the answer: the model is not asked, and its decision is closed."""
    stack, context = study.stack, study.context()
    assert isinstance(context, RecallContext)
    stack.admit("erasure")
    (rule,) = stack.load("memory-record")
    request = ErasureRequest(target=str(rule.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    stack.officer.finish(stack.officer.begin(request))
    assert stack.stores.artifacts.erased(context.rendered_digest)
    with acting(study, said(None)) as (actor, server):
        failed(study, actor, TerminalReason.ACTOR_INVOCATION_FAILED)
    assert not server.asked


def test_what_is_no_answer_goes_with_the_section_that_it_may_quote(study: Study) -> None:
    stack = study.stack
    incident = Incident(stack, study.recall_input, stack.admit("erasure"))
    quoted = f"I was shown: {incident.rule.claim}"
    with acting(study, completion(quoted)) as (actor, _):
        outcome = failed(study, actor, TerminalReason.ACTOR_OUTPUT_MALFORMED)
    assert outcome.executed_actor is not None
    said_digest, artifacts = outcome.executed_actor.response_digest, stack.stores.artifacts
    assert artifacts.read(said_digest).decode() == quoted
    request = ErasureRequest(target=str(incident.rule.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    planned = stack.officer.plan(request)
    left = tuple(each for each in planned.intent.affected_artifacts if each.sha256 != said_digest)
    assert planned.retraction is not None
    short = planned.intent.model_copy(update={"affected_artifacts": left})
    assert "malformed answer" in incident.refused(incident.begin(planned.retraction, short)).detail
    stack.officer.finish(stack.officer.begin(request))
    assert artifacts.erased(said_digest)
    report = checked(stack)
    assert report.clean, report.text()


def test_an_answer_that_says_what_was_erased_is_kept_as_its_digest(study: Study) -> None:
    """Retention takes the bytes, not the Run's end: publishing them again is refused, and the job goes on."""
    quoted = "as it was said before"
    digest = study.stack.stores.artifacts.publish(quoted.encode())
    study.stack.stores.artifacts.erase(digest)
    with acting(study, completion(quoted)) as (actor, _):
        outcome = decided(study, actor)
    assert outcome.terminal_reason is TerminalReason.ACTOR_OUTPUT_MALFORMED
    assert outcome.executed_actor is not None
    assert outcome.executed_actor.response_digest == digest
    assert study.stack.stores.artifacts.erased(digest)


def test_a_job_that_goes_on_is_told_the_same(study: Study, tmp_path: Path) -> None:
    """The first answer kept stands, and the server is asked once."""
    kept = Exchanges(tmp_path / "drafts")
    with acting(study, said(SCALE, ADOPTED), said(None), exchanges=kept) as (actor, server):
        first, second = answered(study, actor), answered(study, actor)
    assert first.answer == second.answer
    assert len(server.asked) == 1


def test_the_identity_names_model_and_prompt(study: Study) -> None:
    def identity(model: str, **limits: Any) -> str:
        chat = ChatModel("http://127.0.0.1:9/v1", model, "key", name="decision", schema=Said, limits=Limits(**limits))
        named = LlmActor(chat, study.stack.stores.artifacts).identity
        assert named.template_digest == named.policy.digest == actor_instruction().identity.digest
        chat.close()
        return named.model

    assert identity("a") == identity("a", seconds=1.0)
    assert len({identity("a"), identity("b"), identity("a", output_tokens=9)}) == 3
