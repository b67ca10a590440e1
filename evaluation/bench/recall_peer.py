"""Searches a second beside what people use on the same Postgres: mem0, a memory service, and pgvector, which it asks.

The same rules, the same vectors, one question at a time. Ours is the whole search of a request: hard filters, three
exact lists, fusion. mem0 takes the memories of the question's task, by exact distance and by its keyword search, and
joins the two. pgvector gives one list: the rows of the task by exact distance, which is what it does without an
approximate index, and what a replay needs. Nobody computes a vector.

mem0 lives in an environment of its own, whose Python is given; without one pgvector is the only peer. That is an
extension of a database and no memory service: it does less than the services that are built on it, so it answers
sooner than they do. `peers` in the report says what was compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evaluation.bench.measuring import Alternative, Ratio, significant, take_turns
from evaluation.bench.recall_requests import Scene, SpreadEmbedder, asked_of
from evaluation.bench.server import Peer
from memory.recall.candidates import find
from memory.recall.document import document_text, query_text
from memory.recall.memory_index import MemoryIndex
from memory.recall.retriever import filter_question
from policies.hard_filters import hard_filter
from policies.retrieval_policy import retrieval_policy
from records.errors import InvalidInputError
from records.knowledge import MemoryRecord
from store.database import Connection, own_sql

_PGVECTOR: Final = "pgvector exact search (no memory service)"
_LIMIT: Final = 50
_ROUNDS: Final = 5
_ASKED: Final = 20
_READ_AT_ONCE: Final = 1000
_TOLD: Final = """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE told (id text, task text, text text, embedding vector(384))
"""
"""The rules as peers are told them."""
_PGVECTOR_ROWS: Final = """
    CREATE TABLE peer_rules (id text PRIMARY KEY, task text NOT NULL, embedding vector(384) NOT NULL);
    INSERT INTO peer_rules SELECT id, task, embedding FROM told;
    CREATE INDEX ON peer_rules (task)
"""
_MEM0_ROWS: Final = """
    INSERT INTO memories (id, vector, payload)
    SELECT gen_random_uuid(), embedding, jsonb_build_object(
        'user_id', task, 'data', text, 'hash', md5(text), 'created_at', now(), 'text_lemmatized', text
    ) FROM told
