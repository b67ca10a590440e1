"""Structured values that several records share (spec 9.1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from records.fields import Digest, Metric, Name, Text
from records.ids import EvaluationTaskId, ProfileId, TaskScopeId
from records.models import Model

Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Signed = Annotated[int, Field(ge=1 - 2**53, le=2**53 - 1)]
"""Any integer that has a canonical form."""


class DecisionPoint(StrEnum):
    """The typed moments at which memory may inform a decision (spec 4.1); evaluation is none of them."""

    IDEATION = "ideation"
    EXPERIMENT_DESIGN = "experiment_design"
    INTERVENTION = "intervention"
    DIAGNOSIS = "diagnosis"
    WRITING = "writing"


class SourceKind(StrEnum):
    """What a card is made of: a rule, a procedure, or one verified Experience as it is (spec 9.6)."""

    SEMANTIC = "semantic"
    PROCEDURE = "procedure"
    EPISODIC = "episodic"


class Direction(StrEnum):
    """Which way a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class PolicyIdentity(Model):
    """A policy by name, version and the digest of its canonical content."""

    policy_id: Name
    version: Name
    digest: Digest


class ArtifactRef(Model):
    """Bytes in the artifact store: what they are to the record that names them, their digest and size in bytes."""

    role: Name
    sha256: Digest
    size_bytes: Count
    media_type: Text = "application/octet-stream"


class ProofRef(Model):
    """A proof that can be resolved: what it is a proof of or who keeps it, and the digest of its canonical bytes."""

    ref: Name
    digest: Digest


class ReasonCount(Model):
    """How many were refused for one reason code."""

    reason: Name
    count: Count


class NamedMetric(Model):
    """One metric value."""

    name: Name
    value: Metric


class MetricSpec(Model):
    """A metric that a contract speaks of."""

    name: Name
    direction: Direction
    unit: Name


class Knob(Model):
    """One typed change: the governed knob, the value it had and the value it got, each as canonical JSON text."""

    name: Name
    from_value: Text
    to_value: Text


class MemoryScope(Model):
    """Where a rule applies (spec 9.1).

    Exact equality holds on every field that is given; a field left null is unconstrained, which is how a rule
    transfers across datasets, sources and environments (ADR 0003).
    """

    task_scope_id: TaskScopeId
    evaluation_task_id: EvaluationTaskId | None
    domain: Name
    dataset_digest: Digest | None
    source_digest: Digest | None
    model_family: Name | None
    environment_digest: Digest | None
    contract_digest: Digest
    budget_class: Name
    visibility: Name


class DecisionTarget(Model):
    """What a rule speaks about: the point, the governed knob with its change, and the catalog that governs it."""

    decision_point: DecisionPoint
    knob: Knob
    catalog_digest: Digest


class ActionKind(StrEnum):
    """What a rule implies (VRM-W05)."""

    RECOMMEND = "recommend"
    AVOID = "avoid"
    ABSTAIN = "abstain"


class Interval(Model):
    """A closed interval; `level` is its nominal coverage as a share."""

    low: Metric
    high: Metric
    level: Metric


class Guardrail(Model):
    """The effect seen on another metric of the same contract, in the same unit as its values."""

    metric: MetricSpec
    mean_delta: Metric
    unit_count: Count


class EffectEstimate(Model):
    """The effect of a change over effect units (spec 9.1; docs/adr/0030).

    `mean_delta` is changed minus baseline in the metric's unit. `mean_interval` covers the mean of many tasks,
    `prediction_interval` covers one new task; both are null below three units, where `unit_range` is all there is.
    """

    metric: MetricSpec
    baseline_mean: Metric
    changed_mean: Metric
    mean_delta: Metric
    method: Name
    mean_interval: Interval | None
    prediction_interval: Interval | None
    unit_range: tuple[Metric, Metric]
    unit_count: Count
    pair_count: Count
    improved_count: Count
    worsened_count: Count
    tied_count: Count
    p_value: Metric | None
    adjusted_p_value: Metric | None
    guardrails: tuple[Guardrail, ...]


class Grade(StrEnum):
    """The evidence-strength grade: a deterministic class, never a model's probability (spec 9.3)."""

    SINGLE = "single"
    REPLICATED = "replicated"
    STRONG = "strong"
    CONTESTED = "contested"


class EvidenceStrength(Model):
    """The grade with what it was decided on."""

    grade: Grade
    support_count: Count
    counter_count: Count
    paired_comparison_count: Count
    effect_consistency: Metric
    uncertainty_method: Name
    reasons: tuple[Name, ...]


class Disposition(StrEnum):
    """The derived disposition of a memory record (spec 4.7)."""

    PROVISIONAL = "provisional"
    ACTIVE = "active"
    CONTESTED = "contested"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"


class RecallRequirement(StrEnum):
    """Whether the admitted arm asks for memory (spec 4.2)."""

    REQUIRED = "REQUIRED"
    REGISTERED_NOT_REQUESTED = "REGISTERED_NOT_REQUESTED"


class GovernanceBinding(Model):
    """The immutable memory assignment of a Run's arm, copied into each of its Decision Intents."""

    profile_ref: Name
    profile_digest: Digest
    assignment_manifest_digest: Digest
    recall_requirement: RecallRequirement


class ActorIdentity(Model):
    """Who decides: the planner's name and version and the digests of its configuration and template."""

    model: Name
    config_digest: Digest
    template_digest: Digest
    policy: PolicyIdentity


class CampaignProfile(Model):
    """The frozen defaults of a distillation campaign; its bytes live in the Runtime's artifact store (spec 4.14)."""

    profile: Name
    workflow: Name
    drafting_adapter: Name
    budget_class: Name
    retention: Name
    items_per_campaign: Annotated[int, Field(ge=1, le=1)] = 1

    @property
    def id(self) -> ProfileId:
        """The content id of the profile."""
        return ProfileId.derive(self.as_json())
