"""How much of a list fits into a section of a prompt: the one place where a token budget is kept (VRM-R03).

The whole section is counted, header and closing included; entries go from the end until it fits. Where not even the
section without entries fits, there is none.

Pure: the tokenizer comes in as a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Fitted(NamedTuple):
    """A section that fits: its text, its tokens, and how many entries are in it."""

    text: str
    token_count: int
    kept: int


def fit(render: Callable[[int], str], most: int, budget: int, count: Callable[[str], int]) -> Fitted:
    """Return the section with as many entries as fit.

    Args:
        render: returns the whole section with its first so many entries.
        most: how many entries there are.
        budget: most tokens of the whole section.
        count: counts the tokens of a text.
    """
    for kept in range(most, -1, -1):
        text = render(kept)
        tokens = count(text)
        if tokens <= budget:
            return Fitted(text, tokens, kept)
    return Fitted("", 0, 0)
