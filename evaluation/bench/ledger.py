"""The Ledger benchmark: governed appends against raw commits and against an event store.

A governed append is everything between the values of a record and its durable receipt: validation, canonical bytes and
ids, epoch and namespace lock, journal row with its chain digest, record, receipt, commit. It goes through the commit
coordinator, as in the product. Nobody else writes meanwhile; several namespaces and Ray are not measured here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from evaluation.bench import corpus
from evaluation.bench.measuring import (
    Alternative,
    Ratio,
    Timings,
    machine,
    middles,
    resident_mb,
    significant,
    spread,
    take_turns,
)
from evaluation.bench.references import RawInserts, event_recorder
from evaluation.bench.server import Bench, carry_out, throwaway
from memory.coordinator import CommitCoordinator
from memory.fsck import fsck
from records.appends import Append
from records.base import Record
from records.errors import IntegrityError, InvalidInputError
from records.evidence import Hypothesis
from records.flows import Transition
from store.runtime.memory import MemoryRuntime

GROUP: Final = 64
ROUNDS: Final = 5
DEFAULT_APPENDS: Final = 1000
_LEAST: Final = 10
_BUNDLES: Final = 8

MEANING: Final = {
    "append_vs_raw_commit": "appends a second, one in flight, by raw one-row commits a second; higher is better",
    "grouped_vs_raw_commit": f"appends a second, {GROUP} in flight, by raw one-row commits a second; higher is better",
    "grouped_vs_eventsourcing": f"appends a second, {GROUP} in flight, by events a second; higher is better",
    "p99_vs_raw_p99": "p99 of an append, one in flight, by p99 of a raw commit; lower is better",
    "raw_commit": "one row of the same payload, primary key and one unique index, autocommit, same driver and server",
    "eventsourcing": "application recorder of the eventsourcing package on the same server, one event of the same size",
}

Progress = Callable[[str, int, int], None]


def bench_ledger(appends: int, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Measure and return the report as JSON values.

    Args:
        appends: counted single appends; the alternatives do as many, in rounds of a fifth.
        told: what is done, how far, of how much.

    Raises:
        InvalidInputError: fewer than ten appends.
        IntegrityError: an append was refused, or the integrity check found something afterwards.
        UnavailableError: no server can be started here.
    """
    if appends < _LEAST:
        raise InvalidInputError("appends", appends, f"Give at least {_LEAST}.")
    with throwaway() as bench:
        return _Run(bench, appends // ROUNDS, told).report()


class _Run:
    def __init__(self, bench: Bench, repeats: int, told: Progress) -> None:
        self._bench, self._repeats, self._told = bench, repeats, told
        self._coordinator = CommitCoordinator(bench.ledger, MemoryRuntime(), bench.artifacts, "bench")
        self._raw = RawInserts(bench.admin)
        self._record = event_recorder(bench)

    def report(self) -> dict[str, Any]:
        before = resident_mb()
        timings = take_turns(
            self._alternatives(), ROUNDS, lambda done, total: self._told("rounds of appends", done, total)
        )
        growth = resident_mb() - before
        evidence = self._evidence()
        ratios = _ratios(timings)
        return {
            "benchmark": "ledger",
            **middles(ratios),
            "fsck_rows_per_second": self._check(),
            "memory_growth_mb": significant(growth),
            "spread": spread(ratios),
            "n": len(timings["append"].seconds),
            "rounds": ROUNDS,
            "group": GROUP,
            "payload_bytes": len(corpus.hypothesis(0).payload),
            "absolute": {name: found.summary() for name, found in timings.items()} | {"evidence": evidence},
            "settings": self._bench.settings(),
            "machine": machine(),
            "meaning": MEANING,
        }

    def _alternatives(self) -> list[Alternative]:
        groups = -(-self._repeats // GROUP)
        found = [
            Alternative(name="append", act=self._append, repeats=self._repeats, make=_single),
            Alternative(name="raw_commit", act=self._insert, repeats=self._repeats, make=_row),
            Alternative(name="grouped", act=self._append, repeats=groups, yields=GROUP, make=_group),
        ]
        if self._record is not None:
            found.append(Alternative(name="eventsourcing", act=self._record, repeats=self._repeats, make=_payload))
        return found

    def _append(self, wanted: Sequence[_Wanted]) -> None:
        appends = [_direct(key, Hypothesis.build(**values)) for key, values in wanted]
        carry_out(self._coordinator, appends)

    def _insert(self, row: tuple[int, str, str]) -> None:
        self._raw.insert(*row)

    def _evidence(self) -> dict[str, float]:
        """Append verified bundles of eight linked records, eight bundles a commit, and return their rate."""
        total = max(1, self._repeats // _BUNDLES)
        begun, rows = time.perf_counter(), 0
        for group in range(total):
            made = [corpus.bundle(group * _BUNDLES + at) for at in range(_BUNDLES)]
            rows += sum(len(records) for records in made)
            keys = [f"evidence:{records[-1].id}" for records in made]
            carry_out(self._coordinator, [_direct(key, *records) for key, records in zip(keys, made, strict=True)])
            self._told("bundles", group + 1, total)
        return {"records_per_second": significant(rows / (time.perf_counter() - begun)), "n": rows}

    def _check(self) -> float:
        """Run the integrity check over all that was appended; return journal rows a second."""
        rows = sum(self._bench.ledger.table_counts().values())
        begun = time.perf_counter()
        with self._bench.ledger.reading() as reader:
            report = fsck(reader, None, None, self._told)
        seconds = time.perf_counter() - begun
        if not report.clean:
            raise IntegrityError("benchmark store", report.text(), "The figures are worth nothing; report this.")
        return significant(rows / seconds)


def _ratios(timings: dict[str, Timings]) -> dict[str, Ratio | None]:
    append, raw, grouped = (timings[name] for name in ("append", "raw_commit", "grouped"))
    events = timings.get("eventsourcing")
    tails = append.milliseconds(99), raw.milliseconds(99)
    return {
        "append_vs_raw_commit": Ratio.of(append.rates, raw.rates),
        "grouped_vs_raw_commit": Ratio.of(grouped.rates, raw.rates),
        "grouped_vs_eventsourcing": None if events is None else Ratio.of(grouped.rates, events.rates),
        "p99_vs_raw_p99": Ratio.of(tails[:1], tails[1:]),  # over all rounds: one round is too short for a tail
    }


_Wanted = tuple[str, dict[str, Any]]
"""The operation key of an append, and the values of its record."""


def _single(number: int) -> list[_Wanted]:
    return [(f"single:{number}", corpus.hypothesis_values(number))]


def _group(number: int) -> list[_Wanted]:
    numbers = range(_GROUPED + number * GROUP, _GROUPED + (number + 1) * GROUP)
    return [(f"grouped:{each}", corpus.hypothesis_values(each)) for each in numbers]


def _row(number: int) -> tuple[int, str, str]:
    return number, f"raw:{number}", _payload(number).decode()


def _direct(key: str, *records: Record) -> Append:
    return Append.direct(Transition.APPEND_EVIDENCE, key, records)


def _payload(number: int) -> bytes:
    """Return a payload of the size of an append's, made outside of what the references are for."""
    return _TEMPLATE.replace(b"#" * _WIDTH, str(number).zfill(_WIDTH).encode())


_GROUPED: Final = 10**9
"""Where the numbers of grouped appends begin, so that no record is appended twice."""
_WIDTH: Final = 10
_TEMPLATE: Final = corpus.hypothesis(10**9).payload.replace(b"1000000000", b"#" * _WIDTH)
