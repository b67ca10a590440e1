"""Work spread over processes.

Rules kept here:

- what comes back is in the order of what was given, whoever did it and whenever: nothing of a result says which
  process made it;
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
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Spread(Protocol):
    """Does a piece of work for each of some things."""

    def __call__(self, work: Callable[[A], B], things: Iterable[A], /) -> Iterator[B]:
        """Return what came of each, in their order."""


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def spread(processes: int) -> Iterator[Spread]:
    """Spread work over so many processes; they end when this does."""
    if processes == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")  # threads of this process, such as those of a bar, stay here
    with ProcessPoolExecutor(processes, context, _leave_interrupts) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts() -> None:
    """Leave interrupts to the process that was asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
