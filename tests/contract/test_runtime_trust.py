"""What a run owner remembers of its own writes: it saves round trips, and where it is wrong the server refuses."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.errors import FencedError, StaleError
from records.runtime import Applied, Command, Require
from records.states import Event, Machine, Phase
from store.recent import Recent
from store.runtime.postgres import PostgresRuntime
from tests.contract.test_runtime import Owner, create, step
from tests.support.stores import Addresses, fresh_namespace
from tests.support.wire import Wire


@pytest.fixture
def first(runtime_database: Addresses) -> Iterator[Owner]:
    store = PostgresRuntime(runtime_database.app, "first")
    space = fresh_namespace()
    yield Owner(store, space, store.claim(f"owner/{space}", "test"))
    store.close()


@pytest.fixture
def second(runtime_database: Addresses, first: Owner) -> Iterator[Owner]:
    """Another process that works on the same subjects, with an epoch of its own."""
    store = PostgresRuntime(runtime_database.app, "second")
    yield Owner(store, first.space, store.claim(f"owner/{first.space}/second", "test"))
    store.close()


def done(owner: Owner, *commands: Command) -> None:
    assert owner.apply(*commands) == [Applied(replayed=False)] * len(commands)


def test_what_is_remembered_takes_one_round_trip_and_no_begin(runtime_database: Addresses) -> None:
    folder = Path(tempfile.mkdtemp(prefix="vrm-wire-"))  # a socket needs a short path
    wire = Wire(folder, runtime_database.app, runtime_database.superuser)
    store = PostgresRuntime(wire.dsn, "wire")
    owner = Owner(store, fresh_namespace(), store.claim(f"owner/{folder.name}", "test"))
    wire.arm()
    done(owner, create(Machine.RUN, owner.run, Phase.RUNNING))  # nothing is known of the Run but that it is new
    done(owner, step(Machine.RUN, owner.run, Event.CANCEL, Phase.CANCELLING))
    assert wire.steps.count("S") == 2
    assert not {"BEGIN", "COMMIT"} & set(wire.steps)
    assert owner.get(Machine.RUN, owner.run).phase is Phase.CANCELLING
    store.close()
    wire.close()
    shutil.rmtree(folder)


def test_a_subject_that_somebody_else_moved_is_read_again(first: Owner, second: Owner) -> None:
    first.admit()
    done(second, step(Machine.RUN, first.run, Event.CANCEL, Phase.CANCELLING))
    assert first.store.remembered.subject(Machine.RUN, first.run) != first.get(Machine.RUN, first.run)
    again = step(Machine.RUN, first.run, Event.CANCEL, Phase.CANCELLING)
    assert first.apply(again) == [Applied(replayed=True)]
    assert first.store.remembered.subject(Machine.RUN, first.run) == second.get(Machine.RUN, first.run)


def test_what_is_required_is_held_at_the_remembered_version(first: Owner, second: Owner) -> None:
    first.admit()
    done(second, step(Machine.RUN, first.run, Event.CANCEL, Phase.CANCELLING))
    needs = (Require(machine=Machine.RUN, id=first.run, phase=Phase.RUNNING),)
    (answer,) = first.apply(create(Machine.ACTIVITY, first.name("work"), Phase.READY, requires=needs))
    assert isinstance(answer, StaleError)
    assert first.store.subject(Machine.ACTIVITY, first.name("work")) is None


def test_what_is_taken_for_new_and_exists_is_a_replay(first: Owner, second: Owner) -> None:
    second.admit()
    assert first.apply(create(Machine.RUN, first.run, Phase.RUNNING)) == [Applied(replayed=True)]


def test_memory_lets_nobody_write_whose_epoch_is_over(first: Owner, second: Owner) -> None:
    first.admit()
    second.store.claim(first.epoch.resource, "test")
    for _ in range(2):
        with pytest.raises(FencedError):
            first.apply(step(Machine.RUN, first.run, Event.CANCEL, Phase.CANCELLING))
    assert second.get(Machine.RUN, first.run).phase is Phase.RUNNING


def test_nobody_is_refused_by_memory_alone(first: Owner, second: Owner) -> None:
    """To whoever remembers the old fence the new attempt looks wrong; the server knows better."""
    first.admit()
    work = first.name("work")
    done(first, create(Machine.ACTIVITY, work, Phase.READY))
    done(second, step(Machine.ACTIVITY, work, Event.LEASE, Phase.LEASED))
    done(second, step(Machine.ACTIVITY, work, Event.EXPIRE, Phase.READY))
    done(first, step(Machine.ACTIVITY, work, Event.LEASE, Phase.LEASED, generation=2, fence=2))


def test_memory_is_bounded(first: Owner) -> None:
    store = first.store
    assert isinstance(store, PostgresRuntime)
    store._known = Recent(1)
    first.admit()
    done(first, create(Machine.ACTIVITY, first.name("work"), Phase.READY))
    assert list(store._known) == [(Machine.ACTIVITY, first.name("work"))]
    done(first, step(Machine.RUN, first.run, Event.CANCEL, Phase.CANCELLING))
