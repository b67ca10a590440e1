"""Sample sizes against published figures and against power that is integrated independently."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from policies.sample_size import MANY, POWER, Settled, units_to_settle, units_to_show


@pytest.mark.parametrize(
    ("effect", "alpha", "units"),
    # One-sample, two-sided, 80 % power: G*Power 3.1 and R's pwr.t.test give 198.15, 33.37, 14.30 and 9.94 at d = 0.2,
    # 0.5, 0.8 and 1; and 51.0 at alpha 0.01 and d = 0.5.
    [(0.2, 0.05, 199), (0.5, 0.05, 34), (0.8, 0.05, 15), (1.0, 0.05, 10), (0.5, 0.01, 51)],
)
def test_published_sample_sizes(effect: float, alpha: float, units: int) -> None:
    assert units_to_show(effect, 1.0, alpha) == units
    assert units_to_show(-effect * 7, 7.0, alpha) == units  # neither sign nor scale counts


def test_the_power_of_an_effect_integrated_over_the_spread() -> None:
    """An effect of 0.02 with a spread of 0.02582: the chance of an interval clear of zero, from 15 to 16 units."""
    mean, sd = 0.02, 0.025819889
    assert units_to_show(mean, sd, 0.05) == 16
    power = [1 - inside(units, mean, sd, lambda reach, spread: reach * spread) for units in (15, 16)]
    assert power[0] < POWER <= power[1]


def inside(units: int, mean: float, sd: float, room: Callable[[float, float], float]) -> float:
    """Return the chance that a mean lies within `room` of zero, integrated over the sample's standard deviation.

    Args:
        units: how many there are.
        mean: the true mean.
        sd: the true standard deviation.
        room: given the reach of t and the standard error of a sample, how far from zero its mean may lie.
    """
    reach, df, error = float(stats.t.ppf(0.975, units - 1)), units - 1, sd / math.sqrt(units)

    def given_variance(q: float) -> float:
        free = room(reach, error * math.sqrt(q / df))
        return (
            float(stats.norm.cdf((free - mean) / error) - stats.norm.cdf((-free - mean) / error)) if free > 0 else 0.0
        )

    last = float(stats.chi2.ppf(1 - 1e-12, df))
    return float(integrate.quad(lambda q: given_variance(q) * stats.chi2.pdf(q, df), 0, last, limit=400)[0])


@pytest.mark.parametrize(("mean", "sd", "margin"), [(0.001, 0.01, 0.005), (0.0, 0.01, 0.005), (0.002, 0.02, 0.01)])
def test_no_effect_is_settled_where_the_exact_power_says_so(mean: float, sd: float, margin: float) -> None:
    found = units_to_settle(mean, sd, margin, 0.05)
    assert found is not None
    assert found.outcome is Settled.NO_EFFECT
    power = [inside(n, mean, sd, lambda reach, spread: margin - reach * spread) for n in (found.units, found.units - 2)]
    assert power[0] >= POWER - 0.005
    assert power[1] < POWER


def test_an_effect_larger_than_the_margin_can_only_turn_out_as_an_effect() -> None:
    assert units_to_settle(0.5, 1.0, 0.1, 0.05) == (34, Settled.EFFECT)


def test_what_is_out_of_reach_has_no_number() -> None:
    assert units_to_show(0.0, 1.0, 0.05) is None
    assert units_to_show(1e-6, 1.0, 0.05) is None
    assert units_to_settle(0.0, 1.0, 0.0, 0.05) is None


def test_without_spread_the_smallest_number_will_do() -> None:
    assert units_to_show(0.1, 0.0, 0.05) == 3
    assert units_to_settle(0.0, 0.0, 0.01, 0.05) == (3, Settled.NO_EFFECT)


@given(st.floats(0.05, 5), st.floats(0.05, 5), st.floats(1.01, 3), st.sampled_from([0.05, 0.01, 0.002]))
def test_more_spread_never_needs_fewer_units(mean: float, sd: float, factor: float, alpha: float) -> None:
    less, more = (units_to_show(mean, spread, alpha) or MANY + 1 for spread in (sd, sd * factor))
    assert 3 <= less <= more


@pytest.mark.parametrize(
    ("sd", "margin", "alpha"), [(-1.0, 0.0, 0.05), (1.0, -0.1, 0.05), (1.0, 0.0, 0.0), (1.0, 0.0, 1.0)]
)
def test_misuse_is_refused(sd: float, margin: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="from zero on"):
        units_to_settle(0.1, sd, margin, alpha)
