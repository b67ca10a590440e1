"""`vrm recall`: ask for the rules that apply to one decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from records.errors import InvalidInputError
from vrm.cli.output import AsJson, Namespace, command, show_json
from vrm.cli.values import knob_value, pairs
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from records.values import DecisionPoint

Task = Annotated[list[str], typer.Option("--task", help="A public attribute of the task, as name=value; repeat it.")]
Set = Annotated[list[str], typer.Option("--set", help="A knob in effect that is not the default, as name=value.")]

Request = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Ask this typed request, a JSON file, instead.")
]
Intent = Annotated[str | None, typer.Option(help="The Decision Intent of the request, or a beginning of its id.")]


Point = Annotated[str, typer.Option(help="ideation, experiment_design, intervention, diagnosis or writing.")]


@command
def recall(  # noqa: PLR0917  # typer makes options of all but the first
    text: Annotated[str, typer.Argument(help="The question in words; it ranks, it filters nothing.")] = "",
    task: Task = [],  # noqa: B006  # typer copies it
    knobs: Set = [],  # noqa: B006  # as above
    point: Point = "intervention",
    request: Request = None,
    intent: Intent = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Show at most three cited cards for one decision, or an explicit nothing; nothing is written.

    A typed request from a file is answered for its Decision Intent; a malformed one is blocked, with the fields named.

    \b
    Examples:
      vrm recall --task problem_type=binary --task class_balance=imbalanced \\
                 --task size_band=small --task feature_kinds=numeric
      vrm recall "imbalanced classes" --task problem_type=binary ... --set scaler=standard --json
      vrm recall "a workflow that helps" --point experiment_design --task problem_type=binary ...
      vrm recall --request request.json --intent 3f9a2c1b --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    import vrm  # noqa: PLC0415  # brings the drivers along

    if (request is None) != (intent is None):
        raise InvalidInputError("--request, --intent", "one of them", "Give a request together with its intent.")
    question = vrm.Question(
        task={name: str(value) for name, value in pairs("--task", task).items()},
        config={name: knob_value(value) for name, value in pairs("--set", knobs).items()},
        text=text or "Which one change helps most here?",
        point=_point(point),
    )
    with vrm.connect(namespace) as memory:
        if request is not None and intent is not None:
            answer = memory.recall_request(intent, request.read_bytes())
        else:
            answer = memory.recall(question)
    if as_json:
        cards = [card.as_json() for card in answer.cards]
        proof = None if answer.blocked is None else answer.blocked.as_json()
        told = {"status": answer.status, "reason": answer.reason, "tokens": answer.tokens, "cards": cards}
        show_json(told if proof is None else told | {"blocked": proof})
        return
    typer.echo(f"{answer.status} ({answer.reason}), {len(answer.cards)} cards, {answer.tokens} tokens")
    if answer.blocked is not None:
        typer.echo(answer.blocked.evidence.canonical.decode())
    if answer.rendered:
        typer.echo(answer.rendered)


def _point(name: str) -> DecisionPoint:
    from records.values import DecisionPoint  # noqa: PLC0415  # help needs no records

    try:
        return DecisionPoint(name)
    except ValueError as error:
        raise InvalidInputError("--point", name, f"Name one of: {', '.join(DecisionPoint)}.") from error
