"""A text with its structure into chunks within a token limit (spec 8.5).

Rules kept here:

- chunks follow each other and cover the text, so every offset slices the text back exactly;
- a chunk ends where a part of the structure ends, unless it would be smaller than the policy wants; within a part it
  takes whole paragraphs while they fit, then lines, sentences, words, and at last characters;
- no chunk has more tokens than the limit. Where even characters must be cut, a quarter of the limit is taken: a
  character has at most four bytes, and a byte-level tokenizer makes at most one token of each;
- a stretch of more than sixteen characters a token is cut without being counted, so that the work stays linear in the
  text whatever it is.

Pure: the tokenizer comes in as a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from policies.references.policy import ChunkLimits
from records.errors import InvalidInputError
from records.reference import ChunkUnit

CHUNK_RULE: Final = "vrm-chunks/1"
"""The identity of this algorithm, with the structure that texts come with."""

_CUTS: Final = tuple(
    map(re.compile, (r"\n(?:[ \t\r\f]*\n)+", r"(?:\r\n?|\n)+", r"(?<=[.!?;])[ \t]+", r"\s+")),
)
"""After what a stretch may be cut, from paragraphs to words."""
_UNCOUNTED: Final = 16
_BYTES: Final = 4
_INVISIBLE: Final = "\ufeff"


class Unit(NamedTuple):
    """A part of a text's structure: where it begins, what it is, and its number among those from one."""

    start: int
    unit: ChunkUnit
    number: int


class Piece(NamedTuple):
    """A chunk as characters of its text, with the unit that it begins in."""

    start: int
    end: int
    unit: Unit


Fits = Callable[[int, int], bool]


def chunk(text: str, units: Sequence[Unit], limits: ChunkLimits, count: Callable[[str], int]) -> list[Piece]:
    """Return the chunks of a text, which is not empty.

    Args:
        text: the whole text.
        units: the parts of its structure in order; the first begins with the text.
        limits: limit and smallest size.
        count: counts the tokens of a text.

    Raises:
        InvalidInputError: the policy is for another algorithm.
    """
    if limits.rule != CHUNK_RULE:
        raise InvalidInputError("chunks.rule", limits.rule, f"This program cuts by {CHUNK_RULE}.")

    def fits(start: int, end: int) -> bool:
        return end - start <= _UNCOUNTED * limits.tokens and count(text[start:end]) <= limits.tokens

    made: list[Piece] = []
    ends = [*(unit.start for unit in units[1:]), len(text)]
    for unit, end in zip(units, ends, strict=True):
        goes_on = bool(made) and count(text[made[-1].start : made[-1].end]) < limits.smallest
        for start, stop in _atoms(text, (unit.start, end), fits, limits.tokens):
            if goes_on and fits(made[-1].start, stop):
                made[-1] = made[-1]._replace(end=stop)
            else:
                made.append(Piece(start, stop, unit))
            goes_on = True
    return made


def quotation(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the stretch without the space around it; where there is nothing else, its empty end."""
    found = text[start:end]
    begin = start + len(found) - len(found.lstrip().lstrip(_INVISIBLE).lstrip())
    return begin, max(begin, start + len(found.rstrip()))


def _atoms(text: str, part: tuple[int, int], fits: Fits, tokens: int, level: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the largest stretches of a part that need no further cut, whole paragraphs at most."""
    start, end = part
    if start == end:
        return
    if level > 0 and fits(start, end):
        yield start, end
    elif level == len(_CUTS):
        step = tokens // _BYTES
        yield from ((at, min(at + step, end)) for at in range(start, end, step))
    else:
        cuts = (found.end() for found in _CUTS[level].finditer(text, start, end))
        for each in pairwise([start, *(cut for cut in cuts if cut < end), end]):
            yield from _atoms(text, each, fits, tokens, level + 1)
