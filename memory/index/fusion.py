"""Join ranked lists by reciprocal rank, exactly.

Rules kept here: the score of an id is the sum over lists of 1 / (k + rank), ranks from 1, k = 60 (Cormack, Clarke and
Büttcher, SIGIR 2009), as a fraction without rounding; equal scores are ordered by id. Only ranks count: the scores
inside the lists are of different kinds and are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

K: Final = 60


@dataclass(frozen=True, slots=True)
class FusedHit:
    """One id of the joined list.

    Attributes:
        id: the document id.
        score: its exact reciprocal-rank score.
        ranks: (list name, rank from 1) for each list that holds it, by name.
    """

    id: str
    score: Fraction
    ranks: tuple[tuple[str, int], ...]


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


def _joined(places: Sequence[tuple[str, int]], k: int) -> Fraction:
    """Return the sum of 1 / (k + rank), over one denominator: a fraction is reduced once, and not after every step."""
    parts = [k + rank for _, rank in places]
    whole = math.prod(parts)
    return Fraction(sum(whole // part for part in parts), whole)
