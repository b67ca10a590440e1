"""The replication rule: which keeps of a search survive, and why the others do not. Pure.

A log is a sequence. Each keep claims that its configuration is better than the incumbent, the configuration kept before
it. Rules kept here:

- how much one run differs from the next of the same configuration is taken from configurations that were run more than
  once (pooled variance), or is given; if neither, it is unknown, and nothing survives: one run shows nothing;
- two rows with one configuration, seed and value are one run that was written twice;
- the run for which a configuration was kept was picked because it was good. It is no evidence of what it was picked
  for, so where a configuration has other runs, its mean is theirs;
- a keep survives if its configuration has two runs or more, the t interval of the difference to the incumbent lies
  clear of zero on the better side, and the difference passes Benjamini-Hochberg over all keeps that claim a gain, those
  that were never run again counting with p = 1;
- beside each claimed gain stands what the best of as many tries gains by noise alone (the expected largest of N normal
  values, from scipy), which is what a search reports when nothing helps;
- a keep that is no better than the incumbent claims nothing here, and a run without a value cannot.

Not handled here: tries that were thrown away although they were better, and whether runs share more than their noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from statistics import fmean
from typing import Final

from scipy import stats

from evaluation.keeps.reading import Row, Status
from policies.statistics import Bounds, benjamini_hochberg
from records.values import Direction

MIN_RUNS: Final = 2


class NoiseSource(StrEnum):
    """Where the size of the noise comes from."""

    RERUNS = "reruns"
    GIVEN = "given"
    UNKNOWN = "unknown"


class KeepVerdict(StrEnum):
    """What becomes of a keep."""

    BASELINE = "baseline"
    SURVIVES = "survives"
    NO_VALUE = "no_value"
    NO_GAIN = "no_gain"
    NOISE_UNKNOWN = "noise_unknown"
    ONE_RUN = "one_run"
    COVERS_ZERO = "interval_covers_zero"
    NOT_CORRECTED = "not_after_correction"


WHY: Final[dict[KeepVerdict, str]] = {
    KeepVerdict.BASELINE: "the first configuration; there is nothing that it would be better than",
    KeepVerdict.SURVIVES: "run again, and the difference is clear of zero after correction",
    KeepVerdict.NO_VALUE: "the run gave no value",
    KeepVerdict.NO_GAIN: "no better than the incumbent, so there is no gain to replicate",
    KeepVerdict.NOISE_UNKNOWN: "one run, and nothing says how much runs differ by themselves",
    KeepVerdict.ONE_RUN: "never run again",
    KeepVerdict.COVERS_ZERO: "run again, and the difference may be nothing",
    KeepVerdict.NOT_CORRECTED: "clear of zero alone, but not after correction for all the keeps that were tried",
}


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one run around its configuration's mean, in the metric's unit; None if unknown.

    Attributes:
        degrees: degrees of freedom of the estimate; infinite if it was given.
    """

    sd: float | None
    degrees: float
    source: NoiseSource


@dataclass(frozen=True)
class Keep:
    """One keep decision.

    Attributes:
        row: the row; incumbent: the row of what it was compared with, None for the first.
        gain: what the log claims, positive for better; None without two values.
        tries: valued tries against this incumbent up to this one.
        noise_best: what the best of so many tries gains by noise alone, on average.
        runs: independent runs of the configuration; incumbent_runs: those of the incumbent.
        difference: mean difference without the runs that were picked, positive for better; interval: around it.
        p_value: two-sided; adjusted_p: within all keeps that claim a gain.
    """

    row: Row
    incumbent: Row | None
    verdict: KeepVerdict
    gain: float | None = None
    tries: int = 0
    noise_best: float | None = None
    runs: int = 0
    incumbent_runs: int = 0
    difference: float | None = None
    interval: Bounds | None = None
    p_value: float | None = None
    adjusted_p: float | None = None


