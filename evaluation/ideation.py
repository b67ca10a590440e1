"""What an ideation search shows: quality and diversity of both branches, side by side (VRM-O05). Pure.

Rules kept here:

- every planned search counts in both branches; a branch without a valid result has the failed utility, and one without
  ideas a coverage of zero (docs/adr/0070);
- the unit is the task. Means over tasks come with their t interval, differences with that of the paired differences;
  below three tasks there is none;
- nothing is claimed. A difference of either sign is reported; noninferiority needs margins that are registered before a
  search, and an approved sample, and this is neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from evaluation.paired import FAILED_UTILITY, PairedEffect, PairedTrial, paired_effect
from policies.ideation import Branch, Idea, IdeationPolicy, coverage, dependence
from policies.statistics import MIN_T_VALUES, mean, mean_interval

CLAIM: Final = "none: a development search reports quality and diversity, and shows no gain and no harm"


@dataclass(frozen=True, kw_only=True)
class BranchResult:
    """One branch of one search.

    Attributes: ideas: in the order in which they were had. quality: the judged metric of what its own steering metric
    would keep, the start included; None if nothing valid. cards: how many cards it was given in all.
    """

    ideas: tuple[Idea, ...]
    quality: float | None
    cards: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """One task and seed in both branches."""

    task: str
    seed: int
    branches: dict[Branch, BranchResult]


def ideation_report(searches: Sequence[Search], policy: IdeationPolicy, cap: int, metric: str) -> dict[str, Any]:
    """Return the report over one or more searches as JSON values; `cap` is in thousandths."""
    k, most = policy.proposals, cap / 1000
    largest = max(dependence(each.branches[Branch.WITH_MEMORY].ideas, k) for each in searches)
    return {
        "policy": policy.identity.as_json(),
        "proposals": k,
        "searches": len(searches),
        "tasks": len({each.task for each in searches}),
        "metric": metric,
        "branches": {branch.value: _branch(searches, branch, policy) for branch in Branch},
        "difference": {
            "coverage": _difference(searches, lambda result: coverage(result.ideas, k)),
            "quality": _difference(searches, lambda result: result.quality),
        },
        "memory_dependence": {"cap": most, "largest": largest, "within_cap": largest <= most},
        "claim": CLAIM,
        "rows": [_row(each, k) for each in searches],
    }


def _branch(searches: Sequence[Search], branch: Branch, policy: IdeationPolicy) -> dict[str, Any]:
    results = [each.branches[branch] for each in searches]
    ideas = [idea for result in results for idea in result.ideas]
    k = policy.proposals
    return {
        "coverage": _over_tasks(searches, branch, policy, lambda result: coverage(result.ideas, k)),
        "quality": _over_tasks(
            searches, branch, policy, lambda result: FAILED_UTILITY if result.quality is None else result.quality
        ),
        "dependence": _over_tasks(searches, branch, policy, lambda result: dependence(result.ideas, k)),
        "ideas": {"planned": k * len(searches), "had": len(ideas), "valid": sum(idea.valid for idea in ideas)},
        "steered": sum(idea.steered for idea in ideas),
        "cards": sum(result.cards for result in results),
        "failed": sum(result.quality is None for result in results),
        "families": dict(sorted(Counter(str(idea.family) for idea in ideas if idea.valid).items())),
    }


def _over_tasks(
    searches: Sequence[Search], branch: Branch, policy: IdeationPolicy, value: Callable[[BranchResult], float]
) -> dict[str, Any]:
    """Return the mean over tasks of the mean over seeds, with its t interval."""
    by_task: dict[str, list[float]] = {}
    for each in searches:
        by_task.setdefault(each.task, []).append(value(each.branches[branch]))
    means = [mean(values) for _, values in sorted(by_task.items())]
    interval = mean_interval(means, float(policy.level)) if len(means) >= MIN_T_VALUES else None
    return {"mean": mean(means), **_bounds(interval), "tasks": len(means)}


def _difference(searches: Sequence[Search], value: Callable[[BranchResult], float | None]) -> dict[str, Any]:
    """Return memory minus fresh start, paired by task and seed."""
    effect: PairedEffect = paired_effect(
        [
            PairedTrial(
                task=each.task,
                seed=each.seed,
                control=value(each.branches[Branch.FRESH_START]),
                memory=value(each.branches[Branch.WITH_MEMORY]),
            )
            for each in searches
        ]
    )
    signs = {"up": effect.signs.up, "down": effect.signs.down, "ties": effect.signs.ties}
    return {"mean": effect.mean_delta, **_bounds(effect.interval), "tasks": effect.n_tasks, "signs": signs}


def _bounds(interval: Any) -> dict[str, float | None]:
    return {"low": None, "high": None} if interval is None else {"low": interval.low, "high": interval.high}


def _row(search: Search, proposals: int) -> dict[str, Any]:
    return {
        "task": search.task,
        "seed": search.seed,
        **{
            branch.value: {
                "coverage": coverage(result.ideas, proposals),
                "quality": result.quality,
                "cards": result.cards,
                "ideas": [asdict(idea) for idea in result.ideas],
            }
            for branch, result in search.branches.items()
        },
    }
