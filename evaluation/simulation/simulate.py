"""Many seeds, and the planted bugs, with one report.

Rules kept here:

- a planted bug meets the same seeds whatever range is asked for, so its figures compare between runs; one that was not
  caught in them is given more seeds before it counts as missed;
- a failing seed is told with its history, the first ones of a range only.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from evaluation.bench.measuring import significant
from evaluation.simulation.planted import PLANTED, Planted
from evaluation.simulation.schedule import Verdict, run_seed
from evaluation.simulation.spread import Spread, processors, spread
from evaluation.simulation.world import Parts
from records.errors import InvalidInputError

PLANTED_SEEDS: Final = 40
"""Seeds that every planted bug meets."""
PATIENCE: Final = 1000
"""Seeds after which a bug that nothing found counts as missed."""
TOLD: Final = 3
"""Failing seeds whose history is told."""
_BLOCK: Final = 50
"""Seeds that a process takes at a time; fewer where that leaves one idle."""

Progress = Callable[[str, int, int], None]


@dataclass
class Range:
    """What came of a range of seeds.

    Attributes:
        seconds: from the beginning to the end.
        processor_seconds: of all processes together.
    """

    schedules: int = 0
    steps: int = 0
    failing: list[Verdict] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def violations(self) -> int:
        """How many seeds found something."""
        return len(self.failing)

    def add(self, block: Range) -> None:
        """Add what came of the seeds that follow."""
        self.schedules += block.schedules
        self.steps += block.steps
        self.failing += block.failing
        self.faults.update(block.faults)
        self.processor_seconds += block.processor_seconds


def parse_seeds(text: str) -> range:
    """Return the range that `A:B` names, B not included; a single number is that seed alone.

    Raises:
        InvalidInputError: it names no seed.
    """
    first, colon, last = text.partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()):
        raise InvalidInputError("seeds", text, "Give a range such as 0:1000, or one seed.")
    found = range(int(first), int(last) if colon else int(first) + 1)
    if not found:
        raise InvalidInputError("seeds", text, "The range is empty; the second number is not part of it.")
    return found


def planted(name: str) -> Planted:
    """Return a planted bug.

    Raises:
        InvalidInputError: there is none of that name.
    """
    if name not in PLANTED:
        raise InvalidInputError("plant", name, f"There are: {', '.join(PLANTED)}.")
    return PLANTED[name]


def run_range(seeds: range, plant: str | None, each: Spread, processes: int, told: Callable[[int], None]) -> Range:
    """Carry out seeds, and tell of them in their order."""
    found, begun = Range(), time.perf_counter()
    size = max(1, min(_BLOCK, len(seeds) // (processes * 4)))
    blocks = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    for block in each(partial(_run_block, plant=plant), blocks):
        found.add(block)
        told(found.schedules)
    found.seconds = time.perf_counter() - begun
    return found


def _run_block(seeds: Sequence[int], plant: str | None) -> Range:
    found, begun, parts = Range(), time.process_time(), _parts(plant)
    for seed in seeds:
        verdict = run_seed(seed, parts)
        found.schedules += 1
        found.steps += verdict.steps
        found.faults.update(verdict.faults)
        if verdict.violations:
            if found.violations >= TOLD:
                verdict.history.clear()
            found.failing.append(verdict)
    gc.collect()  # a world is full of circles, and the integrity check keeps the collector from seeing them
    found.processor_seconds = time.process_time() - begun
    return found


def _parts(plant: str | None) -> Parts:
    return Parts() if plant is None else planted(plant).parts


def simulate(
    seeds: range, told: Progress = lambda _what, _done, _total: None, processes: int | None = None
) -> dict[str, Any]:
    """Carry out a range of seeds and then every planted bug, and return the report as JSON values.

    Args:
        seeds: the seeds.
        told: is told of what was done so far.
        processes: how many share the work; as many as there are processors if not given.

    Raises:
        InvalidInputError: there must be a process.
    """
    count = _processes(processes)
    with spread(count) as each:
        found = run_range(seeds, None, each, count, lambda done: told("schedules", done, len(seeds)))
        bugs: dict[str, dict[str, Any]] = {}
        for name, caught in zip(PLANTED, each(_caught, list(PLANTED)), strict=True):
            bugs[name] = caught
            told("planted bugs", len(bugs), len(PLANTED))
    return report(seeds, found, count) | {
        "planted_bugs": len(bugs),
        "planted_bugs_caught": sum(1 for bug in bugs.values() if bug["caught_in"]),
        "planted": bugs,
    }


def simulate_planted(
    name: str, seeds: range, told: Progress = lambda _what, _done, _total: None, processes: int | None = None
) -> dict[str, Any]:
    """Carry out a range of seeds over a planted bug, and return the report as JSON values.

    Raises:
        InvalidInputError: there is no such bug, or there must be a process.
    """
    bug, count = planted(name), _processes(processes)
    with spread(count) as each:
        found = run_range(seeds, name, each, count, lambda done: told("schedules", done, len(seeds)))
    return report(seeds, found, count) | {"plant": name, "meaning": bug.meaning}


def _processes(asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise InvalidInputError("processes", asked, "Give one or more.")
    return asked or processors()


def report(seeds: range, found: Range, processes: int) -> dict[str, Any]:
    """Return what is told of a range."""
    return {
        "seeds": f"{seeds.start}:{seeds.stop}",
        "schedules": found.schedules,
        "violations": found.violations,
        "steps": found.steps,
        "faults": {name.lower(): count for name, count in sorted(found.faults.items())},
        "seconds": significant(found.seconds),
        "schedules_per_second": significant(found.schedules / found.seconds),
        "processes": processes,
        "processor_seconds": significant(found.processor_seconds),
        "failing_seeds": [verdict.seed for verdict in found.failing],
        "histories": [list(verdict.lines()) for verdict in found.failing[:TOLD]],
    }


def history(seed: int, plant: str | None = None) -> list[str]:
    """Return the history of one seed, numbered, and what was found; over a planted bug if one is named.

    Raises:
        InvalidInputError: there is no such bug.
    """
    return list(run_seed(seed, _parts(plant)).lines())


def _caught(name: str) -> dict[str, Any]:
    """Return in how many seeds a bug was caught, and in which first."""
    bug = planted(name)
    caught = [seed for seed in range(PLANTED_SEEDS) if run_seed(seed, bug.parts).violations]
    tried = PLANTED_SEEDS
    while not caught and tried < PATIENCE:
        caught += [tried] if run_seed(tried, bug.parts).violations else []
        tried += 1
    return {
        "meaning": bug.meaning,
        "seeds": tried,
        "caught_in": len(caught),
        "first_seed": caught[0] if caught else None,
    }
