"""`vrm up` and `vrm down`: the servers of an installation."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vrm.cli.output import AsJson, command, show_json

Dashboard = Annotated[bool, typer.Option("--dashboard", help="Also start the dashboard that `ray job submit` needs.")]


@command
def up(dashboard: Dashboard = False, as_json: AsJson = False) -> None:
    """Start Postgres and Ray, or find them running, and bring the databases up to the schema.

    What VRM_LEDGER_DSN, VRM_RUNTIME_DSN and RAY_ADDRESS name is used instead of starting something.

    \b
    Examples:
      vrm up
      vrm up --dashboard
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.bootstrap import home_of, start_cluster, stores  # noqa: PLC0415  # brings the drivers along

    home = home_of()
    with stores(home):
        info = start_cluster(home, dashboard=dashboard)
    found: dict[str, Any] = {"home": str(home.root), "ray": info.address, "dashboard": info.dashboard}
    if as_json:
        show_json(found)
        return
    typer.echo(f"Postgres and Ray are running for {home.root}.")
    typer.echo(f"Ray: {info.address}" + (f", dashboard {info.dashboard}" if info.dashboard else ""))
    typer.echo("They keep running; `vrm down` stops them.")


@command
def down(as_json: AsJson = False) -> None:
    """Stop the Ray and the Postgres that `vrm up` or `vrm run` started for this home; nothing is lost.

    \b
    Examples:
      vrm down
    """  # noqa: D301  # as above
    from actors.cluster import stop  # noqa: PLC0415  # imports Ray
    from vrm.bootstrap import home_of, server_of  # noqa: PLC0415  # as above

    home = home_of()
    found = {"ray": stop(home.ray), "postgres": server_of(home).stop()}
    if as_json:
        show_json(found)
        return
    for name, stopped in found.items():
        typer.echo(f"{name:<10}{'stopped' if stopped else 'was not running'}")
