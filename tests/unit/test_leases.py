"""Runtime commands of every kind of work, carried out by the real engine."""

from __future__ import annotations

import pytest

from memory.leases import admission, completion, leases
from memory.ports import all_good
from records.errors import IdentityConflictError, IllegalTransitionError, StaleError
from records.runtime import Applied, Command, Create, Move, RunBody, Subject, activity_id
from records.states import Event, Machine, Phase
from store.runtime.memory import MemoryRuntime
from tests.support.samples import run_of

RUN = run_of("test")
ACTIVITY = activity_id(RUN.id, "work")


class House:
    """A Runtime with one admitted Run."""

    def __init__(self, phase: Phase = Phase.READY) -> None:
        self.runtime = MemoryRuntime()
        self.epoch = self.runtime.claim("run-owner/0", "test")
        if phase is Phase.READY:
            self.do(admission(RUN, ["work"]))
        else:
            made = Create(machine=Machine.ACTIVITY, id=ACTIVITY, run_id=RUN.id, phase=phase, body="{}")
            self.do(Command(key=(Machine.ACTIVITY, ACTIVITY), creates=(made,)))

    def do(self, *commands: Command) -> list[Applied]:
        return all_good(self.runtime.apply(self.epoch, commands))

    def activity(self) -> Subject:
        subject = self.runtime.subject(Machine.ACTIVITY, ACTIVITY)
        assert subject is not None
        return subject

    def move(self, event: Event) -> None:
        now = self.activity()
        move = Move(machine=Machine.ACTIVITY, id=ACTIVITY, event=event, generation=now.generation, fence=now.fence)
        self.do(Command(moves=(move,)))

    def stands(self) -> tuple[Phase, int, int]:
        now = self.activity()
        return now.phase, now.generation, now.fence


def test_admission_makes_one_run_with_its_activities() -> None:
    house = House()
    run = house.runtime.subject(Machine.RUN, RUN.id)
    assert run is not None
    assert (run.phase, RunBody.load(run.body)) == (Phase.RUNNING, RUN)
    assert house.stands() == (Phase.READY, 1, 1)
    assert house.do(admission(RUN, ["work"])) == [Applied(replayed=True)]
    assert len(house.runtime.find(Machine.ACTIVITY)) == 1


def test_one_admission_key_has_one_specification() -> None:
    house = House()
    other = RUN.model_copy(update={"specification_digest": "0" * 64})
    assert other.id == RUN.id
    (answer,) = house.runtime.apply(house.epoch, [admission(other, ["work"])])
    assert isinstance(answer, IdentityConflictError)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], (Phase.RUNNING, 1, 1)),
        ([Event.LEASE], (Phase.RUNNING, 2, 2)),
        ([Event.LEASE, Event.BEGIN], (Phase.RUNNING, 2, 2)),
        ([Event.LEASE, Event.BEGIN, Event.EXPIRE], (Phase.RUNNING, 2, 2)),
        ([Event.LEASE, Event.BEGIN, Event.GRANT_COMMIT], (Phase.COMMITTING, 1, 1)),
        ([Event.LEASE, Event.BEGIN, Event.GRANT_COMMIT, Event.NO_COMMIT], (Phase.RUNNING, 2, 2)),
        ([Event.LEASE, Event.BEGIN, Event.GRANT_COMMIT, Event.COMMITTED], (Phase.COMMITTED, 1, 1)),
    ],
)
def test_a_lease_takes_over_whatever_was_left(before: list[Event], expected: tuple[Phase, int, int]) -> None:
    """An unfinished attempt is fenced off; an unresolved grant and finished work are left alone."""
    house = House()
    for event in before:
        house.move(event)
    house.do(*leases([house.activity()]))
    assert house.stands() == expected


def test_an_assignment_that_was_only_appended_is_bound_by_the_lease() -> None:
    house = House(Phase.AWAITING_ASSIGNMENT)
    house.do(*leases([house.activity()]))
    assert house.stands() == (Phase.RUNNING, 1, 1)


def test_of_two_that_lease_at_once_one_is_stale() -> None:
    house = House()
    house.do(*leases([house.activity()]))
    seen = house.activity()
    commands = leases([seen])
    house.do(*commands)
    (late,) = house.runtime.apply(house.epoch, commands)
    assert isinstance(late, StaleError)
    assert house.stands() == (Phase.RUNNING, 2, 2)


def test_leases_of_nothing() -> None:
    assert leases([]) == []


def test_completion_replays_and_a_failed_run_stays_failed() -> None:
    house = House()
    assert house.do(completion(RUN.id), completion(RUN.id)) == [Applied(replayed=False), Applied(replayed=True)]
    other = House()
    failing = (Event.BEGIN_FAILING, Event.FAILED)
    moves = tuple(Move(machine=Machine.RUN, id=RUN.id, event=event, generation=1, fence=1) for event in failing)
    other.do(Command(moves=moves))
    (answer,) = other.runtime.apply(other.epoch, [completion(RUN.id)])
    assert isinstance(answer, IllegalTransitionError)
