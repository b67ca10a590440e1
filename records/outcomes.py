"""The terminal account of a decision, with its closed matrices (spec 4.10, 9.7, 13; reference 1.2).

The matrices are data, checked whenever an Outcome is built: source status by decision status, decision status by
terminal reason and authority, and which fields each pair requires or forbids. An Outcome does not hold the authority
that wrote it; it holds terminal evidence exactly where that is Runtime closure, and says then nothing that an actor
wrote.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from pydantic import model_validator

from records.base import Child, Kind, Record
from records.decisions import BlockedReason, DecisionIntent
from records.fields import Digest, Name, Text
from records.ids import (
    ActivityId,
    AttemptId,
    AuthorizationId,
    CardId,
    CitationId,
    ContextId,
    ExperienceId,
    HypothesisId,
    IntentId,
    InterventionId,
    OutcomeId,
    RunId,
)
from records.models import Model
from records.values import ActorIdentity, Count


class SourceStatus(StrEnum):
    """What memory had to offer."""

    BLOCKED = "blocked"
    NOT_REQUESTED = "not_requested"
    CANCELLED_BEFORE_RECALL = "cancelled_before_recall"
    FAILED_BEFORE_RECALL = "failed_before_recall"
    EMPTY = "empty"
    DEGRADED = "degraded"
    OK = "ok"


class DecisionStatus(StrEnum):
    """How the decision ended."""

    BLOCKED = "blocked"
    ACTOR_FAILED = "actor_failed"
    REJECTED = "rejected"
    NO_OP = "no_op"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class TerminalReason(StrEnum):
    """Why a decision that did not complete ended so."""

    BLOCKED_RECALL_SOURCE = "BLOCKED_RECALL_SOURCE"
    ACTOR_INVOCATION_FAILED = "ACTOR_INVOCATION_FAILED"
    ACTOR_OUTPUT_MALFORMED = "ACTOR_OUTPUT_MALFORMED"
    RUNTIME_FAILURE_CLOSURE = "RUNTIME_FAILURE_CLOSURE"
    PROPOSAL_POLICY_REJECTED = "PROPOSAL_POLICY_REJECTED"
    PREFLIGHT_REJECTED = "PREFLIGHT_REJECTED"
    NO_APPLICABLE_ACTION = "NO_APPLICABLE_ACTION"
    ALREADY_SATISFIED = "ALREADY_SATISFIED"
    CANCELLED_BY_COMMAND = "CANCELLED_BY_COMMAND"
    CANCELLED_BY_INCIDENT = "CANCELLED_BY_INCIDENT"


_FREE = frozenset(DecisionStatus) - {DecisionStatus.BLOCKED}
LEGAL_DECISIONS: dict[SourceStatus, frozenset[DecisionStatus]] = {
    SourceStatus.BLOCKED: frozenset({DecisionStatus.BLOCKED}),
    SourceStatus.NOT_REQUESTED: _FREE,
    SourceStatus.CANCELLED_BEFORE_RECALL: frozenset({DecisionStatus.CANCELLED}),
    SourceStatus.FAILED_BEFORE_RECALL: frozenset({DecisionStatus.ACTOR_FAILED}),
    SourceStatus.EMPTY: _FREE,
    SourceStatus.DEGRADED: _FREE,
    SourceStatus.OK: _FREE,
}
"""Which decision status may follow which source status."""

LEGAL_REASONS: dict[DecisionStatus, frozenset[TerminalReason | None]] = {
    DecisionStatus.COMPLETED: frozenset({None}),
    DecisionStatus.BLOCKED: frozenset({TerminalReason.BLOCKED_RECALL_SOURCE}),
    DecisionStatus.ACTOR_FAILED: frozenset(
        {
            TerminalReason.ACTOR_INVOCATION_FAILED,
            TerminalReason.ACTOR_OUTPUT_MALFORMED,
            TerminalReason.RUNTIME_FAILURE_CLOSURE,
        }
    ),
    DecisionStatus.REJECTED: frozenset({TerminalReason.PROPOSAL_POLICY_REJECTED, TerminalReason.PREFLIGHT_REJECTED}),
    DecisionStatus.NO_OP: frozenset({TerminalReason.NO_APPLICABLE_ACTION, TerminalReason.ALREADY_SATISFIED}),
    DecisionStatus.CANCELLED: frozenset({TerminalReason.CANCELLED_BY_COMMAND, TerminalReason.CANCELLED_BY_INCIDENT}),
}
"""Which terminal reason each decision status needs."""

CLOSURE_ONLY: frozenset[DecisionStatus] = frozenset({DecisionStatus.ACTOR_FAILED, DecisionStatus.CANCELLED})
"""Statuses that only Runtime closure may author."""


class OutcomeReason(StrEnum):
    """The source-level reason; a blocked source uses the reason of its proof instead."""

    CONTROL_ARM = "not_requested_control_arm"
    CANCELLED_BEFORE_RECALL = "cancelled_before_recall"
    FAILED_BEFORE_RECALL = "failed_before_recall"
    NO_ELIGIBLE_EVIDENCE = "empty_no_eligible_evidence"
    BELOW_THRESHOLD = "empty_below_threshold"
    ADAPTER_FALLBACK = "degraded_adapter_fallback"
    CARDS_RETURNED = "ok_cards_returned"


_SOURCE_REASONS: dict[SourceStatus, frozenset[str]] = {
    SourceStatus.BLOCKED: frozenset(BlockedReason),
    SourceStatus.NOT_REQUESTED: frozenset({OutcomeReason.CONTROL_ARM}),
    SourceStatus.CANCELLED_BEFORE_RECALL: frozenset({OutcomeReason.CANCELLED_BEFORE_RECALL}),
    SourceStatus.FAILED_BEFORE_RECALL: frozenset({OutcomeReason.FAILED_BEFORE_RECALL}),
    SourceStatus.EMPTY: frozenset({OutcomeReason.NO_ELIGIBLE_EVIDENCE, OutcomeReason.BELOW_THRESHOLD}),
    SourceStatus.DEGRADED: frozenset({OutcomeReason.ADAPTER_FALLBACK}),
    SourceStatus.OK: frozenset({OutcomeReason.CARDS_RETURNED}),
}


class TerminalEvidenceKind(StrEnum):
    """What kind of Runtime event ended a decision."""

    CANCEL_EVENT = "CANCEL_EVENT"
    RUNTIME_FAILURE = "RUNTIME_FAILURE"


def terminal_evidence(status: DecisionStatus) -> TerminalEvidenceKind | None:
    """Return the kind of event that a decision of this status ended by; None where its own actor ended it."""
    return _EVIDENCE.get(status)


_EVIDENCE = {
    DecisionStatus.CANCELLED: TerminalEvidenceKind.CANCEL_EVENT,
    DecisionStatus.ACTOR_FAILED: TerminalEvidenceKind.RUNTIME_FAILURE,
}


class ExecutedActor(Model):
    """Who really answered: the model, the digest of its answer, and of the memory section that it was shown."""

    model: Name
    response_digest: Digest
    rendered_prompt_digest: Digest | None


class CardVerdict(StrEnum):
    """What became of a card."""

    ADOPTED = "adopted"
    REJECTED = "rejected"
    NOT_CONSIDERED = "not_considered"


class CardReason(StrEnum):
    """The closed reason codes of spec 13; the last two are written by Runtime closure only."""

    ADOPTED_APPLICABLE = "adopted_applicable"
    REJECTED_SCOPE_MISMATCH = "rejected_scope_mismatch"
    REJECTED_COUNTEREVIDENCE = "rejected_counterevidence"
    REJECTED_PROTECTED_ACTION = "rejected_protected_action"
    REJECTED_STALE_DEPENDENCY = "rejected_stale_dependency"
    REJECTED_LOW_EXPECTED_UTILITY = "rejected_low_expected_utility"
    NOT_CONSIDERED_BUDGET = "not_considered_budget"
    NOT_CONSIDERED_CANCELLED = "not_considered_cancelled"
    NOT_CONSIDERED_ACTOR_FAILED = "not_considered_actor_failed"

    @property
    def verdict(self) -> CardVerdict:
        """The disposition that the reason code belongs to."""
        prefix = self.value.split("_", maxsplit=1)[0]
        return {"adopted": CardVerdict.ADOPTED, "rejected": CardVerdict.REJECTED}.get(
            prefix, CardVerdict.NOT_CONSIDERED
        )


RUNTIME_ONLY: frozenset[CardReason] = frozenset(
    {CardReason.NOT_CONSIDERED_CANCELLED, CardReason.NOT_CONSIDERED_ACTOR_FAILED}
)


class CardDisposition(Model):
    """The one disposition of one returned card, and the action it was mapped to if adopted."""

    citation_id: CitationId
    card_id: CardId
    verdict: CardVerdict
    reason: CardReason
    action_knob: Name | None
    action_value: Text | None

    @model_validator(mode="after")
    def _consistent(self) -> CardDisposition:
        if self.verdict is not self.reason.verdict:
            raise ValueError("the verdict does not belong to the reason code")
        adopted = self.verdict is CardVerdict.ADOPTED
        if (self.action_knob is not None) != adopted or (self.action_value is not None) != adopted:
            raise ValueError("an action is mapped exactly for adopted cards (VRM-R08)")
        return self


OF_THE_INTENT: Final = (
    "run_id", "activity_id", "iteration", "arm", "pair", "decision_slot", "artifact_kind", "planned_actor",
)  # fmt: skip
"""What an Outcome says just as its intent does."""


class RecallOutcome(
    Record,
    kind=Kind(
        noun="recall-decision-outcome",
        table="recall_decision_outcomes",
        columns=("run_id", "source_status", "decision_status"),
        unique=(("intent_id",),),
        children=(
            Child(
                path="dispositions",
                table="recall_decision_dispositions",
                columns=("citation_id", "card_id", "verdict", "reason"),
                unique=("citation_id",),
            ),
        ),
    ),
):
    """The terminal account of one intent: exactly one, whatever happened (VRM-R07)."""

    intent_id: IntentId
    run_id: RunId
    activity_id: ActivityId
    iteration: Count
    arm: Name | None
    pair: Name | None
    source_status: SourceStatus
    outcome_reason: Name
    context_id: ContextId | None
    decision_status: DecisionStatus
    terminal_reason: TerminalReason | None
    decision_slot: Name
    artifact_kind: Name
    artifact_committed: bool
    artifact_digest: Digest | None
    memory_binding_digest: Digest | None
    dispositions: tuple[CardDisposition, ...]
    proposed_knob: Name | None
    proposed_value: Text | None
    hypothesis_id: HypothesisId | None
    intervention_id: InterventionId | None
    effective_config_digest: Digest | None
    blocked_proof_digest: Digest | None
    closure_event_digest: Digest | None
    terminal_evidence_kind: TerminalEvidenceKind | None
    terminal_evidence_digest: Digest | None
    planned_actor: ActorIdentity
    executed_actor: ExecutedActor | None

    @classmethod
    def answering(cls, intent: DecisionIntent, **fields: Any) -> RecallOutcome:
        """Return the Outcome of an intent, which says what is the intent's just as the intent does."""
        taken = {name: getattr(intent, name) for name in ("namespace", *OF_THE_INTENT)}
        return cls(intent_id=IntentId(intent.id), **taken, **fields)

    @model_validator(mode="after")
    def _closed_matrix(self) -> RecallOutcome:
        for fits, rule in (*_source_rules(self), *_decision_rules(self), *_card_rules(self)):
            if not fits:
                raise ValueError(rule)
        return self


