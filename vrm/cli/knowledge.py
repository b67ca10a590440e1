"""`vrm knowledge`: the rules, and one rule with its evidence."""

from __future__ import annotations

from typing import Annotated

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, console, show_json

app = typer.Typer(
    help="List the rules, or show one with its evidence.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list", short_help="List the active rules.")
@command
def list_rules(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Heads of any disposition, not only active ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the active rules: claim, action, effect with intervals, grade, support and counter-evidence, scope.

    \b
    Examples:
      vrm knowledge list
      vrm knowledge list --all --namespace demo
      vrm knowledge list --json | jq '.[].claim'
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.cli import knowledge_view  # noqa: PLC0415  # help does without

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        rules = knowledge_view.rules(reader, namespace, every=every)
    if as_json:
        show_json([rule.as_json() for rule in rules])
    elif rules:
        knowledge_view.show_list(console(), rules)
    else:
        typer.echo("No rules." if every else "No active rules; `vrm knowledge list --all` shows the others.")


@app.command("show", short_help="Show one rule with its history and evidence.")
@command
def show_rule(
    context: typer.Context,
    record_id: Annotated[str, typer.Argument(metavar="ID", help="Any unambiguous beginning of the rule's id.")],
    as_json: AsJson = False,
) -> None:
    """Show one rule as a card, with its history and its evidence link by link.

    \b
    Examples:
      vrm knowledge show 3fa2
      vrm knowledge show memory-record:3fa2 --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.cli import knowledge_view  # noqa: PLC0415  # help does without

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        detail = knowledge_view.detail(reader, record_id)
    if as_json:
        show_json(detail.as_json())
    else:
        knowledge_view.show_detail(console(), detail)
