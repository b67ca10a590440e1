"""The numbers that stand in a text: value, precision as written, unit, and where.

Rules kept here:

- a number states as many digits as are written, and its exponent; nothing is added to them;
- thousands are set apart by a comma, a thin or fixed space or an apostrophe, three digits each; a decimal mark is a
  full stop;
- a hyphen is a minus only where nothing stands before it that a hyphen could join;
- part of a word is no number: `F1`, `ResNet-50`, `3D`, `2nd`;
- what follows a plus-minus sign tells how far the number before it spreads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

from policies.papers.policy import PaperPolicy

_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_APART: Final = r"(?:,|\{,\}|\\,|[\u202f\u2009\u00a0'])"
_POWER: Final = (
    r"\s{0,4}(?:\\times|\\cdot|[\xd7\xb7]|x)\s*10\s*(?:\^\s*(?:\{\s*)?(?P<power>[+\-\u2212]?\s*\d{1,3})(?:\s*\})?"
    r"|(?P<raised>[⁻⁺]?[⁰¹²³⁴-⁹]{1,3}))"
)
_NUMBER: Final = re.compile(
    rf"(?P<sign>[+\-\u2212])?(?=\.?\d)(?P<whole>\d{{1,3}}(?:{_APART}\d{{3}})+(?!\d)|\d+)?(?P<part>\.\d+)?"
    rf"(?:[eE](?P<exponent>[+-]?\d{{1,3}})(?![A-Za-z0-9])|{_POWER})?"
)
_BEFORE_SIGN: Final = re.compile(r"[\s(\[{$=~<>≈|&:,;/]\Z")
_SPREAD: Final = re.compile(r"[\s$~(]*(?:\xb1|\\pm|\+/-|\+-)[\s$~{]*")
_GAP: Final = r"(?:[\s~]|\\[,;: ]|[\u2009\u202f\u00a0]|\$|\\mathrm|\\text|\\si|\\unit|[{}])*"
_CLOSED: Final = re.compile(r"[\s$~]*\)")
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th|D)\b")
_LETTERS: Final = re.compile(r"[^\W\d_]")


class Stated(NamedTuple):
    """A number as a text states it.

    Attributes:
        start: its first character; `end` is the one after its last, without the unit.
        after: the character after its unit, or after it if it has none.
        value: with the digits that are written: its exponent is the place of the last one.
        unit: as units are kept; null where none is written.
        spread_of: the place in the list of the number whose spread it tells; null for every other number.
    """

    start: int
    end: int
    after: int
    value: Decimal
    unit: str | None
    spread_of: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it is written without a decimal mark or exponent."""
        return self.value.as_tuple().exponent == 0


def numbers_in(shown: str, policy: PaperPolicy, units: Mapping[str, str]) -> list[Stated]:
    """Return the numbers of a text in their order.

    Args:
        shown: the prose.
        policy: names units.
        units: further ways to write units, with the unit.
    """
    known = _units(tuple(sorted((policy.unit_names | dict(units)).items())))
    found: list[Stated] = []
    for match in _NUMBER.finditer(shown):
        start = _start(shown, match)
        if start is None:
            continue
        end = match.end()
        unit, after = _unit(shown, end, known)
        if unit is None and _joined(shown, end):
            continue
        tells_spread = bool(found) and _SPREAD.fullmatch(shown, found[-1].after, start) is not None
        spread = len(found) - 1 if tells_spread else None
        closed = _CLOSED.match(shown, end) if tells_spread and unit is None else None
        if closed is not None:  # (97.2 +- 2.1) %
            unit, after = _unit(shown, closed.end(), known)
            after = after if unit is not None else end
        if spread is not None and found[spread].unit is None and unit is not None:
            found[spread] = found[spread]._replace(unit=unit)
        if spread is not None and unit is None:
            unit = found[spread].unit
        found.append(Stated(start, end, after, _value(match, signed=start == match.start()), unit, spread))
    return found


def _start(shown: str, match: re.Match[str]) -> int | None:
    """Return where a number begins, without what is no sign of it; None if it is part of a word."""
    start = match.start()
    before = shown[max(0, start - 2) : start]
    if match["sign"] is not None:
        if not before or _BEFORE_SIGN.search(before):
            return start
        if match["sign"] == "-" and _LETTERS.search(before[-1:]):
            return None  # the number of a name, such as ResNet-50
        return start + 1
    return None if before and (before[-1].isalnum() or before[-1] == "_") else start


def _value(match: re.Match[str], *, signed: bool) -> Decimal:
    whole = re.sub(r"\D", "", match["whole"] or "0")
    raised = (match["raised"] or "").translate(_SUPERSCRIPTS)
    power = match["exponent"] or re.sub(r"\s", "", (match["power"] or raised or "0").replace("\u2212", "-"))
    minus = "-" if signed and match["sign"] in {"-", "\u2212"} else ""
    return Decimal(f"{minus}{whole}{match['part'] or ''}E{power}")


def _joined(shown: str, end: int) -> bool:
    """Tell whether letters follow at once, so that it is part of a word."""
    return bool(_ORDINAL.match(shown, end) or _LETTERS.match(shown, end) or shown[end : end + 1] == "_")


class _Units(NamedTuple):
    pattern: re.Pattern[str]
    names: dict[str, str]


@lru_cache(maxsize=16)
def _units(names: tuple[tuple[str, str], ...]) -> _Units:
    found = dict(names)
    ways = sorted(found, key=lambda way: (-len(way), way))
    one = "|".join(re.escape(way).replace(r"\ ", r"[\s~]+") for way in ways)
    return _Units(re.compile(rf"{_GAP}(?P<hyphen>-)?\\?(?P<unit>{one})(?![\w/])"), found)


def _unit(shown: str, end: int, known: _Units) -> tuple[str | None, int]:
    match = known.pattern.match(shown, end)
    if match is None:
        return None, end
    return known.names[re.sub(r"[\s~]+", " ", match["unit"])], match.end()


def counted(shown: str, number: Stated, policy: PaperPolicy) -> bool:
    """Tell whether a whole number without unit is followed by what it counts."""
    if not number.is_whole or number.unit is not None:
        return False
    follows = re.compile(r"(?:[\s~]|\\[, ])*(-?[A-Za-z]+)").match(shown, number.end)
    return follows is not None and follows[1].lower() not in policy.not_counted


def joined_numbers(between: str, policy: PaperPolicy) -> bool:
    """Tell whether the text between two numbers makes the second of the same kind as the first."""
    return bool(_joiners(policy.joiners).fullmatch(between))


@lru_cache(maxsize=16)
def _joiners(joiners: tuple[str, ...]) -> re.Pattern[str]:
    one = "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in sorted(joiners, key=len, reverse=True))
    return re.compile(rf"[\s~$()\[\]]*(?:(?:{one})[\s~$()\[\]]*)*")