_FATE = {DecisionStatus.CANCELLED: CardReason.NOT_CONSIDERED_CANCELLED,
         DecisionStatus.ACTOR_FAILED: CardReason.NOT_CONSIDERED_ACTOR_FAILED}  # fmt: skip
"""What becomes of every card where Runtime closure ends the decision."""


def _source_rules(outcome: RecallOutcome) -> tuple[tuple[bool, str], ...]:
    source, decision = outcome.source_status, outcome.decision_status
    with_context = source in {SourceStatus.OK, SourceStatus.EMPTY, SourceStatus.DEGRADED}
    before_recall = source in {SourceStatus.CANCELLED_BEFORE_RECALL, SourceStatus.FAILED_BEFORE_RECALL}
    no_actor = before_recall or source is SourceStatus.BLOCKED
    return (
        (decision in LEGAL_DECISIONS[source], "this decision status may not follow this source status"),
        (outcome.outcome_reason in _SOURCE_REASONS[source], "the outcome reason does not belong to the source status"),
        ((outcome.context_id is not None) == with_context, "context_id is given exactly for ok, empty and degraded"),
        ((outcome.blocked_proof_digest is not None) == (source is SourceStatus.BLOCKED), "blocked needs its proof"),
        ((outcome.closure_event_digest is not None) == before_recall, "pre-recall closure needs its event"),
        (not before_recall or outcome.closure_event_digest == outcome.terminal_evidence_digest,
         "the closure event and the terminal evidence are one and the same"),
        (not no_actor or (outcome.executed_actor, outcome.memory_binding_digest, outcome.proposed_knob,
                          outcome.hypothesis_id) == (None, None, None, None),
         "a source that is blocked or closed before recall reaches no actor, who proposes nothing"),
    )  # fmt: skip


