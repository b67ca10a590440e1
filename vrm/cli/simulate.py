"""`vrm simulate`: the write path on in-memory stores, under a scheduler that breaks it; nothing of an installation."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

import typer

from vrm.cli.output import AsJson, command, console, progress, show_rows, show_title


@command
def simulate(
    seeds: Annotated[str, typer.Option(help="Seeds A to B, without B; or one seed.")] = "0:1000",
    plant: Annotated[
        str | None, typer.Option(help="Run over this planted bug instead.", show_default="the product's own parts")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many share the work.", show_default="the processors there are")
    ] = None,
    history: Annotated[bool, typer.Option(help="Print the steps of the first seed, whatever came of it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the write path in memory under a seeded scheduler, and check it after every step.

    A seed decides who takes part, the order of their steps, and every crash, lost reply, duplicate, delay and
    change of owner. What fails is printed step by step and replays exactly. Then every planted bug must be found.
    What is found does not depend on the number of processes.
    Exit code 0 if nothing was found and every planted bug was, else 1; with --plant 1 if the bug was found.

    \b
    Examples:
      vrm simulate --seeds 0:20000
      vrm simulate --seeds 17 --history            one schedule, step by step
      vrm simulate --seeds 0:100000 --processes 8
      vrm simulate --seeds 0:200 --plant no-fence-check
      vrm simulate --seeds 0:20000 --json | tail -n 1 | jq .violations
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.simulation import simulate as simulation  # noqa: PLC0415  # help does without

    chosen = simulation.parse_seeds(seeds)
    with progress(quiet=as_json) as told:
        run = simulation.simulate if plant is None else partial(simulation.simulate_planted, plant)
        found = run(chosen, told, processes)
    if history:
        found["histories"] = [simulation.history(chosen.start, plant), *found["histories"]]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        _print(found)
    missed = found.get("planted_bugs", 0) - found.get("planted_bugs_caught", 0)
    raise typer.Exit(1 if found["violations"] or missed else 0)


def _print(found: dict[str, Any]) -> None:
    out = console()
    for lines in found["histories"]:
        show_title(out, "History")
        for line in lines:
            out.print(line, markup=False, soft_wrap=True)
    show_title(out, f"Simulation: seeds {found['seeds']}")
    for name in (
        "schedules", "violations", "steps", "seconds", "schedules_per_second", "processes", "processor_seconds",
    ):  # fmt: skip
        out.print(f"{name}: {found[name]}")
    out.print(f"failing seeds: {', '.join(map(str, found['failing_seeds'])) or 'none'}")
    show_title(out, "Faults")
    show_rows(out, ("fault", "times"), ((name, str(count)) for name, count in found["faults"].items()))
    if "planted" in found:
        show_title(out, f"Planted bugs: {found['planted_bugs_caught']} of {found['planted_bugs']} found")
        rows = (
            (name, f"{bug['caught_in']} of {bug['seeds']}", bug["meaning"]) for name, bug in found["planted"].items()
        )
        show_rows(out, ("bug", "found in seeds", "what it does"), rows)
