"""`vrm import ai-researcher` and `vrm import phase3`, run as a user runs them, over stores in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory.coordinator import CommitCoordinator
from records.fields import UNSCOPED
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.legacy import bundle_to, full_rows, hypothesis, schema_of, write_ledger
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores


@dataclass(frozen=True)
class Stores:
    """Open stores in memory."""

    ledger: MemoryLedger
    runtime: MemoryRuntime
    artifacts: ArtifactStore


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / "artifacts")))


def _run(stores: Stores | None, *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run a command; without stores it must open none."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        assert stores is not None, "nothing may be opened"
        yield stores

    def coordinator(given: OpenStores) -> CommitCoordinator:
        assert isinstance(given, Stores)
        return CommitCoordinator(given.ledger, given.runtime, given.artifacts, "test")

    result = CliRunner().invoke(
        app,
        ["import", *arguments],
        obj=Connection(opened, list, coordinator),
        env={"COLUMNS": "240", "NO_COLOR": "1"},
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def _json(stores: Stores | None, *arguments: str, code: int = 0) -> Any:
    return json.loads(_run(stores, *arguments, "--json", code=code)[0])


def test_the_bundle_is_imported_once(stores: Stores, tmp_path: Path) -> None:
    folder = str(bundle_to(tmp_path / "bundle"))
    first = _json(stores, "phase3", folder)
    assert (first["digests"]["verified"], first["digests"]["missing"], first["promoted"]) == (119, 34, 0)
    assert first["written"]["new_records"] == 84
    assert first["written"]["import_id"].startswith("legacy-import:")
    second = _json(stores, "phase3", folder)
    assert second["written"] == first["written"] | {"new_records": 0, "repeated": True}
    assert {**second, "written": None} == {**first, "written": None}
    assert len(list(stores.artifacts.digests())) == len({each.sha256 for each in _artifacts(stores)})


def _artifacts(stores: Stores) -> list[Any]:
    (stored,) = stores.ledger.find("legacy-import", UNSCOPED)
    receipt: Any = stored.load()
    return [each for each in receipt.artifacts if each.status.value == "verified"]


def test_every_record_is_printed_with_its_reasons(stores: Stores, tmp_path: Path) -> None:
    text, _ = _run(stores, "phase3", str(bundle_to(tmp_path / "bundle")))
    said = [line for line in text.splitlines() if line.startswith("legacy-record:")]
    assert len(said) == 83
    assert all(line.rstrip().endswith("missing_trial_provenance, missing_typed_action") for line in said)
    assert sum(line.startswith("  missing ") and line.endswith("/solution.py") for line in text.splitlines()) == 34
    for part in ("153 published", "119 verified", "34 missing", "0 mismatched", "Promoted: 0", "84 new records"):
        assert part in text


def test_a_ledger_is_imported_once(stores: Stores, tmp_path: Path) -> None:
    path = str(write_ledger(tmp_path / "ledger.sqlite", full_rows()))
    assert _json(stores, "ai-researcher", path)["written"]["new_records"] == 9
    assert _json(stores, "ai-researcher", path)["written"]["new_records"] == 0
    assert stores.ledger.namespace_head(UNSCOPED).position == 9
    assert stores.ledger.namespaces() == [UNSCOPED]


def test_a_long_ledger_is_listed_in_part_and_whole_as_json(tmp_path: Path) -> None:
    rows = [hypothesis(f"h{number}") for number in range(210)]
    path = str(write_ledger(tmp_path / "ledger.sqlite", rows, revision=1))
    assert "10 more; --json lists all of them." in _run(None, "ai-researcher", path, "--dry-run")[0]
    assert len(_json(None, "ai-researcher", path, "--dry-run")["members"]) == 210


def test_a_dry_run_opens_nothing_and_says_what_it_found(tmp_path: Path) -> None:
    found = _json(None, "ai-researcher", str(write_ledger(tmp_path / "l", full_rows())), "--dry-run")
    assert (found["records"], found["written"], found["reasons"]) == (8, None, {"legacy_unscoped": 8})
    folder = bundle_to(tmp_path / "bundle")
    assert _json(None, "phase3", str(folder), "--dry-run")["digests"]["mismatched"] == 0
    log = folder / "fsq_task1/evidence/fsq:task1/off/seed-101/attempt-1/run.log"
    log.write_bytes(b"{}")
    changed = _json(None, "phase3", str(folder), "--dry-run", code=1)
    assert changed["mismatched"] == [log.relative_to(folder).as_posix()]


def test_a_refusal_writes_nothing_and_names_the_place(stores: Stores, tmp_path: Path) -> None:
    folder = bundle_to(tmp_path / "bundle")
    (folder / "fsq_task1/evidence/fsq:task1/off/seed-101/attempt-1/run.log").write_bytes(b"{}")
    error = _json(stores, "phase3", str(folder), code=2)
    assert (error["error"], error["field"][-7:]) == ("InvalidSourceError", "run.log")
    rows = full_rows()
    next(columns for table, columns in rows if table == "experience_records")["valid"] = 1
    error = _json(stores, "ai-researcher", str(write_ledger(tmp_path / "l", rows)), code=2)
    assert error["field"] == "experience_records row x: valid"
    path = write_ledger(tmp_path / "foreign", [], statements=[*schema_of(2), "PRAGMA user_version = 7"])
    text = _run(stores, "ai-researcher", str(path), code=2)[1]
    assert text.splitlines()[0] == "InvalidSourceError: user_version"
    assert stores.ledger.namespaces() == []
    assert list(stores.artifacts.digests()) == []


def test_a_folder_alone_is_still_a_table(tmp_path: Path) -> None:
    """`vrm import FOLDER` was the only import once."""
    for arguments in ((str(tmp_path),), ("table", str(tmp_path))):
        error: Mapping[str, str] = _json(None, *arguments, code=2)
        assert (error["error"], error["field"]) == ("InvalidSourceError", "manifest.json")


def test_the_legacy_namespace_takes_no_other_work() -> None:
    result = CliRunner().invoke(app, ["distil", "--namespace", UNSCOPED, "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["field"] == "namespace"
