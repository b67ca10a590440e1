"""A worker's leases over the real owner: taken, kept, lost; and the names that drivers hold them under."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.leases import ATTEMPTS, LEASE_SECONDS, completion, expiries, later
from memory.leasing import Leasing
from memory.ports import all_good
from records.control import BudgetLimit, ControlCause
from records.errors import BudgetExceededError, StaleError, UnavailableError, VrmError
from records.ids import ActivityId
from records.runtime import Applied, Command, activity_id
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.stack import Stack, Stores
from tests.support.stack_control import commands
from tests.support.trials import NOW
from vrm.mainjob.driver import driver

HALF = LEASE_SECONDS / 2


class Desk:
    """Two workers before one Run with two Activities, and the time."""

    def __init__(self) -> None:
        self.stack = Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore("memory://desk")), "space")
        self.now = NOW
        self.run_id = self.stack.admit("study", "first", "second")
        self.ids: list[ActivityId] = [activity_id(self.run_id, slot) for slot in ("first", "second")]
        self.anna, self.berta = self.worker("anna"), self.worker("berta")

    def worker(self, holder: str) -> Leasing:
        return Leasing(self.stack.stores.runtime, self.stack.owner, lambda: self.now, holder)

    def wait(self, seconds: float) -> None:
        self.now = later(self.now, seconds)

    def fence(self, key: str) -> int:
        subject = self.stack.stores.runtime.subject(Machine.ACTIVITY, key)
        assert subject is not None
        return subject.fence


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_one_holds_the_other_is_refused(desk: Desk) -> None:
    first, second = desk.ids
    desk.anna.take([first]).require_all()
    taken = desk.berta.take(desk.ids)
    assert taken.held.keys() == {second}
    assert "anna" in taken.refused[first].value
    with pytest.raises(StaleError):
        taken.require_all()
    assert (desk.anna.held(first) is not None, desk.berta.held(first)) == (True, None)


def test_whoever_comes_back_waits_for_nothing(desk: Desk) -> None:
    desk.anna.take(desk.ids).require_all()
    again = desk.worker("anna").take(desk.ids)
    again.require_all()
    assert [subject.fence for subject in again.held.values()] == [2, 2]


def test_long_work_is_renewed_in_the_second_half(desk: Desk) -> None:
    desk.anna.take(desk.ids).require_all()
    before = desk.stack.state()
    desk.wait(HALF - 1)
    assert desk.anna.keep() == []
    assert desk.stack.state() == before, "nothing is due"
    for _ in range(6):
        desk.wait(HALF)
        assert desk.anna.keep() == []
        assert desk.berta.take(desk.ids).held == {}
    assert [desk.fence(key) for key in desk.ids] == [1, 1]


def test_what_was_lost_is_told_once(desk: Desk) -> None:
    first, second = desk.ids
    desk.anna.take(desk.ids).require_all()
    desk.wait(LEASE_SECONDS)
    desk.berta.take([first]).require_all()
    lost = desk.anna.keep()
    assert [error.field for error in lost] == [f"lease of {key}" for key in sorted(desk.ids)]
    assert desk.anna.keep() == []
    assert (desk.anna.held(first), desk.anna.held(second)) == (None, None)
    assert desk.fence(first) == 2


def test_what_is_finished_is_let_go(desk: Desk) -> None:
    first, _ = desk.ids
    desk.anna.take([first]).require_all()
    all_good(desk.stack.owner.apply([completion(desk.run_id, desk.anna.held(first))]))
    desk.wait(LEASE_SECONDS)
    assert desk.anna.keep() == []
    assert desk.anna.held(first) is None
    taken = desk.berta.take([first])
    assert (taken.held, taken.refused) == ({}, {})


def test_whoever_was_fenced_off_does_not_complete_the_run(desk: Desk) -> None:
    first, _ = desk.ids
    desk.anna.take([first]).require_all()
    desk.wait(LEASE_SECONDS)
    desk.berta.take([first]).require_all()
    (late,) = desk.stack.owner.apply([completion(desk.run_id, desk.anna.held(first))])
    assert isinstance(late, StaleError)
    all_good(desk.stack.owner.apply([completion(desk.run_id, desk.berta.held(first))]))


def test_a_lost_reply_is_no_lost_lease(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's call is made again, and the second answer is that the Activity moved on."""
    apply = desk.stack.owner.apply

    def twice(commands: Sequence[Command]) -> list[Applied | VrmError]:
        apply(commands)
        return apply(commands)

    monkeypatch.setattr(desk.stack.owner, "apply", twice)
    desk.anna.take(desk.ids).require_all()
    desk.wait(HALF)
    assert desk.anna.keep() == []
    assert [desk.fence(key) for key in desk.ids] == [1, 1]


