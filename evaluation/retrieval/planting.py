"""Questions about planted evidence: the corpora of the writer's evaluation, and scopes where several changes help.

Rules kept here:

- a group of the writer's corpus is asked about at the place of its gold rule; the task that asks is a new root of its
  scope. What was planted there, and nothing that became of it, is the answer;
- a group whose own numbers do not bear out its gold is not asked about, for no memory could know: by a one-sample t
  test over the roots' differences (scipy), and by the share of roots that went the other way. What the writer makes of
  a group that does bear it out is not looked at, so a rule that it missed is a miss here too;
- a kind whose evidence must not be used, or whose claim must not stand, is forbidden ground: whatever is returned
  beside the gold is a forbidden return, not a mistake;
- a scope of several changes has two or three that help much, one that helps little, one that harms, a weaker sibling of
  a change that helps, and the rest does nothing. The ranges are those of `evaluation.writer.ranges`, in parts.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evaluation.bench.corpus import CATALOG
from evaluation.retrieval.questions import Act, Question, Stratum, grade_of
from evaluation.writer import ranges
from evaluation.writer.corpus import corpus
from evaluation.writer.groups import SPACE, GoldRule, Group, Place, PlantedEffect
from evaluation.writer.planting import HERE, Planting
from evaluation.writer.trials import METRIC, contract_at
from policies.catalog import Change
from records.canonical import digest_bytes
from records.decisions import AllowedAction
from records.values import MemoryScope

GROUPS: Final = 120
SEVERAL: Final = 20
"""Scopes of several changes beside a corpus of 120 groups; each gives two questions."""
LARGE: Final[ranges.Range] = (0.07, ranges.EFFECT[1])
LITTLE: Final[ranges.Range] = (ranges.EFFECT[0], 0.04)
NEAR: Final[ranges.Range] = (ranges.SPREAD[0], 0.5)
"""The upper part and the lower end of the planted effects, and the lower part of their spread between roots."""

_LEVEL: Final = 0.05
_LEAST_ROOTS: Final = 3
_FORBIDDEN_KINDS: Final = frozenset({"retract", "contest", "contradiction", "guardrail_breach", "supersede"})
_DRIFTED_KINDS: Final = frozenset({"promote", "avoid"})
"""Kinds that are asked about once more under a contract that has changed since."""
_WORDS: Final = (
    "What improves {metric} on a task with {scope}?",
    "The score on {scope} is stuck at the defaults; which setting is worth a change?",
    "Next experiment for {scope}: what has been shown to move {metric}, and what should be left alone?",
)


@dataclass(frozen=True)
class Planted:
    """The groups of one seed, and what is asked about them."""

    groups: tuple[Group, ...]
    questions: tuple[Question, ...]


def planted(seed: int, groups: int = GROUPS, several: int = SEVERAL) -> Planted:
    """Return the groups and questions of a seed, the same ones for the same numbers."""
    written = tuple(corpus(seed, groups))
    wide = tuple(wide_group(number, seed) for number in range(several))
    return Planted((*written, *wide), questions_about(written, wide))


def questions_about(written: Iterable[Group], wide: Iterable[Group]) -> tuple[Question, ...]:
    """Return what is asked about groups of the writer's corpus and about scopes of several changes."""
    return (*_asked(written), *_asked_wide(wide))


def wide_group(number: int, seed: int) -> Group:
    """Return a scope where several changes help, the same one for the same numbers."""
    return _several(Planting("several", number, seed))


def _asked(groups: Iterable[Group]) -> Iterator[Question]:
    for group in groups:
        if not all(is_shown(group, gold) for gold in group.gold):
            continue
        place = group.gold[0].place if group.gold else _place(group)
        grades = _grades(group, place)
        strict = bool(group.taints) or group.kind in _FORBIDDEN_KINDS
        yield _question(group, group.name, _stratum(grades, strict=strict), place, grades, strict=strict)
        if group.kind in _DRIFTED_KINDS:
            drifted = replace(place, contract="changed-since")
            yield _question(group, f"{group.name}-drifted", Stratum.ABSTAIN, drifted, {})


def _asked_wide(groups: Iterable[Group]) -> Iterator[Question]:
    for group in (each for each in groups if all(is_shown(each, gold) for gold in each.gold)):
        grades = _grades(group, HERE)
        whole = _question(group, group.name, Stratum.SEVERAL, HERE, grades)
        yield whole
        best = max(grades, key=lambda act: (grades[act], act))
        name = f"{group.name}-withheld"
        if group.number % 2:  # the best change is no longer open
            left = {act: grade for act, grade in grades.items() if act != best}
            tried = frozenset({AllowedAction(knob=best.knob, value=best.value)})
            moved = replace(whole, tried=tried, forbidden=frozenset({best}))
        else:  # it is in effect already, and what starts from the default does not apply any more
            left = {act: grade for act, grade in grades.items() if act.knob != best.knob}
            config = CATALOG.effective_config({best.knob: _value(best)})
            moved = replace(whole, config=config, forbidden=frozenset(grades.keys() - left.keys()))
        yield replace(moved, name=name, stratum=Stratum.FORBIDDEN, grades=left)


