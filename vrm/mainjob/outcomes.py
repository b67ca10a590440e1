"""The terminal account of a held-out decision, from what really happened. Pure (spec 9.7, 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer
from records.canonical import canonical_bytes, digest_bytes
from records.decisions import BlockedProposal, ContextStatus, DecisionIntent, RecallContext, memory_binding
from records.envelopes import PlannerEnvelope
from records.ids import AttemptId, ContextId, ExperienceId, HypothesisId, IntentId, InterventionId, OutcomeId
from records.legacy_recall import LegacyRecall
from records.outcomes import (
    CardDisposition,
    CardReason,
    DecisionStatus,
    ExecutedActor,
    OutcomeAttemptLink,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
    TerminalReason,
)


@dataclass(frozen=True)
class ErasedLessons:
    """The lessons of a decision that was concluded, which retention erased since: its envelope stands for them."""

    envelope: PlannerEnvelope


Source = RecallContext | BlockedProposal | LegacyRecall | ErasedLessons | None
"""What memory says to one decision. It is one value: a context, or its proof, or lessons of the earlier design."""

_STATUS = {
    ContextStatus.OK: SourceStatus.OK,
    ContextStatus.EMPTY: SourceStatus.EMPTY,
    ContextStatus.DEGRADED: SourceStatus.DEGRADED,
}


class Executed(Protocol):
    """The evidence of the experiment that a decision led to."""

    @property
    def hypothesis_id(self) -> HypothesisId:
        """The hypothesis that was tested."""

    @property
    def intervention_id(self) -> InterventionId:
        """The intervention that was executed."""

    @property
    def attempt_id(self) -> AttemptId:
        """The attempt."""

    @property
    def experience_id(self) -> ExperienceId:
        """The experience."""

    @property
    def config_digest(self) -> str:
        """The effective configuration."""


@dataclass(frozen=True)
class Decided:
    """What an outcome accounts for: the intent, what memory said, the answer, what was executed, and when.

    `rejected` says why the decision was turned down before anything was executed, if it was. A context that was
    committed and that no actor was shown has no `answer`: it is turned down by the mode, and none of its cards was
    considered.
    """

    intent: DecisionIntent
    source: Source
    answer: PlannerAnswer | None
    executed: Executed | None
    now: str
    rejected: TerminalReason | None = None


def planner_envelope(intent: DecisionIntent, answer: PlannerAnswer, source: Source = None) -> dict[str, Any]:
    """Return the decision artifact: the proposal, one disposition per card, and what the actor was given."""
    return PlannerEnvelope(
        intent_id=IntentId(intent.id),
        instruction=actor_instruction().identity,
        memory=memory_binding(intent, source if isinstance(source, RecallContext) else None),
        legacy_recall=_lessons(source),
        proposal=answer.action,
        dispositions=answer.dispositions,
        steered=answer.steered,
    ).as_json()


def _lessons(source: Source) -> str | None:
    match source:
        case LegacyRecall():
            return source.canonical_digest
        case ErasedLessons():
            return source.envelope.legacy_recall
    return None


def outcome_of(decided: Decided) -> RecallOutcome:
    """Return the one outcome of a decision."""
    intent, answer = decided.intent, decided.answer
    context = decided.source if isinstance(decided.source, RecallContext) else None
    status, reason, proof = _source(decided)
    action = answer.action if answer else None
    run = decided.executed
    decision, terminal = _decision(decided)
    answered = None if answer is None else _digest(planner_envelope(intent, answer, decided.source))
    return RecallOutcome.answering(
        intent,
        created_at=decided.now,
        source_status=status,
        outcome_reason=reason,
        context_id=None if context is None else ContextId(context.id),
        decision_status=decision,
        terminal_reason=terminal,
        artifact_committed=run is not None,
        artifact_digest=answered if run else None,
        memory_binding_digest=memory_binding(intent, context).canonical_digest if answer else None,
        dispositions=answer.dispositions if answer else _not_shown(context),
        proposed_knob=action.knob if action else None,
        proposed_value=action.value if action else None,
        hypothesis_id=run.hypothesis_id if run else None,
        intervention_id=run.intervention_id if run else None,
        effective_config_digest=run.config_digest if run else None,
        blocked_proof_digest=proof,
        closure_event_digest=None,
        terminal_evidence_kind=None,
        terminal_evidence_digest=None,
        executed_actor=None
        if answered is None
        else ExecutedActor(
            model=intent.planned_actor.model,
            response_digest=answered,
            rendered_prompt_digest=None if context is None else context.rendered_digest,
        ),
    )


def _not_shown(context: RecallContext | None) -> tuple[CardDisposition, ...]:
    """Return the dispositions of cards that no actor was shown: there was no room for any of them."""
    reason = CardReason.NOT_CONSIDERED_BUDGET
    return tuple(
        CardDisposition(
            citation_id=item.citation_id,
            card_id=item.card_id,
            verdict=reason.verdict,
            reason=reason,
            action_knob=None,
            action_value=None,
        )
        for item in (context.items if context else ())
    )


def link_of(outcome: RecallOutcome, verified: Executed) -> OutcomeAttemptLink:
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
    if source is None or isinstance(source, LegacyRecall | ErasedLessons):
        return SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM.value, None
    return _STATUS[source.status], source.status_reason, None


def _decision(decided: Decided) -> tuple[DecisionStatus, TerminalReason | None]:
    if isinstance(decided.source, BlockedProposal):
        return DecisionStatus.BLOCKED, TerminalReason.BLOCKED_RECALL_SOURCE
    if decided.rejected is not None:
        return DecisionStatus.REJECTED, decided.rejected
    if decided.executed is None and decided.answer is None and isinstance(decided.source, RecallContext):
        return DecisionStatus.REJECTED, TerminalReason.PREFLIGHT_REJECTED
    if decided.executed is None:
        return DecisionStatus.NO_OP, TerminalReason.NO_APPLICABLE_ACTION
    return DecisionStatus.COMPLETED, None


def _digest(value: dict[str, Any]) -> str:
    return digest_bytes(canonical_bytes(value))
