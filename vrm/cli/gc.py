"""`vrm gc`: artifact bytes that nobody needs."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, console, show_json

_DAY: Final = 24 * 60 * 60


@command
def gc(
    context: typer.Context,
    remove: Annotated[bool, typer.Option("--remove/--dry-run", help="Remove what is found, or only show it.")] = False,
    grace_days: Annotated[int, typer.Option(min=1, help="Leave alone what was published in the last days.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Find artifact bytes that no reference holds and nothing names, and remove them with --remove.

    A digest that stands in any record, proposal or subject keeps its bytes, and so does one that stands in such bytes.
    Others may publish meanwhile; the days of grace must exceed the longest job that publishes before it records.

    \b
    Examples:
      vrm gc                         show what would be removed
      vrm gc --remove
      vrm gc --json | jq .bytes
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.garbage import collect  # noqa: PLC0415  # help does without

    before = time.time() - grace_days * _DAY
    with connection(context).stores() as stores:
        garbage = collect(stores.ledger, stores.runtime, stores.artifacts, published_before=before, remove=remove)
    shown = garbage.removed if remove else garbage.found
    size = sum(each.size for each in shown)
    if as_json:
        files = [{"name": each.name, "bytes": each.size} for each in shown]
        show_json({"removed": remove, "files": files, "bytes": size, "looked_at": garbage.looked_at})
        return
    out = console()
    for each in shown:
        out.print(f"{each.name}  {each.size} bytes", markup=False, soft_wrap=True)
    verb = "Removed" if remove else "Would remove"
    out.print(f"{verb} {len(shown)} of {garbage.looked_at} files, {size} bytes.", markup=False)
