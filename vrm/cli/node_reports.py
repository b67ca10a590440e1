"""`vrm import node-report`: reports of the nodes of a search tree, with what is remembered of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, console, progress, short, show_json, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from importers.node_report.importing import Consolidating, ImportedReport

FOUND = 1
"""Exit code of an import of several reports of which some were refused."""


@command
def node_report(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="node_report.json, or folders that hold some.")
    ],
    *,
    checkpoint: Annotated[
        str | None, typer.Option(help="The run that all are of; otherwise the folder above each node's.")
    ] = None,
    contract: Annotated[
        Path | None, typer.Option(help="YAML with name, unit and direction of the metric that counts.")
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Import reports of nodes: <root>/<run>/<node>/node_report.json, in both published shapes, parents first.

    Every file that a report names is read and hashed below its node's folder: verified is only what had the digest that
    was claimed. What is repaired is told field by field; what is refused is told with its reason and stops no other
    report. Importing again adds nothing, and an import that was cut short goes on.

    Each report is then consolidated: an experiment result, a failure case, a reflection. Which metric an entry points
    at is declared by --contract, never guessed; without one it points at none. VRM_LINEAGE_CONSOLIDATE=off (or 0,
    false, no) imports the reports alone; importing again later adds the entries.

    Exit code 0 if every report is there, 1 if one of several was refused, 2 if nothing could be imported.

    \b
    Examples:
      vrm import node-report experiments/run_7
      vrm import node-report experiments --contract metric.yaml --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from importers.node_report.importing import ImportPorts, import_reports  # noqa: PLC0415  # help does without
    from importers.node_report.tree import locate  # noqa: PLC0415
    from memory.lineage.writing import LineagePorts  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415

    require_scoped(require_namespace(namespace))
    how, located, joined = _how(contract), locate(paths, checkpoint), connection(context)
    with joined.stores() as stores, progress(quiet=as_json) as told:
        lineage = LineagePorts(ledger=stores.ledger, coordinator=joined.coordinator(stores))
        ports = ImportPorts(lineage=lineage, artifacts=stores.artifacts, namespace=namespace)
        done = import_reports(ports, located, how, progress=told)
    if len(done) == 1 and done[0].error is not None:
        raise done[0].error
    found = _found(namespace, done, how)
    if as_json:
        show_json(found)
    else:
        _show(found)
    raise typer.Exit(FOUND if found["refused"] else 0)


def _how(contract: Path | None) -> Consolidating:
    from importers.node_report.importing import Consolidating  # noqa: PLC0415  # as above
    from policies.lineage.policy import GATE, consolidation_policy, headline_metric  # noqa: PLC0415

    policy = consolidation_policy()
    declared = None if contract is None else headline_metric(_text(contract), str(contract), policy)
    return Consolidating(policy=policy, declared=declared, is_on=policy.is_on(os.environ.get(GATE)))


def _text(path: Path) -> str:
    from records.errors import InvalidInputError  # noqa: PLC0415  # as above

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(str(path), str(error), "Give a file that can be read, in UTF-8.") from error


def _found(namespace: str, done: list[ImportedReport], how: Consolidating) -> dict[str, Any]:
    counts = {name: sum(each.outcome == name for each in done) for name in ("added", "replayed", "refused")}
    return {
        "namespace": namespace,
        **counts,
        "consolidated": how.is_on,
        "policy": how.policy.identity.as_json(),
        "declared": None if how.declared is None else how.declared.as_json(),
        "new_entries": sum(entry.writing == "added" for each in done for entry in each.entries),
        "reports": [_report(each) for each in done],
    }


def _report(each: ImportedReport) -> dict[str, Any]:
    report = each.report
    return {
        "path": each.located.path,
        "checkpoint": each.located.checkpoint_id,
        "node": each.located.node_id,
        "outcome": each.outcome.value,
        "reason": None if each.code is None else each.code.value,
        "error": None if each.error is None else each.error.as_dict(),
        "report": None if report is None else str(report.id),
        "status": None if report is None else report.status.value,
        "shape": None if report is None else report.shape.value,
        "repairs": [] if report is None else [repair.as_json() for repair in report.repairs],
        "artifacts": [] if report is None else [
            {"path": file.relative_path, "status": file.integrity.value} for file in report.artifacts
        ],
        "entries": [
            {"entry": str(written.entry.id), "kind": written.entry.entry_kind.value, "written": written.writing.value}
            for written in each.entries
        ],
        "why_nothing": each.why_nothing,
    }  # fmt: skip


def _show(found: dict[str, Any]) -> None:
    out = console()
    figures = ", ".join(f"{found[name]} {name}" for name in ("added", "replayed", "refused"))
    show_title(out, f"Node reports in {found['namespace']}: {figures}; {found['new_entries']} new entries")
    show_rows(out, ("node", "outcome", "status", "files", "entries", "told"), map(_cells, found["reports"]))
    if not found["consolidated"]:
        out.print("Consolidation is off; importing again with it on adds the entries.")
    elif found["declared"] is None:
        out.print("No --contract: no entry points at a metric.")


def _cells(each: dict[str, Any]) -> tuple[str, ...]:
    statuses = [file["status"] for file in each["artifacts"]]
    files = ", ".join(f"{statuses.count(name)} {name}" for name in sorted(set(statuses)))
    entries = ", ".join(f"{entry['kind']} {short(entry['entry'])}" for entry in each["entries"])
    repairs = ", ".join(f"{repair['code']} ({repair['field']})" for repair in each["repairs"])
    told = f"{each['reason']}: {each['error']['value']}" if each["error"] else repairs
    name = f"{each['checkpoint']}/{each['node']}"
    return name, each["outcome"], each["status"] or "", files, entries or each["why_nothing"] or "", told