@dataclass(frozen=True)
class KeepAudit:
    """The whole audit.

    Attributes:
        values: tries with a value; best_gain: from the baseline to the best keep; noise_best: what so many tries
            gain by noise alone.
    """

    noise: Noise
    keeps: tuple[Keep, ...]
    values: int
    best_gain: float | None
    noise_best: float | None

    @property
    def counts(self) -> Counter[KeepVerdict]:
        """How many keeps there are of each verdict."""
        return Counter(keep.verdict for keep in self.keeps)

    @property
    def all_survive(self) -> bool:
        """Whether no keep that claims a gain is left without support."""
        return all(keep.verdict in {KeepVerdict.BASELINE, KeepVerdict.SURVIVES} for keep in self.keeps)


@dataclass
class _Configuration:
    """What was run of one configuration, in the order of the log; `picked` is the row that it was kept for."""

    key: Hashable
    rows: list[Row] = field(default_factory=list)
    picked: Row | None = None

    @property
    def runs(self) -> list[Row]:
        """The independent runs."""
        seen: dict[tuple[str, float | None], Row] = {}
        for row in self.rows:
            seen.setdefault((row.seed, row.value), row)
        return list(seen.values())

    @property
    def fresh(self) -> list[float]:
        """Values without the one that was picked, if there are others."""
        values = [row.value for row in self.runs if row.value is not None]
        if len(values) > 1 and self.picked is not None and self.picked.value is not None:
            values.remove(self.picked.value)
        return values


@dataclass(frozen=True)
class _Claim:
    """A keep with the two configurations that it is about."""

    keep: Keep
    changed: _Configuration | None = None
    against: _Configuration | None = None


def audit_keeps(
    rows: Sequence[Row],
    direction: Direction,
    *,
    q: float = 0.05,
    confidence: float = 0.95,
    noise_sd: float | None = None,
) -> KeepAudit:
    """Judge every keep of a log.

    Args:
        rows: the log in its order.
        direction: which way the metric is better.
        q: highest accepted share of false survivors (Benjamini-Hochberg).
        confidence: nominal coverage of the intervals.
        noise_sd: standard deviation of one run, in the metric's unit, if it is known from elsewhere.
    """
    sign = 1.0 if direction is Direction.MAXIMIZE else -1.0
    claims, configurations = _walk(rows, sign)
    noise = _noise(configurations, noise_sd)
    judged = [_tested(claim, noise, sign, confidence) for claim in claims]
    keeps = _corrected(judged, q)
    values = sum(row.value is not None for row in rows)
    kept = [sign * keep.row.value for keep in keeps if keep.row.value is not None]
    return KeepAudit(
        noise=noise,
        keeps=tuple(keeps),
        values=values,
        best_gain=max(kept) - kept[0] if kept else None,
        noise_best=_noise_best(values, noise),
    )


def best_of(count: int) -> float:
    """Return the expected largest of so many independent standard normal values."""
    return _best_of(count) if count > 1 else 0.0


@lru_cache(maxsize=4096)
def _best_of(count: int) -> float:
    return float(stats.order_statistic(stats.Normal(), r=count, n=count).mean())


def _walk(rows: Sequence[Row], sign: float) -> tuple[list[_Claim], list[_Configuration]]:
    """Follow the incumbent through the log."""
    configurations: dict[Hashable, _Configuration] = {}
    incumbent: _Configuration | None = None
    claims: list[_Claim] = []
    tries = 0
    for row in rows:
        keeps = row.status in {Status.KEEP, Status.BASELINE}
        if row.value is None:
            if keeps:
                claims.append(_Claim(Keep(row, incumbent.picked if incumbent else None, KeepVerdict.NO_VALUE)))
            continue
        key = _key(row, incumbent)
        mine = configurations.setdefault(key, _Configuration(key))
        mine.rows.append(row)
        if incumbent is not None and mine is incumbent:
            continue  # a rerun of what is kept already claims nothing
        tries += incumbent is not None
        if keeps:
            mine.picked = row
            claims.append(_claim(row, mine, incumbent, tries, sign))
            incumbent, tries = mine, 0
    return claims, list(configurations.values())


