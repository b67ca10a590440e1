"""`vrm runs` as a user gives it: listed, shown, paused, resumed, amended, stopped while decisions are open.

The oracle is the integrity check, and what the Runtime holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory.leases import LEASE_SECONDS, later
from memory.leasing import Leasing
from records.control import ControlCause, RunFacts
from records.errors import StaleError
from records.runtime import activity_id
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.contract.test_spine_authority import House
from tests.support.stack import Stores
from tests.support.stack_control import checked, commands, run_of
from tests.support.stores import expect, fresh_namespace
from tests.support.trials import NOW
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


@pytest.fixture
def house(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> House:
    return House(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace()).begin()


def vrm(house: House, *arguments: str) -> Answer:
    """Give a command over the stores and owners of a house."""

    @contextmanager
    def stores() -> Iterator[OpenStores]:
        yield house.stores

    joined = Connection(stores, list, lambda _: house.coordinator, lambda _: house.owner)
    result = CliRunner().invoke(app, ["runs", *arguments], obj=joined, env={"COLUMNS": "240", "NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def prefix(house: House) -> str:
    return str(house.run_id).partition(":")[2][:20]


def listed(house: House, *options: str) -> dict[str, Any]:
    runs = {each["id"]: each for each in vrm(house, "list", *options, "--json").json["runs"]}
    assert all(each["namespace"] for each in runs.values())
    return runs


class TestStopping:
    @pytest.mark.parametrize("fail", [False, True], ids=["cancel", "fail"])
    def test_paused_resumed_and_stopped_while_a_decision_is_open(self, house: House, fail: bool) -> None:
        house.opened()
        paused = vrm(house, "pause", prefix(house), "--reason", "the cluster is needed", "--json")
        assert (paused.code, paused.json["phase"]) == (0, "PAUSED")
        assert listed(house, "--phase", "paused")[house.run_id]["open"]["decision"] == {"OPEN": 1}
        assert vrm(house, "resume", prefix(house), "--json").json["phase"] == "RUNNING"
        given = ("fail", prefix(house), "--cause", "infrastructure") if fail else ("cancel", str(house.run_id))
        stopped = vrm(house, *given, "--reason", "enough", "--json")
        last = Phase.FAILED if fail else Phase.CANCELLED
        assert stopped.code == 0
        assert stopped.json == {
            "run": house.run_id, "effect": "APPLIED", "phase": last.value, "closed_decisions": 1, "open": [],
            "waits_for": None,
        }  # fmt: skip
        assert run_of(house, house.run_id).phase is last
        assert house.run_id not in listed(house)
        assert listed(house, "--all")[house.run_id]["open"].keys() <= {"activity"}
        assert checked(house).clean

    def test_it_goes_on_when_it_is_given_again(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        """A closure that cannot end says what is open, and what to do."""
        house.opened()
        apply = house.owner.apply
        busy = StaleError("run", "handoff 1 PENDING", "It is still open; close it before the Run ends.")
        monkeypatch.setattr(house.owner, "apply", lambda commands: [busy for _ in commands])
        first = vrm(house, "cancel", prefix(house), "--json")
        assert (first.code, first.json["phase"], first.json["waits_for"]) == (1, "CANCELLING", busy.as_dict())
        assert first.json["closed_decisions"] == 1
        text = vrm(house, "cancel", prefix(house))
        assert text.code == 1
        assert "It cannot end yet. run: handoff 1 PENDING. It is still open" in text.out
        monkeypatch.setattr(house.owner, "apply", apply)
        again = vrm(house, "cancel", prefix(house), "--json")
        assert (again.code, again.json["effect"], again.json["phase"]) == (0, "SUPPRESSED", "CANCELLED")
        assert (again.json["closed_decisions"], again.json["open"]) == (0, [])
        assert checked(house).clean

    def test_an_incident_and_a_second_failure_are_told(self, house: House) -> None:
        commands(house).fail_run(house.run_id, ControlCause.INTEGRITY, "first")
        second = vrm(house, "fail", prefix(house), "--cause", "contract", "--reason", "second", "--json")
        assert (second.json["effect"], second.json["phase"]) == ("RETAINED", "FAILED")
        shown = vrm(house, "show", prefix(house), "--json").json
        assert (shown["control"]["cause"], shown["control"]["detail"]) == ("INTEGRITY", "first")
        assert [(each["cause"], each["detail"]) for each in shown["secondary"]] == [("CONTRACT", "second")]
        assert shown["coverage"] is not None
        text = vrm(house, "show", prefix(house)).out
        assert "control: RUNTIME_FAILURE, INTEGRITY" in text
        assert "secondary evidence: RUNTIME_FAILURE, CONTRACT" in text
        other = house.admit("study-2", "decide")
        assert vrm(house, "cancel", other, "--incident", "--json").json["phase"] == "CANCELLED"
        assert vrm(house, "show", other, "--json").json["control"]["cause"] == "INCIDENT"

    def test_a_run_that_is_over_takes_no_command(self, house: House) -> None:
        vrm(house, "cancel", prefix(house))
        before = house.state()
        for given in (("pause",), ("resume",), ("cancel",), ("fail", "--cause", "integrity")):
            answer = vrm(house, given[0], prefix(house), *given[1:], "--json")
            assert (answer.code, answer.json["error"]) == (2, "IllegalTransitionError")
        assert house.state() == before


class TestBudget:
    def test_limits_are_set_and_hold(self, house: House) -> None:
        ids = [activity_id(house.run_id, "decide")]
        now = NOW
        anna = Leasing(house.stores.runtime, house.owner, lambda: now, "anna")
        anna.take(ids).require_all()
        answer = vrm(house, "budget", prefix(house), "activity_attempts=1", "model_tokens=1000", "--json")
        assert answer.code == 0
        lines = [{"resource": "activity_attempts", "limit": 1, "spent": 1},
                 {"resource": "model_tokens", "limit": 1000, "spent": 0}]  # fmt: skip
        assert answer.json["budget"] == lines
        assert listed(house)[house.run_id]["budget"] == lines
        (refused,) = anna.take(ids).refused.values()
        assert type(refused).__name__ == "BudgetExceededError"
        told = vrm(house, "budget", prefix(house), "activity_attempts=2")
        assert told.code == 0
        assert "activity_attempts: 1 spent, of 2" in told.out
        anna.take(ids).require_all()
        assert "activity_attempts 2 of 2" in vrm(house, "list").out

    def test_a_limit_below_what_is_spent(self, house: House) -> None:
        Leasing(house.stores.runtime, house.owner, lambda: NOW, "anna").take([activity_id(house.run_id, "decide")])
        before = house.state()
        answer = vrm(house, "budget", prefix(house), "activity_attempts=0", "--json")
        assert (answer.code, answer.json["error"]) == (2, "InvalidInputError")
        assert house.state() == before

    @pytest.mark.parametrize("limit", ["fits", "fits=", "fits=-1", "fits=1.5", "fits=²", "=3", "fits=" + "9" * 5000])
    def test_what_is_no_limit(self, house: House, limit: str) -> None:
        answer = vrm(house, "budget", prefix(house), limit, "--json")
        assert (answer.code, answer.json["error"]) in {(2, "InvalidInputError"), (2, "InvalidRecordError")}
        assert RunFacts.load(run_of(house, house.run_id).facts).budget == ()


class TestReading:
    def test_a_lease_is_shown_with_its_holder_and_deadline(self, house: House) -> None:
        Leasing(house.stores.runtime, house.owner, lambda: NOW, "anna").take([activity_id(house.run_id, "decide")])
        (activity,) = vrm(house, "show", prefix(house), "--json").json["activities"]
        until = later(NOW, LEASE_SECONDS)
        assert (activity["phase"], activity["holder"], activity["until"]) == ("RUNNING", "anna", until)
        assert f"anna until {until}" in vrm(house, "show", prefix(house)).out

    def test_a_control_event_whose_bytes_are_gone(self, house: House) -> None:
        control = expect(dict, vrm(house, "cancel", prefix(house), "--json").json)
        digest = vrm(house, "show", prefix(house), "--json").json["control"]["digest"]
        Path(house.stores.artifacts.location(digest)).unlink()
        assert control["phase"] == "CANCELLED"
        assert vrm(house, "show", prefix(house), "--json").json["control"] == {
            "kind": "CANCEL_EVENT", "digest": digest,
        }  # fmt: skip
        assert "its bytes are gone" in vrm(house, "show", prefix(house)).out

    @pytest.mark.parametrize(
        ("argument", "error"),
        [("f" * 64, "NotFoundError"), ("experience:1", "InvalidInputError"), ("x!", "InvalidInputError"),
         ("run:", "InvalidInputError"), ("a\0b", "InvalidInputError")],
    )  # fmt: skip
    @pytest.mark.parametrize("command", ["show", "pause", "cancel"])
    def test_what_names_no_run(self, house: House, command: str, argument: str, error: str) -> None:
        answer = vrm(house, command, argument, "--json")
        assert (answer.code, answer.json["error"]) == (2, error)

    def test_an_ambiguous_beginning(self, house: House) -> None:
        runs = {house.run_id, *(house.admit(f"study-{number}", "decide") for number in range(2, 19))}
        first = [str(each).partition(":")[2][0] for each in runs]
        shared = next(each for each in first if first.count(each) > 1)  # eighteen ids, sixteen digits
        answer = vrm(house, "show", shared, "--json")
        assert (answer.code, answer.json["error"]) == (2, "AmbiguousIdError")

    def test_phases_and_causes_have_names(self, house: House) -> None:
        assert vrm(house, "list", "--phase", "asleep", "--json").json["error"] == "InvalidInputError"
        answer = vrm(house, "fail", prefix(house), "--cause", "boredom", "--json")
        assert (answer.json["error"], answer.json["field"]) == ("InvalidInputError", "--cause")
        assert "contract, infrastructure, integrity" in answer.json["remedy"]
        assert run_of(house, house.run_id).phase is Phase.RUNNING
        assert house.stores.runtime.find(Machine.RUN, [Phase.FAILING], house.run_id) == []
