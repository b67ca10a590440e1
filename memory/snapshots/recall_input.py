"""Composition of a Recall Input Snapshot (spec 4.13, 8.3).

It comes after the indexes, which depend on the snapshots; so no identity depends on itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.snapshots.evidence import newest
from policies.retrieval_policy import RetrievalPolicy
from records.errors import InvalidInputError
from records.ids import IndexBuildId, KnowledgeSnapshotId
from records.snapshots import IndexBuild, IndexBuildRef, KnowledgeSnapshot, RecallInput


class RecallInputSnapshotBuilder:
    """Composes snapshots, index builds and a Retrieval Policy with its renderer and tokenizer.

    The episodic lane is not part of a Recall Input yet: the first semantic-memory profile leaves it out (spec 4.12).
    """

    def __init__(self, policy: RetrievalPolicy) -> None:
        """Compose under `policy`."""
        self._policy = policy

    def compose(self, snapshot: KnowledgeSnapshot, builds: Sequence[IndexBuild]) -> RecallInput:
        """Return the Recall Input of a snapshot and its ready index builds.

        Raises:
            InvalidInputError: there is not exactly one build, or it is of another snapshot or namespace.
        """
        if len(builds) != 1:
            raise InvalidInputError("index_builds", len(builds), "Give the one index build of the snapshot.")
        for build in builds:
            if (build.knowledge_snapshot_id, build.namespace) != (snapshot.id, snapshot.namespace):
                raise InvalidInputError("index_builds", str(build.id), "It is of another snapshot; build anew.")
        refs = sorted((IndexBuildId(build.id), build.payload_digest) for build in builds)
        return RecallInput(
            namespace=snapshot.namespace,
            created_at=newest([snapshot.created_at, *(build.created_at for build in builds)]),
            knowledge_snapshot_id=KnowledgeSnapshotId(snapshot.id),
            evidence_snapshot_id=None,
            retrieval_policy=self._policy.identity,
            renderer=self._policy.rendering.renderer,
            tokenizer=self._policy.rendering.tokenizer,
            index_builds=tuple(IndexBuildRef(index_build_id=found, digest=digest) for found, digest in refs),
        )


def recall_input_key(recall_input: RecallInput) -> str:
    """Return the operation key under which a Recall Input is appended."""
    return f"compose-recall-input:{recall_input.id}"