def _decision_rules(outcome: RecallOutcome) -> tuple[tuple[bool, str], ...]:
    decision = outcome.decision_status
    completed = decision is DecisionStatus.COMPLETED
    closed = decision in CLOSURE_ONLY
    return (
        (outcome.terminal_reason in LEGAL_REASONS[decision], "the terminal reason does not belong to the status"),
        ((outcome.terminal_evidence_kind is None) == (outcome.terminal_evidence_digest is None),
         "terminal evidence has a kind and a digest"),
        (outcome.terminal_evidence_kind is terminal_evidence(decision),
         "a cancellation and a failure of the actor rest on the Runtime's event, and no other ending does"),
        (completed or (outcome.intervention_id, outcome.effective_config_digest) == (None, None),
         "only a completed decision has an intervention and an effective configuration"),
        (outcome.artifact_committed == (outcome.artifact_digest is not None) == completed,
         "an artifact is committed, and named, exactly by a completed decision"),
        (not completed or outcome.memory_binding_digest is not None,
         "who completes a decision was given its memory, or its registered nothing"),
        ((outcome.executed_actor is None) or (outcome.memory_binding_digest is not None),
         "an actor that ran was given a memory binding"),
        ((outcome.proposed_knob is None) == (outcome.proposed_value is None), "a proposal has a knob and a value"),
        (not closed or (outcome.proposed_knob, outcome.hypothesis_id) == (None, None),
         "Runtime closure takes nothing of what an actor left half done"),
    )  # fmt: skip


