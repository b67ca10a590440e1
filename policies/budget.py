"""The exact token budget of a rendered section, for every section there is (VRM-R03).

Rules kept here: the whole section is counted, header and delimiters too; what is shown goes from the end until it fits;
where not even the section without anything in it fits, there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Fitted(NamedTuple):
    """A section that fits: its text, its tokens, and how many things are in it; empty where nothing fits."""

    text: str
    token_count: int
    shown: int


def fit(most: int, write: Callable[[int], str], budget: int, count: Callable[[str], int]) -> Fitted:
    """Return the section with as many things in it as fit.

    Args:
        most: how many there are.
        write: writes the section with the first so many of them.
        budget: most tokens of the section.
        count: counts the tokens of a text.
    """
    for kept in range(most, -1, -1):
        text = write(kept)
        tokens = count(text)
        if tokens <= budget:
            return Fitted(text, tokens, kept)
    return Fitted("", 0, 0)
