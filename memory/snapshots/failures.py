"""Receipts of index builds that failed (spec 14, 15).

Rules kept here: a failed attempt is told under a key of its own, so that the next attempt is another record; what was
to be built is named as a receipt of success would name it. A Recall Input names builds by their own noun, so it can
never name a failure.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from memory.index.artifact import IndexIdentity
from memory.index.embedding import Embedder
from memory.recall.memory_index import identity_digest
from records.canonical import domain_digest
from records.errors import ErasedError, IntegrityError, StaleError, UnavailableError, VrmError
from records.ids import EvidenceSnapshotId, KnowledgeSnapshotId
from records.ingestion import EvidenceSnapshot
from records.snapshots import IndexFailure, IndexFailureReason, KnowledgeSnapshot

_DETAIL: Final = 500


def index_failure(
    snapshot: KnowledgeSnapshot,
    evidence: EvidenceSnapshot | None,
    schema: str,
    embedder: Embedder,
    *,
    error: VrmError,
    now: str,
) -> IndexFailure:
    """Return the receipt of a build that failed.

    Args:
        snapshot: the Knowledge Snapshot that was indexed.
        evidence: the Evidence Snapshot, where episodes were.
        schema: the schema of the index that was to be.
        embedder: what was to make the vectors; it may be the very thing that failed.
        error: why there is none.
        now: the time of the attempt, as a record timestamp; one attempt, one record.
    """
    identity = domain_digest("memory-index-identity", {"schema": schema, "embedder": None})
    with suppress(UnavailableError):
        identity = identity_digest(IndexIdentity(embedder_id=embedder.id, dimensions=embedder.dimensions), schema)
    return IndexFailure(
        namespace=snapshot.namespace,
        created_at=now,
        operation_key=f"{schema}:{snapshot.id}:{now}",
        knowledge_snapshot_id=KnowledgeSnapshotId(snapshot.id),
        evidence_snapshot_id=None if evidence is None else EvidenceSnapshotId(evidence.id),
        identity=schema,
        identity_digest=identity,
        reason=_reason(error),
        detail=str(error)[:_DETAIL],
    )


def failure_key(failure: IndexFailure) -> str:
    """Return the operation key under which the receipt of a failure is appended."""
    return f"index-failure:{failure.operation_key}"


def _reason(error: VrmError) -> IndexFailureReason:
    match error:
        case StaleError() | ErasedError():
            return IndexFailureReason.SOURCE_REVOKED
        case IntegrityError():
            return IndexFailureReason.SOURCE_UNREADABLE
        case UnavailableError() if error.field.startswith("artifact"):
            return IndexFailureReason.ARTIFACT_NOT_PUBLISHED
        case UnavailableError():
            return IndexFailureReason.EMBEDDER_UNAVAILABLE
    return IndexFailureReason.NOT_REPRODUCIBLE
