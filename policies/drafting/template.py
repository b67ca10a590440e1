"""How wording shows a number and names a change, and the name of the template that words rules by itself."""

from __future__ import annotations

from typing import Final

from policies.distiller import DRAFTING_ADAPTER
from records.values import Knob

TEMPLATE: Final = DRAFTING_ADAPTER
"""The identity of the template as a drafting adapter."""


def shown(value: float) -> str:
    """Return an effect as wording shows it: signed, four decimals."""
    return f"{value:+.4f}"


def change_phrase(knob: Knob) -> str:
    """Return how wording names a change; the order of the two values is what the rule is about."""
    return f"{knob.name} from {knob.from_value} to {knob.to_value}"
