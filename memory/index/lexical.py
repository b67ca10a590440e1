"""Exact lexical scores: BM25 whose per-word impacts are integers.

Rules kept here:

- words of a text: NFKC, lower case, NFKC; a number is one word; another run of word characters joined by dots is a word
  as a whole and, where it has several parts between dots and underscores, each part is a word besides
  (`clf.class_weight` gives `clf.class_weight`, `clf`, `class`, `weight`). `WORDS_VERSION` names the rule and the
  Unicode release that it used;
- terms of an index: these words, those of letters alone by their English stems (Snowball, Porter 2001), so that
  `improves` meets `improved`; names, numbers and joined words stay as they are. `TERMS_VERSION` names the rule. An
  index made of words as they are, which earlier releases built, goes on being searched by that rule;
- BM25 in the form of Lucene: idf = ln(1 + (N - df + 1/2) / (df + 1/2)), and tf / (tf + k1 (1 - b + b dl / avgdl)), with
  k1 = 1.5 and b = 0.75 (Robertson and Zaragoza 2009; the factor k1 + 1 changes no order and is left out);
- statistics cover every document of the index, whatever rows a query may see;
- a query looks no further than its best hits need (the bounds of Turtle and Flood, "Query evaluation: strategies and
  optimizations", 1995): what is left out provably cannot be among them, so the hits are those of adding up everything;
- each (word, document) impact is rounded once, at build time, to steps of 2^-20; the score of a query is the sum of
  integers over its words, repeated words counted again. The logarithm is the correctly rounded one of `decimal`, the
  rest is IEEE arithmetic: a rebuild gives the same bytes on any machine.

Own postings rather than `bm25s` at run time: that library keeps float scores whose ties move with float32 and whose
logarithm depends on the C library (docs/adr/0040). The tests compare the two.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
import Stemmer
from numpy.typing import NDArray

from memory.index.packed import PackedTexts
from memory.index.ranking import SCORE_BITS, Rows, least_of_best

K1: Final = 1.5
B: Final = 0.75
WORDS_VERSION: Final = f"vrm-words/1+unicode-{unicodedata.unidata_version}"
TERMS_VERSION: Final = f"vrm-terms/2+snowball-{Stemmer.version()}+unicode-{unicodedata.unidata_version}"
LEXICAL_VERSION: Final = f"bm25-lucene-int/1+k1={K1}+b={B}+bits={SCORE_BITS}"
_WORD: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\.?\w)|\w+(?:\.\w+)*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_JOINT: Final = re.compile(r"[._]+")
_LOGARITHM: Final = Context(prec=40)
_BLOCK: Final = 1 << 20
_FEW: Final = 16
"""Chosen rows are looked up one by one where they are fewer than the index's rows by this factor."""


def words(text: str) -> list[str]:
    """Return the words of `text` in order of appearance, repeats kept."""
    return [word for line in text.split("\n") for word in _words_of_line(line)]


@lru_cache(maxsize=4096)
def _words_of_line(line: str) -> tuple[str, ...]:
    """Return the words of a line; documents and requests share many lines, and neither a word nor a fold spans two."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", line).lower())
    return tuple(word for match in _WORD.finditer(folded) for word in _split(match.group()))


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order of appearance, repeats kept."""
    return [term for line in text.split("\n") for term in _terms_of_line(line)]


@lru_cache(maxsize=4096)
def _terms_of_line(line: str) -> tuple[str, ...]:
    stemmer = Stemmer.Stemmer("english")  # one holds a state, so threads share none
    return tuple(stemmer.stemWord(word) if word.isalpha() else word for word in _words_of_line(line))


TERM_RULES: Final[Mapping[str, Callable[[str], list[str]]]] = {TERMS_VERSION: terms, WORDS_VERSION: words}
"""How a text is split for an index, by the name that its identity has."""


def _split(found: str) -> Iterable[str]:
    if _NUMBER.fullmatch(found):
        return [found]
    parts = [part for part in _JOINT.split(found) if part]
    if len(parts) <= 1:
        return parts
    return [found.strip("._"), *parts]


