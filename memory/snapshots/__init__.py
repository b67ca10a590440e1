"""Snapshots: what is frozen before anything is recalled (spec 4.11 to 4.13, 8.3, 14).

- `evidence`: the verified experiences of one moment, and the capture operation that chose them.
- `knowledge`: the admitted heads of one lifecycle position.
- `failures`: the receipt of a build that failed.
- `index`: the derived indexes of rules, procedures and episodes, each with its receipt.
- `recall_input`: the composition that a Decision Intent really queries.

Rules kept here:

- nothing is written: records come back, and the caller appends each under the operation key that its function gives;
- every record is a pure function of its sources, `created_at` included: it is the newest time among them, or the epoch
  where there are none. So building again gives the same bytes, and appending them again is a replay.
"""

from __future__ import annotations

from memory.snapshots.evidence import (
    EpisodicSnapshotBuilder,
    EvidenceSnapshotBuilder,
    FreezeEpisodes,
    FreezeEvidence,
    capture_key,
)
from memory.snapshots.failures import failure_key, index_failure
from memory.snapshots.index import build_episode_index, build_index, build_procedure_index, index_key
from memory.snapshots.knowledge import KnowledgeSnapshotBuilder, knowledge_key
from memory.snapshots.recall_input import RecallInputSnapshotBuilder, recall_input_key

__all__ = [
    "EpisodicSnapshotBuilder",
    "EvidenceSnapshotBuilder",
    "FreezeEpisodes",
    "FreezeEvidence",
    "KnowledgeSnapshotBuilder",
    "RecallInputSnapshotBuilder",
    "build_episode_index",
    "build_index",
    "build_procedure_index",
    "capture_key",
    "failure_key",
    "index_failure",
    "index_key",
    "knowledge_key",
    "recall_input_key",
]
