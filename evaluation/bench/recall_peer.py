"""Answers a second beside what people use on the same Postgres: pgvector, which the embedded server carries.

The same rules, the same vectors, one question at a time over one connection. Ours is the whole search of a request:
hard filters, three exact lists, fusion. Theirs is one list: the rows of the question's task by exact distance, which is
what pgvector does without an approximate index, and what a replay needs. Neither computes a vector.

pgvector is an extension of a database and no memory service: it does less than the services that are built on it, so it
answers sooner than they do. `peer` in the report names what was compared.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evaluation.bench.measuring import Alternative, Ratio, significant, take_turns
from evaluation.bench.recall_requests import Scene, SpreadEmbedder, asked_of
from memory.recall.candidates import find
from memory.recall.document import document_text, query_text
from memory.recall.memory_index import MemoryIndex
from memory.recall.retriever import filter_question
from policies.hard_filters import hard_filter
from policies.retrieval_policy import retrieval_policy
from records.knowledge import MemoryRecord
from store.database import Connection

PEER: Final = "pgvector exact search (no memory service)"
_LIMIT: Final = 50
_ROUNDS: Final = 5
_ASKED: Final = 20
_READ_AT_ONCE: Final = 1000
_TABLE: Final = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TABLE peer_rules (id text PRIMARY KEY, task text NOT NULL, embedding vector(384) NOT NULL)",
)
_INDEX: Final = ("CREATE INDEX ON peer_rules (task)", "VACUUM ANALYZE peer_rules")
_QUERY: Final = "SELECT id FROM peer_rules WHERE task = %s ORDER BY embedding <#> %s::vector LIMIT %s"


def measure_peer(scene: Scene, told: Callable[[int, int], None]) -> dict[str, Any]:
    """Take turns with the peer and return the figures."""
    with scene.bench.peer() as peer:
        return _compared(scene, peer, told)


def _compared(scene: Scene, peer: Connection, told: Callable[[int, int], None]) -> dict[str, Any]:
    index = MemoryIndex.from_bytes(scene.composed.index)
    embedder = SpreadEmbedder(scene.model)
    _fill(scene, peer, index, told)
    asked = [asked_of(number, scene.composed.recall_input_id, scene.tasks) for number in range(_ASKED)]
    vectors = [embedder.embed([query_text(request)], kind="query")[0] for _, request in asked]

    policy = retrieval_policy()

    def ours(at: int) -> None:
        intent, request = asked[at % _ASKED]
        filtered = hard_filter(index.columns, filter_question(intent, request, policy))
        find(index, filtered.rows, query_text(request), _LIMIT).gather(vectors[at % _ASKED], policy.fusion)

    def theirs(at: int) -> None:
        _, request = asked[at % _ASKED]
        given = [request.scope.task_scope_id, _literal(vectors[at % _ASKED]), _LIMIT]
        peer.execute(_QUERY, given).fetchall()

    alternatives = [
        Alternative(name="ours", act=ours, repeats=_ASKED),
        Alternative(name="peer", act=theirs, repeats=_ASKED),
    ]
    found = take_turns(alternatives, _ROUNDS, told)
    rates = {name: median(timings.rates) for name, timings in found.items()}
    ratio = Ratio.of(found["ours"].rates, found["peer"].rates)
    return {
        "throughput_vs_best_peer": ratio.middle,
        "throughput_vs_best_peer_spread": [ratio.low, ratio.high],
        "peer": PEER,
        "searches_per_second": {name: significant(rate) for name, rate in rates.items()},
    }


def _fill(scene: Scene, peer: Connection, index: MemoryIndex, told: Callable[[int, int], None]) -> None:
    """Give the peer the same rules and vectors."""
    embedder, size = SpreadEmbedder(scene.model), index.search.size
    for statement in _TABLE:
        peer.execute(statement)
    with peer.cursor() as cursor, cursor.copy("COPY peer_rules (id, task, embedding) FROM STDIN") as rows:
        for start in range(0, size, _READ_AT_ONCE):
            ids = [index.search.ids[row] for row in range(start, min(start + _READ_AT_ONCE, size))]
            stored = scene.bench.ledger.get_many(ids)
            for each in ids:
                record = stored[each].load()
                if isinstance(record, MemoryRecord):
                    vector = embedder.embed([document_text(record)])[0]
                    rows.write_row((each, record.scope.task_scope_id, _literal(vector)))
            told(start + len(ids), size)
    for statement in _INDEX:
        peer.execute(statement)


def _literal(vector: NDArray[np.float32]) -> str:
    return "[" + ",".join(map(repr, vector.astype(float).tolist())) + "]"
