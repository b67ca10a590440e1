"""How a rule or procedure is said in a line, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from records.knowledge import GovernedRecord, MemoryRecord
from records.procedures import Action, Check, Comparison, ProcedureRecord
from records.values import EffectEstimate, EvidenceStrength, Interval, Knob

if TYPE_CHECKING:
    from policies.statistics import Bounds

_COMPARED = {
    Comparison.BELOW: "<",
    Comparison.AT_MOST: "<=",
    Comparison.EQUALS: "=",
    Comparison.AT_LEAST: ">=",
    Comparison.ABOVE: ">",
}


def title(record: GovernedRecord) -> str:
    """Return what a record says in one sentence."""
    match record:
        case MemoryRecord():
            return record.claim
        case ProcedureRecord():
            trigger, steps = record.procedure.trigger, len(record.procedure.steps)
            number = f"{steps} step{'' if steps == 1 else 's'}"
            return f"When {trigger.situation} at {trigger.decision_point.value}: {trigger.goal} in {number}."
        case _:
            return record.mechanism


def metric_of(record: GovernedRecord) -> str:
    """Return the name of the metric that a record speaks of; nothing where it has none."""
    match record:
        case MemoryRecord():
            return record.effect.metric.name
        case ProcedureRecord():
            return record.procedure.trigger.metric.name
        case _:
            return ""


def change(knob: Knob) -> str:
    """Return a knob change."""
    return f"{knob.name} {knob.from_value} -> {knob.to_value}"


def effect_lines(effect: EffectEstimate) -> Iterator[str]:
    """Yield the mean effect and every interval with its label; the range where there is none."""
    yield f"{signed(effect.mean_delta)} {effect.metric.name} ({effect.metric.direction.value})"
    for label, interval in (("mean", effect.mean_interval), ("new task", effect.prediction_interval)):
        if interval is not None:
            yield f"{percent(interval)} % {label}: {signed(interval.low)} to {signed(interval.high)}"
    if effect.mean_interval is None:
        yield f"range: {signed(effect.unit_range[0])} to {signed(effect.unit_range[1])}"


def strength_line(strength: EvidenceStrength) -> str:
    """Return the grade with its counts and reasons."""
    counts = f"{strength.grade.value}, {strength.support_count} for and {strength.counter_count} against"
    return f"{counts}; {', '.join(strength.reasons)}" if strength.reasons else counts


def check_line(check: Check) -> str:
    """Return a check of a procedure."""
    place = "" if check.after_step is None else f", after {check.after_step}"
    return f"{check.name}: {check.observable} {_COMPARED[check.comparison]} {check.expected.value}{place}"


def action_line(action: Action) -> str:
    """Return an allowlisted action with its parameters."""
    given = ", ".join(f"{each.name}={each.value.value}" for each in action.parameters)
    return f"{action.tool} {action.version} {action.operation}({given})"


def grid(facts: Iterable[tuple[str, str]]) -> Table:
    """Return names and values as two columns."""
    made = Table.grid(padding=(0, 2))
    for name, value in facts:
        made.add_row(Text(name, style="dim"), Text(value))
    return made


def percent(interval: Interval) -> str:
    """Return the nominal coverage of an interval."""
    return f"{float(interval.level) * 100:.3g}"


def number(metric: str) -> str:
    """Return a metric value."""
    return f"{float(metric):.4g}"


def signed(metric: str | float) -> str:
    """Return a difference with its sign."""
    return f"{float(metric):+.4g}"


def bounds(found: Bounds | None) -> str:
    """Return an interval that was computed, or a dash."""
    return "-" if found is None else f"{signed(found.low)} to {signed(found.high)}"


def digits(record_id: str, length: int = 12) -> str:
    """Return the first digits of an id, which any command takes as a prefix."""
    return record_id.rpartition(":")[2][:length]
