"""What is checked of an actor's answer before anything is executed (specification 13, VRM-R07, R08, R09).

Pure. Rules kept here:

- every card that was given has exactly one disposition, with a code that an actor may write; an answer that has not is
  malformed, and no decision can be read from it;
- the proposal is one of the actions that were allowed, changes the configuration in effect, and is the change that
  would be executed. Cards give no right to anything else, whatever they say;
- an adopted card is mapped to the proposal: a recommendation to its own target, a warning to any other action than the
  one that it warns of, a procedure to a change of one of its steps, an episode to its own change; no action stands for
  advice to abstain, nor for what is contested (spec 4.9). A card that was only mentioned is not adopted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

from policies.catalog import value_text
from policies.instruction import ActorInstruction
from policies.lane_facts import changed_setting
from policies.planner import PlannerAnswer
from records.cards import EpisodicCard, ProcedureCard
from records.decisions import AllowedAction, Card, ContextItem, EvidenceCard
from records.outcomes import CardDisposition, CardVerdict, TerminalReason
from records.values import ActionKind, Disposition, Knob


class AnswerFault(StrEnum):
    """Why an answer is malformed."""

    CARD_WITHOUT_DISPOSITION = "card_without_disposition"
    CARD_DISPOSED_TWICE = "card_disposed_twice"
    UNKNOWN_CARD = "unknown_card"
    CODE_NOT_THE_ACTORS = "code_not_the_actors"


class PreflightViolation(StrEnum):
    """Why a well-formed answer is not executed."""

    ACTION_NOT_ALLOWED = "action_not_allowed"
    CHANGE_IS_ANOTHER = "change_is_another"
    MAPPING_NOT_ALLOWED = "mapping_not_allowed"
    MAPPING_NOT_PROPOSED = "mapping_not_proposed"
    MAPPING_NOT_OF_CARD = "mapping_not_of_card"


_OF_THE_PROPOSAL: Final = frozenset({PreflightViolation.ACTION_NOT_ALLOWED, PreflightViolation.CHANGE_IS_ANOTHER})


def answer_faults(
    cards: Sequence[ContextItem], dispositions: Sequence[CardDisposition], instruction: ActorInstruction
) -> tuple[AnswerFault, ...]:
    """Return what makes an answer malformed, in the order of the list; nothing where it is well formed."""
    given = {item.citation_id: item.card_id for item in cards}
    disposed = Counter(each.citation_id for each in dispositions)
    met = (
        (bool(given.keys() - disposed.keys()), AnswerFault.CARD_WITHOUT_DISPOSITION),
        (any(count > 1 for count in disposed.values()), AnswerFault.CARD_DISPOSED_TWICE),
        (any(given.get(each.citation_id) != each.card_id for each in dispositions), AnswerFault.UNKNOWN_CARD),
        (any(each.reason not in instruction.reasons for each in dispositions), AnswerFault.CODE_NOT_THE_ACTORS),
    )
    return tuple(fault for broken, fault in met if broken)


def violations(
    cards: Sequence[ContextItem], allowed: Collection[AllowedAction], answer: PlannerAnswer
) -> tuple[PreflightViolation, ...]:
    """Return why a well-formed answer may not be executed, in the order of the list; nothing where it may.

    Args:
        cards: what the actor was given.
        allowed: the actions of its decision, whose digest the intent binds.
        answer: what it proposes.
    """
    of_card = {item.citation_id: item for item in cards}
    found = set[PreflightViolation]()
    if answer.action is not None and answer.action not in allowed:
        found.add(PreflightViolation.ACTION_NOT_ALLOWED)
    if _executed(answer) != answer.action:
        found.add(PreflightViolation.CHANGE_IS_ANOTHER)
    for each in answer.dispositions:
        if each.verdict is CardVerdict.ADOPTED:
            found.update(_mapping(each, of_card[each.citation_id], allowed, answer))
    return tuple(each for each in PreflightViolation if each in found)


def rejection(found: Collection[PreflightViolation]) -> TerminalReason | None:
    """Return the terminal reason of an answer with these violations; None if it has none."""
    if not found:
        return None
    if _OF_THE_PROPOSAL & set(found):
        return TerminalReason.PROPOSAL_POLICY_REJECTED
    return TerminalReason.PREFLIGHT_REJECTED


def _executed(answer: PlannerAnswer) -> AllowedAction | None:
    """Return the action that carrying out the answer's change would be."""
    change = answer.change
    return None if change is None else AllowedAction(knob=change.knob, value=value_text(change.to_value))


def _mapping(
    disposition: CardDisposition, item: ContextItem, allowed: Collection[AllowedAction], answer: PlannerAnswer
) -> set[PreflightViolation]:
    mapped = AllowedAction.build(knob=disposition.action_knob, value=disposition.action_value)
    return {
        violation
        for broken, violation in (
            (mapped not in allowed, PreflightViolation.MAPPING_NOT_ALLOWED),
            (mapped != answer.action, PreflightViolation.MAPPING_NOT_PROPOSED),
            (not _is_own(mapped, item.card), PreflightViolation.MAPPING_NOT_OF_CARD),
        )
        if broken
    }


def _is_own(mapped: AllowedAction | None, card: Card) -> bool:
    """Return whether an action is one that the card can stand for (spec 12)."""
    if mapped is None or card.disposition is Disposition.CONTESTED:
        return False
    match card:
        case EvidenceCard():
            is_target = mapped == _action_of(card.target.knob)
            return card.action is not ActionKind.ABSTAIN and is_target == (card.action is ActionKind.RECOMMEND)
        case ProcedureCard():
            return [mapped.knob, mapped.value] in [changed_setting(step.action) for step in card.steps]
        case EpisodicCard():
            return card.change is not None and mapped == _action_of(card.change)


def _action_of(knob: Knob) -> AllowedAction:
    return AllowedAction(knob=knob.name, value=knob.to_value)
