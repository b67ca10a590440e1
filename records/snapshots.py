"""Knowledge Snapshot, receipts of index builds and of failed ones, Recall Input Snapshot (spec 4.11, 4.13, 8.3, 14)."""

from __future__ import annotations

from enum import StrEnum

from records.base import Child, Kind, Record
from records.fields import Digest, Name, Text
from records.ids import (
    EventId,
    EvidenceSnapshotId,
    FamilyId,
    IndexBuildId,
    KnowledgeSnapshotId,
    MemoryId,
    ScopeVariantId,
)
from records.models import Model
from records.values import ArtifactRef, Count, Disposition, PolicyIdentity


class KnowledgeMember(Model):
    """The selected head of one scope variant."""

    scope_variant_id: ScopeVariantId
    family_id: FamilyId
    memory_id: MemoryId
    event_id: EventId
    disposition: Disposition


class KnowledgeSnapshot(
    Record,
    kind=Kind(
        noun="knowledge-snapshot",
        table="knowledge_snapshots",
        children=(
            Child(
                path="members",
                table="knowledge_snapshot_members",
                columns=("scope_variant_id", "memory_id", "event_id", "disposition"),
                unique=("scope_variant_id",),
            ),
        ),
    ),
):
    """The eligible heads at one lifecycle position under one selection policy, and nothing else (VRM-L05)."""

    lifecycle_position: Count
    selection_policy: PolicyIdentity
    members: tuple[KnowledgeMember, ...]


class IndexBuild(Record, kind=Kind(noun="memory-index-build", table="derived_memory_indexes")):
    """The receipt of one derived index: its sources, its identity and the artifact that holds it."""

    knowledge_snapshot_id: KnowledgeSnapshotId
    evidence_snapshot_id: EvidenceSnapshotId | None
    identity: Name
    identity_digest: Digest
    semantic: bool
    member_digest: Digest
    vector_digest: Digest
    document_count: Count
    artifact: ArtifactRef


class IndexFailureReason(StrEnum):
    """Why an index could not be built."""

    SOURCE_UNREADABLE = "source_unreadable"
    SOURCE_REVOKED = "source_revoked"
    EMBEDDER_UNAVAILABLE = "embedder_unavailable"
    NOT_REPRODUCIBLE = "not_reproducible"
    ARTIFACT_NOT_PUBLISHED = "artifact_not_published"


class IndexFailure(
    Record,
    kind=Kind(
        noun="memory-index-failure",
        table="derived_memory_index_failures",
        outside=frozenset({"detail"}),
        columns=("reason", "operation_key"),
        unique=(("namespace", "operation_key"),),
    ),
):
    """The receipt of a build that failed; a Recall Input names builds by their own noun, so it can never name this.

    One attempt has one operation key, so a later attempt that fails in the same way is another record. `detail` is for
    people and no part of the identity.
    """

    operation_key: Name
    knowledge_snapshot_id: KnowledgeSnapshotId
    evidence_snapshot_id: EvidenceSnapshotId | None
    identity: Name
    identity_digest: Digest
    reason: IndexFailureReason
    detail: Text


class IndexBuildRef(Model):
    """An index build by id and payload digest."""

    index_build_id: IndexBuildId
    digest: Digest


class RecallInput(
    Record,
    kind=Kind(
        noun="recall-input-snapshot",
        table="recall_input_snapshots",
        children=(
            Child(
                path="index_builds",
                table="recall_input_index_builds",
                columns=("index_build_id",),
                unique=("index_build_id",),
            ),
        ),
    ),
):
    """What a Decision Intent really queries: snapshots, policies and ready index builds (spec 4.13)."""

    knowledge_snapshot_id: KnowledgeSnapshotId
    evidence_snapshot_id: EvidenceSnapshotId | None
    retrieval_policy: PolicyIdentity
    renderer: Name
    tokenizer: Name
    index_builds: tuple[IndexBuildRef, ...]
