"""A small world on any pair of adapters: imported evidence, distilled rules, and one decision that used a rule.

Everything is written through the owners, as in a real run: the evidence is an imported table, the rules are what the
policies make of it. Only the planner is missing: its answers are written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from importers.published_table import PublishedTable, contract, import_run, task_identities, trials
from memory.campaigns import CampaignPorts, Campaigns, HeadsPort
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.view import Policies
from memory.evidence import bundle_records, resolve_bundles
from memory.heads import LifecycleHeads, Reservation
from memory.leases import admission, completion
from memory.ports import all_good
from memory.run_owner import RunOwner
from memory.spine import Spine
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.retention import check_retention
from records.appends import Append, Proposal
from records.base import Record
from records.canonical import digest_bytes
from records.decisions import (
    ContextItem,
    ContextStatus,
    DecisionContractView,
    DecisionIntent,
    EvidenceCard,
    RecallContext,
    citation_id,
)
from records.evidence import Experience, VerifiedEvidenceBundle
from records.flows import Authority, Transition
from records.ids import (
    ContextId,
    ContractId,
    ContractViewId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    IndexBuildId,
    IntentId,
    KnowledgeSnapshotId,
    MemoryId,
    RecallInputId,
    RunId,
)
from records.ingestion import CaptureOperation, EvidenceSnapshot, SnapshotMember
from records.knowledge import LifecycleEvent, LinkRelation, MemoryRecord
from records.outcomes import (
    CardDisposition,
    CardReason,
    CardVerdict,
    DecisionStatus,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
)
from records.runtime import RunBody, activity_id
from records.snapshots import IndexBuild, IndexBuildRef, KnowledgeMember, KnowledgeSnapshot, RecallInput
from records.states import Machine
from records.values import (
    ActorIdentity,
    CampaignProfile,
    DecisionPoint,
    Disposition,
    GovernanceBinding,
    RecallRequirement,
)
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore

NOW = "2026-01-01T00:00:00.000000Z"
PROFILE = CampaignProfile(
    profile="default", workflow="w", drafting_adapter="registered-contrast", budget_class="small", retention="keep"
)


def digest(text: str) -> str:
    """Return a digest that stands for something outside this world."""
    return digest_bytes(text.encode())


class _Hosts:
    """The heads of every variant on one host."""

    def __init__(self, ledger: LedgerStore) -> None:
        self._host = LifecycleHeads(ledger, "test")

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        return [self._host.reserve(namespace, plan, events)]

    def release(self, plan: str) -> None:
        self._host.release(plan)


@dataclass(frozen=True)
class World:
    """Stores with their owners, and what was written into one namespace."""

    ledger: LedgerStore
    runtime: RuntimeStore
    artifacts: ArtifactStore
    table: PublishedTable
    namespace: str
    owner: RunOwner
    spine: Spine

    @property
    def head(self) -> dict[str, Any]:
        """The two fields that every record begins with."""
        return {"namespace": self.namespace, "created_at": NOW}


def build_world(
    ledger: LedgerStore,
    runtime: RuntimeStore,
    artifacts: ArtifactStore,
    table: PublishedTable,
    namespace: str = "world",
) -> World:
    """Fill a namespace: the table's trials, their rules, one decision with a card; `table` must give an active rule."""
    owner = RunOwner(runtime, ledger, artifacts, lambda: NOW, "test")
    spine = Spine(artifacts, owner, CommitCoordinator(ledger, runtime, artifacts, "test"))
    world = World(ledger, runtime, artifacts, table, namespace, owner, spine)
    run_id = _import(world)
    heads: HeadsPort = _Hosts(ledger)
    policies = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())
    ports = CampaignPorts(ledger=ledger, runtime=runtime, artifacts=artifacts, owner=owner, spine=spine, heads=heads)
    campaigns = Campaigns(ports, policies, PROFILE, namespace)
    distiller = KnowledgeDistiller(ledger, policies, lambda: NOW)
    assert not campaigns.ingest(run_id, lambda _: None)
    assert not campaigns.project(lambda _: None)
    snapshot = _capture(world, policies)
    assert not campaigns.distil(snapshot, distiller, lambda _: None)
    _decide(world, _recall_input(world, policies, snapshot), active_rules(world)[0])
    all_good(owner.apply([completion(run_id)]))
    return world


def active_rules(world: World) -> list[MemoryRecord]:
    """Return the rules whose heads are active, in the order of their variants."""
    heads = world.ledger.variant_heads(world.namespace).values()
    ids = [head.memory_id for head in heads if head.disposition == Disposition.ACTIVE.value]
    loaded = [stored.load() for stored in world.ledger.get_many(ids).values()]
    return [record for record in loaded if isinstance(record, MemoryRecord)]


def one(world: World, noun: str) -> str:
    """Return the id of the first record of a kind."""
    return world.ledger.find(noun, world.namespace)[0].id


