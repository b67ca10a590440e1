"""`vrm lineage promote` and `why-not`: nodes of a search as evidence, and what holds the others back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import connection
from vrm.cli.jobs import opened_job
from vrm.cli.output import AsJson, Namespace, command, console, short, show_json, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from records.evidence import Experience
    from records.lineage import NodeReport
    from vrm.cli.connection import OpenStores

Root = Annotated[Path, typer.Option(help="The folder of all trees: <root>/<run>/<node>.")]
NONE = 1
"""Exit code where no node is a trial, or the node that was asked about is none."""


@command
def promote(
    checkpoint: Annotated[str, typer.Argument(help="The run whose nodes are to be evidence.")],
    *,
    evaluation: Annotated[Path, typer.Option(help="YAML: the evaluation contract, with the labels beside it.")],
    root: Root = Path(),
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Make evidence of the nodes of a tree whose reports complete to a verified bundle; `vrm distil` does the rest.

    The metric is computed again, from each node's predictions and labels that the declaration brings. A node is
    compared with its parent, or with the node that is declared in its place: same task, seed, program and machine, and
    one change that the catalog knows. What is no trial is told with its reason code. Again it adds nothing.

    Exit code 0 if some node is a trial, 1 if none is.

    \b
    Examples:
      vrm lineage promote run_7 --evaluation evaluation.yaml --root experiments
      vrm lineage promote run_7 --evaluation evaluation.yaml --json | jq .nodes
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from importers.node_report.declaration import read_declaration  # noqa: PLC0415  # help does without

    declaration = read_declaration(evaluation)  # what is refused is refused before anything is started
    with opened_job(namespace, "full", quiet=as_json) as job:
        from vrm.mainjob.lineage import promote_tree, told  # noqa: PLC0415  # as above

        before = job.stores.ledger.namespace_head(namespace).position
        done = promote_tree(job, declaration, root, checkpoint)
        after = job.stores.ledger.namespace_head(namespace).position
        rows = told(done.nodes)
    run = None if done.run_id is None else str(done.run_id)
    nodes = [{"node": node, "reason": reason, "detail": detail} for node, reason, detail in rows]
    found: dict[str, Any] = {"run": run, "new_records": after - before, "nodes": nodes}
    if as_json:
        show_json(found)
    else:
        out = console()
        show_title(out, f"Nodes of {checkpoint}: {after - before} new records, Run {short(run) if run else 'none'}")
        show_rows(
            out, ("node", "held back by", "found"), [(node, reason or "", detail) for node, reason, detail in rows]
        )
    raise typer.Exit(0 if run is not None else NONE)


@command
def why_not(
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="<run>/<node>.")],
    *,
    evaluation: Annotated[
        Path | None, typer.Option(help="The evaluation contract that it would be promoted under.")
    ] = None,
    root: Root = Path(),
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Say which reason code holds a node back from being evidence; if it is, where its Experience stands.

    Exit code 0 if the node is evidence, or would be one under --evaluation; 1 if a reason holds it back.

    \b
    Examples:
      vrm lineage why-not run_7/node_3
      vrm lineage why-not run_7/node_3 --evaluation evaluation.yaml --root experiments --json
    """  # noqa: D301  # as above
    with connection(context).stores() as stores:
        found = _answer(stores, namespace, node, evaluation, root)
    if as_json:
        show_json(found)
    else:
        out = console()
        show_title(out, f"{node}: {found['state']}")
        codes = ", ".join(found["codes"]) or "nothing holds it back"
        out.print(f"{codes}{': ' if found['detail'] else ''}{found['detail']}", markup=False)
        for remedy in found["remedies"]:
            out.print(f"  {remedy}", markup=False)
    raise typer.Exit(0 if found["is_evidence"] or not found["codes"] else NONE)


def _answer(stores: OpenStores, namespace: str, name: str, evaluation: Path | None, root: Path) -> dict[str, Any]:
    from memory.standing import standings  # noqa: PLC0415  # as above
    from vrm.mainjob.lineage import reports_of  # noqa: PLC0415

    run, _, node = name.partition("/")
    with stores.ledger.reading() as reader:
        reports = reports_of(reader, namespace, run)
        report = _named(reports, run, node)
        for standing in standings(reader, stores.artifacts, _experiences(reader, report)):
            return {
                "is_evidence": True,
                "state": standing.state.value,
                "experience": str(standing.experience.id),
                "codes": list(standing.codes),
                "detail": "",
                "remedies": list(standing.remedies),
            }
    return _held_back(stores, reports, report, evaluation, root)


def _named(reports: Sequence[NodeReport], run: str, node: str) -> NodeReport:
    from records.errors import NotFoundError  # noqa: PLC0415  # as above

    report = next((each for each in reports if each.node_id == node), None)
    if report is None:
        raise NotFoundError("node", f"{run}/{node}", f"The run has {len(reports)} nodes, and none of that name.")
    return report


def _experiences(reader: Any, report: NodeReport) -> list[Experience]:
    """Return the Experiences whose observation rests on the report."""
    from records.evidence import Experience, Observation  # noqa: PLC0415  # as above

    rows = [each for each in reader.find("observation", report.namespace) if report.report_digest in each.payload]
    observed = [each.id for each in rows if isinstance(each.load(), Observation)]
    found = reader.find("experience", report.namespace, observation_id=observed) if observed else []
    return [record for each in found if isinstance(record := each.load(), Experience)]


def _held_back(
    stores: OpenStores, reports: Sequence[NodeReport], report: NodeReport, evaluation: Path | None, root: Path
) -> dict[str, Any]:
    """Return what the promotion of a node would say; nothing is written."""
    from importers.node_report.declaration import read_declaration  # noqa: PLC0415  # as above
    from importers.node_report.evidence import judged  # noqa: PLC0415
    from policies.distillation_policy import CandidateReason  # noqa: PLC0415
    from policies.lineage.promotion import HeldBack  # noqa: PLC0415

    if evaluation is None:
        held = HeldBack(CandidateReason.MISSING_VERIFICATION, "no evaluation contract was given for it")
        remedies = ["Declare one, and run `vrm lineage promote` with --evaluation."]
    else:
        found = judged(read_declaration(evaluation), reports, root, stores.artifacts)[report.node_id]
        if not isinstance(found, HeldBack):
            valid = not found.violations
            return {
                "is_evidence": False,
                "state": "would be evidence" if valid else "would be an invalid trial",
                "experience": None,
                "codes": [] if valid else list(found.violations),
                "detail": "",
                "remedies": ["Run `vrm lineage promote` with the same declaration."] if valid else [],
            }
        held, remedies = found, []
    return {
        "is_evidence": False,
        "state": "no evidence",
        "experience": None,
        "codes": [held.reason.value],
        "detail": held.detail,
        "remedies": remedies,
    }
