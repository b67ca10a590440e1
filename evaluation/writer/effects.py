"""Groups about the size of an effect and the amount of support: what is there, and whether enough of it was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from evaluation.writer import ranges
from evaluation.writer.groups import Group, PlannedRun, Round
from evaluation.writer.planting import HERE, Planting

_FEW: Final = 2
"""Roots that are too few for any rule of a task scope under every version of the policy."""
_TOLD_APART: Final = 100
"""Seeds of changed runs begin here where no baseline shares them."""


def promote(plant: Planting) -> Group:
    """A change that helps."""
    return plant.group(plant.runs(plant.usual()), gold=None)


def avoid(plant: Planting) -> Group:
    """A change that harms."""
    return plant.group(plant.runs(plant.usual(-1)), gold=None)


def minimise(plant: Planting) -> Group:
    """A change of a metric that is better when it is lower; it helps or harms."""
    return plant.group(plant.runs(plant.usual(1 if plant.either() else -1)), gold=None)


def null(plant: Planting) -> Group:
    """A change that does nothing, seen well enough to say so."""
    spread = plant.within(ranges.NULL_SPREAD)
    effect = plant.effect(plant.changes()[0], 0.0, spread, plant.roots(ranges.ROOTS[1]))
    return plant.group(plant.runs(effect, noise=plant.within(ranges.QUIET)))


def small(plant: Planting) -> Group:
    """A real effect that is smaller than what matters."""
    mean = plant.within(ranges.SMALL) * (1 if plant.either() else -1)
    effect = plant.effect(plant.changes()[0], mean, ranges.NULL_SPREAD[0], plant.roots())
    return plant.group(plant.runs(effect, noise=plant.within(ranges.QUIET)))


def heterogeneous(plant: Planting) -> Group:
    """A change that helps some roots and harms others, so that the next root can go either way."""
    mean = plant.within(ranges.EFFECT)
    effect = plant.effect(plant.changes()[0], mean, mean * plant.within(ranges.WIDE), plant.roots())
    return plant.group(plant.runs(effect))


def many_tries(plant: Planting) -> Group:
    """Many changes side by side, none of which does anything; one of them may look as if."""
    roots, seeds = plant.roots(ranges.ROOTS[0]), 1
    spread = plant.within(ranges.SPREAD) * plant.within(ranges.EFFECT)
    runs = []
    for change in plant.changes(ranges.TRIES):
        runs += plant.runs(plant.effect(change, 0.0, spread, roots), seeds)
    return plant.group(runs)


def one_seed(plant: Planting) -> Group:
    """A change that helps, on enough roots with one seed each."""
    return plant.group(plant.runs(plant.usual(), 1), gold=None)


def uneven_seeds(plant: Planting) -> Group:
    """A change that helps, on enough roots, of which some have many seeds and some have one."""
    effect = plant.usual()
    runs = [run for root in effect.roots for run in plant.runs(effect, plant.whole((1, 5)), [root])]
    return plant.group(runs, gold=None)


def too_little(plant: Planting) -> Group:
    """A change that helps, on two roots."""
    return plant.group(plant.runs(plant.usual(roots=_FEW)))


def lucky(plant: Planting) -> Group:
    """One run of one root that did well where there is nothing."""
    effect = plant.effect(plant.changes()[0], 0.0, 0.0, plant.roots(1))
    before, after = plant.runs(effect, 1)
    luck = round(before.value + plant.helpful * plant.within(ranges.LUCK), 6)
    return plant.group([before, replace(after, value=luck)])


def unpaired(plant: Planting) -> Group:
    """A change that helps, whose runs share no seed with any baseline."""
    effect = plant.usual()
    seeds = plant.whole((2, ranges.SEEDS[1]))
    before = [plant.baseline(root, seed, HERE, plant.noise) for root in effect.roots for seed in range(seeds)]
    after = [
        plant.changed(effect, root, _TOLD_APART + seed, plant.noise) for root in effect.roots for seed in range(seeds)
    ]
    return plant.group(before + after, gold=None)


def copied(plant: Planting) -> Group:
    """Enough support, imported again and again under other Runs with other prose."""
    return _with_copies(plant, plant.group(plant.runs(plant.usual()), gold=None))


def repeated(plant: Planting) -> Group:
    """Enough support, of which every record is appended again as it is."""
    made = plant.group(plant.runs(plant.usual()), gold=None)
    again = tuple(replace(run, copy_of=-1) for run in made.runs)
    return replace(made, rounds=(made.runs + again,))


def copied_later(plant: Planting) -> Group:
    """Enough support, imported again after it became a rule."""
    made = plant.group(plant.runs(plant.usual()), gold=None)
    times = plant.whole(ranges.COPIES)
    return replace(made, rounds=(made.runs, tuple(_copies(made.runs, times))))


def few_copied(plant: Planting) -> Group:
    """Two roots, imported so often that they look like many."""
    return _with_copies(plant, too_little(plant))


def lucky_copied(plant: Planting) -> Group:
    """One lucky run, imported so often that it looks replicated."""
    return _with_copies(plant, lucky(plant))


def _with_copies(plant: Planting, made: Group) -> Group:
    times = plant.whole(ranges.COPIES)
    return replace(made, rounds=tuple(each + tuple(_copies(each, times)) for each in made.rounds))


def _copies(runs: Round, times: int) -> Iterator[PlannedRun]:
    return (
        replace(run, copy_of=number, source_run=f"import-{number}") for number in range(1, times + 1) for run in runs
    )
