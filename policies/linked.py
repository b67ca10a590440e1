"""From the evidence links of a record back to the paired deltas that it was decided on. Pure.

A link holds one changed run and one baseline of it. A changed run whose baselines have its seed is compared with their
mean; one whose baselines have other seeds stands for an unpaired arm, and is compared with the mean of all of them in
its stratum. Where a run has one baseline of its seed this is the difference of the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from policies.effects import PairedDelta
from policies.statistics import mean


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedRun:
    """One link with the verified values of both runs, in the metric's unit."""

    stratum_id: str
    changed_id: str
    baseline_id: str
    root: str
    seed: int
    baseline_seed: int
    changed: float
    baseline: float


def linked_deltas(links: Iterable[LinkedRun]) -> tuple[PairedDelta, ...]:
    """Return one delta per changed run, in the order of the runs; reruns of a seed get labels of their own."""
    runs: dict[str, list[LinkedRun]] = defaultdict(list)
    arms: dict[str, dict[str, float]] = defaultdict(dict)
    for link in links:
        runs[link.changed_id].append(link)
        if link.seed != link.baseline_seed:
            arms[link.stratum_id][link.baseline_id] = link.baseline
    reruns: dict[tuple[str, int], int] = defaultdict(int)
    deltas = []
    for _, own in sorted(runs.items()):
        first = own[0]
        paired = {link.baseline_id: link.baseline for link in own if link.seed == link.baseline_seed}
        place = (first.stratum_id, first.seed)
        label = f"{first.seed}#{reruns[place]}" if reruns[place] else str(first.seed)
        reruns[place] += 1
        deltas.append(
            PairedDelta(
                root=first.root,
                evaluation_task=first.stratum_id,
                seed=label,
                baseline=mean(list((paired or arms[first.stratum_id]).values())),
                changed=first.changed,
                paired=bool(paired),
            )
        )
    return tuple(deltas)
