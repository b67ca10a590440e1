"""A small world on any pair of adapters: imported evidence, distilled rules, and one decision that used a rule.

Everything is written through the owners, as in a real run: the evidence is an imported table, the rules are what the
policies make of it. Only the planner is missing: its answers are written here.
"""

from __future__ import annotations

from collections.abc import Sequence

from importers.published_table import PublishedTable, import_run, trials
from memory.campaigns import CampaignPorts, Campaigns
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.policies import Policies
from memory.evidence import bundle_records, resolve_bundles
from memory.heads import LifecycleHeads, Reservation
from memory.leases import admission, completion
from memory.ports import all_good
from memory.reserving import HeadsPort
from memory.run_owner import RunOwner
from memory.spine import Spine
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.appends import Append
from records.base import Record
from records.evidence import Experience, VerifiedEvidenceBundle
from records.flows import Transition
from records.ids import (
    EventId,
    EvidenceSnapshotId,
    IndexBuildId,
    KnowledgeSnapshotId,
    MemoryId,
    RunId,
)
from records.ingestion import CaptureOperation, EvidenceSnapshot, SnapshotMember
from records.knowledge import LifecycleEvent
from records.snapshots import IndexBuild, IndexBuildRef, KnowledgeMember, KnowledgeSnapshot, RecallInput
from records.values import (
    CampaignProfile,
    Disposition,
)
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.data.decision import decide
from tests.data.stage import NOW, World, active_rules, digest, one

__all__ = ["NOW", "World", "active_rules", "build_world", "digest", "one"]

PROFILE = CampaignProfile(
    profile="default", workflow="w", drafting_adapter="registered-contrast", budget_class="small", retention="keep"
)


class Hosts:
    """The heads of every variant on one host."""

    def __init__(self, ledger: LedgerStore) -> None:
        """Host them over a Ledger."""
        self._host = LifecycleHeads(ledger, "test")

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        """Take the variants of a plan's events."""
        return [self._host.reserve(namespace, plan, events)]

    def release(self, plan: str) -> None:
        """Let go of a plan's variants."""
        self._host.release(plan)


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
    heads: HeadsPort = Hosts(ledger)
    policies = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())
    ports = CampaignPorts(
        ledger=ledger, runtime=runtime, artifacts=artifacts, owner=owner, spine=spine, heads=heads,
        clock=lambda: NOW, holder="test",
    )  # fmt: skip
    campaigns = Campaigns(ports, policies, PROFILE, namespace)
    distiller = KnowledgeDistiller(ledger, policies, lambda: NOW)
    assert not campaigns.ingest(run_id, lambda _: None)
    assert not campaigns.project(lambda _: None)
    snapshot = _capture(world, policies)
    assert not campaigns.distil(snapshot, distiller, lambda _: None)
    decide(world, _recall_input(world, policies), active_rules(world)[0])
    all_good(owner.apply([completion(run_id)]))
    return world


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


def _recall_input(world: World, policies: Policies) -> RecallInput:
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
        evidence_snapshot_id=None,
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
        evidence_snapshot_id=None,
        retrieval_policy=policy,
        renderer="cards/v1",
        tokenizer="cl100k_base",
        index_builds=(IndexBuildRef(index_build_id=IndexBuildId(index.id), digest=index.payload_digest),),
    )
    _direct(world, Transition.FREEZE_KNOWLEDGE, knowledge)
    _direct(world, Transition.INDEX_RECEIPT, index)
    _direct(world, Transition.COMPOSE_RECALL_INPUT, recall_input)
    return recall_input
