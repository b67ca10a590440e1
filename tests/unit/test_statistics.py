"""Statistics against published worked examples, printed tables and independent formulas."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from policies.statistics import (
    Bounds,
    Part,
    TestMethod,
    benjamini_hochberg,
    compare_arms,
    mean,
    mean_interval,
    one_sample_test,
    parts_differ,
    prediction_interval,
    quantile,
    sample_sd,
    sign_test,
)
from records.errors import InvalidRecordError

# Student (1908), extra hours of sleep, drug 2 minus drug 1. R's manual of t.test prints t = 4.0621, p = 0.002833 and
# the interval [0.7001142, 2.4598858] for these ten differences.
SLEEP = (1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4)
# The same hours of sleep, one group per drug. R's manual prints for t.test(extra ~ group): t = -1.8608, df = 17.776,
# p-value = 0.07939 and the interval [-3.3654832, 0.2054832].
DRUG_1 = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
DRUG_2 = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
# Darwin's maize in eighths of an inch, analysed by Fisher (1935), The Design of Experiments, chapter III: t = 2.148.
MAIZE = (49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0)
# Benjamini and Hochberg (1995), section 3.2: at q = 0.05 the first four are rejected.
BH_1995 = (
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
)  # fmt: skip

finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))
samples = st.lists(finite, min_size=3, max_size=30)


def test_students_sleep_data() -> None:
    """Mean, interval and p-value are those that the literature prints."""
    test = one_sample_test(SLEEP)
    interval = mean_interval(SLEEP, 0.95)
    assert mean(SLEEP) == pytest.approx(1.58)
    assert test.statistic == pytest.approx(4.0621, abs=5e-5)
    assert test.p_value == pytest.approx(0.002833, abs=5e-7)
    assert (interval.low, interval.high) == pytest.approx((0.7001142, 2.4598858), abs=5e-8)


def test_students_sleep_data_unpaired() -> None:
    """Welch's t without pairing finds less in the same numbers, as R prints it."""
    found = compare_arms(DRUG_1, DRUG_2, 0.95)
    assert found.test.method is TestMethod.WELCH
    assert found.test.statistic == pytest.approx(-1.8608, abs=5e-5)
    assert found.test.p_value == pytest.approx(0.07939, abs=5e-6)
    assert (found.interval.low, found.interval.high) == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)
    assert found.part.freedom == pytest.approx(17.776, abs=5e-4)


@given(samples, samples, st.sampled_from([0.8, 0.95, 0.99]))
def test_arms_against_scipy(changed: list[float], baseline: list[float], confidence: float) -> None:
    """Interval and p-value are scipy's wherever both arms vary."""
    spread = min(max(arm) - min(arm) for arm in (changed, baseline))
    assume(spread > 1e-6 * max(map(abs, (*changed, *baseline))))
    found = compare_arms(changed, baseline, confidence)
    scipys = stats.ttest_ind(changed, baseline, equal_var=False)
    interval = scipys.confidence_interval(confidence)
    scale = max(map(abs, (*changed, *baseline)))
    assert found.test.p_value == pytest.approx(float(scipys.pvalue), rel=1e-6, abs=1e-9)
    assert found.interval.low == pytest.approx(float(interval.low), abs=1e-8 * scale)
    assert found.interval.high == pytest.approx(float(interval.high), abs=1e-8 * scale)
    assert found.prediction.low <= found.interval.low + 1e-9 * scale


@given(samples, finite)
def test_beside_an_arm_without_variance_a_new_run_is_predicted_as_from_one_sample(
    changed: list[float], constant: float
) -> None:
    """With a constant baseline Welch's test is the one-sample test of the differences, and so are both intervals."""
    assume(max(changed) - min(changed) > 1e-6 * max(map(abs, (*changed, constant))))
    found = compare_arms(changed, [constant] * 4, 0.95)
    differences = [value - constant for value in changed]
    scale = max(map(abs, (*changed, constant)))
    for one, other in (
        (found.interval, mean_interval(differences, 0.95)),
        (found.prediction, prediction_interval(differences, 0.95)),
    ):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-8 * scale)


def test_arms_without_any_variance_say_what_so_few_runs_can_say() -> None:
    """Five runs against five, each arm one value: the sign test of five, and p = 1 where the values are the same."""
    apart = compare_arms([0.6] * 5, [0.5] * 5, 0.95)
    assert apart.test.method is TestMethod.IDENTICAL_SIGN
    assert apart.test.p_value == pytest.approx(2 / 2**5)
    same = compare_arms([0.3] * 5, [0.1 + 0.2] * 5, 0.95)
    assert (same.test.method, same.test.p_value) == (TestMethod.ALL_ZERO, 1.0)
    with pytest.raises(ValueError, match="are needed"):
        compare_arms([1.0, 2.0], [1.0, 2.0, 3.0], 0.95)


