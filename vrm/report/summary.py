"""What a round says on a terminal: sections of lines and tables as plain data; who prints them chooses the looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evaluation.paired import PairedEffect
from vrm.mainjob.facts.shapes import ArmFacts, DecisionFacts, EffectFacts, RoundFacts, Tally, TrialFacts
from vrm.report.headline import headline
from vrm.report.page import OUTCOMES, TASKS
from vrm.report.words import NOTHING, change, p_value, plain, say, scope, short, signed, span

_OPEN_SHOWN = 8
_FIGURES = ("n", "mean", "95 % t", "95 % bootstrap", "p", "+ / - / =")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section: a title, lines of text, and a table (header and rows) that may be empty."""

    title: str
    lines: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def summary_lines(facts: RoundFacts) -> tuple[Section, ...]:
    """Return the sections in the order in which they are read: rules, refused, decisions, deltas, time, verdict.

    A round that was planned with the arm of the earlier design has one more section, after the deltas.
    """
    head = headline(facts)
    return (
        _rules(facts),
        _refused(facts),
        _evidence(facts),
        _decisions(facts),
        _comparisons(facts),
        *_further(facts),
        Section(title="Where the time went", header=("step", "seconds"), rows=_seconds(facts)),
        Section(title=head.title, lines=(*head.sentences, *head.caveats)),
    )


def _rules(facts: RoundFacts) -> Section:
    rows = tuple(
        (
            short(rule.memory_id),
            rule.disposition if rule.is_head else f"{rule.disposition}, not the head",
            f"{rule.action} {change(rule.change)}",
            *_effect(rule.effect),
            span(rule.effect.prediction_interval),
            f"{rule.support} / {rule.counter}",
            scope(rule.scope),
        )
        for rule in facts.rules
    )
    header = ("id", "state", "rule", "roots", "mean", "95 % mean", "adj. p", "95 % new task", "for / against", "scope")
    return Section(title="Rules", header=header, rows=rows, lines=() if rows else ("Nothing was promoted.",))


def _effect(effect: EffectFacts) -> tuple[str, ...]:
    return (
        f"{effect.roots} ({effect.improved}+ {effect.worsened}- {effect.tied}=)",
        signed(effect.mean),
        span(effect.mean_interval),
        p_value(effect.adjusted_p_value),
    )


def _refused(facts: RoundFacts) -> Section:
    nulls = [item for item in facts.refused if item.shown_null]
    others = [item for item in facts.refused if not item.shown_null]
    rows = tuple(
        (
            item.decision,
            change(item.change),
            *_effect(item.effect),
            "; ".join(say(code) for code in (*item.reasons, *item.findings)),
            scope(item.scope),
        )
        for item in (*nulls, *others[:_OPEN_SHOWN])
    )
    left = max(0, len(others) - _OPEN_SHOWN)
    lines = (
        f"{len(nulls)} of {len(facts.refused)} refused claims were shown to make no difference that matters; "
        f"{len(others)} are not shown either way" + (f", {left} of them only on the page." if left else "."),
    )
    header = ("decision", "change", "roots", "mean", "95 % mean", "adj. p", "why not", "scope")
    return Section(title="What became no rule", header=header, rows=rows, lines=lines)


def _evidence(facts: RoundFacts) -> Section:
    evidence = facts.evidence
    stages = (
        ("verification", evidence.by_verification),
        ("validity", evidence.by_validity),
        ("violation", evidence.by_violation),
        ("receipt", evidence.by_receipt),
        ("work item", evidence.by_outcome),
        ("decision", evidence.by_decision),
    )
    rows = tuple((stage, *cells) for stage, counts in stages for cells in _counted(counts))
    return Section(title="Evidence, stage by stage", header=("stage", "what", "count", "of"), rows=rows)


def _counted(counts: Iterable[Tally]) -> Iterator[tuple[str, ...]]:
    for each in counts:
        yield say(each.name), str(each.count), str(each.of)


def _decisions(facts: RoundFacts) -> Section:
    """Tell the decisions that a card reached; the page tells all of them."""
    held_out = facts.held_out
    every = [(trial, arm, each) for trial in held_out.trials for arm in trial.arms for each in arm.decisions]
    rows = tuple(_decision(*told) for told in every if told[2].cards)
    line = (
        f"{held_out.with_outcome} of {held_out.planned} planned decisions have an outcome; "
        f"{len(rows)} were given cards, and are told here. The others are on the page."
    )
    header = ("task", "arm", "#", "memory", "cards", "tried", "judged", "in effect")
    return Section(title="Held-out decisions", header=header, rows=rows, lines=(line,))


def _decision(trial: TrialFacts, arm: ArmFacts, each: DecisionFacts) -> tuple[str, ...]:
    cards = "; ".join(f"{short(card.memory_id)} {card.verdict} ({card.reason})" for card in each.cards)
    return (
        trial.task,
        arm.arm,
        str(each.iteration),
        say(each.source_status or "undecided"),
        cards or NOTHING,
        change(each.change) if each.change else say(each.terminal_reason or "nothing"),
        f"{plain(each.test_before)} → {plain(each.tried_test)}",
        "kept" if each.kept else "not kept",
    )


def _comparisons(facts: RoundFacts) -> Section:
    rows = []
    for item in facts.held_out.comparisons:
        name = TASKS[item.tasks] + (" (exploratory)" if item.exploratory else "")
        effect = item.effect
        if effect is None:
            rows.append((name, OUTCOMES[item.outcome], "0", *[NOTHING] * 5))
            continue
        rows.append((name, OUTCOMES[item.outcome], *_figures(effect)))
    lines = (f"Memory minus control, {facts.held_out.metric} ({facts.held_out.unit}), by intention to treat.",)
    header = ("tasks", "outcome", *_FIGURES)
    return Section(title="Memory against control", header=header, rows=tuple(rows), lines=lines)


def _further(facts: RoundFacts) -> Iterator[Section]:
    legacy = facts.held_out.legacy
    if legacy is None:
        return
    rows = tuple(
        (f"{item.arm} minus {item.minus}", OUTCOMES[item.outcome], *_figures(item.effect))
        for item in legacy.differences
    )
    line = (
        f"{legacy.with_outcome} of {legacy.planned} planned decisions of this arm have an outcome; {legacy.failed} of "
        f"its {legacy.trials} trials have no valid result. It is no part of the registered comparison."
    )
    header = ("arm", "outcome", *_FIGURES)
    yield Section(title="The earlier design, as an arm beside them", header=header, rows=rows, lines=(line,))


def _figures(effect: PairedEffect) -> tuple[str, ...]:
    return (
        str(effect.n_tasks),
        signed(effect.mean_delta),
        span(effect.interval),
        span(effect.bootstrap),
        p_value(effect.p_value),
        f"{effect.signs.up} / {effect.signs.down} / {effect.signs.ties}",
    )


def _seconds(facts: RoundFacts) -> tuple[tuple[str, ...], ...]:
    rows = [(name, f"{amount:.1f}") for name, amount in facts.seconds.items()]
    return (*rows, ("together", f"{sum(facts.seconds.values()):.1f}")) if rows else ()
