"""The three candidate lists and their fusion (spec 8.2, stage 5).

Rules kept here: only rows that passed the hard filters are scored; lexical and semantic lists are exact; the structured
list orders by how closely a record is bound to this very task, then by grade and support; the lists are joined by exact
reciprocal rank. A list that could not be made is left out, and the scale stays that of three lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.index.fusion import FusedHit, K, fuse
from memory.index.ranking import Rows
from memory.recall.memory_index import MemoryIndex
from records.values import ReasonCount

SOURCES: Final = ("lexical", "provenance", "semantic")
_BEST: Final = Fraction(len(SOURCES), K + 1)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The union of the lists, best first, and how many each list gave."""

    hits: tuple[FusedHit, ...]
    counts: tuple[ReasonCount, ...]


def relevance(hit: FusedHit) -> Fraction:
    """Return the fused score as a share of being first in every list."""
    return hit.score / _BEST


def gather(index: MemoryIndex, rows: Rows, query: str, vector: NDArray[np.float32] | None, limit: int) -> Gathered:
    """Return the candidates among `rows`.

    Args:
        index: the loaded index.
        rows: the rows that passed the hard filters, ascending.
        query: the words of the request.
        vector: the query vector, float32, shape (d,); None where the embedder failed.
        limit: longest list.
    """
    lists: dict[str, Sequence[str]] = {
        "lexical": [hit.id for hit in index.search.lexical(query, rows, limit=limit)],
        "provenance": _structured(index, rows, limit),
    }
    if vector is not None:
        lists["semantic"] = [hit.id for hit in index.search.semantic(vector, rows, limit=limit)]
    hits = fuse(lists)
    return Gathered(hits, _counts(rows, lists, len(hits)))


def _structured(index: MemoryIndex, rows: Rows, limit: int) -> list[str]:
    return [index.search.ids[int(row)] for row in index.standing.foremost(rows, limit)]


def _counts(rows: Rows, lists: Mapping[str, Sequence[str]], union: int) -> tuple[ReasonCount, ...]:
    counted = {"eligible": int(rows.size), **{name: len(lists.get(name, ())) for name in SOURCES}, "union": union}
    return tuple(ReasonCount(reason=name, count=count) for name, count in counted.items())
