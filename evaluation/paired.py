"""Two arms on the same tasks and seeds: what the second did better than the first, by intention to treat. Pure.

Rules kept here (docs/adr/0070):

- every planned trial counts in the arm that it was assigned to, whatever became of it. A trial without a valid result
  has the utility `FAILED_UTILITY`, which was fixed before any result was seen; nothing is dropped;
- outcomes are utilities: more is better, and none is below `FAILED_UTILITY`;
- the unit is the task: the paired differences of its seeds are averaged first, so that seeds never count as tasks;
- the t interval of the mean over tasks decides; the seeded percentile bootstrap over tasks stands beside it as a check
  that assumes no normal distribution, and decides nothing;
- below three tasks there is no interval and no finding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from policies.effects import PairedDelta, effect_units, figure
from policies.statistics import (
    MIN_T_VALUES,
    Bounds,
    SignTest,
    mean,
    mean_interval,
    one_sample_test,
    sign_test,
)
from records.errors import InvalidRecordError

FAILED_UTILITY: Final = 0.0
"""The utility of a trial that has no valid result; the worst value that a share-valued metric can take."""

LEVEL: Final = 0.95
RESAMPLES: Final = 20_000
BOOTSTRAP_SEED: Final = 1908


class Finding(StrEnum):
    """What a paired comparison shows."""

    GAIN = "gain"
    LOSS = "loss"
    NOT_SHOWN = "not_shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTrial:
    """One task and seed in both arms; a utility is None where the arm has no valid result."""

    task: str
    seed: int
    control: float | None
    memory: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDelta:
    """One task: the mean utility of each arm over its seeds, and the mean of the paired differences."""

    task: str
    seeds: int
    control: float
    memory: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """Memory minus control over tasks; figures are in the unit of the utility.

    Attributes:
        n_tasks: units; n_pairs: trials behind them.
        failed_control, failed_memory: trials of each arm that count as `FAILED_UTILITY`.
        mean_control, mean_memory: mean over tasks of each arm; mean_delta: mean over tasks of the differences.
        level: nominal coverage of both intervals, as a share.
        interval: t interval of the mean over tasks; None below three tasks.
        p_value: two-sided p of "the mean is zero", of the same test; None below three tasks.
        bootstrap: percentile interval over `resamples` resamples of tasks drawn with seed `bootstrap_seed`.
        signs: tasks with memory ahead, behind and tied, and the p-value of the sign test without ties.
        finding: what the t interval shows.
        tasks: one row per task, sorted by name.
    """

    n_tasks: int
    n_pairs: int
    failed_control: int
    failed_memory: int
    mean_control: float
    mean_memory: float
    mean_delta: float
    level: float
    interval: Bounds | None
    p_value: float | None
    bootstrap: Bounds | None
    resamples: int
    bootstrap_seed: int
    signs: SignTest
    finding: Finding
    tasks: tuple[TaskDelta, ...]


def paired_effect(trials: Sequence[PairedTrial]) -> PairedEffect:
    """Compare the arms over all planned trials.

    Raises:
        InvalidRecordError: a utility is not finite or below `FAILED_UTILITY`.
        ValueError: there is no trial, or a task has a seed twice.
    """
    if not trials or len({(trial.task, trial.seed) for trial in trials}) != len(trials):
        raise ValueError("give one or more trials, each task and seed once")
    tasks = _tasks(trials)
    deltas = [task.delta for task in tasks]
    enough = len(tasks) >= MIN_T_VALUES
    centre = figure(mean(deltas))
    p_value = figure(one_sample_test(deltas).p_value) if enough else None
    return PairedEffect(
        n_tasks=len(tasks),
        n_pairs=len(trials),
        failed_control=sum(trial.control is None for trial in trials),
        failed_memory=sum(trial.memory is None for trial in trials),
        mean_control=figure(mean([task.control for task in tasks])),
        mean_memory=figure(mean([task.memory for task in tasks])),
        mean_delta=centre,
        level=LEVEL,
        interval=_rounded(mean_interval(deltas, LEVEL)) if enough else None,
        p_value=p_value,
        bootstrap=percentile_bootstrap(deltas) if enough else None,
        resamples=RESAMPLES,
        bootstrap_seed=BOOTSTRAP_SEED,
        signs=sign_test(deltas),
        finding=_finding(centre, p_value),
        tasks=tasks,
    )


def percentile_bootstrap(
    values: Sequence[float], level: float = LEVEL, resamples: int = RESAMPLES, seed: int = BOOTSTRAP_SEED
) -> Bounds:
    """Return the percentile interval of the mean over resamples of `values` (Efron and Tibshirani 1993, section 13.3).

    The same values and seed give the same interval whatever the order of the values.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(seed).integers(0, len(ordered), size=(resamples, len(ordered)))
    tails = np.quantile(ordered[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Bounds(figure(float(tails[0])), figure(float(tails[1])))


def _tasks(trials: Sequence[PairedTrial]) -> tuple[TaskDelta, ...]:
    """Average within tasks the way effects are averaged everywhere else, rounding noise of ties included."""
    pairs = [
        PairedDelta(
            root=trial.task,
            evaluation_task=trial.task,
            seed=trial.seed,
            baseline=_utility(trial.control),
            changed=_utility(trial.memory),
        )
        for trial in trials
    ]
    rows = []
    for unit in effect_units(pairs):
        own = [pair for pair in pairs if pair.root == unit.root]
        rows.append(
            TaskDelta(
                task=unit.root,
                seeds=len(own),
                control=figure(mean([pair.baseline for pair in own])),
                memory=figure(mean([pair.changed for pair in own])),
                delta=unit.effect,
            )
        )
    return tuple(rows)


def _utility(value: float | None) -> float:
    if value is None:
        return FAILED_UTILITY
    if not math.isfinite(value) or value < FAILED_UTILITY:
        raise InvalidRecordError("utility", value, f"Give a finite number from {FAILED_UTILITY} on, or None.")
    return value


def _finding(centre: float, p_value: float | None) -> Finding:
    # The test, not the interval: differences that are all the same give an interval of no width, which shows nothing.
    if p_value is None or p_value > 1 - LEVEL or centre == 0:
        return Finding.NOT_SHOWN
    return Finding.GAIN if centre > 0 else Finding.LOSS


def _rounded(bounds: Bounds) -> Bounds:
    return Bounds(figure(bounds.low), figure(bounds.high))
