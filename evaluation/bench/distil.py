"""The bulk benchmark: Experiences from evidence to completion, through the real owners, in one sweep.

What a sweep is says `evaluation.bench.bulk`, and what it is fed `evaluation.bench.studies`. Each sweep has a server of
its own, which is empty at first, and owners of its own on one Ray. There are four of them: one of the experiences asked
for and one of twice as many, which show how cost grows; and two small ones with one distillation worker and with two.

How time is divided:

- database: what Postgres says of itself, seconds in which a session of one of the two databases carried out statements
  (`pg_stat_database.active_time`), the end of each transaction and its wait for the disk included. While a session is
  busy its client waits, and clients take turns, except for two workers that read at once;
- statistics: pairing and judging the whole snapshot, timed again after the sweep, in this process, over the same
  bundles. Both workers do it, each for itself and at the same time;
- protocol: the rest. Making, checking and encoding records, artifacts and their syncs, and the calls between processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from actors.handles import DistillerPool, Owners, owners_of
from actors.settings import Settings
from evaluation.bench import corpus, studies
from evaluation.bench.bulk import Crew, Sweep
from evaluation.bench.cluster import PATIENCE_SECONDS, own_cluster
from evaluation.bench.corpus import SPACE
from evaluation.bench.measuring import machine, significant
from evaluation.bench.protocol import write_transactions
from evaluation.bench.references import RawInserts
from evaluation.bench.server import Bench, throwaway, with_runtime
from evaluation.simulation.material import POLICIES
from memory.evidence import resolve_bundles
from memory.fsck import fsck
from policies.contrasts import tabulate
from policies.distiller import judge
from records.errors import IntegrityError, InvalidInputError
from records.evidence import Experience, VerifiedEvidenceBundle
from store.database import Connection
from store.ledger.postgres import PostgresLedger
from store.runtime.port import RuntimeReader

DEFAULT_EXPERIENCES: Final = 10_000
LEAST: Final = studies.TRIALS
SMALL: Final = 1000
"""Experiences of the sweeps with one and with two workers, if not fewer were asked for."""
"""How long Ray may take to start, and a session to end, on a busy machine."""

MEANING: Final = {
    "experiences_per_s": "Experiences a second from evidence to completion; higher is better",
    "growth_20k_over_10k": "time of a sweep of twice as many by the time of this one; two is linear",
    "cpu_growth_20k_over_10k": "the same of processor time of driver, owners and workers, which others at work on the "
    "machine disturb less",
    "distil_vs_raw_inserts": "time of the sweep by that of as many rows in as many raw commits; lower is better",
    "speedup_2_workers": "Experiences a second of the last stage, distillation, with two workers by those with one",
    "speedup_limit": "what two workers can bring at most: all that is not done by a worker is serial",
    "shares": "of the sweep's time: in Postgres, in pairing and judging, and all the rest",
    "stage_seconds": "seconds of each stage; the last but one holds the calls to workers, told as proposing",
    "peak_rss_mb": "highest resident memory of any process in the sweep of this many, of readings after each group of "
    "appends; peak_rss_mb_each has every process, and pages that they share count for each of them",
    "raw_inserts": "rows of a hypothesis's size in one table with two indexes, one INSERT of many rows a commit; as "
    "many rows as the sweep left in both databases, in as many commits as it made",
    "spread": "lowest and highest: the rate in each tenth of the distillation stage",
}
SERIAL: Final = (
    "Leases, grants and settlements go through one run owner, appends through one coordinator and one namespace lock; "
    "a group's proposals are all there before the first of them is granted. Workers share the rest, by task scope; but "
    "each of them reads and judges the whole snapshot for itself, once."
)
"""What limits the gain of a second worker."""

Progress = Callable[[str, int, int], None]


def bench_distil(experiences: int, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Measure and return the report as JSON values.

    Args:
        experiences: Experiences of the sweep; another one takes twice as many.
        told: what is done, how far, of how much.

    Raises:
        InvalidInputError: fewer than a study's.
        IntegrityError: something was refused or left open, or the integrity check found something.
        UnavailableError: no server or no cluster can be started here.
    """
    if experiences < LEAST:
        raise InvalidInputError("experiences", experiences, f"Give at least {LEAST}.")
    small = min(experiences, SMALL)
    with own_cluster():
        one = _measured(small, told, workers=1)
        two = _measured(small, told)
        asked = _measured(experiences, told, check=True)
        double = _measured(2 * experiences, told)
    return _report(experiences, asked, double) | _workers(small, one, two)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one sweep came to."""

    seconds: float
    stages: dict[str, float]
    proposing: float
    rates: list[float]
    peaks: dict[str, float]
    processor: dict[str, float]
    rows: int
    commits: int
    database: float
    statistics: float
    raw: float
    decisions: dict[str, int]
    settings: dict[str, str]


def _measured(experiences: int, told: Progress, *, workers: int = 2, check: bool = False) -> Measured:
    """Carry out one sweep on a server of its own; `check` looks at everything that it left."""
    with throwaway() as bench, with_runtime(bench) as runtime:
        settings = Settings(bench.urls.ledger_app, bench.urls.runtime_app, bench.artifacts.url)
        with _owners(settings) as owners:
            crew = Crew(
                run_owner=owners.run_owner,
                coordinator=owners.coordinator,
                heads=owners.heads,
                distillers=DistillerPool(owners.distillers.workers[:workers]),
            )
            _warm(owners, workers)
            sweep = Sweep(bench, runtime, crew, lambda what, done, of: told(f"{experiences}: {what}", done, of))
            before = write_transactions(bench.admin), _active_seconds(bench.admin)
            sweep.carry(experiences)
            commits = write_transactions(bench.admin) - before[0]
        bench.ledger.close()  # a session that ends hands over what it has counted
        active = _settled_seconds(bench.admin) - before[1]
        ledger = PostgresLedger(bench.urls.ledger_app, "bench check")
        try:
            rows = _rows(ledger, runtime, bench)
            if check:
                _require_sound(ledger, runtime, bench, told)
            return Measured(
                seconds=sweep.spent.total,
                stages=dict(sweep.spent.stages),
                proposing=sweep.spent.proposing,
                rates=sweep.rates,
                peaks=sweep.processes.peaks,
                processor=sweep.processes.seconds,
                rows=rows,
                commits=commits,
                database=active,
                statistics=_statistics_seconds(ledger),
                raw=_raw_seconds(bench.admin, rows, commits),
                decisions=sweep.decisions(ledger),
                settings=bench.settings(),
            )
        finally:
            ledger.close()


def _report(experiences: int, asked: Measured, double: Measured) -> dict[str, Any]:
    database, statistics = asked.database / asked.seconds, asked.statistics / asked.seconds
    return {
        "benchmark": "distil",
        "experiences": experiences,
        "experiences_per_s": significant(experiences / asked.seconds),
        "growth_20k_over_10k": significant(double.seconds / asked.seconds),
        "cpu_growth_20k_over_10k": significant(sum(double.processor.values()) / sum(asked.processor.values())),
        "distil_vs_raw_inserts": significant(asked.seconds / asked.raw),
        "shares": {
            "statistics": significant(statistics),
            "protocol": significant(1 - statistics - database),
            "database": significant(database),
        },
        "peak_rss_mb": significant(max(asked.peaks.values())),
        "peak_rss_mb_each": {
            name: _rounded(each.peaks) for name, each in (("asked", asked), ("twice as many", double))
        },
        "cpu_seconds": {name: _rounded(each.processor) for name, each in (("asked", asked), ("twice as many", double))},
        "seconds": [significant(asked.seconds), significant(double.seconds)],
        "stage_seconds": {
            name: _rounded(each.stages) | {"of which proposing": significant(each.proposing)}
            for name, each in (("asked", asked), ("twice as many", double))
        },
        "rows": asked.rows,
        "commits": asked.commits,
        "raw_inserts_seconds": significant(asked.raw),
        "decisions": asked.decisions,
        "spread": {"experiences_per_s": [significant(min(asked.rates)), significant(max(asked.rates))]},
        "settings": asked.settings,
        "machine": machine(),
        "meaning": MEANING,
    }


def _workers(experiences: int, one: Measured, two: Measured) -> dict[str, Any]:
    stage = [each.stages["distillation"] for each in (one, two)]
    serial = 1 - one.proposing / stage[0]
    return {
        "speedup_2_workers": significant(stage[0] / stage[1]),
        "speedup_limit": significant(1 / (serial + (1 - serial) / 2)),
        "speedup": {"experiences": experiences, "serial_share": significant(serial), "serial": SERIAL},
    }


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: significant(value) for name, value in values.items()}


@contextmanager
def _owners(settings: Settings) -> Iterator[Owners]:
    owners = owners_of(settings)
    try:
        yield owners
    finally:
        for handle in owners.handles().values():
            handle.kill()


def _warm(owners: Owners, workers: int) -> None:
    """Start everybody who takes part; how long a process takes to start is no part of a sweep."""
    for handle in (owners.run_owner.handle, owners.coordinator.handle, *owners.heads.hosts):
        handle.call("version")
    for worker in owners.distillers.workers[:workers]:
        worker.call("propose", [])


def _active_seconds(admin: Connection) -> float:
    row = admin.execute("SELECT sum(active_time) / 1000 FROM pg_stat_database WHERE datname IS NOT NULL").fetchone()
    return float(row[0]) if row else 0.0


def _settled_seconds(admin: Connection) -> float:
    """Return the same once every session but this one and the reader's has ended and handed over its counts."""
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^vrm (coord|run-o|life|distil)'"

    def are_left() -> bool:
        row = admin.execute(left).fetchone()
        return row is None or int(row[0]) > 0

    Retrying(retry=retry_if_result(bool), stop=stop_after_delay(PATIENCE_SECONDS), wait=wait_fixed(0.1))(are_left)
    return _active_seconds(admin)


