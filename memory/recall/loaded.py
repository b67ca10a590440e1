"""A Recall Input read from the Ledger and the artifact store, and proved to be what its receipts say.

Rules kept here (spec 8.2, stages 1 to 3; section 15):

- metadata first, then the retention check, and only then the artifact: what retention denies is not even opened;
- every digest on the way is compared: build receipt, artifact, members, vectors, snapshot membership;
- what does not hold comes back as evidence for a blocked proposal, without free text and without content; it is never
  an empty result. A store that cannot be reached is an error, for nothing was found out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from memory.index.framing import Buffer, view_of
from memory.recall.cards import Queried
from memory.recall.memory_index import SCHEMAS, MemoryIndex, identity_digest
from memory.retention import denied_at, input_sources
from policies.retention import check_retention
from records.appends import NamespaceHead
from records.decisions import BlockedTarget, CorruptInputEvidence, RetentionCheck, RetentionEvidence
from records.errors import IntegrityError, InvalidRecordError, NotFoundError
from records.ids import MemoryId, RecallInputId
from records.ingestion import EvidenceSnapshot
from records.models import Id
from records.procedures import ProcedureRecord
from records.snapshots import IndexBuild, KnowledgeMember, KnowledgeSnapshot, RecallInput
from records.values import SourceKind
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

Denials = Callable[[LedgerReader, NamespaceHead], Iterable[BlockedTarget]]
"""Reads the sources that retention denies in a namespace that stands at a head."""


class ReadableLedger(Protocol):
    """The Ledger as recall sees it."""

    def reading(self) -> AbstractContextManager[LedgerReader]:
        """Open one read transaction."""


@dataclass(frozen=True, slots=True, eq=False)
class InputMetadata:
    """What the Ledger says about a Recall Input, without content."""

    recall_input: RecallInput
    snapshot: KnowledgeSnapshot
    builds: Mapping[SourceKind, IndexBuild]
    evidence: EvidenceSnapshot | None = None

    @property
    def build(self) -> IndexBuild:
        """The build of the rules, which every Recall Input has."""
        return self.builds[SourceKind.SEMANTIC]

    @property
    def sources(self) -> frozenset[str]:
        """Every id and digest that retention may deny: the input, its snapshots, builds, artifacts, members, events."""
        return input_sources(self.recall_input, self.snapshot, self.builds.values(), self.evidence)

    def require_evidence(self) -> EvidenceSnapshot:
        """Return the Evidence Snapshot of an input whose episodes were searched.

        Raises:
            ValueError: there is none; the caller has an episode from elsewhere.
        """
        if self.evidence is None:
            raise ValueError("the input has no evidence snapshot")
        return self.evidence


@dataclass(frozen=True, slots=True, eq=False)
class LoadedInput:
    """A Recall Input ready to be searched; immutable, safe to share between threads.

    Attributes:
        index: the rules.
        further: the other kinds of source that were built and that some profile may show.
    """

    metadata: InputMetadata
    index: MemoryIndex
    members: dict[MemoryId, KnowledgeMember]
    sources: frozenset[str]
    further: Mapping[SourceKind, MemoryIndex] = field(default_factory=dict)

    @property
    def lanes(self) -> dict[SourceKind, MemoryIndex]:
        """Every index by the kind of source that it holds, rules first."""
        return {SourceKind.SEMANTIC: self.index, **self.further}

    @property
    def queried(self) -> Queried:
        """What cards say of it."""
        return Queried(self.members, self.metadata.snapshot.lifecycle_position, self.metadata.evidence)

    @property
    def recall_input(self) -> RecallInput:
        """The record itself."""
        return self.metadata.recall_input


@dataclass(frozen=True, slots=True)
class UnusableInput:
    """A Recall Input that may not or cannot be searched, and why; `recall_input` is None where it could not be read."""

    recall_input: RecallInput | None
    evidence: CorruptInputEvidence | RetentionEvidence


def retention_check(
    reader: LedgerReader, head: NamespaceHead, sources: frozenset[str], denials: Denials
) -> RetentionCheck:
    """Return the check of an input's sources at the current retention frontier."""
    return check_retention(head, (each for each in denials(reader, head) if each.target_id in sources))


