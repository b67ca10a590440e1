"""The commands of `vrm knowledge`; what each reads and how it looks is in the module of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vrm.cli.connection import connection
from vrm.cli.output import AsJson, command, console, progress, show_json, waiting_for

app = typer.Typer(
    help="Show rules and procedures, and what holds evidence back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

RecordId = Annotated[str, typer.Argument(metavar="ID", help="Any unambiguous beginning of the id of a record.")]
_Namespace = Annotated[str | None, typer.Option(help="Only this namespace.")]
_Disposition = Annotated[str | None, typer.Option(help="Heads of this disposition instead of active ones.")]
_Every = Annotated[bool, typer.Option("--all", help="Heads of any disposition, not only active ones.")]
_Kind = Annotated[str | None, typer.Option(help="semantic (rules) or procedure.")]
_Grade = Annotated[str | None, typer.Option(help="Only this grade, such as strong.")]
_Action = Annotated[str | None, typer.Option(help="recommend, avoid or abstain.")]
_Knob = Annotated[str | None, typer.Option(help="Only rules about this knob.")]
_Metric = Annotated[str | None, typer.Option(help="Only what speaks of this metric.")]
_Scope = Annotated[str | None, typer.Option(help="A part of the scope in words, or a task scope id.")]
_Family = Annotated[str | None, typer.Option(help="A beginning of the id of family or scope variant.")]


@app.command("list", short_help="List the active rules and procedures.")
@command
def list_rules(
    context: typer.Context,
    *,
    namespace: _Namespace = None, disposition: _Disposition = None, every: _Every = False, kind: _Kind = None,
    grade: _Grade = None, action: _Action = None, knob: _Knob = None, metric: _Metric = None, scope: _Scope = None,
    family: _Family = None, sort: Annotated[str, typer.Option(help="claim, effect or grade.")] = "claim",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """List rules and procedures: claim, action, effect with intervals, grade, support and counter-evidence, scope.

    \b
    Examples:
      vrm knowledge list --sort effect
      vrm knowledge list --all --namespace demo
      vrm knowledge list --knob scaler --grade strong
      vrm knowledge list --disposition provisional --scope imbalanced
      vrm knowledge list --json | jq '.[].claim'
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.cli.knowledge import entries  # noqa: PLC0415  # help does without

    by_default = disposition is None and not every
    wanted = entries.Wanted(
        disposition="active" if by_default else disposition, grade=grade, kind=kind, action=action, knob=knob,
        metric=metric, scope=scope, family=family,
    )  # fmt: skip
    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = entries.listing(reader, namespace, wanted, sort)
    if as_json:
        show_json([entry.as_json() for entry in found.entries])
    else:
        entries.show_listing(console(), found, by_default=by_default)


@app.command("show", short_help="Show one with its evidence, origin and relations.")
@command
def show_rule(
    context: typer.Context,
    record_id: RecordId,
    links: Annotated[
        bool, typer.Option("--links", help="Unfold each link down to the artifacts of both runs.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read the bytes of every artifact and compare.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one rule or procedure: what it says, where it came from, where it stands, its evidence link by link.

    \b
    Examples:
      vrm knowledge show 3fa2
      vrm knowledge show 3fa2 --links --verify
      vrm knowledge show memory-record:3fa2 --json | jq '.evidence[].runs.changed.artifacts'
    """  # noqa: D301  # as above
    from dataclasses import replace  # noqa: PLC0415  # as above

    from vrm.cli.knowledge import detail, page  # noqa: PLC0415  # as above
    from vrm.cli.knowledge.evidence import check_bytes  # noqa: PLC0415  # as above

    with connection(context).stores() as stores:
        with stores.ledger.reading() as reader:
            found = detail.detail(reader, record_id)
        if verify:
            with progress(quiet=as_json) as told:
                found = replace(found, checked=check_bytes(stores.artifacts, found.pairs, told))
    if as_json:
        show_json(found.as_json())
    else:
        page.show_detail(console(), found, links=links)


@app.command("history", short_help="Show what became of a rule, decision by decision.")
@command
def history(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="ID", help="A beginning of the id of record, family or variant.")],
    as_json: AsJson = False,
) -> None:
    """Show every decision and lifecycle event of a scope variant, from the first on, and what each changed.

    ID is any unambiguous beginning of the id of a record, a candidate, a scope variant or a family; a family has one
    history for each of its scope variants.

    \b
    Examples:
      vrm knowledge history 3fa2
      vrm knowledge history knowledge-family:77 --json | jq '.[].steps[].position'
    """  # noqa: D301  # as above
    from vrm.cli.knowledge import history as histories  # noqa: PLC0415  # as above

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = histories.histories(reader, prefix)
    if as_json:
        show_json([each.as_json() for each in found])
    else:
        histories.show_histories(console(), found)


@app.command("why-not", short_help="Say what holds the experiences of a Run back.")
@command
def why_not(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A beginning of the id of a Run or an experience.")],
    every: Annotated[bool, typer.Option("--every", help="Name every experience, not the first ones only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say for every experience of a Run which reason code holds it back, and what would complete it.

    How many more units would settle an effect is a rough estimate, on which nothing is decided.

    \b
    Examples:
      vrm knowledge why-not 3fa2
      vrm knowledge why-not experience:90 --json | jq '.standings[].remedies'
    """  # noqa: D301  # as above
    from vrm.cli.knowledge import why_not as answers  # noqa: PLC0415  # as above

    waiting = waiting_for("Judging the latest evidence snapshot", quiet=as_json)
    with connection(context).stores() as stores, stores.ledger.reading() as reader, waiting:
        found = answers.answer(stores, reader, run)
    if as_json:
        show_json(found.as_json())
    else:
        answers.show_answer(console(), found, every=every)


@app.command("plot", short_help="Draw the forest plot of a rule, or of every active one.")
@command
def plot(
    context: typer.Context,
    record_id: Annotated[str, typer.Argument(metavar="[ID]", help="Any unambiguous beginning of a rule's id.")] = "",
    *,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write: .png, .svg or .pdf.")] = None,
    every: Annotated[Path | None, typer.Option("--all", help="Folder for the plots of every active rule.")] = None,
    form: Annotated[str, typer.Option("--format", help="Format of the files of --all.")] = "svg",
    namespace: _Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Draw a forest plot: a row per effect unit, the mean with its interval, the prediction interval for a new unit.

    \b
    Examples:
      vrm knowledge plot 3fa2 -o rule.png
      vrm knowledge plot --all plots --format pdf
    """  # noqa: D301  # as above
    from vrm.cli.knowledge import forests  # noqa: PLC0415  # as above

    wanted = forests.wanted(record_id, output, every, form)
    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        drawn = list(forests.draw(reader, wanted, namespace))
    if as_json:
        show_json({"written": [{"id": key, "file": str(path)} for key, path in drawn]})
    else:
        typer.echo("\n".join(str(path) for _, path in drawn) or "No active rules.")
