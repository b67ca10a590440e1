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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from evaluation.bench.measuring import significant
from evaluation.simulation.planted import PLANTED, Planted
from evaluation.simulation.schedule import Verdict, run_seed
from evaluation.simulation.strands import Hands
from evaluation.simulation.world import Parts
from records.errors import InvalidInputError

PLANTED_SEEDS: Final = 40
"""Seeds that every planted bug meets."""
PATIENCE: Final = 1000
"""Seeds after which a bug that nothing found counts as missed."""
TOLD: Final = 3
"""Failing seeds whose history is told."""
_EVERY: Final = 10
_TIDY: Final = 250

Progress = Callable[[str, int, int], None]


@dataclass
class Range:
    """What came of a range of seeds."""

    schedules: int = 0
    steps: int = 0
    failing: list[Verdict] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def violations(self) -> int:
        """How many seeds found something."""
        return len(self.failing)


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


def run_range(seeds: Iterable[int], hands: Hands, parts: Parts, told: Callable[[int], None]) -> Range:
    """Carry out seeds one after the other."""
    found, begun = Range(), time.perf_counter()
    for seed in seeds:
        verdict = run_seed(seed, hands, parts)
        found.schedules += 1
        found.steps += verdict.steps
        found.faults.update(verdict.faults)
        if verdict.violations:
            found.failing.append(verdict)
        if found.schedules % _EVERY == 0:
            told(found.schedules)
        if found.schedules % _TIDY == 0:
            gc.collect()  # a world is full of circles, and the integrity check keeps the collector from seeing them
    found.seconds = time.perf_counter() - begun
    return found


def simulate(seeds: range, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Carry out a range of seeds and then every planted bug, and return the report as JSON values."""
    hands = Hands()
    try:
        found = run_range(seeds, hands, Parts(), lambda done: told("schedules", done, len(seeds)))
        bugs = {}
        for number, bug in enumerate(PLANTED.values()):
            told("planted bugs", number, len(PLANTED))
            bugs[bug.name] = _caught(bug, hands)
    finally:
        hands.close()
    return report(seeds, found) | {
        "planted_bugs": len(bugs),
        "planted_bugs_caught": sum(1 for bug in bugs.values() if bug["caught_in"]),
        "planted": bugs,
    }


def simulate_planted(name: str, seeds: range, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Carry out a range of seeds over a planted bug, and return the report as JSON values.

    Raises:
        InvalidInputError: there is no such bug.
    """
    bug, hands = planted(name), Hands()
    try:
        found = run_range(seeds, hands, bug.parts, lambda done: told("schedules", done, len(seeds)))
    finally:
        hands.close()
    return report(seeds, found) | {"plant": name, "meaning": bug.meaning}


def report(seeds: range, found: Range) -> dict[str, Any]:
    """Return what is told of a range."""
    return {
        "seeds": f"{seeds.start}:{seeds.stop}",
        "schedules": found.schedules,
        "violations": found.violations,
        "steps": found.steps,
        "faults": {name.lower(): count for name, count in sorted(found.faults.items())},
        "seconds": significant(found.seconds),
        "schedules_per_second": significant(found.schedules / found.seconds),
        "failing_seeds": [verdict.seed for verdict in found.failing],
        "histories": [list(verdict.lines()) for verdict in found.failing[:TOLD]],
    }


def history(seed: int, plant: str | None = None) -> list[str]:
    """Return the history of one seed, numbered, and what was found; over a planted bug if one is named.

    Raises:
        InvalidInputError: there is no such bug.
    """
    parts, hands = Parts() if plant is None else planted(plant).parts, Hands()
    try:
        return list(run_seed(seed, hands, parts).lines())
    finally:
        hands.close()


def _caught(bug: Planted, hands: Hands) -> dict[str, Any]:
    """Return in how many seeds a bug was caught, and in which first."""
    caught = [seed for seed in range(PLANTED_SEEDS) if run_seed(seed, hands, bug.parts).violations]
    tried = PLANTED_SEEDS
    while not caught and tried < PATIENCE:
        caught += [tried] if run_seed(tried, hands, bug.parts).violations else []
        tried += 1
    return {
        "meaning": bug.meaning,
        "seeds": tried,
        "caught_in": len(caught),
        "first_seed": caught[0] if caught else None,
    }
