"""What the protocol benchmark counts is what happens: each count is compared with another way to get it.

Commits: with the commit records in the server's own log, per database. Syncs: with the calls of the operating system.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from evaluation.bench.deciding import Decisions
from evaluation.bench.protocol import write_transactions
from evaluation.bench.server import Bench, throwaway, with_runtime
from records.flows import Transition
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.embedded.databases import SUPERUSER
from store.runtime.port import RuntimeStore
from tests.support.stores import address

DECISIONS = 3
STEPS = 3
"""Proposals of a decision: intent, context, outcome (spec 6.2); each is granted, appended and reconciled once."""


@pytest.fixture
def folder(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(open_path))
    return open_path


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    assert folder.is_dir()
    with throwaway() as bench:
        yield bench


@pytest.fixture
def runtime(bench: Bench) -> Iterator[RuntimeStore]:
    with with_runtime(bench) as runtime:
        yield runtime


@pytest.fixture
def superuser(bench: Bench) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(address(bench.urls.ledger_admin, user=SUPERUSER), autocommit=True) as link:
        link.execute("CREATE EXTENSION pg_walinspect")
        yield link


def logged_commits(superuser: psycopg.Connection[tuple[object, ...]], since: object) -> int:
    """Return the commit records that the server has logged since a place in its log."""
    superuser.execute("SELECT pg_switch_wal()")  # what is read must be out of the buffers
    rows = superuser.execute(
        "SELECT record_type, count(*) FROM pg_get_wal_records_info(%s, pg_current_wal_flush_lsn()) "
        "WHERE resource_manager = 'Transaction' GROUP BY record_type",
        [since],
    ).fetchall()
    found = {str(kind): int(str(count)) for kind, count in rows}
    assert found.keys() <= {"COMMIT"}, "nothing is rolled back"
    return found.get("COMMIT", 0)


def test_commits_of_a_decision(
    bench: Bench, runtime: RuntimeStore, superuser: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Grant, append and settlement of each of three proposals: nine commits, in either way of counting."""
    decisions = Decisions(bench, runtime, 50)
    decisions.carry(decisions.intent(0))
    place = superuser.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    assert place is not None
    before = write_transactions(bench.admin)
    for number in range(1, DECISIONS + 1):
        decisions.carry(decisions.intent(number))
    counted = write_transactions(bench.admin) - before
    assert counted == logged_commits(superuser, place[0]) == DECISIONS * STEPS * 3


def test_readings_and_reads_are_not_counted(bench: Bench) -> None:
    before = write_transactions(bench.admin)
    assert bench.ledger.namespaces() == []
    with bench.ledger.reading() as reader:
        assert reader.journal("bench") == []
    assert write_transactions(bench.admin) == before
    bench.admin.execute("CREATE TABLE counted (number bigint)")
    bench.admin.execute("INSERT INTO counted VALUES (1)")
    assert write_transactions(bench.admin) == before + 2


def test_a_decision_is_a_whole_one(bench: Bench, runtime: RuntimeStore) -> None:
    """It ends in a committed outcome with cards that were shown and one disposition for each of them."""
    decisions = Decisions(bench, runtime, 50)
    receipts = [decisions.carry(decisions.intent(number)) for number in range(2)]
    assert {receipt.transition for receipt in receipts} == {Transition.APPEND_OUTCOME}
    assert runtime.phase_counts()[Machine.DECISION] == {Phase.OUTCOME_COMMITTED.value: 2}
    assert runtime.phase_counts()[Machine.AUTHORIZATION] == {Phase.COMMITTED.value: 2 * STEPS}
    for stored in bench.ledger.find("recall-decision-outcome", "bench"):
        outcome = stored.load()
        assert outcome.as_json()["dispositions"]
        assert outcome.as_json()["artifact_committed"]
    assert {part: len(spent) for part, spent in decisions.spent.items()} == dict.fromkeys(
        ("intent", "recall", "context", "outcome"), 2
    )


def test_syncs_of_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's own count is that of the system's calls; what is there already waits for nothing."""
    calls: Counter[str] = Counter()
    sync = os.fsync

    def counted(handle: int) -> None:
        calls["fsync"] += 1
        sync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    store = ArtifactStore(str(tmp_path))
    digest = store.publish(b"one")
    assert store.syncs == calls["fsync"] == 3, "the file, its folder, and the root, in which the folders are new"
    assert store.publish(b"one") == digest
    assert store.syncs == calls["fsync"] == 3
    store.publish(b"two")
    assert store.syncs == calls["fsync"] == 5
    store.publish_many([str(number).encode() for number in range(20)])
    assert store.syncs == calls["fsync"]
    folders = {name[:2] for name in store.digests()}
    assert store.syncs <= 5 + 20 + len(folders)
