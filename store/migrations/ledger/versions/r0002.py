"""Every record kind has its table, moving tables are guarded, fewer indexes, epoch and journal move together."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "539293ef33f63ca42b7d5fa041bff8570fc090c901cb4ed19103ec723908c3ae"


def upgrade(steps: Steps) -> None:
    """Make what is new; rows that are there keep every byte, and none of them has items for the new child tables."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
