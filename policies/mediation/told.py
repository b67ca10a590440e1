"""What is read of one decision, and what a card of it names. Pure.

A card is read by what its fields are called, so that a card of another kind is traced as far as it says something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from policies.mediation.shapes import Action
from records.decisions import ContextItem, DecisionContractView, DecisionIntent, RecallContext
from records.evidence import Attempt, Experience, Intervention, Observation, TrialProvenance, Verification
from records.models import noun_of
from records.outcomes import OutcomeAttemptLink, RecallOutcome

_ID: Final = re.compile(r"[a-z][a-z-]*:[0-9a-f]{64}")
_EXPERIENCE: Final = "experience"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """The experiment that an outcome is linked to; `before` is the verified result of what it was changed from."""

    attempt: Attempt | None
    experience: Experience | None
    observation: Observation | None
    verification: Verification | None
    intervention: Intervention | None
    provenance: TrialProvenance | None
    before: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecords:
    """What the Ledger holds about one decision, all of one moment.

    `digests` gives the payload digest of every record that a card names and that is there, by its id.
    """

    intent: DecisionIntent
    view: DecisionContractView | None
    context: RecallContext | None
    outcome: RecallOutcome | None
    link: OutcomeAttemptLink | None
    executed: Executed | None
    digests: Mapping[str, str]


NOTHING_RAN: Final = Executed(
    attempt=None,
    experience=None,
    observation=None,
    verification=None,
    intervention=None,
    provenance=None,
    before=None,
)


def observed_seconds(observation: Observation) -> float | None:
    """Return how long an experiment took; None where its source gives one time for beginning and end."""
    begun, ended = (datetime.fromisoformat(each) for each in (observation.started_at, observation.completed_at))
    return (ended - begun).total_seconds() if begun < ended else None


def action(knob: str | None, value: str | None) -> Action | None:
    """Return an action, if both parts are given."""
    return None if knob is None or value is None else Action(knob=knob, value=value)


def executed_action(intervention: Intervention | None) -> Action | None:
    """Return what an Intervention set, or None for a baseline."""
    knob = None if intervention is None else intervention.knob
    return None if knob is None else Action(knob=knob.name, value=knob.to_value)


def named_by(item: ContextItem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the record that a card was made of, and the Experiences behind it.

    A card of an episode is made of the Experience itself. What else a card names, such as the rules that a procedure
    carries out, is content.
    """
    body = item.card.as_json()
    own = body.get("memory_id") or body.get("experience_id")
    evidence = tuple(each for each in sorted(set(_ids(body))) if noun_of(each) == _EXPERIENCE)
    return (str(own),) if own else (), evidence


def digest_of(item: ContextItem) -> str | None:
    """Return the payload digest that a card gives for the record that it was made of."""
    body = item.card.as_json()
    found = body.get("memory_digest") or body.get("experience_digest")
    return None if found is None else str(found)


def _ids(value: Any) -> Iterator[str]:
    match value:
        case str():
            if _ID.fullmatch(value):
                yield value
        case dict():
            for each in value.values():
                yield from _ids(each)
        case list() | tuple():
            for each in value:
                yield from _ids(each)
        case _:
            pass


def target_of(body: Mapping[str, Any]) -> Action | None:
    """Return the action that a card speaks about, if it speaks about one."""
    target = body.get("target")
    knob = target.get("knob") if isinstance(target, dict) else None
    return Action(knob=knob["name"], value=knob["to_value"]) if isinstance(knob, dict) else None
