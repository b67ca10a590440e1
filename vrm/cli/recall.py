"""`vrm recall`: ask for the rules that apply to one decision."""

from __future__ import annotations

from typing import Annotated

import typer

from vrm.cli.output import AsJson, Namespace, command, show_json
from vrm.cli.values import knob_value, pairs
from vrm.home import DEFAULT_NAMESPACE

Task = Annotated[list[str], typer.Option("--task", help="A public attribute of the task, as name=value; repeat it.")]
Set = Annotated[list[str], typer.Option("--set", help="A knob in effect that is not the default, as name=value.")]


@command
def recall(
    text: Annotated[str, typer.Argument(help="The question in words; it ranks, it filters nothing.")] = "",
    task: Task = [],  # noqa: B006  # typer copies it
    knobs: Set = [],  # noqa: B006  # as above
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Show at most three cited cards for one decision, or an explicit nothing; nothing is written.

    \b
    Examples:
      vrm recall --task problem_type=binary --task class_balance=imbalanced \\
                 --task size_band=small --task feature_kinds=numeric
      vrm recall "imbalanced classes" --task problem_type=binary ... --set scaler=standard --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    import vrm  # noqa: PLC0415  # brings the drivers along

    question = vrm.Question(
        task={name: str(value) for name, value in pairs("--task", task).items()},
        config={name: knob_value(value) for name, value in pairs("--set", knobs).items()},
        text=text or "Which one change helps most here?",
    )
    with vrm.connect(namespace) as memory:
        answer = memory.recall(question)
    if as_json:
        cards = [card.as_json() for card in answer.cards]
        show_json({"status": answer.status, "reason": answer.reason, "tokens": answer.tokens, "cards": cards})
        return
    typer.echo(f"{answer.status} ({answer.reason}), {len(answer.cards)} cards, {answer.tokens} tokens")
    if answer.rendered:
        typer.echo(answer.rendered)
