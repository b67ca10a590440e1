"""The benchmarks, run small as a user runs them: the shape of the report, never its speed."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vrm.cli.app import app

LEDGER_RATIOS = {"append_vs_raw_commit", "grouped_vs_raw_commit", "grouped_vs_eventsourcing", "p99_vs_raw_p99"}
RECALL_RATIOS = {
    "semantic_vs_float32_matmul", "semantic_vs_memory_bandwidth", "lexical_vs_bm25s", "propose_vs_semantic_scan",
}  # fmt: skip
PROTOCOL_RATIOS = {
    "database_commits_per_decision", "artifact_fsyncs_per_decision", "decision_vs_raw_commits", "spine_vs_raw_commits",
}  # fmt: skip


@pytest.fixture
def folder(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The place for temporary files; nothing may be left in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(open_path))
    yield open_path
    assert list(open_path.iterdir()) == []


def _report(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def _without_reference() -> set[str]:
    """Return the ratios whose reference is not installed; the driver's pool is an extra of the event store."""
    installed = all(importlib.util.find_spec(name) for name in ("eventsourcing", "psycopg_pool"))
    return set() if installed else {"grouped_vs_eventsourcing"}


def _check_common(report: dict[str, Any], ratios: set[str]) -> None:
    assert ratios <= report.keys()
    assert report["spread"].keys() == ratios <= report["meaning"].keys()
    for name in ratios - _without_reference():
        low, high = report["spread"][name]
        assert 0 < low <= report[name] <= high
    assert all(report[name] is report["spread"][name] is None for name in ratios & _without_reference())
    assert report["rounds"] == 5
    durable = {name: report["settings"][name] for name in ("fsync", "synchronous_commit", "full_page_writes")}
    assert set(durable.values()) == {"on"}
    assert report["machine"]["processors"] > 0


@pytest.mark.usefixtures("folder")
def test_the_ledger_report() -> None:
    report = _report("ledger", "--appends", "20")
    _check_common(report, LEDGER_RATIOS)
    assert report["absolute"]["append"]["n"] == report["absolute"]["raw_commit"]["n"] == report["n"] == 20
    assert report["absolute"]["grouped"]["n"] == 5 * report["group"] == 320
    assert report["fsck_rows_per_second"] > 0
    assert isinstance(report["memory_growth_mb"], float)


@pytest.mark.usefixtures("folder")
def test_the_recall_report() -> None:
    report = _report("recall", "--records", "120", "--no-model", "--parts", "kernels,search,build")
    _check_common(report, RECALL_RATIOS)
    assert report["index"] == "non_semantic_test_index"
    assert report["index_seconds_per_1000"].keys() == {"non_semantic_test_index"}
    assert (report["records"], report["real_model"]) == (120, None)
    assert report["parts"] == ["kernels", "search", "build"]
    assert report["search_rows"] == 120
    assert min(report["search_vs_bandwidth"], report["build_growth_2x"]) > 0


@pytest.mark.usefixtures("folder")
def test_the_protocol_report() -> None:
    report = _report("protocol", "--decisions", "10")
    _check_common(report, PROTOCOL_RATIOS)
    assert report["n"] == report["absolute"]["decision"]["n"] == report["absolute"]["raw_commits"]["n"] == 10
    parts = ("intent", "recall", "context", "outcome")
    assert {report["absolute"][name]["n"] for name in parts} == {10}
    assert report["decisions"] == 1 + 5 * 4 + 2 + 10, "the first, the counted, those that warm up, the timed"
    assert report["spine_vs_raw_commits"] < report["decision_vs_raw_commits"]


@pytest.mark.usefixtures("folder")
def test_a_report_for_people() -> None:
    result = CliRunner().invoke(app, ["bench", "ledger", "--appends", "10"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert "append_vs_raw_commit" in result.stdout
    assert "fsync on" in result.stdout


@pytest.mark.usefixtures("folder")
def test_the_soak_report() -> None:
    report = _report("ledger", "--soak", "1000")
    assert len(report["points"]) == 10
    assert all(check["rows"] >= least for check, least in zip(report["checks"], (250, 500, 1000), strict=True))
    assert report["rows"] == report["checks"][-1]["rows"] == report["points"][-1]["rows"]
    assert all(check["clean"] and check["peak_mb"] >= check["idle_mb"] > 0 for check in report["checks"])
    assert len(report["fsck_rows_per_second"]) == 3
    assert report["fsck_linearity"] > 0
    assert isinstance(report["memory_growth_mb_per_million"], float)


@pytest.mark.usefixtures("folder")
def test_the_soak_report_for_people() -> None:
    result = CliRunner().invoke(app, ["bench", "ledger", "--soak", "1000"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert "fsck_linearity" in result.stdout
    assert CliRunner().invoke(app, ["bench", "ledger", "--soak", "10"]).exit_code == 2
