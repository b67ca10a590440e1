"""Bad input at the outer doors: a published table in every place of its manifest and rows, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import vrm
from importers.published_table import HPOBENCH_MLP
from importers.table_reader import Manifest, read_published_table
from records.errors import InvalidInputError, InvalidSourceError, VrmError
from tests.data.tables import edited, write_table
from tests.support.bad_input import HUGE, every_bad_place, leaves, models, replaced
from vrm.cli.app import app

MANIFEST: Final = Manifest.load((HPOBENCH_MLP / "manifest.json").read_bytes())
NUMBERS: Final = "search_space"
FITTING: Final = {"float", "beyond 2^53", "far below zero"}
"""The one place where a manifest holds bare numbers, and what is none of the bad ones there."""
BAD_CELLS: Final = ["nan", "-inf", "a\0b", "e\u0301", HUGE, "-1", "True", "9" * 400, "1_0", "0x10", "\u0661"]
BAD_NAMES: Final = ["", "Upper", "two words", "a\0b", "é", "\ud800", "a" * 64, HUGE[:200_000], "a'; DROP"]


def require_told(error: VrmError) -> None:
    assert error.field
    assert error.remedy
    assert len(str(error)) < 12_000
    json.dumps(error.as_dict(), ensure_ascii=False).encode()


def table_with(folder: Path, manifest: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def test_a_manifest_is_refused_for_any_bad_value_in_any_field(tmp_path: Path) -> None:
    seen = set()
    for path, fault, bad in every_bad_place(MANIFEST):  # type: ignore[arg-type]  # it walks as a record does
        kind = (tuple(part for part in path if isinstance(part, str)), fault)
        if kind in seen or (path[0] == NUMBERS and fault in FITTING):
            continue  # the second task is as the first
        seen.add(kind)
        with pytest.raises(InvalidSourceError) as caught:
            read_published_table(table_with(tmp_path, replaced(MANIFEST.as_json(), path, bad)))
        require_told(caught.value)
        assert caught.value.field.startswith("manifest.json: Manifest."), (path, fault)


def test_a_manifest_with_an_unknown_field_at_any_depth_is_refused(tmp_path: Path) -> None:
    for path, _ in models(MANIFEST):
        with pytest.raises(InvalidSourceError):
            read_published_table(table_with(tmp_path, replaced(MANIFEST.as_json(), (*path, "colour"), 1)))


def test_a_manifest_with_a_huge_text_is_told_shortly(tmp_path: Path) -> None:
    for path in ({path[0]: path for path, _ in leaves(MANIFEST)}).values():
        body = replaced(MANIFEST.as_json(), path, HUGE[:5_000_000])
        with pytest.raises(InvalidSourceError) as caught:
            read_published_table(table_with(tmp_path, body))
        require_told(caught.value)


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize(
    "cell", ["nan", "-inf", "a\0b", "e\u0301", HUGE, "-1", "True", "9" * 400, "1_0", "0x10", "\u0661"]
)
def test_a_bad_cell_in_any_column_is_refused(tmp_path: Path, cell: str, column: int) -> None:
    def edit(lines: list[str]) -> None:
        cells = lines[2].split(",")
        cells[column] = cell
        lines[2] = ",".join(cells)

    with pytest.raises(InvalidSourceError) as caught:
        read_published_table(write_table(tmp_path, edited(edit)))
    require_told(caught.value)
    assert "rows.csv" in caught.value.field


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for name in ("rows.csv", "catalog.yaml", "manifest.json"):
        folder = write_table(tmp_path)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data.replace(b"a", b"\xed\xa0\x80", 1))
        with pytest.raises(InvalidSourceError) as caught:
            read_published_table(folder)
        require_told(caught.value)
        assert name in caught.value.field


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, list(arguments), env={"VRM_HOME": "/nonexistent/vrm"})
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


@pytest.mark.parametrize("name", BAD_NAMES)
def test_the_command_line_refuses_a_namespace_before_anything_is_started(name: str) -> None:
    question = ("--task", "problem_type=binary")
    for arguments in (("run",), ("import", str(HPOBENCH_MLP)), ("distil",), ("recall", *question)):
        result = run(*arguments, "--namespace", name, "--json")
        assert result.exit_code == 2
        told = json.loads(result.stdout)
        assert (told["error"], told["field"]) == ("InvalidInputError", "namespace")
        assert len(result.stdout) < 2_000


def test_an_installation_is_not_opened_under_a_bad_name() -> None:
    for name in BAD_NAMES:
        with pytest.raises(InvalidInputError):
            vrm.connect(name)
