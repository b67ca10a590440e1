"""The tables of the Runtime as they were first installed."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "1"
down_revision = None
definition_digest = "1cba4f0f332a9f5f2297a846483830bca781cac5114be568ffa6c0b9ff4dd464"


def upgrade(steps: Steps) -> None:
    """Make everything; nothing here may change any more, because stores of this revision exist."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
