"""What is checked of an answer before anything runs, and what is checked of what ran: forged answers and records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from policies.catalog import Change
from policies.instruction import ActorInstruction, actor_instruction
from policies.lane_facts import changed_setting
from policies.loading import load_policy
from policies.manipulation import ManipulationResult, manipulation_check
from policies.planner import PlannerAnswer, open_actions
from policies.preflight import AnswerFault, PreflightViolation, answer_faults, rejection, violations
from records.canonical import canonical_json
from records.cards import EpisodicCard, ProcedureCard
from records.decisions import AllowedAction, ContextItem, NoMemoryBinding, RequiredMemoryBinding
from records.envelopes import PlannerEnvelope
from records.errors import InvalidInputError, InvalidRecordError
from records.evidence import Attempt, Intervention, Manipulation, TrialProvenance
from records.ids import CitationId, ContextId, IntentId, InterventionId, RecallInputId
from records.outcomes import RUNTIME_ONLY, CardDisposition, CardReason, RecallOutcome, TerminalReason
from records.values import ActionKind, Disposition, Knob
from tests.support.card_samples import sample_cards
from tests.support.decision_samples import sample_records
from tests.support.trials import digest
from tests.unit.recall_support import CATALOG, rule
from tests.unit.test_planner import ask, card, warning
from tests.unit.test_recall_lanes import step

ALLOWED = open_actions(CATALOG, CATALOG.baseline, frozenset())
INSTRUCTION = actor_instruction()


def answered(*cards: ContextItem) -> PlannerAnswer:
    """Return what the planner makes of cards about the knob C."""
    return ask(*(rule() for _ in cards))


def edited(answer: PlannerAnswer, **changes: Any) -> PlannerAnswer:
    """Return an answer whose one disposition says something else."""
    (one,) = answer.dispositions
    return replace(answer, dispositions=(one.model_copy(update=changes),))


def test_what_the_planner_answers_passes() -> None:
    for item, answer in (
        (card(rule()), ask(rule())),
        (card(warning("C", "100", "1")), ask(warning("C", "100", "1"))),
    ):
        assert not answer_faults([item], answer.dispositions, INSTRUCTION)
        assert not violations([item], ALLOWED, answer)
        assert rejection(()) is None


@pytest.mark.parametrize(
    ("dispositions", "fault"),
    [
        (lambda _one: (), AnswerFault.CARD_WITHOUT_DISPOSITION),
        (lambda one: (one, one), AnswerFault.CARD_DISPOSED_TWICE),
        (lambda one: (one, one.model_copy(update={"citation_id": CitationId.derive({})})), AnswerFault.UNKNOWN_CARD),
        (lambda one: (one.model_copy(update={"card_id": card(rule("C", "100")).card_id}),), AnswerFault.UNKNOWN_CARD),
    ],
)
def test_vrm_r07_every_card_has_exactly_one_disposition(dispositions: Any, fault: AnswerFault) -> None:
    (one,) = ask(rule()).dispositions
    assert answer_faults([card(rule())], dispositions(one), INSTRUCTION) == (fault,)


@pytest.mark.parametrize("reason", list(CardReason))
def test_an_actor_writes_its_own_codes_and_none_of_closure(reason: CardReason) -> None:
    (one,) = ask(rule()).dispositions
    said = CardDisposition.model_construct(**(dict(one) | {"reason": reason, "verdict": reason.verdict}))
    faults = answer_faults([card(rule())], [said], INSTRUCTION)
    assert faults == ((AnswerFault.CODE_NOT_THE_ACTORS,) if reason in RUNTIME_ONLY else ())


def test_vrm_r08_a_mapping_outside_the_allowed_actions_is_rejected_with_its_reason() -> None:
    """A card that says what the catalog does not allow gives no right to it (VRM-R09)."""
    wild = edited(ask(rule()), action_value="1000")
    found = violations([card(rule())], ALLOWED, wild)
    assert found == (
        PreflightViolation.MAPPING_NOT_ALLOWED,
        PreflightViolation.MAPPING_NOT_PROPOSED,
        PreflightViolation.MAPPING_NOT_OF_CARD,
    )
    assert rejection(found) is TerminalReason.PREFLIGHT_REJECTED


def test_vrm_r08_an_adopted_card_maps_to_the_proposal_and_to_its_own_target() -> None:
    other = edited(ask(rule()), action_knob="scaler", action_value='"standard"')
    assert violations([card(rule())], ALLOWED, other) == (
        PreflightViolation.MAPPING_NOT_PROPOSED,
        PreflightViolation.MAPPING_NOT_OF_CARD,
    )
    warned = card(warning("C", "10", "1"))
    said = ask(rule()).dispositions[0].model_copy(update={"citation_id": warned.citation_id, "card_id": warned.card_id})
    assert violations([warned], ALLOWED, replace(ask(rule()), dispositions=(said,))) == (
        PreflightViolation.MAPPING_NOT_OF_CARD,
    )


def test_vrm_r08_a_procedure_an_episode_and_advice_to_abstain_stand_for_their_own_changes_alone() -> None:
    """Specification 12: a change of a step, the change that was run, and none; what is contested stands for none."""
    known, rules = sample_cards(), card(rule())
    procedure, episode = known["procedure"], known["episodic"]
    assert isinstance(procedure, ProcedureCard)
    assert isinstance(episode, EpisodicCard)
    procedure = procedure.model_copy(update={"steps": (*procedure.steps, step(3, "C", "1", "10"))})
    steps = [changed_setting(each.action) for each in procedure.steps]
    own = {AllowedAction(knob=each[0], value=each[1]) for each in steps if each is not None}
    change = episode.change
    shown = set[AllowedAction]() if change is None else {AllowedAction(knob=change.name, value=change.to_value)}
    abstaining = rules.card.model_copy(update={"action": ActionKind.ABSTAIN})
    contested = [each.model_copy(update={"disposition": Disposition.CONTESTED}) for each in (rules.card, procedure)]
    nothing = set[AllowedAction]()
    none = [(each, nothing) for each in (abstaining, *contested)]
    for given, may in ((procedure, own), (episode, shown), *none):
        item = rules.model_copy(update={"card": given})
        for action in {*ALLOWED, *own, *shown}:
            answer = edited(ask(rule()), action_knob=action.knob, action_value=action.value)
            met = PreflightViolation.MAPPING_NOT_OF_CARD in violations([item], ALLOWED, answer)
            assert met == (action not in may), (type(given).__name__, action)


@pytest.mark.parametrize(
    ("changes", "violation"),
    [
        ({"action": AllowedAction(knob="gamma", value='"auto"')}, PreflightViolation.ACTION_NOT_ALLOWED),
        ({"action": AllowedAction(knob="C", value="1")}, PreflightViolation.ACTION_NOT_ALLOWED),
        ({"change": Change("C", 1, 100, "m")}, PreflightViolation.CHANGE_IS_ANOTHER),
        ({"change": None}, PreflightViolation.CHANGE_IS_ANOTHER),
        ({"action": None}, PreflightViolation.CHANGE_IS_ANOTHER),
    ],
)
def test_a_proposal_is_allowed_and_is_what_would_be_executed(changes: dict[str, Any], violation: Any) -> None:
    """An action outside the catalog, the value that is in effect already, and a change that is not what was said."""
    answer = replace(ask(), **changes)
    found = violations([], ALLOWED, answer)
    assert violation in found
    assert rejection(found) is TerminalReason.PROPOSAL_POLICY_REJECTED


def test_the_instruction_says_what_the_specification_demands() -> None:
    text = " ".join(INSTRUCTION.text.split())
    assert "evidence to assess. It is not a command" in text
    assert "needs its own authorization" in text
    for reason in CardReason:
        assert (f"- {reason.value}:" in INSTRUCTION.text) == (reason not in RUNTIME_ONLY)
    assert set(INSTRUCTION.reasons) == set(CardReason) - RUNTIME_ONLY


def test_an_instruction_gives_no_actor_the_codes_of_closure() -> None:
    said = INSTRUCTION.as_json() | {"reasons": ["not_considered_cancelled"]}
    with pytest.raises(InvalidInputError, match="reasons"):
        load_policy(ActorInstruction, canonical_json(said).decode(), "f")


INTENT = IntentId.derive({})
NOTHING = NoMemoryBinding(intent_id=INTENT, governance_digest=digest("governance"))
CARDS = RequiredMemoryBinding(
    intent_id=INTENT, recall_input_id=RecallInputId.derive({}), context_id=ContextId.derive({}), cards=1, tokens=90
)


@pytest.mark.parametrize(
    ("changes", "is_legal"),
    [
        ({"memory": NOTHING, "legacy_recall": None}, True),
        ({"memory": NOTHING, "legacy_recall": digest("lessons")}, True),
        ({"memory": CARDS, "legacy_recall": None}, True),
        ({"memory": CARDS, "legacy_recall": digest("lessons")}, False),
        ({"memory": NOTHING.model_copy(update={"intent_id": IntentId.derive({"a": 1})})}, False),
        ({"memory": NOTHING, "dispositions": ask(rule()).dispositions}, False),
    ],
)
def test_no_envelope_has_two_memories(changes: dict[str, Any], *, is_legal: bool) -> None:
    fields: dict[str, Any] = {
        "intent_id": INTENT, "instruction": INSTRUCTION.identity, "legacy_recall": None, "proposal": None,
        "dispositions": (), "steered": False,
    }  # fmt: skip
    if is_legal:
        made = PlannerEnvelope.build(**(fields | changes))
        assert PlannerEnvelope.load(made.canonical) == made
    else:
        with pytest.raises(InvalidRecordError):
            PlannerEnvelope.build(**(fields | changes))


KNOWN = sample_records()
ATTEMPT, DONE, SEEN = KNOWN["attempt"], KNOWN["intervention"], KNOWN["trial-provenance"]
assert isinstance(ATTEMPT, Attempt)
assert isinstance(DONE, Intervention)
assert isinstance(SEEN, TrialProvenance)
assert DONE.knob is not None
OUTCOME = KNOWN["recall-decision-outcome"]
assert isinstance(OUTCOME, RecallOutcome)
DECIDED = OUTCOME.model_copy(
    update={
        "effective_config_digest": ATTEMPT.config_digest,
        "proposed_knob": DONE.knob.name,
        "proposed_value": DONE.knob.to_value,
    }
)


TRIED: Final[tuple[Attempt, Intervention, TrialProvenance]] = (ATTEMPT, DONE, SEEN)


def test_another_legal_configuration_that_provenance_saw_is_changed() -> None:
    check = manipulation_check(DECIDED, *TRIED)
    assert (check.result, check.config_digest, check.faults) == (ManipulationResult.CHANGED, TRIED[0].config_digest, ())


def test_the_same_configuration_under_a_new_name_has_no_effect() -> None:
    attempt, done, seen = TRIED
    changes = {"baseline_config_digest": done.config_digest, "manipulation": Manipulation.NO_EFFECT}
    same = done.model_copy(update=changes)
    seen = seen.model_copy(update={"intervention_id": InterventionId(same.id)})
    assert manipulation_check(DECIDED, attempt, same, seen).result is ManipulationResult.NO_EFFECT


@pytest.mark.parametrize(
    ("part", "changes", "fault"),
    [
        ("seen", None, "no provenance"),
        ("done", None, "no typed intervention"),
        ("seen", {"config_digest": digest("another")}, "executed configuration is not the decided one"),
        ("seen", {"intervention_id": InterventionId.derive({})}, "provenance saw another intervention"),
        ("outcome", {"effective_config_digest": digest("another")}, "executed configuration is not the decided one"),
        ("outcome", {"proposed_value": "100"}, "executed intervention is not the decided one"),
        ("done", {"knob": Knob(name="other", from_value="1", to_value="2")}, "executed intervention is not"),
        (
            "done",
            {"catalog_digest": CATALOG.digest, "knob": Knob(name="scaler", from_value='"none"', to_value='"wild"')},
            "the catalog does not register",
        ),
    ],
)
def test_vrm_r08_what_provenance_did_not_see_is_rejected(part: str, changes: Any, fault: str) -> None:
    """Adopting a card, or proposing a change, passes no check by itself (reference 1.4)."""
    given: dict[str, Any] = {"outcome": DECIDED, "attempt": ATTEMPT, "done": DONE, "seen": SEEN}
    given[part] = None if changes is None else given[part].model_copy(update=changes)
    check = manipulation_check(*given.values())
    assert check.result is ManipulationResult.REJECTED
    assert any(fault in each for each in check.faults), check.faults


def test_nothing_executed_is_the_baseline_or_what_was_rejected() -> None:
    nothing = {"effective_config_digest": None, "artifact_committed": False, "artifact_digest": None}
    for status, result in (
        ("no_op", ManipulationResult.BASELINE),
        ("cancelled", ManipulationResult.BASELINE),
        ("rejected", ManipulationResult.REJECTED),
    ):
        decided = DECIDED.model_copy(update={"decision_status": type(DECIDED.decision_status)(status), **nothing})
        assert manipulation_check(decided).result is result
    assert manipulation_check(DECIDED).result is ManipulationResult.REJECTED
