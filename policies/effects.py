"""From compared runs to one effect: what a change did, over how many independent units, and how sure that is.

Rules kept here (docs/adr/0030, 0031):

- a pair is a changed run and its baseline in one stratum with the same seed; the same pair twice counts once (VRM-W06).
  A changed run beside the mean of an unpaired arm gives a delta, but is no pair;
- an effect unit of a task scope is one dataset ROOT: mean over seeds inside a task, then mean over the tasks of the
  root; seeds and resplits of one root never count as more than one unit. Where one evaluation task speaks for itself
  alone, its units are its pairs; of unpaired arms, its changed runs;
- the effect is the mean over units. Three or more units give a t interval of the mean AND a prediction interval for one
  new unit; two give their range; one gives neither. Two unpaired arms of three or more runs each give Welch's interval
  and a prediction interval for one new changed run beside the mean of the baseline;
- deltas are changed minus baseline in the metric's unit; the direction of the metric says which sign improves;
- figures are rounded to 12 significant digits before anything is decided on them, so that the decision can be
  checked from what is recorded, and the last bits of a platform's arithmetic enter no id.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from policies.loading import PolicyPart
from policies.statistics import (
    MIN_T_VALUES,
    Bounds,
    Part,
    SignTest,
    TestMethod,
    compare_arms,
    mean,
    mean_interval,
    one_sample_test,
    prediction_interval,
    quantile,
    sample_sd,
    sign_test,
)
from records.errors import InvalidRecordError
from records.values import Direction

_NOISE: Final = 1e-12  # a difference below this share of the values it was taken from is rounding, not an effect

UnitInterval = Annotated[float, Field(gt=0, lt=1)]
Arms = tuple[Sequence[float], Sequence[float]]
"""The values of the changed runs and those of the baseline runs."""


class EffectPolicy(PolicyPart):
    """How effects are estimated.

    Attributes:
        confidence: nominal coverage of both intervals, as a share.
        quantile: the lower quantile of units looked at beside the mean; the upper one is its mirror image.
        equivalence_margin: smallest effect that matters, in the metric's unit, where the contract names none.
    """

    confidence: UnitInterval
    quantile: Annotated[float, Field(gt=0, le=0.5)]
    equivalence_margin: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class PairedDelta:
    """One changed run beside its baseline.

    Attributes:
        root: the dataset root, the independent unit of a task scope.
        evaluation_task: the task or stratum inside the root within which the two runs compare.
        seed: what pairs the runs: the seed, or a label of the run where there are several per seed.
        baseline: metric of the baseline run, or its mean over several.
        changed: metric of the changed run.
        paired: whether both sides share a seed; otherwise the baseline is the mean of an arm.
    """

    root: str
    evaluation_task: str
    seed: int | str
    baseline: float
    changed: float
    paired: bool = True

    @property
    def delta(self) -> float:
        """Changed minus baseline, in the metric's unit; a difference that is rounding noise is zero."""
        difference = self.changed - self.baseline
        return difference if abs(difference) > _NOISE * max(abs(self.changed), abs(self.baseline)) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumEffect:
    """The deltas of one evaluation task, in the order of their seeds, and their mean; `paired` tells what they are."""

    evaluation_task: str
    deltas: tuple[float, ...]
    effect: float
    paired: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectUnit:
    """One independent unit: the mean effect over the tasks of a dataset root."""

    root: str
    strata: tuple[StratumEffect, ...]
    effect: float

    @property
    def n_pairs(self) -> int:
        """How many paired runs stand behind the unit."""
        return sum(len(stratum.deltas) for stratum in self.strata if stratum.paired)


class UncertaintyMethod(StrEnum):
    """How the uncertainty of an effect was found, by the number of units; of two unpaired arms, by Welch."""

    T = "t-mean-and-prediction"
    WELCH = "welch-unequal-variances"
    RANGE = "range-of-two-units"
    NONE = "one-unit"


