"""The soak: many appends into one store, and the integrity check over it as it grows.

What it shows is a shape and not a speed: whether memory stays flat while records are appended, and whether the check
takes the same time per row in a large store as in a small one.

Rules kept here:

- records are appended in groups through the commit coordinator, as in the product; three of four appends are one
  record, the fourth is a verified bundle, so that references, child rows and bundles are there to be checked;
- memory is read at ten points while appending, and its growth is the slope of a line through them;
- each check runs in a process of its own, so that its peak is its own and the appending process is not disturbed.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from evaluation.bench import corpus
from evaluation.bench.ledger import GROUP
from evaluation.bench.measuring import machine, resident_mb, significant
from evaluation.bench.server import Bench, carry_out, throwaway
from memory.coordinator import CommitCoordinator
from memory.fsck import fsck
from records.appends import Append
from records.errors import IntegrityError, InvalidInputError
from records.flows import Transition
from store.ledger.postgres import PostgresLedger
from store.runtime.memory import MemoryRuntime

POINTS: Final = 10
SIZES: Final = (4, 2, 1)
"""The check runs when a quarter, a half and all of the records are there."""
LEAST: Final = 1000
_BUNDLE_EVERY: Final = 4
_MILLION: Final = 1_000_000

MEANING: Final = {
    "memory_growth_mb_per_million": "slope of resident memory over records appended; near zero is flat",
    "fsck_rows_per_second": "journal rows checked a second at a quarter, a half and all of the records",
    "fsck_linearity": "time per row at all of the records by time per row at a quarter; one is linear",
    "fsck_peak_mb": "peak resident memory of the checking process; the same at every size is bounded",
}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One reading while appending."""

    rows: int
    resident_mb: float
    rows_per_second: float
    appends_per_second: float


@dataclass(frozen=True, kw_only=True)
class Check:
    """One run of the integrity check; `idle_mb` is what its process held before it began."""

    rows: int
    seconds: float
    cpu_seconds: float
    rows_per_second: float
    idle_mb: float
    peak_mb: float
    clean: bool
    text: str


def bench_soak(records: int, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Append `records` records, check the store three times on the way, and return the report as JSON values.

    Args:
        records: journal rows to reach; the last group may go a few beyond.
        told: what is done, how far, of how much.

    Raises:
        InvalidInputError: fewer than a thousand records.
        IntegrityError: an append was refused, or the integrity check found something.
        UnavailableError: no server can be started here.
    """
    if records < LEAST:
        raise InvalidInputError("soak", records, f"Give at least {LEAST}.")
    with throwaway() as bench:
        return _Soak(bench, records, told).report()


class _Soak:
    def __init__(self, bench: Bench, records: int, told: Progress) -> None:
        self._bench, self._records, self._told = bench, records, told
        self._coordinator = CommitCoordinator(bench.ledger, MemoryRuntime(), bench.artifacts, "bench")
        self._groups = _groups()
        self._rows = 0
        self._appends = 0

    def report(self) -> dict[str, Any]:
        points: list[Point] = []
        checks: list[Check] = []
        sizes = [self._records // part for part in SIZES]
        tenths = [self._records * at // POINTS for at in range(1, POINTS + 1)]
        for stop in sorted({*sizes, *tenths}):
            point = self._append_until(stop)
            if stop in tenths:
                points.append(point)
            if stop in sizes:
                checks.append(self._check())
        return {
            "benchmark": "ledger soak",
            "memory_growth_mb_per_million": _slope(points),
            "fsck_rows_per_second": [check.rows_per_second for check in checks],
            "fsck_linearity": significant(checks[0].rows_per_second / checks[-1].rows_per_second),
            "fsck_peak_mb": [check.peak_mb for check in checks],
            "rows": self._rows,
            "appends": self._appends,
            "group": GROUP,
            "points": [asdict(point) for point in points],
            "checks": [{key: value for key, value in asdict(check).items() if key != "text"} for check in checks],
            "settings": self._bench.settings(),
            "machine": machine(),
            "meaning": MEANING,
        }

    def _append_until(self, stop: int) -> Point:
        begun, rows, appends = time.perf_counter(), self._rows, self._appends
        while self._rows < stop:
            group = next(self._groups)
            for receipt in carry_out(self._coordinator, group):
                self._rows = max(self._rows, *receipt.positions)
            self._appends += len(group)
            self._told("records", min(self._rows, self._records), self._records)
        seconds = time.perf_counter() - begun
        return Point(
            rows=self._rows,
            resident_mb=significant(resident_mb()),
            rows_per_second=significant((self._rows - rows) / seconds),
            appends_per_second=significant((self._appends - appends) / seconds),
        )

    def _check(self) -> Check:
        self._told(f"integrity check of {self._rows} rows", 0, 0)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
            check = pool.submit(check_apart, self._bench.urls.ledger_app).result()
        if not check.clean:
            raise IntegrityError("benchmark store", check.text, "The figures are worth nothing; report this.")
        return check


def check_apart(dsn: str) -> Check:
    """Check the Ledger at an address and say what it took; meant for a process of its own."""
    ledger = PostgresLedger(dsn, "bench check")
    idle = resident_mb()
    begun, spent = time.perf_counter(), time.process_time()
    with ledger.reading() as reader:
        report = fsck(reader, None, None)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - spent
    ledger.close()
    rows = report.checked["journal rows"]
    return Check(
        rows=rows,
        seconds=significant(seconds),
        cpu_seconds=significant(cpu),
        rows_per_second=significant(rows / seconds),
        idle_mb=significant(idle),
        peak_mb=significant(_peak_mb()),
        clean=report.clean,
        text=report.text(),
    )


def _groups() -> Iterator[list[Append]]:
    """Make groups of appends without end; every fourth append is a bundle of eight records, some of them shared."""
    number = 0
    while True:
        yield [_append(at) for at in range(number, number + GROUP)]
        number += GROUP


def _append(number: int) -> Append:
    if number % _BUNDLE_EVERY:
        return Append.direct(Transition.APPEND_EVIDENCE, f"soak:{number}", (corpus.hypothesis(number),))
    return Append.direct(Transition.APPEND_EVIDENCE, f"soak:{number}", corpus.bundle(number))


def _slope(points: list[Point]) -> float:
    rows = np.array([point.rows for point in points], dtype=float)
    memory = np.array([point.resident_mb for point in points])
    return significant(float(np.polyfit(rows, memory, 1)[0]) * _MILLION)


def _peak_mb() -> float:
    """Return the highest resident memory of this process so far, in MB of 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
