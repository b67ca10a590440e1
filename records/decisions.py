"""One decision: contract view, intent, cards, recall context, blocked proof (spec 4.2, 4.8, 4.9, 8.2, 9.6)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from records.base import Child, Kind, Record
from records.cards import EpisodicCard, ProcedureCard
from records.fields import Digest, Metric, Name, Text
from records.ids import (
    ActivityId,
    CardId,
    CitationId,
    ContextId,
    ContractId,
    ContractViewId,
    EvaluationTaskId,
    EventId,
    ExperienceId,
    FamilyId,
    IntentId,
    MemoryId,
    RecallInputId,
    RunId,
    ScopeVariantId,
    TaskScopeId,
)
from records.models import Model, once
from records.values import (
    ActionKind,
    ActorIdentity,
    Count,
    DecisionPoint,
    DecisionTarget,
    Disposition,
    EffectEstimate,
    EvidenceStrength,
    GovernanceBinding,
    MemoryScope,
    MetricSpec,
    PolicyIdentity,
    ReasonCount,
    Signed,
)


class DecisionContractView(Record, kind=Kind(noun="decision-contract-view", table="decision_contract_views")):
    """What an actor may see of an Evaluation Contract: no evaluator, no private data, no labels (spec 9.1)."""

    contract_id: ContractId
    contract_digest: Digest
    primary_metric: MetricSpec
    guardrail_metrics: tuple[MetricSpec, ...]
    equivalence_margin: Metric
    budget_class: Name


class AllowedAction(Model):
    """One action that the catalog allows at this decision: the knob and the value it may be set to."""

    knob: Name
    value: Text


class DecisionIntent(
    Record,
    kind=Kind(
        noun="decision-intent",
        table="decision_intents",
        columns=("run_id", "activity_id", "arm", "pair"),
        unique=(("run_id", "activity_id", "iteration"),),
    ),
):
    """The preallocated identity of one occurrence of a decision; it never contains what the actor answers."""

    run_id: RunId
    activity_id: ActivityId
    iteration: Count
    generation: Count
    arm: Name | None
    pair: Name | None
    evaluation_task_id: EvaluationTaskId
    task_scope_id: TaskScopeId
    research_context_digest: Digest
    contract_view_id: ContractViewId
    decision_point: DecisionPoint
    decision_slot: Name
    artifact_kind: Name
    catalog_digest: Digest
    allowed_action_digest: Digest
    planned_actor: ActorIdentity
    governance: GovernanceBinding


class AllowedTool(Model):
    """A tool that may be used at this decision, at the one version that runs here."""

    tool: Name
    version: Name


class RecallRequest(Model):
    """One typed request for memory; bound to exactly one intent (spec 8.2). `query` is one more signal, no filter.

    What only procedures and episodes ask about (situation, tools, failure signature) is no part of a request that does
    not say it, so that such a request is the one that it was before there were any.
    """

    intent_id: IntentId
    recall_input_id: RecallInputId
    decision_point: DecisionPoint
    scope: MemoryScope
    metric: MetricSpec
    prior_config: tuple[AllowedAction, ...]
    prior_observation: Text | None
    no_prior_observation_reason: Name | None
    allowed_actions: tuple[AllowedAction, ...]
    max_items: Annotated[int, Field(ge=0, le=3)] = 3
    token_budget: Annotated[int, Field(ge=0, le=1200)] = 1200
    query: Text
    situation: Name | None = None
    tools: tuple[AllowedTool, ...] | None = None
    failure_signature: Name | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return {name: value for name, value in values.items() if value is not None or name not in _SAID_OR_ABSENT}

    @model_validator(mode="after")
    def _observation_or_reason(self) -> RecallRequest:
        if (self.prior_observation is None) == (self.no_prior_observation_reason is None):
            raise ValueError("give prior_observation or no_prior_observation_reason, exactly one of them")
        return self


_SAID_OR_ABSENT: Final = frozenset({"situation", "tools", "failure_signature"})


class BlockedTarget(Model):
    """A source that retention denies."""

    target_id: Name
    digest: Digest


class RetentionCheck(Model):
    """What the retention frontier of a namespace denied at one position (spec 8.2, step 2)."""

    frontier: Count
    tombstone_set_digest: Digest
    blocked: tuple[BlockedTarget, ...]


class EvidenceCard(Model):
    """The bounded read model of one memory record for one decision (spec 9.6).

    Its id covers source, applicability, action, effect and citations; neither intent nor rank nor score.
    """

    namespace: Name
    source_kind: Literal["semantic"] = "semantic"
    memory_id: MemoryId
    memory_digest: Digest
    family_id: FamilyId
    scope_variant_id: ScopeVariantId
    event_id: EventId
    disposition: Disposition
    as_of_position: Count
    claim: Text
    applicability: Text
    action: ActionKind
    target: DecisionTarget
    mechanism: Name
    effect: EffectEstimate
    strength: EvidenceStrength
    supporting: tuple[ExperienceId, ...]
    contradicting: tuple[ExperienceId, ...]
    renderer: Name

    @once
    def card_id(self) -> CardId:
        """The content id of the card."""
        return CardId.of_bytes(self.canonical)


Card = Annotated[EvidenceCard | ProcedureCard | EpisodicCard, Field(discriminator="source_kind")]
"""What a decision is shown of one source, told apart by the kind of the source."""


class ScorePart(Model):
    """One ranker feature of a selected card, as an integer of fixed scale, so that no replay can differ."""

    feature: Name
    value: Signed


class ContextItem(Model):
    """One selected card with its place, its citation and why it is there; an episodic one has no memory id."""

    ordinal: Annotated[int, Field(ge=1, le=3)]
    citation_id: CitationId
    card_id: CardId
    memory_id: MemoryId
    card: Card
    score: tuple[ScorePart, ...]
    token_count: Count


def citation_id(intent: IntentId, recall_input: RecallInputId, card: CardId, ordinal: int) -> CitationId:
    """Return the citation of a card at its final place; the context id is left out, which would be a cycle."""
    return CitationId.derive(
        {"intent_id": intent, "recall_input_id": recall_input, "card_id": card, "ordinal": ordinal}
    )


class ContextStatus(StrEnum):
    """How the search ended; a blocked request has no context at all (VRM-R11)."""

    OK = "ok"
    EMPTY = "empty"
    DEGRADED = "degraded"


class RecallContext(
    Record,
    kind=Kind(
        noun="decision-recall-context",
        table="decision_recall_contexts",
        outside=frozenset({"filtered", "candidates"}),
        columns=("status",),
        unique=(("intent_id",),),
        children=(
            Child(
                path="items",
                table="decision_recall_context_items",
                columns=("ordinal", "citation_id", "card_id", "memory_id"),
                unique=("citation_id", "card_id"),
            ),
        ),
    ),
):
    """The bounded, cited set of cards for one intent (spec 9.6, VRM-R03, R04)."""

    intent_id: IntentId
    request_digest: Digest
    recall_input_id: RecallInputId
    query_vector_digest: Digest | None
    retention: RetentionCheck
    status: ContextStatus
    status_reason: Name
    items: Annotated[tuple[ContextItem, ...], Field(max_length=3)]
    rendered_digest: Digest
    token_count: Annotated[int, Field(ge=0, le=1500)]
    candidates: tuple[ReasonCount, ...]
    filtered: tuple[ReasonCount, ...]

    @model_validator(mode="after")
    def _status_fits_items(self) -> RecallContext:
        if (self.status is ContextStatus.OK and not self.items) or (self.status is ContextStatus.EMPTY and self.items):
            raise ValueError("ok has at least one card, empty has none")
        families = [item.card.family_id for item in self.items if item.card.family_id is not None]
        if len(families) != len(set(families)):
            raise ValueError("at most one card per family (VRM-R04)")
        episodes = [item.card.experience_id for item in self.items if isinstance(item.card, EpisodicCard)]
        if len(episodes) != len(set(episodes)):
            raise ValueError("at most one card per Experience (VRM-R04)")
        if [item.ordinal for item in self.items] != list(range(1, len(self.items) + 1)):
            raise ValueError("ordinals count from one without gaps")
        if self.retention.blocked:
            raise ValueError("a context whose sources retention denies is not a context")
        return self


class RequiredMemoryBinding(Model):
    """What an actor was given: one exact context, with the counts of what was rendered (spec 13)."""

    binding: Literal["required"] = "required"
    intent_id: IntentId
    recall_input_id: RecallInputId
    context_id: ContextId
    cards: Count
    tokens: Count


class NoMemoryBinding(Model):
    """The only no-memory input of an actor: the registered nothing of a control arm (spec 13)."""

    binding: Literal["none"] = "none"
    intent_id: IntentId
    governance_digest: Digest
    recall_input_id: None = None
    context_id: None = None
    cards: Literal[0] = 0
    tokens: Literal[0] = 0


def memory_binding(intent: DecisionIntent, context: RecallContext | None) -> RequiredMemoryBinding | NoMemoryBinding:
    """Return what the actor of a decision is given of memory; its digest is part of the Outcome."""
    if context is None:
        return NoMemoryBinding(intent_id=IntentId(intent.id), governance_digest=intent.governance.canonical_digest)
    return RequiredMemoryBinding(
        intent_id=IntentId(intent.id),
        recall_input_id=context.recall_input_id,
        context_id=ContextId(context.id),
        cards=len(context.items),
        tokens=context.token_count,
    )


class BlockedReason(StrEnum):
    """Why a request is blocked (reference 1.2)."""

    REQUEST_INVALID = "blocked_request_invalid"
    IDENTITY_MISMATCH = "blocked_identity_mismatch"
    POLICY_MISMATCH = "blocked_policy_mismatch"
    CORRUPT_INPUT = "blocked_corrupt_input"
    CONTAMINATION = "blocked_contamination"
    PRIVATE_EXPOSURE = "blocked_private_exposure"
    RETENTION_REVOKED = "blocked_retention_revoked"


class InvalidRequestEvidence(Model):
    """The fields that violate the request's form."""

    reason: Literal["blocked_request_invalid"] = "blocked_request_invalid"
    fields: tuple[Name, ...]


