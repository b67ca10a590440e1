"""`vrm evaluate ideation`: quality and diversity of a search with memory and of one that starts fresh."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from vrm.cli.jobs import opened_job
from vrm.cli.output import AsJson, Namespace, command, console, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE


@command
def ideation(
    namespace: Namespace = DEFAULT_NAMESPACE,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Most held-out tasks.", show_default="all of the scope of size small")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each task.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Search for ideas twice, with memory and from a fresh start, and report quality and diversity of both.

    Each branch may try as many changes of the baseline as policies/files/ideation-v1.yaml says, with the same seeds and
    budget, and cards may steer at most the capped share of them. Ideas are registered decisions and real experiments;
    what they come to enters no memory. Run `vrm run` first, or there is no memory to search with. Nothing is claimed:
    docs/modes.md says what the figures mean.

    \b
    Examples:
      vrm evaluate ideation
      vrm evaluate ideation --tasks 3 --seeds 2
      vrm evaluate ideation --json | tail -n 1 | jq .difference
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    with opened_job(namespace, "small", quiet=as_json) as job:
        from vrm.mainjob.ideation import search  # noqa: PLC0415  # brings everything along

        found = search(job, tasks, seeds)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Ideation: {found['searches']} searches, {found['proposals']} ideas a branch")
    rows = [
        (name, *(_shown(branch[part]) for part in ("coverage", "quality", "dependence")), _counted(branch["families"]))
        for name, branch in found["branches"].items()
    ]
    differences = found["difference"]
    rows.append(("difference", _shown(differences["coverage"]), _shown(differences["quality"]), "", ""))
    show_rows(out, ("branch", "approach families / k", found["metric"], "from memory", "valid ideas by family"), rows)
    cap = found["memory_dependence"]
    kept = "kept" if cap["within_cap"] else "EXCEEDED"
    out.print(
        f"At most {cap['largest']:.2f} of the ideas of one search followed from memory; cap {cap['cap']}, {kept}."
    )
    out.print(f"Claim: {found['claim']}.", markup=False, soft_wrap=True)


def _shown(value: dict[str, Any]) -> str:
    span = "no interval" if value["low"] is None else f"{value['low']:+.4f} to {value['high']:+.4f}"
    return f"{value['mean']:.4f} ({span})"


def _counted(families: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in families.items()) or "none"
