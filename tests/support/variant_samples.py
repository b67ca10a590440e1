"""Samples of the kinds and variants that an ordinary round does not write: procedures, proofs of refusals, erasures.

`variant_samples` gives the variants that `sample_records` has no place for, by noun and value of the discriminator.
"""

from __future__ import annotations

from typing import Any

from records.base import Record
from records.conflicts import HeadConflict, RetentionConflict
from records.decisions import BlockedTarget, RetentionCheck
from records.ids import (
    CandidateId,
    ErasureIntentId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    IndexBuildId,
    KnowledgeSnapshotId,
    ScopeVariantId,
    WorkItemId,
)
from records.ingestion import AbandonedReceipt
from records.knowledge import EventType, LifecycleEvent, MemoryRecord, variant_under
from records.outcomes import ObservedHead
from records.procedures import (
    Action,
    Check,
    Comparison,
    CostBound,
    CostEnvelope,
    Counterexample,
    FailureMode,
    Parameter,
    Procedure,
    ProcedureCandidate,
    ProcedureRecord,
    Step,
    ToolRequirement,
    Trigger,
    TypedValue,
    ValueType,
    procedure_family_id,
)
from records.retention import (
    Acknowledgement,
    AffectedArtifact,
    AffectedIndex,
    ErasureIntent,
    ErasureReason,
    ExternalMaterial,
    MemoryErasureIntent,
    MemoryTombstone,
    OtherErasureIntent,
    OtherTombstone,
    TargetKind,
)
from records.snapshots import IndexFailure, IndexFailureReason
from records.values import ArtifactRef, DecisionPoint, Disposition, ProofRef
from tests.support.samples import (
    POLICY,
    STRENGTH,
    Common,
    authorization_id,
    by_noun,
    link_of,
    make_event,
    scope_of,
)
from tests.support.trials import BALANCED_ACCURACY, digest

MECHANISM = "divergence_control"


def make_check(name: str, observable: str, value: str, kind: ValueType = ValueType.NUMBER, **more: Any) -> Check:
    """Return a check that something is at most a value."""
    expected = TypedValue(type=kind, value=value)
    return Check(name=name, observable=observable, comparison=Comparison.AT_MOST, expected=expected, **more)


def make_procedure(experience: ExperienceId, **changes: Any) -> Procedure:
    """Return a procedure that lowers a learning rate after a divergence."""
    trigger = Trigger(
        decision_point=DecisionPoint.DIAGNOSIS, situation="loss_diverged", goal="finite_loss", metric=BALANCED_ACCURACY
    )
    lower = Action(
        tool="tabular-runner", version="1.2.0", operation="set_knob",
        parameters=(
            Parameter(name="knob", value=TypedValue(type=ValueType.TEXT, value='"learning_rate"')),
            Parameter(name="value", value=TypedValue(type=ValueType.NUMBER, value="0.01")),
        ),
    )  # fmt: skip
    again = Action(tool="tabular-runner", version="1.2.0", operation="run", parameters=())
    fields: dict[str, Any] = {
        "trigger": trigger,
        "catalog_digest": digest("allowlist"),
        "preconditions": (make_check("diverged", "finite_steps", "10", ValueType.INTEGER),),
        "steps": (
            Step(name="lower", purpose="Lower the learning rate.", action=lower),
            Step(name="again", purpose="Run once more.", action=again),
        ),
        "tools": (ToolRequirement(tool="tabular-runner", versions=("1.1.0", "1.2.0")),),
        "success_checks": (make_check("finite", "loss", "10", after_step="again"),),
        "manipulation_checks": (make_check("lowered", "learning_rate", "0.01", after_step="lower"),),
        "early_stop_checks": (make_check("hopeless", "repeats", "3", ValueType.INTEGER),),
        "rollback_checks": (),
        "failure_modes": (FailureMode(code="too_slow", detail="It no longer learns.", experience_ids=(experience,)),),
        "counterexamples": (Counterexample(experience_id=experience, detail="The data were at fault."),),
        "cost": CostEnvelope(
            budget_class="small", bounds=(CostBound(resource="wall", unit="s", expected="30", limit="60"),)
        ),
        "artifacts": (ArtifactRef(role="trajectory", sha256=digest("trajectory"), size_bytes=9),),
    }
    return Procedure(**(fields | changes))


