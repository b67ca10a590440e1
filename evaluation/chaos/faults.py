"""Which faults there are: a victim, what is done to it, and the point in the protocol at which it is done.

A point is a call over a port and a moment of it. Every row of the table can happen; a run goes through the whole table
before a row comes again, and begins with one row of each kind.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final


class Who(StrEnum):
    """Who is struck."""

    RUN_OWNER = "run owner"
    COORDINATOR = "commit coordinator"
    HEAD_HOST = "lifecycle-head host"
    WORKER = "distillation worker"
    BACKEND = "postgres backend"
    SERVER = "postgres server"


class How(StrEnum):
    """What is done to it."""

    KILL = "kill -9"
    STOP = "SIGSTOP, successor, SIGCONT"


class Moment(StrEnum):
    """Where the call stands when it is done."""

    BEFORE = "before the call"
    OPENED = "transaction open, nothing written"
    READING = "while it reads"
    WRITING = "rows written, not committed"
    COMMITTING = "COMMIT waiting inside the server"
    COMMITTED = "committed, before the reply"
    AFTER = "after the reply"


class Call(StrEnum):
    """The calls over ports, by the names of their methods."""

    APPLY = "apply"
    CONTROL = "control"
    GRANT = "grant"
    RECONCILE = "reconcile"
    APPEND_DIRECT = "append_direct"
    APPEND_GRANTED = "append_granted"
    RESERVE = "reserve"
    PROPOSE = "propose"


OWNER_OF: Final = {
    Call.APPLY: Who.RUN_OWNER,
    Call.CONTROL: Who.RUN_OWNER,
    Call.GRANT: Who.RUN_OWNER,
    Call.RECONCILE: Who.RUN_OWNER,
    Call.APPEND_DIRECT: Who.COORDINATOR,
    Call.APPEND_GRANTED: Who.COORDINATOR,
    Call.RESERVE: Who.HEAD_HOST,
    Call.PROPOSE: Who.WORKER,
}
"""Who serves a call."""

WRITES: Final = tuple(call for call, who in OWNER_OF.items() if who in {Who.RUN_OWNER, Who.COORDINATOR})
_REPEATABLE: Final = (Call.GRANT, Call.RECONCILE, Call.APPEND_DIRECT, Call.APPEND_GRANTED)
"""The writes that answer the same when they are made again; the others are told apart by the phases they leave."""
_AROUND: Final = (Moment.BEFORE, Moment.AFTER)
_INSIDE: Final = (Moment.WRITING, Moment.COMMITTING)


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Attributes:
        who, how: the victim and what is done to it.
        call, moment: the point.
    """

    who: Who
    how: How
    call: Call
    moment: Moment

    @property
    def kind(self) -> str:
        """What happens to whom."""
        return f"{self.who}: {self.how}"

    @property
    def point(self) -> str:
        """Where it happens."""
        return f"{self.call}: {self.moment}"


def _kills() -> list[Fault]:
    held = (Moment.OPENED, *_INSIDE, Moment.COMMITTED)
    rows = [Fault(OWNER_OF[call], How.KILL, call, moment) for call, moment in product(WRITES, (*_AROUND, *held))]
    reads = product((Call.RESERVE, Call.PROPOSE), (*_AROUND, Moment.READING))
    rows += [Fault(OWNER_OF[call], How.KILL, call, moment) for call, moment in reads]
    # Its proposals are published right before they are granted.
    rows += [Fault(Who.WORKER, How.KILL, Call.GRANT, moment) for moment in _AROUND]
    # Between its reservation and the commit that carries its fence, and while that commit waits.
    rows += [Fault(Who.HEAD_HOST, How.KILL, Call.APPEND_GRANTED, moment) for moment in (Moment.BEFORE, *_INSIDE)]
    rows += [Fault(who, How.KILL, call, moment) for who in _SERVERS for call in WRITES for moment in _INSIDE]
    rows += [Fault(Who.SERVER, How.KILL, call, Moment.AFTER) for call in Call]
    return rows


def _stops() -> list[Fault]:
    moments = (*_INSIDE, Moment.AFTER)
    rows = [Fault(OWNER_OF[call], How.STOP, call, moment) for call, moment in product(_REPEATABLE, moments)]
    return [*rows, Fault(Who.HEAD_HOST, How.STOP, Call.RESERVE, Moment.AFTER)]


_SERVERS: Final = (Who.BACKEND, Who.SERVER)
TABLE: Final = (*_kills(), *_stops())
"""Every fault that there is."""


def draw(count: int, chance: random.Random) -> list[Fault]:
    """Return so many faults: every kind once, then the rest of the table, then the table again and again, shuffled."""
    drawn: list[Fault] = []
    while len(drawn) < count:
        rows = chance.sample(TABLE, len(TABLE))
        first = {fault.kind: fault for fault in reversed(rows)}
        drawn += [*first.values(), *(fault for fault in rows if first[fault.kind] is not fault)]
    return drawn[:count]
