"""Stands between the driver and the owners, and lets the next fault happen when its point comes.

Rules kept here:

- a fault counts when its victim was really struck; one whose point does not come, because the call had nothing to
  write, stays the next one;
- what the driver gets is what it would get without the striker: the answer of the call, or its error;
- every answer is remembered: a permit that is answered in two ways, and whatever an owner writes that was replaced, is
  a finding.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from actors.handles import Handle, Owners
from evaluation.chaos.accounting import written
from evaluation.chaos.crews import Crew, is_alive
from evaluation.chaos.faults import OWNER_OF, Call, Fault, How, Moment, Who
from evaluation.chaos.gates import Gate, Held
from evaluation.chaos.place import RESOURCES, Place, kill, stopped, until
from records.appends import AppendReceipt
from records.runtime import Authorization

_COMMON: Final = (Call.APPLY, Call.GRANT, Call.RECONCILE, Call.APPEND_DIRECT, Call.APPEND_GRANTED)
"""Calls of which every piece of work makes several; a fault may let some of them pass."""
_MOST_PASSED: Final = 3


@dataclass(frozen=True)
class Made:
    """A call as the driver makes it: here, or the same one at the successors."""

    name: Call
    arguments: tuple[Any, ...]
    here: Callable[[], Any]
    there: Callable[[], Any]


@dataclass
class Told:
    """What was acknowledged, and what no acknowledgement may be.

    Attributes:
        receipts: the receipt that each permit got, as first told.
        grants: the authorizations, likewise.
        findings: where a second answer differed, and what an owner wrote after its successor had claimed.
    """

    receipts: dict[str, AppendReceipt] = field(default_factory=dict)
    grants: dict[str, Authorization] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def hear(self, answer: Any) -> Any:
        """Remember what an answer holds, and return it."""
        for each in answer if isinstance(answer, list) else ():
            if isinstance(each, AppendReceipt) and self.receipts.setdefault(each.permit_key, each) != each:
                self.findings.append(f"permit {each.permit_key} was answered in two ways")
            if isinstance(each, Authorization) and self.grants.setdefault(str(each.id), each) != each:
                self.findings.append(f"authorization {each.id} was granted in two ways")
        return answer


class Striker:
    """Lets the faults of a queue happen, one after the other.

    Attributes:
        crew, successors: who serves, and who takes over from one that is stopped.
        struck: the faults that have happened, each with the name of the crew.
        told: what the driver was told.
    """

    def __init__(self, place: Place, faults: Iterable[Fault], chance: random.Random) -> None:
        """Strike in this order; `chance` decides how many calls of a kind pass first."""
        self._place = place
        self.crew, self.successors = place.crews[0]
        self._chance = chance
        self._queue = deque(faults)
        self._passes = 0
        self._host = ""  # that reserved last
        self._proposed = False  # whether a worker has proposed what was not granted yet
        self.struck: list[tuple[str, Fault]] = []
        self.told = Told()

    @property
    def next(self) -> Fault | None:
        """The fault whose point is waited for."""
        return self._queue[0] if self._queue else None

    def serve_by(self, crews: tuple[Crew, Crew]) -> None:
        """Let another crew serve, and others take over from it."""
        self.crew, self.successors = crews

    def through(self, call: Made) -> Any:
        """Make a call, with a fault if it is the turn of one."""
        fault = self.next
        if fault is None or not self._comes(fault, call):
            answer = call.here()
        elif fault.moment in {Moment.BEFORE, Moment.AFTER}:
            answer = self._beside(fault, call)
        else:
            answer = self._inside(fault, call)
        return self._heard(call, answer)

    def _heard(self, call: Made, answer: Any) -> Any:
        """Remember what an answer tells, and return it."""
        if call.name in {Call.PROPOSE, Call.GRANT}:
            self._proposed = call.name is Call.PROPOSE
        if call.name is Call.RESERVE and answer:
            self._host = str(answer[-1].fence[0]).rpartition("/")[2]
        return self.told.hear(answer)

    def _comes(self, fault: Fault, call: Made) -> bool:
        """Return whether a call is the one that a fault waits for."""
        if fault.call is not call.name or (_needs_fence(fault) and not call.arguments[1:]):
            return False
        if fault.who is Who.WORKER and call.name is Call.GRANT and not self._proposed:
            return False
        self._passes -= 1
        return self._passes < 0

    def _beside(self, fault: Fault, call: Made) -> Any:
        """Strike before the call or after its answer."""
        if fault.moment is Moment.BEFORE:
            self._strike(fault, None)
            return call.here()
        answer = self._heard(call, call.here())
        if fault.how is How.KILL:
            self._strike(fault, None)
            return answer
        old = self.crew.process(fault.who, self._host if fault.who is Who.HEAD_HOST else "")
        if not old:
            return answer
        with stopped(old):
            self._heard(call, call.there())
            before = written(self._place.urls)
        if fault.who is not Who.HEAD_HOST:  # which only reads: its reservation is refused where it would count
            self._heard(call, call.here())
        self._require_idle(fault, before)  # what it answers without writing it may answer; its next write ends it
        return answer

    def _inside(self, fault: Fault, call: Made) -> Any:
        """Hold the call at its moment, and strike there."""
        who = OWNER_OF[call.name]
        _handle(self.crew.owners, who).call("version")  # whose start is not to be held
        with (
            self._place.gates(who).closed(fault.moment, RESOURCES.get(who, "")) as gate,
            ThreadPoolExecutor(2) as threads,
        ):
            made = threads.submit(call.here)
            try:
                until(lambda: made.done() or bool(gate.held()), f"nobody came to {fault.point}")
                held = [] if made.done() else gate.held()
                if held and fault.how is How.STOP:
                    self._overtake(fault, gate, held[0], lambda: threads.submit(call.there))
                elif held:
                    self._strike_held(fault, gate, held[0])
            finally:
                gate.open()
            return made.result()

    def _strike_held(self, fault: Fault, gate: Gate, held: Held) -> None:
        if fault.moment is not Moment.COMMITTED:
            self._strike(fault, held)
            return
        with stopped(held.process):  # from here on it cannot learn how the commit ends
            gate.open()
            until(lambda: gate.rests(held.backend), "a commit does not end")
            self._strike(fault, held)

    def _overtake(self, fault: Fault, gate: Gate, held: Held, succeed: Callable[[], Future[Any]]) -> None:
        """Stop the owner until its successor has answered; it must leave then, and have written nothing."""
        with stopped(held.process):
            successor = succeed()
            until(lambda: successor.done() or any(each.process != held.process for each in gate.held()), "no successor")
            gate.open()
            self.told.hear(successor.result())
            before = written(self._place.urls)
        until(lambda: not is_alive(held.process), f"an owner that was replaced stays ({fault.kind}, {fault.point})")
        self._require_idle(fault, before)

    def _require_idle(self, fault: Fault, before: Sequence[int]) -> None:
        """Finish a fault after which nothing may have been written but ownership."""
        if written(self._place.urls) != before:
            self.told.findings.append(f"{fault.kind} at {fault.point}: something was written after it was replaced")
        self._done(fault)

    def _strike(self, fault: Fault, held: Held | None) -> None:
        """Kill the victim; without one nothing has happened."""
        if fault.who is Who.SERVER:
            self._place.kill_server()
        elif fault.who is Who.BACKEND:
            if held is None:
                return
            kill(held.backend)
        else:
            mine = held is not None and fault.who is OWNER_OF[fault.call]
            number = self._host if fault.who is Who.HEAD_HOST and fault.moment is not Moment.BEFORE else ""
            pid = held.process if held is not None and mine else self.crew.process(fault.who, number)
            if not pid:
                return
            kill(pid)
        self._done(fault)

    def _done(self, fault: Fault) -> None:
        self.struck.append((self.crew.name, fault))
        self._queue.popleft()
        if fault.how is How.STOP:
            for handle in self.successors.owners.handles().values():
                handle.kill()
        following = self.next
        common = (
            following is not None and following.call in _COMMON and following.who not in {Who.HEAD_HOST, Who.WORKER}
        )
        self._passes = self._chance.randrange(_MOST_PASSED) if common else 0


def _needs_fence(fault: Fault) -> bool:
    """Return whether a fault is about an append that carries the fence of a head host."""
    return fault.who is Who.HEAD_HOST and fault.call is Call.APPEND_GRANTED


def _handle(owners: Owners, who: Who) -> Handle:
    """Return a handle of those who serve a call."""
    if who is Who.RUN_OWNER:
        return owners.run_owner.handle
    if who is Who.COORDINATOR:
        return owners.coordinator.handle
    return owners.heads.hosts[0] if who is Who.HEAD_HOST else owners.distillers.workers[0]