"""
"""What mem0 writes for memories that are added as they are, without a lemmatiser; the table is its own."""
_QUERY: Final = "SELECT id FROM peer_rules WHERE task = %s ORDER BY embedding <#> %s::vector LIMIT %s"
_PROGRAM: Final = Path(__file__).with_name("mem0_program.py")
_MEM0_REMEDY: Final = "Give the Python of an environment with mem0ai and psycopg[binary,pool]."


def measure_peer(scene: Scene, told: Callable[[int, int], None], mem0: Path | None) -> dict[str, Any]:
    """Take turns with the peers and return the figures.

    Raises:
        InvalidInputError: `mem0` is no Python that can open mem0.
    """
    with scene.bench.peer() as peer, running(mem0, peer.dsn) as service:
        return _compared(scene, peer, service, told)


class Mem0:
    """mem0 in a process of its own: a line in, a line out."""

    def __init__(self, python: Path, process: subprocess.Popen[str], dsn: str) -> None:
        """Have it open a database.

        Raises:
            InvalidInputError: it ends instead.
        """
        self._python, self._process = python, process
        opened = self.say({"dsn": dsn, "dimensions": 384, "top_k": _LIMIT})
        self.name = f"mem0 {opened['version']}, exact search over pgvector"

    def say(self, value: object) -> dict[str, Any]:
        """Say something and return the answer."""
        try:
            print(json.dumps(value), file=self._process.stdin, flush=True)
            answered = self._process.stdout.readline() if self._process.stdout else ""
        except BrokenPipeError:
            answered = ""
        if not answered:
            raise InvalidInputError("mem0 python", str(self._python), f"It ended; see what it printed. {_MEM0_REMEDY}")
        found: dict[str, Any] = json.loads(answered)
        return found


@contextmanager
def running(python: Path | None, dsn: str) -> Iterator[Mem0 | None]:
    """Give mem0 over a database, or None where no Python is given; it is ended afterwards."""
    if python is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="vrm-bench-") as folder:
        own = {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder, "HOME": folder}
        try:
            process = subprocess.Popen(  # noqa: S603  # the Python that the caller named
                [python, _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | own
            )
        except OSError as error:
            raise InvalidInputError("mem0 python", str(python), _MEM0_REMEDY) from error
        try:
            yield Mem0(python, process, dsn)
        finally:
            process.kill()
            process.communicate()


def _compared(scene: Scene, peer: Peer, service: Mem0 | None, told: Callable[[int, int], None]) -> dict[str, Any]:
    index = MemoryIndex.from_bytes(scene.composed.index)
    embedder = SpreadEmbedder(scene.model)
    _fill(scene, peer.connection, index, told, [_PGVECTOR_ROWS] if service is None else [_PGVECTOR_ROWS, _MEM0_ROWS])
    asked = [asked_of(number, scene.composed.recall_input_id, scene.tasks) for number in range(_ASKED)]
    vectors = [embedder.embed([query_text(request)], kind="query")[0] for _, request in asked]
    policy = retrieval_policy()

    def ours(at: int) -> None:
        intent, request = asked[at % _ASKED]
        filtered = hard_filter(index.columns, filter_question(intent, request, policy))
        find(index, filtered.rows, query_text(request), _LIMIT).gather(vectors[at % _ASKED], policy.fusion)

    def pgvector(at: int) -> None:
        _, request = asked[at % _ASKED]
        given = [request.scope.task_scope_id, _literal(vectors[at % _ASKED]), _LIMIT]
        peer.connection.execute(_QUERY, given).fetchall()

    rivals = {_PGVECTOR: pgvector}
    if service is not None:
        words = [{"text": query_text(each), "task": each.scope.task_scope_id} for _, each in asked]
        pairs = zip(words, vectors, strict=True)
        service.say([each | {"vector": vector.astype(float).tolist()} for each, vector in pairs])
        rivals[service.name] = lambda at: _require_found(service.say(at % _ASKED))
    acts = {"ours": ours, **rivals}
    found = take_turns([Alternative(name=name, act=act, repeats=_ASKED) for name, act in acts.items()], _ROUNDS, told)
    return _figures({name: timings.rates for name, timings in found.items()}, service)


def _require_found(answered: Mapping[str, Any]) -> None:
    if not answered["found"]:
        raise InvalidInputError("mem0", "no memories", "It found nothing, so nothing was measured; report this.")


def _figures(rates: Mapping[str, Sequence[float]], service: Mem0 | None) -> dict[str, Any]:
    """Return the figures; the best peer is the memory service, where one was measured."""
    ratios = {name: Ratio.of(rates["ours"], each) for name, each in rates.items() if name != "ours"}
    best = ratios[_PGVECTOR if service is None else service.name]
    return {
        "throughput_vs_best_peer": best.middle,
        "throughput_vs_best_peer_spread": [best.low, best.high],
        "throughput_vs_pgvector": ratios[_PGVECTOR].middle,
        "throughput_vs_pgvector_spread": [ratios[_PGVECTOR].low, ratios[_PGVECTOR].high],
        "peers": list(ratios),
        "searches_per_second": {name: significant(median(each)) for name, each in rates.items()},
    }


def _fill(
    scene: Scene, peer: Connection, index: MemoryIndex, told: Callable[[int, int], None], rows: Sequence[str]
) -> None:
    """Give the peers the same rules and vectors; `rows` are the statements by which each takes them."""
    embedder, size = SpreadEmbedder(scene.model), index.search.size
    peer.execute(own_sql(_TOLD))
    with peer.cursor() as cursor, cursor.copy("COPY told FROM STDIN") as copy:
        for start in range(0, size, _READ_AT_ONCE):
            ids = [index.search.ids[row] for row in range(start, min(start + _READ_AT_ONCE, size))]
            stored = scene.bench.ledger.get_many(ids)
            for each in ids:
                record = stored[each].load()
                if isinstance(record, MemoryRecord):
                    text = document_text(record)
                    copy.write_row((each, record.scope.task_scope_id, text, _literal(embedder.embed([text])[0])))
            told(start + len(ids), size)
    for statement in (*rows, "VACUUM ANALYZE"):
        peer.execute(own_sql(statement))


def _literal(vector: NDArray[np.float32]) -> str:
    return "[" + ",".join(map(repr, vector.astype(float).tolist())) + "]"
