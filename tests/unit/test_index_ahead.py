"""Vectors asked for ahead: the same ones, in one call for a few texts, and failures where they are needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.index.ahead import GROUP, AheadEmbedder, Waiting
from memory.index.embedding import HashEmbedder, TextKind
from records.errors import UnavailableError

_TEXTS = [f"query number {each}" for each in range(2 * GROUP + 1)]


class Eager(HashEmbedder):
    """An embedder elsewhere that writes down what it was asked for."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(32)
        self.begun: list[list[str]] = []
        self.asked: list[list[str]] = []
        self.fails = fails

    def begin(self, texts: Sequence[str], *, kind: TextKind = "passage") -> Waiting:
        assert kind == "query"
        self.begun.append(list(texts))
        return lambda: self._answer(texts)

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return super().embed(texts, kind=kind)

    def _answer(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.fails:
            raise UnavailableError("actor", "embedder", "It ended again and again.")
        return super().embed(texts)


def test_vectors_are_those_of_asking_for_each_alone() -> None:
    eager = Eager()
    ahead = AheadEmbedder(eager)
    with ahead.ahead([*_TEXTS, _TEXTS[0]]):
        assert [text for group in eager.begun for text in group] == _TEXTS
        assert {len(group) for group in eager.begun} == {GROUP, 1}
        found = [ahead.embed([text], kind="query")[0] for text in reversed(_TEXTS)]
    assert eager.asked == []
    assert np.array_equal(np.stack(found), HashEmbedder(32).embed(_TEXTS[::-1]))
    assert (ahead.id, ahead.dimensions) == (eager.id, 32)


def test_what_was_not_asked_ahead_is_asked_for() -> None:
    eager = Eager()
    ahead = AheadEmbedder(eager)
    with ahead.ahead(_TEXTS[:1]):
        ahead.embed(_TEXTS[:2], kind="query")
        ahead.embed(_TEXTS[:1], kind="passage")
    ahead.embed(_TEXTS[:1], kind="query")
    assert eager.asked == [_TEXTS[:2], _TEXTS[:1], _TEXTS[:1]]


def test_a_failure_shows_where_the_vector_is_needed() -> None:
    ahead = AheadEmbedder(Eager(fails=True))
    with ahead.ahead(_TEXTS), pytest.raises(UnavailableError):
        ahead.embed(_TEXTS[:1], kind="query")