def _part(values: Sequence[float]) -> Part:
    return Part(mean(values), sample_sd(values) ** 2 / len(values), len(values) - 1)


def test_parts_of_the_insect_sprays() -> None:
    """Beall (1942), as R ships it; its manual of oneway.test prints F = 36.065, df 5 and 30.043, p = 7.999e-12."""
    sprays = (
        (10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13),
        (11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13),
        (0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4),
        (3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4),
        (3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4),
        (11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13),
    )
    assert parts_differ([_part(spray) for spray in sprays]) == pytest.approx(7.999e-12, rel=1e-3)


@given(st.lists(st.lists(st.integers(-50, 50).map(float), min_size=3, max_size=8), min_size=2, max_size=5))
def test_parts_against_scipy(groups: list[list[float]]) -> None:
    assume(all(max(group) > min(group) for group in groups))
    expected = stats.f_oneway(*groups, equal_var=False).pvalue
    assert parts_differ([_part(group) for group in groups]) == pytest.approx(float(expected), rel=1e-6, abs=1e-12)


def test_parts_without_variance() -> None:
    """Two values that never vary differ, one value does not, and nothing but zeros is one part."""
    assert parts_differ([Part(0.1, 0.0, 2), Part(-0.1, 0.0, 2)]) < 1e-6
    assert parts_differ([Part(0.1, 0.0, 2), Part(0.1, 0.0, 2)]) == 1.0
    assert parts_differ([Part(0.0, 0.0, 2), Part(0.0, 0.0, 2)]) == 1.0


def test_darwins_maize_data() -> None:
    """Fisher's t for Darwin's plants, and the sign test by counting: 13 of 15 up."""
    signs = sign_test(MAIZE)
    assert one_sample_test(MAIZE).statistic == pytest.approx(2.148, abs=5e-4)
    assert (signs.up, signs.down, signs.ties) == (13, 2, 0)
    assert signs.p_value == pytest.approx(float(Fraction(2 * (1 + 15 + 105), 2**15)))


@pytest.mark.parametrize(("n", "table"), [(3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262), (30, 2.045)])
def test_intervals_use_students_quantiles(n: int, table: float) -> None:
    """Half widths are the tabled t(0.975, n-1) times s·√(1/n) and s·√(1+1/n)."""
    values = [float(i * i) for i in range(n)]
    s = math.sqrt(sum((v - sum(values) / n) ** 2 for v in values) / (n - 1))
    inner, outer = mean_interval(values, 0.95), prediction_interval(values, 0.95)
    assert (inner.high - inner.low) / 2 == pytest.approx(table * s * math.sqrt(1 / n), rel=3e-4)
    assert (outer.high - outer.low) / 2 == pytest.approx(table * s * math.sqrt(1 + 1 / n), rel=3e-4)


def test_quantile_is_definition_7() -> None:
    """R's default quantile: the lower quartile of 1, 2, 3, 4 is 1.75."""
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.25) == 1.75
    assert quantile([5.0], 0.25) == 5.0


def test_identical_values_have_no_t_test() -> None:
    """Zeros are the null itself; equal values get what the sign test can say, rounding noise or not."""
    assert one_sample_test([0.0] * 4).p_value == 1.0
    assert one_sample_test([0.0] * 4).method is TestMethod.ALL_ZERO
    noisy = [0.7 - 0.6, 0.8 - 0.7, 0.9 - 0.8, 0.4 - 0.3, 0.3 - 0.2]
    assert len(set(noisy)) > 1
    test = one_sample_test(noisy)
    assert (test.method, test.statistic) == (TestMethod.IDENTICAL_SIGN, None)
    assert test.p_value == pytest.approx(2 / 2**5)


def test_sign_test_drops_ties() -> None:
    """Ties are reported and count for neither side; only ties leave nothing to test."""
    signs = sign_test([0.1, 0.0, 0.2, -0.3, 0.0, 0.4, 0.5])
    assert (signs.up, signs.down, signs.ties) == (4, 1, 2)
    assert signs.p_value == pytest.approx(2 * (1 + 5) / 2**5)
    assert sign_test([0.0, 0.0]).p_value == 1.0


