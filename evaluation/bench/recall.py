"""The recall benchmark: whole requests, replays, search, builds, memory, and what others do; each part alone or all.

Parts, in the order in which they run:

    kernels     search and a proposal in one process, against plain libraries, on a small store
    search      the search of all rows against memory bandwidth
    build       how the time of a build grows
    memory      the most memory that building and searching takes, in a process of its own
    requests    requests from question to settled outcome through real actors, against their floor
    replay      the same recalls on another replica, with other threads, by a rebuilt index
    peer        searches a second beside another system on the same server

The last three share a store, whose filling is what takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from evaluation.bench.cluster import own_cluster
from evaluation.bench.measuring import machine
from evaluation.bench.recall_kernels import measure_kernels
from evaluation.bench.recall_peer import measure_peer
from evaluation.bench.recall_replay import measure_replay
from evaluation.bench.recall_requests import Scene, measure_requests
from evaluation.bench.recall_scale import measure_growth, measure_memory, measure_search
from evaluation.bench.server import throwaway, with_runtime
from records.errors import InvalidInputError

PARTS: Final = ("kernels", "search", "build", "memory", "requests", "replay", "peer")
SHARED: Final = frozenset({"requests", "replay", "peer"})
"""The parts that share a store."""
DEFAULT_RECORDS: Final = 2000
DEFAULT_REQUESTS: Final = 200
DEFAULT_RECALLS: Final = 1000
MEMORY_RECORDS: Final = 1_000_000
_LEAST: Final = 100
_KERNEL_RECORDS: Final = 2000

MEANING: Final = {
    "semantic_vs_float32_matmul": "best 50 by exact integer scores, by float32 matrix times vector and partition",
    "semantic_vs_memory_bandwidth": "the same search, by one sum over as many bytes as it reads",
    "lexical_vs_bm25s": "best 50 of the lexical index, by bm25s over the same words; both split the query",
    "propose_vs_semantic_scan": "a whole proposal, from checks to rendered cards, by one semantic scan",
    "ratios": "p50 by p50 within a round, median of rounds; lower is better",
    "search_vs_bandwidth": "best 50 of all rows, by the quicker of an integer sum and a float product of as many bytes",
    "build_growth_2x": "time to build an index of all rules by that of half as many; 2 is linear",
    "peak_rss_mb": "the most memory of a process that builds an index of memory_records rules, maps and searches it",
    "p95_vs_floor": "95th percentile of a request, from question to settled outcome, by the median floor: its text "
    "embedded alone and as many raw commits as a request makes (floor_commits); p50 and p99 likewise",
    "p95_vs_floor_of_two_commits": "the same by a floor with two raw commits, one for each durable append",
    "p95_vs_floor_by_kind": "many_rows: filters let three fifths of all rules through; few_rows: as many as contrasts",
    "shares": "of a request's time: recall with its embedding, context, and outcome with the planner",
    "replay_identical": "share of recalls that came back byte for byte from every repetition; 1 is wanted",
    "throughput_vs_best_peer": "searches a second (filters, three lists, fusion) by those of the memory service in "
    "`peers`, or of pgvector where none was given; higher is better",
}

Progress = Callable[[str, int, int], None]


def bench_recall(
    records: int,
    told: Progress = lambda _what, _done, _total: None,
    *,
    parts: Sequence[str] = PARTS,
    requests: int = DEFAULT_REQUESTS,
    recalls: int = DEFAULT_RECALLS,
    memory_records: int = MEMORY_RECORDS,
    real_model: bool = True,
    mem0: Path | None = None,
) -> dict[str, Any]:
    """Measure and return the report as JSON values.

    Args:
        records: rules in the store and in the index.
        told: what is done, how far, of how much.
        parts: what to measure.
        requests: requests that are timed.
        recalls: recalls that are repeated.
        memory_records: rules of the index whose memory is measured.
        real_model: whether to use the real model; without it there are no requests, replays and peer.
        mem0: the Python of an environment that holds mem0, to measure it beside us.

    Raises:
        InvalidInputError: fewer than a hundred records, or a part that is none.
        IntegrityError: a request got no cards or was refused, so nothing was measured.
        UnavailableError: no server or cluster can be started here, or the model is not installed.
    """
    parts = _checked(records, parts, real_model=real_model)
    found: dict[str, Any] = {"benchmark": "recall", "records": records, "parts": parts}
    alone: dict[str, Callable[[], dict[str, Any]]] = {
        "kernels": lambda: measure_kernels(min(records, _KERNEL_RECORDS), told, real_model=real_model),
        "search": lambda: measure_search(records, told),
        "build": lambda: measure_growth(records, told),
        "memory": lambda: measure_memory(memory_records),
    }
    for part, measure in alone.items():
        if part in parts:
            found |= measure()
    if SHARED & set(parts):
        found |= _on_a_store(records, parts, told, requests, recalls, mem0)
    return found | {"machine": machine(), "meaning": MEANING}


def _checked(records: int, parts: Sequence[str], *, real_model: bool) -> list[str]:
    """Return the parts that can be measured, in order."""
    if records < _LEAST:
        raise InvalidInputError("records", records, f"Give at least {_LEAST}.")
    unknown = sorted(set(parts) - set(PARTS))
    if unknown or not parts:
        raise InvalidInputError("parts", ", ".join(unknown), f"Give some of {', '.join(PARTS)}.")
    return [each for each in PARTS if each in parts and (real_model or each not in SHARED)]


def _on_a_store(  # noqa: PLR0917  # as `bench_recall`
    records: int, parts: Sequence[str], told: Progress, requests: int, recalls: int, mem0: Path | None
) -> dict[str, Any]:
    """Measure the parts that share a store."""
    with own_cluster(), throwaway() as bench, with_runtime(bench) as runtime:
        scene = Scene(bench, runtime, records, told)
        found: dict[str, Any] = {"compose_seconds": scene.index_seconds, "settings": bench.settings()}
        if "requests" in parts:
            found |= measure_requests(scene, requests, lambda done, total: told("requests", done, total))
        if "replay" in parts:
            found |= measure_replay(scene, recalls, lambda done, total: told("replays", done, total))
        if "peer" in parts:
            found |= measure_peer(scene, lambda done, total: told("peer", done, total), mem0)
    return found
