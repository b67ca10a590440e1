"""One coherent sample of every record kind: one experiment, its rule, one decision that it informs, its erasure.

The records refer to each other; `sample_records` gives them in an order in which they can be appended. The rule's
comparator (`baseline_records`) and the second rule of the relation are the only ones outside the set.
"""

from __future__ import annotations

from memory.recall import cards
from records.base import Record
from records.decisions import (
    ContextItem,
    ContextStatus,
    DecisionContractView,
    DecisionIntent,
    EvidenceCard,
    RecallContext,
    RetentionCheck,
    ScorePart,
    citation_id,
    memory_binding,
)
from records.governance import ArmManifest
from records.ids import (
    AttemptId,
    ContextId,
    ContractId,
    ContractViewId,
    EvaluationTaskId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    IndexBuildId,
    IntentId,
    KnowledgeSnapshotId,
    MemoryId,
    OutcomeId,
    RecallInputId,
)
from records.knowledge import (
    MemoryRecord,
    MemoryRelation,
    RelationKind,
)
from records.outcomes import (
    CardDisposition,
    CardReason,
    CardVerdict,
    DecisionStatus,
    ExecutedActor,
    NoCommitReason,
    NoCommitReceipt,
    OutcomeAttemptLink,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
)
from records.runtime import activity_id
from records.snapshots import IndexBuild, IndexBuildRef, KnowledgeMember, KnowledgeSnapshot, RecallInput
from records.values import (
    ArtifactRef,
    DecisionPoint,
    Disposition,
    GovernanceBinding,
    RecallRequirement,
)
from tests.support.lineage_samples import lineage_samples, lineage_variants
from tests.support.reference_samples import reference_samples
from tests.support.samples import (
    ACTOR,
    EFFECT,
    POLICY,
    SECOND_CLAIM,
    STRENGTH,
    Common,
    authorization_id,
    baseline_records,
    by_noun,
    closing,
    ingestion,
    knowledge,
    make_memory,
    run_of,
    scope_of,
)
from tests.support.trials import BALANCED_ACCURACY, digest, make_contract, make_evidence, make_task
from tests.support.variant_samples import further_samples, variant_samples
from tests.support.workspace_samples import workspace_samples


def sample_records(namespace: str = "test") -> dict[str, Record]:
    """Return one record of every kind, by noun, in an order in which they can be appended."""
    common = Common(namespace)
    evidence = make_evidence(namespace)
    baseline = make_evidence(namespace, change=None, seed=1)
    known = {record.kind.noun: record for record in evidence}
    known |= ingestion(common, known)
    known |= knowledge(common, known, ExperienceId(baseline[-1].id))
    known |= closing(common, known)
    known |= _snapshots(common, known)
    known |= _decision(common, known)
    known |= _endings(common, known)
    known |= further_samples(common, known)
    known |= reference_samples(namespace)
    known |= lineage_samples(namespace)
    known |= workspace_samples(namespace)
    return known


def every_variant(namespace: str = "test") -> dict[str, Record]:
    """Return the variants that `sample_records` does not have, as `<noun>/<discriminator>`."""
    baseline = baseline_records(namespace)[-1]
    made = variant_samples(sample_records(namespace), ExperienceId(baseline.id), baseline, namespace)
    return made | lineage_variants(namespace)


