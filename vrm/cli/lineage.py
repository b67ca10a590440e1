"""`vrm lineage`: what the nodes of a search tree remember."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from records.errors import InvalidInputError
from vrm.cli import lineage_promotion
from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, short, show_json
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from memory.lineage.writing import Claim, LineageWriter, Measured, Node, Written
    from vrm.cli.connection import Connection, OpenStores

app = typer.Typer(
    help="What nodes of a search remember: write and read it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.command("promote", short_help="Make evidence of the nodes that complete to a bundle.")(lineage_promotion.promote)
app.command("why-not", short_help="Say what holds a node back from being evidence.")(lineage_promotion.why_not)
OWN_NODE = "VRM_LINEAGE_NODE"
"""The environment variable that says who writes, as <run>/<node>; whoever starts a node sets it."""

NodeName = Annotated[
    str | None, typer.Option(help="The node, as <run>/<node>; it must be the one that VRM_LINEAGE_NODE names.")
]
Artifacts = Annotated[
    list[str] | None,
    typer.Option("--artifact", metavar="PATH[=SHA256]", help="A file below the node's folder; may come again."),
]
Role = Annotated[str, typer.Option(help="What the files are: data_output, log, binary, figure, source, unknown.")]
Root = Annotated[Path, typer.Option(help="The folder of all trees: <root>/<run>/<node>.")]


@app.command("add", short_help="Remember something, as the node that runs.")
@command
def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="observation, failure_case, procedure, reflection, paper_claim ...")],
    text: Annotated[str, typer.Argument(help="What is to be remembered.")],
    *,
    node: NodeName = None,
    ancestors: Annotated[
        str | None, typer.Option(help="From the root to the parent, with commas; only where no report is there.")
    ] = None,
    artifact: Artifacts = None,
    role: Role = "unknown",
    metric: Annotated[
        str | None, typer.Option(metavar="NAME=VALUE", help="The number that it is about; needs --unit.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="The unit of --metric, such as s, GB/s or share.")] = None,
    direction: Annotated[str | None, typer.Option(help="Which way the metric is better: minimize, maximize.")] = None,
    confidence: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    root: Root = Path(),
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Append one entry of lineage memory. A node writes under its own name alone, and nothing is ever changed.

    VRM_LINEAGE_NODE says who writes. Files are read and hashed below <root>/<run>/<node>; one that is given with a
    digest is verified if its bytes have it, and refused if not. The same entry again is the one that is there.

    \b
    Examples:
      export VRM_LINEAGE_NODE=run_7/node_3
      vrm lineage add observation "The loss is flat from step 400 on." --artifact run.log
      vrm lineage add experiment_result "Tile 32 is faster." --metric GB_per_s=84.9 --unit GB/s
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.lineage.writing import Draft  # noqa: PLC0415  # help does without
    from records.lineage import EntryKind  # noqa: PLC0415

    who = _own_node(namespace, node)
    draft = Draft(
        text=text,
        ancestors=_ancestors(ancestors),
        artifacts=_claims(artifact, role),
        metric=_metric(metric, unit, direction),
        confidence=confidence,
    )
    wanted = _one_of(EntryKind, "kind", kind)
    joined = connection(context)
    with joined.stores() as stores:
        written = _writer(joined, stores, who, root).add(wanted, draft)
    _tell(written, as_json=as_json)


@app.command("report-rerun", short_help="Remember what came of reproducing an entry.")
@command
def report_rerun(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="ENTRY", help="Any unambiguous beginning of the entry's id.")],
    status: Annotated[str, typer.Argument(help="rerun_passed, rerun_failed, paper_only_reproduced or unverified.")],
    text: Annotated[str, typer.Argument(help="What was run again, and what it gave.")],
    *,
    node: NodeName = None,
    ancestors: Annotated[
        str | None, typer.Option(help="From the root to the parent, with commas; only where no report is there.")
    ] = None,
    observed: Annotated[
        str | None, typer.Option(help="When, as 2026-05-01T12:00:00; otherwise now. The same again is a replay.")
    ] = None,
    artifact: Artifacts = None,
    role: Role = "unknown",
    root: Root = Path(),
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Append what came of reproducing an entry; the entry itself stays as it is, and the latest event counts.

    \b
    Examples:
      vrm lineage report-rerun 3fa2 rerun_passed "Same five shapes, 84.7 GB/s." --artifact rerun.csv
      vrm lineage report-rerun lineage-entry:90 rerun_failed "Two shapes out of tolerance." --json
    """  # noqa: D301  # as above
    from memory.lineage.writing import Draft  # noqa: PLC0415  # as above
    from records.lineage import Reproduction  # noqa: PLC0415

    who = _own_node(namespace, node)
    outcome = _one_of(Reproduction, "status", status)
    at = None if observed is None else _moment(observed)
    draft = Draft(text=text, ancestors=_ancestors(ancestors), artifacts=_claims(artifact, role))
    joined = connection(context)
    with joined.stores() as stores:
        named = _entry_id(stores, target)
        written = _writer(joined, stores, who, root).report_rerun(named, outcome, draft, at)
    _tell(written, as_json=as_json)


