"""The one rule that orders hits.

Rules kept here: a score is an integer count of `SCORE_UNIT`; hits are ordered by score, highest first, then by row,
lowest first. Rows of an index are in id order, so equal scores are ordered by id. Nothing in a ranking depends on the
order in which rows were given, on threads or on batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

SCORE_UNIT: Final = 2**-20
"""What one step of an integer score is worth: of a BM25 score, or of a cosine."""

SCORE_BITS: Final = 20

Rows = NDArray[np.int64]

_SAMPLED: Final = 32
"""Of so many scores one is sampled."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One found document.

    Attributes:
        row: its row in the index.
        id: its document id.
        score: its score in steps of `SCORE_UNIT`.
    """

    row: int
    id: str
    score: int


def select_rows(rows: Sequence[int] | Rows, size: int) -> Rows:
    """Return `rows` sorted and without repeats, shape (k,).

    Raises:
        ValueError: a row is not an integer in 0 .. size - 1, or `rows` is not one-dimensional.
    """
    given = np.asarray(rows)
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"rows must be a list of integers, not {given.dtype} of shape {given.shape}")
    ascending = bool((given[1:] > given[:-1]).all())  # the usual case needs no sort
    chosen = (given if ascending else np.unique(given)).astype(np.int64)
    if chosen[0] < 0 or chosen[-1] >= size:
        raise ValueError(f"rows must lie in 0 .. {size - 1}: {chosen[0]} .. {chosen[-1]}")
    return chosen


def best(scores: NDArray[np.int64], rows: Rows, limit: int) -> NDArray[np.intp]:
    """Return the positions of the `limit` best entries, best first.

    Args:
        scores: integer scores, shape (k,).
        rows: the row of each score, ascending, shape (k,).
        limit: at most so many.

    Raises:
        ValueError: `limit` is negative.
    """
    if limit < 0:
        raise ValueError(f"limit must not be negative: {limit}")
    kept = contenders(scores, limit)
    return kept[np.lexsort((rows[kept], -scores[kept]))][:limit]


def contenders(scores: NDArray[np.int64], limit: int) -> NDArray[np.intp]:
    """Return the positions, ascending, of all that reach the `limit` best; ties at the border stay, so the id decides.

    With a limit of 0, or above the number of scores, that is every position.
    """
    if not 0 < limit < scores.size:
        return np.arange(scores.size)
    return np.flatnonzero(scores >= least_of_best(scores, limit))


def least_of_best(scores: NDArray[np.int64], limit: int) -> int:
    """Return the least of the `limit` highest scores; `limit` is at least 1 and at most the number of scores.

    That of a sample is a lower bound for that of all, so only what reaches it needs to be put in order.
    """
    sample = scores[::_SAMPLED]
    if sample.size >= limit:
        scores = scores[scores >= _least(sample, limit)]
    return _least(scores, limit)


def _least(scores: NDArray[np.int64], limit: int) -> int:
    return int(np.partition(scores, scores.size - limit)[scores.size - limit])
