"""The groups of a seed: so many of each kind as the table says, mixed so that a first part holds them in proportion."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from evaluation.writer.groups import Group
from evaluation.writer.kinds import KINDS, Kind
from records.errors import InvalidInputError


def corpus(seed: int, groups: int) -> Iterator[Group]:
    """Return the groups of a seed, the same ones for the same seed; more of them begin with fewer.

    Raises:
        InvalidInputError: fewer than one group is asked for, or the seed is negative.
    """
    for name, value, least in (("groups", groups, 1), ("seed", seed, 0)):
        if value < least:
            raise InvalidInputError(name, value, f"Give a whole number from {least} on.")
    order, met = _order(), dict.fromkeys(KINDS, 0)
    for place in range(groups):
        kind = order[place % len(order)]
        yield kind.group(met[kind.name], seed)
        met[kind.name] += 1


@cache
def _order() -> list[Kind]:
    """Return the kinds, each as often as the table says, spread evenly."""
    places = [((number + 0.5) / kind.count, kind.name) for kind in KINDS.values() for number in range(kind.count)]
    return [KINDS[name] for _, name in sorted(places)]
