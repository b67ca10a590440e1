"""What `vrm trace` prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evaluation.mediation import MEANING, STAGES, Mediation
from memory.trace.accounting import Costs
from memory.trace.costs import OF_MEMORY, Component, Finite, PerImprovement
from memory.trace.reading import Traced
from policies.mediation import CardTrace, DecisionTrace
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

_NONE = "-"


def show(out: Console, traced: Traced, found: Mediation, *, whole: bool) -> None:
    """Print how far decisions came, the metrics, and every decision; with `whole` the chain of each in full."""
    if not traced.traces:
        out.print("No decision was admitted here yet; `vrm run` takes some.", markup=False)
        return
    show_title(out, f"How far {found.decisions} decisions came, arm by arm")
    show_rows(out, ("stage", *found.funnel, "counts"), _stages(found))
    show_title(out, "From memory to outcome")
    show_rows(out, ("metric", "share", "of", "95 % interval", "what"), _metrics(found))
    out.print(_paired(found), markup=False, soft_wrap=True)
    show_title(out, "Decisions")
    show_rows(
        out,
        (
            "decision", "arm", "pair", "memory", "cards", "adopted", "ended", "ran", "before", "after",
            "against pair", "broken",
        ),
        map(_decision, traced.traces),
    )  # fmt: skip
    for trace in traced.traces if whole else ():
        _chain(out, trace)


def show_costs(out: Console, costs: Costs) -> None:
    """Print what it cost, component by component."""
    show_title(out, "Costs; what is not measured is missing in the amount")
    show_rows(
        out,
        ("component", "amount", "unit", "measured", "source"),
        (
            (
                cost.component.value,
                f"{cost.amount:.6g}",
                cost.unit.value,
                f"{cost.measured} of {cost.of}",
                cost.source.value,
            )
            for cost in costs.components
        ),
    )
    out.print(f"{costs.improvements} decisions are better for an adopted card, verified.", markup=False)
    for words, components in (
        ("seconds of memory", OF_MEMORY),
        ("prompt tokens", (Component.PROMPT_TOKENS,)),
        ("seconds of downstream tasks", (Component.DOWNSTREAM_TASK,)),
    ):
        out.print(f"  {words} for each of them: {_share(costs.per_improvement(*components))}", markup=False)


def _share(share: PerImprovement | None) -> str:
    if share is None:
        return "not known: something was not measured, or these are not all decisions of the namespace"
    return f"{share.value:.6g}" if isinstance(share, Finite) else "infinite: there is none"


def _stages(found: Mediation) -> Iterator[tuple[str, ...]]:
    for name, (meaning, _) in STAGES.items():
        yield name, *(str(stages.get(name, _NONE)) for stages in found.funnel.values()), meaning


def _metrics(found: Mediation) -> Iterator[tuple[str, ...]]:
    for name, count in found.shares.items():
        value = count.as_json()
        interval = _NONE if count.share is None else f"{value['low']:.3f} to {value['high']:.3f}"
        share = _NONE if count.share is None else f"{count.share:.3f}"
        yield name.replace("_", " "), share, f"{count.hits} of {count.of}", interval, MEANING[name]


def _paired(found: Mediation) -> str:
    effect = found.effect
    if effect is None:
        return f"paired verified outcome delta: none ({found.no_effect})"
    interval = (
        "" if effect.interval is None else f", 95 % interval {effect.interval.low:+.4f} to {effect.interval.high:+.4f}"
    )
    failed = f"without a valid outcome: {effect.failed_memory} with memory, {effect.failed_control} without"
    return (
        f"paired verified outcome delta: {effect.mean_delta:+.4f} over {effect.n_tasks} tasks and {effect.n_pairs} "
        f"pairs{interval}: {effect.finding.value}; {failed}"
    )


def _decision(trace: DecisionTrace) -> tuple[str, ...]:
    other = trace.counterpart
    return (
        f"{trace.intent_id.rpartition(':')[2][:12]} #{trace.iteration}",
        trace.arm or _NONE,
        trace.pair or _NONE,
        trace.source_status or "open",
        str(len(trace.cards)),
        str(len(trace.adopted)),
        trace.decision_status or "open",
        trace.ran.value,
        _number(trace.before),
        _number(trace.after),
        _NONE if other is None or other.delta is None else f"{other.delta:+.4f}",
        ", ".join(dict.fromkeys(each.what.value for each in trace.breaks)) or _NONE,
    )


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}"


def _chain(out: Console, trace: DecisionTrace) -> None:
    show_title(out, f"The chain of {short(trace.intent_id)}")
    facts: dict[str, Any] = {
        "run": trace.run_id,
        "memory": f"{trace.requirement.value}, {trace.source_status or 'open'} ({trace.source_reason or _NONE})",
        "context": f"{trace.context_id or _NONE}, {trace.tokens or 0} tokens",
        "outcome": f"{trace.outcome_id or _NONE}, {trace.decision_status or 'open'}",
        "decision artifact": trace.artifact_digest or _NONE,
        "proposed": _NONE if trace.action is None else f"{trace.action.knob} = {trace.action.value}",
        "attempt": trace.attempt_id or _NONE,
        "intervention": trace.intervention_id or _NONE,
        "executed": _NONE if trace.executed is None else f"{trace.executed.knob} = {trace.executed.value}",
        "configuration": f"decided {trace.decided_config_digest or _NONE}, ran {trace.executed_config_digest or _NONE}",
        "manipulation check": trace.ran.value,
        "verified": f"{trace.metric or _NONE} {_number(trace.before)} to {_number(trace.after)}",
    }
    show_rows(out, ("link", "what"), facts.items())
    if trace.cards:
        show_rows(out, ("card", "made of", "evidence", "fate", "mapped to", "judged"), map(_card, trace.cards))
    for each in trace.breaks:
        out.print(f"broken: {each.what.value} ({each.about})", markup=False, soft_wrap=True)


def _card(card: CardTrace) -> tuple[str, ...]:
    mapped = card.mapped_to
    return (
        f"{card.ordinal} {short(card.card_id)}",
        ", ".join(map(short, card.sources)),
        f"{len(card.evidence)} experiences",
        card.reason,
        _NONE if mapped is None else f"{mapped.knob} = {mapped.value}",
        card.judgement.value if card.judgement else _NONE,
    )
