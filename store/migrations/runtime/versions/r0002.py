"""Erasures have their machine, handoffs the phases of recovery and release, and tables that move are guarded."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "ee8d4ea307bb81f5d65c56e4ea400d35c3412eb80a973ffcec0240be4979a685"
_HANDOFF_PHASES = "'RETIRED', 'PENDING', 'IN_FLIGHT', 'BOUND', 'PROVED_ABSENT', 'ABANDONING', 'ABANDONED', 'RELEASED'"


def upgrade(steps: Steps) -> None:
    """Make what is new; subjects that are there stay as they are."""
    steps.replace_check("handoffs", "phase", f"phase IN ({_HANDOFF_PHASES})")
    steps.run_file(Path(__file__).with_suffix(".sql"))
