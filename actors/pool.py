"""The pool of retriever replicas: who answers a request, and what happens when that one dies.

Rules kept here:

- a request goes to the replica that has the fewest of ours waiting, among those that are ready;
- a replica that is lost in the middle of a request fails nobody: the request goes to another one at once, and the lost
  one is brought back beside, with its Recall Input, before it is ready again. A proposal writes nothing to the Ledger
  and its artifacts are named by content, so asking twice is asking once;
- where no replica is ready, a request waits for the first that can be brought back;
- an index is handed over once, through the object store, where every replica of a node reads the same memory; a large
  one is read by each from the artifact store, where it can be mapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayActorError

from actors.workers import Asked, Readiness
from memory.recall.context import Recall
from records.decisions import BlockedProposal
from records.errors import VrmError
from records.ids import RecallInputId

SHARED_BYTES: Final = 128 * 2**20
"""The largest index that goes through the object store, of which a local cluster has half a gigabyte."""

PIECE: Final = 8
"""Requests that go to a replica together."""

LOST: Final = (RayActorError, GetTimeoutError)
"""What a call raises whose actor is gone or silent."""


class Replica(Protocol):
    """A replica as the pool sees it."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Call it, and its successors where it is lost."""

    def attempt(self, method: str, *arguments: Any) -> Any:
        """Call it once."""


R = TypeVar("R", bound=Replica)


@dataclass(eq=False)
class Place:
    """A replica with what this process asked of it: requests in flight, and whether it may be asked."""

    replica: Replica
    waiting: int = 0
    ready: bool = True


class RetrieverPool(Generic[R]):
    """Retriever replicas behind one port; safe to share between threads."""

    def __init__(self, replicas: Sequence[R]) -> None:
        """Share the requests among `replicas`."""
        self.replicas = tuple(replicas)
        self._places = [Place(replica) for replica in replicas]
        self._lock = Lock()
        self._given: tuple[RecallInputId, Any] | None = None

    def load(self, recall_input_id: RecallInputId, index: bytes) -> None:
        """Have every replica load a Recall Input and warm up; it is ready on all of them when this returns."""
        shared = ray.put(np.frombuffer(index, dtype=np.uint8)) if len(index) <= SHARED_BYTES else None
        self._given = (recall_input_id, shared)
        with ThreadPoolExecutor(len(self.replicas)) as threads:
            list(threads.map(lambda replica: replica.call("load", recall_input_id, shared), self.replicas))

    def readiness(self) -> list[Readiness]:
        """Return what each replica says of itself; one that is busy answers too."""
        return [replica.call("readiness") for replica in self.replicas]

    def propose(self, asked: Sequence[Asked]) -> list[Recall | BlockedProposal]:
        """Return one complete proposal per request, in order.

        Raises:
            VrmError: what a replica raised.
            UnavailableError: no replica can be brought back.
        """
        if not asked:
            return []
        size = min(PIECE, -(-len(asked) // len(self.replicas)))
        pieces = [asked[start : start + size] for start in range(0, len(asked), size)]
        if len(pieces) == 1:
            return self._answered(asked)
        with ThreadPoolExecutor(len(self.replicas)) as threads:
            return [answer for piece in threads.map(self._answered, pieces) for answer in piece]

    def _answered(self, asked: Sequence[Asked]) -> list[Recall | BlockedProposal]:
        for _ in self._places:
            place = self._taken(ready=True)
            if place is None:
                break
            answers = self._attempted(place, asked)
            if answers is not None:
                return answers
        return self._waited(asked)

    def _attempted(self, place: Place, asked: Sequence[Asked]) -> list[Recall | BlockedProposal] | None:
        """Ask a replica; None where it is lost."""
        try:
            answers: list[Recall | BlockedProposal] = place.replica.attempt("propose", asked)
        except LOST:
            self._bring_back(place, asked[0][1].recall_input_id)
            return None
        else:
            return answers
        finally:
            self._given_back(place)

    def _waited(self, asked: Sequence[Asked]) -> list[Recall | BlockedProposal]:
        """Ask whoever has least to do, and its successors if need be."""
        place = self._taken(ready=False) or self._places[0]
        try:
            answers: list[Recall | BlockedProposal] = place.replica.call("propose", asked)
            return answers
        finally:
            self._given_back(place)

    def _taken(self, *, ready: bool) -> Place | None:
        """Take the place with the fewest requests, among those that are ready if so wanted."""
        with self._lock:
            place = min((each for each in self._places if each.ready or not ready), key=_waiting, default=None)
            if place is not None:
                place.waiting += 1
            return place

    def _given_back(self, place: Place) -> None:
        with self._lock:
            place.waiting -= 1

    def _bring_back(self, place: Place, recall_input_id: RecallInputId) -> None:
        """Have a lost replica started and loaded while others answer."""
        with self._lock:
            if not place.ready:
                return
            place.ready = False
        given = (
            self._given if self._given is not None and self._given[0] == recall_input_id else (recall_input_id, None)
        )

        def bring() -> None:
            try:
                with suppress(VrmError):  # whoever asks it next hears why
                    place.replica.call("load", *given)
            finally:
                place.ready = True

        Thread(target=bring, daemon=True).start()


def _waiting(place: Place) -> int:
    return place.waiting
