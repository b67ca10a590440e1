"""The tables of the Ledger as they were first installed."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "1"
down_revision = None
definition_digest = "7c56efc0d3549a8f7639104cdfaf1fb3af4580146ea80b1de8e459aa916b71d3"


def upgrade(steps: Steps) -> None:
    """Make everything; nothing here may change any more, because stores of this revision exist."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
