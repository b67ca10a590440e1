"""`vrm runs`: where Runs stand, and the commands that are given to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.connection import Connection, OpenStores, connection
from vrm.cli.output import AsJson, command, console, short, show_json

if TYPE_CHECKING:
    from memory.closure import RunClosure
    from memory.commands import RunCommands
    from records.control import BudgetLimit, ControlCause, Controlled
    from records.ids import RunId
    from records.runtime import Subject

Run = Annotated[str, typer.Argument(metavar="RUN", help="Any unambiguous beginning of the Run's id.")]
Reason = Annotated[str, typer.Option("--reason", help="Words for people; nothing is decided by them.")]
WAITING = 1
"""Exit code of a Run that is closing and cannot end yet."""

app = typer.Typer(
    help="List Runs, show one, or give one a command.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list", short_help="List the Runs that are not over.")
@command
def list_runs(
    context: typer.Context,
    phase: Annotated[str | None, typer.Option(help="Only those in this phase, such as PAUSED or COMPLETED.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are over as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """List Runs: id, kind, phase, what controls each, what it spent of its budget, and what is open in it.

    \b
    Examples:
      vrm runs list
      vrm runs list --phase paused
      vrm runs list --all --json | jq '.runs[].id'
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from records.states import Machine, ends_of, phases_of  # noqa: PLC0415  # help does without
    from vrm.cli import runs_view  # noqa: PLC0415

    living = [each for each in phases_of(Machine.RUN) if each not in ends_of(Machine.RUN)]
    wanted = [runs_view.of_phase(phase)] if phase else [] if every else living
    with connection(context).stores() as stores:
        found = runs_view.rows(stores.runtime, stores.runtime.find(Machine.RUN, wanted))
    if as_json:
        show_json({"runs": found})
    elif found:
        runs_view.show_list(console(), found)
    else:
        typer.echo("No such Run." if phase or every else "No Run is under way; `vrm runs list --all` shows the others.")


@app.command("show", short_help="Show one Run with its leases, budget and decisions.")
@command
def show_run(context: typer.Context, run: Run, as_json: AsJson = False) -> None:
    """Show one Run: what controls it and why, its budget, who holds its Activities until when, what is open.

    \b
    Examples:
      vrm runs show 3fa2
      vrm runs show run:3fa2 --json | jq .activities
    """  # noqa: D301  # as above
    from vrm.cli import runs_view  # noqa: PLC0415  # as above

    with connection(context).stores() as stores:
        found = runs_view.detail(stores.runtime, stores.artifacts, runs_view.resolve(stores.runtime, run))
    if as_json:
        show_json(found)
    else:
        runs_view.show_detail(console(), found)


@app.command("pause", short_help="Let nothing more begin in a Run.")
@command
def pause_run(context: typer.Context, run: Run, reason: Reason = "", as_json: AsJson = False) -> None:
    """Pause a Run: no lease, no charge and no grant until it is resumed; what is under way is not interrupted.

    A Run with an unresolved grant is not paused: recovery settles it in a moment, then pause again.

    \b
    Examples:
      vrm runs pause 3fa2 --reason "the cluster is needed"
    """  # noqa: D301  # as above
    with _given(context, run) as given:
        answer = given.commands.pause_run(given.run_id, detail=_words(reason))
    _tell(given, answer, as_json=as_json)


@app.command("resume", short_help="Let a paused Run go on.")
@command
def resume_run(context: typer.Context, run: Run, reason: Reason = "", as_json: AsJson = False) -> None:
    """Let a paused Run go on.

    \b
    Examples:
      vrm runs resume 3fa2
    """  # noqa: D301  # as above
    with _given(context, run) as given:
        answer = given.commands.resume_run(given.run_id, detail=_words(reason))
    _tell(given, answer, as_json=as_json)


