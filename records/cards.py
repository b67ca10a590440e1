"""Cards of procedures and of single Experiences (spec 4.8, 9.6); that of a rule is `records.decisions.EvidenceCard`.

Rules kept here: a card is told from another by `source_kind`. A memory card, of a rule or a procedure, names the exact
member of a Knowledge Snapshot. An episodic card names the exact member of an Evidence Snapshot, and has no family, no
lifecycle and no memory id: these are null and can be nothing else, so that it cannot pass for knowledge.
"""

from __future__ import annotations

from typing import Literal

from records.fields import Digest, Metric, Name, Text
from records.ids import (
    CardId,
    EvaluationTaskId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    FamilyId,
    MemoryId,
    RunId,
    ScopeVariantId,
    VerificationId,
)
from records.models import Model, once
from records.procedures import Check, CostEnvelope, Counterexample, FailureMode, Step, ToolRequirement, Trigger
from records.values import Count, DecisionPoint, Disposition, EvidenceStrength, Knob, MetricSpec, NamedMetric


class ProcedureCard(Model):
    """The bounded read model of one procedure for one decision: all of it but the artifacts behind its evidence."""

    namespace: Name
    source_kind: Literal["procedure"] = "procedure"
    memory_id: MemoryId
    memory_digest: Digest
    family_id: FamilyId
    scope_variant_id: ScopeVariantId
    event_id: EventId
    disposition: Disposition
    as_of_position: Count
    applicability: Text
    mechanism: Name
    trigger: Trigger
    catalog_digest: Digest
    preconditions: tuple[Check, ...]
    steps: tuple[Step, ...]
    tools: tuple[ToolRequirement, ...]
    success_checks: tuple[Check, ...]
    manipulation_checks: tuple[Check, ...]
    early_stop_checks: tuple[Check, ...]
    rollback_checks: tuple[Check, ...]
    failure_modes: tuple[FailureMode, ...]
    counterexamples: tuple[Counterexample, ...]
    cost: CostEnvelope
    strength: EvidenceStrength
    supporting: tuple[ExperienceId, ...]
    contradicting: tuple[ExperienceId, ...]
    renderer: Name

    @property
    def headline(self) -> str:
        """What it is about, in one line."""
        return f"{len(self.steps)} steps towards {self.trigger.goal}"

    @once
    def card_id(self) -> CardId:
        """The content id of the card."""
        return CardId.of_bytes(self.canonical)


class EpisodicCard(Model):
    """One verified Experience of the decision's own Run and arm, as it is; it claims nothing beyond itself.

    Attributes:
        evidence_position: the evidence-ledger position as of which the snapshot was captured.
        change: the change that was tried; null for a run that changed nothing.
        verified: what the independent evaluator found, with the violations that make the run invalid, if any.
        failure: the class of the failure, null for a run that worked; `signature` says how it failed.
    """

    namespace: Name
    source_kind: Literal["episodic"] = "episodic"
    memory_id: None = None
    memory_digest: None = None
    family_id: None = None
    scope_variant_id: None = None
    event_id: None = None
    disposition: None = None
    as_of_position: None = None
    experience_id: ExperienceId
    experience_digest: Digest
    evidence_snapshot_id: EvidenceSnapshotId
    bundle_digest: Digest
    verification_id: VerificationId
    evidence_position: Count
    run_id: RunId
    arm: Name | None
    pair: Name | None
    iteration: Count
    evaluation_task_id: EvaluationTaskId
    decision_point: DecisionPoint
    applicability: Text
    hypothesis: Text
    change: Knob | None
    metric: MetricSpec
    value: Metric | None
    verified: tuple[NamedMetric, ...]
    violations: tuple[Name, ...]
    failure: Name | None
    signature: Name | None
    analysis: Text
    renderer: Name

    @property
    def headline(self) -> str:
        """What it is about, in one line."""
        return self.hypothesis

    @once
    def card_id(self) -> CardId:
        """The content id of the card."""
        return CardId.of_bytes(self.canonical)
