"""Codes and integer scores against exact integer arithmetic and against float64 cosines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from memory.index import vectors
from memory.index.ranking import SCORE_UNIT, best, least_of_best
from memory.index.vectors import Quantised, integer_dots, nearest, numpy_dots, quantise, scores, simsimd_dots
from records.errors import InvalidInputError

_KERNELS = [numpy_dots, simsimd_dots, integer_dots]


def _unit(count: int, dimensions: int, seed: int) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def _python_dots(codes: NDArray[np.int8], query: NDArray[np.int8]) -> list[int]:
    wanted = query[0].tolist()
    return [sum(a * b for a, b in zip(row, wanted, strict=True)) for row in codes.tolist()]


@pytest.mark.parametrize("kernel", _KERNELS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_kernels_give_the_exact_integers(kernel: Callable[..., NDArray[np.int64]], data: st.DataObject) -> None:
    count, dimensions = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 130))
    values = st.integers(-127, 127)
    codes = data.draw(npst.arrays(np.int8, (count, dimensions), elements=values))
    query = data.draw(npst.arrays(np.int8, (1, dimensions), elements=values))
    assert kernel(codes, query).tolist() == _python_dots(codes, query)


@pytest.mark.parametrize("kernel", _KERNELS)
@pytest.mark.parametrize("dimensions", [384, 1040, 1041, 4096])
@pytest.mark.parametrize("sign", [1, -1])
def test_kernels_are_exact_at_the_extremes(
    kernel: Callable[..., NDArray[np.int64]], dimensions: int, sign: int
) -> None:
    codes = np.full((3, dimensions), -127, dtype=np.int8)
    codes[1, -1] = -126
    query = np.full((1, dimensions), 127 * sign, dtype=np.int8)
    whole = -sign * dimensions * 127 * 127
    assert kernel(codes, query).tolist() == [whole, whole + sign * 127, whole]


def test_kernels_agree_on_many_rows_across_blocks() -> None:
    codes = np.random.default_rng(7).integers(-127, 128, (9001, 384), dtype=np.int8)
    query = codes[:1].copy()
    assert np.array_equal(numpy_dots(codes, query), simsimd_dots(codes, query))


def test_quantise_a_vector_by_hand() -> None:
    # 3-4-5: largest 0.8 has code 127, 0.6 has rint(127 * 0.75 = 95.25) = 95; float32(0.8) = 0.800000011920929
    codes, multipliers = quantise(np.array([[0.6, -0.8]], dtype=np.float32))
    assert codes.tolist() == [[95, -127]]
    assert multipliers.tolist() == [round(0.800000011920929 * 2**27 / 127)]


@given(st.integers(0, 10_000), st.sampled_from([2, 17, 384, 1024]))
@settings(max_examples=40, deadline=None)
def test_score_lies_within_the_proven_bound_of_the_cosine(seed: int, dimensions: int) -> None:
    vectors = _unit(20, dimensions, seed)
    stored, query = quantise(vectors[1:]), quantise(vectors[:1])
    found = scores(stored, query) * SCORE_UNIT
    exact = vectors.astype(np.float64)
    cosines = exact[1:] @ exact[0]
    errors = np.sqrt(dimensions) * np.abs(exact).max(axis=1) / 254
    bound = errors[1:] + errors[0] + errors[1:] * errors[0] + SCORE_UNIT + 2.0**-13 + 1e-6
    assert (np.abs(found - cosines) <= bound).all()


def test_score_does_not_depend_on_the_other_rows() -> None:
    vectors = _unit(500, 384, 3)
    stored, query = quantise(vectors), quantise(_unit(1, 384, 4))
    whole = scores(stored, query)
    alone = [
        scores(Quantised(stored.codes[at : at + 1], stored.multipliers[at : at + 1]), query)[0] for at in range(500)
    ]
    assert whole.tolist() == alone


def test_codes_do_not_depend_on_the_batch() -> None:
    vectors = _unit(64, 384, 5)
    whole = quantise(vectors)
    for at in range(64):
        single = quantise(vectors[at : at + 1])
        assert np.array_equal(single.codes[0], whole.codes[at])
        assert single.multipliers[0] == whole.multipliers[at]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0, 2.0])
def test_what_is_not_a_unit_vector_is_refused(wrong: float) -> None:
    with pytest.raises(InvalidInputError, match=r"vectors\[1\]"):
        quantise(np.array([[1.0, 0.0], [wrong, 0.0]], dtype=np.float32))


def test_what_is_not_a_matrix_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="shape"):
        quantise(np.array([1.0, 0.0], dtype=np.float32))


def test_no_rows_give_no_scores() -> None:
    empty = quantise(np.zeros((0, 8), dtype=np.float32))
    assert scores(empty, quantise(_unit(1, 8, 0))).tolist() == []


@pytest.mark.parametrize("simd", [True, False])
@pytest.mark.parametrize("share", [None, 1.0, 0.5, 0.1, 0.0])
def test_the_nearest_are_those_of_scoring_everything(
    simd: bool, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several blocks, with many equal scores, by either kernel, whether few rows were chosen or most."""
    monkeypatch.setattr(vectors, "_SIMD", simd)
    monkeypatch.setattr(vectors, "_SCAN", 700)
    chance = np.random.default_rng(3)
    codes = chance.integers(-3, 4, (3001, 5), dtype=np.int8)
    stored = Quantised(codes, np.full(3001, 2**24, dtype=np.int32))
    query = Quantised(codes[:1].copy(), stored.multipliers[:1])
    chosen = None if share is None else np.flatnonzero(chance.random(3001) < share)
    among = np.arange(3001) if chosen is None else chosen
    whole = scores(Quantised(codes[among], stored.multipliers[among]), query)
    for limit in (1, 50, 5000):
        rows, found = nearest(stored, query, chosen, limit)
        assert (np.diff(rows) > 0).all()
        assert rows[best(found, rows, limit)].tolist() == among[best(whole, among, limit)].tolist()
        assert (
            dict(zip(rows.tolist(), found.tolist(), strict=True)).items()
            <= dict(zip(among.tolist(), whole.tolist(), strict=True)).items()
        )


def test_threads_change_no_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(8).integers(-127, 128, (9001, 384), dtype=np.int8)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(vectors, "THREADS", threads)
        found.append(simsimd_dots(codes, codes[:1].copy()).tolist())
    assert found[0] == found[1] == numpy_dots(codes, codes[:1].copy()).tolist()


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 5000),
    limit=st.integers(1, 60),
    highest=st.sampled_from([0, 3, 1000, 2**40]),
)
@settings(max_examples=100)
def test_the_least_of_the_best_is_that_of_sorting(seed: int, size: int, limit: int, highest: int) -> None:
    """With few scores and many, all different and nearly all alike."""
    found = np.random.default_rng(seed).integers(0, highest + 1, size)
    limit = min(limit, size)
    assert least_of_best(found, limit) == sorted(found.tolist())[-limit]
