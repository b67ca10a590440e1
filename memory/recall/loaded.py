"""A Recall Input read from the Ledger and the artifact store, and proved to be what its receipts say.

Rules kept here (spec 8.2, stages 1 to 3; section 15):

- metadata first, then the retention check, and only then the artifact: what retention denies is not even opened;
- every digest on the way is compared: build receipt, artifact, members, vectors, snapshot membership;
- what does not hold comes back as evidence for a blocked proposal, without free text and without content; it is never
  an empty result. A store that cannot be reached is an error, for nothing was found out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from memory.index.framing import Buffer, view_of
from memory.recall.memory_index import MemoryIndex, identity_digest
from memory.retention import denied_at, input_sources
from policies.retention import check_retention
from records.appends import NamespaceHead
from records.decisions import BlockedTarget, CorruptInputEvidence, RetentionCheck, RetentionEvidence
from records.errors import IntegrityError, InvalidRecordError, NotFoundError
from records.ids import MemoryId, RecallInputId
from records.models import Id
from records.procedures import ProcedureRecord
from records.snapshots import IndexBuild, KnowledgeMember, KnowledgeSnapshot, RecallInput
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
    build: IndexBuild

    @property
    def sources(self) -> frozenset[str]:
        """Every id and digest that retention may deny: the input, its snapshot, build, artifact, members and events."""
        return input_sources(self.recall_input, self.snapshot, [self.build])


@dataclass(frozen=True, slots=True, eq=False)
class LoadedInput:
    """A Recall Input ready to be searched; immutable, safe to share between threads."""

    metadata: InputMetadata
    index: MemoryIndex
    members: dict[MemoryId, KnowledgeMember]
    sources: frozenset[str]

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
) -> LoadedInput | UnusableInput:
    """Read a Recall Input and verify it.

    Args:
        ledger: where the records are.
        artifacts: where the index is.
        recall_input_id: which input.
        denials: what retention denies.
        data: the index artifact, where somebody has read it already, for instance into shared memory.

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
        return _open(metadata, ledger, artifacts, data)
    except (IntegrityError, NotFoundError) as error:
        return _corrupt(metadata.recall_input, metadata.build.artifact.sha256, error.field)


def _open(
    metadata: InputMetadata, ledger: ReadableLedger, artifacts: ArtifactStore, data: Buffer | None
) -> LoadedInput:
    build = metadata.build
    if data is None:
        data = artifacts.mapped(build.artifact.sha256)
    elif hashlib.sha256(view_of(data)).hexdigest() != build.artifact.sha256:
        raise IntegrityError("memory-index.digest", "shared bytes", "Read the artifact again.")
    index = MemoryIndex.from_bytes(data)
    found = (
        index.snapshot_id, index.search.members_digest, index.search.vector_digest, index.search.size,
        identity_digest(index.search.identity),
    )  # fmt: skip
    receipt = (
        build.knowledge_snapshot_id, build.member_digest, build.vector_digest, build.document_count,
        build.identity_digest,
    )  # fmt: skip
    if found != receipt:
        raise IntegrityError("memory-index.receipt", str(build.id), "The artifact is not what the receipt says.")
    members = {member.memory_id: member for member in metadata.snapshot.members}
    indexed = set(index.search.ids)
    if not (indexed <= members.keys() and _are_procedures(ledger, members.keys() - indexed)):
        raise IntegrityError("memory-index.members", str(metadata.snapshot.id), "They are not those of the snapshot.")
    known = np.array([found in members for found in index.search.ids], dtype=np.bool_)
    index = replace(index, columns=replace(index.columns, members=known))
    return LoadedInput(metadata, index, members, metadata.sources)


def _are_procedures(ledger: ReadableLedger, memory_ids: Collection[MemoryId]) -> bool:
    """Tell whether members that an index leaves out are procedures, which no retrieval profile asks for."""
    if not memory_ids:
        return True
    with ledger.reading() as reader:
        return all(isinstance(_read(reader, each), ProcedureRecord) for each in memory_ids)


def _metadata(reader: LedgerReader, recall_input_id: RecallInputId) -> InputMetadata | UnusableInput:
    recall_input = _read(reader, recall_input_id)
    if not isinstance(recall_input, RecallInput):
        return _corrupt(None, recall_input_id, "recall-input-snapshot")
    snapshot = _read(reader, recall_input.knowledge_snapshot_id)
    builds = recall_input.index_builds
    build = _read(reader, builds[0].index_build_id) if len(builds) == 1 else None
    if not isinstance(snapshot, KnowledgeSnapshot):
        return _corrupt(recall_input, recall_input.knowledge_snapshot_id, "knowledge-snapshot")
    if not isinstance(build, IndexBuild) or build.payload_digest != builds[0].digest:
        return _corrupt(recall_input, str(recall_input.id), "memory-index-build")
    if (build.knowledge_snapshot_id, build.namespace, snapshot.namespace) != (
        snapshot.id, recall_input.namespace, recall_input.namespace,
    ):  # fmt: skip
        return _corrupt(recall_input, str(build.id), "memory-index-build.sources")
    return InputMetadata(recall_input, snapshot, build)


def _read(reader: LedgerReader, record_id: Id) -> object:
    stored = reader.get(record_id)
    try:
        record = None if stored is None else stored.load()
    except InvalidRecordError:
        return None  # unreadable bytes prove as little as missing ones
    return record if record is not None and record.id == record_id else None


def _corrupt(recall_input: RecallInput | None, attempted: str, finding: str) -> UnusableInput:
    return UnusableInput(recall_input, CorruptInputEvidence(attempted=attempted, finding=finding))
