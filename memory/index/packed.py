"""A sorted list of distinct texts inside two arrays, searchable without unpacking it.

Rules kept here: texts are sorted by code point and differ from each other; `blob` is their UTF-8 bytes end to end and
`starts` (one longer than the list) says where each begins. Sorting by UTF-8 bytes and by code point is the same order.
The arrays are only read, so they can lie in memory shared between processes. Checking looks at a block of texts at a
time: a million ids as objects would take more memory than the index that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

_BLOCK: Final = 65_536


@dataclass(frozen=True, eq=False)
class PackedTexts(Sequence[str]):
    """Sorted distinct texts.

    Attributes:
        blob: UTF-8 bytes, uint8, shape (bytes,).
        starts: int64, shape (n + 1,), from 0 to the length of `blob`.
    """

    blob: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def pack(cls, texts: Sequence[str]) -> Self:
        """Pack texts that are sorted and distinct already."""
        parts = [text.encode() for text in texts]
        starts = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), starts)

    def flaw(self) -> str | None:
        """Say what breaks the rules of this module, or None."""
        if self.blob.ndim != 1 or self.starts.ndim != 1 or self.starts.size == 0:
            return "not one blob and one list of starts"
        if self.starts[0] != 0 or self.starts[-1] != self.blob.size or (np.diff(self.starts) < 0).any():
            return "starts do not cover the blob in order"
        last = b""
        for begin in range(0, len(self), _BLOCK):
            texts = self._block(begin)
            try:
                _ = [text.decode() for text in texts]
            except UnicodeDecodeError as error:
                return f"a text is not UTF-8: {error.reason}"
            before = [last, *texts] if begin else texts
            if any(left >= right for left, right in pairwise(before)):
                return "texts are not sorted and distinct"
            last = texts[-1]
        return None

    def same(self, other: PackedTexts) -> bool:
        """Tell whether another list holds the same texts; no text is unpacked."""
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.blob, other.blob)

    def find(self, text: str) -> int | None:
        """Return the position of `text`, or None."""
        wanted = text.encode("utf-8", "surrogatepass")  # such a text is in no list: not found, not an error
        if self._even is not None:
            return self._find_even(wanted, self._even)
        blob, starts = self.blob.data, self.starts.data  # as views they give plain bytes and integers
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if blob[starts[middle] : starts[middle + 1]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._bytes(low) == wanted else None

    def __len__(self) -> int:
        """Return the number of texts."""
        return self.starts.size - 1

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # no slices: nobody needs one
        """Return the text at a position."""
        return self._bytes(range(len(self))[at]).decode()

    def __iter__(self) -> Iterator[str]:
        """Yield the texts in order."""
        return (text.decode() for begin in range(0, len(self), _BLOCK) for text in self._block(begin))

    @cached_property
    def _even(self) -> NDArray[Any] | None:
        """The texts as one array where all are equally long, as ids of one kind are; None where they are not."""
        lengths = np.diff(self.starts)
        if not lengths.size or lengths[0] == 0 or (lengths != lengths[0]).any():
            return None
        return self.blob.view(f"S{lengths[0]}")

    def _find_even(self, wanted: bytes, texts: NDArray[Any]) -> int | None:
        if len(wanted) != texts.itemsize:
            return None
        low = int(np.searchsorted(texts, np.array(wanted, dtype=texts.dtype)))
        return low if low < len(self) and self._bytes(low) == wanted else None

    def _block(self, begin: int) -> list[bytes]:
        cuts = self.starts[begin : begin + _BLOCK + 1].tolist()
        whole = self.blob[cuts[0] : cuts[-1]].tobytes()
        return [whole[left - cuts[0] : right - cuts[0]] for left, right in pairwise(cuts)]

    def _bytes(self, at: int) -> bytes:
        return self.blob[self.starts[at] : self.starts[at + 1]].tobytes()
