"""Published tables of layout 2: columns by role, unpaired arms, tuned settings, neighbours, packed and ARFF files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from importers.published_table import HPOBENCH_MLP, PublishedTable, read_published_table, trials
from importers.table_manifest import Manifest, RunManifest
from importers.table_rows import run_seed
from records.errors import InvalidSourceError
from store.artifacts import ArtifactStore
from tests.data.tables import RUN_LINES, write_runs
from tests.support.bad_input import every_bad_place, models, replaced
from vrm.cli.app import app

SHIPPED = sorted(path for path in HPOBENCH_MLP.parent.iterdir() if (path / "manifest.json").is_file())
Edit = Callable[[list[str]], object]


def _cell(line: int, column: int, text: str) -> Edit:
    def edit(lines: list[str]) -> None:
        cells = lines[line - 1].split(",")
        cells[column] = text
        lines[line - 1] = ",".join(cells)

    return edit


def _edited(edit: Edit) -> list[str]:
    lines = list(RUN_LINES)
    edit(lines)
    return lines


def _refused(folder: Path) -> InvalidSourceError:
    with pytest.raises(InvalidSourceError) as caught:
        read_published_table(folder)
    assert caught.value.remedy.endswith(".")
    return caught.value


def test_every_shipped_table_is_whole() -> None:
    assert [folder.name for folder in SHIPPED] == [
        "hpobench_mlp", "hpobench_mlp_axes", "nanogpt_arms", "openml_pimp", "tabm", "vq_beta_sweep", "vq_one_layer",
    ]  # fmt: skip
    for folder in SHIPPED:
        assert (folder / "PROVENANCE.md").is_file()
        assert len(read_published_table(folder).rows) > 4


def test_arms_become_settings_of_one_knob_and_classes_of_budget(tmp_path: Path) -> None:
    table = read_published_table(write_runs(tmp_path))
    found = {(row.arm.arm, row.change and row.change.to_value, row.budget_class) for row in table.rows if row.arm}
    assert found == {
        ("old", None, "short/1xbox/steps:10"),
        ("new", "new", "short/1xbox/steps:10"),
        ("old-long", None, "short/1xbox/steps:20"),
        ("base", None, "short/1xbox/steps:10"),
        ("shorter", "shorter", "short/1xbox/steps:9"),
    }
    assert {(row.change.knob, row.change.from_value) for row in table.rows if row.change} == {
        ("first", "old"),
        ("second", "base"),
    }


def test_a_run_without_a_seed_gets_one_that_is_nobody_elses(tmp_path: Path) -> None:
    table = read_published_table(write_runs(tmp_path))
    seeds = [row.seed for row in table.rows]
    assert len(set(seeds)) == len(seeds) == 15
    assert all(0 <= seed < 2**53 for seed in seeds)
    assert seeds == [row.seed for row in read_published_table(write_runs(tmp_path / "again")).rows]
    assert run_seed("one", "arm", "run") != run_seed("other", "arm", "run")
    assert run_seed("one", "arm", "1") != run_seed("one", "baseline", "1")


def test_records_have_sources_of_their_own_and_machines_are_the_environment(tmp_path: Path) -> None:
    made = _made(read_published_table(write_runs(tmp_path / "table")), tmp_path)
    assert len({trial.source_digest for trial in made}) == 2
    assert len({trial.environment_digest for trial in made}) == 1
    other = {"box": {"hardware": "1xbox", "description": {"cpu": "another"}}}
    again = _made(read_published_table(write_runs(tmp_path / "other", machines=other)), tmp_path)
    assert {trial.environment_digest for trial in made}.isdisjoint(trial.environment_digest for trial in again)


def _made(table: PublishedTable, folder: Path) -> list[Any]:
    return list(trials(table, "test", ArtifactStore(str(folder / "artifacts"))))


def test_what_was_attested_is_recorded_as_such(tmp_path: Path) -> None:
    table = read_published_table(write_runs(tmp_path / "table", verification="attested"))
    assert {trial.contract.verification_kind.value for trial in _made(table, tmp_path)} == {"attested"}


_BROKEN: tuple[tuple[str, Edit, str, str], ...] = (
    ("an arm that was not declared", _cell(2, 1, "odd"), "runs.csv line 2: arm", "r1, odd"),
    ("an arm of another record", _cell(2, 0, "r2"), "runs.csv line 2: arm", "r2, old"),
    ("a run without a name", _cell(3, 2, ""), "runs.csv line 3: run", ""),
    ("a run with a blank", _cell(3, 2, "a b"), "runs.csv line 3: run", "a b"),
    ("a run twice", _cell(3, 2, "r1-old-0"), "runs.csv line 3", "the trial of line 2 again"),
    ("a log twice", _cell(3, 6, f"{0:064x}"), "runs.csv line 3", "the log of line 2 again"),
    ("a budget with a blank", _cell(2, 3, "1 0"), "runs.csv line 2: steps", "1 0"),
    ("a loss that is none", _cell(2, 4, "nan"), "runs.csv line 2: loss", "nan"),
    ("a loss beyond", _cell(2, 4, "9.5"), "runs.csv line 2: loss", "9.5"),
    ("no digest", _cell(2, 5, "abc"), "runs.csv line 2: source", "abc"),
    ("capitals in a digest", _cell(2, 6, "A" * 64), "runs.csv line 2: log", "AAAA"),
    ("one program under two settings", _cell(5, 5, "a" * 64), "runs.csv line 5", "the program of line 2"),
    ("an arm of fewer runs", _cell(2, 1, "old-long"), "runs.csv: r1, old", "2 runs"),
    ("a row too few", lambda lines: lines.pop(), "runs.csv line 15", "14 rows"),
)


@pytest.mark.parametrize(("edit", "place", "met"), [case[1:] for case in _BROKEN], ids=[case[0] for case in _BROKEN])
def test_a_damaged_row_is_refused_with_its_place(tmp_path: Path, edit: Edit, place: str, met: str) -> None:
    error = _refused(write_runs(tmp_path, _edited(edit)))
    assert error.field == place
    assert met in error.value


_COLUMNS = json.loads((HPOBENCH_MLP.parent / "nanogpt_arms" / "manifest.json").read_text(encoding="utf-8"))["columns"]


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"arms": []}, "arms are declared"),
        ({"seeds": [0]}, "seeds are declared"),
        ({"verification": "recomputed"}, "should be"),
        ({"tuned_knob": "first"}, "tuned_knob is given"),
        ({"comparison": "tuned", "tuned_knob": "first"}, "arms are compared with the defaults"),
        ({"machines": {}}, "every arm's machine"),
        ({"search_space": {"first": [1]}}, "search_space names columns"),
        ({"equivalence_margin": "-1"}, "margin is not negative"),
        ({"metrics": [{"spec": {"name": "time", "direction": "minimize", "unit": "s"}, "low": "0", "high": "9"}]},
         "every metric has its column"),
        ({"metrics": [{"spec": {"name": "loss", "direction": "minimize", "unit": "s"}, "low": "9", "high": "0"}]},
         "low is below high"),
        ({"columns": [{"name": "record", "role": "mood"}]}, "should be"),
        ({"columns": _COLUMNS[:1] * 2}, "columns are given once each"),
        ({"columns": [{"name": "a", "role": "run"}, {"name": "b", "role": "run"}]}, "a role was given to two columns"),
    ],
)  # fmt: skip
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any], rule: str) -> None:
    error = _refused(write_runs(tmp_path, **changed))
    assert error.field.startswith("manifest.json: RunManifest.")
    assert rule in error.remedy


def test_the_command_names_the_place_before_anything_is_started(tmp_path: Path) -> None:
    folder = write_runs(tmp_path, _edited(_cell(2, 4, "nan")))
    result = CliRunner().invoke(app, ["import", "table", str(folder), "--json"], env={"VRM_HOME": "/nonexistent/vrm"})
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], told["field"], told["value"]) == ("InvalidSourceError", "runs.csv line 2: loss", "nan")


def test_two_tasks_need_a_column(tmp_path: Path) -> None:
    tasks = [{"name": name, "root": name, "attributes": {}, "description": {}} for name in "ab"]
    assert "column of role task" in _refused(write_runs(tmp_path, tasks=tasks)).remedy


def test_a_catalog_of_other_knobs_is_refused(tmp_path: Path) -> None:
    text = (write_runs(tmp_path) / "catalog.yaml").read_text(encoding="utf-8").replace("second:", "third:")
    error = _refused(write_runs(tmp_path, catalog_text=text))
    assert (error.field, error.value) == ("catalog.yaml", "second, third")


def test_a_setting_that_is_not_in_the_catalog_is_refused(tmp_path: Path) -> None:
    text = (write_runs(tmp_path) / "catalog.yaml").read_text(encoding="utf-8").replace("[old, new]", "[old, newer]")
    assert _refused(write_runs(tmp_path, catalog_text=text)).field == "runs.csv line 5: knob first"


def test_a_manifest_is_refused_for_any_bad_value_in_any_field(tmp_path: Path) -> None:
    manifest = RunManifest.load((write_runs(tmp_path) / "manifest.json").read_bytes())
    seen = set()
    for path, fault, bad in every_bad_place(manifest):  # type: ignore[arg-type]  # it walks as a record does
        kind = (tuple(part for part in path if isinstance(part, str)), fault)
        if kind in seen:
            continue
        seen.add(kind)
        (tmp_path / "manifest.json").write_text(json.dumps(replaced(manifest.as_json(), path, bad)), encoding="utf-8")
        assert _refused(tmp_path).field.startswith("manifest.json: "), (path, fault)
    for path, _ in models(manifest):
        told = replaced(manifest.as_json(), (*path, "colour"), 1)
        (tmp_path / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
        assert "colour" in _refused(tmp_path).field


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_packed_table_is_the_same_rows(tmp_path: Path) -> None:
    plain = read_published_table(write_runs(tmp_path / "plain"))
    packed = gzip.compress("".join(f"{line}\n" for line in RUN_LINES).encode())
    table = read_published_table(write_runs(tmp_path / "packed", name="runs.csv.gz", data=packed))
    assert table.rows == plain.rows
    assert table.data == packed
    (file,) = {trial.artifacts[1] for trial in _made(table, tmp_path)}
    assert (file.media_type, file.size_bytes) == ("application/gzip", len(packed))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_packed_table_that_was_cut_off_is_refused(tmp_path: Path, kept: float) -> None:
    packed = gzip.compress("".join(f"{line}\n" for line in RUN_LINES).encode())
    data = packed[: int(len(packed) * kept)]
    assert _refused(write_runs(tmp_path, name="runs.csv.gz", data=data)).field.startswith("runs.csv.gz")


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(b"0" * (64 * 2**20 + 1))
    assert "unpacked" in _refused(write_runs(tmp_path, name="runs.csv.gz", data=data)).value


_ARFF = """% a comment
@RELATION made-up

