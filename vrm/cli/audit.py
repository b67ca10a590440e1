"""`vrm audit`: what others decided and reported, looked at with the rules of this project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli import artifacts
from vrm.cli.output import AsJson, command, console, show_json, show_rows, show_title

if TYPE_CHECKING:
    from evaluation.keeps.reading import KeepLog
    from evaluation.keeps.rule import Keep, KeepAudit

app = typer.Typer(
    help="Look at what was decided and reported elsewhere.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Examples: vrm audit keeps results.tsv; vrm audit keeps results.tsv --json | jq .counts",
)

_SHOWN = 60
app.command("artifacts", short_help="Whether the files that nodes reported are what was said.")(artifacts.artifacts)


@app.command("keeps", short_help="Which keeps of an automated search would survive a replication.")
@command
def keeps(
    file: Annotated[Path, typer.Argument(help="Log with one row a try; tab- or comma-separated, with a header.")],
    *,
    metric: Annotated[
        str | None, typer.Option(help="Column of the metric.", show_default="the first known one")
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="Which way it is better: min or max.", show_default="as known for the metric")
    ] = None,
    noise_sd: Annotated[
        float | None, typer.Option(help="Standard deviation of one run.", show_default="from reruns in the log")
    ] = None,
    q: Annotated[float, typer.Option(help="Highest share of false survivors (Benjamini-Hochberg).")] = 0.05,
    status_column: Annotated[
        str | None, typer.Option(help="Column of keep, discard, crash.", show_default=False)
    ] = None,
    config_column: Annotated[
        str | None, typer.Option(help="Column that is equal for reruns.", show_default=False)
    ] = None,
    description_column: Annotated[
        str | None, typer.Option(help="Column of what was tried.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the incumbent's path: .png or .svg.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell which keep decisions of a search would survive a replication, and why the others do not.

    Each keep claims a gain over the configuration kept before it. It survives if its configuration was run at least
    twice, the 95 % interval of the difference is clear of zero, and the difference passes Benjamini-Hochberg over all
    keeps. The run that a keep was picked for is left out of its mean. How much runs differ by themselves comes from
    reruns in the log (same configuration column, or same description but for words such as rerun and seed 2), or from
    --noise-sd; if from neither, nothing survives. Beside each claimed gain stands what the best of as many tries would
    gain by noise alone. Crashes and 0 are no values. docs/keeps.md has the rule and the known columns.

    Exit code 0 if every keep survives, 1 if one does not, 2 if the log cannot be audited.

    \b
    Examples:
      vrm audit keeps results.tsv
      vrm audit keeps results.tsv --noise-sd 0.002 --plot keeps.png
      vrm audit keeps runs.csv --metric auc --direction max --config-column hash --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.keeps.plot import draw, require_format  # noqa: PLC0415  # help does without
    from evaluation.keeps.reading import Columns, read_log  # noqa: PLC0415
    from evaluation.keeps.rule import audit_keeps  # noqa: PLC0415

    _require_numbers(q, noise_sd)
    if plot is not None:
        require_format(plot)
    named = Columns(
        metric=metric,
        status=status_column,
        config=config_column,
        description=description_column,
        direction=_direction(direction),
    )
    log = read_log(file, named)
    audit = audit_keeps(log.rows, log.direction, q=q, noise_sd=noise_sd)
    if plot is not None:
        draw(log, audit, plot)
    if as_json:
        show_json(_as_json(log, audit))
    else:
        _print(log, audit)
    if not audit.all_survive:
        raise typer.Exit(1)


def _direction(text: str | None) -> Any:
    from records.errors import InvalidInputError  # noqa: PLC0415  # help does without
    from records.values import Direction  # noqa: PLC0415

    known = {"min": Direction.MINIMIZE, "max": Direction.MAXIMIZE}
    if text is None or text in known:
        return known.get(text or "")
    raise InvalidInputError("--direction", text, "Say min or max.")


def _require_numbers(q: float, noise_sd: float | None) -> None:
    from records.errors import InvalidInputError  # noqa: PLC0415  # help does without

    if not 0 < q < 1:
        raise InvalidInputError("--q", q, "Give a share between 0 and 1.")
    if noise_sd is not None and not 0 < noise_sd < float("inf"):
        raise InvalidInputError("--noise-sd", noise_sd, "Give a positive number in the metric's unit.")


def _as_json(log: KeepLog, audit: KeepAudit) -> dict[str, Any]:
    from evaluation.keeps.rule import WHY, KeepVerdict, NoiseSource  # noqa: PLC0415  # help does without

    noise = audit.noise
    return {
        "metric": log.metric,
        "direction": log.direction.value,
        "columns": log.columns,
        "rows": len(log.rows),
        "values": audit.values,
        "unread": list(log.unread),
        "noise": {
            "source": noise.source.value,
            "sd": noise.sd,
            "degrees": noise.degrees if noise.source is NoiseSource.RERUNS else None,
        },
        "best_gain": audit.best_gain,
        "noise_best": audit.noise_best,
        "counts": {verdict.value: audit.counts[verdict] for verdict in KeepVerdict if audit.counts[verdict]},
        "keeps": [_keep(keep) | {"why": WHY[keep.verdict]} for keep in audit.keeps],
    }


def _keep(keep: Keep) -> dict[str, Any]:
    bounds = keep.interval
    return {
        "line": keep.row.line,
        "label": keep.row.label,
        "description": keep.row.description,
        "value": keep.row.value,
        "incumbent_line": None if keep.incumbent is None else keep.incumbent.line,
        "gain": keep.gain,
        "tries": keep.tries,
        "noise_best": keep.noise_best,
        "runs": keep.runs,
        "incumbent_runs": keep.incumbent_runs,
        "difference": keep.difference,
        "interval": None if bounds is None else [bounds.low, bounds.high],
        "p_value": keep.p_value,
        "adjusted_p": keep.adjusted_p,
        "verdict": keep.verdict.value,
    }


def _print(log: KeepLog, audit: KeepAudit) -> None:
    from evaluation.keeps.rule import WHY, KeepVerdict  # noqa: PLC0415  # help does without

    out = console()
    show_title(out, f"Keeps by {log.metric}, {log.direction.value}d: {len(audit.keeps)} of {len(log.rows)} rows")
    header = ("line", "gain", "by noise", "tries", "runs", "difference, interval", "adj. p", "verdict", "what")
    show_rows(out, header, (_cells(keep) for keep in audit.keeps))
    show_title(out, "Verdicts")
    counts = ((verdict.value, str(audit.counts[verdict]), WHY[verdict]) for verdict in KeepVerdict)
    show_rows(out, ("verdict", "keeps", "why"), [row for row in counts if row[1] != "0"])
    out.print()
    for line in _notes(log, audit):
        out.print(line, markup=False)


def _cells(keep: Keep) -> tuple[str, ...]:
    bounds, difference = keep.interval, keep.difference
    found = "" if bounds is None or difference is None else f"{difference:+.4g} [{bounds.low:+.4g}, {bounds.high:+.4g}]"
    return (
        str(keep.row.line),
        "" if keep.gain is None else f"{keep.gain:+.4g}",
        "" if keep.noise_best is None else f"{keep.noise_best:.3g}",
        str(keep.tries or ""),
        str(keep.runs or ""),
        found,
        "" if keep.adjusted_p is None else f"{keep.adjusted_p:.3g}",
        keep.verdict.value,
        keep.row.description[:_SHOWN],
    )


def _notes(log: KeepLog, audit: KeepAudit) -> list[str]:
    noise = audit.noise
    if noise.sd is None:
        notes = [
            "Noise: unknown. No configuration was run twice, and one run shows nothing; rerun some, or give --noise-sd."
        ]
    else:
        known = "given" if noise.degrees == float("inf") else f"{noise.degrees:g} degrees of freedom, from reruns"
        notes = [f"Noise: one run differs by a standard deviation of {noise.sd:.4g} ({known})."]
    if audit.best_gain is not None and audit.noise_best is not None:
        notes.append(
            f"From the first to the best keep: {audit.best_gain:+.4g}. The best of {audit.values} tries gains "
            f"{audit.noise_best:.4g} by noise alone."
        )
    if log.unread:
        notes.append(f"{len(log.unread)} lines were not read: {'; '.join(log.unread[:3])}.")
    return notes
