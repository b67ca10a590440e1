"""The three candidate lists and their fusion (spec 8.2, stage 5).

Rules kept here: only rows that passed the hard filters are scored; lexical and semantic lists are exact; the structured
list orders by how closely a record is bound to this very task, then by grade and support, and its score falls with the
place. The lists are joined exactly: by weighted shares where the policy gives weights, by reciprocal rank in version 1,
which gives none. A list that could not be made is left out, and the scale stays that of three lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.index.fusion import FusedHit, K, combine, fuse
from memory.index.ranking import SCORE_BITS, Hit, Rows
from memory.recall.memory_index import MemoryIndex
from records.values import ReasonCount

SOURCES: Final = ("lexical", "provenance", "semantic")
_BEST: Final = Fraction(len(SOURCES), K + 1)
_WHOLE: Final = Fraction(1)

Scored = Sequence[tuple[str, int]]
"""A list of (id, integer score), best first."""
Weights = Mapping[str, int]
"""What each source counts, by its name."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The union of the lists, best first, and how many each list gave; `best` is the highest score there can be."""

    hits: tuple[FusedHit, ...]
    counts: tuple[ReasonCount, ...]
    best: Fraction

    def relevance(self, hit: FusedHit) -> Fraction:
        """Return the fused score as a share of being first in every list."""
        return hit.score / self.best


def gather(  # noqa: PLR0917  # what a search is about, then how it is made
    index: MemoryIndex,
    rows: Rows,
    query: str,
    vector: NDArray[np.float32] | None,
    limit: int,
    weights: Weights | None = None,
) -> Gathered:
    """Return the candidates among `rows`.

    Args:
        index: the loaded index.
        rows: the rows that passed the hard filters, ascending.
        query: the words of the request.
        vector: the query vector, float32, shape (d,); None where the embedder failed.
        limit: longest list.
        weights: what each source counts; None for reciprocal rank.
    """
    lists: dict[str, Scored] = {
        "lexical": scored(index.search.lexical(query, rows, limit=limit)),
        "provenance": _structured(index, rows, limit),
    }
    if vector is not None:
        lists["semantic"] = scored(index.search.semantic(vector, rows, limit=limit))
    hits = join(lists, weights)
    return Gathered(hits, _counts(rows, lists, len(hits)), _BEST if weights is None else _WHOLE)


def join(lists: Mapping[str, Scored], weights: Weights | None) -> tuple[FusedHit, ...]:
    """Return the union of named lists, best first: by weighted shares, or by reciprocal rank without weights."""
    if weights is not None:
        return combine(lists, weights)
    return fuse({name: [found for found, _ in hits] for name, hits in lists.items()})


def scored(hits: Sequence[Hit]) -> Scored:
    """Return hits as ids with scores."""
    return [(hit.id, hit.score) for hit in hits]


def _structured(index: MemoryIndex, rows: Rows, limit: int) -> Scored:
    standing = index.standing
    keys = (rows, -standing.support[rows], -standing.grade[rows], -standing.constrained[rows])
    found = [index.search.ids[int(rows[at])] for at in np.lexsort(keys)[:limit]]
    return [(each, ((K + 1) << SCORE_BITS) // (K + place)) for place, each in enumerate(found, start=1)]


def _counts(rows: Rows, lists: Mapping[str, Scored], union: int) -> tuple[ReasonCount, ...]:
    counted = {"eligible": int(rows.size), **{name: len(lists.get(name, ())) for name in SOURCES}, "union": union}
    return tuple(ReasonCount(reason=name, count=count) for name, count in counted.items())
