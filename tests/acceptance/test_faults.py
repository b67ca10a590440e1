"""Faults in the middle of the main job: real processes are killed, the job is run again, fsck is the oracle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from store.server import EmbeddedPostgres
from tests.acceptance.conftest import Product, new_product
from vrm.home import Home
from vrm.mainjob.plan import SMALL, development_tasks, held_out_tasks

LIMIT_SECONDS = 600.0
FITS = len(development_tasks(SMALL)) * (1 + len(SMALL.contrasts or ()))
TRIALS = len(held_out_tasks(SMALL)) * 2


@pytest.fixture
def product() -> Iterator[Product]:
    """A home of its own for each fault."""
    yield from new_product()


class Watch:
    """Looks into the databases of a product from outside."""

    def __init__(self, product: Product) -> None:
        home = Home(product.home)
        urls = EmbeddedPostgres(home.postgres, home.postgres_sockets).start()
        self._ledger = psycopg.connect(urls.ledger_app, autocommit=True)

    def count(self, noun: str) -> int:
        """Return how many records of a kind are journaled."""
        row = self._ledger.execute("SELECT count(*) FROM ledger.ledger_commits_v1 WHERE noun = %s", [noun]).fetchone()
        assert row is not None
        return int(row[0])

    def process(self, holder: str) -> int:
        """Return the process that has a connection under a holder's name."""
        rows = self._ledger.execute(
            "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE %s", [f"vrm {holder}%"]
        ).fetchall()
        return int(str(rows[0][0]).rsplit(" ", 1)[1])

    def close(self) -> None:
        """Give back the connection."""
        self._ledger.close()


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():  # each look is a query, which paces the loop
        assert time.monotonic() < limit, "the state that the fault waits for was never reached"


def test_kill_minus_nine_of_owner_worker_and_driver_loses_and_doubles_nothing(product: Product) -> None:
    product.call("up")
    watch = Watch(product)

    driver = product.start("run", "--size", "small")
    _until(lambda: watch.count("distillation-work-item") > 0)
    os.kill(watch.process("coordinator"), signal.SIGKILL)
    _until(lambda: watch.count("distillation-batch") > 0 or driver.poll() is not None)
    os.kill(watch.process("distiller"), signal.SIGKILL)
    _until(lambda: watch.count("decision-intent") > 0 or driver.poll() is not None)
    driver.kill()
    driver.wait()

    finished = product.json("run", "--size", "small")
    records = product.json("status")["records"]
    assert finished["facts"]["round"] == 0, "the interrupted round goes on"
    assert records["experience"] == FITS + TRIALS * (1 + SMALL.decisions)
    assert records["distillation-work-item"] == FITS == records["distillation-work-completion"]
    assert records["decision-intent"] == TRIALS * SMALL.decisions == records["recall-decision-outcome"]
    report = product.json("fsck")
    assert report["clean"], report
    assert product.json("status")["unresolved_authorizations"] == []
    watch.close()
