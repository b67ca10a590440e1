"""Samples of the records of evidence, ingestion and knowledge: one experiment and the rule that comes of it.

`tests.support.decision_samples` goes on with the decision that the rule informs, and gives the whole set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from records.base import Record
from records.ids import (
    AuthorizationId,
    BatchId,
    CandidateId,
    DecisionId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    InterventionId,
    ManifestId,
    MemoryId,
    ObservationId,
    ProvenanceId,
    ReportId,
    StratumId,
    SupportUnitId,
    TaskScopeId,
    VerificationId,
    WorkItemId,
)
from records.ingestion import (
    ActiveView,
    Batch,
    CaptureOperation,
    CompletionStatus,
    DistillationReceipt,
    EnqueueTransaction,
    EvidenceSnapshot,
    ReceiptDisposition,
    Report,
    SnapshotMember,
    WorkAssignment,
    WorkCompletion,
    WorkDisposition,
    WorkItem,
    WorkOutcome,
)
from records.knowledge import (
    DecisionKind,
    DistillationDecision,
    EventType,
    EvidenceLink,
    GovernedRecord,
    KnowledgeCandidate,
    LifecycleEvent,
    LinkRelation,
    MemoryRecord,
    family_id,
    scope_variant_id,
)
from records.runtime import RunBody, activity_id, enqueue_attempt_id, handoff_id, reference_id
from records.values import (
    ActionKind,
    ActorIdentity,
    CampaignProfile,
    DecisionPoint,
    DecisionTarget,
    Disposition,
    EffectEstimate,
    EvidenceStrength,
    Grade,
    Knob,
    MemoryScope,
    PolicyIdentity,
)
from tests.support.trials import BALANCED_ACCURACY, NOW, digest, make_contract, make_evidence, make_task

POLICY = PolicyIdentity(policy_id="distillation", version="1", digest=digest("policy"))
PROFILE = CampaignProfile(
    profile="default", workflow="w", drafting_adapter="registered-contrast", budget_class="small", retention="keep"
)
ACTOR = ActorIdentity(
    model="planner", config_digest=digest("planner"), template_digest=digest("template"), policy=POLICY
)
TARGET = DecisionTarget(
    decision_point=DecisionPoint.INTERVENTION,
    knob=Knob(name="scaler", from_value='"none"', to_value='"standard"'),
    catalog_digest=digest("catalog"),
)
EFFECT = EffectEstimate(
    metric=BALANCED_ACCURACY, baseline_mean="0.7", changed_mean="0.75", mean_delta="0.05", method="t-interval",
    mean_interval=None, prediction_interval=None, unit_range=("0.05", "0.05"), unit_count=1, pair_count=1,
    improved_count=1, worsened_count=0, tied_count=0, p_value=None, adjusted_p_value=None, guardrails=(),
)  # fmt: skip
STRENGTH = EvidenceStrength(
    grade=Grade.SINGLE, support_count=1, counter_count=0, paired_comparison_count=1, effect_consistency="1",
    uncertainty_method="t-interval", reasons=(),
)  # fmt: skip


SECOND_CLAIM = "Standard scaling helps on small tables of any class balance."


@dataclass(frozen=True)
class Common:
    """What every record of a set begins with."""

    namespace: str
    created_at: str = NOW

    @property
    def head(self) -> dict[str, Any]:
        """The two fields as keyword arguments."""
        return {"namespace": self.namespace, "created_at": self.created_at}


def run_of(namespace: str, specification: str | None = None) -> RunBody:
    """Return an admitted Run; one that takes decisions is specified by its arm manifest."""
    return RunBody(
        namespace=namespace,
        run_kind="SCIENTIFIC",
        admission_key="study-1",
        specification_digest=specification or digest("specification"),
        admitted_at=NOW,
    )


def authorization_id(namespace: str, name: str = "grant") -> AuthorizationId:
    """Return the id that an authorization could have."""
    return AuthorizationId.derive({"namespace": namespace, "name": name})


def baseline_records(namespace: str = "test") -> tuple[Record, ...]:
    """Return the evidence of the baseline trial that the sample rule compares with; append it first."""
    return make_evidence(namespace, change=None, seed=1)


def by_noun(*records: Record) -> dict[str, Record]:
    """Return records by noun, in the order given."""
    return {record.kind.noun: record for record in records}


def ingestion(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    """Return work item, receipt, sidecar, assignment, snapshot and capture of the sample experience."""
    experience = ExperienceId(known["experience"].id)
    item = WorkItem(
        **common.head,
        experience_id=experience,
        task_scope_id=make_task().task_scope_id,
        distillation_policy=POLICY,
        lifecycle_policy=POLICY,
        campaign_profile_id=PROFILE.id,
        campaign_profile_digest=PROFILE.canonical_digest,
    )
    work_item_id = WorkItemId(item.id)
    receipt = DistillationReceipt(
        **common.head, experience_id=experience, disposition=ReceiptDisposition.QUEUED, reasons=(), policy=POLICY,
        work_item_id=work_item_id,
    )  # fmt: skip
    sidecar = EnqueueTransaction(
        **common.head, work_item_id=work_item_id, handoff_id=handoff_id(work_item_id),
        profile_reference_id=reference_id("owner", PROFILE.canonical_digest), attempt_generation=1, attempt_fence=1,
        attempt_id=enqueue_attempt_id(handoff_id(work_item_id), 1, 1), authorization_digest=digest("grant"),
        transaction_digest=digest("order"),
    )  # fmt: skip
    run = run_of(common.namespace).id
    assignment = WorkAssignment(
        **common.head, work_item_id=work_item_id, manifest_id=ManifestId.derive({"work_item_id": work_item_id}),
        run_id=run, activity_id=activity_id(run, "distil"),
    )  # fmt: skip
    member = SnapshotMember(experience_id=experience, bundle_digest=digest("bundle"))
    snapshot = EvidenceSnapshot(
        **common.head, evidence_position=8, eligibility_policy=POLICY, visibility="public", arm=None, pair=None,
        members=(member,), excluded=(),
    )  # fmt: skip
    capture = CaptureOperation(
        **common.head, operation_key="capture-1", request_digest=digest("capture"),
        snapshot_id=EvidenceSnapshotId(snapshot.id), evidence_position=8,
    )  # fmt: skip
    return by_noun(item, receipt, sidecar, assignment, snapshot, capture)


def scope_of(known: dict[str, Record]) -> MemoryScope:
    """Return the scope of the sample rule."""
    contract = make_contract(known["experience"].namespace)
    return MemoryScope(
        task_scope_id=TaskScopeId(make_task().task_scope_id), evaluation_task_id=None, domain="tabular",
        dataset_digest=None, source_digest=None, model_family="svc", environment_digest=None,
        contract_digest=contract.comparability_digest, budget_class="small", visibility="public",
    )  # fmt: skip


def link_of(known: dict[str, Record], comparator: ExperienceId) -> EvidenceLink:
    """Return the link from the sample rule to the sample experience."""
    return EvidenceLink(
        experience_id=ExperienceId(known["experience"].id), comparator_id=comparator,
        observation_id=ObservationId(known["observation"].id),
        verification_id=VerificationId(known["verification"].id),
        intervention_id=InterventionId(known["intervention"].id),
        provenance_id=ProvenanceId(known["trial-provenance"].id), relation=LinkRelation.SUPPORTS,
        support_unit_id=SupportUnitId.derive({"unit": 1}), stratum_id=StratumId.derive({"stratum": 1}),
    )  # fmt: skip


def make_memory(
    common: Common, known: dict[str, Record], comparator: ExperienceId, claim: str, prior: MemoryId | None = None
) -> tuple[KnowledgeCandidate, MemoryRecord]:
    """Return a candidate and the rule that it became; `claim` makes versions differ."""
    family = family_id(common.namespace, TARGET, BALANCED_ACCURACY.name, "feature_scaling")
    scope = scope_of(known)
    variant = scope_variant_id(common.namespace, family, scope, TARGET)
    link = link_of(known, comparator)
    candidate = KnowledgeCandidate(
        **common.head, proposed_family_id=family, proposed_scope_variant_id=variant,
        evidence_snapshot_id=EvidenceSnapshotId(known["evidence-snapshot"].id), experience_ids=(link.experience_id,),
        scope=scope, target=TARGET, mechanism="feature_scaling", claim=claim, effect=EFFECT, links=(link,),
        drafting_adapter="registered-contrast", policy=POLICY, findings=(),
    )  # fmt: skip
    memory = MemoryRecord(
        **common.head, family_id=family, scope_variant_id=variant, prior_memory_id=prior,
        candidate_id=CandidateId(candidate.id), scope=scope, scope_description="small multiclass tables",
        target=TARGET, mechanism="feature_scaling", claim=claim, action=ActionKind.RECOMMEND, effect=EFFECT,
        strength=STRENGTH, links=(link,), distillation_policy=POLICY,
    )  # fmt: skip
    return candidate, memory


def make_event(
    common: Common, memory: GovernedRecord, event_type: EventType, disposition: Disposition, prior: str = "GENESIS"
) -> LifecycleEvent:
    """Return a lifecycle event of a rule."""
    snapshot = EvidenceSnapshotId(sample_snapshot_id(common.namespace))
    return LifecycleEvent(
        **common.head, memory_id=MemoryId(memory.id), family_id=memory.family_id,
        scope_variant_id=memory.scope_variant_id, event_type=event_type, disposition=disposition,
        expected_prior="GENESIS" if prior == "GENESIS" else EventId(prior), reasons=("test",), evidence_ids=(),
        evidence_snapshot_id=snapshot, policy=POLICY,
    )  # fmt: skip


def sample_snapshot_id(namespace: str) -> str:
    """Return the id of the sample's Evidence Snapshot."""
    known = by_noun(*make_evidence(namespace))
    return str(ingestion(Common(namespace), known)["evidence-snapshot"].id)