def _writer(joined: Connection, stores: OpenStores, who: Node, root: Path) -> LineageWriter:
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.lineage.writing import LineagePorts, LineageWriter, node_folder  # noqa: PLC0415

    ports = LineagePorts(ledger=stores.ledger, coordinator=joined.coordinator(stores))
    return LineageWriter(ports, who, now, node_folder(root, who.checkpoint_id, who.node_id))


def _own_node(namespace: str, asked: str | None) -> Node:
    """Return who writes: the node that whoever started it named, and no other."""
    from memory.lineage.writing import Node  # noqa: PLC0415  # as above
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415

    require_scoped(require_namespace(namespace))
    own = os.environ.get(OWN_NODE, "")
    run, _, node = own.partition("/")
    if not run or not node:
        raise InvalidInputError(OWN_NODE, own or "not set", "Set it to <run>/<node>, the node that writes.")
    if asked not in (None, own):
        raise InvalidInputError("--node", asked, f"A node writes under its own name, {own}, alone.")
    return Node(namespace=namespace, checkpoint_id=run, node_id=node)


def _ancestors(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(each.strip() for each in text.split(",") if each.strip())


def _claims(given: list[str] | None, role: str) -> tuple[Claim, ...]:
    from memory.lineage.writing import Claim  # noqa: PLC0415  # as above
    from records.lineage import ArtifactRole  # noqa: PLC0415

    known = _one_of(ArtifactRole, "--role", role)
    parts = [each.partition("=") for each in given or ()]
    return tuple(Claim(path=path, role=known, sha256=digest or None) for path, _, digest in parts)


def _metric(text: str | None, unit: str | None, direction: str | None) -> Measured | None:
    from memory.lineage.writing import Measured  # noqa: PLC0415  # as above
    from records.values import Direction  # noqa: PLC0415

    if text is None:
        return None
    name, _, value = text.rpartition("=")
    if unit is None:
        raise InvalidInputError("--unit", "not given", "A metric has a unit; say 1 for a number without.")
    try:
        number = float(value)
    except ValueError as error:
        raise InvalidInputError("--metric", text, "Give NAME=VALUE with a number.") from error
    way = None if direction is None else _one_of(Direction, "--direction", direction)
    return Measured(name=name, value=number, unit=unit, direction=way)


def _one_of(choices: Any, field: str, text: str) -> Any:
    try:
        return choices(text)
    except ValueError:
        raise InvalidInputError(field, text, f"One of: {', '.join(choices)}.") from None


def _moment(text: str) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  # as above

    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError("--observed", text, "Give a moment, such as 2026-05-01T12:00:00.") from error
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _entry_id(stores: OpenStores, prefix: str) -> str:
    from records.errors import AmbiguousIdError, NotFoundError  # noqa: PLC0415  # as above
    from records.lineage import LineageEntry  # noqa: PLC0415

    digits = prefix.strip().lower().rpartition(":")[2]
    found = stores.ledger.resolve(f"{LineageEntry.kind.noun}:{digits}") if digits else []
    if len(found) > 1:
        raise AmbiguousIdError("entry", prefix, f"Give more digits; it begins {len(found)} or more ids.")
    if not found:
        raise NotFoundError("entry", prefix, "No entry begins so; `vrm import node-report --json` names them.")
    return found[0]


def _tell(written: Written, *, as_json: bool) -> None:
    entry = written.entry
    if as_json:
        show_json({"entry": str(entry.id), "written": written.writing.value, "record": entry.as_json()})
    else:
        typer.echo(f"{written.writing.value}: {entry.entry_kind.value} {short(str(entry.id))}")
