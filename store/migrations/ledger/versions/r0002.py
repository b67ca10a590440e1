"""Every record kind has its table, moving tables are guarded, a writer holds epoch and journal in one question."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "b517ac868de9580248e3076297e96444f1554ed0401d1f30507aa54fd85435ab"


def upgrade(steps: Steps) -> None:
    """Make what is new; rows that are there keep every byte, and none of them has items for the new child tables."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
