"""Control events as the run owner takes them, and what closure may not rest on (spec 6.3, 9.7).

Every refusal leaves both stores as they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from records.control import (
    BudgetLimit,
    ControlCause,
    ControlEffect,
    ControlEvent,
    ControlKind,
    Controlled,
    RunFacts,
)
from records.errors import (
    CommitArbitrationBusyError,
    IdentityConflictError,
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.ids import IntentId, RunId
from records.runtime import Applied, Authorization, Command, Move, RunBody, activity_id
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.contract.test_spine_authority import House
from tests.support.stack import Stores
from tests.support.stack_control import checked, closure, commands, run_of
from tests.support.stores import expect, fresh_namespace
from tests.support.trials import NOW, digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def house(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> House:
    return House(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace()).begin()


def event(house: House, kind: ControlKind = ControlKind.CANCEL_EVENT, **changes: Any) -> ControlEvent:
    cause = ControlCause.INFRASTRUCTURE if kind is ControlKind.RUNTIME_FAILURE else ControlCause.COMMAND
    fields = {
        "namespace": house.namespace,
        "run_id": house.run_id,
        "kind": kind,
        "cause": cause,
        "detail": "",
        "at": NOW,
    }
    return ControlEvent(**(fields | changes))


def give(house: House, given: ControlEvent) -> Any:
    """Publish an event and hand it to the owner."""
    return house.owner.control([house.stores.artifacts.publish(given.canonical)])[0]


def taken(house: House, given: ControlEvent) -> tuple[ControlEffect, Phase]:
    answer = expect(Controlled, give(house, given))
    return answer.effect, answer.phase


class TestDriveRun:
    def test_a_run_is_admitted_once_with_its_envelope(self, house: House) -> None:
        body, control = house.body("study-2"), commands(house)
        limits = [BudgetLimit(resource="tokens", limit=1000), BudgetLimit(resource="fits", limit=5)]
        assert control.drive_run(body, ["first", "second"], limits) == Applied(replayed=False)
        run = run_of(house, body.id)
        assert (run.phase, RunBody.load(run.body)) == (Phase.RUNNING, body)
        lines = [(line.resource, line.limit, line.spent) for line in RunFacts.load(run.facts).budget]
        assert lines == [("fits", 5, 0), ("tokens", 1000, 0)]
        activities = {each.id: each.phase for each in house.stores.runtime.find(Machine.ACTIVITY, run_id=body.id)}
        assert activities == {activity_id(body.id, slot): Phase.READY for slot in ("first", "second")}

    def test_the_same_again_is_a_replay_and_another_specification_a_conflict(self, house: House) -> None:
        body, control = house.body("study-2"), commands(house)
        control.drive_run(body, ["work"])
        control.pause_run(body.id)
        before = house.state()
        limits = [BudgetLimit(resource="fits", limit=5)]
        assert control.drive_run(body, ["work"], limits) == Applied(replayed=True)
        other = body.model_copy(update={"specification_digest": "0" * 64})
        assert other.id == body.id
        with pytest.raises(IdentityConflictError):
            control.drive_run(other, ["work"])
        assert house.state() == before

    def test_several_are_admitted_together(self, house: House) -> None:
        bodies = [house.body(f"study-{number}") for number in (1, 2, 3)]
        answers = commands(house).drive_runs(bodies, ["work"])
        assert [answer.replayed for answer in answers] == [True, False, False]


class TestPause:
    def test_busy_while_a_grant_is_unresolved(self, house: House) -> None:
        intent = house.opened()
        granted = expect(Authorization, house.grant(house.closing(intent)))
        before = house.state()
        refused = expect(CommitArbitrationBusyError, give(house, event(house, ControlKind.PAUSE)))
        assert refused.value == str(granted.id)
        assert house.state() == before, "neither phase nor fence nor anything else"
        house.recover()
        assert taken(house, event(house, ControlKind.PAUSE)) == (ControlEffect.APPLIED, Phase.PAUSED)

    def test_another_runs_grant_is_no_reason(self, house: House) -> None:
        house.grant(house.closing(house.opened()))
        other = house.admit("study-2", "decide")
        assert commands(house).pause_run(other).phase is Phase.PAUSED

    def test_nothing_is_granted_until_it_is_resumed(self, house: House) -> None:
        intent = house.opened()
        control = commands(house)
        control.pause_run(house.run_id)
        before = house.state()
        assert isinstance(house.grant(house.closing(intent)), StaleError)
        assert isinstance(house.owner.apply([closing_move(house, Event.COMPLETE)])[0], VrmError)
        with pytest.raises(IllegalTransitionError):
            control.pause_run(house.run_id)
        assert house.state() == before
        assert control.resume_run(house.run_id).phase is Phase.RUNNING
        (receipt,) = house.spine.carry([house.closing(intent)])
        assert not isinstance(receipt, VrmError)
        assert receipt.committed

    def test_a_late_copy_does_not_pause_again(self, house: House) -> None:
        pause = event(house, ControlKind.PAUSE)
        taken(house, pause)
        assert taken(house, pause) == (ControlEffect.REPLAYED, Phase.PAUSED)
        resume = event(house, ControlKind.RESUME)
        taken(house, resume)
        before = house.state()
        assert taken(house, pause) == (ControlEffect.REPLAYED, Phase.RUNNING)
        assert taken(house, resume) == (ControlEffect.REPLAYED, Phase.RUNNING)
        assert house.state() == before

    def test_a_paused_run_is_cancelled(self, house: House) -> None:
        house.opened()
        commands(house).pause_run(house.run_id)
        commands(house).cancel_run(house.run_id)
        assert closure(house).close(house.run_id) is Phase.CANCELLED
        assert checked(house).clean


class TestArbitration:
    """One primary control event: the first (spec 9.7)."""

    def test_cancel_first(self, house: House) -> None:
        intent = house.opened()
        first = event(house)
        assert taken(house, first) == (ControlEffect.APPLIED, Phase.CANCELLING)
        before = house.state()
        again = event(house, at="2026-01-01T00:00:00.000000Z")
        failed = event(
            house,
            ControlKind.RUNTIME_FAILURE,
            cause=ControlCause.ACTOR_INVOCATION_FAILED,
            intent_id=IntentId(intent.id),
        )
        assert taken(house, first) == (ControlEffect.REPLAYED, Phase.CANCELLING)
        for later in (again, failed):
            answer = give(house, later)
            assert answer == Controlled(ControlEffect.SUPPRESSED, Phase.CANCELLING, first.ref)
        assert house.state() == before

    def test_a_failure_of_its_own_takes_over(self, house: House) -> None:
        house.opened()
        first, failure = event(house), event(house, ControlKind.RUNTIME_FAILURE, cause=ControlCause.INTEGRITY)
        taken(house, first)
        assert taken(house, failure) == (ControlEffect.APPLIED, Phase.FAILING)
        facts = RunFacts.load(run_of(house, house.run_id).facts)
        assert (facts.control, facts.superseded) == (failure.ref, first.ref)
        for late in (first, failure):
            assert taken(house, late) == (ControlEffect.REPLAYED, Phase.FAILING)
        assert closure(house).close(house.run_id) is Phase.FAILED
        assert checked(house).clean

    def test_failure_first(self, house: House) -> None:
        failure = event(house, ControlKind.RUNTIME_FAILURE)
        assert taken(house, failure) == (ControlEffect.APPLIED, Phase.FAILING)
        before = house.state()
        assert give(house, event(house)) == Controlled(ControlEffect.SUPPRESSED, Phase.FAILING, failure.ref)
        assert house.state() == before

    def test_a_second_failure_of_its_own_is_secondary_evidence(self, house: House) -> None:
        house.opened()
        first = event(house, ControlKind.RUNTIME_FAILURE)
        second = event(house, ControlKind.RUNTIME_FAILURE, cause=ControlCause.CONTRACT)
        taken(house, first)
        assert give(house, second) == Controlled(ControlEffect.RETAINED, Phase.FAILING, first.ref)
        before = house.state()
        assert give(house, second) == Controlled(ControlEffect.REPLAYED, Phase.FAILING, first.ref)
        assert house.state() == before
        assert closure(house).close(house.run_id) is Phase.FAILED
        facts = RunFacts.load(run_of(house, house.run_id).facts)
        assert (facts.control, facts.secondary) == (first.ref, (second.ref,))
        assert checked(house).clean

    def test_a_run_that_is_over_takes_nothing(self, house: House) -> None:
        first = event(house)
        taken(house, first)
        closure(house).close(house.run_id)
        before = house.state()
        assert taken(house, first) == (ControlEffect.REPLAYED, Phase.CANCELLED)
        kinds = set(ControlKind) - {ControlKind.AMEND_BUDGET}
        for kind in sorted(kinds):
            late = event(house, kind, at="2026-01-01T00:00:00.000000Z")
            assert isinstance(give(house, late), IllegalTransitionError), kind
        assert house.state() == before


class TestBudget:
    def test_limits_are_set_for_the_version_that_was_read(self, house: House) -> None:
        control = commands(house)
        version = run_of(house, house.run_id).version
        limits = [BudgetLimit(resource="tokens", limit=1000), BudgetLimit(resource="fits", limit=5)]
        control.amend_budget(house.run_id, limits, version)
        run = run_of(house, house.run_id)
        assert (run.phase, run.version) == (Phase.RUNNING, version + 1)
        lines = [(line.resource, line.limit, line.spent) for line in RunFacts.load(run.facts).budget]
        assert lines == [("fits", 5, 0), ("tokens", 1000, 0)]
        before = house.state()
        with pytest.raises(StaleError):
            control.amend_budget(house.run_id, limits, version)
        assert house.state() == before


def closing_move(house: House, moved: Event) -> Command:
    return Command(moves=(Move(machine=Machine.RUN, id=house.run_id, event=moved, generation=1, fence=1),))


class TestForeignEvents:
    def test_only_a_published_event_controls_a_run(self, house: House) -> None:
        before = house.state()
        steps = (Event.PAUSE, Event.RESUME, Event.CANCEL, Event.BEGIN_FAILING, Event.AMEND_BUDGET, Event.RETAIN)
        for moved in steps:
            assert isinstance(house.owner.apply([closing_move(house, moved)])[0], InvalidInputError), moved
        for moved in (Event.CANCELLED, Event.FAILED):
            assert isinstance(house.owner.apply([closing_move(house, moved)])[0], IllegalTransitionError), moved
        assert house.state() == before

    def test_what_is_no_event_of_this_run(self, house: House) -> None:
        publish, own = house.stores.artifacts.publish, event(house)
        other = House(house.stores, fresh_namespace()).begin()
        house = House(house.stores, house.namespace)
        house.run_id = own.run_id
        before = house.state(), other.state()
        wrong = [
            (digest("never published"), NotFoundError),
            (publish(event(house, run_id=RunId.derive({"never": "admitted"})).canonical), NotFoundError),
            (publish(event(house, namespace=other.namespace).canonical), IntegrityError),
            (publish(event(house, run_id=other.run_id).canonical), IntegrityError),
            (publish(own.canonical + b" "), IntegrityError),
            (publish(b'{"kind":"CANCEL_EVENT"}'), InvalidInputError),
            (publish(own.canonical.replace(b"COMMAND", b"INTEGRITY")), InvalidInputError),
        ]
        for key, error in wrong:
            assert isinstance(house.owner.control([key])[0], error), error
        assert (house.state(), other.state()) == before

    def test_its_neighbours_in_the_group_take_effect(self, house: House) -> None:
        key = house.stores.artifacts.publish(event(house).canonical)
        first, second, third = house.owner.control([digest("never published"), key, key])
        assert isinstance(first, NotFoundError)
        assert expect(Controlled, second).effect is ControlEffect.APPLIED
        assert expect(Controlled, third).effect is ControlEffect.REPLAYED

    def test_an_unknown_run_gets_no_command(self, house: House) -> None:
        with pytest.raises(NotFoundError):
            commands(house).cancel_run(RunId.derive({"never": "admitted"}))
