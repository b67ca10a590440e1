"""Exact lexical scores: BM25 whose per-word impacts are integers.

Rules kept here:

- words of a text: NFKC, lower case, NFKC; a number is one word; another run of word characters joined by dots is a word
  as a whole and, where it has several parts between dots and underscores, each part is a word besides
  (`clf.class_weight` gives `clf.class_weight`, `clf`, `class`, `weight`). `WORDS_VERSION` names the rule and the
  Unicode release that it used;
- BM25 in the form of Lucene: idf = ln(1 + (N - df + 1/2) / (df + 1/2)), and tf / (tf + k1 (1 - b + b dl / avgdl)), with
  k1 = 1.5 and b = 0.75 (Robertson and Zaragoza 2009; the factor k1 + 1 changes no order and is left out);
- statistics cover every document of the index, whatever rows a query may see;
- each (word, document) impact is rounded once, at build time, to steps of 2^-20; the score of a query is the sum of
  integers over its words, repeated words counted again. The logarithm is the correctly rounded one of `decimal`, the
  rest is IEEE arithmetic: a rebuild gives the same bytes on any machine.

Own postings rather than `bm25s` at run time: that library keeps float scores whose ties move with float32 and whose
logarithm depends on the C library (docs/adr/0040). The tests compare the two.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from memory.index.packed import PackedTexts
from memory.index.ranking import SCORE_BITS, Rows

K1: Final = 1.5
B: Final = 0.75
WORDS_VERSION: Final = f"vrm-words/1+unicode-{unicodedata.unidata_version}"
LEXICAL_VERSION: Final = f"bm25-lucene-int/1+k1={K1}+b={B}+bits={SCORE_BITS}"
_WORD: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\.?\w)|\w+(?:\.\w+)*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_JOINT: Final = re.compile(r"[._]+")
_LOGARITHM: Final = Context(prec=40)


def words(text: str) -> list[str]:
    """Return the words of `text` in order of appearance, repeats kept."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return [word for match in _WORD.finditer(folded) for word in _split(match.group())]


def _split(found: str) -> Iterable[str]:
    if _NUMBER.fullmatch(found):
        return [found]
    parts = [part for part in _JOINT.split(found) if part]
    if len(parts) <= 1:
        return parts
    return [found.strip("._"), *parts]


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """For each word the rows that hold it and its impact there.

    Attributes:
        terms: the words, sorted.
        starts: int64, shape (terms + 1,): where the postings of each word begin.
        rows: int32, shape (postings,): row numbers, ascending within a word.
        impacts: int32, shape (postings,): BM25 impacts in steps of 2^-20.
        size: number of documents.
    """

    terms: PackedTexts
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    impacts: NDArray[np.int32]
    size: int

    @classmethod
    def build(cls, texts: Sequence[str]) -> Self:
        """Index `texts`; the position of a text is its row."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = np.zeros(len(texts), dtype=np.int64)
        for row, text in enumerate(texts):
            counts = Counter(words(text))
            lengths[row] = counts.total()
            for term, times in counts.items():
                found[term].append((row, times))
        terms = sorted(found)
        starts = np.zeros(len(terms) + 1, dtype=np.int64)
        np.cumsum([len(found[term]) for term in terms], out=starts[1:])
        pairs = np.array([pair for term in terms for pair in found[term]], dtype=np.int64).reshape(-1, 2)
        impacts = _impacts(pairs, lengths, np.diff(starts))
        return cls(PackedTexts.pack(terms), starts, pairs[:, 0].astype(np.int32), impacts, len(texts))

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
            chosen: the rows that may be scored, or None for all of them.
        """
        allowed = np.ones(self.size, dtype=bool) if chosen is None else np.zeros(self.size, dtype=bool)
        if chosen is not None:
            allowed[chosen] = True
        sums = np.zeros(self.size, dtype=np.int64)
        for term, times in Counter(words(query)).items():
            at = self.terms.find(term)
            if at is None:
                continue
            rows = self.rows[self.starts[at] : self.starts[at + 1]]
            impacts = self.impacts[self.starts[at] : self.starts[at + 1]]
            seen = allowed[rows]
            sums[rows[seen]] += impacts[seen].astype(np.int64) * times
        matched = np.flatnonzero(sums).astype(np.int64)
        return matched, sums[matched]


def _impacts(pairs: NDArray[np.int64], lengths: NDArray[np.int64], frequencies: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the rounded impact of each (row, times) pair, given document lengths and the df of each word in order."""
    if pairs.size == 0:
        return np.zeros(0, dtype=np.int32)
    distinct, which = np.unique(frequencies, return_inverse=True)
    idf = np.array([_idf(lengths.size, int(df)) for df in distinct])[which]
    times = pairs[:, 1].astype(np.float64)
    average = float(lengths.sum()) / lengths.size
    saturation = times / (K1 * ((1.0 - B) + B * lengths[pairs[:, 0]] / average) + times)
    exact = np.repeat(idf, frequencies) * saturation * 2.0**SCORE_BITS
    return np.rint(exact).astype(np.int32)


def _idf(size: int, frequency: int) -> float:
    """Return ln(1 + (N - df + 1/2) / (df + 1/2)), which is ln((2 N + 2) / (2 df + 1)), correctly rounded."""
    ratio = _LOGARITHM.divide(Decimal(2 * size + 2), Decimal(2 * frequency + 1))
    return float(ratio.ln(_LOGARITHM))
