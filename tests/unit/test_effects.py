"""Effect units and summaries: the root is the unit, repetition adds nothing, and few units claim little."""

from __future__ import annotations

import dataclasses
import math
import statistics as stdlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.distillation_policy import distillation_policy
from policies.effects import (
    Classification,
    EffectSummary,
    PairedDelta,
    UncertaintyMethod,
    effect_units,
    summarise_effect,
)
from policies.statistics import TestMethod
from records.errors import InvalidRecordError
from records.values import Direction

POLICY = distillation_policy().effect


def pairs(by_root: dict[str, list[float]]) -> list[PairedDelta]:
    """Return one task per root, one pair per delta."""
    return [
        PairedDelta(root, f"{root}/t", seed, 0.5, 0.5 + delta)
        for root, deltas in by_root.items()
        for seed, delta in enumerate(deltas)
    ]


def summary(deltas: list[float], direction: Direction = Direction.MAXIMIZE, margin: float = 0.005) -> EffectSummary:
    """Summarise one root per delta."""
    units = effect_units(pairs({f"r{i:02}": [delta] for i, delta in enumerate(deltas)}))
    return summarise_effect(units, direction, POLICY, margin)


def test_unit_is_mean_over_seeds_then_tasks_of_a_root() -> None:
    """A task with many seeds weighs no more than its sibling, a root with many tasks no more than another root."""
    units = effect_units(
        [
            PairedDelta("b", "b1", 0, 0.0, 4.0),
            PairedDelta("a", "a1", 0, 1.0, 2.0),
            PairedDelta("a", "a1", 1, 1.0, 4.0),
            PairedDelta("a", "a2", 0, 1.0, 7.0),
        ]
    )
    assert [(unit.root, unit.effect, unit.n_pairs) for unit in units] == [("a", 4.0, 3), ("b", 4.0, 1)]


def test_resplits_of_one_root_are_one_unit() -> None:
    """Eighteen variants of one root stay one unit, and one unit has neither interval nor p-value."""
    units = effect_units([PairedDelta("ecoli", f"ecoli-{i}", 0, 0.5, 0.6) for i in range(18)])
    result = summarise_effect(units, Direction.MAXIMIZE, POLICY)
    assert (result.n_units, result.n_pairs, result.method) == (1, 18, UncertaintyMethod.NONE)
    assert (result.sd, result.mean_interval, result.prediction_interval, result.p_value) == (None, None, None, None)
    assert result.classification is Classification.UNCERTAIN


def test_two_units_have_their_range_only() -> None:
    """Two units give a range and no p-value, whatever their sign."""
    result = summary([0.1, 0.3])
    assert result.method is UncertaintyMethod.RANGE
    assert (result.unit_range.low, result.unit_range.high) == pytest.approx((0.1, 0.3))
    assert result.mean_interval is None
    assert result.p_value is None
    assert result.classification is Classification.UNCERTAIN


def test_figures_of_three_units_by_hand() -> None:
    """Mean 0.2, s 0.1: t(2) = 4.3027, so the mean is 0.2 ± 0.24841 and a new unit 0.2 ± 0.49683."""
    result = summary([0.1, 0.2, 0.3])
    assert result.mean_interval is not None
    assert result.prediction_interval is not None
    assert result.mean_interval.high == pytest.approx(0.2 + 4.302653 * 0.1 / math.sqrt(3), abs=1e-6)
    assert result.prediction_interval.low == pytest.approx(0.2 - 4.302653 * 0.1 * math.sqrt(4 / 3), abs=1e-6)
    assert (result.lower_quantile, result.upper_quantile) == pytest.approx((0.15, 0.25))


