"""Figures over outcomes, each a share with its numerator, denominator and Wilson interval (reference 1.3).

Rules kept here:

- precision counts active rules, recall counts groups with gold; a deferred group is no miss of precision. No promotion
  where there is gold scores 0, not nothing;
- micro is the share over everything counted, macro the mean over the major strata, each weighing the same; both must
  reach the threshold;
- a corpus that does not hold what the reference asks for is `insufficient_coverage`, whatever its figures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from scipy.stats import binomtest

from evaluation.writer.groups import CRITICAL, Group
from evaluation.writer.kinds import KINDS, Stratum
from evaluation.writer.reading import Outcome

LEVEL: Final = 0.95
_DIGITS: Final = 6
LEAST_GROUPS: Final = 120
LEAST_OF_STRATUM: Final = {"groups": 20, "gold": 10, "withheld": 5}
"""What a corpus must hold: in all, and of each major stratum (gold must become active, the withheld must not)."""
THRESHOLDS: Final = {"precision": 0.95, "recall": 0.80, "worst_stratum": 0.70}
TOLD: Final = 20
"""Wrong decisions that are told one by one."""


class Measure(StrEnum):
    """What is counted, of how many."""

    PRECISION = "precision"
    RECALL = "recall"
    CRITICAL = "critical_false_promotions"
    SUPPORT = "support_count_invariance"
    TRANSITIONS = "lifecycle_transitions"
    FIDELITY = "source_fidelity"
    ENDS = "ends"
    REASONS = "reason_codes"
    HISTORIES = "histories"


MEANING: Final = {
    Measure.PRECISION: "true active rules of all active rules",
    Measure.RECALL: "groups whose gold rules are all active, of groups with gold",
    Measure.CRITICAL: "groups where a rule was ever active on private, unverified, unproved or forbidden evidence",
    Measure.SUPPORT: "groups whose support is the same when every piece of evidence is imported once",
    Measure.TRANSITIONS: "decisions that were carried out by the events of the lifecycle's diagram",
    Measure.FIDELITY: "evidence links that lead to a bundle which cross-validates, ids recomputed",
    Measure.ENDS: "groups whose claim ends in a disposition registered for their kind",
    Measure.REASONS: "groups that were given a reason code registered for their kind",
    Measure.HISTORIES: "groups whose claim went through the lifecycle events registered for their kind",
}


@dataclass
class Count:
    """So many of so many."""

    hits: int = 0
    of: int = 0

    def add(self, hits: int, of: int) -> None:
        """Count more."""
        self.hits += hits
        self.of += of

    @property
    def share(self) -> float | None:
        """The share; None where there was nothing to count."""
        return self.hits / self.of if self.of else None

    def as_json(self) -> dict[str, Any]:
        """Return the share with its Wilson interval, numerator and denominator."""
        if not self.of:
            return {"value": None, "low": None, "high": None, "numerator": 0, "denominator": 0}
        interval = binomtest(self.hits, self.of).proportion_ci(confidence_level=LEVEL, method="wilson")
        return {
            "value": round(self.hits / self.of, _DIGITS),
            "low": round(float(interval.low), _DIGITS),
            "high": round(float(interval.high), _DIGITS),
            "numerator": self.hits,
            "denominator": self.of,
        }


Counts = dict[Measure, Count]


def _counts() -> Counts:
    return defaultdict(Count)


@dataclass
class Tally:
    """What was counted, by kind; strata and totals are sums of it."""

    kinds: dict[str, Counts] = field(default_factory=lambda: defaultdict(_counts))
    groups: Counter[str] = field(default_factory=Counter)
    gold: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    runs: int = 0

    def add(self, outcome: Outcome, alone: Outcome | None = None) -> None:
        """Count one outcome; `alone` is that of the group with each piece of evidence imported once."""
        group, kind = outcome.group, KINDS[outcome.group.kind]
        self.groups[kind.name] += 1
        self.gold[kind.name] += bool(group.gold)
        self.runs += len(group.runs)
        sound = len(outcome.true_rules)
        self._count(kind.name, Measure.PRECISION, sound, sound + len(outcome.false_rules))
        self._count(kind.name, Measure.RECALL, outcome.recalled, bool(group.gold))
        self._count(kind.name, Measure.CRITICAL, bool(outcome.critical), bool(group.taints & CRITICAL))
        self._count(kind.name, Measure.FIDELITY, outcome.links - len(outcome.unfaithful), outcome.links)
        done = [each for claim in outcome.claims for each in claim.transitions]
        self._count(kind.name, Measure.TRANSITIONS, sum(done), len(done))
        self._count(kind.name, Measure.ENDS, outcome.end in kind.ends, 1)
        self._count(kind.name, Measure.REASONS, bool(kind.reasons & outcome.reasons), 1)
        if kind.history:
            went = any(claim.events == kind.history for claim in outcome.claims)
            self._count(kind.name, Measure.HISTORIES, went, 1)
        if alone is not None:
            self._count(kind.name, Measure.SUPPORT, same_support(outcome, alone), 1)
        self._tell(outcome)

    def _count(self, kind: str, measure: Measure, hits: int, of: int) -> None:
        self.kinds[kind][measure].add(int(hits), int(of))

    def _tell(self, outcome: Outcome) -> None:
        faults = {
            "false_rules": [str(rule.id) for rule in outcome.false_rules],
            "critical": list(outcome.critical),
            "unfaithful": list(outcome.unfaithful),
        }
        if any(faults.values()) and len(self.wrong) < TOLD:
            self.wrong.append(_name(outcome.group) | {key: found for key, found in faults.items() if found})

    def merge(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        for name, counts in other.kinds.items():
            for measure, count in counts.items():
                self._count(name, measure, count.hits, count.of)
        self.groups.update(other.groups)
        self.gold.update(other.gold)
        self.wrong = [*self.wrong, *other.wrong][:TOLD]
        self.runs += other.runs

    def over(self, measure: Measure, kinds: Iterable[str] | None = None) -> Count:
        """Return the count of a measure over some kinds, or over all."""
        found = Count()
        for name in self.kinds if kinds is None else kinds:
            found.add(self.kinds[name][measure].hits, self.kinds[name][measure].of)
        return found


def same_support(outcome: Outcome, alone: Outcome) -> bool:
    """Tell whether two outcomes hold the same claims with the same support, effect and standing."""
    pairs = (
        {claim.candidate.proposed_scope_variant_id: claim.support for claim in each.claims} for each in (outcome, alone)
    )
    first, second = pairs
    return first == second


def report(tally: Tally) -> dict[str, Any]:
    """Return the figures as JSON values, with what passed."""
    strata = {stratum: _stratum(tally, stratum) for stratum in Stratum}
    checks = {
        "precision": _gated(tally, strata, Measure.PRECISION),
        "recall": _gated(tally, strata, Measure.RECALL),
        "worst_stratum": _worst(strata),
        "critical_false_promotions": _none(tally),
        **{measure.value: _all(tally, measure) for measure in (Measure.SUPPORT, Measure.TRANSITIONS, Measure.FIDELITY)},
    }
    missing = _missing(tally, strata)
    failed = [name for name, check in checks.items() if not check["passed"]]
    status = "pass" if not failed and not missing else "fail"
    return {
        "status": status,
        "reason": "insufficient_coverage" if missing else ", ".join(failed),
        "missing": missing,
        **checks,
        **{measure.value: tally.over(measure).as_json() for measure in _REPORTED},
        "strata": {stratum.value: found for stratum, found in strata.items()},
        "kinds": {name: _kind(tally, name) for name in KINDS},
        "wrong": tally.wrong,
        "meaning": {measure.value: text for measure, text in MEANING.items()},
    }


_REPORTED: Final = (Measure.ENDS, Measure.REASONS, Measure.HISTORIES)
"""Measures that have no threshold."""


def _of_stratum(stratum: Stratum) -> list[str]:
    return [kind.name for kind in KINDS.values() if kind.stratum is stratum]


def _stratum(tally: Tally, stratum: Stratum) -> dict[str, Any]:
    kinds = _of_stratum(stratum)
    groups, gold = (sum(counted[name] for name in kinds) for counted in (tally.groups, tally.gold))
    measured = {
        measure.value: _scored(tally.over(measure, kinds), tally.over(Measure.RECALL, kinds).of)
        for measure in (Measure.PRECISION, Measure.RECALL)
    }
    return {"groups": groups, "gold": gold, "withheld": groups - gold, **measured}


def _scored(count: Count, gold: int) -> dict[str, Any]:
    """Return a share; nothing promoted where there is gold is 0."""
    return count.as_json() | ({"value": 0.0} if not count.of and gold else {})


def _gated(tally: Tally, strata: dict[Stratum, dict[str, Any]], measure: Measure) -> dict[str, Any]:
    micro = _scored(tally.over(measure), tally.over(Measure.RECALL).of)
    values = [value for found in strata.values() if (value := found[measure.value]["value"]) is not None]
    macro = round(sum(values) / len(values), _DIGITS) if values else None
    threshold = THRESHOLDS[measure.value]
    passed = all(value is not None and value >= threshold for value in (micro["value"], macro))
    return {**micro, "average": "micro", "macro": macro, "threshold": threshold, "passed": passed}


def _worst(strata: dict[Stratum, dict[str, Any]]) -> dict[str, Any]:
    """Return the lowest of all strata's precisions and recalls."""
    threshold = THRESHOLDS["worst_stratum"]
    measured = [
        {"stratum": stratum.value, "measure": measure.value, **found[measure.value]}
        for stratum, found in strata.items()
        for measure in (Measure.PRECISION, Measure.RECALL)
        if found[measure.value]["value"] is not None
    ]
    worst = min(measured, key=lambda found: found["value"], default={"stratum": None, "measure": None, "value": None})
    passed = worst["value"] is not None and worst["value"] >= threshold
    return {**worst, "threshold": threshold, "passed": passed}


