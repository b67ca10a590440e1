"""`vrm reference`: papers, code, datasets and tools to consult; never evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from records.errors import InvalidInputError
from vrm.cli.connection import Connection, OpenStores, connection
from vrm.cli.output import AsJson, Namespace, command, console, progress, show_json
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from memory.index.embedding import Embedder
    from memory.reference.adding import Added, Given
    from memory.reference.search import References
    from records.reference import ReferenceIndexBuild, ReferenceKind

app = typer.Typer(
    help="Add, find and quote external sources; they are never evidence.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
FOUND = 1
"""Exit code of an addition of several files of which some were refused."""
Kind = Annotated[str | None, typer.Option(help="paper, code, dataset or tool.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The words to look for.")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many.")]
Told = Callable[[str, int, int], None]


@app.command("add", short_help="Add files or folders as sources.")
@command
def add(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...", help="What to add.")],
    *,
    kind: Kind = None,
    licence: Annotated[str | None, typer.Option(help="The licence, such as MIT; unknown if nobody says.")] = None,
    access: Annotated[str | None, typer.Option(help="The terms of access; unknown if nobody says.")] = None,
    uri: Annotated[str | None, typer.Option(help="The address of one source; otherwise its path.")] = None,
    version: Annotated[str | None, typer.Option(help="The version, as its publisher calls it.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of one source; otherwise its file name.")] = None,
    retrieved: Annotated[str | None, typer.Option(help="When, as 2026-05-01; otherwise the file's time.")] = None,
    encoding: Annotated[str, typer.Option(help="The encoding of text files.")] = "utf-8",
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Add files as sources: text, Markdown, reStructuredText, code, tables, notebooks, HTML and PDF.

    Every file is read whole and cut into chunks before anything is written. Bytes go to the artifact store, digests and
    offsets to the Ledger. The same file again adds nothing; another content at the same path is another version, and
    both are kept. What cannot be read is told with its remedy. An addition that was cut short goes on when it is
    repeated. The index is built anew at the end.

    \b
    Examples:
      vrm reference add paper.pdf --licence CC-BY-4.0 --uri https://doi.org/10.1000/182
      vrm reference add docs/ src/ --kind code --licence MIT --version 1.4.2
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from memory.reference.reading import files_of  # noqa: PLC0415  # help does without
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415
    from vrm.cli import reference_view as view  # noqa: PLC0415

    require_scoped(require_namespace(namespace))
    given = _given(kind, retrieved, licence=licence, access=access, uri=uri, version=version, title=title,
                   encoding=encoding)  # fmt: skip
    files, joined = files_of(paths), connection(context)
    with joined.stores() as stores, progress(quiet=as_json) as told:
        done = _added(joined, stores, namespace, files, given, told=told)
        if len(done) == 1 and done[0].error is not None:
            raise done[0].error
        build = _indexed(joined, stores, namespace, _embedder(), told)
    found = view.added_json(namespace, done, build)
    if as_json:
        show_json(found)
    else:
        view.show_added(console(), found)
    raise typer.Exit(FOUND if found["refused"] else 0)


def _given(kind: str | None, retrieved: str | None, **facts: str | None) -> Given:
    from memory.reference.adding import Given  # noqa: PLC0415  # as above

    known = {name: value for name, value in facts.items() if value is not None}
    return Given(kind=_kind(kind), retrieved_at=None if retrieved is None else _moment(retrieved), **known)


def _kind(text: str | None) -> ReferenceKind | None:
    from records.reference import ReferenceKind  # noqa: PLC0415  # as above

    try:
        return None if text is None else ReferenceKind(text)
    except ValueError:
        raise InvalidInputError("--kind", text, f"Kinds: {', '.join(ReferenceKind)}.") from None


def _moment(text: str) -> str:
    """Return a day or a moment as a timestamp; without an offset it is UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415  # as above

    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError("--retrieved", text, "Give a day or a moment, such as 2026-05-01.") from error
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _added(
    joined: Connection, stores: OpenStores, namespace: str, files: list[Path], given: Given, *, told: Told
) -> list[Added]:
    from memory.reference.adding import AddingPorts, add_sources  # noqa: PLC0415  # as above
    from memory.tokens import Tokenizer  # noqa: PLC0415
    from policies.references.policy import reference_policy  # noqa: PLC0415

    ports = AddingPorts(
        ledger=stores.ledger,
        artifacts=stores.artifacts,
        owner=joined.run_owner(stores),
        coordinator=joined.coordinator(stores),
        count=Tokenizer().count,
    )
    return add_sources(ports, namespace, files, given, reference_policy(), progress=told)


def _indexed(
    joined: Connection, stores: OpenStores, namespace: str, embedder: Embedder, told: Told
) -> ReferenceIndexBuild | None:
    from memory.reference.recording import record_index  # noqa: PLC0415  # as above

    coordinator = joined.coordinator(stores)
    return record_index(stores.ledger, stores.artifacts, coordinator, namespace, embedder, progress=told)


def _embedder() -> Embedder:
    """Return the model of the installation's Embedding Policy; nothing of it is loaded yet."""
    from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder  # noqa: PLC0415  # as above
    from vrm.bootstrap import embedding  # noqa: PLC0415

    return SentenceTransformerEmbedder(ModelSettings.of(embedding()))


