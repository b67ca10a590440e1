"""Fusion of ranked lists, exactly: by reciprocal rank and by shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index.fusion import ScoredList, combine, fuse

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


def test_combine_by_hand() -> None:
    # of 9: a 3 x 10/10 + 6 x 0/6 = 3; b 3 x 5/10 + 6 x 5/6 = 6.5; c 6 x 2/6 = 2; d is below the floor: nothing.
    lists = {
        "lexical": ScoredList([("a", 10), ("b", 5)], floor=0, whole=10),
        "semantic": ScoredList([("b", 9), ("c", 6), ("a", 4), ("d", -3)], floor=4, whole=6),
    }
    hits = combine(lists, {"lexical": 3, "semantic": 6})
    assert [(hit.id, hit.score) for hit in hits] == [
        ("b", Fraction(13, 18)),
        ("a", Fraction(1, 3)),
        ("c", Fraction(2, 9)),
        ("d", Fraction(0)),
    ]
    assert hits[0].ranks == (("lexical", 2), ("semantic", 1))


def test_a_list_that_is_missing_leaves_its_weight_in_the_mean() -> None:
    (hit,) = combine({"lexical": ScoredList([("a", 7)], floor=0, whole=7)}, {"lexical": 1, "semantic": 3})
    assert hit.score == Fraction(1, 4)


_SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 1000), max_size=8)


def _ranked(scores: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


@given(_SCORES, _SCORES)
def test_a_list_that_knows_nothing_moves_nothing(first: dict[str, int], second: dict[str, int]) -> None:
    """All of the second list lies below its floor: the order of the first one stands, which reciprocal rank breaks."""
    known = ScoredList(_ranked(first), floor=0, whole=1000)
    alone = combine({"1": known}, {"1": 1, "2": 9})
    both = combine({"1": known, "2": ScoredList(_ranked(second), floor=1000, whole=1000)}, {"1": 1, "2": 9})
    assert [hit.id for hit in both if hit.score] == [hit.id for hit in alone if hit.score]


@given(_SCORES, _SCORES)
def test_shares_are_exact_and_between_nothing_and_one(first: dict[str, int], second: dict[str, int]) -> None:
    """Each score is the weighted mean in fractions, computed here term by term; ties are ordered by id."""
    lists = {"1": ScoredList(_ranked(first), 0, 1000), "2": ScoredList(_ranked(second), 100, 900)}
    hits = combine(lists, {"1": 2, "2": 5})
    for hit in hits:
        parts = Fraction(2 * max(0, first.get(hit.id, 0)), 1000) + Fraction(
            5 * max(0, second.get(hit.id, 0) - 100), 900
        )
        assert hit.score == parts / 7
        assert 0 <= hit.score <= 1
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.id))


@pytest.mark.parametrize("weights", [{"1": 0}, {"2": 1}, {"1": -1, "2": 5}])
def test_weights_that_say_nothing_are_a_caller_error(weights: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="needs a weight"):
        combine({"1": ScoredList([("a", 1)], 0, 1)}, weights)
