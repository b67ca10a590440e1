"""RFC 8785 a second time, with the standard library alone: what the golden ids are recomputed with.

It shares nothing with `records.canonical`, and has none of its rules about text: RFC 8785 and no more.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any

_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def canonicalise(value: Any) -> bytes:
    """Return the canonical bytes of JSON values."""
    return _text_of(value).encode()


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical bytes."""
    return hashlib.sha256(canonicalise(value)).hexdigest()


def derive(noun: str, projection: Any) -> str:
    """Return the id of a projection under the domain of its noun."""
    framed = b"vrm/" + noun.encode("ascii") + b"/v1" + bytes(1) + canonicalise(projection)
    return f"{noun}:{hashlib.sha256(framed).hexdigest()}"


def _text_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(char) or _control(char) for char in value) + '"'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return f"[{','.join(map(_text_of, value))}]"
    assert isinstance(value, dict), value
    keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join(f"{_text_of(key)}:{_text_of(value[key])}" for key in keys) + "}"


def _control(char: str) -> str:
    return f"\\u{ord(char):04x}" if char < " " else char


def _number(value: float) -> str:
    """Write a finite double as ECMAScript does (ECMA-262, Number::toString); Python finds the same shortest digits."""
    assert value == value, "NaN has no form"  # noqa: PLR0124  # the one number that differs from itself
    if value == 0:
        return "0"
    sign, shortest, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "an infinity has no form"
    digits = "".join(map(str, shortest))
    point = len(digits) + exponent  # where the decimal point stands, counted from the first digit
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{rest}e{point - 1:+d}"
    return f"-{text}" if sign else text
