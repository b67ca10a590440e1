"""`vrm evaluate`: how well parts of the memory do, on planted truth or in searches that are run for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from records.errors import InvalidInputError
from vrm.cli.claims_outcomes import shadow
from vrm.cli.ideation import ideation
from vrm.cli.output import AsJson, command, console, progress, show_rows, show_title

app = typer.Typer(
    help="Score parts of the memory on planted truth and in real searches.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Examples: vrm evaluate writer; vrm evaluate retrieval; vrm evaluate ideation --json | tail -n 1",
)


app.command("shadow", short_help="Hold the shadow policy of claims against its gates.")(shadow)
app.command("ideation", short_help="Search with memory and from a fresh start.")(ideation)


@app.command("writer", short_help="Score what becomes a rule.")
@command
def writer(  # noqa: PLR0917  # options are named on the command line
    seeds: Annotated[int, typer.Option(help="Corpora, made from the seeds 0, 1, 2 and so on.")] = 20,
    groups: Annotated[int, typer.Option(help="Groups of each corpus; 120 are a whole one.")] = 120,
    show: Annotated[
        str | None, typer.Option(help="Instead: write one group of this kind and tell what became of it.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the strata into this file (png, svg, pdf).")] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many share the work.", show_default="the processors there are")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the writer on groups of evidence whose truth was planted.

    Every group goes through receipts, snapshot, distiller and lifecycle in memory, and what the Ledger ends up holding
    is compared with what was planted. The same seeds give the same figures; docs/evaluation-writer.md explains them.
    Exit code 0 if every threshold is reached, 1 if one is not or the corpus is too small, 2 for an error.

    \b
    Examples:
      vrm evaluate writer
      vrm evaluate writer --seeds 2 --plot strata.svg
      vrm evaluate writer --show contest             one group: planted, decided, and why
      vrm evaluate writer --json | tail -n 1 | jq .worst_stratum
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.simulation.spread import processors  # noqa: PLC0415  # help does without
    from evaluation.writer.evaluate import evaluate_writer  # noqa: PLC0415  # as above

    if show is not None:
        _show(show, as_json=as_json)
        return
    _require_place(plot)
    with progress(quiet=as_json) as told:
        found = evaluate_writer(seeds, groups, told, processes or processors())
    _draw(found, plot)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        _print(found)
    raise typer.Exit(0 if found["status"] == "pass" else 1)


@app.command("retrieval", short_help="Score what is recalled for a decision.")
@command
def retrieval(  # noqa: PLR0917  # options are named on the command line
    seeds: Annotated[int, typer.Option(help="Corpora of planted evidence, made from the seeds 0, 1, 2 and so on.")] = 3,
    scifact: Annotated[
        Path | None, typer.Option(help="Folder of the whole SciFact set (BEIR layout); without it, its extract.")
    ] = None,
    graded: Annotated[
        list[Path] | None, typer.Option(help="Folder of one more graded set in that layout; may be given again.")
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Keep the model's vectors in this file, and use those that are there.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw figures and strata into this file (png, svg, pdf).")] = None,
    robust: Annotated[bool, typer.Option(help="Carry out the transformations too.")] = True,
    as_json: AsJson = False,
) -> None:
    """Score retrieval: published graded sets, decisions whose answer was planted, and what must not change an answer.

    The real model embeds every text, so a first run takes minutes, and one over the whole of SciFact much longer;
    --vectors makes the next one short. docs/evaluation-retrieval.md explains the figures. Exit code 0 if every
    threshold is reached, 1 if one is not or the gold set is too small, 2 for an error.

    \b
    Examples:
      vrm evaluate retrieval
      vrm evaluate retrieval --scifact ~/beir/scifact --vectors vectors.bin
      vrm evaluate retrieval --seeds 4 --no-robust --plot recall.svg
      vrm evaluate retrieval --json | tail -n 1 | jq .ndcg_3
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.retrieval.evaluate import SCIFACT, Wanted, evaluate_retrieval  # noqa: PLC0415  # help does without
    from evaluation.retrieval.gold import Sizes  # noqa: PLC0415  # as above
    from evaluation.retrieval.plot import draw_retrieval  # noqa: PLC0415  # as above
    from vrm.cli.evaluate_view import show_retrieval  # noqa: PLC0415  # as above

    _require_place(plot)
    sets = (scifact or SCIFACT, *(graded or ()))
    wanted = Wanted(sizes=Sizes(seeds=seeds), graded=sets, vectors=vectors, robust=robust)
    with progress(quiet=as_json) as told:
        found = evaluate_retrieval(wanted, told)
    if plot is not None:
        draw_retrieval(found, plot)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        show_retrieval(found)
    raise typer.Exit(0 if found["status"] == "pass" else 1)


