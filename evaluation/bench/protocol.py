"""The protocol benchmark: what one decision costs, from the proposal of its intent to the settlement of its outcome.

A decision is alone: nothing is grouped with another one's, and nobody else writes meanwhile. What it consists of and
what is left out says `evaluation.bench.deciding`. Its recall is inside, with vectors that have no meaning: the cost of
the real model is a matter of `vrm bench recall`.

How commits are counted: a transaction that writes, or locks a row, gets a transaction id from the server, and one that
reads gets none. The ids are one sequence for all databases of a server, so the difference between two readings of the
next one is the number of write transactions in between, over both databases. A savepoint takes an id too, and so does a
transaction that is rolled back, and what the server does by itself; the count can be too high and not too low. A test
compares it with the commit records of the server's log, which it is equal to. Readings take no id, and nothing is timed
between them.

How syncs of artifacts are counted: the store adds up the calls in which it waits for the disk (`ArtifactStore.syncs`).
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Final

from evaluation.bench import corpus
from evaluation.bench.deciding import Decisions
from evaluation.bench.measuring import (
    Alternative,
    Ratio,
    Timings,
    machine,
    middles,
    significant,
    spread,
    take_turns,
)
from evaluation.bench.references import RawInserts
from evaluation.bench.server import Bench, throwaway, with_runtime
from memory.fsck import Violation, fsck
from records.decisions import DecisionIntent
from records.errors import IntegrityError, InvalidInputError
from records.states import Machine, Phase
from store.database import Connection
from store.runtime.port import RuntimeStore

ROUNDS: Final = 5
DEFAULT_DECISIONS: Final = 100
RULES: Final = 200
_LEAST: Final = 10
_COUNTED_A_ROUND: Final = 4

MEANING: Final = {
    "database_commits_per_decision": "write transactions of both databases for one decision alone; lower is better",
    "artifact_fsyncs_per_decision": "files and folders synced by the artifact store for one decision; lower is better",
    "decision_vs_raw_commits": "time of a decision, recall included, by that of as many raw commits; lower is better",
    "spine_vs_raw_commits": "the same without recall: three times propose, grant, append, reconcile, with artifacts",
    "raw_commits": "as many rows of an intent's size as a decision has commits, each an INSERT of its own, autocommit",
}

Progress = Callable[[str, int, int], None]


def bench_protocol(decisions: int, told: Progress = lambda _what, _done, _total: None) -> dict[str, Any]:
    """Measure and return the report as JSON values.

    Args:
        decisions: timed decisions, in rounds of a fifth.
        told: what is done, how far, of how much.

    Raises:
        InvalidInputError: fewer than ten decisions.
        IntegrityError: a decision was refused or left open, or the integrity check found something afterwards.
        UnavailableError: no server can be started here.
    """
    if decisions < _LEAST:
        raise InvalidInputError("decisions", decisions, f"Give at least {_LEAST}.")
    with throwaway() as bench, with_runtime(bench) as runtime:
        return _Run(bench, runtime, decisions // ROUNDS, told).report()


def write_transactions(connection: Connection) -> int:
    """Return how many transaction ids the server has given out so far, without taking one."""
    row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
    if row is None:
        raise IntegrityError("benchmark server", "no answer", "The figures are worth nothing; report this.")
    return int(row[0])


class _Run:
    def __init__(self, bench: Bench, runtime: RuntimeStore, repeats: int, told: Progress) -> None:
        self._bench, self._runtime, self._repeats, self._told = bench, runtime, repeats, told
        self._decisions = Decisions(bench, runtime, RULES, lambda done, total: told("rules", done, total))
        self._decisions.carry(self._intent(0))  # the first one prepares statements and appends the experiment
        self._raw = RawInserts(bench.admin)

    def report(self) -> dict[str, Any]:
        counts = self._count()
        self._commits = round(counts["database_commits_per_decision"].middle)
        for spent in self._decisions.spent.values():
            spent.clear()
        timings = take_turns(
            self._alternatives(), ROUNDS, lambda done, total: self._told("rounds of decisions", done, total)
        )
        parts = {name: _summary(spent[self._repeats :]) for name, spent in self._decisions.spent.items()}
        ratios = counts | self._ratios(timings)
        return {
            "benchmark": "protocol",
            **middles(ratios),
            "spread": spread(ratios),
            "n": len(timings["decision"].seconds),
            "rounds": ROUNDS,
            "rules": RULES,
            "payload_bytes": len(self._intent(0).payload),
            "absolute": {name: found.summary() for name, found in timings.items()} | parts,
            "decisions": self._checked(),
            "settings": self._bench.settings(),
            "machine": machine(),
            "meaning": MEANING,
        }

    def _intent(self, number: int) -> DecisionIntent:
        return self._decisions.intent(number)

    def _count(self) -> dict[str, Ratio]:
        """Count commits and syncs of a few rounds of decisions, with nothing else between the readings."""
        commits, syncs, admin, artifacts = [], [], self._bench.admin, self._bench.artifacts
        for turn in range(ROUNDS):
            before = write_transactions(admin), artifacts.syncs
            for place in range(_COUNTED_A_ROUND):
                self._decisions.carry(self._intent(_COUNTED + turn * _COUNTED_A_ROUND + place))
            commits.append((write_transactions(admin) - before[0]) / _COUNTED_A_ROUND)
            syncs.append((artifacts.syncs - before[1]) / _COUNTED_A_ROUND)
        one = [1.0] * ROUNDS
        return {
            "database_commits_per_decision": Ratio.of(commits, one),
            "artifact_fsyncs_per_decision": Ratio.of(syncs, one),
        }

    def _alternatives(self) -> list[Alternative]:
        return [
            Alternative(
                name="decision",
                act=self._decisions.carry,
                repeats=self._repeats,
                make=lambda number: self._intent(_TIMED + number),
            ),
            Alternative(name="raw_commits", act=self._insert, repeats=self._repeats, make=self._rows),
        ]

    def _rows(self, number: int) -> list[tuple[int, str, str]]:
        numbers = range(number * self._commits, (number + 1) * self._commits)
        return [(each, f"raw:{each}", self._intent(each).payload.decode()) for each in numbers]

    def _insert(self, rows: list[tuple[int, str, str]]) -> None:
        for row in rows:
            self._raw.insert(*row)

    def _ratios(self, timings: dict[str, Timings]) -> dict[str, Ratio]:
        decision, raw = timings["decision"].middles, timings["raw_commits"].middles
        recall = self._decisions.spent["recall"][self._repeats :]
        starts = range(0, len(recall), self._repeats)
        without = [one - fmean(recall[at : at + self._repeats]) for one, at in zip(decision, starts, strict=True)]
        return {"decision_vs_raw_commits": Ratio.of(decision, raw), "spine_vs_raw_commits": Ratio.of(without, raw)}

    def _checked(self) -> int:
        """Every decision must be closed, and the Ledger sound, or the figures are worth nothing."""
        phases = self._runtime.phase_counts()
        left = set(phases[Machine.DECISION]) - {Phase.OUTCOME_COMMITTED.value}
        if left or phases[Machine.AUTHORIZATION].keys() != {Phase.COMMITTED.value}:
            raise IntegrityError("benchmark store", str(phases), "A decision was left open; report this.")
        found = self._findings()
        if found:
            raise IntegrityError("benchmark store", str(found[0]), "The figures are worth nothing; report this.")
        return phases[Machine.DECISION][Phase.OUTCOME_COMMITTED.value]

    def _findings(self) -> list[Violation]:
        """Return what the integrity check has against decisions; the rules were put in without grants, and show it."""
        with self._bench.ledger.reading() as reader:
            found = fsck(reader, self._runtime, self._bench.artifacts, self._told, namespace=corpus.SPACE)
            mine = {stored.id for noun in _WRITTEN for stored in reader.find(noun, corpus.SPACE)}
        mine |= {subject.id for subject in self._runtime.find(Machine.AUTHORIZATION)}
        return [each for each in found.violations if each.record in mine]


_WRITTEN: Final = ("decision-intent", "decision-recall-context", "recall-decision-outcome")
_COUNTED: Final = 10**6
_TIMED: Final = 2 * 10**6
"""Where the numbers of counted and of timed decisions begin, so that no decision is taken twice."""


def _summary(seconds: list[float]) -> dict[str, float]:
    timings = Timings(1, [seconds])
    return {
        "per_second": significant(timings.rates[0]),
        "p50_ms": significant(timings.milliseconds(50)),
        "p99_ms": significant(timings.milliseconds(99)),
        "n": len(seconds),
    }