class _Asked(NamedTuple):
    """One word of a query: rows and impacts of its postings, how often it was asked, and the most it can add."""

    rows: NDArray[np.int32]
    impacts: NDArray[np.int32]
    times: int
    most: int

    def add_to(self, sums: NDArray[np.int64]) -> None:
        """Add the word to the sums of all rows."""
        added = self.impacts * np.int64(self.times)
        if self.rows.size == sums.size:  # rows of a word are distinct: this one is in every text
            sums += added
        else:
            sums[self.rows] += added


@dataclass(frozen=True, eq=False)
class Postings:
    """For each word the rows that hold it and its impact there.

    Attributes:
        terms: the words, sorted.
        starts: int64, shape (terms + 1,): where the postings of each word begin.
        rows: int32, shape (postings,): row numbers, ascending within a word.
        impacts: int32, shape (postings,): BM25 impacts in steps of 2^-20.
        size: number of documents.
        rule: which of `TERM_RULES` splits a query as the documents were split.
    """

    terms: PackedTexts
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    impacts: NDArray[np.int32]
    size: int
    rule: str = TERMS_VERSION

    @staticmethod
    def build(texts: Sequence[str]) -> Postings:
        """Index `texts`; the position of a text is its row."""
        builder = PostingsBuilder()
        for text in texts:
            builder.add(text)
        return builder.finish()

    def flaw(self) -> str | None:
        """Say what breaks the rules of this module, or None."""
        if self.starts.shape != (len(self.terms) + 1,) or self.rows.shape != self.impacts.shape or self.rows.ndim != 1:
            return "arrays of postings differ in length"
        if self.starts[0] != 0 or self.starts[-1] != self.rows.size or (np.diff(self.starts) < 0).any():
            return "starts do not cover the postings in order"
        if self.rows.size and (self.rows.min() < 0 or self.rows.max() >= self.size or self.impacts.min() < 0):
            return "a posting names a row that is not there or a negative impact"
        within = np.ones(self.rows.size, dtype=bool)
        within[self.starts[:-1][np.diff(self.starts) > 0]] = False  # the first posting of a word has no predecessor
        if (np.diff(self.rows)[within[1:]] <= 0).any():
            return "rows of a word are not ascending"
        return None

    def scores(self, query: str, chosen: Rows | None) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows that share a word with `query`, ascending, and their scores.

        Args:
            query: any text.
            chosen: the rows that may be scored, ascending, or None for all of them.
        """
        return self.leading(query, chosen, self.size)

    def leading(self, query: str, chosen: Rows | None, limit: int) -> tuple[Rows, NDArray[np.int64]]:
        """Return what `scores` does for the rows that may be among the `limit` best; all of those are there.

        Words are added up from the one that can count most. Once `limit` rows stand higher than all words to come can
        lift a row without the words so far, those are looked up for the rows that can still get there, and no others.
        """
        asked = sorted(self._asked(query), key=lambda each: -each.most)
        if chosen is not None and chosen.size * _FEW < self.size:
            return _matched(chosen, _looked_up(asked, chosen, np.zeros(chosen.size, dtype=np.int64)))
        sums = np.zeros(self.size, dtype=np.int64)
        done, left, tried = 0, sum(each.most for each in asked), 0
        for at, each in enumerate(asked, start=1):
            each.add_to(sums)
            done, left = done + each.most, left - each.most
            if left and left < (tried or done):
                seen = sums if chosen is None else sums[chosen]
                floor = least_of_best(seen, limit) if 0 < limit <= seen.size else 0
                within = np.flatnonzero(seen + left >= floor) if floor > left else None
                if within is not None and within.size * _FEW < self.size:
                    rows = within if chosen is None else chosen[within]
                    return _matched(rows, _looked_up(asked[at:], rows, seen[within]))
                tried = max(left // 2, 1, floor if within is None else 0)
        return _matched(np.arange(self.size), sums) if chosen is None else _matched(chosen, sums[chosen])

    @cached_property
    def _most(self) -> NDArray[np.int32]:
        """The largest impact of each word; a word without postings, which no build makes, may be given too much."""
        if not self.impacts.size:
            return np.zeros(len(self.terms), dtype=np.int32)
        return np.maximum.reduceat(self.impacts, np.minimum(self.starts[:-1], self.impacts.size - 1))

    def _asked(self, query: str) -> list[_Asked]:
        found = []
        for term, times in Counter(TERM_RULES[self.rule](query)).items():
            at = self.terms.find(term)
            part = slice(0, 0) if at is None else slice(int(self.starts[at]), int(self.starts[at + 1]))
            if at is not None and part.start < part.stop:
                found.append(_Asked(self.rows[part], self.impacts[part], times, int(self._most[at]) * times))
        return found


class PostingsBuilder:
    """Takes documents one by one and keeps numbers only: which words, how often."""

    def __init__(self, rule: str = TERMS_VERSION) -> None:
        """Begin without documents; `rule` is one of `TERM_RULES`."""
        self._rule = rule
        self._numbers: dict[str, int] = {}  # of words, in order of appearance
        self._words, self._times, self._distinct, self._lengths = array("i"), array("i"), array("i"), array("q")

    def add(self, text: str) -> None:
        """Take the next document."""
        counts = Counter(TERM_RULES[self._rule](text))
        numbers = self._numbers
        self._words.extend(numbers.setdefault(word, len(numbers)) for word in counts)
        self._times.extend(counts.values())
        self._distinct.append(len(counts))
        self._lengths.append(counts.total())

    def finish(self, rows: Rows | None = None) -> Postings:
        """Return the postings.

        Args:
            rows: the row of each document in the order of adding, a permutation; None where that is the order of rows.
        """
        size = len(self._lengths)
        rows = np.arange(size) if rows is None else rows
        ordered = sorted(self._numbers)
        ranks = np.empty(len(ordered), dtype=np.int32)
        ranks[[self._numbers[term] for term in ordered]] = np.arange(len(ordered), dtype=np.int32)
        found = ranks[np.array(self._words, dtype=np.int32)]
        where = np.repeat(rows.astype(np.int32), np.array(self._distinct, dtype=np.int64))
        order = np.lexsort((where, found))
        found, where = found[order], where[order]
        starts = np.zeros(len(ordered) + 1, dtype=np.int64)
        np.cumsum(np.bincount(found, minlength=len(ordered)), out=starts[1:])
        lengths = np.empty(size, dtype=np.int64)
        lengths[rows] = np.array(self._lengths, dtype=np.int64)
        impacts = _impacts(found, where, np.array(self._times, dtype=np.int32)[order], lengths, np.diff(starts))
        return Postings(PackedTexts.pack(ordered), starts, where, impacts, size, self._rule)


def _matched(rows: Rows, sums: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
    at = np.flatnonzero(sums)
    return rows[at].astype(np.int64, copy=False), sums[at]


def _looked_up(asked: Sequence[_Asked], rows: Rows, sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the words to what each of a few rows, ascending, has; `sums` is changed and returned."""
    wanted = rows.astype(np.int32)  # as postings are: a search among other integers would copy them
    for each in asked:
        at = np.minimum(np.searchsorted(each.rows, wanted), each.rows.size - 1)
        met = np.flatnonzero(each.rows[at] == wanted)
        sums[met] += each.impacts[at[met]].astype(np.int64) * each.times
    return sums


