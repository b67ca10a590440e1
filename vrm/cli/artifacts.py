"""`vrm audit artifacts`: whether the files that lineage memory names are still what was said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, console, progress, short, show_json, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from memory.lineage.audit import ArtifactAudit, AuditedFile

FOUND = 1
"""Exit code of an audit that found a file missing, or with other bytes."""
Root = Annotated[Path, typer.Option(help="The folder of all trees: <root>/<run>/<node>.")]


@command
def artifacts(
    context: typer.Context,
    checkpoint: Annotated[str | None, typer.Argument(help="The run to look at; otherwise every one.")] = None,
    *,
    root: Root = Path(),
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Read every file again that reports and entries of lineage memory name, and compare its digest.

    Verified: the digest that was claimed. Mismatch: other bytes than were claimed or, where nothing was, than were read
    when the report came in. Missing: nothing to read below the node's folder; links are not followed. Unhashed: nobody
    ever claimed a digest, so that nothing is verified. Nothing is written.

    Exit code 0 if no file is missing and none has other bytes, 1 if one is or has, 2 if the audit cannot be made.

    \b
    Examples:
      vrm audit artifacts run_7 --root experiments
      vrm audit artifacts --root experiments --json | jq .counts
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.lineage.audit import audit_artifacts  # noqa: PLC0415  # help does without
    from records.errors import InvalidInputError, NotFoundError  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415

    require_namespace(namespace)
    if not root.is_dir():
        raise InvalidInputError("--root", str(root), "Name the folder that holds <run>/<node>.")
    with connection(context).stores() as stores, progress(quiet=as_json) as told, stores.ledger.reading() as reader:
        audit = audit_artifacts(reader, namespace, root, checkpoint, progress=told)
    if checkpoint is not None and not audit.records:
        raise NotFoundError("checkpoint", checkpoint, f"{namespace} has no report or entry of it.")
    if as_json:
        show_json(_as_json(audit))
    else:
        _show(audit)
    raise typer.Exit(0 if audit.is_whole else FOUND)


def _as_json(audit: ArtifactAudit) -> dict[str, Any]:
    return {
        "records": audit.records,
        "counts": {status.value: count for status, count in audit.counts.items()},
        "whole": audit.is_whole,
        "files": [_file(each) for each in audit.files],
    }


def _file(each: AuditedFile) -> dict[str, Any]:
    return {
        "checkpoint": each.checkpoint_id,
        "node": each.node_id,
        "record": str(each.record_id),
        "path": each.relative_path,
        "status": each.status.value,
        "expected": each.expected,
        "found": each.found,
        "detail": each.detail,
    }


def _show(audit: ArtifactAudit) -> None:
    out = console()
    counts = ", ".join(f"{count} {status.value}" for status, count in audit.counts.items() if count)
    show_title(out, f"Files of {audit.records} records: {counts or 'none'}")
    header = ("node", "path", "status", "record", "why")
    rows = (
        (f"{each.checkpoint_id}/{each.node_id}", each.relative_path, each.status.value, short(str(each.record_id)),
         each.detail)
        for each in audit.files
    )  # fmt: skip
    show_rows(out, header, rows)
