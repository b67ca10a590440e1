"""`vrm lineage`, the reading half: what ancestors wrote, and what a paper about a tree may say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from records.errors import InvalidInputError
from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, console, show_json
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from policies.lineage.best import Contract
    from vrm.lineage import Lineage, PaperQuestion

Checkpoint = Annotated[str | None, typer.Option(help="The checkpoint, if there are several.", show_default=False)]
Node = Annotated[str, typer.Argument(metavar="NODE", help="The node that reads.")]
Parent = Annotated[str | None, typer.Option(help="Its parent, where it has not reported yet.", show_default=False)]
Root = Annotated[Path, typer.Option(help="The folder of all trees: <root>/<checkpoint>/<node>.")]
Best = Annotated[str | None, typer.Option(help="The node that the paper is about.", show_default="the best one")]
Metric = Annotated[str | None, typer.Option(help="The metric that decides.", show_default="as the entries declare")]
Way = Annotated[str | None, typer.Option(help="Which way it is better: minimize or maximize.", show_default=False)]
Budget = Annotated[int | None, typer.Option(min=1, help="Most tokens.", show_default="the policy's")]


def attach(app: typer.Typer) -> None:
    """Add the commands that read to the group."""
    app.command("search", short_help="Find what the ancestors of a node wrote.")(search)
    app.command("working-context", short_help="Show what a node begins with.")(show_working)
    app.command("context", short_help="Write verified_context.json for a paper.")(write)
    app.command("prompt", short_help="Show the grounded results for a paper's prompt.")(prompt)


@contextmanager
def opened(context: typer.Context, namespace: str, checkpoint: str | None) -> Iterator[Lineage]:
    """Open a checkpoint for reading."""
    from memory.index.embedding import SentenceTransformerEmbedder  # noqa: PLC0415  # help does without
    from records.fields import require_namespace  # noqa: PLC0415
    from vrm.lineage import Lineage  # noqa: PLC0415

    require_namespace(namespace)
    with connection(context).stores() as stores:
        yield Lineage(stores.ledger, stores.artifacts, namespace, SentenceTransformerEmbedder, checkpoint)


def contract_of(metric: str | None, way: str | None) -> Contract | None:
    """Return the metric that options name.

    Raises:
        InvalidInputError: one of the two is missing, or the direction is no direction.
    """
    from policies.lineage.best import Contract  # noqa: PLC0415  # as above
    from records.values import Direction  # noqa: PLC0415

    if metric is None and way is None:
        return None
    if metric is None or way not in [each.value for each in Direction]:
        remedy = "Give --metric, and --direction minimize or maximize."
        raise InvalidInputError("--metric" if metric is None else "--direction", way, remedy)
    return Contract(metric, Direction(way))


def question_of(
    root: Path, best: str | None, metric: str | None, way: str | None, budget: int | None = None
) -> PaperQuestion:
    """Return which tree a paper is about, as options say."""
    from vrm.lineage import PaperQuestion  # noqa: PLC0415  # as above

    return PaperQuestion(root=root, best=best, metric=contract_of(metric, way), budget=budget)


@command
def search(
    context: typer.Context,
    node: Node,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The words to look for; none for all.")] = None,
    *,
    parent: Parent = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind of entry; may be repeated.")] = None,
    backed: Annotated[bool, typer.Option("--artifact-backed", help="Only with a verified file.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 8,
    best_first: Annotated[bool, typer.Option("--best-first", help="By relevance, not from the root on.")] = False,
    checkpoint: Checkpoint = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Find what the ancestors of a node wrote, by words and meaning, from the root to the parent.

    Siblings, descendants and other checkpoints are not read, whatever they say. The answer tells how it was made:
    model, ranking, how many entries there were and how many came back. Nothing is written.

    \b
    Examples:
      vrm lineage search node_7c1e "tile sizes that failed" --kind failure_case
      vrm lineage search node_new --parent node_7c1e --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.lineage.retrieval import LineageQuestion  # noqa: PLC0415  # help does without
    from policies.lineage.scope import Wanted  # noqa: PLC0415
    from vrm.cli import lineage_reading_view as view  # noqa: PLC0415

    wanted = Wanted(kinds=_kinds(kind or []), artifact_backed=backed)
    asked = LineageQuestion(node=node, text=text, parent=parent, wanted=wanted, limit=limit, best_first=best_first)
    with opened(context, namespace, checkpoint) as lineage:
        found = view.answer_json(lineage.search(asked))
    if as_json:
        show_json(found)
    else:
        view.show_answer(console(), found)


def _kinds(names: list[str]) -> frozenset[Any]:
    from records.lineage import EntryKind  # noqa: PLC0415  # as above

    legal = [each.value for each in EntryKind if each is not EntryKind.REPRODUCIBILITY_EVENT]
    for name in names:
        if name not in legal:
            raise InvalidInputError("--kind", name, f"Kinds: {', '.join(legal)}.")
    return frozenset(map(EntryKind, names))


@command
def show_working(
    context: typer.Context,
    node: Node,
    *,
    parent: Parent = None,
    goal: Annotated[
        str | None, typer.Option(help="What the search is for.", show_default="what the root was started with")
    ] = None,
    metric: Metric = None,
    direction: Way = None,
    budget: Budget = None,
    checkpoint: Checkpoint = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Show what a node begins with: goal, metric, hardware, and what its ancestors concluded, from the root on.

    The same reports and options give the same bytes. What does not fit is left out from the root on, and counted.

    \b
    Examples:
      vrm lineage working-context node_7c1e
      vrm lineage working-context node_new --parent node_7c1e --goal "raise the accuracy" --budget 800
    """  # noqa: D301  # as above
    from dataclasses import asdict  # noqa: PLC0415  # as above

    from memory.lineage.working_context import WorkingQuestion  # noqa: PLC0415

    asked = WorkingQuestion(node=node, parent=parent, goal=goal, contract=contract_of(metric, direction), budget=budget)
    with opened(context, namespace, checkpoint) as lineage:
        found = lineage.working_context(asked)
    if as_json:
        show_json(asdict(found))
    else:
        typer.echo(found.rendered)


