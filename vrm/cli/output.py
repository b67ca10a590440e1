"""What commands print: one JSON value, or text for people; and errors as one block.

Text for people reads well at 80 columns: rows are a table where it fits, else a block each.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from records.errors import VrmError

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
R = TypeVar("R")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]
Namespace = Annotated[str, typer.Option(help="The Ledger namespace.")]
_FILE_WIDTH = 160
_UNBOUNDED = 10_000
_FEW_COLUMNS = 4
"""So many columns stay readable where the widest of them has to wrap."""
FAILED = 2
"""Exit code of an error that a user can act on."""


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a command: an error of our family becomes one block on standard error and exit code 2.

    With `--json` the block is a JSON object on standard output, so that a caller parses one stream only.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except VrmError as error:
            show_error(error, as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(FAILED) from error

    return guarded


def show_error(error: VrmError, *, as_json: bool) -> None:
    """Print an error: what was wrong, what was met, what to do."""
    if as_json:
        show_json(error.as_dict())
        return
    name = type(error).__name__
    typer.echo(f"{name}: {error.field}\n  met:    {error.value}\n  remedy: {error.remedy}", err=True)


def show_json(value: Any) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def console() -> Console:
    """Return a console for people on standard output; what is not a terminal gets lines wide enough for a table."""
    from rich.console import Console  # noqa: PLC0415  # help does without

    found = Console(highlight=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, width=_FILE_WIDTH)


def show_title(out: Console, title: str) -> None:
    """Begin a part of the output."""
    out.print(f"\n{title}", style="bold", markup=False)


def show_rows(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as a table where it fits the width or has few columns, else as one block per row.

    A block begins with the first cell; the others follow, each after its column's name.
    """
    from rich.measure import Measurement  # noqa: PLC0415  # help does without
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    kept = [tuple(row) for row in rows]
    table = Table(*header, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for row in kept:
        table.add_row(*(Text(cell) for cell in row))
    wanted = Measurement.get(out, out.options.update(max_width=_UNBOUNDED), table).maximum
    if wanted <= out.width or len(header) <= _FEW_COLUMNS:
        out.print(table)
        return
    for first, *others in kept:
        pairs = (Text.assemble((name, "dim"), f" {cell}") for name, cell in zip(header[1:], others, strict=True))
        out.print(Text(first))
        out.print(Padding(Text(" · ").join(pairs), (0, 0, 0, 2)))


@contextmanager
def waiting_for(what: str, *, quiet: bool) -> Iterator[None]:
    """Show on a terminal that something is under way whose length is not known."""
    from rich.console import Console  # noqa: PLC0415  # help does without

    shown = Console(stderr=True)
    if quiet or not shown.is_terminal:
        yield
        return
    with shown.status(what):
        yield


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that is told what is done, how far, of how much; it draws a bar on a terminal.

    Args:
        quiet: draw nothing.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TaskID  # noqa: PLC0415

    shown = Console(stderr=True)
    with Progress(console=shown, disable=quiet or not shown.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total or None)

        yield advance


def short(record_id: str) -> str:
    """Return an id as people read it: noun and the first twelve digits, which any command takes as a prefix."""
    noun, _, digest = record_id.partition(":")
    return f"{noun}:{digest[:12]}"
