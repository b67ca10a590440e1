"""`vrm trace`: from what was recalled to what was better for it, decision by decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, console, show_json, waiting_for
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from evaluation.mediation import Mediation
    from memory.trace.accounting import Costs
    from memory.trace.reading import Traced
    from vrm.cli.connection import OpenStores

Run = Annotated[str, typer.Option("--run", metavar="RUN", help="Only the decisions of this Run.")]
Intent = Annotated[str, typer.Option("--intent", metavar="ID", help="Only this decision, in full.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the trace into this file.")]
WithCosts = Annotated[bool, typer.Option("--costs", help="What it cost, component by component.")]


@command
def trace(
    context: typer.Context,
    run: Run = "",
    intent: Intent = "",
    *,
    plot: Plot = None,
    costs: WithCosts = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Trace decisions: what was recalled, what became of each card, what really ran, what was verified of it.

    Every decision is counted, whatever became of it; what is missing or contradicts itself is told as a broken link.
    How many cards were recalled is no gain: that is the paired difference of verified outcomes.

    \b
    Examples:
      vrm trace
      vrm trace --run 3fa2 --plot trace.svg
      vrm trace --intent 90ab --json | jq '.decisions[0].cards'
      vrm trace --costs
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    _check(run, intent, plot)
    joined = connection(context)
    with joined.stores() as stores, waiting_for("Reading the trace", quiet=as_json):
        traced, found, spent = _read(stores, (namespace, run, intent), joined.home().costs if costs else None)
    if plot is not None:
        _draw(plot, traced, found)
    if as_json:
        show_json(_as_json(traced, found, spent, plot))
        return
    from vrm.cli import trace_view  # noqa: PLC0415  # help does without

    trace_view.show(console(), traced, found, whole=bool(intent))
    if spent is not None:
        trace_view.show_costs(console(), spent)
    if plot is not None:
        typer.echo(f"\nPlot: {plot}")


def _check(run: str, intent: str, plot: Path | None) -> None:
    """Refuse options that cannot be followed, before anything is started."""
    from records.errors import InvalidInputError  # noqa: PLC0415  # as above

    if run and intent:
        raise InvalidInputError("--intent", intent, "Give a Run or a decision, not both.")
    if plot is not None and (plot.suffix.lower() != ".svg" or not plot.absolute().parent.is_dir()):
        raise InvalidInputError("--plot", str(plot), "Name a file that ends in .svg, in a folder that is there.")


def _read(
    stores: OpenStores, wanted: tuple[str, str, str], costs: Path | None
) -> tuple[Traced, Mediation, Costs | None]:
    """Read decisions, their metrics and, if asked for, their costs: all of one moment."""
    from evaluation.mediation import improvements, mediation  # noqa: PLC0415  # as above
    from memory.trace.accounting import read_costs  # noqa: PLC0415
    from memory.trace.costs import CostBook  # noqa: PLC0415
    from memory.trace.reading import Asked, intent_of, read_traces  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415
    from records.ids import IntentId  # noqa: PLC0415
    from records.runtime import RunBody  # noqa: PLC0415
    from vrm.cli import runs_view  # noqa: PLC0415

    namespace, run, intent = wanted
    require_namespace(namespace)
    found_run = runs_view.resolve(stores.runtime, run) if run else None
    if found_run is not None:
        namespace = RunBody.load(found_run.body).namespace
    run_ids = (found_run.id,) if found_run else ()
    with stores.ledger.reading() as reader:
        one: IntentId | None = intent_of(reader, intent) if intent else None
        namespace = _of(reader, one) or namespace
        traced = read_traces(reader, Asked(namespace=namespace, run_ids=run_ids, intent_id=one))
        found = mediation(traced.traces, traced.fidelity)
        if costs is None:
            return traced, found, None
        spent = read_costs(
            reader,
            CostBook(costs).read(namespace),
            namespace,
            traced.traces,
            improvements=improvements(traced.traces),
            whole=not run and not intent,
        )
    return traced, found, spent


def _of(reader: Any, intent_id: str | None) -> str | None:
    """Return the namespace of a decision that was named by its id."""
    stored = None if intent_id is None else reader.get(intent_id)
    return None if stored is None else str(stored.namespace)


def _draw(plot: Path, traced: Traced, found: Mediation) -> None:
    from records.errors import NotFoundError, UnavailableError  # noqa: PLC0415  # as above
    from vrm.report.funnel import draw_funnel  # noqa: PLC0415  # brings matplotlib along

    if not traced.traces:
        raise NotFoundError("decisions", "none", "There is nothing to draw yet; `vrm run` takes decisions.")
    try:
        plot.write_bytes(draw_funnel(found, traced.traces))
    except OSError as error:
        raise UnavailableError("--plot", str(plot), f"Name a file that can be written ({error.strerror}).") from error


def _as_json(traced: Traced, found: Mediation, spent: Costs | None, plot: Path | None) -> dict[str, Any]:
    decisions = [each.model_dump(mode="json") for each in traced.traces]
    value = {"mediation": found.as_json(), "decisions": decisions}
    value |= {} if spent is None else {"costs": spent.as_json()}
    return value | ({} if plot is None else {"plot": str(plot)})