class Classification(StrEnum):
    """What the interval of the mean says; NO_EFFECT is a finding, UNCERTAIN the lack of one."""

    IMPROVES = "improves"
    HARMS = "harms"
    NO_EFFECT = "no_effect"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSummary:
    """One effect with everything that is decided on.

    Figures are in the metric's unit, signed as changed minus baseline; every float is finite.

    Attributes:
        direction: which sign improves.
        n_units: independent units; n_roots: dataset roots behind them; n_pairs: paired runs behind them.
        mean: mean over units; sd: their sample standard deviation, None for one unit.
        unit_range: smallest and largest unit.
        mean_interval: interval of the mean, None below three units, or below three runs in an unpaired arm.
        prediction_interval: interval for one new unit, None where the other is.
        confidence: nominal coverage of both.
        method: how the uncertainty was found.
        signs: units up, down and tied, with the sign test's p-value.
        p_value: two-sided p of "the mean is zero", None where there is no interval; p_method says where it comes from.
        lower_quantile: the policy's lower quantile of units; upper_quantile its mirror image.
        equivalence_margin: the margin classified against.
        classification: what the interval of the mean says.
        part: the mean with its variance, as tests between parts of the evidence take it; None without an interval.
    """

    direction: Direction
    n_units: int
    n_roots: int
    n_pairs: int
    mean: float
    sd: float | None
    unit_range: Bounds
    mean_interval: Bounds | None
    prediction_interval: Bounds | None
    confidence: float
    method: UncertaintyMethod
    signs: SignTest
    p_value: float | None
    p_method: TestMethod | None
    lower_quantile: float
    upper_quantile: float
    equivalence_margin: float
    classification: Classification
    part: Part | None

    @property
    def improved(self) -> int:
        """How many units moved the way the metric wants."""
        return self.signs.up if self.direction is Direction.MAXIMIZE else self.signs.down

    @property
    def worsened(self) -> int:
        """How many units moved against the metric."""
        return self.signs.down if self.direction is Direction.MAXIMIZE else self.signs.up

    def improves(self, value: float) -> bool:
        """Tell whether a delta of this sign is an improvement under the metric's direction."""
        return value > 0 if self.direction is Direction.MAXIMIZE else value < 0


def figure(value: float) -> float:
    """Round to the 12 significant digits that are recorded and decided on."""
    return float(f"{value:.12g}") + 0.0  # plus zero: minus zero has no canonical form


def effect_units(deltas: Iterable[PairedDelta]) -> tuple[EffectUnit, ...]:
    """Return one unit per dataset root, sorted by root; a pair given twice counts once.

    Raises:
        InvalidRecordError: a metric is not finite, or one (root, task, seed) comes with two different results.
    """
    strata: dict[str, dict[str, dict[str, PairedDelta]]] = defaultdict(lambda: defaultdict(dict))
    for pair in deltas:
        if not (math.isfinite(pair.baseline) and math.isfinite(pair.changed) and math.isfinite(pair.delta)):
            raise InvalidRecordError("pair", pair, "Both metrics of a pair are finite; leave failed runs out.")
        known = strata[pair.root][pair.evaluation_task].setdefault(_seed_key(pair.seed), pair)
        if (known.baseline, known.changed) != (pair.baseline, pair.changed):
            raise InvalidRecordError("pair", pair, "One task and seed has one result; give reruns labels of their own.")
    return tuple(
        _unit(root, [_stratum(task, pairs) for task, pairs in sorted(tasks.items())])
        for root, tasks in sorted(strata.items())
    )


def summarise_effect(
    units: Sequence[EffectUnit], direction: Direction, policy: EffectPolicy, margin: float | None = None
) -> EffectSummary:
    """Estimate one effect from its units; `margin` is the contract's equivalence margin, where it names one.

    Raises:
        ValueError: there is no unit, a root comes twice, or the margin is not a finite number from zero on.
    """
    if len({unit.root for unit in units}) != len(units) or not units:
        raise ValueError("give one or more units, one per root")
    bound = policy.equivalence_margin if margin is None else margin
    if not (math.isfinite(bound) and bound >= 0):
        raise ValueError(f"equivalence margin {bound} is not a finite number from zero on")
    values = [unit.effect for unit in units]
    basis = _Basis(len(units), sum(unit.n_pairs for unit in units), _one_sample(values, policy.confidence))
    return _summary(values, basis, direction, (policy, bound))


def summarise_runs(
    strata: Sequence[StratumEffect], arms: Arms | None, direction: Direction, policy: EffectPolicy, margin: float
) -> EffectSummary:
    """Estimate the effect inside one evaluation task, whose seeds or runs are the units.

    Pairs are units one by one. Unpaired runs of one stratum are compared as two arms. Where several strata are compared
    and not all by pairs, a stratum is a unit, for runs of different strata are never one arm.

    Args:
        strata: the deltas of the task, one or more strata.
        arms: the values of the changed and of the baseline runs, if they are unpaired runs of one stratum.
        direction: which sign improves.
        policy: how effects are estimated.
        margin: the equivalence margin, in the metric's unit.
    """
    if arms is not None:
        deltas = [figure(delta) for stratum in strata for delta in stratum.deltas]
        basis = _Basis(1, 0, _two_arms(arms, policy.confidence), welch=True)
        return _summary(deltas, basis, direction, (policy, margin))
    paired = all(stratum.paired for stratum in strata)
    each = (stratum.deltas if paired else (stratum.effect,) for stratum in strata)
    values = [figure(value) for values in each for value in values]
    pairs = sum(len(stratum.deltas) for stratum in strata if stratum.paired)
    return _summary(values, _Basis(1, pairs, _one_sample(values, policy.confidence)), direction, (policy, margin))


