"""What the round says, in plain words: gain, loss or not shown, how sure, and what it is not.

The registered comparison alone decides the verdict; whatever weakens it is said beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.paired import Finding, PairedEffect
from vrm.mainjob.facts.shapes import HeldOutFacts, RoundFacts
from vrm.report.words import amount, metric, p_value, reach


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A verdict with its sentences.

    Attributes:
        verdict: `gain`, `loss`, `not_shown`, or `nothing` where there is nothing to compare.
        title: the verdict in one line.
        sentences: the figures behind it.
        caveats: what weakens it, and what it is not.
    """

    verdict: str
    title: str
    sentences: tuple[str, ...]
    caveats: tuple[str, ...]


_TITLES = {
    Finding.GAIN: "A gain on the held-out tasks",
    Finding.LOSS: "A loss on the held-out tasks",
    Finding.NOT_SHOWN: "Neither gain nor loss is shown on the held-out tasks",
}


def headline(facts: RoundFacts) -> Headline:
    """Return what the round says."""
    held_out, effect = facts.held_out, facts.primary
    learned = _learned(facts)
    if effect is None:
        return Headline(verdict="nothing", title="No held-out task was planned", sentences=(learned,), caveats=())
    doubts = tuple(_doubts(effect, held_out))
    return Headline(
        verdict=effect.finding.value,
        title=_TITLES[effect.finding] + (", weakly supported" if doubts else ""),
        sentences=(*_figures(effect, held_out), learned),
        caveats=(*doubts, *_limits(effect, facts)),
    )


def _figures(effect: PairedEffect, held_out: HeldOutFacts) -> Iterator[str]:
    side = "higher" if effect.mean_delta > 0 else "lower"
    apart = f"{amount(effect.mean_delta, held_out.unit)} {side} than" if effect.mean_delta else "just as high as"
    yield (
        f"With memory, the configuration in effect at the end scored {apart} without, in {metric(held_out.metric)}, on "
        f"average over {effect.n_tasks} tasks ({effect.mean_memory:.4f} against {effect.mean_control:.4f})."
    )
    if effect.interval is not None:
        yield f"95 % interval over tasks: {reach(effect.interval, held_out.unit)} (p = {p_value(effect.p_value)})."
    else:
        yield f"{effect.n_tasks} tasks are too few for an interval, so that nothing can be shown."
    yield (
        f"Memory was ahead on {effect.signs.up} tasks, behind on {effect.signs.down}, and tied on {effect.signs.ties}."
    )


def _learned(facts: RoundFacts) -> str:
    active = sum(rule.disposition == "active" and rule.is_head for rule in facts.rules)
    nulls = sum(item.shown_null for item in facts.refused)
    return (
        f"Memory holds {active} active rule{'' if active == 1 else 's'} out of "
        f"{len(facts.rules) + len(facts.refused)} candidate claims; {nulls} were shown to make no difference."
    )


def _limits(effect: PairedEffect, facts: RoundFacts) -> Iterator[str]:
    held_out = facts.held_out
    if held_out.with_outcome < held_out.planned:
        yield f"The round is not finished: {held_out.with_outcome} of {held_out.planned} decisions have an outcome."
    if effect.failed_control or effect.failed_memory:
        yield (
            f"{effect.failed_control} control and {effect.failed_memory} memory trials of {effect.n_pairs} had no "
            f"valid result and count as {held_out.failed_utility:g}."
        )
    reached = sum(any(each.cards for each in trial.memory.decisions) for trial in held_out.trials)
    yield (
        f"Memory had a card to offer on {reached} of {len(held_out.trials)} trials. Where it had none, both arms do "
        "the same by construction, and tie."
    )
    yield (
        "It is not a claim about other models, other kinds of data or other planners: one small catalog, one "
        f"deterministic planner, {effect.n_pairs} paired trials. Choosing was done on validation rows, judging on test "
        "rows that nothing was chosen by."
    )


def _doubts(effect: PairedEffect, held_out: HeldOutFacts) -> Iterator[str]:
    if effect.finding is Finding.NOT_SHOWN:
        return
    what = "gain" if effect.finding is Finding.GAIN else "loss"
    second = next(
        (item.effect for item in held_out.comparisons if item.outcome != "final" and not item.exploratory), None
    )
    if second is not None and second.finding is not effect.finding and second.interval is not None:
        yield (
            f"The second outcome, the mean over the decisions on the way, does not show the {what}: "
            f"95 % interval {reach(second.interval, held_out.unit)} over {second.n_tasks} tasks."
        )
    if effect.bootstrap is not None and not effect.bootstrap.clear_of_zero:
        yield f"The bootstrap interval spans zero, so that the {what} rests on the normal approximation."
    if effect.signs.p_value > 1 - effect.level:
        untied = effect.signs.up + effect.signs.down
        yield (
            f"Only {untied} of {effect.n_tasks} tasks differ at all; a sign test on so few cannot confirm the {what} "
            f"(p = {p_value(effect.signs.p_value)})."
        )
