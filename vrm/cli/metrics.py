"""`vrm metrics`: the standing of the installation for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, show_json

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from vrm.cli.connection import Connection, OpenStores

_LOOPBACK = "127.0.0.1"

Serve = Annotated[
    int | None,
    typer.Option("--serve", metavar="PORT", min=0, max=65535, help="Serve it on loopback until it is interrupted."),
]


@command
def metrics(context: typer.Context, serve: Serve = None, as_json: AsJson = False) -> None:
    """Print the metrics of the installation in the exposition format of Prometheus, or serve them on loopback.

    Counts are those of the Ledger whenever it is asked, so they are right after a restart; no process keeps any.
    With --serve 0 a free port is chosen. The address is printed before the first request is answered.

    \b
    Examples:
      vrm metrics
      vrm metrics --serve 9464
      vrm metrics --json | jq '.vrm_records'
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from prometheus_client import generate_latest  # noqa: PLC0415  # help does without

    joined = connection(context)
    with joined.stores() as stores:
        registry = _registry(joined, stores)
        if serve is not None:
            _serve(registry, serve, as_json=as_json)
        elif as_json:
            show_json(_values(registry))
        else:
            typer.echo(generate_latest(registry).decode(), nl=False)


def _registry(joined: Connection, stores: OpenStores) -> CollectorRegistry:
    from memory.trace.costs import CostBook  # noqa: PLC0415  # as above
    from memory.trace.metrics import EventTimes, Standing, registry_of  # noqa: PLC0415

    home = joined.home()
    times = EventTimes(home.events)
    return registry_of(Standing(stores.ledger, stores.runtime.phase_counts, CostBook(home.costs), times))


def _serve(registry: CollectorRegistry, port: int, *, as_json: bool) -> None:
    from prometheus_client import start_http_server  # noqa: PLC0415  # as above

    from records.errors import UnavailableError  # noqa: PLC0415

    try:
        server, thread = start_http_server(port, addr=_LOOPBACK, registry=registry)
    except OSError as error:
        raise UnavailableError("--serve", str(port), f"Choose another port ({error.strerror}).") from error
    address = f"http://{_LOOPBACK}:{server.server_port}/metrics"
    if as_json:
        show_json({"serving": address})
    else:
        typer.echo(f"Serving {address}; interrupt to end.", err=True)
    try:
        thread.join()
    except KeyboardInterrupt:
        typer.echo("Ended.", err=True)
    finally:
        server.shutdown()
        server.server_close()


def _values(registry: CollectorRegistry) -> dict[str, Any]:
    """Return the samples of each metric as JSON values."""
    return {
        metric.name: {
            "help": metric.documentation,
            "type": metric.type,
            "samples": [
                {"name": sample.name, "labels": dict(sample.labels), "value": sample.value} for sample in metric.samples
            ],
        }
        for metric in registry.collect()
    }
