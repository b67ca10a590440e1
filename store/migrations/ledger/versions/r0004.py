"""Reports of the nodes of a search tree and what is remembered of them have tables, and can be erased."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from store.migrations.steps import Steps

revision = "4"
down_revision = "3"
definition_digest = "a3cd14e4626d65c5140f594f30b57250c474e15bb58d6bd7fa2b640664afc1ae"

_TARGETS: Final = (
    "target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', "
    "'reference-source', 'node-report', 'lineage-entry', 'artifact')"
)


def upgrade(steps: Steps) -> None:
    """Make what is new; no row that is there has anything of it."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
    steps.append_only("node_reports", "node_report_artifacts", "lineage_entries", "lineage_entry_artifacts")
    for table in ("retention_erasure_intents", "memory_retention_tombstones"):
        steps.replace_check(table, "target_kind", _TARGETS)