def _import(world: World) -> RunId:
    body = import_run(world.table, world.namespace)
    all_good(world.owner.apply([admission(body, ["import"])]))
    appends = []
    for trial in trials(world.table, world.namespace, world.artifacts):
        records = bundle_records(trial)
        appends.append(Append.direct(Transition.APPEND_EVIDENCE, f"import/{records[-1].id}", records))
    all_good(world.spine.direct(appends))
    return body.id


def _capture(world: World, policies: Policies) -> EvidenceSnapshotId:
    loaded = [item.load() for item in world.ledger.find("experience", world.namespace)]
    bundles = resolve_bundles(world.ledger, [item for item in loaded if isinstance(item, Experience)])
    members = tuple(
        SnapshotMember(experience_id=key, bundle_digest=bundle.digest)
        for key, bundle in sorted(bundles.items())
        if isinstance(bundle, VerifiedEvidenceBundle)
    )
    snapshot = EvidenceSnapshot(
        **world.head,
        evidence_position=world.ledger.namespace_head(world.namespace).evidence,
        eligibility_policy=policies.distillation.identity,
        visibility="internal",
        arm=None,
        pair=None,
        members=members,
        excluded=(),
    )
    snapshot_id = EvidenceSnapshotId(snapshot.id)
    operation = CaptureOperation(
        **world.head,
        operation_key="capture-1",
        request_digest=digest("request"),
        snapshot_id=snapshot_id,
        evidence_position=snapshot.evidence_position,
    )
    _direct(world, Transition.CAPTURE_SNAPSHOT, snapshot, operation)
    return snapshot_id


def _direct(world: World, transition: Transition, *records: Record) -> None:
    all_good(world.spine.direct([Append.direct(transition, f"{transition.value}/{records[-1].id}", records)]))


def _recall_input(world: World, policies: Policies, snapshot: EvidenceSnapshotId) -> RecallInput:
    policy = policies.lifecycle.identity
    members = tuple(
        KnowledgeMember(
            scope_variant_id=record.scope_variant_id,
            family_id=record.family_id,
            memory_id=MemoryId(record.id),
            event_id=EventId(world.ledger.variant_heads(world.namespace)[str(record.scope_variant_id)].event_id),
            disposition=Disposition.ACTIVE,
        )
        for record in active_rules(world)
    )
    position = world.ledger.namespace_head(world.namespace).lifecycle
    knowledge = KnowledgeSnapshot(**world.head, lifecycle_position=position, selection_policy=policy, members=members)
    index = IndexBuild(
        **world.head,
        knowledge_snapshot_id=KnowledgeSnapshotId(knowledge.id),
        evidence_snapshot_id=snapshot,
        identity="test",
        identity_digest=digest("identity"),
        semantic=False,
        member_digest=digest("members"),
        vector_digest=digest("vectors"),
        document_count=len(members),
        artifact=world.artifacts.reference("index", b"the bytes of an index"),
    )
    recall_input = RecallInput(
        **world.head,
        knowledge_snapshot_id=KnowledgeSnapshotId(knowledge.id),
        evidence_snapshot_id=snapshot,
        retrieval_policy=policy,
        renderer="cards/v1",
        tokenizer="cl100k_base",
        index_builds=(IndexBuildRef(index_build_id=IndexBuildId(index.id), digest=index.payload_digest),),
    )
    _direct(world, Transition.FREEZE_KNOWLEDGE, knowledge)
    _direct(world, Transition.INDEX_RECEIPT, index)
    _direct(world, Transition.COMPOSE_RECALL_INPUT, recall_input)
    return recall_input


def _decide(world: World, recall_input: RecallInput, rule: MemoryRecord) -> None:
    body = RunBody(
        namespace=world.namespace,
        run_kind="SCIENTIFIC",
        admission_key="study-1",
        specification_digest=digest("study"),
        admitted_at=NOW,
    )
    all_good(world.owner.apply([admission(body, ["decide"])]))
    view, intent = make_intent(world, body, rule)
    propose(world, Transition.APPEND_INTENT, body.id, intent, view, intent)
    context = _context(world, intent, recall_input, rule)
    propose(world, Transition.APPEND_CONTEXT, body.id, intent, context)
    propose(world, Transition.APPEND_OUTCOME, body.id, intent, _outcome(world, intent, context, rule))
    all_good(world.owner.apply([completion(body.id)]))


def make_intent(world: World, body: RunBody, rule: MemoryRecord) -> tuple[DecisionContractView, DecisionIntent]:
    """Return the first decision of a Run, in the scope of a rule."""
    terms = contract(world.table, world.namespace)
    view = DecisionContractView(
        **world.head,
        contract_id=ContractId(terms.id),
        contract_digest=terms.comparability_digest,
        primary_metric=terms.primary_metric,
        guardrail_metrics=(),
        equivalence_margin=terms.equivalence_margin,
        budget_class="small",
    )
    intent = DecisionIntent(
        **world.head,
        run_id=body.id,
        activity_id=activity_id(body.id, "decide"),
        iteration=0,
        generation=1,
        arm="memory",
        pair="pair-1",
        evaluation_task_id=next(iter(task_identities(world.table).values())).evaluation_task_id,
        task_scope_id=rule.scope.task_scope_id,
        research_context_digest=digest("context"),
        contract_view_id=ContractViewId(view.id),
        decision_point=DecisionPoint.INTERVENTION,
        decision_slot="intervention",
        artifact_kind="plan",
        catalog_digest=world.table.catalog.digest,
        allowed_action_digest=digest("actions"),
        planned_actor=_actor(rule),
        governance=GovernanceBinding(
            profile_ref="study",
            profile_digest=digest("profile"),
            assignment_manifest_digest=digest("manifest"),
            recall_requirement=RecallRequirement.REQUIRED,
        ),
    )
    return view, intent