class MismatchEvidence(Model):
    """What was expected and what was met, as ids or digests."""

    reason: Literal["blocked_identity_mismatch", "blocked_policy_mismatch"]
    expected: Text
    observed: Text


class CorruptInputEvidence(Model):
    """The object that failed its integrity check."""

    reason: Literal["blocked_corrupt_input"] = "blocked_corrupt_input"
    attempted: Text
    finding: Text


class ExposureEvidence(Model):
    """The visibility rule that was violated and the redacted identities of the offending members."""

    reason: Literal["blocked_contamination", "blocked_private_exposure"]
    rule: Name
    members: tuple[Digest, ...]


class RetentionEvidence(Model):
    """The complete retention check that denies the input."""

    reason: Literal["blocked_retention_revoked"] = "blocked_retention_revoked"
    check: RetentionCheck


BlockedEvidence = Annotated[
    InvalidRequestEvidence | MismatchEvidence | CorruptInputEvidence | ExposureEvidence | RetentionEvidence,
    Field(discriminator="reason"),
]


class BlockedProposal(Model):
    """The only legal blocked source: a content-addressed artifact that the Outcome later binds (spec 8.2)."""

    intent_id: IntentId
    request_digest: Digest
    retrieval_policy: PolicyIdentity
    recall_input_id: RecallInputId | None
    evidence: BlockedEvidence

    @property
    def blocked_reason(self) -> BlockedReason:
        """The closed reason."""
        return BlockedReason(self.evidence.reason)
