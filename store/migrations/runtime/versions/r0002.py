"""Erasures have their machine, Runs and work are ended, handoffs recovered and released; what moves is guarded."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "2"
down_revision = "1"
definition_digest = "31a7ab394f0ec3af443593e92ed91da122fccc4a5ef1e4e72a74ddaaaa77ea21"
_HANDOFF_PHASES = "'RETIRED', 'PENDING', 'IN_FLIGHT', 'BOUND', 'PROVED_ABSENT', 'ABANDONING', 'ABANDONED', 'RELEASED'"


def upgrade(steps: Steps) -> None:
    """Make what is new; subjects that are there stay as they are."""
    steps.replace_check("handoffs", "phase", f"phase IN ({_HANDOFF_PHASES})")
    steps.run_file(Path(__file__).with_suffix(".sql"))
    phases = "'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILING', 'FAILED'"
    steps.replace_check("runs", "phase", f"phase IN ({phases})")
    phases = "'RUNNING', 'CANCELLED', 'FAILED', 'AWAITING_ASSIGNMENT', 'READY', 'LEASED', 'COMMITTING', 'COMMITTED'"
    steps.replace_check("activities", "phase", f"phase IN ({phases}, 'CLOSING')")