def _impacts(
    terms: NDArray[np.int32],
    rows: NDArray[np.int32],
    times: NDArray[np.int32],
    lengths: NDArray[np.int64],
    frequencies: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Return the rounded impact of each posting, shape (postings,).

    Args:
        terms: the word of each posting.
        rows: its row.
        times: how often the word is in that row's text.
        lengths: words in the text of each row.
        frequencies: documents that hold each word.
    """
    impacts = np.empty(terms.size, dtype=np.int32)
    distinct, which = np.unique(frequencies, return_inverse=True)
    idf = np.array([_idf(lengths.size, int(df)) for df in distinct])[which]
    average = float(lengths.sum()) / max(lengths.size, 1)
    for begin in range(0, terms.size, _BLOCK):  # each posting for itself; a block bounds what is held besides
        part = slice(begin, begin + _BLOCK)
        often = times[part].astype(np.float64)
        saturation = often / (K1 * ((1.0 - B) + B * lengths[rows[part]] / average) + often)
        impacts[part] = np.rint(idf[terms[part]] * saturation * 2.0**SCORE_BITS)
    return impacts


def _idf(size: int, frequency: int) -> float:
    """Return ln(1 + (N - df + 1/2) / (df + 1/2)), which is ln((2 N + 2) / (2 df + 1)), correctly rounded."""
    ratio = _LOGARITHM.divide(Decimal(2 * size + 2), Decimal(2 * frequency + 1))
    return float(ratio.ln(_LOGARITHM))
