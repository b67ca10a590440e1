"""How text of a record is written into a rendered section: it cannot leave its quotes, hide or start a line (VRM-R09).

Rules kept here (docs/adr/0060, 0064): a text is a JSON string on one line, in which `<`, `>`, `` ` ``, `&` and all that
is not printable are escaped, and whatever Unicode lets a display leave out (Default_Ignorable_Code_Point): Python calls
some of those printable. The first layout of cards did not know the latter and is written as it was. Ids are shown by
their first hex digits, numbers are written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import regex

from records.models import Id

_UNSAFE: Final = frozenset("<>&`")
_OPAQUE: Final = re.compile(r'"?([a-z-]+:)?[0-9a-f]{64}"?')
"""An id or a digest, by itself or as a JSON string."""
IGNORABLE: Final = regex.compile(r"\p{Default_Ignorable_Code_Point}")
"""A character that a display may leave out altogether, such as a joiner, a variation selector or a Hangul filler."""


def quoted(text: str, limit: int, *, ignorable: bool = False) -> str:
    """Return a text as a JSON string on one line, at most `limit` characters of it, unable to leave its quotes.

    Args:
        text: whatever a record says.
        limit: most characters of it.
        ignorable: whether ignorable characters that Python calls printable stay as they are, as in the first layout.
    """
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    return _escaped_text(json.dumps(cut, ensure_ascii=False), ignorable=ignorable)


def json_value(text: str, limit: int, *, ignorable: bool = False) -> str:
    """Return a value, which is JSON text, as that JSON; what is not, as a quoted text. `ignorable` as for `quoted`."""
    try:
        plain = len(text) <= limit and json.dumps(json.loads(text), ensure_ascii=False) == text
    except ValueError:
        plain = False
    return _escaped_text(text, ignorable=ignorable) if plain else quoted(text, limit, ignorable=ignorable)


def short(found: Id, digits: int) -> str:
    """Return the beginning of an id, which the Ledger resolves."""
    return found.partition(":")[2][:digits]


def shown_ids(ids: Sequence[Id], most: int, digits: int) -> str:
    """Return the first ids by their beginnings, and how many there are more."""
    shown = [short(found, digits) for found in ids[:most]]
    more = len(ids) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "none"


def number(metric: str) -> str:
    """Return a metric with four digits."""
    return f"{float(metric):.4g}"


def signed(metric: str) -> str:
    """Return a metric with four digits and its sign."""
    return f"{float(metric):+.4g}"


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text in JSON values, ids and digests left out."""
    match value:
        case str():
            if not _OPAQUE.fullmatch(value):
                yield value
        case dict():
            for each in value.values():
                yield from texts_of(each)
        case list():
            for each in value:
                yield from texts_of(each)


def _escaped_text(text: str, *, ignorable: bool) -> str:
    seen: str = text if ignorable else IGNORABLE.sub(lambda met: _as_escape(met[0]), text)
    if seen.isprintable() and _UNSAFE.isdisjoint(seen):
        return seen
    return "".join(map(_escaped, seen))


def _escaped(character: str) -> str:
    return _as_escape(character) if character in _UNSAFE or not character.isprintable() else character


def _as_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