def is_shown(group: Group, gold: GoldRule) -> bool:
    """Tell whether sound numbers of a group bear a gold rule out: a t test over roots, and the roots against it."""
    deltas = np.array(list(_differences(group, gold).values()))
    if deltas.size < _LEAST_ROOTS:
        return False
    sign = 1.0 if group.action(1.0) is gold.action else -1.0
    against = float(np.mean(sign * deltas < 0.0))
    return bool(sign * deltas.mean() > ranges.MARGIN and against <= ranges.AGAINST and _p_value(deltas) <= _LEVEL)


def _differences(group: Group, gold: GoldRule) -> dict[str, float]:
    """Return changed minus baseline of every root at the place of a gold rule."""
    sides: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for run in group.runs:
        sound = not run.copy_of and run.taint is None and run.failure is None and run.place == gold.place
        if sound and run.change in {None, gold.change}:
            sides[run.root, run.change is None].append(run.value)
    return {
        root: fmean(values) - fmean(sides[root, True])
        for (root, is_baseline), values in list(sides.items())
        if not is_baseline and sides[root, True]
    }


def _p_value(deltas: NDArray[np.float64]) -> float:
    return float(stats.ttest_1samp(deltas, 0.0).pvalue)


def _question(
    group: Group, name: str, stratum: Stratum, place: Place, grades: dict[Act, int], *, strict: bool = False
) -> Question:
    task, contract = group.task("the task that asks"), contract_at(group, place)
    words = _WORDS[zlib.crc32(name.encode()) % len(_WORDS)]
    scope = MemoryScope(
        task_scope_id=task.task_scope_id,
        evaluation_task_id=task.evaluation_task_id,
        domain=CATALOG.domain,
        dataset_digest=task.dataset_digest,
        source_digest=digest_bytes(place.source.encode()),
        model_family=place.model_family,
        environment_digest=digest_bytes(place.environment.encode()),
        contract_digest=contract.comparability_digest,
        budget_class=place.budget,
        visibility=SPACE,
    )
    return Question(
        name=name,
        origin="planted",
        stratum=stratum,
        scope=scope,
        contract=contract,
        catalog=CATALOG,
        text=words.format(metric=METRIC, scope=task.scope_description),
        config=CATALOG.baseline,
        grades=grades,
        strict=strict,
    )


def _grades(group: Group, place: Place) -> dict[Act, int]:
    return {
        Act.about(gold.change, gold.action): grade_of(_mean(group, gold), ranges.MARGIN, gold.action)
        for gold in group.gold
        if gold.place == place
    }


def _mean(group: Group, gold: GoldRule) -> float:
    return next(each.mean for each in group.effects if (each.change, each.place) == (gold.change, gold.place))


def _place(group: Group) -> Place:
    return next((each.place for each in group.effects), HERE)


def _stratum(grades: dict[Act, int], *, strict: bool) -> Stratum:
    if strict:
        return Stratum.FORBIDDEN
    return (Stratum.ABSTAIN, Stratum.ONE, Stratum.SEVERAL)[min(len(grades), 2)]


def _several(plant: Planting) -> Group:
    roots, (first, *rest) = plant.roots(ranges.ROOTS[1]), _mechanisms(plant)
    strong = [first, *rest[: plant.whole((1, 2))]]
    weak, harmful, *still = [each for each in rest if each not in strong]
    effects = [_effect(plant, changes[0], plant.within(LARGE), roots) for changes in strong]
    siblings = [changes[1] for changes in strong if len(changes) > 1]
    effects += [_effect(plant, change, plant.within(LITTLE), roots) for change in siblings[:1]]
    effects.append(_effect(plant, weak[0], plant.within(LITTLE), roots))
    effects.append(_effect(plant, harmful[0], -plant.within(LARGE), roots))
    effects += [plant.effect(changes[0], 0.0, ranges.NULL_SPREAD[0], roots) for changes in still]
    runs = [run for each in effects for run in plant.runs(each, ranges.SEEDS[0])]
    return plant.group(runs, gold=None)


def _effect(plant: Planting, change: Change, mean: float, roots: list[str]) -> PlantedEffect:
    return plant.effect(change, mean * plant.helpful, abs(mean) * plant.within(NEAR), roots)


def _mechanisms(plant: Planting) -> list[list[Change]]:
    """Return the catalog's changes by mechanism, both in the order of a draw."""
    drawn: dict[str, list[Change]] = {}
    for change in plant.changes(len(CATALOG.contrasts)):
        drawn.setdefault(change.mechanism, []).append(change)
    return list(drawn.values())


def _value(act: Act) -> object:
    allowed = zip(CATALOG.settings[act.knob], CATALOG.knobs[act.knob].allowed, strict=True)
    return next(value for setting, value in allowed if setting.value == act.value)
