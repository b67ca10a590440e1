"""Two live owner processes on one namespace: the stale one is refused by the database, whatever it was doing.

The processes are real ones of the operating system. What an owner acknowledged stays; fsck finds nothing afterwards.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from memory.fsck import fsck
from store.ledger.postgres import PostgresLedger
from tests.support.owner_process import OwnerProcess, resource_of
from tests.support.stores import Addresses, Writer, evidence_append, fresh_namespace
from tests.support.trials import make_evidence

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc whether a process is stopped")

Pair = tuple[OwnerProcess, OwnerProcess]


@pytest.fixture(scope="module")
def processes(ledger_database: Addresses) -> Iterator[Pair]:
    """Two live processes; each test makes them owners of a namespace of its own."""
    pair = OwnerProcess(ledger_database.app), OwnerProcess(ledger_database.app)
    yield pair
    for process in pair:
        process.end()


@pytest.fixture
def store(ledger_database: Addresses) -> Iterator[PostgresLedger]:
    store = PostgresLedger(ledger_database.app, "watch")
    yield store
    with store.reading() as reader:
        report = fsck(reader, None, None)
    store.close()
    assert report.clean, report.text()


@pytest.fixture
def namespace() -> str:
    return fresh_namespace()


def keys(store: PostgresLedger, namespace: str) -> set[str]:
    return {row.permit_key for row in store.journal(namespace, limit=100_000)}


def test_the_stale_one_is_refused_at_its_next_statement(processes: Pair, store: PostgresLedger, namespace: str) -> None:
    first = processes[0].claim(namespace)
    assert first.commit(1) == "committed k1"
    second = processes[1].claim(namespace)
    assert second.epoch == first.epoch + 1
    assert first.commit(2) == "fenced"
    assert second.commit(3) == "committed k3"
    assert first.commit(4) == "fenced"
    assert second.commit(1) == "committed k1"  # what the first one acknowledged is there
    assert keys(store, namespace) == {"k1", "k3"}


def test_while_it_sits_in_an_open_transaction(processes: Pair, store: PostgresLedger, namespace: str) -> None:
    first = processes[0].claim(namespace)
    first.tell("hold 1")
    assert first.hear() == "inside"  # its rows are locked and its records half written
    second = processes[1].claim(namespace)
    assert second.commit(2) == "committed k2"
    first.tell("go on")
    assert first.hear() == "fenced"
    assert keys(store, namespace) == {"k2"}


def test_while_it_is_stopped_between_two_commits(processes: Pair, store: PostgresLedger, namespace: str) -> None:
    first = processes[0].claim(namespace)
    assert first.commit(1) == "committed k1"
    stop(first)
    second = processes[1].claim(namespace)
    assert second.commit(2) == "committed k2"
    first.signal(signal.SIGCONT)
    assert first.commit(3) == "fenced"
    assert keys(store, namespace) == {"k1", "k2"}


def test_while_it_is_stopped_inside_a_transaction(processes: Pair, store: PostgresLedger, namespace: str) -> None:
    first = processes[0].claim(namespace)
    first.tell("hold 1")
    assert first.hear() == "inside"
    stop(first)
    second = processes[1].claim(namespace)
    assert second.commit(2) == "committed k2"
    first.tell("go on")
    first.signal(signal.SIGCONT)
    assert first.hear() == "fenced"
    assert second.commit(1) == "committed k1"
    assert keys(store, namespace) == {"k1", "k2"}


def stop(process: OwnerProcess) -> None:
    process.signal(signal.SIGSTOP)
    while not process.stopped():  # the kernel does it at once; asking it is the wait
        pass


@pytest.mark.parametrize("rounds", [20])
def test_claims_that_race_commits_lose_nothing_that_was_acknowledged(
    processes: Pair, store: PostgresLedger, namespace: str, rounds: int
) -> None:
    """An owner commits as fast as it can while the next one claims; every answer that it gave is in the journal."""
    acknowledged: set[str] = set()
    owner, successor = processes[0].claim(namespace), processes[1]
    for number in range(1, rounds + 1):
        heard: list[str] = []

        def work(owner: OwnerProcess = owner, heard: list[str] = heard, first: int = number * 1000) -> None:
            seed = first
            while not heard or heard[-1].startswith("committed"):
                heard.append(owner.commit(seed))
                seed += 1

        busy = threading.Thread(target=work)
        busy.start()
        successor.claim(namespace)
        assert successor.epoch == owner.epoch + 1
        busy.join(60)
        assert not busy.is_alive()
        assert heard[-1] == "fenced"
        acknowledged |= {line.removeprefix("committed ") for line in heard[:-1]}
        owner, successor = successor, owner
    assert acknowledged <= keys(store, namespace)
    head = store.namespace_head(namespace)
    assert [row.position for row in store.journal(namespace, limit=100_000)] == list(range(1, head.position + 1))


def test_claims_in_this_process_race_a_group_of_another(processes: Pair, store: PostgresLedger, namespace: str) -> None:
    """The claim comes while a group is in the middle; either the whole group is there and told, or nothing of it."""
    owner = processes[0].claim(namespace)
    owner.tell("hold 1")
    assert owner.hear() == "inside"
    epoch = store.claim(resource_of(namespace), "here")
    owner.tell("go on")
    assert owner.hear() == "fenced"
    writer = Writer(store, namespace, epoch)
    assert not writer.journal()
    group = [evidence_append(make_evidence(namespace, seed=seed), f"k{seed}") for seed in (1, 2)]
    assert all(answer.committed for answer in writer.good(*group))
