"""A handle that threads share: no request is lost to what another thread finds out."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError

from actors.handles import Handle, Role
from actors.settings import Settings


class Shared(Handle):
    """A handle whose actors are plain objects, and every call of which is lost."""

    def __init__(self) -> None:
        self.made: list[object] = []
        super().__init__(Role("shared", object), cast("Any", None))

    def find(self) -> Any:
        return None

    def _create(self) -> Any:
        self.made.append(object())
        return self.made[-1]

    def _answer(self, _reference: Any) -> Any:
        raise ActorDiedError


class Torn(Shared):
    """A handle of which another thread lets go right after every look at it, the worst that can happen."""

    _kept: Any = None

    @property
    def _handle(self) -> Any:
        found, self._kept = self._kept, None
        return found

    @_handle.setter
    def _handle(self, value: Any) -> None:
        self._kept = value


def test_a_late_failure_of_an_old_call_keeps_the_successor() -> None:
    handle = Shared()
    old = handle._living()
    with pytest.raises(ActorDiedError):
        handle.finish(old, "first call")
    successor = handle._living()
    with pytest.raises(ActorDiedError):
        handle.finish(old, "second call of the old one")
    assert handle._living() is successor
    assert handle.made == [old, successor]


def test_an_actor_that_another_thread_lets_go_of_is_still_returned() -> None:
    handle = Torn()
    assert handle._living() is not None
    assert handle._living() is not None


def test_a_handle_goes_to_another_process_as_a_name() -> None:
    """A replica is given the embedder's; neither lock nor actor can travel."""
    there = pickle.loads(pickle.dumps(Handle(Role("embedder", object), Settings("ledger", "runtime", "artifacts"))))  # noqa: S301  # our own
    assert there._role == Role("embedder", object)
    assert there._handle is None
