"""One value of a report, read strictly: JSON in, typed value or refusal out."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from importers.node_report.reasons import RefusalCode, Refused
from records.canonical import metric_text, text_fault
from records.lineage import NodeMetric, NotFinite, NotFiniteMetric, Repair, RepairCode, path_fault

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_NAME_LIMIT: Final = 2_000


class Repairs:
    """What was read otherwise than it was written, in the order in which it was met."""

    def __init__(self) -> None:
        """Begin with none."""
        self._made: dict[Repair, None] = {}

    def add(self, code: RepairCode, field: str) -> None:
        """Note one repair; a field is named in NFC, as every text of a record is."""
        self._made[Repair(code=code, field=unicodedata.normalize("NFC", field)[:_NAME_LIMIT])] = None

    @property
    def made(self) -> tuple[Repair, ...]:
        """Every repair, each once."""
        return tuple(self._made)


def document_of(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a report's bytes; NaN and infinities are kept, for they are facts about a run.

    Raises:
        Refused: it is none, or gives a key twice.
    """
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Refused(RefusalCode.NOT_JSON, "$", type(error).__name__) from error
    except ValueError as error:  # an integer of too many digits
        raise Refused(RefusalCode.NOT_JSON, "$", "a number that is too long") from error
    if not isinstance(found, dict):
        raise Refused(RefusalCode.NOT_JSON, "$", type(found).__name__)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counted = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counted.items() if count > 1)
        raise Refused(RefusalCode.NOT_JSON, "$", f"the key {twice!r} is given twice")
    return made


def required(found: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Return a field that the schema requires.

    Raises:
        Refused: it is missing or of another type.
    """
    if name not in found:
        raise Refused(RefusalCode.MISSING_FIELD, name, "missing")
    return typed(found[name], name, kind)


def typed(value: Any, field: str, kind: type | tuple[type, ...]) -> Any:
    """Return a value of a type; a boolean is no number.

    Raises:
        Refused: it is of another one.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Refused(RefusalCode.WRONG_TYPE, field, type(value).__name__)
    return value


def text(value: Any, field: str, repairs: Repairs, limit: int | None = None) -> str:
    """Return a text in NFC, cut at a limit if one is given.

    Raises:
        Refused: it is no text that any record could hold.
    """
    normal = unicodedata.normalize("NFC", typed(value, field, str))
    if text_fault(normal) is not None:
        raise Refused(RefusalCode.WRONG_TYPE, field, "text with NUL or half a character")
    if normal != value:
        repairs.add(RepairCode.TEXT_NORMALISED, field)
    return normal if limit is None else normal[:limit]


def optional_text(found: dict[str, Any], name: str, repairs: Repairs) -> str:
    """Return a text that may be missing or null; then it is empty."""
    value = found.get(name)
    return "" if value is None else text(value, name, repairs, 100_000)


def texts(value: Any, field: str, repairs: Repairs) -> tuple[str, ...]:
    """Return a list of texts; null is none."""
    listed = [] if value is None else typed(value, field, list)
    return tuple(text(each, f"{field}.{place}", repairs, 100_000) for place, each in enumerate(listed))


def safe_path(value: Any, field: str) -> str:
    """Return a path that stays inside the node's folder, exactly as it was written.

    Raises:
        Refused: it is none.
    """
    path: str = typed(value, field, str)
    if text_fault(path) is not None or path_fault(path) is not None:
        raise Refused(RefusalCode.UNSAFE_PATH, field, path)
    return path


def digest(value: Any, field: str, repairs: Repairs) -> str | None:
    """Return a SHA-256 digest without prefix, in lower case; what is no digest is a claim of none, and said to be."""
    if value is None or value == "":
        return None
    found = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        repairs.add(RepairCode.DIGEST_UNREADABLE, field)
        return None
    return found[1].lower()


def moment(value: Any, field: str) -> str | None:
    """Return a moment as a timestamp; without an offset it is UTC.

    Raises:
        Refused: it is none.
    """
    if value is None or value == "":
        return None
    try:
        found = datetime.fromisoformat(typed(value, field, str))
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Refused(RefusalCode.WRONG_TYPE, field, value) from error
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def metrics(found: dict[str, Any], repairs: Repairs) -> tuple[tuple[NodeMetric, ...], tuple[NotFiniteMetric, ...]]:
    """Return the numbers of a report, finite and not; what is no number stays in the report's bytes alone.

    Raises:
        Refused: two names are one.
    """
    finite: dict[str, NodeMetric] = {}
    other: dict[str, NotFiniteMetric] = {}
    for name, value in required(found, "metrics", dict).items():
        field = f"metrics.{name}"
        key = text(name, field, repairs)
        if not 0 < len(key) <= _NAME_LIMIT or key in finite or key in other:
            raise Refused(RefusalCode.NAMED_TWICE if key else RefusalCode.WRONG_TYPE, field, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            repairs.add(RepairCode.METRIC_NOT_NUMERIC, field)
        elif (number := _number(value)) is None:
            repairs.add(RepairCode.METRIC_NOT_FINITE, field)
            other[key] = NotFiniteMetric(name=key, value=_not_finite(value))
        else:
            finite[key] = NodeMetric(name=key, value=metric_text(number))
    return _sorted(finite.values()), _sorted(other.values())


def _number(value: float) -> float | None:
    try:
        made = float(value)
    except OverflowError:
        return None
    return made if math.isfinite(made) else None


def _not_finite(value: float) -> NotFinite:
    if value != value:  # noqa: PLR0124  # NaN; `math.isnan` cannot take every integer
        return NotFinite.NAN
    return NotFinite.INFINITE if value > 0 else NotFinite.MINUS_INFINITE


def _sorted(found: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(found, key=lambda each: each.name))
