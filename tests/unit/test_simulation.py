"""The simulation of the write path: it finds nothing in the product, it replays, and it finds every planted bug."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.simulation import simulate
from evaluation.simulation.beginnings import Begins
from evaluation.simulation.faults import Fate, Fault, Step
from evaluation.simulation.planted import PLANTED
from evaluation.simulation.schedule import Schedule, Verdict, run_seed
from evaluation.simulation.strands import Gone, Strand
from evaluation.simulation.world import Parts
from records.errors import InvalidInputError
from records.flows import Transition
from records.outcomes import NoCommitReason
from vrm.cli.app import app

ROOT = Path(__file__).parents[2]
STEP = Step("port", "method", "something")


def told(verdict: Verdict) -> str:
    return "\n".join(verdict.lines())


def fingerprint(seeds: range) -> str:
    """Return one digest over the histories of some seeds."""
    text = "\n".join(told(run_seed(seed)) for seed in seeds)
    return hashlib.sha256(text.encode()).hexdigest()


class TestTheProduct:
    def test_no_schedule_finds_anything(self) -> None:
        for seed in range(120):
            verdict = run_seed(seed)
            assert not verdict.violations, told(verdict)

    @pytest.mark.slow
    def test_nor_do_more_of_them(self) -> None:
        for seed in range(10_000, 10_400):
            verdict = run_seed(seed)
            assert not verdict.violations, told(verdict)

    def test_the_schedules_reach_what_they_are_for(self) -> None:
        faults: Counter[str] = Counter()
        reasons: set[NoCommitReason | None] = set()
        begun, moved = set(), 0
        met, transitions = set[str](), set[Transition]()
        for seed in range(50, 300):
            schedule = Schedule(seed, Parts())
            verdict = schedule.run()
            faults.update(verdict.faults)
            met |= {event.who.split()[0] for event in verdict.history}
            content = schedule._world.ledger.content
            reasons |= {receipt.reason for receipt in content.receipts.values()}
            transitions |= {receipt.transition for receipt in content.receipts.values()}
            moved += sum(head.version for head in content.variants.values())
            begun.add(schedule._cast.begins)
        assert faults.keys() == {fault.name for fault in Fault}
        assert begun == set(Begins)
        assert moved
        assert reasons >= {
            None,
            NoCommitReason.PRECONDITION_CONFLICT,
            NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED,
            NoCommitReason.LIFECYCLE_HEAD_STALE,
            NoCommitReason.RETENTION_REVOKED,
        }
        assert {Transition.ABANDON_ENQUEUE, Transition.BEGIN_ERASURE, Transition.CLOSE_ERASURE} <= transitions
        assert met >= {"abandoner", "collector", "controller", "eraser", "releaser", "resumer", "retirer"}


class TestReplay:
    def test_the_same_seed_has_the_same_history(self) -> None:
        for seed in range(40):
            first, second = run_seed(seed), run_seed(seed)
            assert told(first) == told(second)
            assert first.faults == second.faults

    def test_other_seeds_have_other_histories(self) -> None:
        assert len({told(run_seed(seed)) for seed in range(20)}) == 20

    def test_another_process_with_another_hash_order_has_the_same_histories(self) -> None:
        wanted = fingerprint(range(12))
        code = "from tests.unit.test_simulation import fingerprint; print(fingerprint(range(12)))"
        for order in ("1", "2"):
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=True,
                cwd=ROOT,
                env=os.environ | {"PYTHONHASHSEED": order, "PYTHONPATH": str(ROOT)},
            )
            assert done.stdout.strip() == wanted

    def test_a_failing_seed_tells_its_numbered_steps_and_what_was_found(self) -> None:
        found = simulate.simulate_planted("settle-before-commit", range(3))
        assert found["violations"] == 3
        assert found["failing_seeds"] == [0, 1, 2]
        lines = found["histories"][0]
        assert lines[0].split()[0] == "1"
        assert any("run owner.grant" in line for line in lines)
        assert lines[-1].startswith("      VIOLATION authorization")
        assert lines == simulate.history(0, "settle-before-commit")


class TestPlantedBugs:
    def test_there_are_enough(self) -> None:
        assert len(PLANTED) >= 10

    @pytest.mark.parametrize("name", PLANTED)
    def test_each_is_caught(self, name: str) -> None:
        seeds = range(simulate.PATIENCE)
        caught = next((seed for seed in seeds if run_seed(seed, PLANTED[name].parts).violations), None)
        assert caught is not None
        assert run_seed(caught, PLANTED[name].parts).violations
        assert not run_seed(caught).violations


class TestSpread:
    def test_the_number_of_processes_changes_nothing_that_is_found(self) -> None:
        """Not even where several seeds of several blocks fail: they are told in the order of the seeds."""
        timed = {"seconds", "processor_seconds", "schedules_per_second", "processes"}
        told: list[int] = []
        found = [
            simulate.simulate_planted("lose-receipts", range(9), lambda _what, done, _total: told.append(done), count)
            for count in (1, 2)
        ]
        one, two = ({name: value for name, value in each.items() if name not in timed} for each in found)
        assert one == two
        assert one["failing_seeds"] == sorted(one["failing_seeds"])
        assert len(one["failing_seeds"]) > simulate.TOLD
        assert [each["processes"] for each in found] == [1, 2]
        assert told == [*range(2, 9, 2), 9, *range(1, 10)]

    def test_there_must_be_a_process(self) -> None:
        with pytest.raises(InvalidInputError):
            simulate.simulate(range(1), processes=0)


class TestStrands:
    def test_one_runs_at_a_time_and_stops_at_each_step(self) -> None:
        seen: list[object] = []

        def work(strand: Strand[Step, Fate]) -> None:
            seen.append("begun")
            seen.append(strand.step(STEP))
            seen.append("over")

        strand = Strand("one", work)
        assert seen == ["begun"]
        assert strand.offer is STEP
        strand.resume(Fate(Fault.DELAY))
        assert seen == ["begun", Fate(Fault.DELAY), "over"]
        assert strand.over
        assert strand.failure is None
        assert strand.offer is None

    def test_a_process_that_is_gone_does_nothing_on_its_way_out(self) -> None:
        refused: list[bool] = []

        def work(strand: Strand[Step, Fate]) -> None:
            try:
                strand.step(STEP)
            finally:
                try:
                    strand.step(STEP)
                except Gone:
                    refused.append(True)

        strand = Strand("one", work)
        strand.end()
        assert refused == [True]
        assert strand.over
        assert not strand.crashed

    def test_a_crash_is_told_apart_from_an_error(self) -> None:
        def crashes(strand: Strand[Step, Fate]) -> None:
            strand.step(STEP)
            raise strand.leave()

        def fails(strand: Strand[Step, Fate]) -> None:
            strand.step(STEP)
            raise ValueError

        one, other = Strand("one", crashes), Strand("other", fails)
        for strand in (one, other):
            strand.resume(Fate())
            assert strand.over
        assert (one.crashed, one.failure) == (True, None)
        assert not other.crashed
        assert isinstance(other.failure, ValueError)


class TestSeeds:
    def test_a_range_leaves_out_its_end(self) -> None:
        assert simulate.parse_seeds("3:7") == range(3, 7)
        assert simulate.parse_seeds("17") == range(17, 18)

    @pytest.mark.parametrize("text", ["", "x", "3:", ":3", "7:3", "3:3", "-1:4", "1:2:3", "1.5"])
    def test_what_names_no_seed_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInputError):
            simulate.parse_seeds(text)


class TestCommand:
    def test_the_report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All planted bugs take a while; two of them have the shape of all."""
        few = {name: PLANTED[name] for name in ("settle-before-commit", "admit-twice")}
        monkeypatch.setattr(simulate, "PLANTED", few)
        monkeypatch.setattr(simulate, "PLANTED_SEEDS", 2)
        done = CliRunner().invoke(app, ["simulate", "--seeds", "0:4", "--processes", "1", "--json"])
        assert done.exit_code == 0
        found = json.loads(done.stdout.splitlines()[-1])
        assert found.keys() == {
            "seeds", "schedules", "violations", "steps", "faults", "seconds", "schedules_per_second", "processes",
            "processor_seconds", "failing_seeds", "histories", "planted_bugs", "planted_bugs_caught", "planted",
        }  # fmt: skip
        assert (found["schedules"], found["violations"], found["histories"]) == (4, 0, [])
        assert (found["planted_bugs"], found["planted_bugs_caught"]) == (2, 2)
        assert found["planted"]["admit-twice"]["seeds"] == 2
        assert found["steps"] > 4
        assert set(found["faults"]) <= {fault.name.lower() for fault in Fault}

    def test_a_planted_bug_that_is_found_is_exit_code_one(self) -> None:
        done = CliRunner().invoke(app, ["simulate", "--seeds", "0:2", "--plant", "lose-receipts", "--processes", "1"])
        assert done.exit_code == 1
        assert "VIOLATION" in done.stdout
        assert "violations: 2" in done.stdout

    def test_the_history_of_a_seed_on_request(self) -> None:
        asked = ["simulate", "--seeds", "3", "--plant", "admit-twice", "--history", "--processes", "1", "--json"]
        done = CliRunner().invoke(app, asked)
        assert json.loads(done.stdout)["histories"][0] == simulate.history(3, "admit-twice")

    @pytest.mark.parametrize(("option", "value"), [("--seeds", "5:1"), ("--plant", "nothing"), ("--processes", "0")])
    def test_what_is_not_there_is_refused(self, option: str, value: str) -> None:
        done = CliRunner().invoke(app, ["simulate", option, value, "--json"])
        assert done.exit_code == 2
        assert json.loads(done.stdout)["error"] == "InvalidInputError"

    def test_help_loads_no_simulation(self) -> None:
        code = (
            "import sys; from typer.testing import CliRunner; from vrm.cli.app import app; "
            "assert CliRunner().invoke(app, ['simulate', '--help']).exit_code == 0; "
            "print(sorted({'numpy', 'psycopg', 'evaluation.simulation', 'ray'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
