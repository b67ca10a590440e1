"""Lineage memory and claims about a code base have tables; reports and entries of lineage memory can be erased."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from store.migrations.steps import Steps

revision = "4"
down_revision = "3"
definition_digest = "65e95248ab2d5227d3b1dd7b802b75dbc0317ca97ddc8d3561b1f62be817986d"

_TARGETS: Final = (
    "target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', "
    "'reference-source', 'node-report', 'lineage-entry', 'artifact')"
)


def upgrade(steps: Steps) -> None:
    """Make what is new; no row that is there has anything of it."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
    steps.append_only("node_reports", "node_report_artifacts", "lineage_entries", "lineage_entry_artifacts")
    steps.append_only("workspace_claims", "claim_events", "claim_traces", "claim_trace_items", "claim_receipts")
    for table in ("retention_erasure_intents", "memory_retention_tombstones"):
        steps.replace_check(table, "target_kind", _TARGETS)