def _snapshots(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    memory = known["memory-record"]
    assert isinstance(memory, MemoryRecord)
    member = KnowledgeMember(
        scope_variant_id=memory.scope_variant_id, family_id=memory.family_id, memory_id=MemoryId(memory.id),
        event_id=EventId(known["knowledge-lifecycle-event"].id), disposition=Disposition.ACTIVE,
    )  # fmt: skip
    knowledge = KnowledgeSnapshot(**common.head, lifecycle_position=1, selection_policy=POLICY, members=(member,))
    evidence = EvidenceSnapshotId(known["evidence-snapshot"].id)
    index = IndexBuild(
        **common.head, knowledge_snapshot_id=KnowledgeSnapshotId(knowledge.id), evidence_snapshot_id=evidence,
        identity="bm25+int8", identity_digest=digest("index identity"), semantic=True, member_digest=digest("members"),
        vector_digest=digest("vectors"), document_count=1,
        artifact=ArtifactRef(role="index", sha256=digest("index"), size_bytes=1),
    )  # fmt: skip
    built = IndexBuildRef(index_build_id=IndexBuildId(index.id), digest=index.payload_digest)
    recall_input = RecallInput(
        **common.head, knowledge_snapshot_id=KnowledgeSnapshotId(knowledge.id), evidence_snapshot_id=evidence,
        retrieval_policy=POLICY, renderer="cards/v1", tokenizer="cl100k_base", index_builds=(built,),
    )  # fmt: skip
    return by_noun(knowledge, index, recall_input)


def make_intent(
    common: Common,
    known: dict[str, Record],
    iteration: int = 0,
    required: RecallRequirement = RecallRequirement.REQUIRED,
    manifest: ArmManifest | None = None,
) -> tuple[DecisionContractView, DecisionIntent]:
    """Return a contract view and an intent, which can be admitted if its Run was with `manifest`."""
    contract = make_contract(common.namespace)
    run = run_of(common.namespace).id
    view = DecisionContractView(
        **common.head, contract_id=ContractId(contract.id), contract_digest=contract.comparability_digest,
        primary_metric=BALANCED_ACCURACY, guardrail_metrics=(), equivalence_margin="0.005", budget_class="small",
    )  # fmt: skip
    sample = GovernanceBinding(
        profile_ref="study", profile_digest=digest("profile"), assignment_manifest_digest=digest("manifest"),
        recall_requirement=required,
    )  # fmt: skip
    binding = sample if manifest is None else manifest.binding("memory")
    intent = DecisionIntent(
        **common.head, run_id=run, activity_id=activity_id(run, "decide"), iteration=iteration, generation=1,
        arm="memory", pair="pair-1", evaluation_task_id=EvaluationTaskId(make_task().evaluation_task_id),
        task_scope_id=scope_of(known).task_scope_id, research_context_digest=digest("context"),
        contract_view_id=ContractViewId(view.id), decision_point=DecisionPoint.INTERVENTION,
        decision_slot="intervention", artifact_kind="plan", catalog_digest=digest("catalog"),
        allowed_action_digest=digest("actions"), planned_actor=ACTOR, governance=binding,
    )  # fmt: skip
    return view, intent


def make_card(known: dict[str, Record]) -> EvidenceCard:
    """Return the card of the sample rule."""
    memory = known["memory-record"]
    assert isinstance(memory, MemoryRecord)
    return EvidenceCard(
        namespace=memory.namespace, memory_id=MemoryId(memory.id), memory_digest=memory.payload_digest,
        family_id=memory.family_id, scope_variant_id=memory.scope_variant_id,
        event_id=EventId(known["knowledge-lifecycle-event"].id), disposition=Disposition.ACTIVE, as_of_position=1,
        claim=memory.claim, applicability=memory.scope_description, action=memory.action, target=memory.target,
        mechanism=memory.mechanism, effect=EFFECT, strength=STRENGTH,
        supporting=(ExperienceId(known["experience"].id),), contradicting=(), renderer="cards/v1",
    )  # fmt: skip


def governed_item(known: dict[str, Record], context: RecallContext) -> ContextItem:
    """Return the item of the sample context with the card that its rule makes, which the guard makes again."""
    snapshot, rule = known["knowledge-snapshot"], known["memory-record"]
    assert isinstance(snapshot, KnowledgeSnapshot)
    assert isinstance(rule, MemoryRecord)
    (member,) = [each for each in snapshot.members if each.memory_id == rule.id]
    card = cards.make_card(rule, member, snapshot.lifecycle_position, "cards/v1")
    cited = citation_id(context.intent_id, context.recall_input_id, card.card_id, 1)
    return context.items[0].model_copy(update={"card": card, "card_id": card.card_id, "citation_id": cited})


def _decision(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    view, intent = make_intent(common, known)
    intent_id, recall_input = IntentId(intent.id), RecallInputId(known["recall-input-snapshot"].id)
    card = make_card(known)
    item = ContextItem(
        ordinal=1, citation_id=citation_id(intent_id, recall_input, card.card_id, 1), card_id=card.card_id,
        memory_id=card.memory_id, card=card, score=(ScorePart(feature="rrf", value=3),), token_count=90,
    )  # fmt: skip
    context = RecallContext(
        **common.head, intent_id=intent_id, request_digest=digest("request"), recall_input_id=recall_input,
        query_vector_digest=None, status=ContextStatus.OK, status_reason="ok_cards_returned", items=(item,),
        retention=RetentionCheck(frontier=0, tombstone_set_digest=digest("none"), blocked=()),
        rendered_digest=digest("rendered"), token_count=90, candidates=(), filtered=(),
    )  # fmt: skip
    return by_noun(view, intent, context)


def make_outcome(
    common: Common, intent: DecisionIntent, context: RecallContext | None, source: SourceStatus, reason: OutcomeReason
) -> RecallOutcome:
    """Return a completed outcome that adopts every card of its context."""
    dispositions = tuple(
        CardDisposition(
            citation_id=item.citation_id, card_id=item.card_id, verdict=CardVerdict.ADOPTED,
            reason=CardReason.ADOPTED_APPLICABLE, action_knob="scaler", action_value='"standard"',
        )
        for item in (context.items if context else ())
    )  # fmt: skip
    return RecallOutcome(
        **common.head, intent_id=IntentId(intent.id), run_id=intent.run_id, activity_id=intent.activity_id,
        iteration=intent.iteration, arm=intent.arm, pair=intent.pair, source_status=source, outcome_reason=reason.value,
        context_id=ContextId(context.id) if context else None, decision_status=DecisionStatus.COMPLETED,
        terminal_reason=None, decision_slot=intent.decision_slot, artifact_kind=intent.artifact_kind,
        artifact_committed=True, artifact_digest=digest("plan"), dispositions=dispositions,
        memory_binding_digest=memory_binding(intent, context).canonical_digest, proposed_knob="scaler",
        proposed_value='"standard"', hypothesis_id=None, intervention_id=None,
        effective_config_digest=digest("effective"), blocked_proof_digest=None, closure_event_digest=None,
        terminal_evidence_kind=None, terminal_evidence_digest=None, planned_actor=ACTOR,
        executed_actor=ExecutedActor(model="planner", response_digest=digest("plan"), rendered_prompt_digest=None),
    )  # fmt: skip


def _endings(common: Common, known: dict[str, Record]) -> dict[str, Record]:
    intent, context = known["decision-intent"], known["decision-recall-context"]
    assert isinstance(intent, DecisionIntent)
    assert isinstance(context, RecallContext)
    outcome = make_outcome(common, intent, context, SourceStatus.OK, OutcomeReason.CARDS_RETURNED)
    link = OutcomeAttemptLink(
        **common.head, outcome_id=OutcomeId(outcome.id), attempt_id=AttemptId(known["attempt"].id),
        experience_id=ExperienceId(known["experience"].id), config_digest=digest("effective"),
    )  # fmt: skip
    refusal = NoCommitReceipt(
        **common.head, authorization_id=authorization_id(common.namespace, "refused"),
        authorization_digest=digest("refused"), transition="APPEND_CONTEXT",
        reason=NoCommitReason.RETENTION_FRONTIER_STALE, detail="the retention frontier has moved on", heads=(),
    )  # fmt: skip
    first = known["memory-record"]
    assert isinstance(first, MemoryRecord)
    comparator = ExperienceId(baseline_records(common.namespace)[-1].id)
    second = make_memory(common, known, comparator, SECOND_CLAIM, MemoryId(first.id))[1]
    relation = MemoryRelation(
        **common.head, source_memory_id=MemoryId(second.id), target_memory_id=MemoryId(first.id),
        relation=RelationKind.SUPERSEDES, event_id=EventId(known["knowledge-lifecycle-event"].id), policy=POLICY,
    )  # fmt: skip
    return by_noun(outcome, link, refusal, relation)
