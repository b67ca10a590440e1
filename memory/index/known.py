"""An embedder that is asked only for the vectors that nobody has yet: a text has one vector, and is embedded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.index.embedding import Embedder, TextKind
from records.canonical import digest_bytes

_BLOCK: Final = 32

Vector = NDArray[np.float32]


class KnownEmbedder:
    """An embedder of passages that keeps what it was asked for."""

    def __init__(
        self,
        embedder: Embedder,
        known: Mapping[str, Vector],
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Ask `embedder` for what is not in `known`, vectors by the digest of their text; tell how far it got."""
        self._embedder, self._progress = embedder, progress
        self._vectors = dict(known)
        self._used: set[str] = set()

    @property
    def vectors(self) -> dict[str, Vector]:
        """The vectors that were asked for, by the digest of their text."""
        return {digest: self._vectors[digest] for digest in self._used}

    @property
    def id(self) -> str:
        """The embedder's own id."""
        return self._embedder.id

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> Vector:
        """Return a vector a text, shape (texts, dimensions)."""
        digests = [digest_bytes(text.encode()) for text in texts]
        self._used.update(digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._vectors}
        names = list(missing)
        for start in range(0, len(names), _BLOCK):
            block = names[start : start + _BLOCK]
            found = self._embedder.embed([missing[name] for name in block], kind=kind)
            self._vectors |= dict(zip(block, found, strict=True))
            self._progress(start + len(block), len(names))
        rows = [self._vectors[digest] for digest in digests]
        return np.array(rows, dtype=np.float32).reshape(len(texts), self.dimensions)
