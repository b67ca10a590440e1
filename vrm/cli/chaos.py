"""`vrm chaos`: the write path on real processes that are killed and stopped; in an installation of its own."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from vrm.cli.output import AsJson, command, console, progress, show_rows, show_title


@command
def chaos(
    faults: Annotated[int, typer.Option(help="How many faults to inject.")] = 200,
    seed: Annotated[int, typer.Option(help="Decides the faults, their order and the work.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the databases in this empty folder.", show_default="thrown away")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill and stop real owners, workers and Postgres at named points of the protocol, and account for everything.

    Decisions and evidence are driven meanwhile; after every fault the product recovers by its own means. In the end
    nothing that was asked for or acknowledged may be missing or be there twice, and fsck must find nothing. Your own
    installation is not touched. 200 faults take 10 to 30 minutes. Exit code 0 if nothing was found, else 1.

    \b
    Examples:
      vrm chaos
      vrm chaos --faults 20 --seed 7
      vrm chaos --json | tail -n 1 | jq .lost
      vrm chaos --faults 50 --keep /tmp/chaos      leave the databases, to look at
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.chaos.chaos import chaos as run  # noqa: PLC0415  # help does without

    # Ray tells of every process that ends, on standard output.
    with redirect_stdout(sys.stderr), progress(quiet=as_json) as told:
        found = run(faults, seed, told, keep)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        _print(found)
    raise typer.Exit(1 if found["lost"] or found["doubled"] or found["fsck"] != "clean" else 0)


def _print(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Chaos: seed {found['seed']}")
    for name, value in found.items():
        if not isinstance(value, dict | list):
            out.print(f"{name}: {value}")
    for name in ("faults_by_kind", "faults_by_point", "faults_by_processes"):
        show_title(out, name.replace("_", " ").capitalize())
        show_rows(out, ("what", "times"), ((what, str(count)) for what, count in found[name].items()))
    for name in ("unfinished", "lost_units", "doubled_units", "violations"):
        for line in found[name]:
            out.print(f"{name}: {line}", markup=False, soft_wrap=True)
