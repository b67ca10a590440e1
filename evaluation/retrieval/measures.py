"""Figures over one ranked list, and over many (reference 1.3).

Rules kept here:

- gain is 2^grade - 1, the discount log2(rank + 1), the ideal order that of all that is relevant; nothing returned is 0.
  With grades of 0 and 1 this is the nDCG of the published tables;
- an interval is Wilson's for shares of yes and no, and a percentile bootstrap over queries for means, whose stream of
  random numbers is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from scipy.stats import binomtest

LEVEL: Final = 0.95
DIGITS: Final = 6
_REPETITIONS: Final = 10_000
_SEED: Final = 20_260_301


def ndcg(found: Sequence[str], grades: Mapping[str, int], depth: int, best: Iterable[int] | None = None) -> float:
    """Return the nDCG of a ranked list at a depth, in 0 .. 1; 0 where nothing is relevant.

    Args:
        found: ids, best first.
        grades: the grade of each relevant id.
        depth: how many of the list count.
        best: the grades of the best list that may be, where not every list may; else those of all that is relevant.
    """
    ideal = _gained(sorted(grades.values() if best is None else best, reverse=True)[:depth])
    return _gained([grades.get(each, 0) for each in found[:depth]]) / ideal if ideal else 0.0


def recall(found: Iterable[str], relevant: Iterable[str], depth: int, most: int | None = None) -> float:
    """Return how much of what is relevant is in the first `depth`, of `most` or of all, and of `depth` at most."""
    wanted = set(relevant)
    met = wanted & set(islice(found, depth))
    return len(met) / min(len(wanted) if most is None else most, depth) if wanted else 0.0


def precision(found: Sequence[str], relevant: Iterable[str]) -> float:
    """Return which share of what was returned is relevant; nothing returned is 0."""
    return len(set(found) & set(relevant)) / len(found) if found else 0.0


def mean_of(values: Sequence[float]) -> dict[str, Any]:
    """Return a mean over queries with its bootstrap interval and the number of queries."""
    if not values:
        return {"value": None, "low": None, "high": None, "denominator": 0}
    held = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(_SEED).integers(held.size, size=(_REPETITIONS, held.size))
    low, high = np.quantile(held[drawn].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return {
        "value": round(float(held.mean()), DIGITS),
        "low": round(float(low), DIGITS),
        "high": round(float(high), DIGITS),
        "denominator": int(held.size),
    }


def share_of(hits: int, of: int) -> dict[str, Any]:
    """Return a share with its Wilson interval, numerator and denominator."""
    if not of:
        return {"value": None, "low": None, "high": None, "numerator": 0, "denominator": 0}
    interval = binomtest(hits, of).proportion_ci(confidence_level=LEVEL, method="wilson")
    return {
        "value": round(hits / of, DIGITS),
        "low": round(float(interval.low), DIGITS),
        "high": round(float(interval.high), DIGITS),
        "numerator": hits,
        "denominator": of,
    }


def _gained(grades: Iterable[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
