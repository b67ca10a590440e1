"""Build of the derived indexes of a Recall Input: rules, procedures, episodes (spec 14, VRM-O01, O02; docs/adr/0061).

Rules kept here: the members are exactly the rules, or the procedures, of the Knowledge Snapshot, or the members of the
Evidence Snapshot, so candidates and ended heads cannot get in (VRM-W02). The same snapshots and embedder give the same
bytes and the same receipt; hash vectors are refused unless a test says that it wants them, and then the receipt says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from memory.evidence import resolve_bundles
from memory.index.artifact import IndexDocument
from memory.index.embedding import NON_SEMANTIC, Embedder, require_semantic
from memory.index.lexical import TERMS_VERSION
from memory.recall.document import document_text, episode_text, procedure_text
from memory.recall.memory_index import (
    EPISODE_INDEX,
    MEMORY_INDEX,
    PROCEDURE_INDEX,
    IndexRow,
    MemoryIndexBuilder,
    identity_digest,
    memory_row,
)
from memory.trace.watching import indexing
from policies.episodes import Episode
from policies.lane_facts import episode_facts, procedure_facts
from policies.ranker import GRADE_STEPS, constrained_fields
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, KnowledgeSnapshotId
from records.ingestion import EvidenceSnapshot
from records.knowledge import GovernedRecord, MemoryRecord
from records.procedures import ProcedureRecord
from records.snapshots import IndexBuild, KnowledgeSnapshot
from records.values import ArtifactRef, Disposition
from store.ledger.port import LedgerReader

BuildIndex = Callable[[LedgerReader, KnowledgeSnapshot, Embedder], tuple[IndexBuild, bytes]]
"""Builds an index of a Knowledge Snapshot: its receipt and its bytes."""

_READ_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class _Document:
    """One row to be: its id, its text and what the artifact holds of it."""

    id: str
    text: str
    row: IndexRow


@indexing
def build_index(
    reader: LedgerReader,
    snapshot: KnowledgeSnapshot,
    embedder: Embedder,
    *,
    test_index: bool = False,
    rule: str = TERMS_VERSION,
) -> tuple[IndexBuild, bytes]:
    """Return the receipt of the index of a snapshot's rules and its bytes.

    The caller publishes the bytes, then appends the receipt.

    Args:
        reader: read access to the snapshot's members.
        snapshot: what is indexed; it may be empty.
        embedder: turns the members' texts into vectors.
        test_index: allow vectors without meaning; for tests only.
        rule: how texts are split, one of `TERM_RULES`; another than the newest to build again what was built so.

    Raises:
        InvalidInputError: the embedder has no meaning and `test_index` is not set.
        IntegrityError: a member is not in the Ledger.
        UnavailableError: the embedder cannot be used.
    """
    documents = (
        _Document(str(record.id), document_text(record), memory_row(record, disposition))
        for record, disposition in _members(reader, snapshot)
        if isinstance(record, MemoryRecord)
    )
    return _built((MEMORY_INDEX, rule), snapshot, None, documents, embedder, test_index=test_index)


@indexing
def build_procedure_index(
    reader: LedgerReader, snapshot: KnowledgeSnapshot, embedder: Embedder, *, test_index: bool = False
) -> tuple[IndexBuild, bytes]:
    """Return the receipt of the index of a snapshot's procedures and its bytes; as `build_index` does."""
    documents = (
        _Document(str(record.id), procedure_text(record), _procedure_row(record, disposition))
        for record, disposition in _members(reader, snapshot)
        if isinstance(record, ProcedureRecord)
    )
    return _built((PROCEDURE_INDEX, TERMS_VERSION), snapshot, None, documents, embedder, test_index=test_index)


@indexing
def build_episode_index(
    reader: LedgerReader,
    snapshot: KnowledgeSnapshot,
    embedder: Embedder,
    evidence: EvidenceSnapshot,
    *,
    test_index: bool = False,
) -> tuple[IndexBuild, bytes]:
    """Return the receipt of the index of an Evidence Snapshot's members and its bytes; as `build_index` does.

    `snapshot` is the Knowledge Snapshot that it will be composed with, which its identity names (spec 14).
    """
    episodes = sorted(episodes_of(reader, evidence), key=lambda episode: episode.id)
    documents = (_Document(each.id, episode_text(each), _episode_row(each)) for each in episodes)
    return _built((EPISODE_INDEX, TERMS_VERSION), snapshot, evidence, documents, embedder, test_index=test_index)