def test_benjamini_hochberg_1995_example() -> None:
    """Their worked example: four of fifteen at q = 0.05; Bonferroni would keep three."""
    adjusted = benjamini_hochberg(BH_1995)
    assert [p <= 0.05 for p in adjusted] == [True] * 4 + [False] * 11
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    assert benjamini_hochberg(()) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_benjamini_hochberg_follows_its_definition(p_values: list[float], random: object) -> None:
    """Adjusted value of rank i is the least p(j)·m/j over j >= i; the order of the family does not count."""
    m = len(p_values)
    ranked = sorted(p_values)
    expected = {p: min(1.0, *(ranked[j] * m / (j + 1) for j in range(ranked.index(p), m))) for p in ranked}
    assert benjamini_hochberg(p_values) == pytest.approx([expected[p] for p in p_values])
    random.shuffle(p_values)  # type: ignore[attr-defined]
    assert benjamini_hochberg(p_values) == pytest.approx([expected[p] for p in p_values])


@given(samples)
def test_mean_and_sd_agree_with_exact_fractions(values: list[float]) -> None:
    """Both by their definitions, in exact rationals."""
    exact = [Fraction(value) for value in values]
    centre = sum(exact) / len(exact)
    variance = sum((value - centre) ** 2 for value in exact) / (len(exact) - 1)
    assert mean(values) == pytest.approx(float(centre), rel=1e-12, abs=1e-12)
    assert sample_sd(values) ** 2 == pytest.approx(float(variance), rel=1e-12)


@given(samples, st.randoms(use_true_random=False))
def test_results_do_not_depend_on_order_and_mirror_exactly(values: list[float], random: object) -> None:
    """A permutation changes nothing; swapping baseline and change mirrors every figure."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mean(shuffled) == mean(values)
    assert one_sample_test(shuffled).p_value == pytest.approx(one_sample_test(values).p_value, rel=1e-9)
    mirrored = [-value for value in values]
    assert one_sample_test(mirrored).p_value == one_sample_test(values).p_value
    interval, mirror = mean_interval(values, 0.9), mean_interval(mirrored, 0.9)
    assert (mirror.low, mirror.high) == (-interval.high, -interval.low)


@given(samples)
def test_p_value_agrees_with_scipys_own_test(values: list[float]) -> None:
    """Where there is variance, the p-value is that of scipy.stats.ttest_1samp."""
    test = one_sample_test(values)
    if test.method is TestMethod.T and sample_sd(values) > 1e-6 * max(abs(v) for v in values):
        assert test.p_value == pytest.approx(float(stats.ttest_1samp(values, 0).pvalue), rel=1e-6, abs=1e-300)


@given(samples)
def test_prediction_interval_holds_the_interval_of_the_mean(values: list[float]) -> None:
    """One new unit is never surer than the mean of many."""
    inner, outer = mean_interval(values, 0.95), prediction_interval(values, 0.95)
    assert outer.low <= inner.low <= inner.high <= outer.high


def test_tiny_and_huge_values_stay_finite() -> None:
    """Squares of tiny offsets do not vanish; what would overflow is refused."""
    assert sample_sd([1e-200, 2e-200, 3e-200]) == pytest.approx(1e-200, rel=1e-12, abs=0)
    assert one_sample_test([1e-200, 2e-200, 4e-200]).p_value == pytest.approx(one_sample_test([1, 2, 4]).p_value)
    for bad in (math.nan, math.inf, 1e200):
        with pytest.raises(InvalidRecordError):
            mean([bad, 1.0])


def test_too_few_values_are_a_bug_of_the_caller() -> None:
    """No t interval and no t test below three values; a p-value outside [0, 1] is refused."""
    for call in (lambda: mean_interval([1.0, 2.0], 0.95), lambda: one_sample_test([1.0, 2.0]), lambda: mean([])):
        with pytest.raises(ValueError, match="are needed"):
            call()
    with pytest.raises(ValueError, match="confidence"):
        prediction_interval([1.0, 2.0, 3.0], 1.0)
    with pytest.raises(InvalidRecordError):
        benjamini_hochberg([0.1, math.nan])


def test_bounds() -> None:
    """An end on zero is not clear of zero; an end on the margin is inside it."""
    assert not Bounds(0.0, 1.0).clear_of_zero
    assert Bounds(-2.0, -1.0).clear_of_zero
    assert Bounds(-0.1, 0.1).inside(0.1)
    assert not Bounds(-0.2, 0.1).inside(0.1)


def test_an_owner_starts_without_scipy() -> None:
    code = "import sys, actors.owners; print('policies.statistics' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
