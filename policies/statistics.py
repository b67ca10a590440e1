"""Small-sample statistics over effect units: what the distillation rules calculate with.

Rules kept here:

- values are finite numbers of moderate size, in the unit of the metric; the order they come in changes no result
  (sums are exact);
- no test pretends to know what the data cannot tell: below three values there is no t interval and no t test, and
  identical values have no variance to test against, which is reported by the method's name;
- two arms that are not paired are compared without assuming that they vary alike (Welch);
- distributions come from scipy, never from tables of our own; it is loaded when one is first asked for, since an owner
  that calculates nothing starts in half the time without it.

Not handled here: what a unit is (policies/effects.py) and what passes (policies/gate.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import stdev as stdlib_stdev
from typing import Any, Final

import numpy as np

from records.errors import InvalidRecordError

MIN_T_VALUES: Final = 3
_LARGEST: Final = 1e150  # squares of anything larger overflow
_SAME: Final = 1e-9  # values that differ by less than this share of their size are one value with rounding noise


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed interval of numbers, in the unit of the values it was computed from."""

    low: float
    high: float

    @property
    def clear_of_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    def inside(self, margin: float) -> bool:
        """Tell whether the whole interval lies in [-margin, +margin]."""
        return -margin <= self.low and self.high <= margin


class TestMethod(StrEnum):
    """Where the p-value of `one_sample_test` comes from."""

    __test__ = False  # not a pytest class

    T = "t"
    ALL_ZERO = "all_zero"
    IDENTICAL_SIGN = "identical_sign_test"
    WELCH = "welch_t"


@dataclass(frozen=True, slots=True)
class LocationTest:
    """A two-sided test of "the mean is zero"; `statistic` is Student's t, None where there is no variance."""

    p_value: float
    statistic: float | None
    method: TestMethod


@dataclass(frozen=True, slots=True)
class Part:
    """One mean and how sure it is, as a test between parts of the evidence sees it.

    Attributes:
        mean: in the unit of the values.
        variance: of the mean, in that unit squared.
        freedom: degrees of freedom of the variance.
    """

    mean: float
    variance: float
    freedom: float


@dataclass(frozen=True, slots=True)
class ArmsTest:
    """Two unpaired arms compared: changed minus baseline, in the unit of the values.

    Attributes:
        test: two-sided test of "the arms have one mean".
        interval: confidence interval of the difference of the means.
        prediction: interval for one new changed run minus the mean of the baseline.
        part: the difference of the means with its variance.
    """

    test: LocationTest
    interval: Bounds
    prediction: Bounds
    part: Part


