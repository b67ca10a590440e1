"""Owners that are killed, stopped and replaced at the worst moments: real signals, and fsck as the oracle.

The moments are held open by the database: a row that somebody else has locked, or a trigger that waits at commit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psutil
import psycopg
import pytest

from actors import handles
from memory.coordinator import CommitCoordinator
from memory.heads import LifecycleHeads
from memory.ports import all_good
from records.appends import AppendReceipt
from records.errors import FencedError
from store.ledger.postgres import PostgresLedger
from tests.cluster.installation import Installation, Study, gone, until

COMMIT_LOCK = 4711
HEADS = tuple(f"lifecycle-head/{number}" for number in range(handles.HEAD_HOSTS))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def held(place: Installation, statement: str, parameters: Sequence[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Hold what a statement locks until the block ends."""
    with psycopg.connect(place.ledger_database.superuser) as link:
        link.execute(statement.encode(), parameters)
        yield link
        link.rollback()


def head_of(study: Study) -> tuple[str, list[str]]:
    """Return what locks a namespace's journal, so that every append waits for it."""
    return "SELECT 1 FROM ledger.namespace_heads WHERE namespace = %s FOR UPDATE", [study.namespace]


def receipt_of(study: Study, key: str) -> tuple[str, list[str]]:
    """Return what makes the insertion of one receipt wait."""
    return "INSERT INTO ledger.append_receipts VALUES (%s, %s, repeat('0', 64), '', '')", [study.namespace, key]


@contextmanager
def commits_held(place: Installation) -> Iterator[psycopg.Connection[Any]]:
    """Let every commit that holds a receipt wait, inside COMMIT, for a lock that the returned connection holds."""
    with place.watch() as link:
        link.execute(
            f"CREATE FUNCTION public.wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_advisory_xact_lock({COMMIT_LOCK}); RETURN NULL; END $$".encode()
        )
        link.execute(
            "CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON ledger.append_receipts "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wait_at_commit()"
        )
        link.execute("SELECT pg_advisory_lock(%s)", [COMMIT_LOCK])
        yield link
        link.execute("DROP TRIGGER wait_at_commit ON ledger.append_receipts")
        link.execute("DROP FUNCTION public.wait_at_commit()")


def start(threads: ThreadPoolExecutor, study: Study, ids: list[str]) -> Future[list[AppendReceipt]]:
    """Append from another thread, wait until the coordinator stands before the lock, and return the call."""
    call = threads.submit(study.append, ids)
    study.place.until_blocked(study.place.owner_pid())
    return call


def test_killed_between_grant_and_append(study: Study) -> None:
    ids = study.grant(0)
    pid = study.place.owner_pid()
    os.kill(pid, signal.SIGKILL)
    study.require_once(ids, study.append(ids))
    assert study.place.owner_pid() != pid
    assert gone(pid)


def test_killed_in_the_middle_of_a_group(study: Study, threads: ThreadPoolExecutor) -> None:
    ids = study.grant(0, 1, 2)
    place, pid = study.place, study.place.owner_pid()
    with held(place, *receipt_of(study, ids[1])):  # the first append is written by then, the second is not
        call = start(threads, study, ids)
        os.kill(pid, signal.SIGKILL)
        until(lambda: place.owner_pid() not in {0, pid})
        assert not place.ledger.receipts(study.namespace, ids)
    study.require_once(ids, call.result())


def test_killed_after_the_commit_and_before_the_reply(study: Study, threads: ThreadPoolExecutor) -> None:
    ids = study.grant(0, 1)
    place, pid = study.place, study.place.owner_pid()
    with commits_held(place) as link:
        call = start(threads, study, ids)
        os.kill(pid, signal.SIGSTOP)  # from here on it cannot learn how the commit ended
        link.execute("SELECT pg_advisory_unlock(%s)", [COMMIT_LOCK])
        until(lambda: len(place.ledger.receipts(study.namespace, ids)) == len(ids))
        committed = place.ledger.receipts(study.namespace, ids)
        os.kill(pid, signal.SIGKILL)
        receipts = call.result()
    assert receipts == [committed[key] for key in ids]
    study.require_once(ids, receipts)


