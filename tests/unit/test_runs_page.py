"""The page about Runs draws what the tables and rules say."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from memory.control import rule
from memory.leases import LEASE_SECONDS, LEASED
from records.control import BudgetLimit, BudgetLine, Charge, ControlCause, ControlEffect, ControlEvent, ControlKind
from records.control import RunFacts as Facts
from records.errors import BudgetExceededError, InvalidInputError
from records.runtime import Subject
from records.states import ARROWS, STARTS, Event, Machine, Phase, ends_of
from tests.support.samples import run_of
from tests.support.trials import NOW

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
RUN = run_of("test")
Arrow = tuple[str, str, str]


def drawn(title: str) -> list[Arrow]:
    """Return the arrows of one diagram: from, event, to."""
    (block,) = re.findall(rf"%% {title}\n(.*?)```", PAGE, re.DOTALL)
    found = re.findall(r"^\s+(\S+) --> (\w+|\[\*\])(?:: (.+))?$", block, re.MULTILINE)
    assert len(found) == len(block.strip().splitlines())
    return [(before, event, after) for before, after, event in found]


@pytest.mark.parametrize("machine", [Machine.RUN, Machine.ACTIVITY])
def test_a_machine_is_drawn_as_its_table(machine: Machine) -> None:
    table = {
        (before.value, event.value, after.value) for (kind, before, event), after in ARROWS.items() if kind is machine
    }
    table |= {("[*]", "", phase.value) for phase in STARTS[machine]}
    table |= {(phase.value, "", "[*]") for phase in ends_of(machine)}
    assert sorted(drawn(f"machine {machine}")) == sorted(table)


def test_a_lease_is_there_while_an_activity_is_leased_or_running() -> None:
    def stands(phase: Phase) -> str:
        return "HELD" if phase in LEASED else "FREE"

    table = {
        (stands(before), event.value, stands(after))
        for (kind, before, event), after in ARROWS.items()
        if kind is Machine.ACTIVITY and "HELD" in {stands(before), stands(after)}
    }
    assert sorted(drawn("lease")) == sorted({("[*]", "", "FREE"), *table})
    assert f"lasts {LEASE_SECONDS / 60:g} minutes" in PAGE


def test_a_control_event_has_these_effects_or_none() -> None:
    reached = {after for before, _, after in drawn("effects of a control event") if before == "PUBLISHED"}
    assert reached == {effect.value for effect in ControlEffect} | {"REFUSED"}


def test_a_budget_line_moves_as_it_is_drawn() -> None:
    lines = [
        BudgetLine(resource="fits", limit=limit, spent=spent)
        for limit, spent in itertools.product((None, 1, 2, 3), range(4))
        if limit is None or spent <= limit
    ]
    found = {("[*]", "", _stands(BudgetLine(resource="fits", limit=limit))) for limit in (None, 1)}
    for line in lines:
        found |= {_charged(line, amount) for amount in (1, 2)}
        found |= {arrow for limit in range(4) if (arrow := _amended(line, limit))}
    assert sorted(drawn("budget")) == sorted(found)


def _stands(line: BudgetLine) -> str:
    return "UNLIMITED" if line.limit is None else "USED_UP" if line.spent == line.limit else "WITHIN"


def _charged(line: BudgetLine, amount: int) -> Arrow:
    try:
        facts = Facts(budget=(line,)).charged(Charge(run_id=RUN.id, resource="fits", amount=amount))
    except BudgetExceededError:
        return _stands(line), "refused", _stands(line)
    return _stands(line), "charge", _stands(facts.budget[0])


def _amended(line: BudgetLine, limit: int) -> Arrow | None:
    event = ControlEvent(
        namespace=RUN.namespace, run_id=RUN.id, kind=ControlKind.AMEND_BUDGET, cause=ControlCause.COMMAND, detail="",
        at=NOW, limits=(BudgetLimit(resource="fits", limit=limit),), expected_version=1,
    )  # fmt: skip
    run = Subject(
        machine=Machine.RUN, id=RUN.id, run_id=RUN.id, phase=Phase.RUNNING, version=1, generation=1, fence=1,
        body=RUN.canonical.decode(), facts=Facts(budget=(line,)).canonical.decode(),
    )  # fmt: skip
    try:
        ruling = rule(run, event)
    except InvalidInputError:
        return None
    assert ruling.command is not None
    (move,) = ruling.command.moves
    assert move.event is Event.AMEND_BUDGET
    return _stands(line), "amend", _stands(Facts.load(move.facts or "").budget[0])
