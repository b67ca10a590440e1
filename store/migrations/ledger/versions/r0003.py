"""Reference sources, their chunks, indexes and contexts have tables, and a source can be erased."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from store.migrations.steps import Steps

revision = "3"
down_revision = "2"
definition_digest = "81cee54e160e820d656f260f49b69ffcef9df826861637fcb110d661451b416a"

_TARGETS: Final = (
    "target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', "
    "'reference-source', 'artifact')"
)


def upgrade(steps: Steps) -> None:
    """Make what is new; no row that is there can have anything of it."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
    steps.append_only(
        "reference_sources",
        "reference_chunk_sets",
        "reference_chunks",
        "reference_index_builds",
        "reference_index_members",
        "reference_contexts",
        "reference_context_cards",
    )
    for table in ("retention_erasure_intents", "memory_retention_tombstones"):
        steps.replace_check(table, "target_kind", _TARGETS)
