"""What every Runtime promises (store/runtime/port.py), checked on both adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from records.errors import (
    FencedError,
    IdentityConflictError,
    IllegalTransitionError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.ids import RunId
from records.runtime import Applied, Command, Create, Move, Require, Subject
from records.states import Event, Machine, Phase
from store.ledger.port import Epoch
from store.runtime.port import RuntimeStore
from tests.support.stores import fresh_namespace


@dataclass(frozen=True)
class Owner:
    store: RuntimeStore
    space: str
    epoch: Epoch

    @property
    def run(self) -> RunId:
        return RunId.derive({"space": self.space})

    def apply(self, *commands: Command) -> list[Applied | VrmError]:
        return self.store.apply(self.epoch, commands)

    def admit(self) -> Subject:
        assert self.apply(create(Machine.RUN, self.run, Phase.RUNNING)) == [Applied(replayed=False)]
        return self.get(Machine.RUN, self.run)

    def get(self, machine: Machine, subject_id: str) -> Subject:
        subject = self.store.subject(machine, subject_id)
        assert subject is not None
        return subject

    def name(self, text: str) -> str:
        return f"{self.space}:{text}"


@pytest.fixture
def owner(runtime: RuntimeStore) -> Owner:
    space = fresh_namespace()
    return Owner(runtime, space, runtime.claim(f"owner/{space}", "test"))


def create(machine: Machine, subject_id: str, phase: Phase, body: str = "{}", **more: Any) -> Command:
    made = Create(machine=machine, id=subject_id, run_id=None, phase=phase, body=body)
    return Command(key=(machine, subject_id), creates=(made,), **more)


def move(machine: Machine, subject_id: str, event: Event, **changes: Any) -> Move:
    fields: dict[str, Any] = {"machine": machine, "id": subject_id, "event": event, "generation": 1, "fence": 1}
    return Move(**(fields | changes))


def step(machine: Machine, subject_id: str, event: Event, to: Phase, **changes: Any) -> Command:
    return Command(key=(machine, subject_id), key_phase=to, moves=(move(machine, subject_id, event, **changes),))


class TestCreation:
    def test_new_subject_begins_at_one(self, owner: Owner) -> None:
        subject = owner.admit()
        assert (subject.phase, subject.version, subject.generation, subject.fence) == (Phase.RUNNING, 1, 1, 1)
        assert (subject.body, subject.facts) == ("{}", "{}")

    def test_again_is_a_replay(self, owner: Owner) -> None:
        before = owner.admit()
        assert owner.apply(create(Machine.RUN, owner.run, Phase.RUNNING)) == [Applied(replayed=True)]
        assert owner.get(Machine.RUN, owner.run) == before

    def test_another_body_is_a_conflict(self, owner: Owner) -> None:
        before = owner.admit()
        (answer,) = owner.apply(create(Machine.RUN, owner.run, Phase.RUNNING, '{"other":1}'))
        assert isinstance(answer, IdentityConflictError)
        assert owner.get(Machine.RUN, owner.run) == before

    def test_only_in_a_start_phase(self, owner: Owner) -> None:
        (answer,) = owner.apply(create(Machine.RUN, owner.run, Phase.COMPLETED))
        assert isinstance(answer, IllegalTransitionError)
        assert owner.store.subject(Machine.RUN, owner.run) is None

    def test_facts_given_at_creation(self, owner: Owner) -> None:
        made = Create(machine=Machine.RUN, id=owner.run, run_id=None, phase=Phase.RUNNING, body="{}", facts='{"a":1}')
        owner.apply(Command(key=(Machine.RUN, owner.run), creates=(made,)))
        assert owner.get(Machine.RUN, owner.run).facts == '{"a":1}'


class TestMoves:
    def test_moves_along_an_arrow_and_counts(self, owner: Owner) -> None:
        owner.admit()
        command = step(Machine.RUN, owner.run, Event.COMPLETE, Phase.COMPLETED, facts='{"done":true}')
        assert owner.apply(command) == [Applied(replayed=False)]
        subject = owner.get(Machine.RUN, owner.run)
        assert (subject.phase, subject.version, subject.facts) == (Phase.COMPLETED, 2, '{"done":true}')
        assert (subject.generation, subject.fence) == (1, 1)
        assert owner.apply(command) == [Applied(replayed=True)]
        assert owner.get(Machine.RUN, owner.run) == subject

    def test_illegal_arrow(self, owner: Owner) -> None:
        before = owner.admit()
        (answer,) = owner.apply(step(Machine.RUN, owner.run, Event.LEASE, Phase.LEASED))
        assert isinstance(answer, IllegalTransitionError)
        assert owner.get(Machine.RUN, owner.run) == before

    def test_subject_that_is_not_there(self, owner: Owner) -> None:
        (answer,) = owner.apply(step(Machine.RUN, owner.run, Event.FAILED, Phase.FAILED))
        assert isinstance(answer, NotFoundError)

    def test_end_of_an_attempt_raises_the_fence_and_refuses_the_old_one(self, owner: Owner) -> None:
        activity = owner.name("activity")
        owner.apply(create(Machine.ACTIVITY, activity, Phase.READY))
        owner.apply(step(Machine.ACTIVITY, activity, Event.LEASE, Phase.LEASED))
        owner.apply(step(Machine.ACTIVITY, activity, Event.EXPIRE, Phase.READY))
        subject = owner.get(Machine.ACTIVITY, activity)
        assert (subject.phase, subject.generation, subject.fence, subject.version) == (Phase.READY, 2, 2, 3)
        (answer,) = owner.apply(step(Machine.ACTIVITY, activity, Event.LEASE, Phase.LEASED))
        assert isinstance(answer, StaleError)
        assert owner.get(Machine.ACTIVITY, activity) == subject
        fresh = step(Machine.ACTIVITY, activity, Event.LEASE, Phase.LEASED, generation=2, fence=2)
        assert owner.apply(fresh) == [Applied(replayed=False)]

    @pytest.mark.parametrize("wrong", [{"generation": 2}, {"fence": 2}, {"generation": 0, "fence": 0}])
    def test_wrong_fence(self, owner: Owner, wrong: dict[str, int]) -> None:
        owner.admit()
        (answer,) = owner.apply(step(Machine.RUN, owner.run, Event.COMPLETE, Phase.COMPLETED, **wrong))
        assert isinstance(answer, StaleError)


class TestCommands:
    def test_all_or_nothing(self, owner: Owner) -> None:
        before = owner.admit()
        activity = owner.name("activity")
        command = Command(
            key=(Machine.ACTIVITY, activity),
            creates=(Create(machine=Machine.ACTIVITY, id=activity, run_id=owner.run, phase=Phase.READY, body="{}"),),
            moves=(move(Machine.RUN, owner.run, Event.COMPLETE), move(Machine.ACTIVITY, activity, Event.BEGIN)),
        )
        (answer,) = owner.apply(command)
        assert isinstance(answer, IllegalTransitionError)
        assert owner.store.subject(Machine.ACTIVITY, activity) is None
        assert owner.get(Machine.RUN, owner.run) == before

    def test_creates_and_moves_together(self, owner: Owner) -> None:
        owner.admit()
        activity = owner.name("activity")
        made = Create(machine=Machine.ACTIVITY, id=activity, run_id=owner.run, phase=Phase.READY, body="{}")
        command = Command(
            key=(Machine.ACTIVITY, activity),
            requires=(Require(machine=Machine.RUN, id=owner.run, phase=Phase.RUNNING, version=1),),
            creates=(made,),
            moves=(move(Machine.ACTIVITY, activity, Event.LEASE), move(Machine.ACTIVITY, activity, Event.BEGIN)),
        )
        assert owner.apply(command) == [Applied(replayed=False)]
        subject = owner.get(Machine.ACTIVITY, activity)
        assert (subject.phase, subject.version, subject.run_id) == (Phase.RUNNING, 3, owner.run)
        assert owner.apply(command) == [Applied(replayed=True)]

    def test_one_command_of_a_group_fails_alone(self, owner: Owner) -> None:
        owner.admit()
        one, two = owner.name("one"), owner.name("two")
        answers = owner.apply(
            create(Machine.ACTIVITY, one, Phase.READY),
            step(Machine.ACTIVITY, owner.name("none"), Event.LEASE, Phase.LEASED),
            create(Machine.ACTIVITY, two, Phase.READY),
        )
        assert [type(answer) for answer in answers] == [Applied, NotFoundError, Applied]
        assert len(owner.store.subjects(Machine.ACTIVITY, [one, two])) == 2

    def test_commands_of_a_group_see_each_other(self, owner: Owner) -> None:
        activity = owner.name("activity")
        answers = owner.apply(
            create(Machine.ACTIVITY, activity, Phase.READY),
            step(Machine.ACTIVITY, activity, Event.LEASE, Phase.LEASED),
            step(Machine.ACTIVITY, activity, Event.LEASE, Phase.LEASED),
            step(Machine.ACTIVITY, activity, Event.EXPIRE, Phase.READY),
            create(Machine.ACTIVITY, activity, Phase.READY),
        )
        assert answers == [Applied(replayed=flag) for flag in (False, False, True, False, True)]
        assert owner.get(Machine.ACTIVITY, activity).version == 3

    @pytest.mark.parametrize(
        ("changes", "error"),
        [({"phase": Phase.FAILED}, StaleError), ({"version": 2}, StaleError), ({"id": "absent"}, NotFoundError)],
    )
    def test_requires(self, owner: Owner, changes: dict[str, Any], error: type[VrmError]) -> None:
        owner.admit()
        require = Require(**({"machine": Machine.RUN, "id": str(owner.run), "phase": Phase.RUNNING} | changes))
        activity = owner.name("activity")
        (answer,) = owner.apply(create(Machine.ACTIVITY, activity, Phase.READY, requires=(require,)))
        assert isinstance(answer, error)
        assert owner.store.subject(Machine.ACTIVITY, activity) is None

    def test_empty_group(self, owner: Owner) -> None:
        assert owner.apply() == []

    def test_stale_epoch_aborts_the_group(self, owner: Owner) -> None:
        owner.store.claim(owner.epoch.resource, "successor")
        with pytest.raises(FencedError):
            owner.apply(create(Machine.RUN, owner.run, Phase.RUNNING))
        assert owner.store.subject(Machine.RUN, owner.run) is None


class TestReading:
    def test_find_by_phase_and_run(self, owner: Owner) -> None:
        owner.admit()
        names = sorted(owner.name(text) for text in ("c", "a", "b"))
        for name in names:
            made = Create(machine=Machine.ACTIVITY, id=name, run_id=owner.run, phase=Phase.READY, body="{}")
            owner.apply(Command(key=(Machine.ACTIVITY, name), creates=(made,)))
        owner.apply(step(Machine.ACTIVITY, names[1], Event.LEASE, Phase.LEASED))
        find = owner.store.find
        assert [item.id for item in find(Machine.ACTIVITY, run_id=owner.run)] == names
        assert [item.id for item in find(Machine.ACTIVITY, [Phase.READY], owner.run)] == [names[0], names[2]]
        assert [item.id for item in find(Machine.ACTIVITY, [Phase.READY, Phase.LEASED], owner.run)] == names
        assert find(Machine.ACTIVITY, [Phase.COMMITTED], owner.run) == []
        assert find(Machine.DECISION, run_id=owner.run) == []

    def test_subjects(self, owner: Owner) -> None:
        owner.admit()
        assert set(owner.store.subjects(Machine.RUN, [owner.run, "absent"])) == {str(owner.run)}
        assert owner.store.subjects(Machine.ACTIVITY, [owner.run]) == {}
        assert owner.store.subjects(Machine.RUN, []) == {}

    def test_phase_counts(self, owner: Owner) -> None:
        before = owner.store.phase_counts()
        owner.admit()
        after = owner.store.phase_counts()
        assert set(after) == {machine.value for machine in Machine}
        assert after["run"]["RUNNING"] == before["run"].get("RUNNING", 0) + 1