def _rows(ledger: PostgresLedger, runtime: RuntimeReader, bench: Bench) -> int:
    """Return how many rows a sweep left: journal rows, their records, receipts, and subjects of the Runtime."""
    records = 2 * ledger.namespace_head(SPACE).position
    row = bench.admin.execute("SELECT count(*) FROM ledger.append_receipts").fetchone()
    subjects = sum(sum(phases.values()) for phases in runtime.phase_counts().values())
    return records + (int(row[0]) if row else 0) + subjects


def _statistics_seconds(ledger: PostgresLedger) -> float:
    """Time pairing and judging of everything, as each worker does it once."""
    loaded = (stored.load() for stored in ledger.find("experience", SPACE))
    resolved = resolve_bundles(ledger, [each for each in loaded if isinstance(each, Experience)])
    bundles = [each for each in resolved.values() if isinstance(each, VerifiedEvidenceBundle)]
    begun = time.perf_counter()
    judge(tabulate(bundles, POLICIES.distillation), POLICIES.distillation)
    return time.perf_counter() - begun


def _raw_seconds(admin: Connection, rows: int, commits: int) -> float:
    """Time as many rows in as many commits, without all that the product does."""
    raw = RawInserts(admin)
    payload = corpus.hypothesis(0).payload.decode()
    borders = [rows * at // commits for at in range(commits + 1)]
    begun = time.perf_counter()
    for first, last in pairwise(borders):
        raw.insert_many(range(first, last), payload)
    return time.perf_counter() - begun


def _require_sound(ledger: PostgresLedger, runtime: RuntimeReader, bench: Bench, told: Progress) -> None:
    with ledger.reading() as reader:
        found = fsck(reader, runtime, bench.artifacts, told, namespace=SPACE)
    if not found.clean:
        raise IntegrityError("benchmark store", str(found.violations[0]), "The figures are worth nothing; report this.")
