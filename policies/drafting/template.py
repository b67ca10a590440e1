"""The sentence that structured facts make by themselves; what a rule says where nobody words it better."""

from __future__ import annotations

from typing import Final

from records.values import ActionKind, Knob, MetricSpec

TEMPLATE: Final = "structured-template/v1"
"""The identity of this wording as a drafting adapter."""


def shown(value: float) -> str:
    """Return an effect as wording shows it: signed, four decimals."""
    return f"{value:+.4f}"


def change_phrase(knob: Knob) -> str:
    """Return how wording names a change; the order of the two values is what the rule is about."""
    return f"{knob.name} from {knob.from_value} to {knob.to_value}"


def plain_claim(
    knob: Knob, metric: MetricSpec, action: ActionKind | None, *, no_effect: bool, mean_delta: str, unit_count: int
) -> str:
    """Return the claim of a verdict as one sentence.

    Args:
        knob: the change.
        metric: what it was measured by.
        action: what the rule tells to do; None where nothing is promoted.
        no_effect: whether the effect was shown to be smaller than what matters.
        mean_delta: the effect as `shown`, changed minus baseline.
        unit_count: independent dataset roots behind it.
    """
    roots = f"{unit_count} independent dataset root{'s' if unit_count > 1 else ''}"
    size = f"{mean_delta[1:]} {metric.unit}"
    match action:
        case ActionKind.RECOMMEND:
            said = f"improves {metric.name} by {size}"
        case ActionKind.AVOID:
            said = f"worsens {metric.name} by {size}"
        case _ if no_effect:
            said = f"makes no difference to {metric.name} that matters ({mean_delta} {metric.unit})"
        case _:
            said = f"is not shown to change {metric.name} ({mean_delta} {metric.unit})"
    return f"Changing {change_phrase(knob)} {said}, on average over {roots}."
