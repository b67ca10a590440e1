"""Timing of alternatives side by side.

Rules kept here:

- alternatives take turns in short rounds, forwards and then backwards, so that what else the machine does meets all of
  them; the first round warms up and is not counted;
- a ratio is taken inside a round and the median of the rounds is reported with its extremes, because a machine drifts;
- garbage collection stays on: users have it too.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import numpy as np
import psutil

Action = Callable[[Any], object]
"""One operation, on what was made for it."""

_DIGITS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One of the things compared.

    Attributes:
        name: its key in the report.
        act: carries out one operation.
        make: makes what an operation works on before the clock starts; its argument counts the operations of the
            alternative from 0 and never repeats.
        repeats: operations in a round.
        yields: units of work that an operation does, such as appends in a group.
    """

    name: str
    act: Action
    repeats: int
    yields: int = 1
    make: Callable[[int], Any] = int


@dataclass
class Timings:
    """What was measured of one alternative.

    Attributes:
        rounds: seconds of each operation, round by round.
        cpu: seconds of processor time of this process in each round.
        yields: units of work in an operation.
    """

    yields: int
    rounds: list[list[float]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        """Seconds of every counted operation."""
        return [each for turn in self.rounds for each in turn]

    @property
    def rates(self) -> list[float]:
        """Units of work a second, for each round."""
        return [len(turn) * self.yields / sum(turn) for turn in self.rounds]

    @property
    def middles(self) -> list[float]:
        """The median seconds of an operation, for each round."""
        return [median(turn) for turn in self.rounds]

    def milliseconds(self, percent: float) -> float:
        """Return a percentile over all counted operations, in milliseconds."""
        return float(np.percentile(self.seconds, percent)) * 1e3

    def summary(self) -> dict[str, float]:
        """Return the absolute figures."""
        done = len(self.seconds) * self.yields
        return {
            "per_second": significant(median(self.rates)),
            "p50_ms": significant(self.milliseconds(50)),
            "p99_ms": significant(self.milliseconds(99)),
            "client_cpu_ms_each": significant(sum(self.cpu) / done * 1e3),
            "n": done,
        }


@dataclass(frozen=True)
class Ratio:
    """A ratio with the spread of its rounds."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> Ratio:
        """Divide round by round."""
        found = [one / other for one, other in zip(above, below, strict=True)]
        return cls(significant(median(found)), significant(min(found)), significant(max(found)))


def take_turns(
    alternatives: Sequence[Alternative], rounds: int, told: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, Timings]:
    """Measure the alternatives in `rounds` counted rounds, after one that is not counted.

    Args:
        alternatives: what is compared.
        rounds: counted rounds.
        told: called after each round with how many are done, of how many.
    """
    found = {each.name: Timings(each.yields) for each in alternatives}
    counts = dict.fromkeys(found, 0)
    for turn in range(rounds + 1):
        for each in alternatives if turn % 2 else reversed(alternatives):
            numbers = range(counts[each.name], counts[each.name] + each.repeats)
            spent = [timed(each.act, each.make(number)) for number in numbers]
            counts[each.name] += each.repeats
            if turn:
                found[each.name].rounds.append([wall for wall, _ in spent])
                found[each.name].cpu.append(sum(cpu for _, cpu in spent))
        told(turn + 1, rounds + 1)
    return found


def timed(act: Action, made: Any) -> tuple[float, float]:
    """Return the seconds that one operation takes, and those of this process's processor time."""
    cpu, begun = time.process_time(), time.perf_counter()
    act(made)
    return time.perf_counter() - begun, time.process_time() - cpu


def resident_mb() -> float:
    """Return the resident memory of this process, in MB of 10^6 bytes."""
    return float(psutil.Process().memory_info().rss) / 1e6


def significant(value: float) -> float:
    """Return a figure with as many digits as a busy machine can promise."""
    return float(f"{value:.{_DIGITS}g}")


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    one, five, _ = psutil.getloadavg()
    return {
        "processors": psutil.cpu_count(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_average": [significant(one), significant(five)],
    }


def spread(ratios: Mapping[str, Ratio | None]) -> dict[str, list[float] | None]:
    """Return lowest and highest round of each ratio."""
    return {name: None if ratio is None else [ratio.low, ratio.high] for name, ratio in ratios.items()}


def middles(ratios: Mapping[str, Ratio | None]) -> dict[str, float | None]:
    """Return the median round of each ratio."""
    return {name: None if ratio is None else ratio.middle for name, ratio in ratios.items()}
