"""Planting one group: draws from the declared ranges, and keeps the truth of what it drew.

A group is a pure function of kind, number and seed. A root has one effect of a change, seeds scatter around it, and a
baseline run is shared by every change that is compared with it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np

from evaluation.bench.corpus import CATALOG
from evaluation.writer import ranges
from evaluation.writer.groups import GoldRule, Group, Place, PlannedRun, PlantedEffect, beyond
from evaluation.writer.ranges import Range
from policies.catalog import Change

HERE: Final = Place()
_DIGITS: Final = 6
_HALF: Final = 0.5**0.5
"""Baseline and changed run each carry half of the variance of their difference."""


class Planting:
    """Plants one group."""

    def __init__(self, kind: str, number: int, seed: int, *, minimize: bool = False, guarded: bool = False) -> None:
        """Begin with the group's own stream of random numbers."""
        self._kind, self._number, self._seed = kind, number, seed
        self._random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
        self._baselines: dict[tuple[str, int, Place], PlannedRun] = {}
        self._centres: dict[str, float] = {}
        self.minimize, self.guarded = minimize, guarded
        self.effects: list[PlantedEffect] = []
        self.noise = self.within(ranges.NOISE)
        self.guard: float | None = 0.0
        """What every change does to the guardrail metric; None where it was not measured on changed runs."""

    def within(self, bounds: Range) -> float:
        """Draw from a range."""
        return float(self._random.uniform(*bounds))

    def whole(self, bounds: tuple[int, int]) -> int:
        """Draw a whole number, both ends included."""
        return int(self._random.integers(bounds[0], bounds[1] + 1))

    def either(self) -> bool:
        """Draw one of two."""
        return bool(self._random.integers(2))

    def normal(self, spread: float) -> float:
        """Draw from a normal distribution around zero."""
        return float(self._random.normal(0.0, spread))

    def changes(self, count: int = 1) -> list[Change]:
        """Draw registered changes of the catalog, no two the same."""
        places = self._random.permutation(len(CATALOG.contrasts))[:count]
        return [CATALOG.contrasts[int(place)] for place in places]

    def roots(self, count: int | None = None) -> list[str]:
        """Name the roots of the group; without a count it is drawn."""
        return [f"root-{place}" for place in range(count or self.whole(ranges.ROOTS))]

    @property
    def helpful(self) -> int:
        """The sign of an effect that improves the metric."""
        return -1 if self.minimize else 1

    def effect(
        self,
        change: Change,
        mean: float,
        spread: float,
        roots: Sequence[str],
        place: Place = HERE,
        *,
        lawful: bool = True,
    ) -> PlantedEffect:
        """Plant what a change does at a place: the mean over roots, and each root's own effect around it."""
        against = NormalDist(abs(mean), spread).cdf(0.0) if spread > 0 else 0.0
        planted = PlantedEffect(
            change=change,
            place=place,
            mean=mean,
            against=against,
            roots={root: mean + self.normal(spread) for root in roots},
            lawful=lawful,
        )
        self.effects.append(planted)
        return planted

    def usual(self, sign: int = 1, place: Place = HERE, roots: int | None = None) -> PlantedEffect:
        """Plant an effect of declared size and spread that helps, or with sign -1 harms."""
        mean = self.within(ranges.EFFECT)
        spread = mean * self.within(ranges.SPREAD)
        return self.effect(self.changes()[0], sign * self.helpful * mean, spread, self.roots(roots), place)

    def runs(
        self,
        effect: PlantedEffect,
        seeds: int | Iterable[int] | None = None,
        roots: Sequence[str] | None = None,
        *,
        noise: float | None = None,
        label: str = "",
    ) -> list[PlannedRun]:
        """Return baseline and changed runs for the roots of an effect; without `seeds` their number is drawn."""
        wanted = self.whole(ranges.SEEDS) if seeds is None else seeds
        numbers = list(range(wanted)) if isinstance(wanted, int) else list(wanted)
        scatter = self.noise if noise is None else noise
        found = []
        for root in effect.roots if roots is None else roots:
            for seed in numbers:
                found.append(self.baseline(root, seed, effect.place, scatter))
                found.append(self.changed(effect, root, seed, scatter, label))
        return found

    def baseline(self, root: str, seed: int, place: Place, noise: float) -> PlannedRun:
        """Return the one baseline run of a root and seed at a place."""
        key = (root, seed, place)
        if key not in self._baselines:
            value = round(self._centre(root) + self.normal(noise * _HALF), _DIGITS)
            guardrail = round(self.within(ranges.BASELINE), _DIGITS) if self.guarded else None
            self._baselines[key] = PlannedRun(
                root=root,
                seed=seed,
                change=None,
                value=value,
                guardrail=guardrail,
                place=place,
                source_run=_source(place),
            )
        return self._baselines[key]

    def changed(self, effect: PlantedEffect, root: str, seed: int, noise: float, label: str = "") -> PlannedRun:
        """Return a run with the change; what it claims of itself is flattery."""
        value = round(self._centre(root) + effect.roots[root] + self.normal(noise * _HALF), _DIGITS)
        before = self.baseline(root, seed, effect.place, noise).guardrail
        guardrail = None
        if before is not None and self.guard is not None:
            guardrail = round(before + self.guard + self.normal(ranges.QUIET[1]), _DIGITS)
        return PlannedRun(
            root=root,
            seed=seed,
            change=effect.change,
            value=value,
            guardrail=guardrail,
            claimed=round(value + self.helpful * ranges.LUCK[1], _DIGITS),
            place=effect.place,
            source_run=_source(effect.place),
            label=label,
        )

    def group(self, *rounds: Iterable[PlannedRun], gold: Iterable[PlantedEffect] | None = ()) -> Group:
        """Return the group; `gold` are the effects that must become rules, None for every one that can."""
        wanted = [each for each in self.effects if beyond(each)] if gold is None else list(gold)
        made = Group(
            kind=self._kind,
            number=self._number,
            seed=self._seed,
            minimize=self.minimize,
            guarded=self.guarded,
            rounds=tuple(tuple(dict.fromkeys(each)) for each in rounds),
            effects=tuple(self.effects),
            gold=(),
        )
        rules = tuple(GoldRule(change=e.change, place=e.place, action=made.action(e.mean)) for e in wanted)
        return replace(made, gold=rules)

    def _centre(self, root: str) -> float:
        return self._centres.setdefault(root, self.within(ranges.BASELINE))


def _source(place: Place) -> str:
    """Name the Run that runs at a place belong to: one machine has one, or its attempts would be those of another."""
    return f"sweep-{place.environment}"
