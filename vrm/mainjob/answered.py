"""What actors answered to decisions that are concluded, read from their outcomes: nobody is asked a second time.

Another answer would be another decision beside the outcome that stands. What was said is in the store, so nothing that
can be deleted beside it is needed for that (spec 6.1, 9.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.acting import change_said
from policies.planner import PlannerAnswer, PlannerQuestion
from records.decisions import DecisionIntent
from records.envelopes import PlannerEnvelope
from records.outcomes import DecisionStatus, RecallOutcome, TerminalReason
from vrm.bootstrap import Stores


@dataclass(frozen=True)
class Kept:
    """What an actor answered to a decision that has its outcome, and why it was not executed, if it was refused."""

    envelope: PlannerEnvelope
    rejected: TerminalReason | None


def kept_of(stores: Stores, namespace: str, intents: Sequence[DecisionIntent]) -> dict[str, Kept]:
    """Return by intent what was answered to the decisions that ended by their actors' answers.

    What closure ended is left out: there is no decision in what such an actor said.
    """
    ids = [str(intent.id) for intent in intents]
    found: dict[str, Kept] = {}
    for stored in stores.ledger.find("recall-decision-outcome", namespace, intent_id=ids):
        outcome = stored.load()
        if not isinstance(outcome, RecallOutcome) or outcome.terminal_evidence_kind is not None:
            continue
        if outcome.executed_actor is not None:
            said = stores.artifacts.read(outcome.executed_actor.response_digest)
            refused = outcome.decision_status is DecisionStatus.REJECTED
            found[outcome.intent_id] = Kept(PlannerEnvelope.load(said), outcome.terminal_reason if refused else None)
    return found


def kept_answer(question: PlannerQuestion, envelope: PlannerEnvelope) -> PlannerAnswer:
    """Return the answer that an envelope keeps, also one that was refused: an action that no catalog has."""
    action = envelope.proposal
    return PlannerAnswer(
        change=None if action is None else change_said(question, action),
        action=action,
        dispositions=envelope.dispositions,
        steered=envelope.steered,
    )
