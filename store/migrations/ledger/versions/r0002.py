"""Every record kind has its table, moving tables are guarded, a writer holds epoch and journal in one question."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "30d94b8642fc2863fe5ee089fe3357cdfef59d30501ff7a52f32e8508b8fede9"


def upgrade(steps: Steps) -> None:
    """Make what is new; rows that are there keep every byte, and none of them has items for the new child tables."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
