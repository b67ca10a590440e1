"""Evidence: what was tried, seen and independently verified (spec 4, 9; reference 1.1).

An Experience holds ids, never copies: what it says is read from the authoritative rows (VRM-W03). Evidence ids cover
content only; start and end times are kept in the payload but outside the identity, so that the same result read twice
is the same record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from records.base import Child, Frontier, Kind, Record
from records.canonical import domain_digest
from records.fields import Digest, Metric, Name, Text, Timestamp
from records.ids import (
    AttemptId,
    ContextId,
    ContractId,
    EvaluationTaskId,
    ExperienceId,
    HypothesisId,
    InterventionId,
    ObservationId,
    ProvenanceId,
    RunId,
    TaskScopeId,
    VerificationId,
)
from records.models import Model
from records.values import ArtifactRef, Count, DecisionPoint, Knob, MetricSpec, NamedMetric, Signed

Seed = Annotated[int, Field(ge=0, le=2**53 - 1)]


class VerificationKind(StrEnum):
    """How a Verification came about."""

    RECOMPUTED = "recomputed"
    PUBLISHED_RECORD = "published_record"
    ATTESTED = "attested"


class Corpus(StrEnum):
    """What an Attempt was made for; what evaluation produced never enters base knowledge (VRM-L04)."""

    DEVELOPMENT = "development"
    EVALUATION = "evaluation"


class EvaluationContract(
    Record,
    kind=Kind(noun="evaluation-contract", table="evaluation_contracts", columns=("name",)),
):
    """What a result is measured by, by whom, and what makes it invalid.

    `equivalence_margin` tells "no effect" from an effect, in the unit of the primary metric. The evaluator's entry
    point stays here and never enters a Decision Contract View.
    """

    name: Name
    version: Name
    domain: Name
    primary_metric: MetricSpec
    guardrail_metrics: tuple[MetricSpec, ...]
    metric_low: Metric
    metric_high: Metric
    equivalence_margin: Metric
    verification_kind: VerificationKind
    evaluator: Name
    evaluator_digest: Digest
    timeout_seconds: Count
    required_artifacts: tuple[Name, ...]

    @property
    def comparability_digest(self) -> str:
        """The digest that a stratum and a scope hold: all that makes two results comparable."""
        return domain_digest("evaluation-contract-comparability", self.kind.project(self.as_json()))


class Hypothesis(Record, kind=Kind(noun="hypothesis", table="hypotheses", frontier=Frontier.EVIDENCE)):
    """A falsifiable statement about one change in one task scope."""

    task_scope_id: TaskScopeId
    statement: Text
    mechanism: Name
    expected_metric: MetricSpec
    conditions: tuple[Text, ...] = ()
    parent_experience_ids: tuple[ExperienceId, ...] = ()
    citations: tuple[Text, ...] = ()


class AttemptStatus(StrEnum):
    """How an Attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INVALID = "invalid"
    CANCELLED = "cancelled"


class Attempt(
    Record,
    kind=Kind(
        noun="attempt",
        table="attempts",
        frontier=Frontier.EVIDENCE,
        columns=("run_id", "evaluation_task_id", "task_scope_id", "corpus", "seed"),
    ),
):
    """One run of one configuration on one task with one seed."""

    run_id: RunId
    iteration: Count
    hypothesis_id: HypothesisId
    contract_id: ContractId
    evaluation_task_id: EvaluationTaskId
    task_scope_id: TaskScopeId
    dataset_root: Name
    dataset_digest: Digest
    source_digest: Digest
    config_digest: Digest
    model_family: Name
    budget_class: Name
    seed: Seed
    corpus: Corpus
    arm: Name | None
    pair: Name | None
    recall_context_id: ContextId | None
    status: AttemptStatus


class Observation(
    Record,
    kind=Kind(
        noun="observation",
        table="observations",
        frontier=Frontier.EVIDENCE,
        outside=frozenset({"started_at", "completed_at"}),
        children=(Child(path="artifacts", table="observation_artifacts", columns=("role", "sha256", "size_bytes")),),
    ),
):
    """What an Attempt left behind: its artifacts, and its own claims about itself, which nothing relies on."""

    attempt_id: AttemptId
    exit_code: Signed
    claimed_metrics: tuple[NamedMetric, ...]
    artifacts: tuple[ArtifactRef, ...]
    environment_digest: Digest
    error: Text | None
    started_at: Timestamp
    completed_at: Timestamp