def test_a_holder_that_may_not_try_again_holds_nothing(desk: Desk) -> None:
    """The attempt before the crash is still there, and nobody works on it."""
    first, _ = desk.ids
    desk.anna.take([first]).require_all()
    run = desk.stack.stores.runtime.subjects(Machine.RUN, [desk.run_id])[desk.run_id]
    commands(desk.stack).amend_budget(desk.run_id, [BudgetLimit(resource=ATTEMPTS, limit=1)], run.version)
    taken = desk.worker("anna").take([first])
    assert taken.held == {}
    assert isinstance(taken.refused[first], BudgetExceededError)


def test_nothing_is_taken_in_a_run_that_is_paused(desk: Desk) -> None:
    first, second = desk.ids
    desk.anna.take([first]).require_all()
    commands(desk.stack).pause_run(desk.run_id)
    desk.wait(HALF)
    assert desk.anna.keep() == []
    taken = desk.anna.take([second])
    assert (taken.held, taken.refused[second].field) == ({}, "run.phase")
    commands(desk.stack).resume_run(desk.run_id)
    desk.anna.take([second]).require_all()


def test_a_scanner_ends_what_is_over_whatever_the_run_does(desk: Desk) -> None:
    desk.anna.take(desk.ids).require_all()
    commands(desk.stack).fail_run(desk.run_id, ControlCause.INFRASTRUCTURE)
    desk.wait(LEASE_SECONDS)
    found = desk.stack.stores.runtime.find(Machine.ACTIVITY, [Phase.LEASED, Phase.RUNNING])
    all_good(desk.stack.owner.apply(expiries(found, desk.now)))
    assert {each.phase for each in desk.stack.stores.runtime.find(Machine.ACTIVITY)} == {Phase.READY}


class TestDrivers:
    def test_a_name_is_kept_and_two_that_live_have_two(self, tmp_path: Path) -> None:
        with driver(tmp_path / "drivers") as first, driver(tmp_path / "drivers") as second:
            assert first != second
        with driver(tmp_path / "drivers") as again:
            assert again == first
        with driver(tmp_path / "elsewhere") as other:
            assert other not in {first, second}

    def test_a_driver_that_was_killed_gets_its_name_back(self, tmp_path: Path) -> None:
        code = (
            "import os, signal, sys, pathlib; from vrm.mainjob.driver import driver\n"
            "with driver(pathlib.Path(sys.argv[1])) as name:\n"
            "    print(name, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
        )
        with driver(tmp_path) as again:
            assert again == done.stdout.strip() != ""

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(UnavailableError), driver(tmp_path / "file" / "drivers"):
            pass


def test_what_was_let_go_is_neither_renewed_nor_told_of(desk: Desk) -> None:
    first, second = desk.ids
    desk.anna.take(desk.ids).require_all()
    desk.anna.let_go([first, "unknown"])
    assert (desk.anna.held(first), desk.anna.held(second) is None) == (None, False)
    desk.wait(HALF)
    assert desk.anna.keep() == []
    desk.wait(HALF)
    assert desk.berta.take([first]).held.keys() == {first}, "its deadline is over, for nobody renewed it"
    assert desk.berta.take([second]).refused.keys() == {second}
