"""Composition of a Recall Input Snapshot (spec 4.13, 8.3).

It comes after the indexes, which depend on the snapshots; so no identity depends on itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.recall.memory_index import SCHEMAS
from memory.snapshots.evidence import newest
from policies.retrieval_policy import RetrievalPolicy
from records.errors import InvalidInputError
from records.ids import EvidenceSnapshotId, IndexBuildId, KnowledgeSnapshotId
from records.ingestion import EvidenceSnapshot
from records.snapshots import IndexBuild, IndexBuildRef, KnowledgeSnapshot, RecallInput
from records.values import SourceKind


class RecallInputSnapshotBuilder:
    """Composes snapshots, index builds and a Retrieval Policy with its renderer and tokenizer.

    The rules always have their build. Procedures have one where the policy shows them and the snapshot has some;
    episodes where there is an Evidence Snapshot, and then there is one exactly.
    """

    def __init__(self, policy: RetrievalPolicy) -> None:
        """Compose under `policy`."""
        self._policy = policy

    def compose(
        self, snapshot: KnowledgeSnapshot, builds: Sequence[IndexBuild], evidence: EvidenceSnapshot | None = None
    ) -> RecallInput:
        """Return the Recall Input of snapshots and their ready index builds.

        Raises:
            InvalidInputError: the rules have no build, a kind of source has two or is not for this policy, or a build
                is of another snapshot or namespace.
        """
        self._require(snapshot, builds, evidence)
        refs = sorted((IndexBuildId(build.id), build.payload_digest) for build in builds)
        times = [*(build.created_at for build in builds), *([] if evidence is None else [evidence.created_at])]
        return RecallInput(
            namespace=snapshot.namespace,
            created_at=newest([snapshot.created_at, *times]),
            knowledge_snapshot_id=KnowledgeSnapshotId(snapshot.id),
            evidence_snapshot_id=None if evidence is None else EvidenceSnapshotId(evidence.id),
            retrieval_policy=self._policy.identity,
            renderer=self._policy.rendering.renderer,
            tokenizer=self._policy.rendering.tokenizer,
            index_builds=tuple(IndexBuildRef(index_build_id=found, digest=digest) for found, digest in refs),
        )

    def _require(
        self, snapshot: KnowledgeSnapshot, builds: Sequence[IndexBuild], evidence: EvidenceSnapshot | None
    ) -> None:
        kinds = [SCHEMAS[build.identity][0] for build in builds if build.identity in SCHEMAS]
        wanted = {SourceKind.SEMANTIC} | ({SourceKind.EPISODIC} if evidence is not None else set())
        whole = len(kinds) == len(builds) == len(set(kinds)) and set(kinds) - {SourceKind.PROCEDURE} == wanted
        if not whole or not set(kinds) <= self._policy.kinds:
            met = ", ".join(sorted(build.identity for build in builds)) or "none"
            known = ", ".join(sorted(self._policy.kinds))
            remedy = f"Give one build of the rules, and one of each other source at most; the policy shows {known}."
            raise InvalidInputError("index_builds", met, remedy)
        for kind, build in zip(kinds, builds, strict=True):
            named = None if evidence is None or kind is not SourceKind.EPISODIC else evidence.id
            met_ids = (build.knowledge_snapshot_id, build.evidence_snapshot_id, build.namespace)
            if met_ids != (snapshot.id, named, snapshot.namespace):
                raise InvalidInputError("index_builds", str(build.id), "It is of another snapshot; build anew.")


def recall_input_key(recall_input: RecallInput) -> str:
    """Return the operation key under which a Recall Input is appended."""
    return f"compose-recall-input:{recall_input.id}"