def _none(tally: Tally) -> dict[str, Any]:
    """Return how many groups had a critical promotion, of those where something was planted for it."""
    counted = tally.over(Measure.CRITICAL)
    shown = Count(counted.hits, max(counted.hits, counted.of)).as_json()
    return {**shown, "count": counted.hits, "threshold": 0, "passed": not counted.hits}


def _all(tally: Tally, measure: Measure) -> dict[str, Any]:
    counted = tally.over(measure)
    return {**counted.as_json(), "threshold": 1.0, "passed": counted.hits == counted.of}


def _missing(tally: Tally, strata: dict[Stratum, dict[str, Any]]) -> list[str]:
    groups = sum(tally.groups.values())
    missing = [] if groups >= LEAST_GROUPS else [f"{groups} of {LEAST_GROUPS} groups"]
    for stratum, found in strata.items():
        missing += [
            f"{stratum.value}: {found[name]} of {least} {name}"
            for name, least in LEAST_OF_STRATUM.items()
            if found[name] < least
        ]
    return missing


def _kind(tally: Tally, name: str) -> dict[str, Any]:
    kind = KINDS[name]
    measured = {measure.value: count.as_json() for measure in Measure if (count := tally.over(measure, [name])).of}
    return {
        "stratum": kind.stratum.value,
        "meaning": kind.meaning,
        "groups": tally.groups[name],
        "gold": tally.gold[name],
        **measured,
    }


def _name(group: Group) -> dict[str, Any]:
    return {"kind": group.kind, "seed": group.seed, "number": group.number}


def names(found: Sequence[dict[str, Any]]) -> str:
    """Return the kinds of wrong decisions in a line."""
    return ", ".join(f"{each['kind']} {each['number']} of seed {each['seed']}" for each in found) or "none"
