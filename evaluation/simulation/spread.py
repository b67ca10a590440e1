"""Work spread over processes.

Rules kept here:

- what comes back is in the order of what was given, whoever did it and whenever: nothing of a result says which
  process made it;
- every process keeps to one processor. Of its threads only one runs at a time (`evaluation.simulation.strands`), and
  handing the turn to a thread on another processor costs more than most steps;
- an interrupt is for the process that was asked: it gives up what was not begun, and the others end with what they are
  at, which takes a second or two. One process does the work itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Spread(Protocol):
    """Does a piece of work for each of some things."""

    def __call__(self, work: Callable[[A], B], things: Iterable[A], /) -> Iterator[B]:
        """Return what came of each, in their order."""


def processors() -> int:
    """Return how many processors this process may use."""
    return len(_processors())


@contextmanager
def spread(processes: int) -> Iterator[Spread]:
    """Spread work over so many processes; they end when this does."""
    if processes == 1:
        yield map
        return
    context = multiprocessing.get_context(
        "spawn"
    )  # threads of this process, such as those that show progress, stay here
    places = context.SimpleQueue()
    for place in range(processes):
        places.put(place)
    with ProcessPoolExecutor(processes, context, _settle, (places,)) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _settle(places: Any) -> None:
    """Leave interrupts to the process that was asked, and keep to one processor where the system lets one choose."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        usable = _processors()
        os.sched_setaffinity(0, {usable[places.get() % len(usable)]})


def _processors() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
