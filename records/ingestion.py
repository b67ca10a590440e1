"""Durable distillation work: receipts, items, assignments, batches, reports, completions (spec 4.14, 8.1, 9.8)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import model_validator

from records.base import Child, Kind, Record
from records.fields import Digest, Name
from records.ids import (
    ActivityId,
    AssignmentId,
    AuthorizationId,
    BatchId,
    CandidateId,
    DecisionId,
    EnqueueAttemptId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    HandoffId,
    ManifestId,
    MemoryId,
    ProfileId,
    ReferenceId,
    ReportId,
    RunId,
    ScopeVariantId,
    TaskScopeId,
    WorkItemId,
)
from records.models import Model
from records.values import Count, Disposition, PolicyIdentity, ProofRef, ReasonCount


class ReceiptDisposition(StrEnum):
    """What ingestion decided about one Experience; `abandoned_before_enqueue` needs a Runtime proof."""

    QUEUED = "queued_for_comparison"
    DEFERRED = "deferred_ineligible"
    NOT_REQUIRED = "not_required"
    ABANDONED = "abandoned_before_enqueue"


class WorkItem(
    Record,
    kind=Kind(noun="distillation-work-item", table="distillation_work_items", unique=(("experience_id",),)),
):
    """The outbox fact that one Experience must be considered; its id is the admission key of its campaign."""

    experience_id: ExperienceId
    task_scope_id: TaskScopeId
    distillation_policy: PolicyIdentity
    lifecycle_policy: PolicyIdentity
    campaign_profile_id: ProfileId
    campaign_profile_digest: Digest


class ExperienceReceipt(
    Record,
    kind=Kind(
        noun="distillation-receipt",
        table="experience_distillation_receipts",
        columns=("disposition",),
        unique=(("experience_id",),),
        discriminator="disposition",
    ),
):
    """The one ingestion disposition of an Experience (VRM-W09), whichever it is."""

    experience_id: ExperienceId
    disposition: ReceiptDisposition
    reasons: tuple[Name, ...]
    policy: PolicyIdentity
    work_item_id: WorkItemId | None


class DistillationReceipt(ExperienceReceipt):
    """What ingestion itself decided about an Experience."""

    disposition: Literal[ReceiptDisposition.QUEUED, ReceiptDisposition.DEFERRED, ReceiptDisposition.NOT_REQUIRED]

    @model_validator(mode="after")
    def _work_item_iff_queued(self) -> DistillationReceipt:
        if (self.disposition is ReceiptDisposition.QUEUED) != (self.work_item_id is not None):
            raise ValueError("work_item_id is given exactly for queued_for_comparison")
        return self


class AbandonedReceipt(ExperienceReceipt):
    """The receipt of an Experience whose item was never enqueued and never will be (spec 8.1, 9.8).

    The abandoned item exists nowhere, so its deterministic id and payload digest are plain values; `proof` is the
    Runtime's proof that the enqueue obligation is over for good.
    """

    disposition: Literal[ReceiptDisposition.ABANDONED] = ReceiptDisposition.ABANDONED
    work_item_id: None = None
    abandoned_work_item_id: WorkItemId
    abandoned_payload_digest: Digest
    proof: ProofRef


class EnqueueTransaction(
    Record, kind=Kind(noun="enqueue-transaction", table="enqueue_transactions", unique=(("work_item_id",),))
):
    """The sidecar of the transaction that queued an item: which handoff attempt held the profile bytes.

    `authorization_digest` is that of the grant under which the Runtime held them; `transaction_digest` covers the
    payload digests of item and receipt, in this order.
    """

    work_item_id: WorkItemId
    handoff_id: HandoffId
    profile_reference_id: ReferenceId
    attempt_id: EnqueueAttemptId
    attempt_generation: Count
    attempt_fence: Count
    authorization_digest: Digest
    transaction_digest: Digest


class WorkAssignment(
    Record,
    kind=Kind(
        noun="distillation-work-assignment",
        table="distillation_work_assignments",
        columns=("run_id",),
        unique=(("work_item_id",), ("activity_id",)),
    ),
):
    """The unique binding of an item to one campaign Run and Activity."""

    work_item_id: WorkItemId
    manifest_id: ManifestId
    run_id: RunId
    activity_id: ActivityId


class Batch(
    Record,
    kind=Kind(noun="distillation-batch", table="distillation_batches", unique=(("work_item_id",),)),
):
    """The exact inputs of one distillation: the item, the snapshot, the comparable members it read, the policies."""

    work_item_id: WorkItemId
    assignment_id: AssignmentId
    evidence_snapshot_id: EvidenceSnapshotId
    experience_ids: tuple[ExperienceId, ...]
    distillation_policy: PolicyIdentity
    lifecycle_policy: PolicyIdentity
    drafting_adapter: Name


class WorkOutcome(StrEnum):
    """What became of one successful item."""

    COVERED = "covered_by_decision"
    NO_COMPARATOR = "deferred_no_comparator"
    NOT_COMPARABLE = "rejected_not_comparable"
    NO_CANDIDATE = "rejected_no_candidate"


class WorkDisposition(
    Record,
    kind=Kind(
        noun="distillation-work-disposition",
        table="distillation_work_dispositions",
        columns=("outcome",),
        unique=(("work_item_id",),),
    ),
):
    """The one disposition of a successful item; only `covered_by_decision` names a Candidate and its Decision."""

    work_item_id: WorkItemId
    batch_id: BatchId
    outcome: WorkOutcome
    candidate_id: CandidateId | None
    decision_id: DecisionId | None

    @model_validator(mode="after")
    def _decision_iff_covered(self) -> WorkDisposition:
        covered = self.outcome is WorkOutcome.COVERED
        if (self.candidate_id is not None) != covered or (self.decision_id is not None) != covered:
            raise ValueError("candidate_id and decision_id are given exactly for covered_by_decision")
        return self


class ActiveView(Model):
    """The head that a scope variant has after a report; rows of the affected-active-view digest (spec 8.1)."""

    scope_variant_id: ScopeVariantId
    memory_id: MemoryId
    event_id: EventId
    disposition: Disposition


class Report(
    Record,
    kind=Kind(noun="distillation-report", table="distillation_reports", unique=(("batch_id",),)),
):
    """The exact results of a batch; authoritative only inside the commit that appends it."""

    batch_id: BatchId
    work_item_id: WorkItemId
    work_outcome: WorkOutcome
    decision_ids: tuple[DecisionId, ...]
    memory_ids: tuple[MemoryId, ...]
    covered_experience_ids: tuple[ExperienceId, ...]
    refused: tuple[Name, ...]
    active_view: tuple[ActiveView, ...]


class CompletionStatus(StrEnum):
    """How a work item ended."""

    COMPLETED = "completed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"


class WorkCompletion(
    Record,
    kind=Kind(
        noun="distillation-work-completion",
        table="distillation_work_completions",
        columns=("status", "run_id"),
        unique=(("work_item_id",),),
    ),
):
    """The terminal reconciliation of an item.

    A completed one is derived after the grant, since it binds the authorization's digest. The others are proposed
    whole: they rest on the control event that ended their Run, and what granted them is said by their receipt.
    """

    work_item_id: WorkItemId
    run_id: RunId
    activity_id: ActivityId
    status: CompletionStatus
    authorization_id: AuthorizationId | None
    authorization_digest: Digest | None
    batch_id: BatchId | None
    report_id: ReportId | None
    report_digest: Digest | None
    terminal_evidence_digest: Digest | None

    @model_validator(mode="after")
    def _matrix(self) -> WorkCompletion:
        done = self.status is CompletionStatus.COMPLETED
        grant = (self.authorization_id, self.authorization_digest)
        bound = (*grant, self.batch_id, self.report_id, self.report_digest)
        if any((part is not None) != done for part in bound) or (self.terminal_evidence_digest is None) != done:
            raise ValueError(
                "completed binds authorization, batch and report, every other status terminal evidence alone"
            )
        return self


class SnapshotMember(Model):
    """One Experience of an Evidence Snapshot with the digest of its bundle."""

    experience_id: ExperienceId
    bundle_digest: Digest


class EvidenceSnapshot(
    Record,
    kind=Kind(
        noun="evidence-snapshot",
        table="evidence_snapshots",
        children=(
            Child(
                path="members",
                table="evidence_snapshot_members",
                columns=("experience_id", "bundle_digest"),
                unique=("experience_id",),
            ),
        ),
    ),
):
    """The exact verified members at one evidence frontier, captured in one read transaction (spec 4.12)."""

    evidence_position: Count
    eligibility_policy: PolicyIdentity
    visibility: Name
    arm: Name | None
    pair: Name | None
    members: tuple[SnapshotMember, ...]
    excluded: tuple[ReasonCount, ...]


class CaptureOperation(
    Record,
    kind=Kind(
        noun="capture-operation",
        table="capture_operations",
        columns=("operation_key",),
        unique=(("namespace", "operation_key"),),
    ),
):
    """Which snapshot a capture operation chose, so that a retry gets the same one (spec 4.12)."""

    operation_key: Name
    request_digest: Digest
    snapshot_id: EvidenceSnapshotId
    evidence_position: Count
