"""Which plots a page has: the forest of rules, the paired differences of the arms, where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.paired import PairedEffect
from vrm.mainjob.facts.shapes import EffectFacts, HeldOutFacts, RefusedFacts, RoundFacts, RuleFacts
from vrm.report.plots import MUTED, Bar, Row, bars_plot, effects_plot
from vrm.report.words import change, metric, scope, signed

_THICK: Final = 6.0
_THIN: Final = 1.4
_NULLS_SHOWN: Final = 4
_LEGEND: Final = (
    "Each dot is one dataset root, the diamond their mean. Thick: 95 % interval of the mean over many tasks. Thin: "
    "95 % prediction interval for ONE new task. Below three roots there is neither. At the end stand claims that were "
    "shown to make no difference."
)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A plot with the sentence that stands under it."""

    svg: str
    caption: str


def forests(facts: RoundFacts) -> Iterator[Drawing]:
    """Yield one forest per metric: rules that speak for their scope, then the best-supported shown nulls."""
    heads = [rule for rule in facts.rules if rule.is_head]
    nulls = [item for item in facts.refused if item.shown_null][:_NULLS_SHOWN]
    shown: list[RuleFacts | RefusedFacts] = [*heads, *nulls]
    for number, name in enumerate(dict.fromkeys(item.effect.metric for item in shown)):
        own = [item for item in shown if item.effect.metric == name]
        effect = own[0].effect
        label = f"{metric(name)}, changed minus baseline ({effect.unit})"
        alt = "Effect of each rule with its intervals: " + "; ".join(
            f"{change(item.change)} {signed(item.effect.mean)}" for item in own
        )
        yield Drawing(
            svg=effects_plot(f"forest{number}", [_rule_row(item) for item in own], label, alt),
            caption=_LEGEND if number == 0 else f"The same for {metric(name)}.",
        )


def _rule_row(item: RuleFacts | RefusedFacts) -> Row:
    effect = item.effect
    state = item.disposition if isinstance(item, RuleFacts) else "no difference"
    bars = []
    if effect.prediction_interval is not None:
        bars.append(Bar(low=effect.prediction_interval.low, high=effect.prediction_interval.high, weight=_THIN))
    if effect.mean_interval is not None:
        bars.append(Bar(low=effect.mean_interval.low, high=effect.mean_interval.high, weight=_THICK))
    return Row(
        title=change(item.change),
        right=f"{signed(effect.mean)}  {state}",
        note=f"{scope(item.scope)} · {_counts(effect)}",
        dots=tuple(root.effect for root in effect.by_root),
        bars=tuple(bars),
        mean=effect.mean,
    )


def _counts(effect: EffectFacts) -> str:
    tied = f", {effect.tied} tied" if effect.tied else ""
    return f"{effect.roots} roots: {effect.improved} better, {effect.worsened} worse{tied}"


def paired_drawing(held_out: HeldOutFacts) -> Drawing | None:
    """Return the differences of the arms, task by task, with the intervals of their mean; None without tasks."""
    registered = [
        (item.outcome, item.effect) for item in held_out.comparisons if not item.exploratory and item.effect is not None
    ]
    if not registered:
        return None
    with_rule = {trial.task for trial in held_out.trials if trial.rule_in_scope}
    rows = [_mean_row(outcome, effect) for outcome, effect in registered]
    tasks = sorted(registered[0][1].tasks, key=lambda task: (-task.delta, task.task))
    for task in tasks:
        dots = (task.delta,)
        rows.append(
            Row(
                title=task.task,
                note="",
                right=signed(task.delta),
                dots=dots if task.task in with_rule else (),
                hollow=() if task.task in with_rule else dots,
            )
        )
    label = f"{metric(held_out.metric)}, memory minus control ({held_out.unit})"
    alt = f"Memory minus control on {len(tasks)} tasks: " + "; ".join(
        f"{task.task} {signed(task.delta)}" for task in tasks
    )
    return Drawing(
        svg=effects_plot("paired", rows, label, alt),
        caption=(
            "Diamonds: mean over tasks; thick: 95 % t interval; thin, below: 95 % bootstrap interval. Then one dot "
            "a task: the metric in effect at the end. Filled: memory held an active rule for the task's scope. "
            "Hollow: it held none, so that both arms do the same."
        ),
    )


def _mean_row(outcome: str, effect: PairedEffect) -> Row:
    bars = []
    if effect.bootstrap is not None:
        bars.append(Bar(low=effect.bootstrap.low, high=effect.bootstrap.high, weight=_THIN, color=MUTED, below=True))
    if effect.interval is not None:
        bars.insert(0, Bar(low=effect.interval.low, high=effect.interval.high, weight=_THICK))
    title = "at the end (registered)" if outcome == "final" else "mean over the decisions"
    return Row(
        title=f"Mean of {effect.n_tasks} tasks, {title}",
        right=signed(effect.mean_delta),
        note="",
        bars=tuple(bars),
        mean=effect.mean_delta,
    )


def time_drawing(seconds: dict[str, float]) -> Drawing | None:
    """Return where the time went; None where nobody took it."""
    if not seconds:
        return None
    steps: Sequence[tuple[str, float]] = list(seconds.items())
    total = sum(seconds.values())
    alt = "Seconds per step: " + "; ".join(f"{name} {amount:.1f}" for name, amount in steps)
    return Drawing(
        svg=bars_plot("time", steps, "seconds", alt),
        caption=f"{total:.1f} seconds in {len(steps)} steps, in the order in which they began.",
    )
