"""`vrm claims`: facts about a code base that predicates check; never evidence of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrm.cli import claims_given as given
from vrm.cli.claims_outcomes import receipt
from vrm.cli.connection import Connection, OpenStores, connection
from vrm.cli.output import AsJson, Namespace, command, console, show_json, waiting_for
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from memory.workspace.keeping import ClaimKeeper, KeeperPorts
    from memory.workspace.predicates import Checker
    from records.workspace import ClaimEvent

app = typer.Typer(
    help="Keep claims about a code base, checked before they are shown.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
FOUND = 1
"""Exit code of a check that found a claim which does not hold."""
Workspace = Annotated[str, typer.Option(help="The name of the code base.")]
Root = Annotated[Path, typer.Option(help="Its folder.")]
ClaimId = Annotated[str, typer.Argument(metavar="ID", help="Any unambiguous beginning of the id of a claim.")]
Evidence = Annotated[
    list[str] | None,
    typer.Option(metavar="EVENT=FILE", help="An event and the file of what it said, or sha256:DIGEST; repeatable."),
]
APP = "app"
HERE = Path()

app.command("receipt", short_help="Record what an environment found about one trial.")(receipt)


@app.command("add", short_help="Add a claim with its predicates and evidence.")
@command
def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The claim.")],
    *,
    file: Annotated[list[str] | None, typer.Option(help="A file that must stay as it is; repeatable.")] = None,
    value: Annotated[
        list[str] | None, typer.Option(metavar="FILE#KEY", help="A JSON value that must stay; KEY is a.b or /a/b.")
    ] = None,
    head: Annotated[bool, typer.Option("--head", help="HEAD must stay at its commit.")] = False,
    kind: Annotated[str, typer.Option(help="fact, configuration, command or constraint.")] = "fact",
    trust: Annotated[str, typer.Option(help="trusted_local, external or untrusted.")] = "external",
    status: Annotated[str, typer.Option(help="tentative, verified or invalidated.")] = "tentative",
    source: Annotated[str, typer.Option(help="model or deterministic.")] = "model",
    confidence: Annotated[float, typer.Option(help="Of whoever extracted it; decides nothing.")] = 0.5,
    evidence: Evidence = None,
    extractor: Annotated[str, typer.Option(help="What extracted it, with its version.")] = "by-hand/1",
    revises: Annotated[str | None, typer.Option(help="The claim whose accepted revision it is.")] = None,
    root: Root = HERE,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Add a claim. Its predicates say what must hold now for it to be shown: they are made of what is there.

    An untrusted claim is quarantined. One that contradicts another is contested with it, whichever is surer, until
    `vrm claims resolve`. A verified, deterministic one of trusted_local origin with evidence starts durable.

    \b
    Examples:
      vrm claims add "Retries are capped at 3" --value config.json#retry.limit --evidence read-1=config.json
      vrm claims add "Tests run by make check" --kind command --file Makefile --trust trusted_local --status verified
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from vrm.cli import claims_view as view  # noqa: PLC0415  # help does without

    joined = connection(context)
    with joined.stores() as stores, _checker(root) as (checker, place):
        predicates = given.predicates_of(place, file or (), value or (), head=head)
        claim = given.claim_of(
            text, predicates, given.evidence_of(evidence), kind=kind, trust=trust, status=status, source=source,
            confidence=confidence, extractor=extractor, workspace=workspace, namespace=namespace,
        )  # fmt: skip
        done = _keeper(joined, stores, namespace, workspace).add(claim, checker, revises)
    shown = view.added_json(done)
    if as_json:
        show_json(shown)
    else:
        view.show_added(console(), shown)


@contextmanager
def _checker(root: Path) -> Iterator[tuple[Checker, Path]]:
    from memory.workspace import place  # noqa: PLC0415  # as above
    from memory.workspace.predicates import Checker  # noqa: PLC0415
    from policies.workspace.recall import claim_recall_policy  # noqa: PLC0415

    with place.Workspace(root) as opened:
        yield Checker(opened, claim_recall_policy().predicates), root


def _ports(joined: Connection, stores: OpenStores) -> KeeperPorts:
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.workspace.keeping import KeeperPorts  # noqa: PLC0415

    return KeeperPorts(ledger=stores.ledger, coordinator=joined.coordinator(stores), now=now)


def _keeper(joined: Connection, stores: OpenStores, namespace: str, workspace: str) -> ClaimKeeper:
    from memory.workspace.keeping import ClaimKeeper  # noqa: PLC0415  # as above
    from policies.workspace.policy import workspace_policy  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415

    require_scoped(require_namespace(namespace))
    return ClaimKeeper(_ports(joined, stores), namespace, workspace, workspace_policy())


@app.command("list", short_help="List the claims, with where they stand.")
@command
def list_claims(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="Only in this state, such as durable.")] = None,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """List the claims of a workspace: state, origin, predicates, text.

    \b
    Examples:
      vrm claims list
      vrm claims list --state contested --json
    """  # noqa: D301  # as above
    from memory.workspace.board import board_of  # noqa: PLC0415  # as above
    from records.workspace import ClaimState  # noqa: PLC0415
    from vrm.cli import claims_view as view  # noqa: PLC0415

    wanted = None if state is None else given.member(ClaimState, "--state", state)
    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        board = board_of(reader, namespace, workspace)
    shown = [view.claim_json(held) for held in board.values() if wanted in (None, held.head.state)]
    if as_json:
        show_json(shown)
    elif shown:
        view.show_claims(console(), shown)
    else:
        typer.echo("No claims; `vrm claims add TEXT` adds one.")


@app.command("show", short_help="Show one claim with its history.")
@command
def show(
    context: typer.Context, record_id: ClaimId, namespace: Namespace = DEFAULT_NAMESPACE, as_json: AsJson = False
) -> None:
    """Show a claim: certificate, predicates, and every event that moved it.

    \b
    Examples:
      vrm claims show workspace-claim:3fa2
      vrm claims show 3fa2 --json
    """  # noqa: D301  # as above
    from memory.workspace.board import board_of, history_of, one_claim  # noqa: PLC0415  # as above
    from vrm.cli import claims_view as view  # noqa: PLC0415

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        claim = one_claim(reader, namespace, record_id)
        held = board_of(reader, namespace, claim.workspace)[str(claim.id)]
        shown = view.claim_json(held) | {"events": [view.event_json(each) for each in history_of(reader, claim)]}
    if as_json:
        show_json(shown)
    else:
        view.show_claim(console(), shown)


@app.command("check", short_help="Check every live claim, and mark stale what does not hold.")
@command
def check(
    context: typer.Context,
    root: Root = HERE,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Check the predicates of every probationary, durable and contested claim against the workspace.

    A failed predicate marks its own claim stale. What cannot be looked at now marks nothing, and is not shown either.
    Exit code 1 if a claim was marked.

    \b
    Examples:
      vrm claims check
      vrm claims check --root ~/src/app --json
    """  # noqa: D301  # as above
    joined = connection(context)
    with joined.stores() as stores, _checker(root) as (checker, _), waiting_for("checking", quiet=as_json):
        events = _keeper(joined, stores, namespace, workspace).mark_stale(checker)
    _show_moves(events, as_json=as_json, nothing="Every live claim holds.")
    raise typer.Exit(FOUND if events else 0)


