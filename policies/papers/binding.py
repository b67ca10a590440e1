"""Which metric a number of a text is about.

Rules kept here:

- a number is *about* a metric that is named right after it, or before it in its sentence with no other number between
  than counts and numbers that are joined to it ("from 0.91 to 0.93"); in a table, about the metric of its column's
  header, else of its row's first cell;
- a count ("5 seeds") is about no metric unless what it counts is one, nor is a difference ("by 0.1"), nor what is said
  of something else ("p < 0.05");
- beside that, metrics that the paragraph names are *near*: they can ground a number, but nothing contradicts them.
  Nothing is near to a count, a difference, or what is said of something else.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from policies.papers.naming import Mention, Names
from policies.papers.numbers import Stated, counted, joined_numbers
from policies.papers.policy import PaperPolicy
from policies.papers.prose import Prose, Span, line_of

_PARAGRAPH: Final = re.compile(r"(?:\r?\n[ \t]*){2,}|\\\\par\b")
_STOP: Final = re.compile(r"([A-Za-z.]*)[.!?][)\]\"'\u201d\u2019]*(?=\s+[^a-z\s])")
_AFTER: Final = re.compile(r"[\s~({]*(?:(?:test|mean|average|final|validation|held-out)[\s~]+){0,2}")
_DIFFERENCE: Final = re.compile(r"\bby[\s~$]*\Z")
_OF_ANOTHER: Final = re.compile(r"\w[\s$~]*(?:[=<>\u2264\u2265]|\\(?:le|ge)q?\b|\\[lg]t\b)[\s$~]*\Z")
_CELL: Final = {"|": re.compile(r"(?<!\\)\|"), "&": re.compile(r"(?<!\\)&")}
_WORD: Final = re.compile(r"[A-Za-z]+")


class About(NamedTuple):
    """What a number is about.

    Attributes:
        names: the metrics that it is about; empty where that cannot be told.
        near: the metrics that its paragraph, or its table, names.
        unit: the unit that the header of its column tells.
    """

    names: frozenset[str]
    near: frozenset[str]
    unit: str | None = None


_NOTHING: Final = About(frozenset(), frozenset())


class _Paragraph(NamedTuple):
    """A paragraph: where its sentences begin and end, and the metrics that it names, in order."""

    span: Span
    sentences: list[Span]
    mentions: list[Mention]
    near: frozenset[str]


class Binding:
    """The numbers and names of one text."""

    def __init__(self, prose: Prose, numbers: Sequence[Stated], names: Names, policy: PaperPolicy) -> None:
        """Take a text with its numbers, and the metrics that it may name."""
        self._prose, self._numbers, self._names, self._policy = prose, numbers, names, policy
        spans = _between(_PARAGRAPH.finditer(prose.shown), (0, len(prose.shown)))
        self._paragraphs = [self._paragraph(span) for span in spans]

    def _paragraph(self, span: Span) -> _Paragraph:
        mentions = self._mentions(span)
        near = frozenset().union(*(each.names for each in mentions))
        return _Paragraph(span, self._sentences(span), mentions, near)

    def about(self) -> list[About]:
        """Return what each number is about."""
        made: list[About] = []
        for at, number in enumerate(self._numbers):
            if number.spread_of is not None:
                made.append(made[number.spread_of])
                continue
            line = self._prose.line_starts[line_of(self._prose.line_starts, number.start)]
            header = self._prose.cells.get(line)
            made.append(self._in_prose(at, made) if header is None else self._in_table(number, line, header))
        return made

    def _in_prose(self, at: int, made: Sequence[About]) -> About:
        number = self._numbers[at]
        paragraph = self._paragraphs[bisect_right(self._paragraphs, number.start, key=lambda each: each.span[0]) - 1]
        sentences = paragraph.sentences
        start, end = sentences[bisect_right(sentences, number.start, key=lambda each: each[0]) - 1]
        mentions = paragraph.mentions[
            bisect_left(paragraph.mentions, start, key=_begin) : bisect_left(paragraph.mentions, end, key=_begin)
        ]
        names = self._before(at, mentions, made) or self._after(number, mentions)
        of_another = _OF_ANOTHER.search(self._prose.shown, start, number.start) is not None
        alone = not names and (of_another or self._is_no_value(number))
        return About(names, frozenset() if alone else paragraph.near)

    def _after(self, number: Stated, mentions: Sequence[Mention]) -> frozenset[str]:
        for end in (number.end, number.after):  # a unit can name a metric by itself
            first = bisect_left(mentions, end, key=_begin)
            if first < len(mentions) and _AFTER.fullmatch(self._prose.shown, end, mentions[first].start):
                return mentions[first].names
        return frozenset()

    def _before(self, at: int, mentions: Sequence[Mention], made: Sequence[About]) -> frozenset[str]:
        shown, number = self._prose.shown, self._numbers[at]
        last = bisect_right(mentions, number.start, key=lambda each: each.end) - 1
        if last < 0 or self._is_no_value(number):
            return frozenset()
        nearest = mentions[last]
        far = len(_WORD.findall(shown, nearest.end, number.start)) > self._policy.reach
        if far or _OF_ANOTHER.search(shown, nearest.end, number.start):
            return frozenset()
        for earlier in range(at - 1, -1, -1):
            other = self._numbers[earlier]
            if other.start < nearest.end:
                break
            if other.spread_of is not None or counted(shown, other, self._policy):
                continue
            end = max(each.after for each in self._numbers[earlier:at] if each is other or each.spread_of == earlier)
            joined = joined_numbers(shown[end : number.start], self._policy)
            return made[earlier].names if joined else frozenset()
        return nearest.names

    def _is_no_value(self, number: Stated) -> bool:
        by = _DIFFERENCE.search(self._prose.shown, max(0, number.start - 8), number.start)
        return by is not None or counted(self._prose.shown, number, self._policy)

    def _in_table(self, number: Stated, line: int, header: int) -> About:
        column = self._column(line, number.start)
        title, label = self._cell(header, column), self._first_cell(line, column)
        unit = self._unit(title)
        in_title = [each for each in self._mentions(title) if header != line]
        in_label = self._mentions(label)
        names = (in_title or in_label)[:1]
        near = frozenset().union(*(each.names for each in (*in_title, *in_label)))
        beside = self._after(number, self._mentions((number.end, self._line_end(line))))
        if not names and not beside and self._is_no_value(number):
            near = frozenset()
        return About(beside or (names[0].names if names else frozenset()), near | beside, unit)

    def _unit(self, cell: Span) -> str | None:
        found = _unit_pattern(tuple(self._policy.unit_names)).search(self._prose.shown, *cell)
        return None if found is None else self._policy.unit_names[found["unit"] or found["other"]]

    def _line_end(self, line: int) -> int:
        at = line_of(self._prose.line_starts, line) + 1
        return self._prose.line_starts[at] if at < len(self._prose.line_starts) else len(self._prose.shown)

    def _edges(self, line: int) -> list[int]:
        """Return where the cells of a line begin, and where the last one ends."""
        end = self._line_end(line)
        mark = "&" if _CELL["&"].search(self._prose.shown, line, end) else "|"
        inside = [found.end() for found in _CELL[mark].finditer(self._prose.shown, line, end)]
        leading = mark == "|" and not self._prose.shown[line : inside[0] - 1].strip() if inside else False
        return [*([] if leading else [line]), *inside, end + 1]

    def _column(self, line: int, at: int) -> int:
        return sum(edge <= at for edge in self._edges(line)) - 1

    def _cell(self, line: int, column: int) -> Span:
        edges = self._edges(line)
        return (edges[column], edges[column + 1] - 1) if column + 1 < len(edges) else (line, line)

    def _first_cell(self, line: int, column: int) -> Span:
        return self._cell(line, 0) if column > 0 else (line, line)

    def _mentions(self, span: Span) -> list[Mention]:
        return self._names.mentions(self._prose.shown, *span)

    def _sentences(self, paragraph: Span) -> list[Span]:
        stops = (
            found
            for found in _STOP.finditer(self._prose.shown, *paragraph)
            if found[1].lower().strip(".") not in self._policy.abbreviations
        )
        return _between(stops, paragraph)


def _begin(mention: Mention) -> int:
    return mention.start


def _between(marks: Iterable[re.Match[str]], span: Span) -> list[Span]:
    start, last = span
    made = []
    for found in marks:
        made.append((start, found.end()))
        start = found.end()
    return [*made, (start, last)]


@lru_cache(maxsize=16)
def _unit_pattern(ways: tuple[str, ...]) -> re.Pattern[str]:
    one = "|".join(re.escape(way).replace(r"\ ", r"\s+") for way in sorted(ways, key=len, reverse=True))
    return re.compile(rf"[(\[,/]\s*(?:in\s+)?\\?(?P<unit>{one})\s*[)\]]|\bin\s+\\?(?P<other>{one})(?![\w/])")
