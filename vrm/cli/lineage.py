"""`vrm lineage`: what the nodes of a search tree remember, and what a paper about them may say."""

from __future__ import annotations

import typer

from vrm.cli import lineage_reading

app = typer.Typer(
    help="Read what search nodes remember; it is never evidence.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
lineage_reading.attach(app)
