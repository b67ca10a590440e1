"""Vectors of a real model that are made once and kept in a file.

Rules kept here:

- the identity is that of the model: what is kept is what it would give again, bit for bit;
- the file is a list of entries, key and vector, that only grows; an entry that was cut off by a crash is dropped. A
  key is a digest of the model's id, of what the text is for and of the text, so one file may serve several models of
  one width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.index.embedding import Embedder, TextKind
from records.errors import UnavailableError

Vector = NDArray[np.float32]
Told = Callable[[int, int], None]

_KEY: Final = 32
_STEP: Final = 64
"""Vectors that are made before they are written and progress is told."""


class KeptVectors:
    """An embedder over another one that embeds no text twice."""

    def __init__(self, embedder: Embedder, file: Path | None = None) -> None:
        """Keep the vectors of an embedder in memory and, if one is named, in a file.

        Raises:
            UnavailableError: the file cannot be read.
        """
        self._embedder, self._file = embedder, file
        self.id, self.dimensions = embedder.id, embedder.dimensions
        self._kept: dict[bytes, Vector] = {} if file is None else self._read(file)
        self.told: Told = _quiet

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> Vector:
        """Return one unit vector a text, float32, shape (n, dimensions)."""
        keys = [self._key(text, kind) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        wanted = list(missing.items())
        for start in range(0, len(wanted), _STEP):
            part = wanted[start : start + _STEP]
            made = self._embedder.embed([text for _, text in part], kind=kind)
            self._keep([key for key, _ in part], made)
            self.told(start + len(part), len(wanted))
        return np.array([self._kept[key] for key in keys], dtype=np.float32).reshape(len(texts), self.dimensions)

    def _key(self, text: str, kind: TextKind) -> bytes:
        return hashlib.sha256(f"{self.id}\0{kind}\0{text}".encode()).digest()

    def _keep(self, keys: Sequence[bytes], vectors: Vector) -> None:
        self._kept |= dict(zip(keys, vectors, strict=True))
        if self._file is None:
            return
        entries = b"".join(key + row.astype("<f4").tobytes() for key, row in zip(keys, vectors, strict=True))
        try:
            with self._file.open("ab") as out:
                out.write(entries)
        except OSError as error:
            raise UnavailableError("vectors", str(error), "Name a file that can be written.") from error

    def _read(self, file: Path) -> dict[bytes, Vector]:
        size = _KEY + 4 * self.dimensions
        try:
            held = file.read_bytes() if file.exists() else b""
            if len(held) % size:
                file.write_bytes(held[: len(held) - len(held) % size])
        except OSError as error:
            raise UnavailableError("vectors", str(error), "Name a file that can be read and written.") from error
        starts = range(0, len(held) - size + 1, size)
        return {
            held[at : at + _KEY]: np.frombuffer(held, dtype="<f4", count=self.dimensions, offset=at + _KEY)
            for at in starts
        }


def _quiet(_done: int, _total: int) -> None:
    """Report no progress."""