def make_procedure_record(
    common: Common, known: dict[str, Record], comparator: ExperienceId, **changes: Any
) -> tuple[ProcedureCandidate, ProcedureRecord]:
    """Return a procedure's candidate and the record that it became."""
    link = link_of(known, comparator)
    procedure, scope = make_procedure(link.experience_id, **changes), scope_of(known)
    family = procedure_family_id(common.namespace, procedure.trigger, MECHANISM)
    variant = variant_under(common.namespace, family, scope, procedure.catalog_digest)
    candidate = ProcedureCandidate(
        **common.head, proposed_family_id=family, proposed_scope_variant_id=variant,
        evidence_snapshot_id=EvidenceSnapshotId(known["evidence-snapshot"].id), experience_ids=(link.experience_id,),
        scope=scope, mechanism=MECHANISM, links=(link,), drafting_adapter="trajectories", policy=POLICY, findings=(),
        procedure=procedure,
    )  # fmt: skip
    record = ProcedureRecord(
        **common.head, family_id=family, scope_variant_id=variant, prior_memory_id=None,
        candidate_id=CandidateId(candidate.id), scope=scope, scope_description="small multiclass tables",
        mechanism=MECHANISM, strength=STRENGTH, links=(link,), distillation_policy=POLICY, procedure=procedure,
    )  # fmt: skip
    return candidate, record


def make_conflict(common: Common, name: str = "stale") -> HeadConflict:
    """Return the conflict of a commit that found another head."""
    head = ObservedHead(
        scope_variant_id=str(ScopeVariantId.derive({"variant": 1})), expected="GENESIS", observed="observed-event"
    )
    return HeadConflict(
        **common.head, authorization_id=authorization_id(common.namespace, name),
        authorization_digest=digest(name), detail="1 expected heads have moved on", heads=(head,),
    )  # fmt: skip


def make_revocation(common: Common, target: Record, name: str = "revoked") -> RetentionConflict:
    """Return the conflict of a commit that rests on what retention denies."""
    blocked = BlockedTarget(target_id=str(target.id), digest=target.payload_digest)
    check = RetentionCheck(frontier=5, tombstone_set_digest=digest("denied"), blocked=(blocked,))
    return RetentionConflict(
        **common.head, authorization_id=authorization_id(common.namespace, name),
        authorization_digest=digest(name), detail="retention denies a source", retention=check,
    )  # fmt: skip


def make_retraction(common: Common, memory: MemoryRecord, prior: str) -> LifecycleEvent:
    """Return the event that ends a rule whose material is erased."""
    return make_event(common, memory, EventType.RETRACTED, Disposition.RETRACTED, prior)


def _erasure(common: Common, incident: str, indexes: tuple[Record, ...] = ()) -> dict[str, Any]:
    affected = tuple(
        AffectedIndex(index_build_id=IndexBuildId(build.id), digest=build.payload_digest) for build in indexes
    )
    return common.head | {
        "incident": incident,
        "reason": ErasureReason.PRIVACY_REQUEST,
        "material": ExternalMaterial(store="artifacts", object_ref=f"raw/{incident}", generation=3),
        "affected_indexes": affected,
        "affected_artifacts": tuple(AffectedArtifact(sha256=digest("index")) for _ in affected),
        "policy": POLICY,
    }


def make_memory_intent(
    common: Common, memory: Record, retraction: LifecycleEvent, indexes: tuple[Record, ...] = ()
) -> MemoryErasureIntent:
    """Return the intent to erase a rule's material, with the index builds that hold it."""
    return MemoryErasureIntent(
        **_erasure(common, "incident-1", indexes), target_id=str(memory.id), target_digest=memory.payload_digest,
        retraction_event_id=EventId(retraction.id),
    )  # fmt: skip


