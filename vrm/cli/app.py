"""The command line as a whole: which commands there are."""

from __future__ import annotations

import typer

from vrm.cli import bench, fsck, knowledge, recall, run, services, status

_HELP = """Memory for research agents that keeps only independently verified knowledge.

\b
Examples:
  vrm run                         experiments in, rules out, held-out decisions, a report
  vrm status                      what runs and what is stored
  vrm knowledge list              the active rules
  vrm knowledge show 3fa2         one rule with its evidence
  vrm fsck                        recompute everything from the rows

Every command takes --json. Exit codes: 0 done, 1 a check found something, 2 an error that you can act on.
"""

app = typer.Typer(
    name="vrm",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(services.up)
app.command("down")(services.down)
app.command("run")(run.run)
app.command("import")(run.import_table)
app.command("distil")(run.distil)
app.command("recall")(recall.recall)
app.command("status")(status.status)
app.command("fsck")(fsck.fsck)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(bench.app, name="bench")
