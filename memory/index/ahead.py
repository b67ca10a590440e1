"""Vectors that are asked for before they are needed, so that the model works while filters and words are searched.

Rules kept here: a text gets the vector that it would get if it were asked for alone; texts go out in small groups,
whose members share a call and not a computation; what was not asked ahead is asked for when it is needed; a failure
shows where the vector is needed and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from memory.index.embedding import Embedder, TextKind

GROUP: Final = 4
"""Texts that share a call: few, for the first of them waits for the last."""

Waiting = Callable[[], NDArray[np.float32]]
"""Waits for vectors that were asked for, and returns them."""


class EagerEmbedder(Embedder, Protocol):
    """An embedder elsewhere, which can work while the caller does something else."""

    def begin(self, texts: Sequence[str], *, kind: TextKind = "passage") -> Waiting:
        """Start to embed; what comes back gives what `embed` does, and raises what it does."""


class AheadEmbedder:
    """An eager embedder as a plain one, for one thread."""

    def __init__(self, embedder: EagerEmbedder) -> None:
        """Ask `embedder`."""
        self._embedder = embedder
        self._queries: dict[str, tuple[Waiting, int]] = {}

    @property
    def id(self) -> str:
        """Return the identity of the vectors."""
        return self._embedder.id

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._embedder.dimensions

    @contextmanager
    def ahead(self, queries: Sequence[str]) -> Iterator[None]:
        """Ask for the vectors of queries, which are then at hand until the block ends."""
        distinct = list(dict.fromkeys(queries))
        for start in range(0, len(distinct), GROUP):
            group = distinct[start : start + GROUP]
            waiting = self._embedder.begin(group, kind="query")
            self._queries |= {text: (waiting, place) for place, text in enumerate(group)}
        try:
            yield
        finally:
            self._queries.clear()

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        """Return one unit vector a text, float32, shape (n, dimensions)."""
        if kind != "query" or not texts or not self._queries.keys() >= set(texts):
            return self._embedder.embed(texts, kind=kind)
        found = (self._queries[text] for text in texts)
        return np.stack([waiting()[place] for waiting, place in found])
