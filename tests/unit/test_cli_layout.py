"""What commands print for people fits the terminal: tables where there is room, blocks where there is not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from vrm.cli.app import app
from vrm.cli.output import show_rows, show_title

HEADER = ("id", "state", "rule", "mean", "interval", "scope")
ROWS = (
    ("329b3ae82f41", "active", "recommend class_weight none", "+0.1194", "+0.0536 to +0.1852", "imbalanced, numeric"),
    ("eafb4836cc8d", "provisional", "recommend scaler [bold]none", "+0.1751", "none", "balanced, mixed, binary, small"),
)


def _shown(width: int, header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    show_rows(out, header, rows)
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_rows_that_fit_are_a_table() -> None:
    head, *lines = _shown(160, HEADER, ROWS)
    assert head.split() == list(HEADER)
    assert len(lines) == len(ROWS)
    for row, line in zip(ROWS, lines, strict=True):
        assert all(cell in line for cell in row)


def test_rows_that_do_not_fit_are_blocks_without_a_lost_word() -> None:
    lines = _shown(60, HEADER, ROWS)
    assert max(len(line) for line in lines) <= 60
    assert [line for line in lines if not line.startswith("  ")] == ["329b3ae82f41", "eafb4836cc8d"]
    words = " ".join(lines).split()
    for row in ROWS:
        for name, cell in zip(HEADER[1:], row[1:], strict=True):
            assert f"{name} {cell}" in " ".join(words)


def test_a_table_of_few_columns_wraps_its_widest() -> None:
    head, *lines = _shown(30, ("stage", "what"), (("verification", "recomputed by the evaluator from predictions"),))
    assert head.split() == ["stage", "what"]
    assert len(lines) > 1
    assert all(len(line) <= 30 for line in lines)


def test_a_title_is_text_not_markup() -> None:
    out = Console(file=io.StringIO(), width=80)
    show_title(out, "Changing [bold]")
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == "\nChanging [bold]\n"


@pytest.mark.parametrize(
    "group",
    [
        (),
        ("knowledge",),
        ("procedures",),
        ("runs",),
        ("bench",),
        ("import",),
        ("audit",),
        ("evaluate",),
        ("reference",),
        ("lineage",),
        ("claims",),
    ],
)
def test_help_cuts_no_line_short_at_80_columns(group: tuple[str, ...]) -> None:
    answer = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert answer.exit_code == 0
    listed = answer.output.partition("Commands:")[2].splitlines()
    assert listed
    assert not [line for line in listed if line.endswith("...") or len(line) > 80]