def load_input(
    ledger: ReadableLedger,
    artifacts: ArtifactStore,
    recall_input_id: RecallInputId,
    *,
    denials: Denials = denied_at,
    data: Buffer | None = None,
    kinds: Collection[SourceKind] = frozenset(SourceKind),
) -> LoadedInput | UnusableInput:
    """Read a Recall Input and verify it.

    Args:
        ledger: where the records are.
        artifacts: where the index is.
        recall_input_id: which input.
        denials: what retention denies.
        data: the index artifact of the rules, where somebody has read it already, for instance into shared memory.
        kinds: the kinds of source that may be shown; the artifacts of others are not opened.

    Raises:
        UnavailableError: a store cannot be reached.
    """
    with ledger.reading() as reader:
        metadata = _metadata(reader, recall_input_id)
        if isinstance(metadata, UnusableInput):
            return metadata
        head = reader.namespace_head(metadata.recall_input.namespace)
        check = retention_check(reader, head, metadata.sources, denials)
    if check.blocked:
        return UnusableInput(metadata.recall_input, RetentionEvidence(check=check))
    try:
        return _open(metadata, ledger, artifacts, (data, kinds))
    except _Corrupt as corrupt:
        return _corrupt(metadata.recall_input, corrupt.attempted, corrupt.finding)


class _Corrupt(Exception):  # noqa: N818  # no error for a caller: it becomes evidence
    """What an artifact turned out to be: which one, and the part that does not hold."""

    def __init__(self, attempted: str, finding: str) -> None:
        super().__init__(attempted, finding)
        self.attempted, self.finding = attempted, finding


def _open(
    metadata: InputMetadata,
    ledger: ReadableLedger,
    artifacts: ArtifactStore,
    wanted: tuple[Buffer | None, Collection[SourceKind]],
) -> LoadedInput:
    data, kinds = wanted
    snapshot = metadata.snapshot
    opened = {
        kind: _index(build, artifacts, data if kind is SourceKind.SEMANTIC else None)
        for kind, build in metadata.builds.items()
        if kind is SourceKind.SEMANTIC or kind in kinds
    }
    members = {member.memory_id: member for member in snapshot.members}
    rules, procedures = opened[SourceKind.SEMANTIC], opened.get(SourceKind.PROCEDURE)
    indexed = set(rules.search.ids) | set(procedures.search.ids if procedures is not None else ())
    if not (indexed <= members.keys() and _are_procedures(ledger, members.keys() - indexed)):
        raise _Corrupt(metadata.build.artifact.sha256, "memory-index.members")
    held: dict[SourceKind, Container[str]] = {SourceKind.SEMANTIC: members, SourceKind.PROCEDURE: members}
    if SourceKind.EPISODIC in opened:
        episodes = {member.experience_id for member in metadata.require_evidence().members}
        if set(opened[SourceKind.EPISODIC].search.ids) != episodes:
            raise _Corrupt(metadata.builds[SourceKind.EPISODIC].artifact.sha256, "memory-index.members")
        held[SourceKind.EPISODIC] = episodes
    known = {kind: _all_known(each, held[kind]) for kind, each in opened.items()}
    return LoadedInput(metadata, known.pop(SourceKind.SEMANTIC), members, metadata.sources, known)