@ATTRIBUTE step NUMERIC
@ATTRIBUTE sort {plain, other}
@ATTRIBUTE deep {True, False}
@ATTRIBUTE trees {100}
@ATTRIBUTE score NUMERIC

@DATA
0.1,plain,True,100,0.5
% another
0.2,plain,True,100,0.6

0.1,other,False,100,0.7
0.30,other,True,100,0.8
"""
_ARFF_CATALOG = """
catalog_id: made-up-forest
version: "1"
domain: made_up
decision_point: intervention
max_changes_per_attempt: 1
knobs:
  step: {value_type: number, default: 0.1, allowed: [0.1, 0.2, 0.3], mechanism: one, summary: A number.}
  sort: {value_type: string, default: plain, allowed: [plain, other], mechanism: two, summary: A word.}
  deep: {value_type: boolean, default: true, allowed: [true, false], mechanism: three, summary: A truth.}
fixed:
  trees: 100
"""


def _arff(folder: Path, text: str = _ARFF) -> Path:
    roles = {"step": "knob", "sort": "knob", "deep": "knob", "trees": "knob", "score": "metric"}
    return write_runs(
        folder, name="forest.arff", data=text.encode(), catalog_text=_ARFF_CATALOG, rows=4, arms=[], machines={},
        comparison="neighbours", budget_class="full",
        columns=[{"name": name, "role": role} for name, role in roles.items()],
        metrics=[{"spec": {"name": "score", "direction": "maximize", "unit": "share"}, "low": "0", "high": "1"}],
    )  # fmt: skip


def test_arff_is_read_with_its_types_and_neighbours_are_found(tmp_path: Path) -> None:
    table = read_published_table(_arff(tmp_path))
    assert [(row.line, row.config["step"], row.config["deep"], row.metrics["score"]) for row in table.rows] == [
        (11, 0.1, True, 0.5), (13, 0.2, True, 0.6), (15, 0.1, False, 0.7), (16, 0.3, True, 0.8),
    ]  # fmt: skip
    assert table.rows[3].data == b"0.30,other,True,100,0.8"
    changes = [row.change and (row.change.knob, row.change.from_value, row.change.to_value) for row in table.rows]
    # The third row differs from the first in two knobs, the fourth from every baseline: each is a baseline of its own.
    assert changes == [None, ("step", 0.1, 0.2), None, None]
    assert [row.baseline == row.config for row in table.rows] == [True, False, True, True]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("0.2,plain,True,100,0.6", "0.2,strange,True,100,0.6", "forest.arff line 13"),
        ("0.2,plain,True,100,0.6", "0.2,plain,True,100", "forest.arff line 13"),
        ("0.2,plain,True,100,0.6", "0.2,plain,True,100,lots", "forest.arff line 13"),
        ("0.2,plain,True,100,0.6", "0.2,plain,True,100,?", "forest.arff line 13"),
        ("0.2,plain,True,100,0.6", "0.25,plain,True,100,0.6", "forest.arff line 13: knob step"),
        ("0.2,plain,True,100,0.6", "0.1,plain,True,100,0.5", "forest.arff line 13"),
        ("@DATA", "@DATUM", "forest.arff line 16"),
        ("@ATTRIBUTE step NUMERIC", "@ATTRIBUTE stop NUMERIC", "forest.arff line 10"),
        ("@ATTRIBUTE score NUMERIC", "@ATTRIBUTE score RELATIONAL", "forest.arff line"),
        ("@ATTRIBUTE trees {100}", "@ATTRIBUTE trees {100, 200}\n@ATTRIBUTE more {1}", "forest.arff line"),
    ],
)
def test_an_arff_that_breaks_its_own_header_is_refused(tmp_path: Path, old: str, new: str, place: str) -> None:
    assert _refused(_arff(tmp_path, _ARFF.replace(old, new))).field.startswith(place)


def test_a_fixed_setting_has_its_one_value(tmp_path: Path) -> None:
    text = _ARFF.replace("{100}", "{100, 200}").replace("0.2,plain,True,100", "0.2,plain,True,200")
    error = _refused(_arff(tmp_path, text))
    assert (error.field, error.remedy) == ("forest.arff line 13: trees", "It is 100 here.")


def test_an_arm_may_not_change_what_the_catalog_fixes(tmp_path: Path) -> None:
    text = """
