"""Erasures have their machine, Runs are controlled, handoffs recovered and released; tables that move are guarded."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "8c0a634732b6908920ebce7bb72633f8ad4c6e8bbe381aa505b8c0c38d8a97b5"
_HANDOFF_PHASES = "'RETIRED', 'PENDING', 'IN_FLIGHT', 'BOUND', 'PROVED_ABSENT', 'ABANDONING', 'ABANDONED', 'RELEASED'"


def upgrade(steps: Steps) -> None:
    """Make what is new; subjects that are there stay as they are."""
    steps.replace_check("handoffs", "phase", f"phase IN ({_HANDOFF_PHASES})")
    steps.run_file(Path(__file__).with_suffix(".sql"))
    phases = "'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILING', 'FAILED'"
    steps.replace_check("runs", "phase", f"phase IN ({phases})")