@app.command("cancel", short_help="Cancel a Run, and close what is open in it.")
@command
def cancel_run(
    context: typer.Context,
    run: Run,
    incident: Annotated[bool, typer.Option("--incident", help="An incident is the cause, not a wish.")] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Cancel a Run, give every decision that is open its one outcome, and end it.

    What is granted already is settled first and stays valid. Give the command again to go on with a closure that could
    not end; exit code 1 says that something cannot be closed yet, and the output what it is.

    \b
    Examples:
      vrm runs cancel 3fa2
      vrm runs cancel 3fa2 --incident --reason "a disk is failing" --json
    """  # noqa: D301  # as above
    from records.control import ControlCause  # noqa: PLC0415  # as above

    cause = ControlCause.INCIDENT if incident else ControlCause.COMMAND
    with _given(context, run) as given:
        _stop(given, lambda: given.commands.cancel_run(given.run_id, cause, _words(reason)), as_json=as_json)


@app.command("fail", short_help="Fail a Run, and close what is open in it.")
@command
def fail_run(
    context: typer.Context,
    run: Run,
    cause: Annotated[str, typer.Option(help="What failed: integrity, contract or infrastructure.")],
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Let a Run fail for a cause of its own, give every open decision its one outcome, and end it.

    A Run that is cancelling is taken over; one that is failing keeps this as secondary evidence. Exit codes are those
    of `vrm runs cancel`.

    \b
    Examples:
      vrm runs fail 3fa2 --cause infrastructure --reason "the license server is gone"
    """  # noqa: D301  # as above
    known = _cause(cause)
    with _given(context, run) as given:
        _stop(given, lambda: given.commands.fail_run(given.run_id, known, _words(reason)), as_json=as_json)


@app.command("budget", short_help="Set limits of a Run's budget.")
@command
def amend_budget(
    context: typer.Context,
    run: Run,
    limits: Annotated[list[str], typer.Argument(metavar="RESOURCE=LIMIT...", help="Whole numbers, 0 or more.")],
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Set how much a Run may use of each resource; a limit below what is spent is refused.

    Every lease of an Activity costs one of activity_attempts, every experiment one of experiments.

    \b
    Examples:
      vrm runs budget 3fa2 experiments=500
      vrm runs budget 3fa2 activity_attempts=10 model_tokens=200000
    """  # noqa: D301  # as above
    wanted = [_limit(each) for each in limits]
    with _given(context, run) as given:
        answer = given.commands.amend_budget(given.run_id, wanted, given.run.version, _words(reason))
        budget = given.read()["budget"]
    _tell(given, answer, as_json=as_json, budget=budget)


@dataclass(frozen=True)
class _Given:
    """A Run that a command is given to, as it was read, and through whom."""

    stores: OpenStores
    run: Subject
    commands: RunCommands
    joined: Connection

    @property
    def run_id(self) -> RunId:
        from records.ids import RunId  # noqa: PLC0415  # as above

        return RunId.check(self.run.id)

    @property
    def closure(self) -> RunClosure:
        from memory.closure import ClosurePorts, RunClosure  # noqa: PLC0415  # as above
        from memory.spine import Spine  # noqa: PLC0415

        stores, owner = self.stores, self.joined.run_owner(self.stores)
        ports = ClosurePorts(
            ledger=stores.ledger,
            runtime=stores.runtime,
            artifacts=stores.artifacts,
            owner=owner,
            spine=Spine(stores.artifacts, owner, self.joined.coordinator(stores)),
        )
        return RunClosure(ports)

    def read(self) -> dict[str, Any]:
        """Return the Run as it stands now."""
        from vrm.cli import runs_view  # noqa: PLC0415  # as above

        return runs_view.detail(
            self.stores.runtime, self.stores.artifacts, runs_view.resolve(self.stores.runtime, self.run.id)
        )


@contextmanager
def _given(context: typer.Context, prefix: str) -> Iterator[_Given]:
    """Find a Run before anything is started, then give who commands it."""
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.commands import RunCommands  # noqa: PLC0415
    from vrm.cli import runs_view  # noqa: PLC0415

    joined = connection(context)
    with joined.stores() as stores:
        run = runs_view.resolve(stores.runtime, prefix)
        yield _Given(stores, run, RunCommands(stores.runtime, stores.artifacts, joined.run_owner(stores), now), joined)


def _stop(given: _Given, stop: Callable[[], Controlled], *, as_json: bool) -> None:
    """Stop a Run and close it, and tell how far that came."""
    from records.errors import StaleError  # noqa: PLC0415  # as above
    from records.states import Phase  # noqa: PLC0415

    answer, waits = stop(), None
    settled = _settled(given)
    try:
        given.closure.close(given.run.id)
    except StaleError as error:
        waits = error.as_dict()
    now = given.read()
    closed = _settled(given) - settled
    found = {
        "phase": now["phase"], "closed_decisions": closed, "open": now["open_subjects"], "waits_for": waits,
    }  # fmt: skip
    _tell(given, answer, as_json=as_json, **found)
    if now["phase"] not in {Phase.CANCELLED, Phase.FAILED}:
        raise typer.Exit(WAITING)


def _settled(given: _Given) -> int:
    from records.states import Machine, Phase  # noqa: PLC0415  # as above

    return len(given.stores.runtime.find(Machine.DECISION, [Phase.OUTCOME_COMMITTED], given.run.id))


def _tell(given: _Given, answer: Controlled, *, as_json: bool, **more: Any) -> None:
    found = {"run": given.run.id, "effect": answer.effect.value, "phase": answer.phase.value} | more
    if as_json:
        show_json(found)
        return
    from vrm.cli import runs_view  # noqa: PLC0415  # as above

    out = console()
    out.print(f"{short(given.run.id)} is {found['phase']} ({_EFFECTS[found['effect']]}).", markup=False)
    for line in more.get("budget", ()):
        limit = "no limit" if line["limit"] is None else f"of {line['limit']}"
        out.print(f"  {line['resource']}: {line['spent']} spent, {limit}", markup=False)
    if "closed_decisions" in more:
        out.print(f"{more['closed_decisions']} decisions were closed.", markup=False)
    if more.get("waits_for"):
        runs_view.show_open(out, more["open"])
        waits = more["waits_for"]
        out.print(f"It cannot end yet. {waits['field']}: {waits['value']}. {waits['remedy']}", markup=False)
        out.print("Then give the command again.", markup=False)


_EFFECTS = {
    "APPLIED": "the command took effect",
    "REPLAYED": "the command had taken effect before",
    "RETAINED": "kept as secondary evidence; it was failing already",
    "SUPPRESSED": "it was stopped before",
}


def _words(reason: str) -> str:
    from records.canonical import normalise  # noqa: PLC0415  # as above

    return str(normalise(reason))


def _cause(text: str) -> ControlCause:
    from records.control import INDEPENDENT  # noqa: PLC0415  # as above
    from records.errors import InvalidInputError  # noqa: PLC0415

    known = {cause.value.lower(): cause for cause in INDEPENDENT}
    if text.lower() not in known:
        raise InvalidInputError("--cause", text, f"Causes: {', '.join(sorted(known))}.")
    return known[text.lower()]


def _limit(text: str) -> BudgetLimit:
    from records.control import BudgetLimit  # noqa: PLC0415  # as above
    from records.errors import InvalidInputError  # noqa: PLC0415

    resource, equals, number = text.partition("=")
    if not equals or not re.fullmatch("[0-9]{1,15}", number):
        raise InvalidInputError("limit", text, "Write resource=limit with a whole number, such as experiments=500.")
    return BudgetLimit.build(resource=resource, limit=int(number))
