"""Bad values for every field of every record kind, found by walking a sample: new kinds are covered by having one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from records.base import Record
from records.canonical import DIGEST_PATTERN
from records.models import Id, Model

Path = tuple[str | int, ...]

HUGE: Final = "a" * 50_000_000
TEXTS: Final[dict[str, str]] = {"NUL": "a\0b", "lone surrogate": "a\ud800b", "not NFC": "e\u0301"}
ANYWHERE: Final[dict[str, Any]] = {"NaN": math.nan, "infinity": math.inf, "minus infinity": -math.inf, "float": 0.5}
"""No record holds a bare float, so these fit no field of one."""


def fields_of(model: Model) -> dict[str, Any]:
    """Return the fields of a model, without what was computed from them."""
    return {name: getattr(model, name) for name in type(model).model_fields}


def leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield every value inside a record that is neither a model nor a list, with the path to it."""
    if isinstance(value, Model):
        for name, item in fields_of(value).items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def models(value: object, path: Path = ()) -> Iterator[tuple[Path, Model]]:
    """Yield every model inside a record, itself included, with the path to it."""
    if isinstance(value, Model):
        yield path, value
        for name, item in fields_of(value).items():
            yield from models(item, (*path, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from models(item, (*path, index))


def bad_values(value: object) -> dict[str, Any]:
    """Return what must be refused in the place of a good value, by what is wrong with it."""
    bad = dict(ANYWHERE)
    if isinstance(value, bool):
        return bad | {"number for a boolean": 1, "text for a boolean": "true"}
    bad["boolean"] = True
    if isinstance(value, float):
        return {fault: number for fault, number in bad.items() if fault != "float"} | TEXTS
    if isinstance(value, int):
        return bad | {"text for a number": "1", "beyond 2^53": 2**53, "far below zero": -(2**53)}
    bad |= TEXTS | {"number for text": 7}
    if isinstance(value, Id):
        other = "attempt" if value.noun != "attempt" else "hypothesis"
        digest = value.partition(":")[2]
        return bad | {"id of another noun": f"{other}:{digest}", "id in upper case": f"{value.noun}:{digest.upper()}"}
    if isinstance(value, StrEnum):
        return bad | {"unknown choice": "no-such-choice"}
    if isinstance(value, str) and re.fullmatch(DIGEST_PATTERN, value):
        return bad | {"digest in upper case": "AB" * 32, "digest too short": value[:-1]}
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", value):
        return bad | {
            "no zone": value[:-1],
            "an offset": f"{value[:-1]}+00:00",
            "no such day": f"2025-02-30{value[10:]}",
        }
    return bad


def replaced(value: Any, path: Path, bad: object) -> Any:
    """Return strict JSON with one place changed."""
    if not path:
        return bad
    head, *rest = path
    if isinstance(value, list):
        return [replaced(item, tuple(rest), bad) if index == head else item for index, item in enumerate(value)]
    return {**value, head: replaced(value.get(head), tuple(rest), bad)}


def forged(value: Any, path: Path, bad: object) -> Any:
    """Return a record with one place changed that no constructor has checked."""
    if not path:
        return bad
    head, *rest = path
    if isinstance(value, Model):
        fields = fields_of(value)
        return type(value).model_construct(**(fields | {str(head): forged(fields.get(str(head)), tuple(rest), bad)}))
    if isinstance(value, tuple):
        return tuple(forged(item, tuple(rest), bad) if index == head else item for index, item in enumerate(value))
    return {**value, head: forged(value[head], tuple(rest), bad)}


def every_bad_place(record: Record) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, fault and bad value for every place in a record."""
    for path, value in leaves(record):
        for fault, bad in bad_values(value).items():
            yield path, fault, bad
