"""Workspace claims have tables: claims, their events, traces of retrievals, and receipts of outcomes."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "4"
down_revision = "3"
definition_digest = "84a122dddcd2874d7003591c43c9c1bbdcf052c76c29d5219f4406945f942617"


def upgrade(steps: Steps) -> None:
    """Make what is new; no row that is there has anything of it."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
    steps.append_only(
        "workspace_claims",
        "claim_events",
        "claim_traces",
        "claim_trace_items",
        "claim_receipts",
    )
