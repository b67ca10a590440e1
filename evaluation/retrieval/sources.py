"""One graded set through the product's own index, and through implementations that share no code with it.

Rules kept here:

- ours: the index that a Knowledge Snapshot would get (`memory.index`), its lexical list, its semantic list, and what
  `memory.recall.candidates` makes of them; every list as long as the policy says;
- beside it: `bm25s` over the same words for the lexical list, a float32 matrix of the very vectors for the semantic
  one. What differs is then the arithmetic alone: integers here, floats there. A third one finds its own words: those of
  `bm25s`, without English stop words, by Porter's stems (Porter 1980), so that nothing of ours is in it;
- figures are nDCG@10, macro over queries, apart for the half that develops and the half that reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import bm25s
import numpy as np
import Stemmer

from evaluation.retrieval.graded import DEVELOPMENT, REPORT, GradedSet, half_of
from evaluation.retrieval.measures import mean_of, ndcg
from memory.index.artifact import IndexDocument, LoadedIndex, build_index
from memory.index.embedding import Embedder
from memory.index.lexical import K1, B, terms
from memory.recall.candidates import Scored, join, scored
from policies.retrieval_policy import Fusion

DEPTH: Final = 10
LONG: Final = 50
"""Hits of one list, as many as every profile of the policy asks for."""
OURS: Final = ("lexical", "semantic", "fused")
BESIDE: Final = {"bm25s": "lexical", "bm25s_own_words": "lexical", "float32_cosine": "semantic"}
"""What stands beside which of ours."""
NEAR: Final = 0.01
"""How far a figure may lie from a published one and from an independent one."""
Ranked = Mapping[str, Sequence[str]]
Lists = Mapping[str, Mapping[str, Scored]]
"""Both lists of each query, by query id and source."""


@dataclass(frozen=True)
class Searched:
    """What every source found, by source and query id."""

    graded: GradedSet
    found: Mapping[str, Ranked]

    def scores(self, source: str, half: str | None = None) -> list[float]:
        """Return nDCG@10 of every query of a half, or of all."""
        return [
            ndcg(found, self.graded.grades[query], DEPTH)
            for query, found in self.found[source].items()
            if half in (None, half_of(query))
        ]


def lists_of(graded: GradedSet, embedder: Embedder) -> Lists:
    """Return the two lists of the product's own index for each query."""
    index = LoadedIndex.from_bytes(
        build_index((IndexDocument(each, text) for each, text in graded.documents.items()), embedder).data
    )
    vectors = embedder.embed(list(graded.queries.values()), kind="query")
    return {
        query: {
            "lexical": scored(index.lexical(text, limit=LONG)),
            "semantic": scored(index.semantic(vectors[place], limit=LONG)),
        }
        for place, (query, text) in enumerate(graded.queries.items())
    }


def search_graded(graded: GradedSet, embedder: Embedder, fusion: Fusion | None) -> Searched:
    """Search a graded set by every source; the lists are fused by shares, or by reciprocal rank without weights."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in OURS}
    for query, lists in lists_of(graded, embedder).items():
        for name, hits in lists.items():
            found[name][query] = [each for each, _ in hits]
        found["fused"][query] = [hit.id for hit in join(lists, fusion)]
    return Searched(graded, found | _beside_ours(graded, embedder))


def _beside_ours(graded: GradedSet, embedder: Embedder) -> dict[str, dict[str, list[str]]]:
    """Return what bm25s, over our words and over its own, and a float32 matrix find, for each query."""
    ids, texts = sorted(graded.documents), list(graded.queries.values())
    documents = [graded.documents[each] for each in ids]
    matrix, vectors = embedder.embed(documents), embedder.embed(texts, kind="query")
    found = {
        "bm25s": _by_bm25s(ids, list(map(terms, documents)), list(map(terms, texts))),
        "bm25s_own_words": _by_bm25s(ids, _own_words(documents), _own_words(texts)),
        "float32_cosine": [_best(ids, matrix @ vector) for vector in vectors],
    }
    return {name: dict(zip(graded.queries, lists, strict=True)) for name, lists in found.items()}


def _by_bm25s(ids: Sequence[str], documents: list[list[str]], queries: list[list[str]]) -> list[list[str]]:
    library = bm25s.BM25(k1=K1, b=B, method="lucene")
    library.index(documents, show_progress=False)
    return [_best(ids, library.get_scores(query), above=0.0) for query in queries]


def _own_words(texts: list[str]) -> list[list[str]]:
    stemmer = Stemmer.Stemmer("porter")
    found: list[list[str]] = bm25s.tokenize(
        texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )
    return found


def report_graded(searched: Searched, published: Mapping[str, float]) -> dict[str, Any]:
    """Return the figures of one set as JSON values; `published` are values of others, by source."""
    graded = searched.graded
    figures: dict[str, Any] = {name: _figure(searched, name) for name in (*OURS, *BESIDE)}
    best = max(("lexical", "semantic"), key=lambda name: figures[name]["development"]["value"])
    return {
        "set": graded.name,
        "documents": len(graded.documents),
        "queries": len(graded.queries),
        "depth": DEPTH,
        **figures,
        "best_single_source": best,
        "fused_minus_best": _difference(searched, "fused", best),
        "fused_minus_lexical": _difference(searched, "fused", "lexical"),
        "published": {name: _beside(figures[name]["value"], value) for name, value in published.items()},
        "independent": {
            other: _beside(figures[ours]["value"], figures[other]["value"]) for other, ours in BESIDE.items()
        },
    }


def _figure(searched: Searched, source: str) -> dict[str, Any]:
    halves = {half: mean_of(searched.scores(source, half)) for half in (DEVELOPMENT, REPORT)}
    return mean_of(searched.scores(source)) | halves


def _difference(searched: Searched, one: str, other: str) -> dict[str, Any]:
    """Return the mean difference over queries with its interval, by half and in all."""
    parts: dict[str, Any] = {}
    for name, half in (("all", None), (DEVELOPMENT, DEVELOPMENT), (REPORT, REPORT)):
        pairs = zip(searched.scores(one, half), searched.scores(other, half), strict=True)
        parts[name] = mean_of([first - second for first, second in pairs])
    return parts


def _beside(ours: float, other: float) -> dict[str, Any]:
    return {"value": ours, "beside": other, "difference": round(ours - other, 6), "passed": abs(ours - other) <= NEAR}


def _best(ids: Sequence[str], scores: Any, above: float | None = None) -> list[str]:
    order = np.lexsort((np.arange(len(ids)), -np.asarray(scores)))[:LONG]
    return [ids[int(at)] for at in order if above is None or scores[at] > above]
