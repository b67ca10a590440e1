"""`vrm import`: evidence from tables that others published, records of earlier ledgers, reports of search nodes.

`vrm import FOLDER` means `vrm import table FOLDER`, which was the only import once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from vrm.cli import node_reports, run
from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, console, progress, short, show_json, show_rows, show_title

if TYPE_CHECKING:
    from importers.ai_researcher.content import LegacyContent
    from importers.ai_researcher.filing import Filed

DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and check everything, start nothing, write nothing.")]
_LISTED = 200
FOUND = 1
"""Exit code of a dry run that found files with other bytes than were published."""


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Take what is no command for the folder of a table."""
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["table", *args])


app = typer.Typer(
    cls=_Group,
    help="Import a published table, an earlier ledger, or node reports.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.command("table", short_help="Import a published table as evidence.")(run.import_table)
app.command("node-report", short_help="Import reports of the nodes of a search tree.")(node_reports.node_report)


@app.command("ai-researcher", short_help="Keep the records of an AI-Researcher ledger.")
@command
def ai_researcher(
    context: typer.Context,
    ledger: Annotated[Path, typer.Argument(help="SQLite ledger of schema revision 1 or 2.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep every record of an AI-Researcher ledger, byte by byte, in the namespace legacy_unscoped.

    The file is read from a private copy and is not changed. It is checked whole first: a file of another program or
    revision, or a row that does not fit its columns or its id, imports nothing. Nothing that is imported can be
    recalled or promoted; the report says why, record by record. An import that was cut short goes on; importing again
    adds nothing.

    \b
    Examples:
      vrm import ai-researcher experiments/ledger.sqlite --dry-run
      vrm import ai-researcher experiments/ledger.sqlite
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from importers.ai_researcher import read_ledger  # noqa: PLC0415  # help does without

    with progress(quiet=as_json) as told:
        content = read_ledger(ledger, told)
        filed = None if dry_run else _file(context, content, told)
    _tell(_report(content, filed), as_json=as_json)


@app.command("phase3", short_help="Keep the published phase-3 evidence bundle.")
@command
def phase3(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the bundle; it holds summary.json.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Verify AI-Researcher's published phase-3 evidence and keep its records in the namespace legacy_unscoped.

    Every published digest is compared with the bytes that are there, and every id is computed again. Files that are
    listed and absent are reported as missing; one with other bytes than were published imports nothing. Programs in the
    bundle are never run. Nothing in it can be promoted; the report says why, record by record.

    \b
    Examples:
      vrm import phase3 scientist_bench_phase3 --dry-run
      vrm import phase3 scientist_bench_phase3 --json | jq .digests
    """  # noqa: D301  # as above
    from importers.ai_researcher import read_bundle  # noqa: PLC0415  # help does without

    filed = None
    with progress(quiet=as_json) as told:
        bundle = read_bundle(folder, told)
        if not dry_run:
            bundle.require_intact()
            filed = _file(context, bundle.content, told)
    found = _report(bundle.content, filed, mismatched=bundle.mismatched, references=bundle.references)
    _tell(found, as_json=as_json)
    raise typer.Exit(FOUND if bundle.mismatched else 0)


def _file(context: typer.Context, content: LegacyContent, told: Callable[[str, int, int], None]) -> Filed:
    from importers.ai_researcher import file_content  # noqa: PLC0415  # as above

    joined = connection(context)
    with joined.stores() as stores:
        return file_content(content, stores.ledger, joined.coordinator(stores), stores.artifacts, told)


def _report(content: LegacyContent, filed: Filed | None, **extra: Any) -> dict[str, Any]:
    from importers.ai_researcher.report import report  # noqa: PLC0415  # as above

    return report(content, filed, **extra)


def _tell(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    out = console()
    tables = (
        (table, str(rows), str(found["ids"].get(table, {}).get("recomputed", 0)))
        for table, rows in found["rows"].items()
    )
    show_title(out, f"{found['format']}, schema revision {found['revision']}: {found['records']} records")
    show_rows(out, ("table", "rows", "ids recomputed"), tables)
    if found["digests"]["published"]:
        figures = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in found["digests"].items())
        out.print(f"Digests: {figures}", markup=False)
        for name in ("mismatched", "missing"):
            for path in found[name]:
                out.print(f"  {name} {path}", markup=False, soft_wrap=True)
    show_title(out, "Promoted: 0. What holds each record back")
    members = found["members"]
    rows = ((short(each["record_id"]), each["table"], ", ".join(each["reasons"])) for each in members[:_LISTED])
    show_rows(out, ("record", "table", "reasons"), rows)
    if len(members) > _LISTED:
        out.print(f"{len(members) - _LISTED} more; --json lists all of them.")
    out.print(", ".join(f"{reason}: {count}" for reason, count in found["reasons"].items()) or "No records.")
    out.print(_written(found["written"]), markup=False)


def _written(written: dict[str, Any] | None) -> str:
    if written is None:
        return "Dry run: nothing was written."
    added = f"{written['new_records']} new records in legacy_unscoped"
    return f"{'Imported before; ' if written['repeated'] else ''}{added}. Receipt {short(written['import_id'])}."
