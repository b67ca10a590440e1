"""Build of the derived index of a Knowledge Snapshot (spec 14, VRM-O01, O02).

Rules kept here: the members are exactly the rules of the snapshot, so candidates and ended heads cannot get in
(VRM-W02); its procedures, which no retrieval profile asks for, are left out. The same snapshot and embedder give the
same bytes and the same receipt; hash vectors are refused unless a test says that it wants them, and then the receipt
says so.
"""

from __future__ import annotations

from memory.index.artifact import IndexDocument
from memory.index.artifact import build_index as build_search_index
from memory.index.embedding import NON_SEMANTIC, Embedder, require_semantic
from memory.recall.document import document_text
from memory.recall.memory_index import MEMORY_INDEX, identity_digest, pack_memory_index
from memory.trace.watching import indexing
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.ids import KnowledgeSnapshotId
from records.knowledge import GovernedRecord, MemoryRecord
from records.snapshots import IndexBuild, KnowledgeSnapshot
from records.values import ArtifactRef, Disposition
from store.ledger.port import LedgerReader


@indexing
def build_index(
    reader: LedgerReader, snapshot: KnowledgeSnapshot, embedder: Embedder, *, test_index: bool = False
) -> tuple[IndexBuild, bytes]:
    """Return the receipt of the index and its bytes; the caller publishes the bytes, then appends the receipt.

    Args:
        reader: read access to the snapshot's members.
        snapshot: what is indexed; it may be empty.
        embedder: turns the members' texts into vectors.
        test_index: allow vectors without meaning; for tests only.

    Raises:
        InvalidInputError: the embedder has no meaning and `test_index` is not set.
        IntegrityError: a member is not in the Ledger.
        UnavailableError: the embedder cannot be used.
    """
    if not test_index:
        require_semantic(embedder.id)
    rows = _members(reader, snapshot)
    search = build_search_index((IndexDocument(str(record.id), document_text(record)) for record, _ in rows), embedder)
    data = pack_memory_index(KnowledgeSnapshotId(snapshot.id), rows, search.data)
    receipt = IndexBuild(
        namespace=snapshot.namespace,
        created_at=snapshot.created_at,
        knowledge_snapshot_id=KnowledgeSnapshotId(snapshot.id),
        evidence_snapshot_id=None,
        identity=MEMORY_INDEX,
        identity_digest=identity_digest(search.identity),
        semantic=not embedder.id.startswith(NON_SEMANTIC),
        member_digest=search.members_digest,
        vector_digest=search.vector_digest,
        document_count=len(rows),
        artifact=ArtifactRef(role="memory-index", sha256=digest_bytes(data), size_bytes=len(data)),
    )
    return receipt, data


def index_key(build: IndexBuild) -> str:
    """Return the operation key under which the receipt of a build is appended."""
    return f"index-receipt:{build.id}"


def _members(reader: LedgerReader, snapshot: KnowledgeSnapshot) -> list[tuple[MemoryRecord, Disposition]]:
    stored = reader.get_many(member.memory_id for member in snapshot.members)
    rows = []
    for member in sorted(snapshot.members, key=lambda member: member.memory_id):
        record = stored[member.memory_id].load() if member.memory_id in stored else None
        if not isinstance(record, GovernedRecord) or record.namespace != snapshot.namespace:
            raise IntegrityError("snapshot member", member.memory_id, "The Ledger does not hold it; run fsck.")
        if isinstance(record, MemoryRecord):
            rows.append((record, member.disposition))
    return rows