@dataclass(frozen=True, slots=True)
class _Inference:
    interval: Bounds
    prediction: Bounds
    p_value: float
    p_method: TestMethod
    part: Part


@dataclass(frozen=True, slots=True)
class _Basis:
    """What units rest on: roots and pairs behind them, and what was inferred, None where they are too few."""

    n_roots: int
    n_pairs: int
    inferred: _Inference | None
    welch: bool = False

    def method(self, n_units: int) -> UncertaintyMethod:
        """Return how the uncertainty was found."""
        if self.inferred is not None:
            return UncertaintyMethod.WELCH if self.welch else UncertaintyMethod.T
        return UncertaintyMethod.RANGE if n_units > 1 else UncertaintyMethod.NONE


def _one_sample(values: Sequence[float], confidence: float) -> _Inference | None:
    if len(values) < MIN_T_VALUES:
        return None
    test = one_sample_test(values)
    intervals = _rounded(mean_interval(values, confidence)), _rounded(prediction_interval(values, confidence))
    part = Part(mean(values), sample_sd(values) ** 2 / len(values), len(values) - 1)
    return _Inference(*intervals, figure(test.p_value), test.method, part)


def _two_arms(arms: Arms, confidence: float) -> _Inference | None:
    if min(map(len, arms)) < MIN_T_VALUES:
        return None
    found = compare_arms(*arms, confidence)
    intervals = _rounded(found.interval), _rounded(found.prediction)
    return _Inference(*intervals, figure(found.test.p_value), found.test.method, found.part)


def _summary(
    values: Sequence[float], basis: _Basis, direction: Direction, classified: tuple[EffectPolicy, float]
) -> EffectSummary:
    (policy, bound), inferred = classified, basis.inferred
    interval = inferred.interval if inferred else None
    return EffectSummary(
        direction=direction,
        n_units=len(values),
        n_roots=basis.n_roots,
        n_pairs=basis.n_pairs,
        mean=figure(mean(values)),
        sd=figure(sample_sd(values)) if len(values) > 1 else None,
        unit_range=Bounds(min(values), max(values)),
        mean_interval=interval,
        prediction_interval=inferred.prediction if inferred else None,
        confidence=policy.confidence,
        method=basis.method(len(values)),
        signs=sign_test(values),
        p_value=inferred.p_value if inferred else None,
        p_method=inferred.p_method if inferred else None,
        lower_quantile=figure(quantile(values, policy.quantile)),
        upper_quantile=figure(quantile(values, 1 - policy.quantile)),
        equivalence_margin=bound,
        classification=_classify(interval, direction, bound),
        part=inferred.part if inferred else None,
    )


def _classify(interval: Bounds | None, direction: Direction, margin: float) -> Classification:
    if interval is None:
        return Classification.UNCERTAIN
    # Before the sign: an effect shown to be smaller than what matters is no effect, even if it is clear of zero.
    if interval.inside(margin):
        return Classification.NO_EFFECT
    if not interval.clear_of_zero:
        return Classification.UNCERTAIN
    up = interval.low > 0
    return Classification.IMPROVES if up == (direction is Direction.MAXIMIZE) else Classification.HARMS


def _stratum(task: str, pairs: dict[str, PairedDelta]) -> StratumEffect:
    deltas = tuple(pair.delta for _, pair in sorted(pairs.items()))
    paired = all(pair.paired for pair in pairs.values())
    return StratumEffect(evaluation_task=task, deltas=deltas, effect=_mean_effect(deltas), paired=paired)


def _unit(root: str, strata: list[StratumEffect]) -> EffectUnit:
    effect = _mean_effect([stratum.effect for stratum in strata])
    return EffectUnit(root=root, strata=tuple(strata), effect=figure(effect))


def _mean_effect(values: Sequence[float]) -> float:
    """Mean, where what cancels to rounding noise is zero: a tie must not turn into a sign."""
    centre = mean(values)
    return centre if abs(centre) > _NOISE * max(abs(value) for value in values) else 0.0


def _seed_key(seed: int | str) -> str:
    return f"{seed:020d}" if isinstance(seed, int) else seed


def _rounded(bounds: Bounds) -> Bounds:
    return Bounds(figure(bounds.low), figure(bounds.high))
