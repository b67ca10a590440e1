"""Participants that run one at a time: each goes on only when it is resumed, and stops at its next step.

Rules kept here:

- one strand runs at a time, and the scheduler waits meanwhile: the order is the scheduler's alone;
- a strand whose process is gone does nothing on its way out: every step that it tries is refused;
- who has nobody beside itself is spared the switches: it goes straight through.

Each strand is a greenlet, a stack of its own in the same thread: it lets the product's own synchronous code be stopped
between any two of its calls and costs less to switch to than a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from greenlet import getcurrent, greenlet

Offer = TypeVar("Offer")
Answer = TypeVar("Answer")
Offer_contra = TypeVar("Offer_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Gone(BaseException):
    """The process is gone; no handler for errors may see it."""


class Steps(Protocol[Offer_contra, Answer_co]):
    """What a participant's own work is given: its name, and its steps."""

    name: str

    def step(self, offer: Offer_contra) -> Answer_co:
        """Offer a step and return once it may be taken."""

    def leave(self) -> Gone:
        """Mark the process as gone, and return what to raise."""


class Straight(Generic[Offer, Answer]):
    """A participant that is alone, in its caller's thread; all of its steps get the same answer at once."""

    def __init__(self, name: str, answer: Answer, between: Callable[[], None]) -> None:
        """Call `between` before each step, when the one before has taken effect; what it raises ends the work."""
        self.name = name
        self._answer = answer
        self._between = between

    def step(self, _offer: Offer) -> Answer:
        """Take a step."""
        self._between()
        return self._answer

    def leave(self) -> Gone:
        """Return what to raise; there is nobody who would take its place."""
        return Gone()


class Strand(Generic[Offer, Answer]):
    """One participant's flow of work.

    Attributes:
        offer: the step that it waits to take; None before its first one and after its end.
        over: whether its work is done or its process gone.
        crashed: whether its process went by a fault, and somebody may take its place.
        failure: what ended it, if that was not the end of its work.
    """

    def __init__(self, name: str, work: Callable[[Strand[Offer, Answer]], object]) -> None:
        """Prepare a strand; it begins when it is resumed for the first time, and runs to its first step."""
        self.name = name
        self.offer: Offer | None = None
        self.over = False
        self.failure: BaseException | None = None
        self.crashed = False
        self._gone = False
        self._answer: Answer | None = None
        self._scheduler = getcurrent()
        self._stack = greenlet(self._run)
        self._stack.switch(work)

    def resume(self, answer: Answer) -> None:
        """Let it take the step that it offers, and go on to the next one."""
        self._answer = answer
        self._stack.switch()

    def end(self) -> None:
        """End its process where it stands."""
        if not self.over:
            self._gone = True
            self._stack.switch()

    def step(self, offer: Offer) -> Answer:
        """Offer a step and wait until it may be taken; called by the strand's own work.

        Raises:
            Gone: its process is gone.
        """
        if self._gone:
            raise Gone
        self.offer = offer
        self._scheduler.switch()
        self.offer = None
        answer = self._answer
        if self._ended() or answer is None:
            raise Gone
        return answer

    def _ended(self) -> bool:
        """Tell whether the process is gone, which may have come while it waited."""
        return self._gone

    def leave(self) -> Gone:
        """Mark the process as gone, and return what to raise."""
        self._gone = self.crashed = True
        return Gone()

    def _run(self, work: Callable[[Strand[Offer, Answer]], object]) -> None:
        try:
            work(self)
        except Gone:
            pass
        except BaseException as error:  # noqa: BLE001  # the scheduler tells what it was
            self.failure = error
        self.over = True
        self.offer = None
