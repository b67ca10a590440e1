"""How many more units would settle an open effect: a rough estimate for people, on which nothing is decided.

Rules kept here:

- the question is that of the interval of the mean: how many units until it would lie clear of zero, or inside the
  equivalence margin, with a probability of 80 %, if mean and spread stayed as they were seen;
- mean and spread of a few units are themselves uncertain, so the figure is an order of magnitude and is called one;
- the power of a one-sample t test is a tail of the noncentral t distribution (Cohen, Statistical Power Analysis for the
  Behavioral Sciences, 2nd ed. 1988, chapter 2); that of two one-sided tests is the approximation by noncentral t
  (Phillips, J. Pharmacokin. Biopharm. 18, 1990). Distributions come from scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from policies.statistics import MIN_T_VALUES

POWER: Final = 0.8
MANY: Final = 10_000
"""From here on the answer is only that there would have to be very many."""

SOURCE: Final = "noncentral t at 80 % power, Cohen 1988"


class Settled(StrEnum):
    """What an open effect would turn out to be."""

    EFFECT = "an effect"
    NO_EFFECT = "no effect that matters"


class Settling(NamedTuple):
    """How many units would settle an effect altogether, and as what."""

    units: int
    outcome: Settled


def units_to_settle(mean: float, sd: float, margin: float, alpha: float) -> Settling | None:
    """Return the smaller number of units, at least three, that would show an effect or show that it is none.

    Args:
        mean: the mean effect as seen, in the metric's unit.
        sd: the sample standard deviation of units, in the same unit.
        margin: the equivalence margin, in the same unit.
        alpha: one minus the coverage of the interval, or the level at which the effect is tested.

    Returns:
        None where neither is within reach: the effect is as large as the margin, or ever so many would be needed.

    Raises:
        ValueError: sd or margin is negative, or alpha is no share.
    """
    if not (sd >= 0 and margin >= 0 and 0 < alpha < 1):
        raise ValueError(f"sd {sd} and margin {margin} are from zero on, alpha {alpha} is inside (0, 1)")
    found = [
        Settling(units, outcome)
        for outcome, power in ((Settled.EFFECT, _t_power), (Settled.NO_EFFECT, _tost_power))
        if (units := _smallest(partial(power, (mean, sd, margin), alpha))) is not None
    ]
    return min(found, default=None)


def units_to_show(mean: float, sd: float, alpha: float) -> int | None:
    """Return how many units would show an effect at a level, or None where ever so many would be needed.

    Raises:
        ValueError: sd is negative, or alpha is no share.
    """
    if not (sd >= 0 and 0 < alpha < 1):
        raise ValueError(f"sd {sd} is from zero on, alpha {alpha} is inside (0, 1)")
    return _smallest(partial(_t_power, (mean, sd, 0.0), alpha))


_Seen = tuple[float, float, float]


def _t_power(seen: _Seen, alpha: float, units: int) -> float:
    """Return the power of the two-sided one-sample t test."""
    mean, sd, _ = seen
    if sd == 0:
        return float(mean != 0)
    shift = abs(mean) / sd * math.sqrt(units)
    reach = _reach(units, alpha)
    return _share(_stats().nct.sf(reach, units - 1, shift)) + _share(_stats().nct.cdf(-reach, units - 1, shift))


def _tost_power(seen: _Seen, alpha: float, units: int) -> float:
    """Return the chance that the whole interval of the mean falls inside the margin."""
    mean, sd, margin = seen
    if abs(mean) >= margin:
        return 0.0
    if sd == 0:
        return 1.0
    scale, reach = math.sqrt(units) / sd, _reach(units, alpha)
    below = _share(_stats().nct.cdf(-reach, units - 1, (mean - margin) * scale))
    above = _share(_stats().nct.cdf(reach, units - 1, (mean + margin) * scale))
    return max(0.0, below - above)


def _reach(units: int, alpha: float) -> float:
    return float(_stats().t.ppf(1 - alpha / 2, units - 1))


def _share(value: float) -> float:
    # Far out in the tail scipy has no figure; what is asked there is always the small side.
    return 0.0 if np.isnan(value) else float(value)


def _smallest(power: Callable[[int], float]) -> int | None:
    """Return the smallest number of units with enough power, which grows with their number."""
    high = MIN_T_VALUES
    while power(high) < POWER:
        if high >= MANY:
            return None
        high = min(2 * high, MANY)
    low = MIN_T_VALUES
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle + 1, high)
    return low


def _stats() -> Any:
    from scipy import stats  # noqa: PLC0415  # as in policies.statistics

    return stats
