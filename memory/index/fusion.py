"""Join ranked lists, exactly: by reciprocal rank, or by weighted shares of each list's best score.

Rules kept here:

- by reciprocal rank the score of an id is the sum over lists of 1 / (k + rank), ranks from 1, k = 60 (Cormack, Clarke
  and Büttcher, SIGIR 2009). Only ranks count, so a list that tells nothing counts as much as one that knows;
- by shares it is the weighted mean over lists of how far its score reaches from a floor towards a whole (a convex
  combination: Bruch, Gai and Ingber, TOIS 2023). How far the first lies ahead of the next is then kept, and a list that
  knows nothing, in which all scores lie about the floor, moves nothing, whatever its order (docs/adr/0062);
- scores are fractions without rounding; equal scores are ordered by id.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

K: Final = 60


@dataclass(frozen=True, slots=True)
class FusedHit:
    """One id of the joined list.

    Attributes:
        id: the document id.
        score: its exact score, by whichever rule it was joined.
        ranks: (list name, rank from 1) for each list that holds it, by name.
    """

    id: str
    score: Fraction
    ranks: tuple[tuple[str, int], ...]


class ScoredList(NamedTuple):
    """One list with the scale of its scores.

    Attributes:
        hits: (id, integer score), best first.
        floor: the score that counts for nothing, and everything below it.
        whole: how far above the floor a score counts as 1; 0 where the list counts for nothing.
    """

    hits: Sequence[tuple[str, int]]
    floor: int
    whole: int


def fuse(lists: Mapping[str, Sequence[str]], *, k: int = K) -> tuple[FusedHit, ...]:
    """Return every id of the named lists (best first), ordered by joined score and then by id.

    Raises:
        ValueError: `k` is negative, or a list holds an id twice.
    """
    if k < 0:
        raise ValueError(f"k must not be negative: {k}")
    ranks: dict[str, list[tuple[str, int]]] = {}
    for name in sorted(lists):
        if len(set(lists[name])) != len(lists[name]):
            raise ValueError(f"the list {name!r} holds an id twice")
        for rank, found in enumerate(lists[name], start=1):
            ranks.setdefault(found, []).append((name, rank))
    hits = (FusedHit(found, _joined(places, k), tuple(places)) for found, places in ranks.items())
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id)))


def combine(lists: Mapping[str, ScoredList], weights: Mapping[str, int]) -> tuple[FusedHit, ...]:
    """Return every id of the named lists, ordered by the weighted mean of its shares and then by id.

    Args:
        lists: the lists by name. One that is not given leaves its weight in the mean, so that an answer without it is
            no surer than one with it.
        weights: what a list counts, by its name; not negative, one of them at least above zero.

    Raises:
        ValueError: a list has no weight or holds an id twice, or no weight is above zero.
    """
    if sum(weights.values()) <= 0 or min(weights.values()) < 0 or not lists.keys() <= weights.keys():
        raise ValueError(f"every list needs a weight, and one must be above zero: {sorted(lists)}, {dict(weights)}")
    scale = math.prod(found.whole for found in lists.values() if found.whole > 0)
    ranks: dict[str, list[tuple[str, int]]] = {}
    sums: dict[str, int] = {}
    for name in sorted(lists):
        hits, floor, whole = lists[name]
        step = weights[name] * scale // whole if whole > 0 else 0
        if len({found for found, _ in hits}) != len(hits):
            raise ValueError(f"the list {name!r} holds an id twice")
        for rank, (found, score) in enumerate(hits, start=1):
            ranks.setdefault(found, []).append((name, rank))
            sums[found] = sums.get(found, 0) + step * max(0, score - floor)
    unit = scale * sum(weights.values())
    order = sorted(sums, key=lambda found: (-sums[found], found))
    return tuple(FusedHit(found, Fraction(sums[found], unit), tuple(ranks[found])) for found in order)


def _joined(places: Sequence[tuple[str, int]], k: int) -> Fraction:
    """Return the sum of 1 / (k + rank), over one denominator: a fraction is reduced once, and not after every step."""
    parts = [k + rank for _, rank in places]
    whole = math.prod(parts)
    return Fraction(sum(whole // part for part in parts), whole)
