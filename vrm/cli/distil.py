"""`vrm distil`: from evidence to rules, where that work stands, and what was given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from records.errors import InvalidInputError
from vrm.cli.connection import connection
from vrm.cli.drafting import KEY_VARIABLE, TEMPLATE, DraftBy, LlmKeyVariable, LlmModel, LlmUrl, drafter_of
from vrm.cli.jobs import opened_job
from vrm.cli.output import AsJson, Namespace, command, console, show_json
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from vrm.mainjob.purposes import Purpose

LEFT = 1
"""Exit code if something that was asked for is not completed: it still waits, or it is a dead letter."""

Made = Annotated[
    str,
    typer.Option(
        "--for",
        help="normal; diagnosis, with what is contested; or confirmatory, for `vrm run --mode frozen_memory`.",
    ),
]

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
@command
def distil(
    context: typer.Context,
    namespace: Namespace = DEFAULT_NAMESPACE,
    *,
    made: Made = "normal",
    draft: DraftBy = TEMPLATE,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_variable: LlmKeyVariable = KEY_VARIABLE,
    as_json: AsJson = False,
) -> None:
    """Distil what is waiting in a namespace, and compose a new Recall Input from the active rules.

    Every Experience gets its receipt, every work item its campaign, every campaign its completion, each under the
    policies that its item pins. End it at any point and give the command again: it goes on. Exit code 1 says that
    something still waits or was given up just now; the summary says why.

    What the Recall Input is composed for says which policies it is under: `diagnosis` takes in contested rules, which
    nothing but diagnosis shows; `confirmatory` allows no fallback, and questions outside a trial are not put to it.

    With --draft llm a model words the rules that are promoted. It decides nothing, and what it says is taken only if
    it says what was measured; a draft that fails or is refused leaves the plain sentence (docs/drafting.md).

    \b
    Examples:
      vrm distil
      vrm distil --namespace study --json | jq .waiting
      vrm distil --for diagnosis && vrm recall "it fails" --point diagnosis --task problem_type=binary ...
      vrm distil --for confirmatory --json | jq -r .recall_input
      vrm distil --draft llm --llm-url http://127.0.0.1:8000/v1 --llm-model qwen3
      vrm distil status
      vrm distil dead-letters
      vrm distil retry 3fa2
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    if context.invoked_subcommand is not None:
        if namespace != DEFAULT_NAMESPACE:
            raise InvalidInputError("--namespace", namespace, f"Give it after `{context.invoked_subcommand}`.")
        return
    purpose = _purpose(made)
    with (
        drafter_of(draft, llm_url, llm_model, llm_key_variable) as drafter,
        opened_job(namespace, "full", quiet=as_json) as job,
    ):
        from vrm.mainjob.distillation import distil_waiting  # noqa: PLC0415  # brings everything along

        job.drafter = drafter
        found = distil_waiting(job, purpose)
        if drafter is not None:
            found |= {"worded": drafter.outcomes}
    if as_json:
        show_json(found)
    else:
        from vrm.cli import distil_view  # noqa: PLC0415  # as above

        distil_view.show_summary(console(), found)
    raise typer.Exit(LEFT if found["waiting"] or found["failures"] or found["dead_letters"] else 0)


@app.command("status", short_help="Show where the distillation work of a namespace stands.")
@command
def status(context: typer.Context, namespace: Namespace = DEFAULT_NAMESPACE, as_json: AsJson = False) -> None:
    """Show what waits, what is being worked on, what was completed and how, and what was given up and why.

    \b
    Examples:
      vrm distil status
      vrm distil status --json | jq .completed
    """  # noqa: D301  # as above
    from vrm.cli import distil_view  # noqa: PLC0415  # help does without

    with connection(context).stores() as stores:
        found = distil_view.standing(stores, namespace)
    if as_json:
        show_json(found)
    else:
        distil_view.show_standing(console(), found)


@app.command("dead-letters", short_help="List the work items that were given up, and why.")
@command
def dead_letters(context: typer.Context, namespace: Namespace = DEFAULT_NAMESPACE, as_json: AsJson = False) -> None:
    """List every item that was given up: its Experience, its Run, when, why, and what helps.

    A dead letter is final. Its Experience stays evidence, and the Decisions that rest on it all the same are named.

    \b
    Examples:
      vrm distil dead-letters
      vrm distil dead-letters --json | jq -r '.[].experience'
    """  # noqa: D301  # as above
    from vrm.cli import distil_view  # noqa: PLC0415  # as above

    with connection(context).stores() as stores:
        found = distil_view.letters(stores, namespace)
    if as_json:
        show_json(found)
    else:
        distil_view.show_letters(console(), found)


@app.command("retry", short_help="Take up items again that wait; what is ended stays ended.")
@command
def retry(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Beginnings of ids of items or Experiences.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every item that is not completed.")] = False,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts for an item that has none left.")] = 50,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Take up items that wait for another attempt, and give those whose budget is used up more attempts first.

    A dead letter is not taken up: it is the one end of its item, and an Experience has one item. The answer says what
    helps instead. Exit code 1 says that something named is not completed.

    \b
    Examples:
      vrm distil retry 3fa2
      vrm distil retry --all --attempts 100 --json
    """  # noqa: D301  # as above
    if every == bool(ids):
        raise InvalidInputError("ID", " ".join(ids or ()), "Name the items, or give --all; not both.")
    with opened_job(namespace, "full", quiet=as_json) as job:
        from vrm.cli import distil_view  # noqa: PLC0415  # as above
        from vrm.mainjob.distillation import retry as taken_up  # noqa: PLC0415  # brings everything along

        asked = distil_view.asked_for(job.stores.ledger, namespace, ids or ())
        answers = taken_up(job, asked, attempts)
    _tell(answers, as_json=as_json)
    raise typer.Exit(LEFT if any(each.outcome != "completed" for each in answers) else 0)


def _purpose(name: str) -> Purpose:
    from vrm.mainjob.purposes import Purpose  # noqa: PLC0415  # help does without

    try:
        return Purpose(name)
    except ValueError as error:
        raise InvalidInputError("--for", name, f"Name one of: {', '.join(Purpose)}.") from error


def _tell(answers: Any, *, as_json: bool) -> None:
    from dataclasses import asdict  # noqa: PLC0415  # as above

    if as_json:
        show_json([asdict(each) for each in answers])
        return
    from vrm.cli import distil_view  # noqa: PLC0415  # as above

    distil_view.show_retried(console(), answers)