@dataclass(frozen=True, slots=True)
class SignTest:
    """Counts of signs with the two-sided exact binomial p-value over the values that are not ties."""

    up: int
    down: int
    ties: int
    p_value: float


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of one or more values."""
    return math.fsum(_checked(values, 1)) / len(values)


def sample_sd(values: Sequence[float]) -> float:
    """Return the sample standard deviation (divisor n - 1) of two or more values."""
    # In exact rationals: equal values have no spread at all, and the squares of tiny offsets do not underflow.
    return stdlib_stdev(_checked(values, 2))


def quantile(values: Sequence[float], level: float) -> float:
    """Return a quantile by linear interpolation of the order statistics (Hyndman and Fan 1996, definition 7)."""
    return float(np.quantile(np.array(_checked(values, 1), dtype=np.float64), level, method="linear"))


def mean_interval(values: Sequence[float], confidence: float) -> Bounds:
    """Return the t interval of the mean: mean ± t(n-1) · s / √n, for three or more values.

    It covers the mean of many units like these, not the next unit; `prediction_interval` covers that.
    """
    return _t_bounds(values, confidence, 1 / len(values) if values else 0)


def prediction_interval(values: Sequence[float], confidence: float) -> Bounds:
    """Return the interval for ONE new unit: mean ± t(n-1) · s · √(1 + 1/n), for three or more values.

    Source: the classical normal-theory prediction interval (Hahn and Meeker, Statistical Intervals, section 4.7).
    """
    return _t_bounds(values, confidence, 1 + 1 / len(values) if values else 0)


def one_sample_test(values: Sequence[float]) -> LocationTest:
    """Test "the mean is zero", two-sided, over three or more values.

    Values that are all zero are the purest null: p = 1. Values that are all the same but not zero have no variance, so
    that Student's t would be infinite on the strength of a rounding; the sign test says what so few values can say.
    """
    checked = _checked(values, MIN_T_VALUES)
    if not any(checked):
        return LocationTest(1.0, None, TestMethod.ALL_ZERO)
    if _identical(checked):
        return LocationTest(sign_test(checked).p_value, None, TestMethod.IDENTICAL_SIGN)
    statistic = mean(checked) / sample_sd(checked) * math.sqrt(len(checked))
    p_value = float(2 * _scipy().t.sf(abs(statistic), len(checked) - 1))
    return LocationTest(min(p_value, 1.0), statistic, TestMethod.T)


def compare_arms(changed: Sequence[float], baseline: Sequence[float], confidence: float) -> ArmsTest:
    """Compare two unpaired arms of three or more values each by Welch's t (Welch 1947, variances unequal).

    The prediction interval adds the variance of one run. It has the Welch-Satterthwaite degrees of freedom of that sum,
    or those of the test if they are fewer, so that it is never the narrower of the two. Two arms without any variance
    are treated as `one_sample_test` treats identical values.
    """
    arms = _checked(changed, MIN_T_VALUES), _checked(baseline, MIN_T_VALUES)
    difference = mean(arms[0]) - mean(arms[1])
    if _identical(arms[0]) and _identical(arms[1]):
        same = abs(difference) <= _SAME * max(map(abs, (*arms[0], *arms[1])))
        point = Bounds(difference, difference)
        one_sample = one_sample_test([0.0 if same else difference] * len(changed))
        return ArmsTest(one_sample, point, point, Part(difference, 0.0, len(changed) + len(baseline) - 2))
    # Shifted to the quieter arm, which may have no variance at all, and scaled by the other: squares stay in range.
    sds = [sample_sd(arm) for arm in arms]
    centre, unit = mean(min(arms, key=sample_sd)), max(sds)
    found = _scipy().ttest_ind(*([(value - centre) / unit for value in arm] for arm in arms), equal_var=False)
    interval = found.confidence_interval(confidence)
    (first, second), (n_first, n_second) = ((sd / unit) ** 2 for sd in sds), map(len, arms)
    parts = ((first * (1 + 1 / n_first), n_first - 1), (second / n_second, n_second - 1))
    variance = sum(part for part, _ in parts)
    freedom = min(variance**2 / sum(part**2 / free for part, free in parts), float(found.df))
    half = float(_scipy().t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(variance) * unit
    return ArmsTest(
        LocationTest(min(float(found.pvalue), 1.0), float(found.statistic), TestMethod.WELCH),
        Bounds(float(interval.low) * unit, float(interval.high) * unit),
        Bounds(difference - half, difference + half),
        Part(difference, (first / n_first + second / n_second) * unit**2, float(found.df)),
    )


def parts_differ(parts: Sequence[Part]) -> float:
    """Return the p-value of "all parts have one mean", variances unequal, for two or more parts (Welch 1951).

    A part without variance counts as one that varies by rounding noise alone.
    """
    noise = (_SAME * max(abs(part.mean) for part in parts)) ** 2
    weights = [1 / (part.variance + noise) if part.variance + noise else 0.0 for part in parts]
    total = math.fsum(weights)
    if not total:
        return 1.0  # every part is exactly zero
    k = len(parts)
    centre = math.fsum(weight * part.mean for weight, part in zip(weights, parts, strict=True)) / total
    between = math.fsum(w * (part.mean - centre) ** 2 for w, part in zip(weights, parts, strict=True)) / (k - 1)
    loss = math.fsum((1 - w / total) ** 2 / part.freedom for w, part in zip(weights, parts, strict=True)) / (k * k - 1)
    return float(_scipy().f.sf(between / (1 + 2 * (k - 2) * loss), k - 1, 1 / (3 * loss)))


def sign_test(values: Sequence[float]) -> SignTest:
    """Count the signs and test them against a fair coin; zeros are ties, dropped from the test and reported."""
    checked = _checked(values, 1)
    up = sum(value > 0 for value in checked)
    down = sum(value < 0 for value in checked)
    p_value = float(_scipy().binomtest(up, up + down).pvalue) if up + down else 1.0
    return SignTest(up, down, len(checked) - up - down, min(p_value, 1.0))


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family, in the order given (Benjamini and Hochberg 1995).

    Rejecting what is adjusted to at most q keeps the expected share of false rejections at q, for independent or
    positively dependent tests.

    Raises:
        InvalidRecordError: a p-value is outside [0, 1].
    """
    for p_value in p_values:
        if not 0 <= p_value <= 1:
            raise InvalidRecordError("p_value", p_value, "A p-value lies in [0, 1].")
    if not p_values:
        return ()
    return tuple(float(value) for value in _scipy().false_discovery_control(list(p_values), method="bh"))


def _identical(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _SAME * max(abs(value) for value in values)


@cache
def _scipy() -> Any:
    from scipy import stats  # noqa: PLC0415  # see the module

    return stats


def _t_bounds(values: Sequence[float], confidence: float, variance_factor: float) -> Bounds:
    checked = _checked(values, MIN_T_VALUES)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not inside (0, 1)")
    reach = float(_scipy().t.ppf((1 + confidence) / 2, len(checked) - 1))
    half = reach * sample_sd(checked) * math.sqrt(variance_factor)
    return Bounds(mean(checked) - half, mean(checked) + half)


def _checked(values: Sequence[float], minimum: int) -> list[float]:
    if len(values) < minimum:
        raise ValueError(f"{len(values)} values where at least {minimum} are needed")
    for value in values:
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise InvalidRecordError("value", value, "Give finite numbers below 1e150 in size.")
    return list(values)