def test_run_owner_killed_before_and_after_a_grant(study: Study) -> None:
    proposals = study.proposals(0)
    digests = study.place.artifacts.publish_many([each.canonical for each in proposals])
    study.place.owners.run_owner.handle.kill()
    first = study.place.owners.run_owner.grant(digests)
    study.place.owners.run_owner.handle.kill()
    assert study.place.owners.run_owner.grant(digests) == first
    ids = [str(each.id) for each in all_good(first)]
    study.require_once(ids, study.append(ids))


def test_stale_coordinator_is_refused_by_the_database_and_leaves(study: Study) -> None:
    place, ids = study.place, study.grant(0, 1)
    pid = place.owner_pid()
    rival_ledger = PostgresLedger(place.settings.ledger_dsn, "rival")
    rival = CommitCoordinator(rival_ledger, place.runtime, place.artifacts, "rival")
    first = all_good(rival.append_granted(ids[:1]))
    # The actor still has its name and its process; its next statement is refused, and a successor answers the call.
    receipts = study.append(ids)
    assert receipts[:1] == first
    assert gone(pid)
    with pytest.raises(FencedError):
        rival.append_granted(ids)
    rival_ledger.close()
    study.require_once(ids, receipts)


def test_stopped_inside_a_transaction_and_woken_after_its_successor(study: Study, threads: ThreadPoolExecutor) -> None:
    place, ids = study.place, study.grant(0, 1)
    pid = place.owner_pid()
    beside = place.again()
    assert beside.settings.actor_name("x") != place.settings.actor_name("x")
    with held(place, *receipt_of(study, ids[1])):
        call = start(threads, study, ids)  # the old one holds its epoch, the journal head and its first append
        os.kill(pid, signal.SIGSTOP)
        until(lambda: place.fsck().clean)  # readers are not blocked
        # All that the old one had to say was sent, its COMMIT too: only a claim keeps the server from doing it.
        successor = threads.submit(beside.owners.coordinator.append_granted, ids)
        until(lambda: beside.owner_pid() not in {0, pid})
        place.until_blocked(beside.owner_pid())
        assert not place.ledger.receipts(study.namespace, ids)
    receipts = all_good(successor.result())
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    os.kill(pid, signal.SIGCONT)
    assert call.result() == receipts, "the old one is refused and leaves; whoever comes next replays"
    assert gone(pid)
    study.require_once(ids, receipts)
    beside.close()


def test_process_that_hangs_is_replaced(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "_SILENCE_SECONDS", 1.0)
    ids = study.grant(0)
    pid = study.place.owner_pid()
    os.kill(pid, signal.SIGSTOP)
    study.require_once(ids, study.append(ids))
    assert gone(pid), "Ray ends a process that does not answer"


@pytest.mark.parametrize("killed", [False, True], ids=["claimed elsewhere", "killed"])
def test_reservation_of_a_replaced_host_makes_the_commit_abort(study: Study, killed: bool) -> None:
    place, ids = study.place, study.grant(0)
    owners, coordinator = place.owners, place.owner_pid()
    (stale,) = owners.heads.reserve(study.namespace, "plan", study.events())
    number = HEADS.index(stale.fence[0])
    if killed:
        pid = place.owner_pid(stale.fence[0])
        os.kill(pid, signal.SIGKILL)
        until(lambda: place.owner_pid(stale.fence[0]) not in {0, pid})
    else:
        elsewhere = PostgresLedger(place.settings.ledger_dsn, "elsewhere")
        LifecycleHeads(elsewhere, "elsewhere", number)
        elsewhere.close()
    with pytest.raises(FencedError) as caught:
        owners.coordinator.append_granted(ids, [stale.fence])
    assert caught.value.field == stale.fence[0]
    assert not place.ledger.receipts(study.namespace, ids)
    assert place.owner_pid() == coordinator, "the coordinator is not the one that was replaced"
    (fresh,) = owners.heads.reserve(study.namespace, "another plan", study.events())
    assert fresh.fence > stale.fence
    receipts = all_good(owners.coordinator.append_granted(ids, [fresh.fence]))
    owners.heads.release("another plan")
    study.require_once(ids, receipts)