@pytest.mark.parametrize(
    ("deltas", "margin", "expected"),
    [
        ([0.1, 0.11, 0.12], 0.005, Classification.IMPROVES),
        ([-0.1, -0.11, -0.12], 0.005, Classification.HARMS),
        ([0.1, -0.11, 0.12], 0.005, Classification.UNCERTAIN),
        ([0.0, 0.0, 0.0], 0.0, Classification.NO_EFFECT),
        ([0.001, 0.0011, 0.0012], 0.005, Classification.NO_EFFECT),
        ([0.001, 0.0011, 0.0012], 0.0005, Classification.IMPROVES),
    ],
)
def test_classification(deltas: list[float], margin: float, expected: Classification) -> None:
    """An interval inside the margin is no effect even where it is clear of zero."""
    assert summary(deltas, margin=margin).classification is expected


def test_minimised_metric_turns_the_sign_of_improvement() -> None:
    """A fall is an improvement of a loss; the figures stay changed minus baseline."""
    result = summary([-0.1, -0.11, -0.12], Direction.MINIMIZE)
    assert result.mean < 0
    assert result.classification is Classification.IMPROVES
    assert (result.improved, result.worsened) == (3, 0)
    assert result.improves(result.mean)


def test_no_op_change_is_a_null_whatever_the_rounding() -> None:
    """Equal runs give p = 1; opposite seeds that cancel, and differences of rounding size, are ties."""
    result = summary([0.0] * 5)
    assert (result.p_value, result.p_method, result.signs.ties) == (1.0, TestMethod.ALL_ZERO, 5)
    cancelling = effect_units([PairedDelta("a", "a", i, 0.5, 0.5 + d) for i, d in enumerate((0.1, 0.2, -0.3))])
    assert cancelling[0].effect == 0.0
    assert PairedDelta("a", "a", 0, 0.3, 0.1 + 0.2).delta == 0.0


def test_vrm_w06_independent_support() -> None:
    """The same pair imported again adds no support; one pair with two results is refused."""
    once = pairs({"a": [0.1, 0.2], "b": [0.3], "c": [0.2]})
    assert effect_units(once + once[::-1]) == effect_units(once)
    with pytest.raises(InvalidRecordError, match="labels of their own"):
        effect_units([*once, dataclasses.replace(once[0], changed=0.9)])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_are_refused(bad: float) -> None:
    """A run without a finite metric is no pair, and a difference that overflows is none either."""
    with pytest.raises(InvalidRecordError):
        effect_units([PairedDelta("a", "a", 0, 0.5, bad)])
    with pytest.raises(InvalidRecordError):
        effect_units([PairedDelta("a", "a", 0, -1.7e308, 1.7e308)])


def test_misuse() -> None:
    """No units, a root twice, or a margin that is no margin are bugs of the caller."""
    units = effect_units(pairs({"a": [0.1]}))
    for wrong in ((), units + units):
        with pytest.raises(ValueError, match="one per root"):
            summarise_effect(wrong, Direction.MAXIMIZE, POLICY)
    with pytest.raises(ValueError, match="margin"):
        summarise_effect(units, Direction.MAXIMIZE, POLICY, math.nan)


deltas_by_root = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=4), min_size=1
)


@given(deltas_by_root, st.randoms(use_true_random=False))
def test_summary_is_a_function_of_the_set_of_pairs(by_root: dict[str, list[float]], random: object) -> None:
    """Order does not count, every float is finite, and the mean is the mean of root means."""
    given_pairs = pairs(by_root)
    result = summarise_effect(effect_units(given_pairs), Direction.MAXIMIZE, POLICY)
    random.shuffle(given_pairs)  # type: ignore[attr-defined]
    assert summarise_effect(effect_units(given_pairs), Direction.MAXIMIZE, POLICY) == result
    assert result.mean == pytest.approx(stdlib.fmean(stdlib.fmean(d) for d in by_root.values()), abs=1e-11)
    flat = [v for f in dataclasses.asdict(result).values() for v in (f.values() if isinstance(f, dict) else [f])]
    assert all(math.isfinite(value) for value in flat if isinstance(value, float))
    assert result.improved + result.worsened + result.signs.ties == result.n_units
