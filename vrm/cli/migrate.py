"""`vrm migrate`: databases of an earlier version brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vrm.cli.output import AsJson, command, show_json

if TYPE_CHECKING:
    from store.migrations.run import Migration


@command
def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the databases of an earlier version up to this one's schema; stored records stay byte for byte.

    Each database is migrated in one transaction: it is done whole or not at all. Nothing may write meanwhile, so stop
    what runs first (`vrm down`). The servers start as with `vrm up`; the roles that own the schemas are used.

    \b
    Examples:
      vrm migrate --dry-run
      vrm migrate
      vrm migrate --json | jq '.schemas[].to'
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.bootstrap import migrate_stores  # noqa: PLC0415  # brings the drivers along

    found = migrate_stores(dry_run=dry_run)
    if as_json:
        show_json({"dry_run": dry_run, "schemas": [each.as_json() for each in found]})
        return
    for each in found:
        _tell(each, "would go" if dry_run else "went")


def _tell(found: Migration, verb: str) -> None:
    if not found.steps:
        typer.echo(f"{found.schema}: revision {found.before}, nothing to do")
        return
    typer.echo(f"{found.schema}: {verb} from revision {found.before} to {found.after}")
    for step in found.steps:
        typer.echo(f"  {step.revision}  {step.what}")
