"""`vrm audit claims`: the numbers of a paper against what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from records.errors import InvalidInputError
from vrm.cli.lineage_reading import Best, Checkpoint, Metric, Root, Way, opened, question_of
from vrm.cli.output import AsJson, Namespace, command, console, show_json, show_rows, show_title
from vrm.cli.values import pairs
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from policies.papers.matching import Finding, PaperAudit, Recorded
    from vrm.lineage import PaperQuestion

FOUND = 1
"""Exit code of a paper with a number that has no ground."""


@command
def claims(
    context: typer.Context,
    paper: Annotated[Path, typer.Argument(metavar="PAPER", help="A paper in Markdown (.md, .txt) or LaTeX (.tex).")],
    *,
    context_file: Annotated[
        Path | None, typer.Option("--context", help="A verified_context.json to hold it against.", show_default=False)
    ] = None,
    root: Root = Path(),
    best: Best = None,
    metric: Metric = None,
    direction: Way = None,
    alias: Annotated[
        list[str] | None, typer.Option(help="How the paper calls a metric: 'words=metric'.", show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Tell of every number of a paper whether a usable result stands behind it.

    A number is matched if a usable claim has recorded that value of the metric that the text names, rounded to the
    digits that are written, in the same unit. It is contradicted if the metric has another value, and ungrounded if
    nothing is there. Code, references, citations, section numbers and dates are skipped. A comment with vrm:setting
    says that a line's other numbers are settings; they are listed apart. docs/lineage-reading.md has the rules.

    Exit code 0 if every number is matched, 1 if one is not, 2 if the paper cannot be audited.

    \b
    Examples:
      vrm audit claims paper.md --context paper/verified_context.json
      vrm audit claims paper.tex --root experiments/ --checkpoint run-1 --alias "test accuracy=accuracy" --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    against = _against(context_file, root, best, metric, direction)
    names = pairs("--alias", alias or [])
    with opened(context, namespace, checkpoint) as lineage:
        audit = lineage.audit(paper, against, aliases=names)
    found = _as_json(paper, audit)
    if as_json:
        show_json(found)
    else:
        _print(found)
    if not audit.is_grounded:
        raise typer.Exit(FOUND)


def _against(
    context_file: Path | None, root: Path, best: str | None, metric: str | None, way: str | None
) -> PaperQuestion | Path:
    if context_file is None:
        return question_of(root, best, metric, way)
    for name, value in (("--best", best), ("--metric", metric), ("--direction", way)):
        if value is not None:
            raise InvalidInputError(name, value, "A context file has its best node already; leave it out.")
    return context_file


def _as_json(paper: Path, audit: PaperAudit) -> dict[str, Any]:
    from policies.papers.matching import Verdict  # noqa: PLC0415  # help does without

    return {
        "paper": str(paper),
        "counts": {verdict.value: audit.count(verdict) for verdict in Verdict},
        "stated": audit.stated,
        "coverage": None if audit.coverage is None else float(audit.coverage),
        "grounded": audit.is_grounded,
        "numbers": [_finding(each) for each in audit.findings],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "line": found.line,
        "column": found.column,
        "text": found.text,
        "verdict": found.verdict.value,
        "reason": None if found.reason is None else found.reason.value,
        "metrics": list(found.names),
        "recorded": None if found.recorded is None else _recorded(found.recorded),
    }


def _recorded(recorded: Recorded) -> dict[str, Any]:
    return {
        "metric": recorded.metric,
        "value": recorded.value,
        "unit": recorded.unit,
        "entry_id": recorded.entry_id,
        "node_id": recorded.node_id,
        "withheld": recorded.withheld or None,
    }


def _print(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Numbers of {found['paper']}")
    header = ("place", "number", "verdict", "why", "recorded")
    show_rows(out, header, (_cells(each) for each in found["numbers"]))
    counts = found["counts"]
    told = ", ".join(f"{counts[name]} {name}" for name in ("matched", "contradicted", "ungrounded"))
    out.print(f"\n{told} of {found['stated']} stated; {counts['setting']} settings apart.", markup=False)
    coverage = "none stated" if found["coverage"] is None else f"{counts['matched']}/{found['stated']}"
    out.print(f"Coverage: {coverage}.", markup=False)


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    recorded = found["recorded"]
    told = ""
    if recorded is not None:
        told = (
            f"{recorded['metric']} {recorded['value']} {recorded['unit'] or ''}".rstrip() + f" of {recorded['node_id']}"
        )
    return f"{found['line']}:{found['column']}", found["text"], found["verdict"], found["reason"] or "", told
