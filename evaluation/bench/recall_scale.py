"""Index and search by themselves, as they grow: against memory bandwidth, against half the size, and in memory.

Rules come from one template a contrast, vectors from a generator: what is measured is building and searching, not the
making of records. As a program, this module builds an index of as many rules as it is told, maps it, searches it, and
prints the most memory that its process ever held; so nothing else is in that figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from numpy.typing import NDArray

from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG
from evaluation.bench.measuring import Alternative, Ratio, significant, take_turns
from memory.index.artifact import IndexDocument
from memory.index.embedding import NON_SEMANTIC, TextKind
from memory.index.vectors import THREADS
from memory.recall.document import document_text
from memory.recall.memory_index import MEMORY_INDEX, MemoryIndex, MemoryIndexBuilder, memory_row
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.ids import EvidenceSnapshotId, KnowledgeSnapshotId
from records.knowledge import MemoryRecord
from records.values import Disposition

LIMIT: Final = 50
_ROUNDS: Final = 5
_SEARCHES: Final = 20
_DIMENSIONS: Final = 384
_PART: Final = 10_000
_ROOT: Final = Path(__file__).resolve().parents[2]
_SNAPSHOT: Final = KnowledgeSnapshotId.derive({"bench": "scale"})

Told = Callable[[str, int, int], None]


class GeneratedVectors:
    """Unit vectors from a generator, whatever the text; an embedder without meaning."""

    id = f"{NON_SEMANTIC}:generated-{_DIMENSIONS}/1"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        """Begin at the first vector."""
        self._chance = np.random.default_rng(7)

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:  # noqa: ARG002  # the protocol's
        """Return the next vectors, one a text."""
        rows = self._chance.standard_normal((len(texts), _DIMENSIONS), dtype=np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def measure_search(rows: int, told: Told) -> dict[str, Any]:
    """Compare the search of all rows with reading as many bytes, and return the figures."""
    index = MemoryIndex.from_bytes(_built(rows, told)[1]).search
    queries, everything = GeneratedVectors().embed(["query"] * _SEARCHES), np.arange(index.size)
    read = np.ones(rows * _DIMENSIONS // 8, dtype=np.uint64)  # touched: pages that nobody wrote are one page
    floats = np.ones(rows * _DIMENSIONS // 4, dtype=np.float32)
    found = take_turns(
        [
            Alternative(
                name="search",
                act=lambda at: index.semantic(queries[at % _SEARCHES], everything, limit=LIMIT),
                repeats=_SEARCHES,
            ),
            Alternative(name="integer_sum", act=lambda _at: read.sum(), repeats=_SEARCHES),
            Alternative(name="float_product", act=lambda _at: floats @ floats, repeats=_SEARCHES),
        ],
        _ROUNDS,
        lambda done, total: told("rounds of searches", done, total),
    )
    quickest = [min(pair) for pair in zip(found["integer_sum"].middles, found["float_product"].middles, strict=True)]
    ratio = Ratio.of(found["search"].middles, quickest)
    return {
        "search_vs_bandwidth": ratio.middle,
        "search_vs_bandwidth_spread": [ratio.low, ratio.high],
        "search_ms": significant(found["search"].milliseconds(50)),
        "search_rows": rows,
        "search_threads": THREADS,
        "read_gb_per_s": significant(rows * _DIMENSIONS / float(np.median(quickest)) / 1e9),
    }


def measure_growth(rows: int, told: Told) -> dict[str, Any]:
    """Build an index of half as many rules and of all, and return how the time grows."""
    half, whole = _built(rows // 2, told)[0], _built(rows, told)[0]
    return {
        "build_growth_2x": significant(whole / half),
        "build_seconds": {str(rows // 2): significant(half), str(rows): significant(whole)},
    }


def measure_memory(rows: int) -> dict[str, Any]:
    """Build, map and search an index in a process of its own, and return what it held at most."""
    done = subprocess.run(  # noqa: S603  # this very module
        [sys.executable, "-m", "evaluation.bench.recall_scale", str(rows)],
        cwd=_ROOT,
        env=os.environ.copy(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise IntegrityError("benchmark process", done.stderr[-500:], "The figures would be worth nothing.")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rules(count: int) -> Iterator[MemoryRecord]:
    """Yield rules in the order of their ids, each with a mechanism and words of its own, a part of them at a time."""
    snapshot = EvidenceSnapshotId.derive({"bench": "scale"})
    templates = [corpus.rule(number, snapshot)[1] for number in range(len(CATALOG.contrasts))]
    made = [_Made(number, templates) for number in range(count)]
    made.sort(key=lambda each: each.id)
    yield from (each.record() for each in made)


class _Made:
    """A rule by its number, with the beginning of its id in place of the whole record."""

    __slots__ = ("_number", "_templates", "id")

    def __init__(self, number: int, templates: Sequence[MemoryRecord]) -> None:
        self._number, self._templates = number, templates
        self.id = bytes.fromhex(self.record().id.partition(":")[2])[:16]

    def record(self) -> MemoryRecord:
        case, template = self._number // len(self._templates), self._templates[self._number % len(self._templates)]
        return template.model_copy(
            update={
                "mechanism": f"{template.mechanism}_{case}",
                "claim": f"{template.claim} Seen in {corpus.case_words(case)}.",
            }
        )


def _built(count: int, told: Told) -> tuple[float, bytes]:
    """Build an index; return the seconds that the product took, and the bytes."""
    builder, spent = MemoryIndexBuilder(MEMORY_INDEX, GeneratedVectors()), 0.0
    for number, record in enumerate(rules(count), start=1):
        begun = time.perf_counter()
        builder.add(IndexDocument(str(record.id), document_text(record)), memory_row(record, Disposition.ACTIVE))
        spent += time.perf_counter() - begun
        if number % _PART == 0:
            told(f"index of {count}", number, count)
    begun = time.perf_counter()
    _, data = builder.finish(knowledge_snapshot_id=_SNAPSHOT)
    return spent + time.perf_counter() - begun, data


def main(rows: int) -> None:
    """Build, publish, map and search an index, and print the figures."""
    seconds, data = _built(rows, lambda _what, _done, _total: None)
    with tempfile.TemporaryDirectory(prefix="vrm-bench-") as folder:
        file = Path(folder) / digest_bytes(data)
        file.write_bytes(data)
        size = len(data)
        del data
        built = _peak_mb()
        index = MemoryIndex.from_bytes(np.memmap(file, dtype=np.uint8, mode="r"))
        query = GeneratedVectors().embed(["query"])[0]
        if len(index.search.semantic(query, np.arange(rows), limit=LIMIT)) != min(LIMIT, rows):
            raise IntegrityError("benchmark index", str(rows), "It does not answer; report this.")
        index.search.lexical(f"{corpus.METRIC.name} {corpus.case_words(1)}", limit=LIMIT)
        index.standing.foremost(np.arange(rows), LIMIT)
    print(  # noqa: T201  # what the caller reads
        json.dumps(
            {
                "peak_rss_mb": significant(_peak_mb()),
                "peak_rss_mb_of_build": significant(built),
                "memory_records": rows,
                "memory_index_mb": significant(size / 1e6),
                "memory_build_seconds": significant(seconds),
            }
        )
    )


def _peak_mb() -> float:
    """Return the most memory that this process ever held, in MB of 10^6 bytes; on systems that keep no mark, now."""
    try:
        marks = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
        return int(marks["VmHWM"].split()[0]) * 1024 / 1e6
    except (OSError, KeyError, ValueError):
        return float(psutil.Process().memory_info().rss) / 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]))
