"""`vrm recover`: whatever is unresolved, resumed from what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import Connection, OpenStores, connection
from vrm.cli.output import AsJson, command, console, show_json, waiting_for

if TYPE_CHECKING:
    from memory.recovery import Swept

FOUND = 1


@command
def recover(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is unresolved.")] = False,
    as_json: AsJson = False,
) -> None:
    """Resume what a crash or a stop left unresolved: grants, erasures, leases, handoffs, Runs that end, releases.

    Everything is read from the stores; it is safe at any time, by anyone, twice at once. `vrm run` and `vrm distil` do
    the same when they begin. Exit code 0 if nothing waits any more, 1 if something does; it says what it waits for.

    \b
    Examples:
      vrm recover --dry-run
      vrm recover
      vrm recover --json | jq .waiting
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    joined = connection(context)
    with joined.stores() as stores, waiting_for("Recovering", quiet=as_json):
        swept = _looked(stores) if dry_run else _swept(joined, stores)
    waiting = sum(len(each.waiting) for each in swept)
    if as_json:
        show_json(_told(swept, dry_run=dry_run))
    else:
        _print(swept, dry_run=dry_run)
    raise typer.Exit(FOUND if waiting and not dry_run else 0)


def _looked(stores: OpenStores) -> tuple[Swept, ...]:
    from memory.recovery import unresolved  # noqa: PLC0415  # help does without

    return unresolved(_reads(stores))


def _swept(joined: Connection, stores: OpenStores) -> tuple[Swept, ...]:
    from memory.recovery import Recovery  # noqa: PLC0415  # as above

    return Recovery(_reads(stores), joined.run_owner(stores), joined.coordinator(stores)).sweep()


def _reads(stores: OpenStores) -> Any:
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.recovery import Reads  # noqa: PLC0415  # as above

    return Reads(ledger=stores.ledger, runtime=stores.runtime, artifacts=stores.artifacts, clock=now)


def _told(swept: tuple[Swept, ...], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "resumed": sum(len(each.resumed) for each in swept),
        "waiting": sum(len(each.waiting) for each in swept),
        "sweeps": [each.as_json() for each in swept],
    }


def _print(swept: tuple[Swept, ...], *, dry_run: bool) -> None:
    out = console()
    for sweep in swept:
        found = f"{len(sweep.waiting)} unresolved" if dry_run else f"{len(sweep.resumed)} resumed"
        still = f", {len(sweep.waiting)} waiting" if sweep.waiting and not dry_run else ""
        out.print(f"{sweep.sweep:<16}{found}{still}", markup=False)
        for each in sweep.waiting:
            why = "" if each.reason is None else f"\n    {type(each.reason).__name__}: {each.reason}"
            out.print(f"  {each.subject}{why}", markup=False, soft_wrap=True)
