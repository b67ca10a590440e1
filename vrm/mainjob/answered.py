"""What actors answered to decisions that are concluded, read from their outcomes: nobody is asked a second time.

Another answer would be another decision beside the outcome that stands. What was said is in the store, so nothing that
can be deleted beside it is needed for that (spec 6.1, 9.7).

An actor that gave no decision has failed its Run. Such a Run is over for its round, which goes on without it; so is
that of a shadow whose leader it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.acting import change_said
from policies.planner import PlannerAnswer, PlannerQuestion
from records.control import OF_AN_ACTOR, ControlCause, ControlEvent, RunFacts
from records.decisions import DecisionIntent
from records.envelopes import PlannerEnvelope
from records.ids import RunId
from records.outcomes import DecisionStatus, RecallOutcome, TerminalReason
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.runtime.port import SubjectReader
from vrm.bootstrap import Stores
from vrm.mainjob.trials import TrialState

LEADER_FAILED: Final = "leader_failed"
"""Why the Run of a shadow ends whose leader gave no decision."""

_FAILED: Final = frozenset({Phase.FAILING, Phase.FAILED})


def given_up(
    runtime: SubjectReader, artifacts: ArtifactStore, states: Sequence[TrialState]
) -> dict[RunId, ControlCause]:
    """Return by Run why it failed, of those whose actor gave no decision, and of the shadows that ended with one.

    A Run that failed for another reason is not among them: that stops its round.

    Raises:
        NotFoundError: the event by which a Run failed is gone.
        IntegrityError: it is damaged.
    """
    runs = runtime.subjects(Machine.RUN, [str(state.run_id) for state in states])
    found: dict[RunId, ControlCause] = {}
    for state in states:  # a leader comes before its shadow
        run = runs.get(str(state.run_id))
        primary = None if run is None or run.phase not in _FAILED else RunFacts.load(run.facts).control
        if primary is None:
            continue
        cause = ControlEvent.read(artifacts.read(primary.digest), primary.digest).cause
        led = state.leader is not None and state.leader.run_id in found
        if cause in OF_AN_ACTOR or (led and cause is ControlCause.CONTRACT):
            found[state.run_id] = cause
    return found


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
