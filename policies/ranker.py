"""The ranker: which of the applicable rules are worth a card, and in which order (spec 8.2, stages 6 to 9).

Rules kept here (docs/adr/0060):

- every feature is an integer, found by exact arithmetic; the total is their weighted sum, ties go to the smaller id.
  The order in which candidates come in changes nothing;
- gain is the mean effect in the metric's direction beyond the contract's equivalence margin, in thousandths of that
  margin; downside is how far the prediction interval for ONE new unit reaches to the other side of it. What a rule
  tells to avoid counts with the sign turned;
- thresholds come before diversity, so that a rule too weak to be shown cannot take the place of another one;
- at most one card per Knowledge Family (VRM-R04), per mechanism class and kind of source as many as the profile says;
- a procedure has no single effect, an episode neither effect, grade nor family: such a feature is zero, and a threshold
  on it is not asked of them;
- advice to abstain, and a contested rule where a profile admits one, tell nobody to do anything: neither has a gain or
  a downside, and no gain is asked of them. A contested rule is shown because evidence speaks against it, so no total
  is asked of it either (spec 10, 12; docs/adr/0064).

Novelty and drift have no feature of their own in this version: what is in effect already, or was learned from other
data, code or evaluators, has been refused by the hard filters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Final

from policies.episodes import Episode
from policies.retrieval_policy import RetrievalProfile
from records.decisions import ScorePart
from records.knowledge import MemoryRecord
from records.procedures import ProcedureRecord
from records.values import (
    ActionKind,
    Direction,
    EffectEstimate,
    EvidenceStrength,
    Grade,
    MemoryScope,
    ReasonCount,
    SourceKind,
)

Source = MemoryRecord | ProcedureRecord | Episode
"""What a candidate is made of."""

STEPS: Final = 1000
"""Steps of one equivalence margin, of the best fused rank, and of a whole."""

_KEPT: Final = 4096
"""Exact values that are kept: every decision meets the same rules, and exact arithmetic is slow."""

_WEIGHED: Final = ("applicability", "relevance", "gain", "downside", "grade", "support", "counter")
"""The features that make up the total, each with its weight in the profile."""
_GAIN: Final = _WEIGHED.index("gain")

_SCOPE: Final = tuple(MemoryScope.model_fields)
_of_scope: Final = attrgetter(*_SCOPE)

GRADE_STEPS: Final = {Grade.CONTESTED: 0, Grade.SINGLE: 1, Grade.REPLICATED: 2, Grade.STRONG: 3}
"""The grades as steps, weakest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule, a procedure or an episode that passed the hard filters.

    Attributes:
        record: the source itself.
        relevance: its fused rank as a share of the best one possible, in 0 .. 1, exact.
        ranks: (source, rank from 1) of the candidate lists that found it.
        contested: whether the snapshot has it as a contested head.
    """

    record: Source
    relevance: Fraction
    ranks: tuple[tuple[str, int], ...]
    contested: bool = False

    @property
    def advises(self) -> bool:
        """Whether it is a rule by which something would be done or left, so that an effect is to be expected of it."""
        record = self.record
        return isinstance(record, MemoryRecord) and record.action is not ActionKind.ABSTAIN and not self.contested


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A candidate with the features that are weighed, in the order of `_WEIGHED`, and their total."""

    candidate: Candidate
    total: int
    weighed: tuple[int, ...]

    @property
    def features(self) -> dict[str, int]:
        """Every feature by its name: those that are weighed, and the place in each list that found it."""
        places = {f"{source}_rank": place for source, place in self.candidate.ranks}
        return dict(zip(_WEIGHED, self.weighed, strict=True)) | places

    @property
    def gain(self) -> int:
        """The gain, in steps."""
        return self.weighed[_GAIN]

    @property
    def record(self) -> Source:
        """The source itself."""
        return self.candidate.record

    @property
    def parts(self) -> tuple[ScorePart, ...]:
        """What a card shows: every feature, and the total."""
        shown = (*self.features.items(), ("total", self.total))
        return tuple(ScorePart(feature=name, value=value) for name, value in shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The rules chosen, best first, and how many were left out for which reason."""

    chosen: tuple[Scored, ...]
    refused: tuple[ReasonCount, ...]


def constrained_fields(scope: MemoryScope) -> int:
    """Return how many fields a scope constrains."""
    return len(_SCOPE) - _of_scope(scope).count(None)


def advised_gain(effect: EffectEstimate, action: ActionKind) -> Fraction:
    """Return the mean effect as the advice sees it, in the metric's unit: positive means that following it helps."""
    return _gain(_sign(effect, action), effect.mean_delta)


def advised_downside(effect: EffectEstimate, action: ActionKind) -> Fraction:
    """Return how far one new unit may fall on the wrong side of zero, in the metric's unit; never negative.

    The prediction interval says so; below three units, where there is none, the range of the units does.
    """
    return _downside(_sign(effect, action), _ends(effect))


def counter_permille(strength: EvidenceStrength) -> int:
    """Return the units that speak against the rule, in thousandths of those that speak for or against it."""
    total = strength.support_count + strength.counter_count
    return STEPS * strength.counter_count // total if total else 0


def rank(candidates: Iterable[Candidate], profile: RetrievalProfile, margin: str, limit: int) -> Ranking:
    """Return at most `limit` rules to show.

    Args:
        candidates: rules that passed the hard filters, each once.
        profile: the profile of the decision point.
        margin: the contract's equivalence margin, in the metric's unit.
        limit: most cards, at or below the profile's own bound.
    """
    scored = [_score(candidate, profile, margin) for candidate in candidates]
    ordered = sorted(scored, key=lambda item: (-item.total, str(item.record.id)))
    chosen: list[Scored] = []
    lost: Counter[str] = Counter()
    for item in ordered:
        reason = next(_against(item, chosen, profile, min(limit, profile.max_items)), None)
        if reason is None:
            chosen.append(item)
        else:
            lost[reason] += 1
    refused = tuple(ReasonCount(reason=reason, count=count) for reason, count in sorted(lost.items()))
    return Ranking(chosen=tuple(chosen), refused=refused)


def kind_of(record: Source) -> SourceKind:
    """Return the kind of a source."""
    match record:
        case MemoryRecord():
            return SourceKind.SEMANTIC
        case ProcedureRecord():
            return SourceKind.PROCEDURE
        case Episode():
            return SourceKind.EPISODIC


THRESHOLD_REASONS: Final = frozenset({"below_min_gain", "below_min_grade", "below_min_total"})
"""Reasons that mean that the evidence was too weak, not that a better card was there."""


def _against(item: Scored, chosen: list[Scored], profile: RetrievalProfile, limit: int) -> Iterator[str]:
    thresholds, record, kind = profile.thresholds, item.record, kind_of(item.record)
    if item.candidate.advises and item.gain < thresholds.min_gain:
        yield "below_min_gain"
    if not isinstance(record, Episode) and GRADE_STEPS[record.strength.grade] < GRADE_STEPS[thresholds.min_grade]:
        yield "below_min_grade"
    if item.total < thresholds.min_total and not item.candidate.contested:
        yield "below_min_total"
    others = [other.record for other in chosen if not isinstance(other.record, Episode)]
    if not isinstance(record, Episode):
        if any(other.family_id == record.family_id for other in others):
            yield "same_family"
        if sum(other.mechanism == record.mechanism for other in others) >= profile.per_mechanism:
            yield "same_mechanism"
    if len(chosen) >= limit:
        yield "beyond_max_items"
    if sum(kind_of(other.record) is kind for other in chosen) >= profile.most(kind):
        yield f"beyond_{kind.value}_items"


def _score(candidate: Candidate, profile: RetrievalProfile, margin: str) -> Scored:
    record, weights = candidate.record, profile.weights
    advised = record if candidate.advises and isinstance(record, MemoryRecord) else None
    gain, downside = (0, 0) if advised is None else _utility(advised, profile, margin)
    strength = None if isinstance(record, Episode) else record.strength
    weighed = (
        (constrained_fields(record.scope), weights.applicability),
        (math.floor(STEPS * candidate.relevance), weights.relevance),
        (gain, weights.gain),
        (max(0, downside), -weights.downside),
        (0 if strength is None else GRADE_STEPS[strength.grade], weights.grade),
        (0 if strength is None else min(strength.support_count, profile.support_cap), weights.support),
        (0 if strength is None else counter_permille(strength), -weights.counter),
    )
    total = sum(value * weight for value, weight in weighed)
    return Scored(candidate=candidate, total=total, weighed=tuple(value for value, _ in weighed))


def _utility(record: MemoryRecord, profile: RetrievalProfile, margin: str) -> tuple[int, int]:
    """Return gain and downside of a rule, in steps."""
    sign, yardstick = _sign(record.effect, record.action), (margin, profile.smallest_margin, profile.gain_cap)
    gain = _gain_beyond(sign, record.effect.mean_delta, *yardstick)
    if record.action is ActionKind.AVOID and gain > 0:
        gain = gain * profile.avoid_share // STEPS
    return gain, _downside_beyond(sign, _ends(record.effect), *yardstick)


def _sign(effect: EffectEstimate, action: ActionKind) -> int:
    """Return +1 or -1, so that sign times delta is positive where following the advice helps; 0 for no advice."""
    better = 1 if effect.metric.direction is Direction.MAXIMIZE else -1
    return {ActionKind.RECOMMEND: better, ActionKind.AVOID: -better, ActionKind.ABSTAIN: 0}[action]


def _ends(effect: EffectEstimate) -> tuple[str, str]:
    bounds = effect.prediction_interval
    return effect.unit_range if bounds is None else (bounds.low, bounds.high)


@lru_cache(maxsize=_KEPT)
def _gain_beyond(sign: int, mean_delta: str, margin: str, smallest: str, cap: int) -> int:
    return _beyond(_gain(sign, mean_delta), margin, smallest, cap)


@lru_cache(maxsize=_KEPT)
def _downside_beyond(sign: int, ends: tuple[str, str], margin: str, smallest: str, cap: int) -> int:
    return _beyond(_downside(sign, ends), margin, smallest, cap)


def _gain(sign: int, mean_delta: str) -> Fraction:
    return sign * Fraction(mean_delta)


def _downside(sign: int, ends: tuple[str, str]) -> Fraction:
    return max(Fraction(0), -min(sign * Fraction(end) for end in ends))


def _beyond(value: Fraction, margin: str, smallest: str, cap: int) -> int:
    """Return how far a value lies beyond the margin, in steps of the margin or of the smallest one."""
    unit = max(Fraction(margin), Fraction(smallest))
    return max(-cap, min(cap, math.floor(STEPS * (value - Fraction(margin)) / unit)))
