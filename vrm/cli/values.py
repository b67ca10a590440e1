"""Values of options: `name=value` pairs and the values of knobs."""

from __future__ import annotations

import json
from typing import Any


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """Return options written as name=value, in their order.

    Raises:
        InvalidInputError: one is not written so.
    """
    from records.errors import InvalidInputError  # noqa: PLC0415  # help does without

    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise InvalidInputError(option, item, "Write it as name=value.")
        found[name] = value
    return found


def knob_value(text: str) -> Any:
    """Read a knob value as JSON where it is JSON, else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
