"""Reciprocal rank fusion, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index.fusion import fuse

_IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


def test_fuse_by_hand() -> None:
    # a: 1/61 + 1/62, b: 1/62 + 1/61, c: 1/63; a and b are equal, so the id decides.
    hits = fuse({"lexical": ["b", "a", "c"], "semantic": ["a", "b"]})
    assert [(hit.id, hit.score) for hit in hits] == [
        ("a", Fraction(123, 3782)),
        ("b", Fraction(123, 3782)),
        ("c", Fraction(1, 63)),
    ]
    assert hits[0].ranks == (("lexical", 2), ("semantic", 1))


def test_ties_that_floats_would_break_stay_ties() -> None:
    # In floats the sums of three reciprocals differ with their order; as fractions they are equal.
    lists = {"x": ["p", "q", "r"], "y": ["q", "r", "p"], "z": ["r", "p", "q"]}
    assert [hit.id for hit in fuse(lists)] == ["p", "q", "r"]
    assert len({hit.score for hit in fuse(lists)}) == 1


@given(_IDS, _IDS, _IDS)
def test_order_of_the_lists_does_not_matter(first: list[str], second: list[str], third: list[str]) -> None:
    forward = fuse({"1": first, "2": second, "3": third})
    assert forward == fuse({"3": third, "2": second, "1": first})
    assert {hit.id for hit in forward} == {*first, *second, *third}


@given(_IDS, _IDS)
def test_a_better_rank_never_hurts(first: list[str], second: list[str]) -> None:
    position = {hit.id: at for at, hit in enumerate(fuse({"1": first, "2": second}))}
    for at, found in enumerate(second[1:], start=1):
        promoted = [found, *second[:at], *second[at + 1 :]]
        after = {hit.id: place for place, hit in enumerate(fuse({"1": first, "2": promoted}))}
        assert after[found] <= position[found]


def test_nothing_gives_nothing() -> None:
    assert fuse({}) == fuse({"lexical": []}) == ()


def test_a_repeated_id_is_a_caller_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        fuse({"lexical": ["a", "a"]})


def test_a_negative_constant_is_a_caller_error() -> None:
    with pytest.raises(ValueError, match="negative"):
        fuse({}, k=-1)
