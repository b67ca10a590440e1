"""Groups whose evidence comes in rounds: what a rule becomes as more is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evaluation.writer import ranges
from evaluation.writer.groups import Group, PlannedRun, PlantedEffect
from evaluation.writer.planting import Planting

_FEW: Final = 2
_OVERTURNED: Final = 2
"""How many times as many roots speak against a rule as spoke for it."""


def supersede(plant: Planting) -> Group:
    """A rule to which more roots are added."""
    effect = plant.usual(roots=plant.whole(ranges.ROOTS) + ranges.ROOTS[0] // 2)
    roots = list(effect.roots)
    first = len(roots) - ranges.ROOTS[0] // 2
    seeds = plant.whole(ranges.SEEDS)
    return plant.group(plant.runs(effect, seeds, roots[:first]), plant.runs(effect, seeds, roots[first:]), gold=None)


def activate(plant: Planting) -> Group:
    """Two roots at first, and enough of them later."""
    effect = plant.usual()
    roots, seeds = list(effect.roots), plant.whole(ranges.SEEDS)
    return plant.group(plant.runs(effect, seeds, roots[:_FEW]), plant.runs(effect, seeds, roots[_FEW:]), gold=None)


def retract(plant: Planting) -> Group:
    """A rule that most of the later roots speak against: in the whole scope the change does nothing by itself."""
    believed = plant.usual(roots=ranges.ROOTS[0])
    later = [f"later-{root}" for root in plant.roots(ranges.ROOTS[0] * _OVERTURNED)]
    spread = 2 * abs(believed.mean)
    does = dict(believed.roots) | {root: plant.normal(spread) for root in later}
    effect = replace(believed, mean=0.0, against=0.5, roots=does)
    plant.effects[-1] = effect
    return plant.group(plant.runs(effect, 1, list(believed.roots)), plant.runs(effect, 1, later))


def contest(plant: Planting) -> Group:
    """A rule of which one root later shows the opposite, with other seeds and nothing else changed."""
    effect, camps = _disputed(plant)
    return plant.group([*plant.runs(effect, 1), *camps[0]], camps[1])


def contradiction(plant: Planting) -> Group:
    """A change whose seeds of one root fall into two camps, in one and the same round."""
    effect, camps = _disputed(plant)
    return plant.group([*plant.runs(effect, 1), *camps[0], *camps[1]])


def _disputed(plant: Planting) -> tuple[PlantedEffect, tuple[list[PlannedRun], list[PlannedRun]]]:
    """Plant an effect that helps, and one root that half of its seeds contradict."""
    effect = replace(plant.usual(roots=ranges.ROOTS[0]), lawful=False)
    plant.effects[-1] = effect
    height = plant.within(ranges.CAMPS) * plant.helpful
    camps: list[list[PlannedRun]] = []
    for sign in (1, -1):
        divided = replace(effect, roots=dict(effect.roots) | {"divided": sign * height})
        seeds = range(len(camps) * ranges.CAMP_SEEDS, (len(camps) + 1) * ranges.CAMP_SEEDS)
        camps.append(plant.runs(divided, seeds, ["divided"], noise=ranges.CAMP_NOISE))
    return effect, (camps[0], camps[1])