def propose(world: World, transition: Transition, run_id: RunId, intent: DecisionIntent, *records: Record) -> None:
    """Carry a proposal about a decision through the spine; it must commit."""
    subject = world.runtime.subject(Machine.DECISION, str(intent.id))
    proposal = Proposal(
        namespace=world.namespace,
        transition=transition,
        authority=Authority.ADMISSION if transition is Transition.APPEND_INTENT else Authority.NORMAL,
        machine=Machine.DECISION,
        subject_id=str(intent.id),
        run_id=run_id,
        generation=subject.generation if subject else 1,
        fence=subject.fence if subject else 1,
        records=Proposal.bodies(records),
    )
    (receipt,) = all_good(world.spine.carry([proposal]))
    assert receipt.committed, receipt


def _context(world: World, intent: DecisionIntent, recall_input: RecallInput, rule: MemoryRecord) -> RecallContext:
    head = world.ledger.variant_heads(world.namespace)[str(rule.scope_variant_id)]
    card = EvidenceCard(
        namespace=world.namespace,
        memory_id=MemoryId(rule.id),
        memory_digest=rule.payload_digest,
        family_id=rule.family_id,
        scope_variant_id=rule.scope_variant_id,
        event_id=EventId(head.event_id),
        disposition=Disposition.ACTIVE,
        as_of_position=world.ledger.namespace_head(world.namespace).lifecycle,
        claim=rule.claim,
        applicability=rule.scope_description,
        action=rule.action,
        target=rule.target,
        mechanism=rule.mechanism,
        effect=rule.effect,
        strength=rule.strength,
        supporting=_linked(rule, LinkRelation.SUPPORTS),
        contradicting=_linked(rule, LinkRelation.CONTRADICTS),
        renderer="cards/v1",
    )
    input_id = RecallInputId(recall_input.id)
    item = ContextItem(
        ordinal=1,
        citation_id=citation_id(IntentId(intent.id), input_id, card.card_id, 1),
        card_id=card.card_id,
        memory_id=card.memory_id,
        card=card,
        score=(),
        token_count=90,
    )
    return RecallContext(
        **world.head,
        intent_id=IntentId(intent.id),
        request_digest=digest("request"),
        recall_input_id=input_id,
        query_vector_digest=world.artifacts.publish(b"a query vector"),
        retention=check_retention(world.ledger.namespace_head(world.namespace), ()),
        status=ContextStatus.OK,
        status_reason="ok_cards_returned",
        items=(item,),
        rendered_digest=digest("rendered"),
        token_count=90,
        candidates=(),
        filtered=(),
    )


def _linked(rule: MemoryRecord, relation: LinkRelation) -> tuple[ExperienceId, ...]:
    return tuple(link.experience_id for link in rule.links if link.relation is relation)


def _actor(rule: MemoryRecord) -> ActorIdentity:
    return ActorIdentity(
        model="planner",
        config_digest=digest("planner"),
        template_digest=digest("template"),
        policy=rule.distillation_policy,
    )


def _outcome(world: World, intent: DecisionIntent, context: RecallContext, rule: MemoryRecord) -> RecallOutcome:
    (item,) = context.items
    disposition = CardDisposition(
        citation_id=item.citation_id,
        card_id=item.card_id,
        verdict=CardVerdict.ADOPTED,
        reason=CardReason.ADOPTED_APPLICABLE,
        action_knob=rule.target.knob.name,
        action_value=rule.target.knob.to_value,
    )
    return RecallOutcome(
        **world.head,
        intent_id=IntentId(intent.id),
        run_id=intent.run_id,
        activity_id=intent.activity_id,
        iteration=intent.iteration,
        source_status=SourceStatus.OK,
        outcome_reason=OutcomeReason.CARDS_RETURNED.value,
        context_id=ContextId(context.id),
        decision_status=DecisionStatus.COMPLETED,
        terminal_reason=None,
        decision_slot=intent.decision_slot,
        artifact_committed=True,
        artifact_digest=digest("plan"),
        memory_binding_digest=digest("binding"),
        dispositions=(disposition,),
        proposed_knob=rule.target.knob.name,
        proposed_value=rule.target.knob.to_value,
        effective_config_digest=digest("effective"),
        blocked_proof_digest=None,
        closure_event_digest=None,
        terminal_evidence_digest=None,
        planned_actor=intent.planned_actor,
        executed_actor=intent.planned_actor,
    )
