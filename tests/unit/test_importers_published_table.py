"""Published tables: what is damaged is refused with its place, what is whole becomes the same records every time."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from importers.published_table import HPOBENCH_MLP, contract, import_run, read_published_table, task_identities, trials
from memory.coordinator import CommitCoordinator
from memory.evidence import bundle_records, resolve_bundles
from memory.ports import all_good
from policies.bundles import NotABundle
from records.appends import Append
from records.canonical import digest_bytes
from records.errors import InvalidSourceError
from records.evidence import Experience, Manipulation, VerificationKind, VerifiedEvidenceBundle
from records.flows import Transition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.tables import edited, table_lines, write_table

Edit = Callable[[list[str]], object]


def _cell(line: int, column: int, text: str) -> Edit:
    def edit(lines: list[str]) -> None:
        cells = lines[line - 1].split(",")
        cells[column] = text
        lines[line - 1] = ",".join(cells)

    return edit


_BROKEN: tuple[tuple[str, Edit, str, str], ...] = (
    ("nan", _cell(3, 3, "nan"), "rows.csv line 3: score", "nan"),
    ("infinity", _cell(4, 3, "inf"), "rows.csv line 4: score", "inf"),
    ("overflow", _cell(4, 3, "1e999"), "rows.csv line 4: score", "1e999"),
    ("underscore", _cell(4, 3, "0_1"), "rows.csv line 4: score", "0_1"),
    ("empty cell", _cell(4, 3, ""), "rows.csv line 4: score", ""),
    ("beyond the metric", _cell(4, 3, "1.5"), "rows.csv line 4: score", "1.5"),
    ("nan knob", _cell(5, 2, "nan"), "rows.csv line 5: step", "nan"),
    ("knob outside the search space", _cell(5, 2, "0.7"), "rows.csv line 5: step", "0.7"),
    ("knob outside the catalog", _cell(5, 2, "0.3"), "rows.csv line 5: knob step", "0.3"),
    ("unknown task", _cell(2, 0, "z"), "rows.csv line 2: task", "z"),
    ("unknown seed", _cell(2, 1, "9"), "rows.csv line 2: seed", "9"),
    ("negative seed", _cell(2, 1, "-1"), "rows.csv line 2: seed", "-1"),
    ("duplicate row", lambda lines: lines.__setitem__(2, lines[1]), "rows.csv line 3", "the trial of line 2 again"),
    ("missing row", lambda lines: lines.pop(2), "rows.csv line 24", "23 rows"),
    ("unknown column", lambda lines: lines.__setitem__(0, "task,seed,step,mood"), "rows.csv line 1", "mood"),
    ("columns in another order", lambda lines: lines.__setitem__(0, "seed,task,step,score"), "rows.csv line 1", "seed"),
    ("one cell too many", lambda lines: lines.__setitem__(6, lines[6] + ",1"), "rows.csv line 7", "5 cells"),
    ("blank line", lambda lines: lines.__setitem__(6, ""), "rows.csv line 7", "0 cells"),
    ("quotes", _cell(2, 0, '"a"'), "rows.csv line 2", '"a"'),
    ("carriage return", lambda lines: lines.__setitem__(1, lines[1] + "\r"), "rows.csv line 2", "\r"),
)


@pytest.mark.parametrize(("edit", "place", "met"), [case[1:] for case in _BROKEN], ids=[case[0] for case in _BROKEN])
def test_a_damaged_row_is_refused_with_its_place(tmp_path: Path, edit: Edit, place: str, met: str) -> None:
    folder = write_table(tmp_path, edited(edit))
    with pytest.raises(InvalidSourceError) as caught:
        read_published_table(folder)
    assert caught.value.field == place
    assert met in caught.value.value
    assert caught.value.remedy.endswith(".")


def test_a_missing_seed_is_refused_even_if_the_row_count_was_adapted(tmp_path: Path) -> None:
    lines = edited(lambda rows: rows.pop(2))
    with pytest.raises(InvalidSourceError, match="a lacks seed 1 here") as caught:
        read_published_table(write_table(tmp_path, lines, rows=len(lines) - 1))
    assert caught.value.field == "rows.csv line 2"


def test_a_task_without_its_baseline_is_refused(tmp_path: Path) -> None:
    lines = [line for line in table_lines() if not line.startswith(("b,0,0.1", "b,1,0.1"))]
    with pytest.raises(InvalidSourceError, match="no baseline of b"):
        read_published_table(write_table(tmp_path, lines, rows=len(lines) - 1))


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.0])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: float) -> None:
    folder = write_table(tmp_path)
    data = (folder / "rows.csv").read_bytes()
    (folder / "rows.csv").write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(InvalidSourceError, match=r"^rows\.csv line \d+: "):
        read_published_table(folder)


def test_a_plausible_change_is_refused_by_the_digest(tmp_path: Path) -> None:
    folder = write_table(tmp_path)
    path = folder / "rows.csv"
    path.write_bytes(path.read_bytes().replace(b"0.5000", b"0.5001"))
    with pytest.raises(InvalidSourceError, match="SHA-256"):
        read_published_table(folder)


@pytest.mark.parametrize("name", ["manifest.json", "catalog.yaml", "rows.csv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_table(tmp_path)
    (folder / name).unlink()
    with pytest.raises(InvalidSourceError) as caught:
        read_published_table(folder)
    assert caught.value.field == name


@pytest.mark.parametrize(
    "changed",
    [
        {"published_at": "yesterday"},
        {"seeds": [0, 0]},
        {"metric_low": "1", "metric_high": "0"},
        {"rows": 0},
        {"table": {"name": "../rows.csv", "sha256": "0" * 64, "size_bytes": 1}},
        {"surprise": 1},
        {"search_space": {"step": [0.1, 0.2], "other": [1]}},
        {"search_space": {"step": [0.1]}},
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSourceError):
        read_published_table(write_table(tmp_path, **changed))


def test_a_catalog_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = write_table(tmp_path)
    path = folder / "catalog.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("A knob.", "Another."), encoding="utf-8")
    with pytest.raises(InvalidSourceError, match=r"catalog\.yaml"):
        read_published_table(folder)


def test_the_shipped_extract_is_six_tasks_nine_settings_five_seeds() -> None:
    table = read_published_table(HPOBENCH_MLP)
    assert Counter(row.task for row in table.rows) == dict.fromkeys(
        ("australian", "blood_transfusion", "car", "credit_g", "kc1", "segment"), 45
    )
    knobs = Counter(row.change.knob if row.change else "baseline" for row in table.rows)
    assert knobs == {
        "baseline": 30, "alpha": 60, "batch_size": 60, "learning_rate_init": 60, "depth": 30, "width": 30,
    }  # fmt: skip
    # The default of every knob is the lower median of the published grid, whatever the results are.
    space = table.manifest.search_space
    assert table.catalog.baseline == {knob: sorted(values)[(len(values) - 1) // 2] for knob, values in space.items()}


def test_trials_say_what_the_file_says(tmp_path: Path) -> None:
    """Read the file a second time with the standard library and compare."""
    table = read_published_table(HPOBENCH_MLP)
    made = list(trials(table, "test", ArtifactStore(str(tmp_path))))
    with (HPOBENCH_MLP / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(trial.task.name, trial.seed, trial.verified["val_acc"]) for trial in made] == [
        (row["task"], int(row["seed"]), float(row["val_acc"])) for row in rows
    ]
    for trial, row in zip(made, rows, strict=True):
        if trial.change is not None:
            knob, old, new = trial.change
            assert float(row[knob]) == new != old
    published = json.loads((HPOBENCH_MLP / "manifest.json").read_text(encoding="utf-8"))["published_at"]
    assert {time for trial in made for time in trial.times} == {published}


def test_the_bytes_of_row_and_table_are_artifacts(tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    table = read_published_table(HPOBENCH_MLP)
    first = next(trials(table, "test", artifacts))
    data = (HPOBENCH_MLP / "trials.csv").read_bytes()
    held = {reference.role: artifacts.read(reference.sha256) for reference in first.artifacts}
    assert held == {"row": data.split(b"\n")[1], "table": data}
    assert len(list(artifacts.digests())) == 271


def _import(ledger: MemoryLedger, artifacts: ArtifactStore) -> list[tuple[str, ...]]:
    """Import the shipped table; return the record ids of each trial as its receipt gives them."""
    coordinator = CommitCoordinator(ledger, MemoryRuntime(), artifacts, "test")
    appends = []
    for trial in trials(read_published_table(HPOBENCH_MLP), "test", artifacts):
        records = bundle_records(trial)
        appends.append(Append.direct(Transition.APPEND_EVIDENCE, f"import/{records[-1].id}", records))
    return [receipt.record_ids for receipt in all_good(coordinator.append_direct(appends))]


def test_importing_twice_is_a_replay(tmp_path: Path) -> None:
    ledger, artifacts = MemoryLedger(), ArtifactStore(str(tmp_path))
    first = _import(ledger, artifacts)
    position, counts = ledger.namespace_head("test"), dict(ledger.table_counts())
    assert _import(ledger, artifacts) == first
    assert (ledger.namespace_head("test"), dict(ledger.table_counts())) == (position, counts)
    assert counts["experience"] == counts["attempt"] == 270
    assert _import(MemoryLedger(), ArtifactStore(str(tmp_path / "elsewhere"))) == first


def test_every_trial_is_a_whole_bundle_of_published_records(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    _import(ledger, ArtifactStore(str(tmp_path)))
    loaded = [item.load() for item in ledger.find("experience", "test")]
    bundles = resolve_bundles(ledger, [item for item in loaded if isinstance(item, Experience)]).values()
    assert not [bundle for bundle in bundles if isinstance(bundle, NotABundle)]
    whole = [bundle for bundle in bundles if isinstance(bundle, VerifiedEvidenceBundle)]
    assert {bundle.verification.verification_kind for bundle in whole} == {VerificationKind.PUBLISHED_RECORD}
    assert Counter(bundle.intervention.manipulation for bundle in whole) == {
        Manipulation.BASELINE: 30,
        Manipulation.CHANGED: 240,
    }
    # Six dataset roots in one coarse scope: what a rule for a task scope needs (docs/adr/0050).
    assert len({bundle.attempt.dataset_root for bundle in whole}) == 6
    assert len({bundle.attempt.task_scope_id for bundle in whole}) == 1
    assert len({bundle.attempt.evaluation_task_id for bundle in whole}) == 6


def test_contract_and_run_follow_from_the_table_alone() -> None:
    table = read_published_table(HPOBENCH_MLP)
    made = contract(table, "test")
    assert made.id == contract(read_published_table(HPOBENCH_MLP), "test").id
    assert made.id != contract(table, "other").id
    assert made.primary_metric.name == "val_acc"
    assert import_run(table, "test").id == import_run(table, "test").id
    assert {task.scope_description for task in task_identities(table).values()} == {"problem_type classification"}


def test_another_manifest_is_another_evaluator(tmp_path: Path) -> None:
    one = read_published_table(write_table(tmp_path / "one"))
    two = read_published_table(write_table(tmp_path / "two", title="The same rows under another title"))
    assert one.data == two.data
    assert one.evaluator_digest != two.evaluator_digest
    assert digest_bytes(one.data) == one.manifest.table.sha256
