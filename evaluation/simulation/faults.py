"""What may happen at a step, and how a seed draws it."""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Final, NamedTuple


class Fault(StrEnum):
    """Everything that the scheduler can do to a step."""

    CRASH_BEFORE = "crash before the call"
    CRASH_AFTER = "crash after the call"
    LOST_REPLY = "reply lost"
    DUPLICATE = "call delivered twice"
    LATE_DUPLICATE = "call delivered again later"
    DELAY = "call given up and delivered later"
    OLD_OWNER = "call delivered to an owner that was replaced"
    OWNER_PAUSED = "owner stopped before its write until its successor claimed"
    OWNER_LOST_BEFORE = "owner lost before its write"
    OWNER_LOST_AFTER = "owner lost after its write"


OF_OWNERS: Final = frozenset({Fault.OLD_OWNER, Fault.OWNER_PAUSED, Fault.OWNER_LOST_BEFORE, Fault.OWNER_LOST_AFTER})
"""Faults that concern a port that has an owner."""


class Step(NamedTuple):
    """One call of a participant into a port.

    Attributes:
        port: which port it is.
        method: which of its methods.
        about: what is called about, short, for the history.
        owned: whether the port belongs to an owner that can be replaced.
        whole: whether it is a call from its beginning; what an owner that was stopped goes on with is not.
    """

    port: str
    method: str
    about: str
    owned: bool = False
    whole: bool = True

    def __str__(self) -> str:
        """Return the step as a line of the history says it."""
        return f"{self.port}.{self.method}({self.about})"


class Fate(NamedTuple):
    """What the scheduler decided for a step: a fault or none, and whether a lost call is made again."""

    fault: Fault | None = None
    again: bool = True


_OF_OWNERS: Final = tuple(sorted(OF_OWNERS))
_ORDINARY: Final = tuple(fault for fault in Fault if fault not in OF_OWNERS)
_ALL: Final = tuple(Fault)


class FaultPlan:
    """Draws the faults of one schedule: how many it may have, how likely each step is to meet one."""

    def __init__(self, rng: Random) -> None:
        """Draw what kind of schedule this is; one in eight has no fault but the order of its steps."""
        self._rng = rng
        self._left = 0 if rng.random() < 1 / 8 else rng.randint(1, 6)
        self._chance = rng.choice((0.05, 0.15, 0.4))

    def draw(self, step: Step | None) -> Fate:
        """Return the fate of a step; None is a participant that has not begun."""
        if step is None or not step.whole or not self._left or self._rng.random() >= self._chance:
            return Fate()
        self._left -= 1
        fault = self._rng.choice(self._possible(step))
        return Fate(fault, self._rng.random() < 2 / 3)

    def _possible(self, step: Step) -> tuple[Fault, ...]:
        """Return what may strike; a host that reserves is replaced more often, for little else about it breaks."""
        if not step.owned:
            return _ORDINARY
        return _OF_OWNERS if step.method == "reserve" else _ALL
