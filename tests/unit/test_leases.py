"""Runtime commands of every kind of work, carried out by the real engine."""

from __future__ import annotations

import pytest

from memory.leases import (
    ATTEMPTS,
    LEASE_SECONDS,
    admission,
    completion,
    expiries,
    is_expired,
    is_held,
    later,
    lease_of,
    leases,
    renewals,
    spending,
)
from memory.ports import all_good
from records.canonical import canonical_bytes
from records.control import BudgetLimit, BudgetLine, RunFacts
from records.errors import (
    BudgetExceededError,
    IdentityConflictError,
    IllegalTransitionError,
    InvalidRecordError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.ids import RunId
from records.runtime import ActivityFacts, Applied, Command, Create, Lease, Move, RunBody, Subject, activity_id
from records.states import Event, Machine, Phase
from store.runtime.memory import MemoryRuntime
from tests.support.samples import run_of
from tests.support.stores import expect

RUN = run_of("test")
ACTIVITY = activity_id(RUN.id, "work")
NOW = "2026-01-01T12:00:00.000000Z"
UNTIL = "2026-01-01T12:15:00.000000Z"
JUST_BEFORE = "2026-01-01T12:14:59.999999Z"


class House:
    """A Runtime with one admitted Run."""

    def __init__(self, phase: Phase = Phase.READY, budget: tuple[BudgetLimit, ...] = ()) -> None:
        self.runtime = MemoryRuntime()
        self.epoch = self.runtime.claim("run-owner/0", "test")
        self.do(admission(RUN, ["work"] if phase is Phase.READY else [], budget))
        if phase is not Phase.READY:
            made = Create(machine=Machine.ACTIVITY, id=ACTIVITY, run_id=RUN.id, phase=phase, body="{}")
            self.do(Command(key=(Machine.ACTIVITY, ACTIVITY), creates=(made,)))

    def do(self, *commands: Command | VrmError) -> list[Applied]:
        return all_good(self.runtime.apply(self.epoch, all_good(commands)))

    def refused(self, command: Command | VrmError) -> VrmError:
        """Return why a command is refused, after seeing that it changed nothing."""
        before = dict(self.runtime._subjects)
        (answer,) = self.runtime.apply(self.epoch, all_good([command]))
        assert self.runtime._subjects == before
        refused: VrmError = expect(VrmError, answer)
        return refused

    def lease(self, holder: str = "anna", now: str = NOW) -> Command | StaleError:
        return leases([self.activity()], holder, now)[ACTIVITY]

    def renew(self, holder: str, now: str) -> Command | StaleError:
        return renewals([self.activity()], holder, now)[ACTIVITY]

    def activity(self) -> Subject:
        activity: Subject = expect(Subject, self.runtime.subject(Machine.ACTIVITY, ACTIVITY))
        return activity

    def run(self) -> Subject:
        run: Subject = expect(Subject, self.runtime.subject(Machine.RUN, RUN.id))
        return run

    def spent(self) -> dict[str, int]:
        return {line.resource: line.spent for line in RunFacts.load(self.run().facts).budget}

    def move(self, event: Event, machine: Machine = Machine.ACTIVITY) -> None:
        now = self.activity() if machine is Machine.ACTIVITY else self.run()
        self.do(
            Command(moves=(Move(machine=machine, id=now.id, event=event, generation=now.generation, fence=now.fence),))
        )

    def stands(self) -> tuple[Phase, int, int]:
        now = self.activity()
        return now.phase, now.generation, now.fence


def test_admission_makes_one_run_with_its_activities() -> None:
    house = House()
    run = house.run()
    assert (run.phase, RunBody.load(run.body)) == (Phase.RUNNING, RUN)
    assert house.stands() == (Phase.READY, 1, 1)
    assert house.do(admission(RUN, ["work"])) == [Applied(replayed=True)]
    assert len(house.runtime.find(Machine.ACTIVITY)) == 1


def test_one_admission_key_has_one_specification() -> None:
    house = House()
    other = RUN.model_copy(update={"specification_digest": "0" * 64})
    assert other.id == RUN.id
    assert isinstance(house.refused(admission(other, ["work"])), IdentityConflictError)


class TestLeases:
    @pytest.mark.parametrize(
        ("before", "expected"),
        [
            ([], (Phase.RUNNING, 1, 1)),
            ([Event.LEASE], (Phase.RUNNING, 2, 2)),
            ([Event.LEASE, Event.BEGIN], (Phase.RUNNING, 2, 2)),
            ([Event.LEASE, Event.BEGIN, Event.EXPIRE], (Phase.RUNNING, 2, 2)),
            ([Event.LEASE, Event.BEGIN, Event.GRANT_COMMIT, Event.NO_COMMIT], (Phase.RUNNING, 2, 2)),
        ],
    )
    def test_an_attempt_without_a_deadline_is_taken_over(
        self, before: list[Event], expected: tuple[Phase, int, int]
    ) -> None:
        """It is of a time before deadlines; whoever still works on it is fenced off."""
        house = House()
        for event in before:
            house.move(event)
        house.do(house.lease())
        assert house.stands() == expected
        assert lease_of(house.activity()) == Lease(holder="anna", until=UNTIL)

    @pytest.mark.parametrize("end", [(), (Event.COMMITTED,)])
    def test_a_grant_and_finished_work_are_left_alone(self, end: tuple[Event, ...]) -> None:
        house = House()
        house.do(house.lease())
        for event in (Event.GRANT_COMMIT, *end):
            house.move(event)
        assert leases([house.activity()], "berta", UNTIL) == {}
        assert not is_expired(house.activity(), UNTIL)
        assert expiries([house.activity()], UNTIL) == []
        assert lease_of(house.activity()) is None

    def test_nobody_elses_before_its_deadline(self) -> None:
        house = House()
        house.do(house.lease("anna"))
        refused = expect(StaleError, house.lease("berta", JUST_BEFORE))
        assert "anna" in refused.value
        assert UNTIL in refused.value
        assert not is_held(house.activity(), "berta")
        house.do(house.lease("berta", UNTIL))
        assert house.stands() == (Phase.RUNNING, 2, 2)
        assert is_held(house.activity(), "berta")

    def test_its_own_holder_takes_it_anew_and_waits_for_nothing(self) -> None:
        """What the crashed attempt still sends is refused by its fence."""
        house = House()
        house.do(house.lease("anna"))
        before = house.activity()
        house.do(house.lease("anna", later(NOW, 1)))
        assert house.stands() == (Phase.RUNNING, 2, 2)
        late = Move(machine=Machine.ACTIVITY, id=ACTIVITY, event=Event.GRANT_COMMIT,
                    generation=before.generation, fence=before.fence)  # fmt: skip
        assert isinstance(house.refused(Command(moves=(late,))), StaleError)

    def test_an_assignment_that_was_only_appended_is_bound_by_the_lease(self) -> None:
        house = House(Phase.AWAITING_ASSIGNMENT)
        house.do(house.lease())
        assert house.stands() == (Phase.RUNNING, 1, 1)

    def test_of_two_that_lease_at_once_one_is_stale(self) -> None:
        house = House()
        first, second = house.lease("anna"), house.lease("berta")
        house.do(first)
        assert isinstance(house.refused(second), StaleError)
        assert is_held(house.activity(), "anna")
        assert house.spent() == {ATTEMPTS: 1}

    @pytest.mark.parametrize("event", [Event.PAUSE, Event.CANCEL, Event.BEGIN_FAILING])
    @pytest.mark.parametrize("phase", [Phase.READY, Phase.AWAITING_ASSIGNMENT])
    def test_only_in_a_run_that_is_running(self, phase: Phase, event: Event) -> None:
        house = House(phase)
        command = house.lease()
        house.move(event, Machine.RUN)
        refused = house.refused(command)
        assert isinstance(refused, StaleError)
        assert refused.field == "run.phase"

    def test_what_was_granted_before_is_remembered(self) -> None:
        house = House()
        known = {"authorization": f"authorization:{'a' * 64}"}
        house.runtime._subjects[Machine.ACTIVITY, ACTIVITY] = house.activity().model_copy(
            update={"facts": canonical_bytes(known).decode()}
        )
        house.do(house.lease())
        facts = ActivityFacts.load(house.activity().facts)
        assert (facts.authorization, facts.lease) == (known["authorization"], Lease(holder="anna", until=UNTIL))

    def test_leases_of_nothing(self) -> None:
        assert leases([], "anna", NOW) == {}

    @pytest.mark.parametrize("holder", ["", "x" * 201])
    def test_a_holder_has_a_name(self, holder: str) -> None:
        with pytest.raises(InvalidRecordError):
            House().lease(holder)


class TestRenewal:
    def test_the_holder_extends_before_the_deadline(self) -> None:
        house = House()
        house.do(house.lease())
        house.do(house.renew("anna", JUST_BEFORE))
        assert house.stands() == (Phase.RUNNING, 1, 1)
        assert lease_of(house.activity()) == Lease(holder="anna", until="2026-01-01T12:29:59.999999Z")
        assert house.spent() == {ATTEMPTS: 1}

    @pytest.mark.parametrize(("holder", "now"), [("berta", NOW), ("anna", UNTIL)])
    def test_nobody_else_and_not_later(self, holder: str, now: str) -> None:
        house = House()
        house.do(house.lease())
        assert isinstance(house.renew(holder, now), StaleError)

    @pytest.mark.parametrize("events", [(), (Event.LEASE, Event.BEGIN, Event.EXPIRE)])
    def test_not_of_what_nobody_holds(self, events: tuple[Event, ...]) -> None:
        house = House()
        for event in events:
            house.move(event)
        assert isinstance(house.renew("anna", NOW), StaleError)

    def test_a_pause_takes_no_lease_away(self) -> None:
        house = House()
        house.do(house.lease())
        house.move(Event.PAUSE, Machine.RUN)
        house.do(house.renew("anna", JUST_BEFORE))
        assert is_held(house.activity(), "anna")


class TestExpiry:
    def test_what_is_over_is_ended_and_free_for_all(self) -> None:
        house = House()
        house.do(house.lease())
        assert expiries([house.activity()], JUST_BEFORE) == []
        house.do(*expiries([house.activity()], UNTIL))
        assert house.stands() == (Phase.READY, 2, 2)
        assert ActivityFacts.load(house.activity().facts).lease is None
        house.do(house.lease("berta"))
        assert house.stands() == (Phase.RUNNING, 2, 2)

    def test_a_renewal_meanwhile_is_not_overlooked(self) -> None:
        """Neither by who ends what is over, nor by who takes it over."""
        house = House()
        house.do(house.lease())
        ended, taken, renewed = (
            expiries([house.activity()], UNTIL)[0],
            house.lease("berta", UNTIL),
            house.renew("anna", JUST_BEFORE),
        )
        house.do(renewed)
        assert isinstance(house.refused(ended), StaleError)
        assert isinstance(house.refused(taken), StaleError)

    @pytest.mark.parametrize("seconds", [0.000001, 1.0, LEASE_SECONDS, 86_400.0 * 400])
    def test_times_are_ordered_as_their_text(self, seconds: float) -> None:
        assert NOW < later(NOW, seconds) == later(later(NOW, seconds), 0)
        assert later(NOW, LEASE_SECONDS) == UNTIL


class TestBudget:
    LIMITS = (BudgetLimit(resource="model_tokens", limit=100), BudgetLimit(resource=ATTEMPTS, limit=2))

    def test_a_run_begins_with_its_envelope(self) -> None:
        house = House(budget=self.LIMITS)
        assert RunFacts.load(house.run().facts).budget == (
            BudgetLine(resource=ATTEMPTS, limit=2),
            BudgetLine(resource="model_tokens", limit=100),
        )
        assert House().run().facts == "{}"

    def test_each_lease_is_charged_one_attempt(self) -> None:
        house = House(budget=self.LIMITS)
        house.do(house.lease("anna", NOW))
        house.do(house.lease("berta", UNTIL))
        assert house.spent() == {ATTEMPTS: 2, "model_tokens": 0}
        error = house.refused(house.lease("carla", "2026-01-02T00:00:00.000000Z"))
        assert isinstance(error, BudgetExceededError)
        assert error.field == f"budget.{ATTEMPTS}"
        assert error.value == "limit 2, spent 2, asked 1"
        assert str(RUN.id) in error.remedy
        assert is_held(house.activity(), "berta")

    def test_what_has_no_limit_is_counted(self) -> None:
        house = House()
        for hour in range(3):
            house.do(house.lease("anna", f"2026-01-01T{hour:02d}:00:00.000000Z"))
        assert RunFacts.load(house.run().facts).budget == (BudgetLine(resource=ATTEMPTS, limit=None, spent=3),)

    def test_a_charge_is_made_once_for_what_it_is_for(self) -> None:
        house = House(budget=self.LIMITS)
        asked = spending(RUN.id, "call-1", {"model_tokens": 60, "experiments": 1})
        assert house.do(asked, asked) == [Applied(replayed=False), Applied(replayed=True)]
        version = house.run().version
        assert house.spent() == {ATTEMPTS: 0, "experiments": 1, "model_tokens": 60}
        assert house.do(asked) == [Applied(replayed=True)]
        assert house.run().version == version
        error = house.refused(spending(RUN.id, "call-2", {"experiments": 1, "model_tokens": 41}))
        assert isinstance(error, BudgetExceededError)
        house.do(spending(RUN.id, "call-2", {"model_tokens": 40}))
        assert house.spent()["model_tokens"] == 100

    def test_one_key_has_one_amount(self) -> None:
        house = House()
        house.do(spending(RUN.id, "call-1", {"model_tokens": 60}))
        assert isinstance(house.refused(spending(RUN.id, "call-1", {"model_tokens": 61})), IdentityConflictError)

    @pytest.mark.parametrize("event", [Event.PAUSE, Event.CANCEL, Event.COMPLETE])
    def test_only_a_run_that_is_running_is_charged(self, event: Event) -> None:
        house = House()
        known, fresh = (spending(RUN.id, key, {"model_tokens": 1}) for key in ("known", "fresh"))
        house.do(known)
        house.move(event, Machine.RUN)
        assert isinstance(house.refused(fresh), StaleError)
        assert house.do(known) == [Applied(replayed=True)], "it was charged before"

    def test_a_charge_names_a_run_and_an_amount(self) -> None:
        house = House()
        nowhere = RunId.derive({"never": "admitted"})
        assert isinstance(house.refused(spending(nowhere, "call-1", {"model_tokens": 1})), NotFoundError)
        for amount in (0, -1):
            with pytest.raises(InvalidRecordError):
                spending(RUN.id, "call-1", {"model_tokens": amount})

    def test_a_command_is_charged_whole_or_not_at_all(self) -> None:
        """The move of a command whose charge is refused does not take place, and neither does the other way round."""
        house = House(budget=(BudgetLimit(resource=ATTEMPTS, limit=0),))
        assert isinstance(house.refused(house.lease()), BudgetExceededError)
        assert house.stands() == (Phase.READY, 1, 1)
        free = House()
        command = expect(Command, free.lease())
        wrong = command.model_copy(update={"moves": (*command.moves, command.moves[-1])})
        assert isinstance(free.refused(wrong), IllegalTransitionError)
        assert free.spent() == {}


def test_completion_replays_and_a_failed_run_stays_failed() -> None:
    house = House()
    assert house.do(completion(RUN.id), completion(RUN.id)) == [Applied(replayed=False), Applied(replayed=True)]
    other = House()
    for event in (Event.BEGIN_FAILING, Event.FAILED):
        other.move(event, Machine.RUN)
    assert isinstance(other.refused(completion(RUN.id)), IllegalTransitionError)
