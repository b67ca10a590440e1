"""Who answers: the replica with least to do, and another one at once where that one is lost."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from actors.pool import PIECE, RetrieverPool
from records.errors import UnavailableError
from records.ids import RecallInputId
from tests.unit.recall_support import intent, request

_INPUT = RecallInputId.derive({"test": "pool"})
_ASKED = [(intent(each), request(intent(each), _INPUT)) for each in range(20)]


class Replica:
    """A replica that answers with its name and the decision, waits until it is let go, or is lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost = False
        self.held: Event | None = None
        self.entered, self.back = Event(), Event()
        self.asked: list[int] = []
        self.loads: list[Any] = []

    def attempt(self, method: str, *arguments: Any) -> Any:
        if self.lost:
            raise ActorDiedError
        return self.call(method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        if method == "load":
            if self.held is not None:
                self.held.wait(30)
            self.loads.append(arguments)
            self.lost = False
            self.back.set()
            return None
        (asked,) = arguments
        self.entered.set()
        if self.held is not None:
            self.held.wait(30)
        self.asked.append(len(asked))
        return [(self.name, each.id) for each, _ in asked]


def answers(pool: RetrieverPool[Replica], asked: Sequence[Any]) -> list[tuple[str, str]]:
    found: list[Any] = pool.propose(asked)
    return found


@pytest.fixture
def pool() -> RetrieverPool[Replica]:
    return RetrieverPool([Replica("first"), Replica("second")])


def test_a_batch_is_shared_in_order(pool: RetrieverPool[Replica]) -> None:
    found = answers(pool, _ASKED)
    assert [decision for _, decision in found] == [each.id for each, _ in _ASKED]
    assert sum(sum(replica.asked) for replica in pool.replicas) == len(_ASKED)
    assert max(size for replica in pool.replicas for size in replica.asked) <= PIECE
    assert pool.propose([]) == []


def test_a_request_goes_to_the_replica_that_has_least_to_do(pool: RetrieverPool[Replica]) -> None:
    busy, free = pool.replicas
    busy.held = Event()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(answers, pool, _ASKED[:1])
        assert busy.entered.wait(30)
        assert [name for each in range(5) for name, _ in answers(pool, _ASKED[each : each + 1])] == ["second"] * 5
        busy.held.set()
        assert waiting.result() == [("first", _ASKED[0][0].id)]
    assert free.asked == [1] * 5
    assert answers(pool, _ASKED[:1])[0][0] == "first", "it has nothing to do again"


def test_a_lost_replica_fails_nobody_and_comes_back_loaded(pool: RetrieverPool[Replica]) -> None:
    lost, other = pool.replicas
    lost.lost, lost.held = True, Event()
    assert answers(pool, _ASKED[:1]) == [("second", _ASKED[0][0].id)]
    assert answers(pool, _ASKED[1:2]) == [("second", _ASKED[1][0].id)], "who is being loaded is asked nothing"
    lost.held.set()
    assert lost.back.wait(30)
    assert lost.loads == [(_INPUT, None)]
    assert other.loads == []


def test_where_everybody_is_lost_a_request_waits_for_a_successor(pool: RetrieverPool[Replica]) -> None:
    for replica in pool.replicas:
        replica.lost = True
    assert [decision for _, decision in answers(pool, _ASKED)] == [each.id for each, _ in _ASKED]


def test_what_a_replica_raises_is_raised(pool: RetrieverPool[Replica], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise UnavailableError("embedder", "model", "Install it.")

    monkeypatch.setattr(Replica, "attempt", refuse)
    with pytest.raises(UnavailableError, match="Install"):
        pool.propose(_ASKED[:1])
    assert [place.waiting for place in pool._places] == [0, 0]