def _card_rules(outcome: RecallOutcome) -> tuple[tuple[bool, str], ...]:
    source, decision, cards = outcome.source_status, outcome.decision_status, outcome.dispositions
    fate = _FATE.get(decision)
    return (
        (bool(cards) or source is not SourceStatus.OK, "ok has at least one card, and each has its disposition"),
        (not cards or source in {SourceStatus.OK, SourceStatus.DEGRADED}, "dispositions need a context with cards"),
        (len({each.citation_id for each in cards}) == len(cards), "every card has exactly one disposition (VRM-R07)"),
        (decision is DecisionStatus.REJECTED or {(d.action_knob, d.action_value) for d in cards if d.action_knob}
         <= {(outcome.proposed_knob, outcome.proposed_value)},
         "an adopted card is mapped to the action that was proposed (VRM-R08)"),
        (fate is not None or not any(each.reason in RUNTIME_ONLY for each in cards),
         "only Runtime closure writes not_considered_cancelled and not_considered_actor_failed"),
        (fate is None or all(each.reason is fate for each in cards),
         "where Runtime closure ends a decision, every card has the one disposition that it writes"),
    )  # fmt: skip


class OutcomeAttemptLink(
    Record,
    kind=Kind(noun="outcome-attempt-link", table="recall_outcome_attempt_links", unique=(("outcome_id",),)),
):
    """The later lineage from an Outcome to the Attempt and Experience that executed it (spec 6.2)."""

    outcome_id: OutcomeId
    attempt_id: AttemptId
    experience_id: ExperienceId
    config_digest: Digest


class NoCommitReason(StrEnum):
    """Why an authorized append wrote nothing."""

    PRECONDITION_CONFLICT = "PRECONDITION_CONFLICT"
    CANONICAL_RECORD_CONFLICT = "CANONICAL_RECORD_CONFLICT"
    AUTHORIZED_PAYLOAD_REJECTED = "AUTHORIZED_PAYLOAD_REJECTED"
    RETENTION_FRONTIER_STALE = "RETENTION_FRONTIER_STALE"
    RETENTION_REVOKED = "RETENTION_REVOKED"
    LIFECYCLE_HEAD_STALE = "LIFECYCLE_HEAD_STALE"


class ObservedHead(Model):
    """The head that an append expected and the one that was there."""

    scope_variant_id: Name
    expected: Name
    observed: Name


class NoCommitReceipt(
    Record,
    kind=Kind(
        noun="no-commit-receipt",
        table="no_commit_receipts",
        outside=frozenset({"detail"}),
        columns=("authorization_id", "reason"),
        unique=(("authorization_id",),),
    ),
):
    """The journaled proof that one authorization wrote no row; success and this exclude each other.

    `detail` is for people and may quote a database, so it is no part of the identity.
    """

    authorization_id: AuthorizationId
    authorization_digest: Digest
    transition: Name
    reason: NoCommitReason
    detail: Text
    heads: tuple[ObservedHead, ...]
