"""Exact semantic scores: int8 codes of unit vectors and an integer dot between them (docs/adr/0040).

Rules kept here:

- a vector x becomes codes `rint(127 * x / m)` with `m = max |x_i|`, and the multiplier `rint(2^27 * m / 127)`; all of
  it in float64 with IEEE operations that round correctly everywhere, so equal vectors have equal codes on any machine;
- the score of a pair is `(codes_a . codes_b) * multiplier_a * multiplier_b >> 34`: an integer, in steps of 2^-20 of
  their cosine; it does not depend on the order of summation, on threads, on batches or on the kernel;
- for unit vectors the true cosine lies within `e_a + e_b + e_a e_b` of it, where `e <= sqrt(d) * m / 254` is the length
  of the rounding error of one vector, plus one step and the rounding of the multipliers (2^-13 relative, d <= 4096);
- a search reads the codes once, in blocks whose scores stay in the processor's cache, and keeps of each block what can
  still be among the best. `VRM_SEARCH_THREADS` says how many threads share a block: 1 for the lowest latency beside
  other work, more for a large index on an idle machine. It changes no score.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory.index.ranking import SCORE_BITS, Rows, contenders
from records.errors import InvalidInputError

_SIMD: Final[bool] = importlib.util.find_spec("simsimd") is not None  # without it numpy gives the same integers

Codes = NDArray[np.int8]
Multipliers = NDArray[np.int32]

LEVELS: Final = 127
MULTIPLIER_BITS: Final = 27
_SHIFT: Final = 2 * MULTIPLIER_BITS - SCORE_BITS
_NORM_SLACK: Final = 1e-3
_EXACT_IN_FLOAT32: Final = 2**24 // LEVELS**2  # dimensions up to which every partial sum is an exact float32
_BLOCK: Final = 4096
_SCAN: Final = 32_768
"""Rows of a block of a search: their scores take a quarter of a megabyte."""
_DENSE: Final = 3
"""Where at least one row in so many was chosen, reading all of them is quicker than picking some."""
THREADS: Final = max(1, int(os.environ.get("VRM_SEARCH_THREADS") or 1))


class Quantised(NamedTuple):
    """Codes, int8 of shape (n, d), and their multipliers, int32 of shape (n,)."""

    codes: Codes
    multipliers: Multipliers


def quantise(vectors: NDArray[np.float32]) -> Quantised:
    """Return the codes of unit vectors, shape (n, d).

    Raises:
        InvalidInputError: a vector is not finite or not of unit norm (to 1e-3).
    """
    exact = np.asarray(vectors, dtype=np.float64)
    if exact.ndim != 2 or exact.shape[1] == 0:  # noqa: PLR2004  # a matrix
        raise InvalidInputError("vectors", f"shape {exact.shape}", "Give a matrix of n rows and d > 0 columns.")
    norms = np.sqrt(np.square(exact).sum(axis=1))
    wrong = np.flatnonzero(~(np.abs(norms - 1.0) <= _NORM_SLACK))  # NaN is wrong too
    if wrong.size:
        at = int(wrong[0])
        raise InvalidInputError(f"vectors[{at}]", f"norm {norms[at]}", "Give finite vectors of unit length.")
    largest = np.abs(exact).max(axis=1)
    codes = np.rint(exact * LEVELS / largest[:, np.newaxis]).astype(np.int8)
    multipliers = np.rint(largest * 2.0**MULTIPLIER_BITS / LEVELS).astype(np.int32)
    return Quantised(codes, multipliers)


def scores(stored: Quantised, query: Quantised) -> NDArray[np.int64]:
    """Return the integer score of every stored vector, shape (n,), for one query (codes of shape (1, d))."""
    dots = integer_dots(stored.codes, query.codes)
    weights = stored.multipliers.astype(np.int64)
    weights *= np.int64(query.multipliers[0])
    weights *= dots
    weights >>= _SHIFT
    return weights


def nearest(stored: Quantised, query: Quantised, chosen: Rows | None, limit: int) -> tuple[Rows, NDArray[np.int64]]:
    """Return the chosen rows that may be among the `limit` nearest to `query`, ascending, and their scores.

    All of the `limit` best are among them; which others are depends on nothing but stored vectors and query.

    Args:
        stored: the vectors of all rows.
        query: one vector, codes of shape (1, d).
        chosen: the rows that may be found, ascending, or None for all of them.
        limit: how many are wanted.
    """
    kept, found = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for rows, met in _scanned(stored, query, chosen):
        reach = np.flatnonzero(met >= found.min()) if 0 < limit <= found.size else slice(None)
        kept, found = np.concatenate([kept, rows[reach]]), np.concatenate([found, met[reach]])
        reach = contenders(found, limit)
        kept, found = kept[reach], found[reach]
    return kept, found


def _scanned(stored: Quantised, query: Quantised, chosen: Rows | None) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """Yield rows and scores block by block."""
    size = stored.codes.shape[0]
    whole = chosen is None or chosen.size * _DENSE >= size
    for begin in range(0, size if whole or chosen is None else chosen.size, _SCAN):
        part = slice(begin, begin + _SCAN)
        if chosen is None:
            yield np.arange(begin, min(begin + _SCAN, size)), scores(_taken(stored, part), query)
        elif whole:
            rows = chosen[slice(*np.searchsorted(chosen, (begin, begin + _SCAN)))]
            yield rows, scores(_taken(stored, part), query)[rows - begin]
        else:
            yield chosen[part], scores(_taken(stored, chosen[part]), query)


def _taken(stored: Quantised, rows: Rows | slice) -> Quantised:
    return Quantised(stored.codes[rows], stored.multipliers[rows])


def integer_dots(codes: Codes, query: Codes) -> NDArray[np.int64]:
    """Return `codes @ query` exactly, shape (n,), by the fastest kernel that is installed."""
    if codes.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    return simsimd_dots(codes, query) if _SIMD else numpy_dots(codes, query)


def simsimd_dots(codes: Codes, query: Codes) -> NDArray[np.int64]:
    """Return the dots through SIMD int8 kernels; their int32 sums are exact up to 2^31 / 127^2 dimensions."""
    found = importlib.import_module("simsimd").cdist(query, codes, "dot", threads=THREADS)
    return np.asarray(np.asarray(found)[0], dtype=np.int64)


def numpy_dots(codes: Codes, query: Codes) -> NDArray[np.int64]:
    """Return the dots through BLAS on floats that hold the integers exactly, block by block."""
    held = np.float32 if codes.shape[1] <= _EXACT_IN_FLOAT32 else np.float64
    wanted = query[0].astype(held)
    blocks = [codes[at : at + _BLOCK].astype(held) @ wanted for at in range(0, codes.shape[0], _BLOCK)]
    return np.concatenate(blocks).astype(np.int64)
