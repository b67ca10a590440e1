"""Build of the derived index of a Knowledge Snapshot (spec 14, VRM-O01, O02).

Rules kept here: the members are exactly the rules of the snapshot, so candidates and ended heads cannot get in
(VRM-W02); its procedures, which no retrieval profile asks for, are left out. The same snapshot and embedder give the
same bytes and the same receipt; hash vectors are refused unless a test says that it wants them, and then the receipt
says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memory.index.embedding import NON_SEMANTIC, Embedder, require_semantic
from memory.recall.memory_index import MEMORY_INDEX, MemoryIndexBuilder, identity_digest
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.ids import KnowledgeSnapshotId
from records.knowledge import GovernedRecord, MemoryRecord
from records.snapshots import IndexBuild, KnowledgeSnapshot
from records.values import ArtifactRef, Disposition
from store.ledger.port import LedgerReader

_READ_AT_ONCE: Final = 1000


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
    builder, count = MemoryIndexBuilder(embedder), 0
    for record, disposition in _members(reader, snapshot):
        builder.add(record, disposition)
        count += 1
    search, data = builder.finish(KnowledgeSnapshotId(snapshot.id))
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
        document_count=count,
        artifact=ArtifactRef(role="memory-index", sha256=digest_bytes(data), size_bytes=len(data)),
    )
    return receipt, data


def index_key(build: IndexBuild) -> str:
    """Return the operation key under which the receipt of a build is appended."""
    return f"index-receipt:{build.id}"


def _members(reader: LedgerReader, snapshot: KnowledgeSnapshot) -> Iterator[tuple[MemoryRecord, Disposition]]:
    """Yield the snapshot's rules in the order of their ids; some are read at a time, for there may be a million."""
    ordered = sorted(snapshot.members, key=lambda member: member.memory_id)
    for begin in range(0, len(ordered), _READ_AT_ONCE):
        part = ordered[begin : begin + _READ_AT_ONCE]
        stored = reader.get_many(member.memory_id for member in part)
        for member in part:
            record = stored[member.memory_id].load() if member.memory_id in stored else None
            if not isinstance(record, GovernedRecord) or record.namespace != snapshot.namespace:
                raise IntegrityError("snapshot member", member.memory_id, "The Ledger does not hold it; run fsck.")
            if isinstance(record, MemoryRecord):
                yield record, member.disposition
