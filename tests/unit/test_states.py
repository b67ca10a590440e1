"""The state machines: total, drawn as they are, and every phase reachable."""

from __future__ import annotations

import itertools
import re

import pytest

from records import states
from records.errors import IllegalTransitionError
from records.states import ARROWS, FENCING, STARTS, Event, Machine, Phase, ends_of, next_phase, phases_of


def drawn() -> dict[tuple[str, str, str], str]:
    """Read the arrows from the diagram in the module's docstring, which people read."""
    found: dict[tuple[str, str, str], str] = {}
    machine = ""
    for line in (states.__doc__ or "").split("Rules:")[0].splitlines():
        name = re.match(r"    ([a-z]+) ", line)
        machine = name.group(1) if name else machine
        steps = re.split(r"--([a-z_]+)-->", line.split("(start)")[-1] if "(start)" in line else line)
        for before, event, after in zip(steps[::2], steps[1::2], steps[2::2], strict=False):
            for source in re.findall(r"[A-Z_]{2,}", before):
                found[machine, source, event] = re.findall(r"[A-Z_]{2,}", after)[0]
    return found


def test_diagram_is_the_table() -> None:
    table = {
        (machine.value, phase.value, event.value): after.value for (machine, phase, event), after in ARROWS.items()
    }
    assert drawn() == table


@pytest.mark.parametrize("machine", Machine)
def test_total(machine: Machine) -> None:
    for phase, event in itertools.product(Phase, Event):
        if (machine, phase, event) in ARROWS:
            assert next_phase(machine, phase, event) is ARROWS[machine, phase, event]
        else:
            with pytest.raises(IllegalTransitionError) as caught:
                next_phase(machine, phase, event)
            assert caught.value.field == f"{machine}.{phase}"
            assert caught.value.value == event.value


@pytest.mark.parametrize("machine", Machine)
def test_every_phase_is_reachable_and_starts_are_few(machine: Machine) -> None:
    reached = set(STARTS[machine])
    while True:
        more = {after for (kind, phase, _), after in ARROWS.items() if kind is machine and phase in reached}
        if more <= reached:
            break
        reached |= more
    assert set(phases_of(machine)) == reached


def test_every_phase_and_event_is_used() -> None:
    assert {phase for machine in Machine for phase in phases_of(machine)} == set(Phase)
    assert {event for _, _, event in ARROWS} == set(Event)


def test_terminal_phases_stay() -> None:
    ends = {
        Machine.RUN: {Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED},
        Machine.ACTIVITY: {Phase.COMMITTED, Phase.CANCELLED, Phase.FAILED},
        Machine.DECISION: {Phase.RETIRED, Phase.OUTCOME_COMMITTED},
        Machine.HANDOFF: {Phase.RELEASED},
        Machine.AUTHORIZATION: {Phase.COMMITTED, Phase.RETIRED_NO_COMMIT},
        Machine.REFERENCE: {Phase.RELEASED},
        Machine.ERASURE: {Phase.RETIRED, Phase.CLOSED},
    }
    for machine, expected in ends.items():
        leaving = {phase for kind, phase, _ in ARROWS if kind is machine}
        assert set(phases_of(machine)) - leaving == ends_of(machine) == expected


def test_what_ends_an_attempt_raises_the_fence() -> None:
    back = {
        event
        for (machine, phase, event), after in ARROWS.items()
        if (machine, after)
        in {
            (Machine.ACTIVITY, Phase.READY),
            (Machine.DECISION, Phase.OPEN),
            (Machine.DECISION, Phase.CONTEXT_COMMITTED),
            (Machine.HANDOFF, Phase.PENDING),
            (Machine.HANDOFF, Phase.RETIRED),
            (Machine.ERASURE, Phase.OPEN),
        }
        and phase not in {Phase.AWAITING_ASSIGNMENT, Phase.REGISTERING, Phase.CONTEXT_COMMITTING}
    }
    assert back | {Event.CONTEXT_RETIRED} == FENCING
