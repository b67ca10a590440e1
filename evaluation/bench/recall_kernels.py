"""Search, lexical search and a proposal in one process, by plain libraries: the parts of a recall on a small store.

Vectors are by feature hashing, which have no meaning and are named so: how long a scan takes does not depend on what
the numbers say. What the real model costs is measured on a few texts, where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

import bm25s
import numpy as np
from numpy.typing import NDArray

from evaluation.bench.corpus import CATALOG, METRIC, NOW, task
from evaluation.bench.decision import Preparation, Prepared
from evaluation.bench.measuring import (
    Alternative,
    Ratio,
    Timings,
    middles,
    significant,
    spread,
    take_turns,
    timed,
)
from evaluation.bench.server import Bench, throwaway
from memory.index.embedding import NON_SEMANTIC, HashEmbedder, SentenceTransformerEmbedder
from memory.index.lexical import K1, B, terms
from memory.recall.context import Recall
from memory.recall.document import document_text
from memory.recall.loaded import LoadedInput
from memory.recall.memory_index import MemoryIndex
from memory.recall.retriever import DecisionPointRetriever
from memory.tokens import Tokenizer
from policies.retrieval_policy import retrieval_policy
from records.errors import IntegrityError, UnavailableError
from records.knowledge import MemoryRecord

LIMIT: Final = 50
ROUNDS: Final = 5
_SEARCHES: Final = 40
_PROPOSALS: Final = 6
_EMBEDDED: Final = 64
_QUERIES: Final = 20
_NO_MODEL: Final = {"real_model": None, "real_model_seconds_per_1000_texts": None, "query_embedding_ms": None}

Progress = Callable[[str, int, int], None]

RATIOS: Final = (
    "semantic_vs_float32_matmul", "semantic_vs_memory_bandwidth", "lexical_vs_bm25s", "propose_vs_semantic_scan",
)  # fmt: skip


def measure_kernels(records: int, told: Progress, *, real_model: bool) -> dict[str, Any]:
    """Measure on a server of its own and return the figures.

    Args:
        records: rules in the store.
        told: what is done, how far, of how much.
        real_model: whether to load and time the real model, if it is installed.

    Raises:
        IntegrityError: the decision got no context, so nothing was measured.
        UnavailableError: no server can be started here.
    """
    with throwaway() as bench:
        run, build = _prepared_run(bench, records, told)
        timings = take_turns(run.alternatives(), ROUNDS, lambda done, total: told("rounds of searches", done, total))
        ratios = _ratios(timings)
        return {
            **middles(ratios),
            "spread": spread(ratios),
            **(_real_model(run.texts[:_EMBEDDED], told) if real_model else _NO_MODEL),
            "index": NON_SEMANTIC,
            "index_seconds_per_1000": {NON_SEMANTIC: significant(build / records * 1000)},
            "kernel_records": records,
            "limit": LIMIT,
            "rounds": ROUNDS,
            "absolute": {name: found.summary() for name, found in timings.items()},
            "settings": bench.settings(),
        }


def _prepared_run(bench: Bench, records: int, told: Progress) -> tuple[_Run, float]:
    """Fill the store and return what is measured, with the seconds from snapshot to usable index."""
    preparation = Preparation(bench)
    preparation.fill(records, lambda done, total: told("rules", done, total))
    embedder = HashEmbedder()
    begun = time.perf_counter()
    prepared = preparation.decide(embedder)
    build = time.perf_counter() - begun
    return _Run(bench, prepared, embedder), build


class _Run:
    def __init__(self, bench: Bench, prepared: Prepared, embedder: HashEmbedder) -> None:
        self._prepared = prepared
        self._index = MemoryIndex.from_bytes(prepared.index).search
        self._retriever = DecisionPointRetriever(
            bench.ledger, bench.artifacts, embedder, Tokenizer(), retrieval_policy(), test_index=True
        )
        loaded = self._retriever.load(prepared.recall_input_id)
        if not isinstance(loaded, LoadedInput):
            raise IntegrityError("benchmark store", "unusable recall input", "The figures would be worth nothing.")
        self._loaded = loaded
        self.texts = _texts(bench, self._index.ids)
        self._matrix = embedder.embed(self.texts)
        self._queries = [_query(number) for number in range(_QUERIES)]
        self._vectors = embedder.embed(self._queries, kind="query")
        self._bytes = np.ones(self._index.size * embedder.dimensions // 8, dtype=np.uint64)
        self._library = bm25s.BM25(k1=K1, b=B, method="lucene")
        self._library.index([terms(text) for text in self.texts], show_progress=False)

    def alternatives(self) -> list[Alternative]:
        limit = min(LIMIT, self._index.size)
        return [
            Alternative(name="semantic", act=self._semantic, repeats=_SEARCHES),
            Alternative(name="float32_matmul", act=self._matmul, repeats=_SEARCHES),
            Alternative(name="memory_bandwidth", act=lambda _at: self._bytes.sum(), repeats=_SEARCHES),
            Alternative(name="lexical", act=self._lexical, repeats=_SEARCHES),
            Alternative(name="bm25s", act=lambda at: self._bm25s(at, limit), repeats=_SEARCHES),
            Alternative(name="propose", act=self._propose, repeats=_PROPOSALS),
        ]

    def _semantic(self, number: int) -> None:
        self._index.semantic(self._vectors[number % _QUERIES], limit=LIMIT)

    def _matmul(self, number: int) -> NDArray[np.intp]:
        found = self._matrix @ self._vectors[number % _QUERIES]
        kept = np.argpartition(-found, LIMIT)[:LIMIT]
        return kept[np.argsort(-found[kept])]

    def _lexical(self, number: int) -> None:
        self._index.lexical(self._queries[number % _QUERIES], limit=LIMIT)

    def _bm25s(self, number: int, limit: int) -> None:
        query = [terms(self._queries[number % _QUERIES])]
        self._library.retrieve(query, k=limit, show_progress=False)

    def _propose(self, _number: int) -> None:
        answer = self._retriever.propose(self._prepared.intent, self._prepared.request, self._loaded, now=NOW)
        if not isinstance(answer, Recall) or not answer.context.items:
            raise IntegrityError("benchmark request", type(answer).__name__, "It got no cards; report this.")


def _ratios(timings: dict[str, Timings]) -> dict[str, Ratio | None]:
    pairs = {
        "semantic_vs_float32_matmul": ("semantic", "float32_matmul"),
        "semantic_vs_memory_bandwidth": ("semantic", "memory_bandwidth"),
        "lexical_vs_bm25s": ("lexical", "bm25s"),
        "propose_vs_semantic_scan": ("propose", "semantic"),
    }
    return {name: Ratio.of(timings[one].middles, timings[other].middles) for name, (one, other) in pairs.items()}


def _texts(bench: Bench, ids: Sequence[str]) -> list[str]:
    stored = bench.ledger.get_many(ids)
    records = (stored[each].load() for each in ids)
    return [document_text(record) for record in records if isinstance(record, MemoryRecord)]


def _query(number: int) -> str:
    """Return the words of a decision about one knob on one kind of task."""
    knob = sorted(CATALOG.knobs)[number % len(CATALOG.knobs)]
    return f"what raises {METRIC.name} on a task with {task(number).scope_description}; is {knob} worth a change"


def _real_model(texts: list[str], told: Progress) -> dict[str, Any]:
    """Return what the real model costs on a few texts; None where it is not installed."""
    embedder = SentenceTransformerEmbedder()
    told("real model", 0, 2)
    try:
        embedder.embed(texts[:1])  # loads it
    except UnavailableError:
        return _NO_MODEL
    told("real model", 1, 2)
    passages, _ = timed(embedder.embed, texts)
    queries = [timed(lambda text: embedder.embed([text], kind="query"), _query(at))[0] for at in range(_QUERIES)]
    told("real model", 2, 2)
    return {
        "real_model": embedder.id.partition("@")[0],
        "real_model_seconds_per_1000_texts": significant(passages / len(texts) * 1000),
        "query_embedding_ms": significant(median(queries) * 1e3),
    }
