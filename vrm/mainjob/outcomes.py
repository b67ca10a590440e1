"""The terminal account of a held-out decision, from what really happened. Pure (spec 9.7, 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from policies.planner import PlannerAnswer
from records.canonical import canonical_bytes, digest_bytes
from records.decisions import BlockedProposal, ContextStatus, DecisionIntent, RecallContext
from records.ids import ContextId, IntentId, OutcomeId
from records.outcomes import (
    DecisionStatus,
    OutcomeAttemptLink,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
    TerminalReason,
)
from vrm.mainjob.experiments import Verified

_STATUS = {
    ContextStatus.OK: SourceStatus.OK,
    ContextStatus.EMPTY: SourceStatus.EMPTY,
    ContextStatus.DEGRADED: SourceStatus.DEGRADED,
}


@dataclass(frozen=True)
class Decided:
    """What an outcome accounts for: the intent, what memory said, the answer, the configuration that was executed."""

    intent: DecisionIntent
    source: RecallContext | BlockedProposal | None
    answer: PlannerAnswer | None
    executed_config: str | None


def memory_binding(intent: DecisionIntent, context: RecallContext | None) -> dict[str, Any]:
    """Return what the planner was given of memory: the exact context, or the registered nothing (spec 13)."""
    if context is None:
        return {"binding": "none", "intent_id": intent.id, "recall_context_id": None, "cards": 0, "tokens": 0}
    return {
        "binding": "required",
        "intent_id": intent.id,
        "recall_context_id": context.id,
        "cards": len(context.items),
        "tokens": context.token_count,
    }


def planner_envelope(intent: DecisionIntent, answer: PlannerAnswer) -> dict[str, Any]:
    """Return the decision artifact: the proposal and one disposition per card."""
    return {
        "intent_id": intent.id,
        "proposal": None if answer.action is None else answer.action.as_json(),
        "dispositions": [disposition.as_json() for disposition in answer.dispositions],
        "steered": answer.steered,
    }


def outcome_of(decided: Decided) -> RecallOutcome:
    """Return the one outcome of a decision."""
    intent, answer = decided.intent, decided.answer
    context = decided.source if isinstance(decided.source, RecallContext) else None
    status, reason, proof = _source(decided)
    action = answer.action if answer else None
    completed = decided.executed_config is not None
    decision, terminal = _decision(decided)
    return RecallOutcome(
        namespace=intent.namespace,
        created_at=intent.created_at,
        intent_id=IntentId(intent.id),
        run_id=intent.run_id,
        activity_id=intent.activity_id,
        iteration=intent.iteration,
        source_status=status,
        outcome_reason=reason,
        context_id=None if context is None else ContextId(context.id),
        decision_status=decision,
        terminal_reason=terminal,
        decision_slot=intent.decision_slot,
        artifact_committed=completed,
        artifact_digest=_digest(planner_envelope(intent, answer)) if completed and answer else None,
        memory_binding_digest=_digest(memory_binding(intent, context)) if answer else None,
        dispositions=answer.dispositions if answer else (),
        proposed_knob=action.knob if action else None,
        proposed_value=action.value if action else None,
        effective_config_digest=decided.executed_config,
        blocked_proof_digest=proof,
        closure_event_digest=None,
        terminal_evidence_digest=None,
        planned_actor=intent.planned_actor,
        executed_actor=intent.planned_actor if answer else None,
    )


def link_of(outcome: RecallOutcome, verified: Verified) -> OutcomeAttemptLink:
    """Return the link from an outcome to the experiment that it led to."""
    return OutcomeAttemptLink(
        namespace=outcome.namespace,
        created_at=outcome.created_at,
        outcome_id=OutcomeId(outcome.id),
        attempt_id=verified.attempt_id,
        experience_id=verified.experience_id,
        config_digest=verified.config_digest,
    )


def _source(decided: Decided) -> tuple[SourceStatus, str, str | None]:
    source = decided.source
    if isinstance(source, BlockedProposal):
        return SourceStatus.BLOCKED, source.blocked_reason.value, source.canonical_digest
    if source is None:
        return SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM.value, None
    return _STATUS[source.status], source.status_reason, None


def _decision(decided: Decided) -> tuple[DecisionStatus, TerminalReason | None]:
    if isinstance(decided.source, BlockedProposal):
        return DecisionStatus.BLOCKED, TerminalReason.BLOCKED_RECALL_SOURCE
    if decided.executed_config is None:
        return DecisionStatus.NO_OP, TerminalReason.NO_APPLICABLE_ACTION
    return DecisionStatus.COMPLETED, None


def _digest(value: dict[str, Any]) -> str:
    return digest_bytes(canonical_bytes(value))
