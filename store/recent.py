"""A map of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """A map that keeps what was entered last, up to a limit, and forgets the rest."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` entries."""
        super().__init__()
        self._limit = limit

    def put(self, key: K, value: V) -> None:
        """Enter a value as the newest."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)
