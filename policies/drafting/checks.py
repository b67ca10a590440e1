"""What a draft must be before it is taken, and the one reason why it is not. Pure.

A draft is text from outside. It is taken only if it can say nothing that the facts do not say:

- it cites evidence, and only evidence that it was told of;
- the claim names the change word for word, its two values in order, the metric, and the size of the effect; the word
  for the direction is the rule's own, and no word turns it round, leaves it open or claims more than was seen;
- every number is one of the facts' numbers as shown; numbers in words are refused, for nobody can look them up;
- outside of the names that the facts bring, it is plain English text: printable ASCII, no mark-up, no addresses;
- it speaks to nobody. A closed list of words makes that sure (`INSTRUCTIONS`); it refuses some harmless sentences,
  which costs a better wording and nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from policies.drafting.facts import DraftFacts
from policies.drafting.template import change_phrase
from records.models import Model
from records.values import ActionKind

MAX_CLAIM: Final = 400
"""Longest claim, in characters, the name of the change not counted."""
MIN_CLAIM: Final = 12
MAX_EXPLANATION: Final = 800
MAX_CITED: Final = 200


class DraftedText(Model):
    """What a drafter may give; there is no field for anything that is decided elsewhere.

    Attributes:
        claim: the rule in words.
        mechanism_explanation: why it may be so; a guess for people, kept beside the candidate and never recalled.
        experience_ids: the evidence that the words rest on.
    """

    claim: str
    mechanism_explanation: str
    experience_ids: tuple[str, ...]


class RefusalReason(StrEnum):
    """Why a draft is not taken; each is a finding `draft_refused_<reason>` of the candidate."""

    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    REQUEST_REJECTED = "request_rejected"
    TOO_LARGE = "too_large"
    CUT_SHORT = "cut_short"
    DECLINED = "declined"
    MALFORMED = "malformed"
    WRONG_SHAPE = "wrong_shape"
    NO_EVIDENCE = "no_evidence"
    UNKNOWN_EVIDENCE = "unknown_evidence"
    NOT_NORMALISED = "not_normalised"
    LENGTH = "length"
    CHARACTERS = "characters"
    INSTRUCTION = "instruction"
    CHANGE_NOT_NAMED = "change_not_named"
    METRIC_NOT_NAMED = "metric_not_named"
    EFFECT_NOT_NAMED = "effect_not_named"
    DIRECTION = "direction"
    OVERCLAIM = "overclaim"
    UNKNOWN_NUMBER = "unknown_number"


WHY: Final[dict[RefusalReason, str]] = {
    RefusalReason.UNAVAILABLE: "the model's server could not be reached, or failed each time",
    RefusalReason.TIMEOUT: "the model's server did not answer in time",
    RefusalReason.REQUEST_REJECTED: "the model's server refused the request",
    RefusalReason.TOO_LARGE: "the answer was larger than the limit",
    RefusalReason.CUT_SHORT: "the answer ended at the token limit",
    RefusalReason.DECLINED: "the model declined to answer",
    RefusalReason.MALFORMED: "the answer was not JSON of a chat completion",
    RefusalReason.WRONG_SHAPE: "the answer was not the object that was asked for",
    RefusalReason.NO_EVIDENCE: "it cites no evidence",
    RefusalReason.UNKNOWN_EVIDENCE: "it cites evidence that is not among the facts",
    RefusalReason.NOT_NORMALISED: "its text is not Unicode in NFC",
    RefusalReason.LENGTH: "a text is shorter or longer than allowed",
    RefusalReason.CHARACTERS: "it has characters other than printable ASCII, or mark-up",
    RefusalReason.INSTRUCTION: "it has a word of the closed list of instruction-like words",
    RefusalReason.CHANGE_NOT_NAMED: "the claim does not name the knob with its two values in order",
    RefusalReason.METRIC_NOT_NAMED: "the claim does not name the metric",
    RefusalReason.EFFECT_NOT_NAMED: "the claim does not give the size of the effect",
    RefusalReason.DIRECTION: "the claim does not say improves or worsens as the rule does, or has a word against it",
    RefusalReason.OVERCLAIM: "it claims more than evidence can show",
    RefusalReason.UNKNOWN_NUMBER: "it has a number that is not among the facts as shown",
}
"""Each reason in words; fixed, so that nothing of a refused text is kept, and equal refusals are equal bytes."""

INSTRUCTIONS: Final[dict[str, str]] = {
    r"you|yours?|yourself|please": "speaks to somebody",
    r"ignor\w*|disregard\w*|forget\w*|overrid\w*|bypass\w*|instead": "sets aside what was said",
    r"must|should|shall|always|execut\w*|delet\w*|writ\w*|call": "tells to act",
    r"system|assistants?|users?|developers?|prompt\w*|instruct\w*|jailbreak\w*": "poses as a prompt",
    r"https?|www|sudo|eval|exec|curl|bash": "is an address or code",
}
"""Words that a claim about an effect has no use for, each with what it would do in a prompt."""

_ORDER: Final = r"(?:^|[.;:]\s*)(?:use|apply|set|run|try|do|choose|pick|avoid|prefer|switch|select|keep|stop)"
"""A sentence that begins like an order."""

_INSTRUCTION: Final = re.compile(rf"(?:(?<!\w)(?:{'|'.join(INSTRUCTIONS)})|{_ORDER})(?!\w)", re.IGNORECASE)
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9 .,;:()+/%'\"_=-]*")
_OVERCLAIM: Final = re.compile(
    r"(?<!\w)(?:guarantee\w*|universal\w*|prove[nsd]?|proof|everywhere|every|certain\w*|all|any)(?!\w)", re.IGNORECASE
)
_BETTER: Final = r"improv\w*|better|benefi\w*|gains?|helps?|boosts?|enhanc\w*"
_WORSE: Final = r"worse\w*|harm\w*|hurts?|degrad\w*|damag\w*|impair\w*|loses?"
_OPEN: Final = (
    r"not|no|never|nor|neither|without|cannot|fails?|hardly|barely|unless|except|rather|than|revers\w*|opposite|\w+n't|"
    r"rais\w*|increas\w*|lower\w*|reduc\w*|decreas\w*|drops?|rises?|falls?"
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?")
_NUMBER_WORDS: Final = re.compile(
    r"(?<!\w)(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|"
    r"hundred\w*|thousand\w*|million\w*|dozens?|hal(?:f|ves)|thirds?|quarters?|doubl\w*|twice|tripl\w*|\w*fold|"
    r"percent\w*)(?!\w)|%",
    re.IGNORECASE,
)
_ASKED: Final[dict[ActionKind, tuple[str, str]]] = {
    ActionKind.RECOMMEND: ("improves", _WORSE),
    ActionKind.AVOID: ("worsens", _BETTER),
}


def can_be_drafted(facts: DraftFacts) -> bool:
    """Tell whether there is a direction to word; where there is none the template says all that can be said."""
    return facts.action in _ASKED


def refusal(draft: DraftedText, facts: DraftFacts) -> RefusalReason | None:
    """Return why a draft is not taken, or None; the first reason in the order of `RefusalReason` decides."""
    found = set(_evidence(draft, facts))
    found |= set(_text(draft.claim, facts, range(MIN_CLAIM, MAX_CLAIM + 1)))
    found |= set(_text(draft.mechanism_explanation, facts, range(MAX_EXPLANATION + 1)))
    found |= set(_claim(draft.claim, facts))
    return next((reason for reason in RefusalReason if reason in found), None)


def _evidence(draft: DraftedText, facts: DraftFacts) -> Iterable[RefusalReason]:
    if not draft.experience_ids:
        yield RefusalReason.NO_EVIDENCE
    if len(draft.experience_ids) > MAX_CITED or not set(draft.experience_ids) <= set(facts.evidence_ids):
        yield RefusalReason.UNKNOWN_EVIDENCE


def _text(text: str, facts: DraftFacts, lengths: range) -> Iterable[RefusalReason]:
    """Look at what both texts must keep to."""
    if not text.isprintable() or not unicodedata.is_normalized("NFC", text):
        yield RefusalReason.NOT_NORMALISED if text.isprintable() else RefusalReason.CHARACTERS
    free = text.replace(change_phrase(facts.knob), " ")
    if len(free) not in lengths:
        yield RefusalReason.LENGTH
    words = _without(free, _names(facts))
    if not _CHARACTERS.fullmatch(words):
        yield RefusalReason.CHARACTERS
    if _INSTRUCTION.search(free):
        yield RefusalReason.INSTRUCTION
    if _OVERCLAIM.search(words):
        yield RefusalReason.OVERCLAIM
    known = f"{facts.scope} {facts.plain.replace(change_phrase(facts.knob), ' ')}"
    told = facts.numbers | set(_NUMBER.findall(known)) | {facts.knob.from_value, facts.knob.to_value}
    if _NUMBER_WORDS.search(words) or not set(_NUMBER.findall(words)) <= told:
        yield RefusalReason.UNKNOWN_NUMBER


def _claim(claim: str, facts: DraftFacts) -> Iterable[RefusalReason]:
    """Look at what the claim must say."""
    if claim.count(change_phrase(facts.knob)) != 1:
        yield RefusalReason.CHANGE_NOT_NAMED
    free = claim.replace(change_phrase(facts.knob), " ")
    if _without(free, [facts.metric.name]) == free:
        yield RefusalReason.METRIC_NOT_NAMED
    words = _without(free, _names(facts))
    if facts.mean_delta[1:] not in {number.lstrip("+-") for number in _NUMBER.findall(words)}:
        yield RefusalReason.EFFECT_NOT_NAMED
    asked, against = _ASKED.get(facts.action or ActionKind.ABSTAIN, ("", ""))
    turned = re.search(rf"(?<!\w)(?:{against}|{_OPEN})(?!\w)", words, re.IGNORECASE)
    if words.split().count(asked) != 1 or turned:
        yield RefusalReason.DIRECTION


def _names(facts: DraftFacts) -> list[str]:
    """Return the names that the facts bring; they are no words of the drafter."""
    metrics = [facts.metric, *(guard.metric for guard in facts.guardrails)]
    return [facts.knob.name, facts.mechanism, *(name for metric in metrics for name in (metric.name, metric.unit))]


def _without(text: str, names: Iterable[str]) -> str:
    """Blank out whole names, longer ones first."""
    for name in sorted(set(names), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", " ", text)
    return text
