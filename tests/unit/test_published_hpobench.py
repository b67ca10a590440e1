"""The grid's knobs as evidence: every effect beside numpy and scipy on rows of the grid as the source lays them out."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from policies.distiller import VariantVerdict
from policies.effects import Classification, EffectSummary
from records.ids import EvaluationTaskId
from records.knowledge import DecisionKind
from records.values import ActionKind
from tests.support.published import DATA, POLICY, judged

TABLE: Final = "hpobench_mlp_axes"
GRID: Final = Path(__file__).parents[1] / "data" / "hpobench_grid" / "rows.csv"
KNOBS: Final = ("alpha", "batch_size", "depth", "learning_rate_init", "width")
MARGIN: Final = 0.01
Deltas = Mapping[tuple[str, float], Mapping[str, NDArray[np.float64]]]


@pytest.fixture(scope="module")
def deltas() -> Deltas:
    """Changed minus baseline, five seeds a task, by knob and value: from grid indices and nothing of ours."""
    space = json.loads((DATA / "hpobench_mlp" / "manifest.json").read_text(encoding="utf-8"))["search_space"]
    rows: dict[str, dict[tuple[int, ...], NDArray[np.float64]]] = {}
    with GRID.open(newline="", encoding="utf-8") as file:
        for row in csv.reader(list(file)[1:]):
            place = tuple(int(cell) for cell in row[1:6])
            rows.setdefault(row[0], {})[place] = np.array([float(cell) for cell in row[6:]])
    middle = tuple((len(space[knob]) - 1) // 2 for knob in KNOBS)
    found: dict[tuple[str, float], dict[str, NDArray[np.float64]]] = {}
    for task, grid in rows.items():
        for place, values in grid.items():
            moved = [axis for axis in range(5) if place[axis] != middle[axis]]
            if moved:
                (axis,) = moved
                key = (KNOBS[axis], float(space[KNOBS[axis]][place[axis]]))
                found.setdefault(key, {})[task] = values - grid[middle]
    return found


def _key(verdict: VariantVerdict) -> tuple[str, float]:
    knob = verdict.variant.target.knob
    return knob.name, float(knob.to_value)


def _require_t(summary: EffectSummary, values: NDArray[np.float64]) -> None:
    assert summary.n_units == len(values)
    assert summary.mean == pytest.approx(values.mean(), abs=1e-9)
    assert summary.mean_interval is not None
    assert summary.prediction_interval is not None
    spread, n = values.std(ddof=1), len(values)
    if spread < 1e-12:
        return
    low, high = stats.t.interval(0.95, n - 1, values.mean(), spread / np.sqrt(n))
    assert (summary.mean_interval.low, summary.mean_interval.high) == pytest.approx((low, high), abs=1e-9)
    low, high = stats.t.interval(0.95, n - 1, values.mean(), spread * np.sqrt(1 + 1 / n))
    assert (summary.prediction_interval.low, summary.prediction_interval.high) == pytest.approx((low, high), abs=1e-9)
    assert summary.p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_the_grid_has_every_other_value_of_every_knob(deltas: Deltas) -> None:
    assert len(deltas) == 9 + 9 + 2 + 9 + 9
    assert all(len(tasks) == 6 for tasks in deltas.values())


def test_every_contrast_over_roots_is_that_of_scipy(deltas: Deltas) -> None:
    verdicts = judged(TABLE).of_task_scope()
    assert {_key(verdict) for verdict in verdicts} == deltas.keys()
    for verdict in verdicts:
        means = np.array([seeds.mean() for _, seeds in sorted(deltas[_key(verdict)].items())])
        _require_t(verdict.summary, means)
        assert verdict.summary.n_pairs == 30
        assert verdict.summary.equivalence_margin == MARGIN


def test_every_contrast_of_one_task_is_that_of_scipy(deltas: Deltas) -> None:
    tasks = {bundle.attempt.evaluation_task_id: row.task for row, bundle in _rows()}
    verdicts = judged(TABLE).of_one_task()
    assert len(verdicts) == 38 * 6
    for verdict in verdicts:
        task = verdict.variant.scope.evaluation_task_id
        assert task is not None
        _require_t(verdict.summary, deltas[_key(verdict)][tasks[task]])


def _rows() -> Any:
    return zip(judged(TABLE).table.rows, judged(TABLE).bundles, strict=True)


def test_p_values_are_adjusted_in_the_family_of_their_scope() -> None:
    families: dict[EvaluationTaskId | None, list[VariantVerdict]] = {}
    for verdict in judged(TABLE).verdicts.values():
        families.setdefault(verdict.variant.scope.evaluation_task_id, []).append(verdict)
    assert sorted(map(len, families.values())) == [38] * 7  # the task scope, and six tasks of their own
    for family in families.values():
        own = [verdict.gate.p_value for verdict in family]
        adjusted = [verdict.gate.adjusted_p for verdict in family]
        assert adjusted == pytest.approx(list(stats.false_discovery_control(own)), rel=1e-9)


def test_what_is_active_is_shown_and_what_is_shown_to_be_nothing_never_is(deltas: Deltas) -> None:
    tasks = {bundle.attempt.evaluation_task_id: row.task for row, bundle in _rows()}
    decided = set()
    for verdict in judged(TABLE).verdicts.values():
        task = verdict.variant.scope.evaluation_task_id
        by_task = deltas[_key(verdict)]
        values = np.array([each.mean() for each in by_task.values()]) if task is None else by_task[tasks[task]]
        half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
        low, high = values.mean() - half, values.mean() + half
        decision, action = verdict.verdict.decision, verdict.verdict.action
        decided.add(decision)
        if low > -MARGIN and high < MARGIN:
            assert verdict.summary.classification is Classification.NO_EFFECT
            assert decision is DecisionKind.REJECTED
        if decision is DecisionKind.PROMOTED_ACTIVE:
            assert low > 0 if action is ActionKind.RECOMMEND else high < 0
            assert verdict.gate.adjusted_p is not None
            assert verdict.gate.adjusted_p <= POLICY.gate.q
    assert DecisionKind.PROMOTED_ACTIVE in decided
    assert DecisionKind.REJECTED in decided


def test_the_six_data_sets_agree_on_no_rule_for_all_of_them() -> None:
    """One family of 38 changes over six roots: what passes for one of them is not said of all (docs/adr/0050)."""
    verdicts = judged(TABLE).of_task_scope()
    assert not [verdict for verdict in verdicts if verdict.verdict.decision is DecisionKind.PROMOTED_ACTIVE]


def test_both_extracts_of_the_grid_show_the_same_effects() -> None:
    whole = {_key(each): each.summary for each in judged(TABLE).of_task_scope()}
    small = judged("hpobench_mlp").of_task_scope()
    assert len(small) == 8
    for verdict in small:
        other = whole[_key(verdict)]
        assert (verdict.summary.mean, verdict.summary.mean_interval) == (other.mean, other.mean_interval)
        assert verdict.gate.family_size < 38  # fewer were tried, so less is corrected for