def episodes_of(reader: LedgerReader, evidence: EvidenceSnapshot) -> list[Episode]:
    """Return the members of an Evidence Snapshot, oldest first, each proved to be the bundle that was captured.

    Raises:
        IntegrityError: a member is not in the Ledger, or is another bundle now.
    """
    held = {member.experience_id: member.bundle_digest for member in evidence.members}
    stored = [item.load() for item in reader.get_many(held).values()]
    bundles = resolve_bundles(reader, (item for item in stored if isinstance(item, Experience)))
    for name, digest in held.items():
        bundle = bundles.get(name)
        if not isinstance(bundle, VerifiedEvidenceBundle) or bundle.digest != digest:
            raise IntegrityError("snapshot member", name, "The Ledger does not hold it as it was captured; run fsck.")
    whole = [bundle for bundle in bundles.values() if isinstance(bundle, VerifiedEvidenceBundle)]
    whole.sort(key=lambda bundle: (bundle.experience.created_at, str(bundle.experience.id)))
    return [Episode(bundle, place) for place, bundle in enumerate(whole)]


def _built(
    rules: tuple[str, str],
    snapshot: KnowledgeSnapshot,
    evidence: EvidenceSnapshot | None,
    documents: Iterable[_Document],
    embedder: Embedder,
    *,
    test_index: bool,
) -> tuple[IndexBuild, bytes]:
    if not test_index:
        require_semantic(embedder.id)
    schema, rule = rules
    builder, count = MemoryIndexBuilder(schema, embedder, rule=rule), 0
    for each in documents:
        builder.add(IndexDocument(each.id, each.text), each.row)
        count += 1  # where nothing comes, it is zero
    sources = {"knowledge_snapshot_id": str(snapshot.id)}
    sources |= {} if evidence is None else {"evidence_snapshot_id": str(evidence.id)}
    search, data = builder.finish(**sources)
    receipt = IndexBuild(
        namespace=snapshot.namespace,
        created_at=max(snapshot.created_at, snapshot.created_at if evidence is None else evidence.created_at),
        knowledge_snapshot_id=KnowledgeSnapshotId(snapshot.id),
        evidence_snapshot_id=None if evidence is None else EvidenceSnapshotId(evidence.id),
        identity=schema,
        identity_digest=identity_digest(search.identity, schema),
        semantic=not embedder.id.startswith(NON_SEMANTIC),
        member_digest=search.members_digest,
        vector_digest=search.vector_digest,
        document_count=count,
        artifact=ArtifactRef(role="memory-index", sha256=digest_bytes(data), size_bytes=len(data)),
    )
    return receipt, data


def _procedure_row(record: ProcedureRecord, disposition: Disposition) -> IndexRow:
    standing = (constrained_fields(record.scope), GRADE_STEPS[record.strength.grade], record.strength.support_count)
    return IndexRow(payload_digest=record.payload_digest, facts=procedure_facts(record, disposition), standing=standing)


def _episode_row(episode: Episode) -> IndexRow:
    return IndexRow(
        payload_digest=episode.bundle.experience.payload_digest,
        facts=episode_facts(episode),
        standing=(constrained_fields(episode.scope), 0, episode.place),
    )


def index_key(build: IndexBuild) -> str:
    """Return the operation key under which the receipt of a build is appended."""
    return f"index-receipt:{build.id}"


def _members(reader: LedgerReader, snapshot: KnowledgeSnapshot) -> Iterator[tuple[GovernedRecord, Disposition]]:
    """Yield the snapshot's records in the order of their ids; some are read at a time, for there may be a million."""
    ordered = sorted(snapshot.members, key=lambda member: member.memory_id)
    for begin in range(0, len(ordered), _READ_AT_ONCE):
        part = ordered[begin : begin + _READ_AT_ONCE]
        stored = reader.get_many(member.memory_id for member in part)
        for member in part:
            record = stored[member.memory_id].load() if member.memory_id in stored else None
            if not isinstance(record, GovernedRecord) or record.namespace != snapshot.namespace:
                raise IntegrityError("snapshot member", member.memory_id, "The Ledger does not hold it; run fsck.")
            yield record, member.disposition