def _show_moves(events: tuple[ClaimEvent, ...], *, as_json: bool, nothing: str = "") -> None:
    from vrm.cli import claims_view as view  # noqa: PLC0415  # as above

    shown = [view.event_json(each) for each in events]
    if as_json:
        show_json(shown)
    elif shown:
        view.show_events(console(), shown)
    else:
        typer.echo(nothing)


@app.command("promote", short_help="Make a claim durable, or bring it back, by evidence.")
@command
def promote(
    context: typer.Context,
    record_id: ClaimId,
    *,
    evidence: Evidence = None,
    root: Root = HERE,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Make a probationary claim durable: verified, not untrusted, two independent pieces of evidence, predicates hold.

    Two events are independent if they are different events with different content. A stale or quarantined claim comes
    back by new evidence alone.

    \b
    Examples:
      vrm claims promote 3fa2 --evidence test-pass-7=report.xml
    """  # noqa: D301  # as above
    joined, offered = connection(context), given.evidence_of(evidence)
    with joined.stores() as stores, _checker(root) as (checker, _):
        events = _keeper(joined, stores, namespace, workspace).promote(record_id, offered, checker)
    _show_moves(events, as_json=as_json)


@app.command("contest", short_help="Contest two claims with each other.")
@command
def contest(
    context: typer.Context,
    record_id: ClaimId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The claim that it contradicts.")],
    *,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Contest two claims that contradict each other; neither is shown until evidence settles it.

    \b
    Examples:
      vrm claims contest 3fa2 81c0
    """  # noqa: D301  # as above
    joined = connection(context)
    with joined.stores() as stores:
        events = _keeper(joined, stores, namespace, workspace).contest(record_id, other)
    _show_moves(events, as_json=as_json)


@app.command("resolve", short_help="Settle a contradiction by evidence for one side.")
@command
def resolve(
    context: typer.Context,
    record_id: Annotated[str, typer.Argument(metavar="ID", help="The claim that the evidence speaks for.")],
    *,
    evidence: Evidence = None,
    root: Root = HERE,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Uphold one claim by evidence that neither side had; what it was contested with is superseded.

    \b
    Examples:
      vrm claims resolve 3fa2 --evidence read-9=config.json
    """  # noqa: D301  # as above
    joined, offered = connection(context), given.evidence_of(evidence)
    with joined.stores() as stores, _checker(root) as (checker, _):
        events = _keeper(joined, stores, namespace, workspace).resolve(record_id, offered, checker)
    _show_moves(events, as_json=as_json)


@app.command("withdraw", short_help="Take a claim out: invalidated, or suspected.")
@command
def withdraw(
    context: typer.Context,
    record_id: ClaimId,
    *,
    suspected: Annotated[bool, typer.Option("--suspected", help="Quarantine it.")] = False,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Take a claim out of use; it comes back by new evidence alone.

    \b
    Examples:
      vrm claims withdraw 3fa2
      vrm claims withdraw 3fa2 --suspected
    """  # noqa: D301  # as above
    from records.workspace import ClaimReason  # noqa: PLC0415  # as above

    joined, reason = connection(context), ClaimReason.SUSPECTED if suspected else ClaimReason.INVALIDATED
    with joined.stores() as stores:
        events = _keeper(joined, stores, namespace, workspace).withdraw(record_id, reason)
    _show_moves(events, as_json=as_json)


@app.command("search", short_help="Find what holds now, as a section for a prompt.")
@command
def search(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The objective.")],
    *,
    task: Annotated[str, typer.Option(help="The task that it is for.")] = "by-hand",
    occasion: Annotated[str | None, typer.Option(help="A name for this retrieval; otherwise a new one.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens of the section.")] = None,
    root: Root = HERE,
    workspace: Workspace = APP,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Find durable claims whose predicates hold now. Claims that turn out to be stale are marked; a trace is kept.

    \b
    Examples:
      vrm claims search "how often is a request tried again" --task fix-17
      vrm claims search "how are the tests run" --json
    """  # noqa: D301  # as above
    from memory.index.embedding import SentenceTransformerEmbedder  # noqa: PLC0415  # as above
    from vrm.claims import ClaimQuestion, fresh_occasion, retrieve, retriever_of  # noqa: PLC0415
    from vrm.cli import claims_view as view  # noqa: PLC0415

    joined = connection(context)
    asked = ClaimQuestion(
        text=text, task=task, workspace=workspace, root=root, occasion=occasion or fresh_occasion(), budget=budget
    )
    with joined.stores() as stores, waiting_for("searching", quiet=as_json):
        finder = retriever_of(namespace, workspace, SentenceTransformerEmbedder())
        found = retrieve(stores.ledger, joined.coordinator(stores), finder, asked)
    shown = view.retrieved_json(found)
    if as_json:
        show_json(shown)
    else:
        view.show_retrieved(shown)