def _index(build: IndexBuild, artifacts: ArtifactStore, data: Buffer | None) -> MemoryIndex:
    """Return the index of a build, proved to be what its receipt says."""
    if data is not None and hashlib.sha256(view_of(data)).hexdigest() != build.artifact.sha256:
        raise _Corrupt(build.artifact.sha256, "memory-index.digest")
    try:
        index = MemoryIndex.from_bytes(artifacts.mapped(build.artifact.sha256) if data is None else data)
    except (IntegrityError, NotFoundError) as error:
        raise _Corrupt(build.artifact.sha256, error.field) from error
    search = index.search
    found = (
        index.schema, index.snapshot_id, index.evidence_snapshot_id, search.members_digest, search.vector_digest,
        search.size, identity_digest(search.identity, index.schema),
    )  # fmt: skip
    receipt = (
        build.identity, build.knowledge_snapshot_id, build.evidence_snapshot_id, build.member_digest,
        build.vector_digest, build.document_count, build.identity_digest,
    )  # fmt: skip
    if found != receipt:
        raise _Corrupt(build.artifact.sha256, "memory-index.receipt")
    return index


def _all_known(index: MemoryIndex, members: Container[str]) -> MemoryIndex:
    """Return an index whose columns say which rows are members of the snapshot."""
    known = np.array([found in members for found in index.search.ids], dtype=np.bool_)
    return replace(index, columns=replace(index.columns, members=known))


def _are_procedures(ledger: ReadableLedger, memory_ids: Collection[MemoryId]) -> bool:
    """Tell whether members that no index holds are procedures: they have an index of their own, or are not recalled."""
    if not memory_ids:
        return True
    with ledger.reading() as reader:
        return all(isinstance(_read(reader, each), ProcedureRecord) for each in memory_ids)


def _metadata(reader: LedgerReader, recall_input_id: RecallInputId) -> InputMetadata | UnusableInput:
    recall_input = _read(reader, recall_input_id)
    if not isinstance(recall_input, RecallInput):
        return _corrupt(None, recall_input_id, "recall-input-snapshot")
    snapshot = _read(reader, recall_input.knowledge_snapshot_id)
    if not isinstance(snapshot, KnowledgeSnapshot):
        return _corrupt(recall_input, recall_input.knowledge_snapshot_id, "knowledge-snapshot")
    named = recall_input.evidence_snapshot_id
    evidence = None if named is None else _read(reader, named)
    if named is not None and not isinstance(evidence, EvidenceSnapshot):
        return _corrupt(recall_input, named, "evidence-snapshot")
    builds = _builds(reader, recall_input)
    if isinstance(builds, UnusableInput):
        return builds
    episodic = SourceKind.EPISODIC in builds
    if SourceKind.SEMANTIC not in builds or episodic != (named is not None):
        return _corrupt(recall_input, str(recall_input.id), "memory-index-build")
    for kind, build in builds.items():
        own = named if kind is SourceKind.EPISODIC else None
        met = (build.knowledge_snapshot_id, build.evidence_snapshot_id, build.namespace, snapshot.namespace)
        if met != (snapshot.id, own, recall_input.namespace, recall_input.namespace):
            return _corrupt(recall_input, str(build.id), "memory-index-build.sources")
    return InputMetadata(recall_input, snapshot, builds, evidence if isinstance(evidence, EvidenceSnapshot) else None)


def _builds(reader: LedgerReader, recall_input: RecallInput) -> dict[SourceKind, IndexBuild] | UnusableInput:
    """Return the builds of a Recall Input by the kind of source that they hold, of each at most one."""
    found: dict[SourceKind, IndexBuild] = {}
    for ref in recall_input.index_builds:
        build = _read(reader, ref.index_build_id)
        known = isinstance(build, IndexBuild) and build.payload_digest == ref.digest and build.identity in SCHEMAS
        if not known or not isinstance(build, IndexBuild) or SCHEMAS[build.identity][0] in found:
            return _corrupt(recall_input, str(recall_input.id), "memory-index-build")
        found[SCHEMAS[build.identity][0]] = build
    return found


def _read(reader: LedgerReader, record_id: Id) -> object:
    stored = reader.get(record_id)
    try:
        record = None if stored is None else stored.load()
    except InvalidRecordError:
        return None  # unreadable bytes prove as little as missing ones
    return record if record is not None and record.id == record_id else None


def _corrupt(recall_input: RecallInput | None, attempted: str, finding: str) -> UnusableInput:
    return UnusableInput(recall_input, CorruptInputEvidence(attempted=attempted, finding=finding))
