"""The command line as a whole: which commands there are."""

from __future__ import annotations

import typer

from vrm.cli import (
    audit,
    audit_claims,
    bench,
    chaos,
    claims,
    distil,
    erase,
    evaluate,
    fsck,
    gc,
    imports,
    knowledge,
    lineage,
    lineage_reading,
    metrics,
    migrate,
    procedures,
    recall,
    recover,
    reference,
    run,
    runs,
    services,
    simulate,
    status,
    trace,
)

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
app.command("up", short_help="Start Postgres and Ray, or find them running.")(services.up)
app.command("down", short_help="Stop what `vrm up` or `vrm run` started; nothing is lost.")(services.down)
app.command("run", short_help="Run one round: experiments, rules, decisions, report.")(run.run)
app.command("recall", short_help="Show the cards that apply to one decision.")(recall.recall)
app.command("status", short_help="Show what runs and what is stored.")(status.status)
app.command("trace", short_help="Trace decisions from what was recalled to what was verified.")(trace.trace)
app.command("metrics", short_help="The standing of the installation, for Prometheus.")(metrics.metrics)
app.command("fsck", short_help="Recompute everything from the rows and compare.")(fsck.fsck)
app.command("gc", short_help="Remove artifact bytes that nobody needs.")(gc.gc)
app.command("recover", short_help="Resume whatever a crash or a stop left unresolved.")(recover.recover)
app.command("erase", short_help="Erase the material of a record, or an artifact, for ever.")(erase.erase)
app.command("migrate", short_help="Bring the databases of an earlier version up to date.")(migrate.migrate)
app.command("simulate", short_help="Run the write path in memory, broken at every step.")(simulate.simulate)
app.command("chaos", short_help="Kill and stop real processes at every point, and account for everything.")(chaos.chaos)
app.add_typer(distil.app, name="distil", short_help="Distil what is waiting into rules.")
app.add_typer(imports.app, name="import")
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(procedures.app, name="procedures")
app.add_typer(runs.app, name="runs")
app.add_typer(reference.app, name="reference")
lineage_reading.attach(lineage.app)
app.add_typer(lineage.app, name="lineage")
app.add_typer(claims.app, name="claims")
app.add_typer(bench.app, name="bench")
audit.app.command("claims", short_help="Whether the numbers of a paper have a measured ground.")(audit_claims.claims)
app.add_typer(audit.app, name="audit")
app.add_typer(evaluate.app, name="evaluate")
