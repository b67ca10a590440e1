"""Paired comparison of two arms: published data, an exhaustive bootstrap, and what must not be dropped."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from evaluation.paired import (
    BOOTSTRAP_SEED,
    RESAMPLES,
    Finding,
    PairedEffect,
    PairedTrial,
    paired_effect,
    percentile_bootstrap,
)
from records.errors import InvalidRecordError

# Student, "The probable error of a mean", Biometrika 6 (1908), p. 20: hours of sleep gained under two drugs.
_FIRST = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
_SECOND = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)


def _effect(*deltas: float) -> PairedEffect:
    return paired_effect(
        [PairedTrial(task=f"t{place}", seed=0, control=10, memory=10 + delta) for place, delta in enumerate(deltas)]
    )


def test_students_sleep_data_give_the_published_interval() -> None:
    # Both drugs are moved up by two hours, so that no utility is below that of a failure; differences stay the same.
    trials = [
        PairedTrial(task=f"patient {place}", seed=0, control=first + 2, memory=second + 2)
        for place, (first, second) in enumerate(zip(_FIRST, _SECOND, strict=True))
    ]
    effect = paired_effect(trials)
    # R's documentation of t.test on the same data, paired: t = 4.0621, p = 0.002833, 0.7001142 to 2.4598858, mean 1.58.
    assert effect.mean_delta == pytest.approx(1.58)
    assert effect.interval is not None
    assert (effect.interval.low, effect.interval.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert effect.p_value == pytest.approx(0.002833, abs=5e-7)
    assert (effect.signs.up, effect.signs.down, effect.signs.ties) == (9, 0, 1)
    assert effect.signs.p_value == pytest.approx(2 / 2**9)
    assert effect.finding is Finding.GAIN
    assert (effect.n_tasks, effect.n_pairs) == (10, 10)


def test_bootstrap_agrees_with_every_resample_there_is() -> None:
    values = [0.0, 0.01, 0.05, 0.11, -0.04, 0.2]
    every = np.sort([math.fsum(drawn) / 6 for drawn in itertools.product(values, repeat=6)])
    found = percentile_bootstrap(values)
    for end, level in ((found.low, 0.025), (found.high, 0.975)):
        below, upto = np.searchsorted(every, [end - 1e-12, end + 1e-12]) / len(every)
        slack = 4 * math.sqrt(level * (1 - level) / RESAMPLES)  # four standard errors of a simulated share
        assert below - slack <= level <= upto + slack


def test_bootstrap_is_seeded_and_does_not_see_the_order() -> None:
    values = [0.313, 0.007, -0.101, 0.229, 0.041, 0.173, -0.019, 0.087]
    assert percentile_bootstrap(values) == percentile_bootstrap(values[::-1])
    assert percentile_bootstrap(values) != percentile_bootstrap(values, seed=BOOTSTRAP_SEED + 1)
    assert RESAMPLES >= 10_000


def test_seeds_are_averaged_before_tasks_are_counted() -> None:
    trials = [
        PairedTrial(task="a", seed=seed, control=0.5, memory=0.5 + gain) for seed, gain in enumerate((0.1, 0.3, 0.2))
    ]
    trials += [
        PairedTrial(task="b", seed=0, control=0.5, memory=0.4),
        PairedTrial(task="c", seed=0, control=1, memory=1),
    ]
    effect = paired_effect(trials)
    assert (effect.n_tasks, effect.n_pairs) == (3, 5)
    assert [task.delta for task in effect.tasks] == pytest.approx([0.2, -0.1, 0])
    assert effect.mean_delta == pytest.approx(0.1 / 3)
    assert effect == paired_effect(trials[::-1])


def test_failures_count_as_zero_and_nothing_is_dropped() -> None:
    effect = paired_effect(
        [
            PairedTrial(task="a", seed=0, control=0.8, memory=None),
            PairedTrial(task="b", seed=0, control=None, memory=0.6),
            PairedTrial(task="c", seed=0, control=None, memory=None),
        ]
    )
    assert (effect.failed_control, effect.failed_memory, effect.n_tasks) == (2, 2, 3)
    assert [task.delta for task in effect.tasks] == [-0.8, 0.6, 0.0]
    assert (effect.mean_control, effect.mean_memory) == pytest.approx((0.8 / 3, 0.2))


def test_rounding_noise_is_a_tie() -> None:
    effect = paired_effect([PairedTrial(task=name, seed=0, control=0.3, memory=0.1 + 0.2) for name in "abcd"])
    assert (effect.signs.ties, effect.mean_delta, effect.finding) == (4, 0, Finding.NOT_SHOWN)


@pytest.mark.parametrize(
    ("deltas", "finding"),
    [
        ((0.1, 0.2), Finding.NOT_SHOWN),  # two tasks
        ((0.0, 0.0, 0.0), Finding.NOT_SHOWN),
        ((0.1,) * 5, Finding.NOT_SHOWN),  # no spread: five equal signs have p = 2/32
        ((0.1,) * 6, Finding.GAIN),  # six have p = 2/64
        ((-0.1, -0.11, -0.12, -0.13), Finding.LOSS),
        ((0.5, -0.4, 0.3, -0.2), Finding.NOT_SHOWN),
    ],
)
def test_finding(deltas: tuple[float, ...], finding: Finding) -> None:
    assert _effect(*deltas).finding is finding


def test_below_three_tasks_there_is_no_interval() -> None:
    effect = _effect(0.1, 0.3)
    assert (effect.interval, effect.bootstrap, effect.p_value) == (None, None, None)
    assert effect.mean_delta == pytest.approx(0.2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_utility_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidRecordError, match="utility"):
        paired_effect([PairedTrial(task="a", seed=0, control=0.5, memory=value)])


def test_a_trial_given_twice_is_a_mistake() -> None:
    trial = PairedTrial(task="a", seed=0, control=0.5, memory=0.5)
    with pytest.raises(ValueError, match="once"):
        paired_effect([trial, trial])
    with pytest.raises(ValueError, match="one or more"):
        paired_effect([])
