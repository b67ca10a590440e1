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

from memory.index.fusion import FusedHit, K, ScoredList, combine, fuse
from memory.index.ranking import SCORE_BITS, Hit, Rows
from memory.recall.memory_index import MemoryIndex
from policies.retrieval_policy import Fusion
from records.values import ReasonCount

SOURCES: Final = ("lexical", "provenance", "semantic")
_BEST: Final = Fraction(len(SOURCES), K + 1)
_ONE: Final = 1 << SCORE_BITS
"""A cosine of 1, and the score of the first place of the structured list."""
_PERMILLE: Final = 1000


Scored = Sequence[tuple[str, int]]
"""A list of (id, integer score), best first."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The union of the lists, best first, and how many each list gave; `best` is the highest score there can be."""

    hits: tuple[FusedHit, ...]
    counts: tuple[ReasonCount, ...]
    best: Fraction

    def relevance(self, hit: FusedHit) -> Fraction:
        """Return the fused score as a share of being first in every list."""
        return hit.score / self.best


@dataclass(frozen=True, slots=True)
class Found:
    """What is found without a vector, which may be on its way meanwhile.

    Attributes:
        index: the loaded index.
        rows: the rows that passed the hard filters, ascending.
        limit: longest list.
        lists: the lexical and the structured list, by name.
    """

    index: MemoryIndex
    rows: Rows
    limit: int
    lists: Mapping[str, Scored]

    @property
    def ids(self) -> list[str]:
        """Return everything that is in a list, once."""
        return list(dict.fromkeys(found for hits in self.lists.values() for found, _ in hits))

    def gather(self, vector: NDArray[np.float32] | None, fusion: Fusion | None = None) -> Gathered:
        """Return the candidates.

        Args:
            vector: the query vector, float32, shape (d,); None where the embedder failed.
            fusion: what each list counts; None for reciprocal rank.
        """
        lists = dict(self.lists)
        if vector is not None:
            lists["semantic"] = scored(self.index.search.semantic(vector, self.rows, limit=self.limit))
        hits = join(lists, fusion)
        return Gathered(hits, _counts(self.rows, lists, len(hits)), _BEST if fusion is None else Fraction(1))


def find(index: MemoryIndex, rows: Rows, query: str, limit: int) -> Found:
    """Search by words and by structure.

    Args:
        index: the loaded index.
        rows: the rows that passed the hard filters, ascending.
        query: the words of the request.
        limit: longest list.
    """
    lexical = scored(index.search.lexical(query, rows, limit=limit))
    return Found(index, rows, limit, {"lexical": lexical, "provenance": _structured(index, rows, limit)})


def join(lists: Mapping[str, Scored], fusion: Fusion | None) -> tuple[FusedHit, ...]:
    """Return the union of lists named as `SOURCES`, best first: by shares, or by reciprocal rank without weights.

    A lexical score is a share of the best one of its list, for BM25 has no scale of its own; a cosine reaches from the
    policy's floor to 1, so that texts none of which is near count for nothing.
    """
    if fusion is None:
        return fuse({name: [found for found, _ in hits] for name, hits in lists.items()})
    lexical = lists.get("lexical", ())
    floor = _ONE * fusion.semantic_floor // _PERMILLE
    scales = {
        "lexical": (0, lexical[0][1] if lexical else 0),
        "provenance": (0, _ONE),
        "semantic": (floor, _ONE - floor),
    }
    weights = {"lexical": fusion.lexical, "provenance": fusion.structured, "semantic": fusion.semantic}
    return combine({name: ScoredList(hits, *scales[name]) for name, hits in lists.items()}, weights)


def scored(hits: Sequence[Hit]) -> Scored:
    """Return hits as ids with scores."""
    return [(hit.id, hit.score) for hit in hits]


def _structured(index: MemoryIndex, rows: Rows, limit: int) -> Scored:
    found = [index.search.ids[int(row)] for row in index.standing.foremost(rows, limit)]
    return [(each, ((K + 1) << SCORE_BITS) // (K + place)) for place, each in enumerate(found, start=1)]


def _counts(rows: Rows, lists: Mapping[str, Scored], union: int) -> tuple[ReasonCount, ...]:
    counted = {"eligible": int(rows.size), **{name: len(lists.get(name, ())) for name in SOURCES}, "union": union}
    return tuple(ReasonCount(reason=name, count=count) for name, count in counted.items())