@command
def write(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="The folder of verified_context.json.")],
    root: Root = Path(),
    best: Best = None,
    metric: Metric = None,
    direction: Way = None,
    checkpoint: Checkpoint = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Write verified_context.json: the best node, its lineage, claims, limitations, and which claims may be used.

    Every file that a claim rests on is read again. A claim may be used if a verified file of measurements is what it
    was, and no rerun failed. A file of an earlier winner or lineage is removed; one that cannot be built anew because
    something cannot be reached stays. VRM_LINEAGE_CONSOLIDATE=off builds nothing and leaves what is there.

    \b
    Examples:
      vrm lineage context --root experiments/ --out paper/
      vrm lineage context --root experiments/ --out paper/ --metric accuracy --direction maximize --json
      vrm lineage context --root experiments/ --out paper/ --best node_7c1e
    """  # noqa: D301  # as above
    import os  # noqa: PLC0415  # as above

    from memory.lineage.context_file import write_context  # noqa: PLC0415
    from policies.lineage.policy import GATE, consolidation_policy  # noqa: PLC0415
    from vrm.cli import lineage_reading_view as view  # noqa: PLC0415

    gate = consolidation_policy().is_on(os.environ.get(GATE))
    question = question_of(root, best, metric, direction)
    with opened(context, namespace, checkpoint) as lineage:
        found = view.context_json(
            write_context(out, lambda: lineage.weigh(question), lineage.readable_nodes, gate=gate)
        )
    if as_json:
        show_json(found)
    else:
        view.show_context(console(), found)


@command
def prompt(
    context: typer.Context,
    *,
    root: Root = Path(),
    best: Best = None,
    metric: Metric = None,
    direction: Way = None,
    budget: Budget = None,
    checkpoint: Checkpoint = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Show the results that a paper may state, as one delimited section for a prompt; nothing where there are none.

    \b
    Examples:
      vrm lineage prompt --root experiments/
      vrm lineage prompt --root experiments/ --budget 1200 --json
    """  # noqa: D301  # as above
    with opened(context, namespace, checkpoint) as lineage:
        found = lineage.grounded(question_of(root, best, metric, direction, budget))
    if as_json:
        show_json({"rendered": found.text, "tokens": found.token_count, "results": found.shown})
    elif found.text:
        typer.echo(found.text)
    else:
        typer.echo("No result may be used; `vrm lineage context` says of each claim how it stands.")
