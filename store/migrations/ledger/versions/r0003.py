"""A card may be one Experience, which has no memory id; reference sources have tables, and can be erased."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from store.migrations.steps import Steps

revision = "3"
down_revision = "2"
definition_digest = "ade5dd53eb3b6b58779de735436724dc971f2fc0971f8aa6ac76722c4e7d1d4d"

_TARGETS: Final = (
    "target_kind IN ('memory-record', 'hypothesis', 'attempt', 'observation', 'verification', 'experience', "
    "'reference-source', 'artifact')"
)


def upgrade(steps: Steps) -> None:
    """Make what is new; no row that is there has anything of it, and every context item keeps its memory id."""
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
