"""What a language model is asked for one decision, and what of its answer is read (spec 13; docs/adr/0064). Pure.

Rules kept here:

- the model is told the actor's instruction, the decision as one JSON value between marks, and the memory section as it
  was rendered. All names and values of the decision are the catalog's; no private fact is in it;
- the answer is one object: a proposal or none, and one entry with a reason code for each card, by the card's number. It
  names knob and value itself, so that a model which reaches beyond what is allowed is caught by the preflight and not
  by a form that leaves it no way to;
- what is no such object is malformed: nothing of it is a decision. What it explains is kept with it and read by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from policies.catalog import Change, KnobValue, value_text
from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer, PlannerQuestion, open_actions
from policies.preflight import answer_faults
from records.canonical import canonical_bytes, parse_canonical
from records.control import ControlCause
from records.decisions import AllowedAction, ContextItem
from records.errors import InvalidRecordError
from records.models import Model
from records.outcomes import CardDisposition, CardReason, CardVerdict

FORM: Final = """Answer with one JSON object:
- proposal: {"knob": ..., "value": ...}, copied from allowed_actions, or null if you propose nothing.
- cards: one entry for each card, {"card": its number, "reason": one of the codes, "knob": ..., "value": ...}; knob and
  value are those of your proposal with adopted_applicable, and null with every other code.
- explanation: a sentence or two, or "".
"""
REQUEST: Final = "DECISION\n{decision}\nEND OF DECISION\n{section}"
NO_SECTION: Final = "You are given no memory for this decision; there is no card to answer for."

Scalar = str | bool | int | float


class SaidAction(Model):
    """The proposal, in the words of the model."""

    knob: str
    value: Scalar


class SaidCard(Model):
    """What the model says of the card with a number."""

    card: int
    reason: CardReason
    knob: str | None
    value: Scalar | None


class Said(Model):
    """The whole answer."""

    proposal: SaidAction | None
    cards: tuple[SaidCard, ...]
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorFailure:
    """An actor that gave no decision.

    Attributes:
        cause: whether it could not be asked, or said something that is no answer.
        detail: a closed reason; nothing that it said.
        response: what it said, if that is no answer.
    """

    cause: Literal[ControlCause.ACTOR_INVOCATION_FAILED, ControlCause.ACTOR_OUTPUT_MALFORMED]
    detail: str
    response: bytes | None = None


def messages_of(question: PlannerQuestion, section: str) -> list[dict[str, str]]:
    """Return what the model is told; `section` is the rendered memory section, empty where there is none."""
    system = f"{actor_instruction().text}\n{FORM}"
    decision = canonical_bytes(_decision(question)).decode()
    user = REQUEST.format(decision=decision, section=section or NO_SECTION)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def answer_of(text: str, question: PlannerQuestion) -> PlannerAnswer | ActorFailure:
    """Return what an answer proposes and says of each card, as it stands; the preflight judges it."""
    try:
        said = Said.load(text)
        action = None if said.proposal is None else _action(said.proposal.knob, said.proposal.value)
        places = dict(enumerate(question.cards, start=1))
        dispositions = tuple(_disposition(each, places[each.card]) for each in said.cards)
    except (InvalidRecordError, KeyError, ValueError):
        return malformed("wrong_shape", text)
    faults = answer_faults(question.cards, dispositions, actor_instruction())
    if faults:
        return malformed(", ".join(faults), text)
    return PlannerAnswer(
        change=None if action is None else change_said(question, action),
        action=action,
        dispositions=dispositions,
        steered=any(each.verdict is CardVerdict.ADOPTED for each in dispositions),
    )


def malformed(detail: str, text: str) -> ActorFailure:
    """Return the failure of an actor that said something which is no answer."""
    said = text.encode("utf-8", "surrogatepass")
    return ActorFailure(cause=ControlCause.ACTOR_OUTPUT_MALFORMED, detail=detail, response=said)


def _decision(question: PlannerQuestion) -> dict[str, object]:
    view = question.view
    actions = open_actions(question.catalog, question.config, question.tried)
    return {
        "metric": view.primary_metric.as_json(),
        "equivalence_margin": view.equivalence_margin,
        "decision": question.decision_index + 1,
        "configuration": dict(question.config),
        "allowed_actions": [{"knob": each.knob, "value": parse_canonical(each.value)} for each in actions],
    }


def _action(knob: str, value: Scalar) -> AllowedAction:
    return AllowedAction.build(knob=knob, value=value_text(value))


def change_said(question: PlannerQuestion, action: AllowedAction) -> Change:
    """Return the change that carrying out an action would be; of one that no catalog has, as far as it can be said."""
    to_value: KnobValue = parse_canonical(action.value)
    knob = question.catalog.knobs.get(action.knob)
    known = () if knob is None else (each for each in knob.allowed if value_text(each) == action.value)
    return Change(
        knob=action.knob,
        from_value=question.config.get(action.knob, to_value),
        to_value=next(iter(known), to_value),
        mechanism="unknown" if knob is None else knob.mechanism,
    )


def _disposition(said: SaidCard, item: ContextItem) -> CardDisposition:
    adopted = said.reason.verdict is CardVerdict.ADOPTED
    if adopted and (said.knob is None or said.value is None):
        raise ValueError("an adopted card is mapped to an action")
    action = _action(said.knob, said.value) if adopted and said.knob is not None and said.value is not None else None
    return CardDisposition(
        citation_id=item.citation_id,
        card_id=item.card_id,
        verdict=said.reason.verdict,
        reason=said.reason,
        action_knob=None if action is None else action.knob,
        action_value=None if action is None else action.value,
    )
