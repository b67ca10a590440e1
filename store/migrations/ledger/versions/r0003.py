"""A card may be one verified Experience, which has no memory id."""

from __future__ import annotations

from pathlib import Path

from store.migrations.steps import Steps

revision = "3"
down_revision = "2"
definition_digest = "d5584521abef75ec1d5e08d4dc49b1121a9c633cc68cf3290356333f57f45218"


def upgrade(steps: Steps) -> None:
    """Let a context item be without a memory id; every item that is there has one and keeps it."""
    steps.run_file(Path(__file__).with_suffix(".sql"))