class Verification(Record, kind=Kind(noun="verification", table="verifications", frontier=Frontier.EVIDENCE)):
    """The independent evaluator's finding about an Observation under a contract (VRM-W03)."""

    observation_id: ObservationId
    contract_id: ContractId
    verification_kind: VerificationKind
    evaluator_digest: Digest
    valid: bool
    verified_metrics: tuple[NamedMetric, ...]
    violations: tuple[Name, ...]
    evidence_digests: tuple[Digest, ...]

    @model_validator(mode="after")
    def _valid_has_no_violation(self) -> Verification:
        if self.valid == bool(self.violations):
            raise ValueError("a valid verification has no violations, an invalid one names them")
        return self

    def metric(self, name: str) -> float | None:
        """Return a verified metric, in its contract's unit, or None where it was not verified."""
        return next((float(item.value) for item in self.verified_metrics if item.name == name), None)


class Manipulation(StrEnum):
    """What an Intervention really did to the effective configuration."""

    BASELINE = "baseline"
    CHANGED = "changed"
    NO_EFFECT = "no_effect"


class Intervention(Record, kind=Kind(noun="intervention", table="interventions", frontier=Frontier.EVIDENCE)):
    """A typed change of at most one knob within a catalog, with the configuration that came of it."""

    attempt_id: AttemptId
    hypothesis_id: HypothesisId
    decision_point: DecisionPoint
    catalog_digest: Digest
    knob: Knob | None
    baseline_config_digest: Digest
    config_digest: Digest
    manipulation: Manipulation

    @model_validator(mode="after")
    def _manipulation_fits(self) -> Intervention:
        same = self.baseline_config_digest == self.config_digest
        fits = {
            Manipulation.BASELINE: self.knob is None and same,
            Manipulation.CHANGED: self.knob is not None and not same,
            Manipulation.NO_EFFECT: self.knob is not None and same,
        }
        if not fits[self.manipulation]:
            raise ValueError("knob, configuration digests and manipulation contradict each other")
        return self


class TrialProvenance(
    Record,
    kind=Kind(
        noun="trial-provenance", table="trial_provenances", frontier=Frontier.EVIDENCE, unique=(("observation_id",),)
    ),
):
    """The digests that tie an Observation to the Intervention that was really executed (reference 1.1)."""

    attempt_id: AttemptId
    observation_id: ObservationId
    intervention_id: InterventionId
    source_digest: Digest
    config_digest: Digest
    environment_digest: Digest
    dataset_digest: Digest
    contract_digest: Digest
    evaluator_digest: Digest
    evidence_digest: Digest


class Experience(
    Record,
    kind=Kind(noun="experience", table="experiences", frontier=Frontier.EVIDENCE, unique=(("attempt_id",),)),
):
    """One finished experiment as a chain of ids; the unit that distillation considers."""

    hypothesis_id: HypothesisId
    attempt_id: AttemptId
    observation_id: ObservationId
    verification_id: VerificationId | None
    intervention_id: InterventionId | None
    provenance_id: ProvenanceId | None
    analysis: Text


class VerifiedEvidenceBundle(Model):
    """The authoritative records behind one Experience, cross-validated; made only by `policies.bundles`."""

    experience: Experience
    hypothesis: Hypothesis
    attempt: Attempt
    observation: Observation
    verification: Verification
    intervention: Intervention
    provenance: TrialProvenance
    contract: EvaluationContract

    @property
    def digest(self) -> str:
        """The digest over the ids of the eight records, which cover their content."""
        members = (
            self.experience, self.hypothesis, self.attempt, self.observation,
            self.verification, self.intervention, self.provenance, self.contract,
        )  # fmt: skip
        return domain_digest("verified-evidence-bundle", [str(member.id) for member in members])
