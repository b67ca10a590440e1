"""`vrm procedures`: workflows that verified runs support; how they are compiled, shown and executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vrm.cli.connection import connection
from vrm.cli.jobs import opened_job
from vrm.cli.output import AsJson, Namespace, command, console, show_json
from vrm.cli.values import knob_value, pairs
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from vrm.mainjob.job import Job

app = typer.Typer(
    help="Compile, show and execute workflows that verified runs support.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
_DEFAULT = ["scaler=standard", "class_weight=balanced"]
Id = Annotated[str, typer.Argument(metavar="ID", help="Any unambiguous beginning of the procedure's id.")]


@app.command("list", short_help="List the active procedures.")
@command
def list_procedures(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Heads of any disposition, not only active ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the active procedures: steps, goal, grade, support and counter-evidence, scope.

    \b
    Examples:
      vrm procedures list
      vrm procedures list --all --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.procedures.reading import stored_procedures  # noqa: PLC0415  # help does without
    from vrm.cli import procedures_view as view  # noqa: PLC0415

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = stored_procedures(reader, namespace, every=every)
    if as_json:
        show_json([view.as_json(each) for each in found])
    elif found:
        view.show_list(console(), found)
    else:
        typer.echo(
            "No procedures." if every else "No active procedures; `vrm procedures trial` makes evidence for one."
        )


@app.command("show", short_help="Show one procedure with its evidence and executions.")
@command
def show_procedure(context: typer.Context, record_id: Id, as_json: AsJson = False) -> None:
    """Show one procedure: trigger, steps, every check, known failures, cost, evidence, and what became of executions.

    \b
    Examples:
      vrm procedures show 3fa2
      vrm procedures show memory-record:3fa2 --json
    """  # noqa: D301  # as above
    from memory.procedures.reading import executions, implemented, read_procedure  # noqa: PLC0415  # as above
    from vrm.cli import procedures_view as view  # noqa: PLC0415

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = read_procedure(reader, record_id)
        rules, done = implemented(reader, found.record), executions(reader, found.record)
    if as_json:
        executed = [each.as_json() for each in done]
        show_json(view.as_json(found) | {"implements": rules, "executions": executed})
        return
    view.show_detail(console(), found, rules)
    view.show_executions(console(), done)


@app.command("trial", short_help="Run a development study of trajectories, then compile.")
@command
def trial(
    tasks: Annotated[int, typer.Option(min=1, help="How many development tasks of one scope.")] = 12,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds on each task.")] = 1,
    change: Annotated[list[str], typer.Option("--change", help="A knob change, as name=value; in order.")] = _DEFAULT,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Run the same ordered knob changes on several shipped tables, verify every run, and compile what came of it.

    The same study again runs nothing again.

    \b
    Examples:
      vrm procedures trial
      vrm procedures trial --tasks 6 --seeds 2
      vrm procedures trial --change scaler=standard --change C=10 --change class_weight=balanced
    """  # noqa: D301  # as above
    with opened_job(namespace, "small", quiet=as_json) as job:
        _recover(job)
        from policies.catalog import load_catalog  # noqa: PLC0415  # as above
        from vrm.domain import CATALOG  # noqa: PLC0415
        from vrm.mainjob import procedures, steps  # noqa: PLC0415
        from vrm.mainjob.plan import SMALL, development_tasks  # noqa: PLC0415
        from vrm.mainjob.tabular import contract_of  # noqa: PLC0415

        catalog = load_catalog(CATALOG)
        study = procedures.Study(
            changes=tuple((knob, knob_value(text)) for knob, text in pairs("--change", change).items()),
            tasks=development_tasks(SMALL)[:tasks],
            seeds=tuple(range(seeds)),
        )
        run_id = procedures.run_study(job, study, catalog, contract_of(namespace, catalog.domain))
        steps.ingest(job, [run_id])
        _compile(job, as_json=as_json)
        steps.close_run(job, run_id, procedures.SLOT)


@app.command("compile", short_help="Distil what is waiting, and say what became of procedures.")
@command
def compile_waiting(namespace: Namespace = DEFAULT_NAMESPACE, as_json: AsJson = False) -> None:
    """Distil what is waiting in a namespace, and show every procedure that was considered, with reasons.

    \b
    Examples:
      vrm procedures compile
      vrm procedures compile --namespace demo --json
    """  # noqa: D301  # as above
    with opened_job(namespace, "small", quiet=as_json) as job:
        _recover(job)
        _compile(job, as_json=as_json)


@app.command("execute", short_help="Carry a procedure out on a task, step by step.")
@command
def execute(
    context: typer.Context,
    record_id: Id,
    task: Annotated[str, typer.Option("--task", help="The name of a shipped task, such as pc1.")],
    seed: Annotated[int, typer.Option(min=0, help="The seed of split and fits.")] = 20_000,
    knobs: Annotated[list[str], typer.Option("--set", help="A knob of the start, as name=value.")] = [],  # noqa: B006
    *,
    as_json: AsJson = False,
) -> None:
    """Carry an active procedure out: each step is decided, granted, run and verified as any other experiment is.

    A tool of another version, another catalog or a situation that does not fit blocks it before anything runs.

    \b
    Examples:
      vrm procedures execute 3fa2 --task pc1
      vrm procedures execute 3fa2 --task vowel0 --seed 7 --json
    """  # noqa: D301  # as above
    from memory.procedures.reading import read_procedure  # noqa: PLC0415  # as above

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = read_procedure(reader, record_id)
    with opened_job(found.record.namespace, "small", quiet=as_json) as job:
        _recover(job)
        from policies.catalog import load_catalog  # noqa: PLC0415
        from vrm.cli import procedures_view as view  # noqa: PLC0415
        from vrm.domain import CATALOG  # noqa: PLC0415
        from vrm.mainjob.procedures import ProcedureExecution  # noqa: PLC0415
        from vrm.mainjob.tabular import contract_of  # noqa: PLC0415

        catalog = load_catalog(CATALOG)
        start = catalog.effective_config({name: knob_value(text) for name, text in pairs("--set", knobs).items()})
        contract = contract_of(found.record.namespace, catalog.domain)
        done = ProcedureExecution(job, catalog, contract).execute(found, task, seed, start)
    if as_json:
        show_json(done.as_json())
    else:
        view.show_executions(console(), [done])


def _recover(job: Job) -> None:
    """Settle what a crash left, so that what was begun goes on where it stopped."""
    from vrm.mainjob.run import recover  # noqa: PLC0415  # brings everything along

    recover(job)


def _compile(job: Job, *, as_json: bool) -> None:
    from memory.procedures.reading import considered, implemented, stored_procedures  # noqa: PLC0415  # as above
    from vrm.cli import procedures_view as view  # noqa: PLC0415
    from vrm.mainjob import steps  # noqa: PLC0415

    steps.distil(job)
    with job.stores.ledger.reading() as reader:
        found = stored_procedures(reader, job.namespace, every=True)
        judged = considered(reader, job.namespace)
        rules = {str(each.record.id): implemented(reader, each.record) for each in found}
    if as_json:
        show_json({"considered": [each.as_json() for each in judged], "procedures": [view.as_json(p) for p in found]})
        return
    view.show_considered(console(), judged)
    for each in found:
        view.show_detail(console(), each, rules[str(each.record.id)])
