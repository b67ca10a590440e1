"""Erasures have their machine, and tables that move are guarded."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "6e8ed2f68cdd3292c67638e5c2976845d8fedd4847b770e1d813bc2982af15dd"


def upgrade(steps: Steps) -> None:
    """Make what is new; subjects that are there stay as they are."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