def _require_place(plot: Path | None) -> None:
    """Refuse a folder that is not there before the work is done, not after."""
    if plot is not None and not plot.parent.is_dir():
        raise InvalidInputError("plot", str(plot), "Its folder is not there.")


def _draw(found: dict[str, Any], plot: Path | None) -> None:
    from evaluation.writer.plot import draw_strata  # noqa: PLC0415  # help does without

    if plot is not None:
        draw_strata(found, plot)


def _show(kind: str, *, as_json: bool) -> None:
    from evaluation.writer.telling import told  # noqa: PLC0415  # as above

    found = told(kind)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    out = console()
    show_title(out, f"{found['group']}: {found['meaning']}")
    for name in ("planted", "decided", "said", "compared"):
        show_title(out, name.capitalize())
        for line in found[name]:
            out.print(line, markup=False, soft_wrap=True)


_GATED: Final = (
    "precision", "recall", "worst_stratum", "critical_false_promotions",
    "support_count_invariance", "lifecycle_transitions", "source_fidelity",
)  # fmt: skip
_REPORTED: Final = ("ends", "reason_codes", "histories")


def _print(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Writer: {found['groups']} groups, {found['runs']} runs, {len(found['seeds'])} seeds")
    rows = [(name, *_shown(found[name]), _threshold(found[name])) for name in _GATED]
    rows += [(name, *_shown(found[name]), "reported") for name in _REPORTED]
    show_rows(out, ("figure", "value", "95 % interval", "of", "threshold"), rows)
    show_title(out, "Strata")
    strata = [
        (name, str(row["groups"]), str(row["gold"]), *_shown(row["precision"]), *_shown(row["recall"]))
        for name, row in found["strata"].items()
    ]
    header = ("stratum", "groups", "gold", "precision", "interval", "of", "recall", "interval", "of")
    show_rows(out, header, strata)
    show_title(out, "Kinds")
    kinds = [
        (name, str(row["groups"]), *(_part(row.get(part)) for part in ("precision", "recall", "ends", "reason_codes")))
        for name, row in found["kinds"].items()
    ]
    show_rows(out, ("kind", "groups", "precision", "recall", "ends", "reasons"), kinds)
    out.print()
    for each in found["wrong"]:
        out.print(f"wrong: {json.dumps(each)}", markup=False, soft_wrap=True)
    policies = (found["policies"]["distillation"], found["policies"]["lifecycle"])
    out.print(", ".join(f"{each['policy_id']} {each['version']}" for each in policies))
    out.print(f"{found['seconds']} s, {found['processes']} processes")
    out.print(f"{found['status']}" + (f": {found['reason']}" if found["reason"] else ""), style="bold")


def _shown(share: dict[str, Any]) -> tuple[str, str, str]:
    if share["value"] is None:
        return "n/a", "n/a", "0"
    interval = "n/a" if share["low"] is None else f"{share['low']:.3f} to {share['high']:.3f}"
    return f"{share['value']:.4f}", interval, f"{share['numerator']} of {share['denominator']}"


def _part(share: dict[str, Any] | None) -> str:
    return "" if share is None else f"{share['numerator']} of {share['denominator']}"


def _threshold(share: dict[str, Any]) -> str:
    return f"{share['threshold']:g} {'reached' if share['passed'] else 'MISSED'}"
