"""Erasures have their machine, Runs are controlled, and tables that move are guarded."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "32ce82ed6c5e9795eff4835a8cd7214a868784655571d0b90ef5479e8a1eab80"


def upgrade(steps: Steps) -> None:
    """Make what is new; subjects that are there stay as they are."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
    phases = "'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILING', 'FAILED'"
    steps.replace_check("runs", "phase", f"phase IN ({phases})")
