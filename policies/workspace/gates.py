"""What would have to hold before a learned selection could be thought of: four gates, with intervals (spec 004).

Rules kept here:

- production shows what it shows for certain: a claim that was shown has propensity 1, a withheld one 0. So the weight
  of a trial under the shadow policy is 1 where it would have shown the same claims, and 0 where it would have withheld
  one; the self-normalised mean over the former is all that receipts can tell (Swaminathan and Joachims, "The
  self-normalized estimator for counterfactual learning", NIPS 2015). What it would have withheld has no counterfactual,
  and no estimate says otherwise (reference: defect 5);
- a trial that was shown nothing tells nothing of withholding: it is in no estimate;
- every figure has its denominator and an interval. Trials of one task are no independent ones: of means tasks are
  resampled as wholes (BCa bootstrap), and a share of trials has the interval of Clopper and Pearson for as many trials
  as are worth what was seen (Korn and Graubard, "Confidence intervals for proportions with small expected number of
  positive counts estimated from survey data", Survey Methodology 24, 1998), never more than there are tasks: how far
  trials of a task agree cannot be told from a few events, and more harm must never narrow the interval. Retrievals and
  claims are counted one by one. A gate is judged by the unfavourable end; what does not vary at all has no interval;
- a gate without data is not passed. Nothing is activated by anything here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from policies.workspace.shadow import GateRule, Lesson, ShadowPolicy
from records.claim_traces import Recommendation, TraceReason

Values = NDArray[np.float64]

NO_COUNTERFACTUAL: Final = "withheld items have no counterfactual: production never withholds what it selects"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its interval, what it was counted over, and the threshold that it is held against."""

    value: float | None
    low: float | None
    high: float | None
    numerator: int | None
    denominator: int
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: whether it is passed, why not, and its figures."""

    gate: str
    passed: bool
    reasons: tuple[str, ...]
    figures: dict[str, Figure]


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """What receipts can tell about a shadow policy.

    Attributes:
        estimate: off-policy figures; rewards unless their name says otherwise.
        limits: what they cannot tell.
    """

    policy: str
    receipts: int
    tasks: int
    estimate: dict[str, Figure]
    limits: tuple[str, ...]
    gates: tuple[Gate, ...]
    activates: str = field(default="nothing; no command does")

    @property
    def passed(self) -> bool:
        """Whether every gate is passed."""
        return all(gate.passed for gate in self.gates)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self) | {"passed": self.passed}


@dataclass(frozen=True, slots=True)
class Standing:
    """Counts over all traces of a workspace.

    Attributes:
        traces: how many there are.
        replayed: those whose shadow version, folded again, has the weights that the trace names.
        shown: claims that were shown; `not_durable` of them were not durable by the event that the trace names.
        refused: durable claims that were not shown because a predicate failed.
        latencies_ms: of every retrieval.
    """

    traces: int
    replayed: int
    shown: int
    not_durable: int
    refused: int
    latencies_ms: tuple[float, ...]


def report(lessons: Sequence[Lesson], standing: Standing, policy: ShadowPolicy) -> ShadowReport:
    """Return the estimates and the gates.

    Args:
        lessons: receipts with their traces, in journal order.
        standing: counts over all traces.
        policy: the shadow policy with its thresholds.
    """
    telling = [lesson for lesson in lessons if [*_shown(lesson)]]
    estimate = _estimate(telling, policy.gates)
    tasks = _by_task(telling)
    identity = policy.identity
    return ShadowReport(
        policy=f"{identity.policy_id} {identity.version} {identity.digest[:12]}",
        receipts=len(lessons),
        tasks=len(_by_task(lessons)),
        estimate=estimate,
        limits=(NO_COUNTERFACTUAL, "credit is the mean over what was shown; no single claim's effect is identified"),
        gates=(
            _success(tasks, estimate, policy.gates),
            _safety(lessons, standing, policy.gates),
            _costs(lessons, standing, policy.gates),
            _rollback(standing),
        ),
    )


def agrees(lesson: Lesson) -> bool:
    """Tell whether the shadow policy would have shown what production showed."""
    return all(_shown(lesson))


def _shown(lesson: Lesson) -> Iterator[bool]:
    """Yield of each claim that production showed whether the shadow policy would have shown it."""
    shown = (item for item in lesson.trace.items if item.reason is TraceReason.SELECTED)
    return (item.recommended is Recommendation.INJECT for item in shown)


def _by_task(lessons: Sequence[Lesson]) -> dict[str, list[Lesson]]:
    found: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        found.setdefault(lesson.receipt.task_id, []).append(lesson)
    return found


def _sums(lessons: Sequence[Lesson], value: Callable[[Lesson], float]) -> tuple[Values, Values, Values, Values]:
    """Return by task: value and count of the trials that agree, value and count of all."""
    rows = [
        (sum(value(each) for each in part if agrees(each)), sum(map(agrees, part)), sum(map(value, part)), len(part))
        for _, part in sorted(_by_task(lessons).items())
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _estimate(lessons: Sequence[Lesson], rule: GateRule) -> dict[str, Figure]:
    matched = sum(map(agrees, lessons))
    found = {
        "agreement": share_of_trials(lessons, agrees, rule),
        "would_withhold": share_of_trials(lessons, lambda lesson: not agrees(lesson), rule),
    }
    for name, value in (("reward", _reward), ("success", _passed)):
        sums = _sums(lessons, value)
        found[f"{name}_of_production"] = ratio(sums[2:], len(lessons), rule)
        found[f"{name}_where_it_agrees"] = ratio(sums[:2], matched, rule)
        found[f"{name}_difference"] = difference(sums, matched, rule)
    return found


def _reward(lesson: Lesson) -> float:
    return float(lesson.receipt.reward)


def _passed(lesson: Lesson) -> float:
    return float(lesson.receipt.outcome.passed)


def share(part: int, whole: int, rule: GateRule, threshold: float | None = None, worth: float | None = None) -> Figure:
    """Return a share with its exact interval; without a whole there is none.

    Args:
        part: of so many it holds.
        whole: of so many.
        rule: the confidence.
        threshold: what the share is held against.
        worth: as many independent ones the whole is worth; None for all of it.
    """
    if whole == 0:
        return Figure(None, None, None, part, 0, threshold)
    value, tail, worth = part / whole, (1 - float(rule.confidence)) / 2, worth or whole
    low = float(stats.beta.ppf(tail, value * worth, worth - value * worth + 1)) if part else 0.0
    high = float(stats.beta.ppf(1 - tail, value * worth + 1, worth - value * worth)) if part < whole else 1.0
    return Figure(value, low, high, part, whole, threshold)


def share_of_trials(
    lessons: Sequence[Lesson], holds: Callable[[Lesson], bool], rule: GateRule, threshold: float | None = None
) -> Figure:
    """Return the share of trials of which something holds; of fewer than two tasks without an interval."""
    _, _, parts, wholes = _sums(lessons, holds)
    met, trials, tasks = int(parts.sum()), len(lessons), len(parts)
    if tasks < 2:  # noqa: PLR2004  # one task tells nothing about the next
        return Figure(met / trials if trials else None, None, None, met, trials, threshold)
    value = met / trials
    variance = float(np.square(parts - value * wholes).sum()) / trials**2
    worth = min(float(tasks), value * (1 - value) / variance) if variance else float(tasks)
    return share(met, trials, rule, threshold, worth)


def ratio(sums: Sequence[Values], count: int, rule: GateRule, threshold: float | None = None) -> Figure:
    """Return a sum over another, both given by task, with tasks resampled as wholes."""
    return _resampled(sums, lambda top, low, axis=-1: _over(top.sum(axis), low.sum(axis)), count, rule, threshold)


def difference(sums: Sequence[Values], count: int, rule: GateRule) -> Figure:
    """Return the difference of two such ratios over the same tasks."""

    def apart(a: Values, b: Values, c: Values, d: Values, axis: int = -1) -> Values:
        return _over(a.sum(axis), b.sum(axis)) - _over(c.sum(axis), d.sum(axis))

    return _resampled(sums, apart, count, rule, None)


def _over(top: Values, low: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(top, low), dtype=np.float64)


def _resampled(
    sums: Sequence[Values], statistic: Callable[..., Values], count: int, rule: GateRule, threshold: float | None
) -> Figure:
    """Return a statistic over tasks with its interval; one that cannot be made is None, and a gate needs it."""
    value = float(statistic(*sums)) if len(sums[0]) and count else float("nan")
    if not np.isfinite(value):
        return Figure(None, None, None, None, count, threshold)
    if len(sums[0]) < 2:  # noqa: PLR2004  # one task tells nothing about the next
        return Figure(value, None, None, None, count, threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of samples that are all equal, which are seen to here
        found = stats.bootstrap(
            tuple(sums), statistic, paired=True, vectorized=True, method="BCa",
            confidence_level=float(rule.confidence), n_resamples=rule.resamples,
            rng=np.random.default_rng(rule.seed),
        )  # fmt: skip
    if np.ptp(found.bootstrap_distribution) == 0:  # nothing was seen to vary, which tells nothing of what will
        return Figure(value, None, None, None, count, threshold)
    low, high = (float(each) for each in found.confidence_interval)
    if not np.isfinite(low + high):
        spread = found.bootstrap_distribution[np.isfinite(found.bootstrap_distribution)]
        tail = (1 - float(rule.confidence)) / 2
        low, high = (float(each) for each in np.quantile(spread, (tail, 1 - tail)))
    return Figure(value, low, high, None, count, threshold)


def _success(tasks: dict[str, list[Lesson]], estimate: dict[str, Figure], rule: GateRule) -> Gate:
    enough = sum(len(part) >= rule.trials_per_task for part in tasks.values())
    gain, withheld = estimate["success_difference"], estimate["would_withhold"]
    found = {
        f"{enough} tasks with {rule.trials_per_task} trials or more, {rule.tasks} are needed": enough < rule.tasks,
        NO_COUNTERFACTUAL: bool(withheld.numerator),
        "success is not shown to improve over the deterministic baseline": gain.low is None or gain.low <= 0,
    }
    figures = {
        "success_difference": gain,
        "would_withhold": withheld,
        "tasks_with_enough_trials": Figure(enough, None, None, enough, len(tasks), rule.tasks),
    }
    return _gate("success improves over the deterministic baseline", found, figures)


def _safety(lessons: Sequence[Lesson], standing: Standing, rule: GateRule) -> Gate:
    effects = share_of_trials(
        lessons, lambda lesson: lesson.receipt.outcome.unauthorised_side_effect, rule, float(rule.unauthorised)
    )
    found = {
        "no trace shows a claim": standing.shown == 0,
        "a claim was shown that was not durable": standing.not_durable > 0,
        "unauthorised side effects are not shown to stay below their threshold": _above(effects),
    }
    figures = {
        "shown_not_durable": share(standing.not_durable, standing.shown, rule, 0.0),
        "stale_facts_refused": share(standing.refused, standing.refused + standing.shown, rule),
        "unauthorised_side_effects": effects,
    }
    return _gate("stale rejection, quarantine and permissions do not regress", found, figures)


def _costs(lessons: Sequence[Lesson], standing: Standing, rule: GateRule) -> Gate:
    tokens = _sums(lessons, lambda lesson: lesson.trace.token_count)[2:]
    waited = np.array(standing.latencies_ms, dtype=np.float64)
    figures = {
        "mean_tokens": ratio(tokens, len(lessons), rule, float(rule.mean_tokens)),
        "mean_latency_ms": ratio((waited, np.ones(len(waited))), len(waited), rule, float(rule.mean_latency_ms)),
        "corrected": share_of_trials(
            lessons, lambda lesson: lesson.receipt.outcome.corrected, rule, float(rule.corrected)
        ),
    }
    found = {f"{name} is not shown to stay below its threshold": _above(each) for name, each in figures.items()}
    return _gate("tokens, latency and corrections stay within thresholds", found, figures)


def _rollback(standing: Standing) -> Gate:
    replayed = Figure(None, None, None, standing.replayed, standing.traces)
    found = {
        "there is no trace to replay": standing.traces == 0,
        "a version, folded again, has other weights": standing.replayed < standing.traces,
    }
    return _gate("a version is rolled back without a schema migration", found, {"versions_replayed": replayed})


def _above(figure: Figure) -> bool:
    return figure.high is None or figure.threshold is None or figure.high > figure.threshold


def _gate(name: str, found: dict[str, bool], figures: dict[str, Figure]) -> Gate:
    reasons = tuple(reason for reason, broken in found.items() if broken)
    return Gate(name, not reasons, reasons, figures)
