"""`vrm fsck`: everything recomputed from the rows."""

from __future__ import annotations

from typing import Annotated

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, console, progress, show_json


@command
def fsck(
    context: typer.Context,
    namespace: Annotated[
        str | None, typer.Option(help="Check this namespace only.", show_default="all of them")
    ] = None,
    artifacts: Annotated[bool, typer.Option(help="Read every referenced artifact and check its digest.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check a store: recompute every id, digest, chain, head and link from the rows.

    Nothing is changed, and others may write meanwhile. Each finding names the record and what to do about it.
    Exit code 0 if all is well, 1 if something was found, 2 if the store could not be checked.

    \b
    Examples:
      vrm fsck
      vrm fsck --namespace main      one namespace only
      vrm fsck --no-artifacts        leave the bytes of artifacts alone
      vrm fsck --json | jq .counts
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.fsck import fsck as check  # noqa: PLC0415  # help does without

    with (
        connection(context).stores() as stores,
        progress(quiet=as_json) as told,
        stores.ledger.reading() as reader,
    ):
        report = check(reader, stores.runtime, stores.artifacts if artifacts else None, told, namespace=namespace)
    if as_json:
        show_json(report.as_json() | {"clean": report.clean})
    else:
        out = console()
        out.print(report.text(), markup=False, soft_wrap=not out.is_terminal)
    raise typer.Exit(report.exit_code)
