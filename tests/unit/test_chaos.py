"""The accounts of a chaos run: what is due, what is there, and that they can be wrong."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.chaos.accounting import Unit, balance
from evaluation.chaos.faults import TABLE, Fault, How, Moment, Who, draw
from evaluation.chaos.striker import Told
from evaluation.chaos.work import Decisions, Evidence
from evaluation.simulation import material
from evaluation.simulation.material import Ending
from records.appends import AppendReceipt
from records.flows import Authority, Transition
from vrm.cli.app import app

DUE = Counter({Unit("outcome", "a"): 1, Unit("outcome", "b"): 1, Unit("receipt", "c"): 1})


def receipt(position: int) -> AppendReceipt:
    return AppendReceipt(
        namespace="bench", transition=Transition.APPEND_INTENT, authority=Authority.ADMISSION, permit_key="permit",
        permit_digest="0" * 64, record_ids=("decision-intent:1",), positions=(position,), no_commit_id=None,
        reason=None,
    )  # fmt: skip


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - it draws faults, not secrets


class TestBalance:
    def test_what_is_due_and_there_once_is_neither_lost_nor_doubled(self) -> None:
        found = balance(DUE, Counter(DUE))
        assert (found.lost, found.doubled) == ((), ())

    def test_a_unit_that_is_gone_is_lost(self) -> None:
        found = balance(DUE, DUE - Counter([Unit("outcome", "b")]))
        assert found.lost == (Unit("outcome", "b"),)
        assert found.doubled == ()

    def test_a_unit_that_is_there_three_times_is_doubled_twice(self) -> None:
        found = balance(DUE, DUE + Counter({Unit("outcome", "a"): 2}))
        assert found.lost == ()
        assert found.doubled == (Unit("outcome", "a"), Unit("outcome", "a"))

    def test_a_unit_that_nobody_asked_for_is_doubled(self) -> None:
        assert balance(DUE, DUE + Counter([Unit("outcome", "x")])).doubled == (Unit("outcome", "x"),)

    def test_one_too_many_does_not_make_up_for_one_too_few(self) -> None:
        there = Counter({Unit("outcome", "a"): 2, Unit("receipt", "c"): 1})
        found = balance(DUE, there)
        assert (found.lost, found.doubled) == ((Unit("outcome", "b"),), (Unit("outcome", "a"),))


class TestTold:
    def test_a_permit_that_is_answered_in_two_ways_is_a_finding(self) -> None:
        told = Told()
        told.hear([receipt(1)])
        told.hear([receipt(1)])
        assert told.findings == []
        told.hear([receipt(2)])
        assert told.findings == ["permit permit was answered in two ways"]
        assert told.receipts == {"permit": receipt(1)}


class TestDue:
    def test_a_decision_with_a_context_owes_it_and_one_without_does_not(self) -> None:
        with_context, without = (
            material.decision(number, ending, late=False, arm="arm")
            for number, ending in enumerate((Ending.EMPTY, Ending.CANCELLED))
        )
        due = Counter(Decisions((with_context, without)).due())
        assert due[Unit("context", str(with_context.intent.id))] == 1
        assert due[Unit("context", str(without.intent.id))] == 0
        for each in (with_context, without):
            assert due[Unit("outcome", str(each.intent.id))] == 1
            assert due[Unit("end of a run", str(each.run.id))] == 1

    def test_pieces_of_evidence_share_nothing(self) -> None:
        first, second = (Counter(Evidence(number).due()) for number in (1, 2))
        assert set(first.values()) == {1}
        assert not first & second


class TestFaults:
    def test_a_draw_begins_with_every_kind_and_has_every_row_before_any_comes_again(self) -> None:
        kinds = {fault.kind for fault in TABLE}
        drawn = draw(2 * len(TABLE), seeded(1))
        assert {fault.kind for fault in drawn[: len(kinds)]} == kinds
        assert set(drawn[: len(TABLE)]) == set(TABLE) == set(drawn[len(TABLE) :])

    def test_a_seed_decides_the_draw(self) -> None:
        assert draw(50, seeded(1)) == draw(50, seeded(1)) != draw(50, seeded(2))

    def test_two_hundred_faults_strike_everybody_and_at_every_moment(self) -> None:
        drawn = draw(200, seeded(0))
        assert set(drawn) == set(TABLE)
        assert {fault.who for fault in drawn} == set(Who)
        assert {fault.moment for fault in drawn} == set(Moment)
        stopped = {fault.who for fault in drawn if fault.how is How.STOP}
        assert stopped == {Who.RUN_OWNER, Who.COORDINATOR, Who.HEAD_HOST}

    def test_no_row_is_there_twice(self) -> None:
        assert len(set(TABLE)) == len(TABLE)
        assert all(isinstance(fault, Fault) for fault in TABLE)


class TestCommand:
    @pytest.mark.parametrize(
        ("found", "code"),
        [
            ({"lost": 0, "doubled": 0, "fsck": "clean"}, 0),
            ({"lost": 1, "doubled": 0, "fsck": "clean"}, 1),
            ({"lost": 0, "doubled": 1, "fsck": "clean"}, 1),
            ({"lost": 0, "doubled": 0, "fsck": "2 violations"}, 1),
        ],
    )
    def test_exit_code_says_whether_anything_was_found(
        self, found: dict[str, object], code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evaluation.chaos.chaos.chaos", lambda *_given: found)
        assert CliRunner().invoke(app, ["chaos", "--json"]).exit_code == code

    def test_no_faults_and_a_folder_in_use_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "mine").touch()
        for arguments, field in ((["--faults", "0"], "faults"), (["--keep", str(tmp_path)], "keep")):
            done = CliRunner().invoke(app, ["chaos", *arguments, "--json"])
            assert done.exit_code == 2
            assert f'"field": "{field}"' in done.stdout
