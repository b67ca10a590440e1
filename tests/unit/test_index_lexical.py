"""Words and BM25: by hand, and against the library bm25s."""

from __future__ import annotations

import math
import random
import unicodedata

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.index.lexical import _WORD, WORDS_VERSION, Postings, PostingsBuilder, _split, terms, words
from memory.index.ranking import SCORE_UNIT

_VOCABULARY = ["scaler", "class_weight", "rbf", "kernel", "margin", "seed", "tabular", "0.5", "auc", "svm", "root", "c"]
_DOCUMENT = st.lists(st.sampled_from(_VOCABULARY), max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Raise class_weight.", ["raise", "class_weight", "class", "weight"]),
        (
            "sklearn.svm.SVC(C=1e-05)",
            ["sklearn.svm.svc", "sklearn", "svm", "svc", "c", "1e-05"],
        ),
        ("by 0.75.", ["by", "0.75"]),
        ("release 3.11.2 of v2", ["release", "3.11.2", "3", "11", "2", "of", "v2"]),
        ("__init__ _x _", ["init", "x"]),
        ("ﬁt ＡＵＣ Übung", ["fit", "auc", "übung"]),  # noqa: RUF001  # compatibility forms fold
        ("l1-ratio", ["l1", "ratio"]),
        ("", []),
        ("... !?", []),
        ("\ud800 lone", ["lone"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("improves improved improving", ["improv", "improv", "improv"]),  # of the published vocabulary of the stemmer
        ("consistency consistent", ["consist", "consist"]),
        ("clf.class_weight 0.75 l1", ["clf.class_weight", "clf", "class", "weight", "0.75", "l1"]),
        ("", []),
    ],
)
def test_terms_are_stems_of_what_is_of_letters_alone(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_an_index_of_words_as_they_are_is_searched_by_them() -> None:
    """What an earlier release built answers as it did: inflected words do not meet there."""
    builder = PostingsBuilder(WORDS_VERSION)
    for text in ("it improves", "improved"):
        builder.add(text)
    earlier, now = builder.finish(), Postings.build(["it improves", "improved"])
    assert earlier.scores("improved", None)[0].tolist() == [1]
    assert now.scores("improved", None)[0].tolist() == [0, 1]


def test_bm25_by_hand() -> None:
    # N = 3, average length 2; "cat" is in two documents: idf = ln(1 + 1.5 / 2.5) = ln 1.6.
    # Document 0 (length 2): 1 / (1.5 * 1 + 1) = 0.4. Document 1 (length 3): 2 / (1.5 * (0.25 + 0.75 * 1.5) + 2).
    postings = Postings.build(["cat dog", "cat cat bird", "fish"])
    rows, sums = postings.scores("cat", None)
    expected = [math.log(1.6) * 0.4, math.log(1.6) * 2 / (1.5 * 1.375 + 2)]
    assert rows.tolist() == [0, 1]
    assert sums.tolist() == [round(value * 2**20) for value in expected]


@given(st.lists(_DOCUMENT, min_size=1, max_size=12), st.lists(st.sampled_from(_VOCABULARY), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_bm25_equals_bm25s(texts: list[str], query: list[str]) -> None:
    tokens = [terms(text) for text in texts]
    asked = terms(" ".join(query))
    known = [word for word in asked if any(word in document for document in tokens)]
    found = np.zeros(len(texts))
    rows, sums = Postings.build(texts).scores(" ".join(query), None)
    found[rows] = sums * SCORE_UNIT
    if not known:
        assert not found.any()
        return
    library = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    library.index(tokens, show_progress=False)
    # Each of the summed impacts is rounded to half a step.
    assert np.allclose(found, library.get_scores(known), rtol=0, atol=(len(known) + 1) * SCORE_UNIT / 2)


def test_ranking_equals_bm25s_on_a_larger_corpus() -> None:
    chance = random.Random(11)  # noqa: S311  # a reproducible corpus
    vocabulary = [f"w{rank}" for rank in range(400)]
    weights = [1 / (rank + 1) for rank in range(400)]
    tokens = [chance.choices(vocabulary, weights, k=chance.randint(5, 40)) for _ in range(800)]
    postings = Postings.build([" ".join(document) for document in tokens])
    library = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
    library.index(tokens, show_progress=False)
    for _ in range(20):
        query = chance.sample(vocabulary[:200], 5)
        expected = library.get_scores(query)
        rows, sums = postings.scores(" ".join(query), None)
        assert set(rows.tolist()) == set(np.flatnonzero(expected).tolist())
        assert np.allclose(sums * SCORE_UNIT, expected[rows], rtol=0, atol=6 * SCORE_UNIT)


@given(st.lists(_DOCUMENT, min_size=1, max_size=12), st.sets(st.integers(0, 11)), st.sampled_from(_VOCABULARY))
@settings(max_examples=100, deadline=None)
def test_chosen_rows_have_the_scores_they_have_among_all(texts: list[str], chosen: set[int], query: str) -> None:
    postings = Postings.build(texts)
    kept = np.array(sorted(row for row in chosen if row < len(texts)), dtype=np.int64)
    rows, sums = postings.scores(query, None)
    everything = dict(zip(rows.tolist(), sums.tolist(), strict=True))
    rows, sums = postings.scores(query, kept)
    assert dict(zip(rows.tolist(), sums.tolist(), strict=True)) == {
        row: score for row, score in everything.items() if row in kept
    }


def test_order_of_query_words_and_threads_of_sums_do_not_matter() -> None:
    chance = random.Random(2)  # noqa: S311  # a reproducible corpus
    texts = [" ".join(chance.choices(_VOCABULARY, k=9)) for _ in range(60)]
    postings = Postings.build(texts)
    query = _VOCABULARY.copy()
    reference = postings.scores(" ".join(query), None)[1].tolist()
    for _ in range(10):
        chance.shuffle(query)
        assert postings.scores(" ".join(query), None)[1].tolist() == reference


@given(
    st.lists(_DOCUMENT, min_size=1, max_size=40),
    st.lists(st.sampled_from(_VOCABULARY), min_size=1, max_size=8),
    st.sets(st.integers(0, 39)),
    st.integers(1, 6),
)
@settings(max_examples=200, deadline=None)
def test_the_leading_rows_are_those_of_adding_up_everything(
    texts: list[str], query: list[str], chosen: set[int], limit: int
) -> None:
    """What the bounds leave out is never one of the best, and every tie at the border is still there."""
    postings, asked = Postings.build(texts), " ".join(query)
    kept = np.array(sorted(row for row in chosen if row < len(texts)), dtype=np.int64)
    for among in (None, kept):
        whole, part = (
            list(zip(*(each.tolist() for each in found), strict=True))
            for found in (postings.scores(asked, among), postings.leading(asked, among, limit))
        )
        assert set(part) <= set(whole)
        border = sorted((score for _, score in whole), reverse=True)[:limit][-1:]
        assert {pair for pair in whole if [pair[1]] >= border} <= set(part)


def test_the_leading_rows_of_a_corpus_with_common_and_rare_words() -> None:
    """Large enough for rows to be looked up one by one, and for the bounds to cut in."""
    chance = random.Random(5)  # noqa: S311  # a reproducible corpus
    vocabulary = [f"w{rank}" for rank in range(300)]
    weights = [1 / (rank + 1) for rank in range(300)]
    texts = [" ".join(["every", *chance.choices(vocabulary, weights, k=12)]) for _ in range(3000)]
    postings = Postings.build(texts)
    for number in range(40):
        query = " ".join(["every", *chance.sample(vocabulary, 6)])
        among = None if number % 2 else np.array(sorted(chance.sample(range(3000), 80)), dtype=np.int64)
        rows, sums = postings.scores(query, among)
        best = sorted(zip((-sums).tolist(), rows.tolist(), strict=True))[:10]
        rows, sums = postings.leading(query, among, 10)
        assert sorted(zip((-sums).tolist(), rows.tolist(), strict=True))[:10] == best
        assert among is not None or rows.size < 3000


@given(st.lists(st.text("aBß.Σς1_é\u0301 ﬁ", max_size=8), max_size=5))
@settings(max_examples=200, deadline=None)
def test_words_of_a_text_are_those_of_its_lines(lines: list[str]) -> None:
    assert words("\n".join(lines)) == [word for line in lines for word in words(line)]
    text = "\n".join(lines)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    assert words(text) == [word for found in _WORD.finditer(folded) for word in _split(found.group())]


def test_texts_without_words_are_legal() -> None:
    postings = Postings.build(["", "!!!"])
    assert postings.scores("anything", None)[0].tolist() == []
    assert postings.flaw() is None
