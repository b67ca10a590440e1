"""A small world in memory whose evidence a test chooses: it is ingested, captured and distilled as in a round."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from importers.published_table import import_run, read_published_table
from memory.campaigns import CampaignPorts, Campaigns
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.policies import Policies
from memory.evidence import Trial, bundle_records
from memory.leases import admission
from memory.ports import all_good
from memory.run_owner import RunOwner
from memory.snapshots.evidence import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import Spine
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.appends import Append
from records.base import Record
from records.flows import Transition
from records.ids import EvidenceSnapshotId, RunId
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.stage import NOW, World
from tests.data.tables import write_table
from tests.data.world import PROFILE, Hosts

POLICIES = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())


class Distilled:
    """A world with one Run that takes evidence; it stays open."""

    def __init__(self, folder: Path, namespace: str = "distilled") -> None:
        """Make empty stores, and admit the Run."""
        table = read_published_table(write_table(folder / "table"))
        ledger, runtime, artifacts = MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts"))
        owner = RunOwner(runtime, ledger, artifacts, lambda: NOW, "test")
        spine = Spine(artifacts, owner, CommitCoordinator(ledger, runtime, artifacts, "test"))
        self.world = World(ledger, runtime, artifacts, table, namespace, owner, spine)
        body = import_run(table, namespace)
        all_good(owner.apply([admission(body, ["import"])]))
        self.run_id: RunId = body.id
        ports = CampaignPorts(
            ledger=ledger, runtime=runtime, artifacts=artifacts, owner=owner, spine=spine, heads=Hosts(ledger),
            clock=lambda: NOW, holder="test",
        )  # fmt: skip
        self.campaigns = Campaigns(ports, POLICIES, PROFILE, namespace)

    def append(self, trials: Iterable[Trial]) -> list[str]:
        """Append the evidence of trials of this Run; return the ids of their Experiences."""
        return self.append_records(bundle_records(trial) for trial in trials)

    def append_records(self, bundles: Iterable[tuple[Record, ...]]) -> list[str]:
        """Append evidence as it is, the Experience last; return the ids of the Experiences."""
        kept = list(bundles)
        appends = [Append.direct(Transition.APPEND_EVIDENCE, f"e/{records[-1].id}", records) for records in kept]
        all_good(self.world.spine.direct(appends))
        return [str(records[-1].id) for records in kept]

    def ingest(self) -> None:
        """Give every Experience its receipt, and every eligible one its item."""
        assert not self.campaigns.ingest(self.run_id, lambda _: None)

    def distil(self) -> None:
        """Capture what the policy admits of what there is, and distil every item in it."""
        assert not self.campaigns.project(lambda _: None)
        world, policy = self.world, POLICIES.distillation
        frontier = world.ledger.namespace_head(world.namespace).evidence
        request = FreezeEvidence(namespace=world.namespace, operation_key=f"at-{frontier}")
        with world.ledger.reading() as reader:
            snapshot, operation = EvidenceSnapshotBuilder(policy).freeze(reader, request)
        captured = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
        all_good(world.spine.direct([captured]))
        distiller = KnowledgeDistiller(world.ledger, POLICIES, lambda: NOW)
        assert not self.campaigns.distil(EvidenceSnapshotId(snapshot.id), distiller, lambda _: None)