def knowledge(common: Common, known: dict[str, Record], comparator: ExperienceId) -> dict[str, Record]:
    """Return candidate, rule, event and decision."""
    candidate, memory = make_memory(common, known, comparator, "Standard scaling helps on small tables.")
    event = make_event(common, memory, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE)
    decision = DistillationDecision(
        **common.head, candidate_id=CandidateId(candidate.id), decision=DecisionKind.PROMOTED_ACTIVE, reasons=(),
        memory_id=MemoryId(memory.id), policy=POLICY, policy_set_digest=digest("policies"),
    )  # fmt: skip
    return by_noun(candidate, memory, event, decision)


def closing(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    """Return batch, disposition, report and completion."""
    item, assignment = WorkItemId(known["distillation-work-item"].id), known["distillation-work-assignment"]
    memory, event = known["memory-record"], known["knowledge-lifecycle-event"]
    assert isinstance(memory, MemoryRecord)
    assert isinstance(assignment, WorkAssignment)
    experience = ExperienceId(known["experience"].id)
    batch = Batch(
        **common.head, work_item_id=item, assignment_id=assignment.kind.id_class(assignment.id),  # type: ignore[arg-type]
        evidence_snapshot_id=EvidenceSnapshotId(known["evidence-snapshot"].id), experience_ids=(experience,),
        distillation_policy=POLICY, lifecycle_policy=POLICY, drafting_adapter="registered-contrast",
    )  # fmt: skip
    decision = DecisionId(known["distillation-decision"].id)
    disposition = WorkDisposition(
        **common.head, work_item_id=item, batch_id=BatchId(batch.id), outcome=WorkOutcome.COVERED,
        candidate_id=CandidateId(known["knowledge-candidate"].id), decision_id=decision,
    )  # fmt: skip
    view = ActiveView(
        scope_variant_id=memory.scope_variant_id, memory_id=MemoryId(memory.id), event_id=EventId(event.id),
        disposition=Disposition.ACTIVE,
    )  # fmt: skip
    report = Report(
        **common.head, batch_id=BatchId(batch.id), work_item_id=item, work_outcome=WorkOutcome.COVERED,
        decision_ids=(decision,), memory_ids=(MemoryId(memory.id),), covered_experience_ids=(experience,), refused=(),
        active_view=(view,),
    )  # fmt: skip
    completion = WorkCompletion(
        **common.head, work_item_id=item, run_id=assignment.run_id, activity_id=assignment.activity_id,
        status=CompletionStatus.COMPLETED, authorization_id=authorization_id(common.namespace, "commit"),
        authorization_digest=digest("authorization"), batch_id=BatchId(batch.id), report_id=ReportId(report.id),
        report_digest=report.payload_digest, terminal_evidence_digest=None,
    )  # fmt: skip
    return by_noun(batch, disposition, report, completion)


def ids_of(records: Iterable[Record]) -> list[str]:
    """Return the ids of records as text."""
    return [str(record.id) for record in records]