@app.command("list", short_help="List the sources, with their licences.")
@command
def list_sources(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also what was restated later, and what is denied.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the sources: kind, title, version, licence, chunks, time of retrieval.

    \b
    Examples:
      vrm reference list
      vrm reference list --all --json
    """  # noqa: D301  # as above
    from memory.reference.catalogue import namespaces_of, stored_sources  # noqa: PLC0415  # as above
    from vrm.cli import reference_view as view  # noqa: PLC0415

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = [each for space in namespaces_of(reader, namespace) for each in stored_sources(reader, space)]
    shown = [each for each in found if every or each.counts]
    if as_json:
        show_json([view.source_json(each) for each in shown])
    elif shown:
        view.show_sources(console(), shown)
    else:
        typer.echo("No sources; `vrm reference add FILE` adds one.")


@app.command("show", short_help="Show one source with its chunks, or one Reference Context.")
@command
def show(
    context: typer.Context,
    record_id: Annotated[
        str, typer.Argument(metavar="ID", help="Any unambiguous beginning of the id of a source or of a context.")
    ],
    namespace: Annotated[str | None, typer.Option(help="Only if it is of this namespace.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a source: metadata, licence, every chunk with offsets and quotation; or a context as it was rendered.

    \b
    Examples:
      vrm reference show 3fa2
      vrm reference show reference-context:81c0 --json
    """  # noqa: D301  # as above
    from memory.reference.catalogue import read_one, stored_sources  # noqa: PLC0415  # as above
    from memory.reference.context import rendered_references  # noqa: PLC0415
    from records.errors import NotFoundError  # noqa: PLC0415
    from records.reference import ReferenceContext, ReferenceSource  # noqa: PLC0415
    from vrm.cli import reference_view as view  # noqa: PLC0415

    nouns = (ReferenceSource.kind.noun, ReferenceContext.kind.noun)
    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = read_one(reader, record_id, nouns)
        if namespace not in (None, found.namespace):
            raise NotFoundError("id", found.id, f"It is of namespace {found.namespace}.")
        if isinstance(found, ReferenceContext):
            rendered = rendered_references(reader, stores.artifacts, found)
            shown = view.context_json(found, rendered)
        else:
            (stored,) = (each for each in stored_sources(reader, found.namespace) if each.source.id == found.id)
            shown = view.detail_json(stored, None if stored.is_denied else stored.text(stores.artifacts))
    if as_json:
        show_json(shown)
    elif isinstance(found, ReferenceContext):
        typer.echo(shown["rendered"])
    else:
        view.show_detail(console(), shown)


@app.command("search", short_help="Find quotations by words and meaning.")
@command
def search(
    context: typer.Context,
    text: Text,
    *,
    kind: Kind = None,
    limit: Limit = 5,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Find quotations in the sources of a namespace, best first, with place and licence.

    The same sources and words give the same answer, and nothing is written. Where nothing is near enough the answer is
    an explicit nothing.

    \b
    Examples:
      vrm reference search "how are class weights chosen"
      vrm reference search "cross entropy" --kind code --limit 3 --json
    """  # noqa: D301  # as above
    from vrm.cli import reference_view as view  # noqa: PLC0415  # as above

    wanted = _kinds(kind)
    with connection(context).stores() as stores, progress(quiet=as_json) as told:
        opened = _opened(stores, namespace, told)
        hits = opened.search(text, limit, wanted)
    found = view.search_json(opened, hits)
    if as_json:
        show_json(found)
    else:
        view.show_hits(console(), found)


def _kinds(kind: str | None) -> tuple[ReferenceKind, ...]:
    found = _kind(kind)
    return () if found is None else (found,)


def _opened(stores: OpenStores, namespace: str, told: Told) -> References:
    from memory.reference.search import open_references  # noqa: PLC0415  # as above
    from policies.references.policy import reference_policy  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415

    require_namespace(namespace)
    policy = reference_policy()
    return open_references(stores.ledger, stores.artifacts, namespace, _embedder(), policy, progress=told)


@app.command("context", short_help="Freeze the Reference Context of a Research Context.")
@command
def freeze(
    context: typer.Context,
    text: Text,
    *,
    research_context: Annotated[str, typer.Option(help="The digest of the Research Context that it stands beside.")],
    point: Annotated[str | None, typer.Option(help="The decision that it is for: ideation or writing.")] = None,
    kind: Kind = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens of the section.")] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Search, render what fits as a section of a prompt, and keep it: cards, digests and section.

    The section stands beside that of Evidence Cards and never in it. The same call again keeps nothing new.

    \b
    Examples:
      vrm reference context "class imbalance" --research-context 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """  # noqa: D301, E501  # as above; a digest is as long as it is
    from memory.recall.retriever import tokenizer_name  # noqa: PLC0415  # as above
    from memory.reference.context import compose_references, freeze_references, require_rendering  # noqa: PLC0415
    from memory.tokens import Tokenizer  # noqa: PLC0415
    from vrm.cli import reference_view as view  # noqa: PLC0415

    joined, tokenizer, wanted = connection(context), Tokenizer(), _kinds(kind)
    with joined.stores() as stores, progress(quiet=as_json) as told:
        opened = _opened(stores, namespace, told)
        if point is not None:
            opened.policy.require_adjacent(point)
        require_rendering(opened.policy, tokenizer_name(tokenizer.id))
        hits = opened.search(text, opened.policy.rendering.max_cards, wanted)
        composed = compose_references(opened, hits, text, research_context, tokenizer.count, budget=budget)
        if not opened.is_recorded:
            _indexed(joined, stores, namespace, opened.embedder, told)
        freeze_references(stores.artifacts, joined.coordinator(stores), composed)
    if as_json:
        show_json(view.context_json(composed.record, composed.rendered))
        return
    typer.echo(composed.rendered)
    typer.echo(f"\n{composed.record.token_count} tokens, {len(composed.quotes)} cards. Kept as {composed.record.id}.")