catalog_id: made-up-records
version: "1"
domain: made_up
decision_point: intervention
max_changes_per_attempt: 1
knobs:
  first: {value_type: string, default: old, allowed: [old, new], mechanism: one, summary: A record.}
fixed: {second: base}
"""
    error = _refused(write_runs(tmp_path, catalog_text=text))
    assert (error.field, error.value) == ("runs.csv line 14: r2, shorter: second", "shorter")
    assert error.remedy == "It is base here."


# --- settings that were tuned apart -----------------------------------------------------------------------------------

_TUNED_CATALOG = """
catalog_id: made-up-models
version: "1"
domain: made_up
decision_point: intervention
max_changes_per_attempt: 1
knobs:
  model: {value_type: string, default: plain, allowed: [plain, fancy], mechanism: model, summary: A model.}
  rate: {value_type: number, default: 1, allowed: [1, 2, 3], mechanism: rate, summary: A rate.}
fixed: {}
"""
_TUNED = ["task,seed,model,rate,loss", *(
    f"{task},{seed},{model},{rate},0.{place}{seed}"
    for place, (task, model, rate) in enumerate(
        [("a", "plain", 2), ("a", "fancy", 3), ("b", "plain", 1), ("b", "fancy", 1)], start=1
    )
    for seed in (0, 1)
)]  # fmt: skip


def _tuned(folder: Path, lines: list[str]) -> Path:
    roles = {"task": "task", "seed": "seed", "model": "knob", "rate": "knob", "loss": "metric"}
    return write_runs(
        folder, lines, catalog_text=_TUNED_CATALOG, rows=len(lines) - 1, seeds=[0, 1], arms=[], machines={},
        comparison="tuned", tuned_knob="model", columns=[{"name": key, "role": role} for key, role in roles.items()],
        tasks=[{"name": name, "root": name, "attributes": {}, "description": {}} for name in "ab"],
    )  # fmt: skip


def test_a_model_that_was_tuned_apart_has_a_baseline_that_nobody_ran(tmp_path: Path) -> None:
    table = read_published_table(_tuned(tmp_path, _TUNED))
    rows = {(row.task, row.config["model"]): row for row in table.rows}
    run = {(row.task, table.catalog.config_digest(row.config)) for row in table.rows}
    apart, alike = rows["a", "fancy"], rows["b", "fancy"]
    assert apart.differs == ("model", "rate")
    assert apart.baseline == {"model": "plain", "rate": 3}
    assert ("a", table.catalog.config_digest(apart.baseline)) not in run
    # Where the tuning happened to choose the same, one knob differs, and there is a comparator.
    assert alike.differs == ("model",)
    assert ("b", table.catalog.config_digest(alike.baseline)) in run


@pytest.mark.parametrize(
    ("edit", "place", "met"),
    [
        (_cell(3, 3, "3"), "runs.csv line 3: model", "another setting than line 2"),
        (_cell(2, 1, "7"), "runs.csv line 2: seed", "7"),
        (lambda lines: lines.pop(4), "runs.csv line 4", "a lacks seed 1 here"),
        (lambda lines: lines.__delitem__(slice(5, 7)), "runs.csv line 6", "no model plain for b"),
    ],
)
def test_a_tuned_table_that_is_not_whole_is_refused(tmp_path: Path, edit: Edit, place: str, met: str) -> None:
    lines = list(_TUNED)
    edit(lines)
    error = _refused(_tuned(tmp_path, lines))
    assert error.field == place
    assert met in error.value


def test_layout_1_is_the_layout_2_that_says_the_same() -> None:
    """Its own digest stays what it was: the Run of an import follows from it."""
    data = (HPOBENCH_MLP / "manifest.json").read_bytes()
    manifest = Manifest.load(data)
    table = read_published_table(HPOBENCH_MLP)
    assert table.manifest_digest == manifest.canonical_digest
    assert [(column.name, column.role.value) for column in table.manifest.columns] == [
        ("task", "task"), ("seed", "seed"), ("alpha", "knob"), ("batch_size", "knob"), ("depth", "knob"),
        ("learning_rate_init", "knob"), ("width", "knob"), ("val_acc", "metric"),
    ]  # fmt: skip
    assert RunManifest.load(table.manifest.canonical) == table.manifest