def _key(row: Row, incumbent: _Configuration | None) -> Hashable:
    """Return which configuration a row is of: the named one, or a change of the incumbent, or the incumbent itself."""
    if row.config is not None:
        return row.config
    if incumbent is None or incumbent.picked is None:
        return (None, row.change)
    if row.change in {"", incumbent.picked.change}:
        return incumbent.key
    return (incumbent.picked.line, row.change)


def _claim(row: Row, mine: _Configuration, incumbent: _Configuration | None, tries: int, sign: float) -> _Claim:
    if incumbent is None or incumbent.picked is None:
        return _Claim(Keep(row, None, KeepVerdict.BASELINE))
    old = incumbent.picked
    gain = None if row.value is None or old.value is None else sign * (row.value - old.value)
    verdict = KeepVerdict.NO_GAIN if gain is None or gain <= 0 else KeepVerdict.ONE_RUN
    return _Claim(Keep(row, old, verdict, gain=gain, tries=tries), mine, incumbent)


def _noise(configurations: Iterable[_Configuration], given: float | None) -> Noise:
    """Pool the variance within configurations, each around its own mean."""
    if given is not None:
        return Noise(given, math.inf, NoiseSource.GIVEN)
    squares, degrees = 0.0, 0
    for configuration in configurations:
        values = [row.value for row in configuration.runs if row.value is not None]
        if len(values) > 1:
            centre = fmean(values)
            squares += math.fsum((value - centre) ** 2 for value in values)
            degrees += len(values) - 1
    if squares == 0:
        return Noise(None, 0, NoiseSource.UNKNOWN)
    return Noise(math.sqrt(squares / degrees), degrees, NoiseSource.RERUNS)


def _noise_best(tries: int, noise: Noise) -> float | None:
    return None if noise.sd is None else noise.sd * best_of(tries)


def _tested(claim: _Claim, noise: Noise, sign: float, confidence: float) -> Keep:
    """Compare a configuration with its incumbent on all of their runs, later ones included."""
    keep = claim.keep
    if claim.changed is None or claim.against is None:
        return keep
    changed, against = claim.changed, claim.against
    keep = replace(
        keep,
        noise_best=_noise_best(keep.tries, noise),
        runs=len(changed.runs),
        incumbent_runs=len(against.runs),
    )
    if keep.verdict is KeepVerdict.NO_GAIN:
        return keep
    if noise.sd is None:
        return replace(keep, verdict=KeepVerdict.NOISE_UNKNOWN)
    if keep.runs < MIN_RUNS:
        return keep
    error = noise.sd * math.sqrt(1 / len(changed.fresh) + 1 / len(against.fresh))
    difference = sign * (fmean(changed.fresh) - fmean(against.fresh))
    low, high = stats.t.interval(confidence, noise.degrees, loc=difference, scale=error)
    interval = Bounds(float(low), float(high))
    p_value = float(2 * stats.t.sf(abs(difference) / error, noise.degrees))
    verdict = KeepVerdict.SURVIVES if interval.low > 0 else KeepVerdict.COVERS_ZERO
    return replace(keep, verdict=verdict, difference=difference, interval=interval, p_value=min(p_value, 1.0))


def _corrected(keeps: list[Keep], q: float) -> list[Keep]:
    """Correct for all keeps that claim a gain."""
    claiming = [place for place, keep in enumerate(keeps) if keep.gain is not None and keep.gain > 0]
    values = [1.0 if (p := keeps[place].p_value) is None else p for place in claiming]
    for place, adjusted in zip(claiming, benjamini_hochberg(values), strict=True):
        keep = keeps[place]
        if keep.p_value is not None:
            fails = keep.verdict is KeepVerdict.SURVIVES and adjusted > q
            keeps[place] = replace(
                keep, adjusted_p=adjusted, verdict=KeepVerdict.NOT_CORRECTED if fails else keep.verdict
            )
    return keeps
