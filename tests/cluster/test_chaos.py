"""A short run of `vrm chaos`, every kind of fault once, and its report against a count of our own in its databases."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from evaluation.chaos.accounting import Unit, balance, there_is
from evaluation.chaos.faults import TABLE
from store.server import DatabaseUrls, EmbeddedPostgres

ROOT = Path(__file__).parents[2]
KINDS = sorted({fault.kind for fault in TABLE})
NOT_DONE = """
    SELECT (SELECT count(*) FROM runtime.authorizations WHERE phase = 'GRANTED')
         + (SELECT count(*) FROM runtime.decisions WHERE phase <> 'OUTCOME_COMMITTED')
         + (SELECT count(*) FROM runtime.runs WHERE phase NOT IN ('COMPLETED', 'CANCELLED', 'FAILED'))
         + (SELECT count(*) FROM runtime.handoffs WHERE phase <> 'BOUND')
"""


@dataclass(frozen=True)
class Ran:
    """A run that is over, and its databases, which a server serves again."""

    report: dict[str, Any]
    urls: DatabaseUrls

    def number(self, statement: str, *, runtime: bool = False) -> int:
        """Ask one of the databases for a number."""
        with psycopg.connect(self.urls.runtime_app if runtime else self.urls.ledger_app) as link:
            row = link.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def of(self, noun: str) -> int:
        """Count the records of a kind."""
        return self.number(f"SELECT count(*) FROM ledger.ledger_commits_v1 WHERE noun = '{noun}'")


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    folder = Path(tempfile.mkdtemp(prefix="vrm-chaos-test-"))
    folder.chmod(0o711)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from vrm.cli.app import app; app()",
             "chaos", "--faults", str(len(KINDS)), "--seed", "3", "--keep", str(folder / "k"), "--json"],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        server = EmbeddedPostgres(folder / "k" / "postgres", folder / "k" / "s", bound=True)
        yield Ran(json.loads(done.stdout.splitlines()[-1]), server.start())
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_every_kind_of_fault_struck_once_and_nothing_is_lost_or_doubled(ran: Ran) -> None:
    assert ran.report["faults_by_kind"] == dict.fromkeys(KINDS, 1)
    assert sum(ran.report["faults_by_point"].values()) == ran.report["faults"] == len(KINDS)
    assert set(ran.report["faults_by_processes"]) == {"Ray actors", "plain processes"}
    assert (ran.report["lost"], ran.report["doubled"], ran.report["fsck"]) == (0, 0, "clean")


def test_the_databases_hold_what_the_report_says_once_each(ran: Ran) -> None:
    decisions, experiences = ran.report["decisions"], ran.report["experiences"]
    assert decisions + experiences > 0
    outcomes = "FROM ledger.recall_decision_outcomes"
    assert ran.number(f"SELECT count(*) {outcomes}") == ran.number(f"SELECT count(DISTINCT intent_id) {outcomes}")
    assert ran.of("decision-intent") == ran.of("recall-decision-outcome") == decisions
    chain = ("experience", "distillation-receipt", "distillation-work-item", "distillation-work-completion")
    assert [ran.of(noun) for noun in chain] == [experiences] * len(chain)
    assert ran.number(NOT_DONE, runtime=True) == 0
    grants = ran.number("SELECT count(*) FROM runtime.authorizations", runtime=True)
    assert grants == ran.number("SELECT count(*) FROM ledger.append_receipts WHERE permit_key ~ '^authorization:'")
    epochs = "SELECT epoch FROM {}.owners WHERE resource = '{}/0'"
    assert ran.number(epochs.format("runtime", "run-owner"), runtime=True) > 2
    assert ran.number(epochs.format("ledger", "commit-coordinator")) > 2


def test_a_record_removed_behind_its_back_is_lost_and_one_that_is_there_again_doubled(ran: Ran) -> None:
    due = there_is(ran.urls, ())
    assert balance(due, there_is(ran.urls, ())) == balance({}, {})
    name = ran.urls.ledger_app.replace("user=vrm_ledger_app", "user=vrm_superuser")
    with psycopg.connect(name) as link:
        for table in ("recall_decision_outcomes", "distillation_work_completions"):
            link.execute(f"ALTER TABLE ledger.{table} DISABLE TRIGGER ALL".encode())  # no guard, no foreign key
        one = "distillation_work_completions_one_work_item_id"
        link.execute(f"ALTER TABLE ledger.distillation_work_completions DROP CONSTRAINT {one}".encode())
        (intent,) = link.execute(
            "DELETE FROM ledger.recall_decision_outcomes WHERE ctid = "
            "(SELECT min(ctid) FROM ledger.recall_decision_outcomes) RETURNING intent_id"
        ).fetchall()
        (item,) = link.execute(
            "INSERT INTO ledger.distillation_work_completions SELECT (jsonb_populate_record(each, jsonb_build_object("
            "'id', each.id || 'again', 'work_item_id', each.work_item_id))).* "
            "FROM ledger.distillation_work_completions AS each LIMIT 1 RETURNING work_item_id"
        ).fetchall()
        (experience,) = link.execute(
            "SELECT experience_id FROM ledger.distillation_work_items WHERE id = %s", item
        ).fetchall()
    found = balance(due, there_is(ran.urls, ()))
    assert found.lost == (Unit("outcome", intent[0]),)
    assert found.doubled == (Unit("completion", experience[0]),)
