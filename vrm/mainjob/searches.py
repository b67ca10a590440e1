"""Which ideation search comes next: the one that is under way, or a new one with seeds that no search had. Pure.

The Runtime alone says which searches there were: the admission key of a Run holds the search, task, seed and branch
that it is for. How many seeds a search has is asked for each time, so no seed follows from the number of its search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from records.runtime import RunBody, Subject
from records.states import Phase
from vrm.mainjob.plan import Round

FIRST_SEED: Final = 20_000
"""Far from the seeds of sweeps and of held-out trials."""

_KEY: Final = re.compile(r"(?P<round>.*round-(?P<number>\d+)/)ideation/(?P<task>.+)/(?P<seed>\d+)/[a-z_]+")
_UNDER_WAY: Final = frozenset({Phase.RUNNING, Phase.PAUSED})


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of one search: its number, as that of a round, its tasks, and its seeds."""

    round: Round
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass
class _Begun:
    number: int
    tasks: set[str] = field(default_factory=set)
    seeds: set[int] = field(default_factory=set)
    phases: set[Phase] = field(default_factory=set)

    @property
    def goes_on(self) -> bool:
        """Whether it has an end and has not come to it; where one of its Runs was stopped it has none."""
        return bool(self.phases & _UNDER_WAY) and self.phases <= _UNDER_WAY | {Phase.COMPLETED}


def next_search(runs: Iterable[Subject], round_: Round, tasks: Sequence[str], seeds: int) -> Place:
    """Return the first search that is under way, with all that it began with, or a new one.

    Args:
        runs: every Run of the Runtime.
        round_: a round of the namespace, whose size and modes the search is of.
        tasks: the tasks that are asked for.
        seeds: how many seeds of each.
    """
    begun, used = _searches(runs, round_)
    going_on = [each for each in begun.values() if each.goes_on]
    fresh = 1 + max(used, default=FIRST_SEED - 1)
    if going_on:
        found = min(going_on, key=lambda each: each.number)
        own = tuple(sorted(found.seeds))
        more = range(fresh, fresh + seeds - len(own))
        wanted = dict.fromkeys([*tasks, *sorted(found.tasks)])
        return Place(round=replace(round_, number=found.number), tasks=tuple(wanted), seeds=(*own, *more))
    number = 1 + max((each.number for each in begun.values()), default=-1)
    new = tuple(range(fresh, fresh + seeds))
    return Place(round=replace(round_, number=number), tasks=tuple(tasks), seeds=new)


def _searches(runs: Iterable[Subject], round_: Round) -> tuple[dict[str, _Begun], set[int]]:
    """Return the searches of this size and these modes, and the seeds of every search of the namespace."""
    begun: dict[str, _Begun] = {}
    used: set[int] = set()
    for run in runs:
        body = RunBody.load(run.body)
        found = _KEY.fullmatch(body.admission_key)
        if found is None or body.namespace != round_.namespace:
            continue
        seed, number = int(found["seed"]), int(found["number"])
        used.add(seed)
        own = replace(round_, number=number).run_body("", body.specification_digest).admission_key
        if found["round"] == own:
            search = begun.setdefault(own, _Begun(number))
            search.tasks.add(found["task"])
            search.seeds.add(seed)
            search.phases.add(run.phase)
    return begun, used