def make_evidence_intent(common: Common, observation: Record, indexes: tuple[Record, ...] = ()) -> OtherErasureIntent:
    """Return the intent to erase an observation's material."""
    return OtherErasureIntent(
        **_erasure(common, "incident-2", indexes), target_kind=TargetKind.OBSERVATION, target_id=str(observation.id),
        target_digest=observation.payload_digest,
    )  # fmt: skip


def make_tombstone(common: Common, intent: ErasureIntent) -> MemoryTombstone | OtherTombstone:
    """Return the tombstone of an intent, with proofs that were never published."""
    fields: dict[str, Any] = common.head | {
        "intent_id": ErasureIntentId(intent.id),
        "incident": intent.incident,
        "target_id": intent.target_id,
        "target_digest": intent.target_digest,
        "reason": intent.reason,
        "erasure_receipt": ProofRef(ref=f"erasure/{intent.incident}", digest=digest(f"erased {intent.incident}")),
        "acknowledgements": tuple(
            Acknowledgement(affected=name, proof=ProofRef(ref=f"invalidated/{place}", digest=digest(f"gone {name}")))
            for place, name in enumerate(intent.affected)
        ),
    }
    if isinstance(intent, MemoryErasureIntent):
        return MemoryTombstone(**fields, retraction_event_id=intent.retraction_event_id)
    assert isinstance(intent, OtherErasureIntent)
    return OtherTombstone(**fields, target_kind=intent.target_kind)


def make_abandoned(common: Common, experience: Record) -> AbandonedReceipt:
    """Return the receipt of an Experience whose item was never enqueued."""
    return AbandonedReceipt(
        **common.head, experience_id=ExperienceId(experience.id), reasons=("source_run_cancelled",), policy=POLICY,
        abandoned_work_item_id=WorkItemId.derive({"abandoned": 1}), abandoned_payload_digest=digest("item"),
        proof=ProofRef(ref="abandoned/1", digest=digest("abandoned")),
    )  # fmt: skip


def make_index_failure(common: Common, known: dict[str, Record]) -> IndexFailure:
    """Return the receipt of a build that failed."""
    return IndexFailure(
        **common.head, operation_key="build-1", evidence_snapshot_id=None,
        knowledge_snapshot_id=KnowledgeSnapshotId(known["knowledge-snapshot"].id), identity="bm25+int8",
        identity_digest=digest("index identity"),
        reason=IndexFailureReason.EMBEDDER_UNAVAILABLE, detail="The model could not be loaded.",
    )  # fmt: skip


def further_samples(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    """Return the kinds that no ordinary round writes, in an order in which they can be appended."""
    memory, build = known["memory-record"], known["memory-index-build"]
    assert isinstance(memory, MemoryRecord)
    retraction = make_retraction(common, memory, str(known["knowledge-lifecycle-event"].id))
    intent = make_memory_intent(common, memory, retraction, (build,))
    failure, conflict = make_index_failure(common, known), make_conflict(common)
    return by_noun(failure, conflict, intent, make_tombstone(common, intent))


def variant_samples(
    known: dict[str, Record], comparator: ExperienceId, abandoned: Record, namespace: str = "test"
) -> dict[str, Record]:
    """Return one record of each variant that `sample_records` does not have, as `<noun>/<discriminator>`."""
    common = Common(namespace)
    candidate, procedure = make_procedure_record(common, known, comparator)
    intent = make_evidence_intent(common, known["observation"], (known["memory-index-build"],))
    records: tuple[Record, ...] = (
        make_abandoned(common, abandoned), candidate, procedure, make_revocation(common, known["experience"]),
        intent, make_tombstone(common, intent),
    )  # fmt: skip
    return {name_of(record): record for record in records}


def name_of(record: Record) -> str:
    """Return noun and discriminator of a record of a kind that has variants."""
    assert record.kind.discriminator is not None
    return f"{record.kind.noun}/{getattr(record, record.kind.discriminator)}"
