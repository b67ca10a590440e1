"""Garbage among artifacts: what is reachable or young stays, and a publisher never loses to a collection."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from memory.fsck import fsck
from memory.garbage import Garbage, collect
from memory.ports import all_good
from records.canonical import canonical_bytes, digest_bytes
from records.errors import IntegrityError, NotFoundError, UnavailableError
from records.runtime import Command, Create, Move, reference_id
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerReader, OpenLedger
from store.runtime.memory import MemoryRuntime
from tests.support.stack import GOOD, Stack, Stores, effects
from tests.support.stack_decisions import Study, learn

CUTOFF = 1_000_000.0
"""Files of the tests are older than this (`aged`), or as young as now."""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path))), "space")


def aged(store: ArtifactStore, digest: str) -> str:
    os.utime(store.location(digest), (0, 0))
    return digest


def all_aged(store: ArtifactStore) -> set[str]:
    return {aged(store, digest) for digest in store.digests()}


def sweep(stack: Stack, *, remove: bool = True, ledger: OpenLedger | None = None) -> Garbage:
    stores = stack.stores
    return collect(ledger or stores.ledger, stores.runtime, stores.artifacts, published_before=CUTOFF, remove=remove)


def names(found: Any) -> list[str]:
    return [each.name for each in found]


def refer(stack: Stack, digest: str) -> str:
    """Hold bytes by a reference of an auditor."""
    name = reference_id("AUDIT:1", digest)
    body = canonical_bytes({"owner": "AUDIT:1", "digest": digest}).decode()
    made = Create(machine=Machine.REFERENCE, id=name, run_id=None, phase=Phase.ACTIVE, body=body)
    all_good(stack.owner.apply([Command(key=(Machine.REFERENCE, name), creates=(made,))]))
    return str(name)


def test_all_that_a_store_rests_on_stays(stack: Stack) -> None:
    """After a whole round and decisions in both arms, however old, the integrity check misses nothing."""
    recall_input = learn(stack, GOOD)
    for arm in ("control", "memory"):
        Study(stack, "study", arm, recall_input).decide()
    kept = all_aged(stack.stores.artifacts)
    rubbish = aged(stack.stores.artifacts, stack.stores.artifacts.publish(b"rubbish"))
    garbage = sweep(stack)
    gone = set(names(garbage.removed))
    assert rubbish in gone
    with stack.stores.ledger.reading() as reader:
        assert fsck(reader, stack.stores.runtime, stack.stores.artifacts).clean
    assert kept - gone == set(stack.stores.artifacts.digests())
    assert not stack.recover()
    assert not stack.study("second", effects(stack, "second", {"e": 0.06, "f": 0.055}, seed=1))


def test_an_unresolved_grant_keeps_its_proposal(stack: Stack) -> None:
    stack.study("first", effects(stack, "first", GOOD))
    all_aged(stack.stores.artifacts)
    sweep(stack)
    for subject in stack.stores.runtime.find(Machine.AUTHORIZATION):
        assert stack.coordinator.append_granted([subject.id])[0].committed  # type: ignore[union-attr]


def test_a_dry_run_removes_nothing(stack: Stack) -> None:
    digest = aged(stack.stores.artifacts, stack.stores.artifacts.publish(b"rubbish"))
    garbage = sweep(stack, remove=False)
    assert (names(garbage.found), garbage.removed, garbage.looked_at) == ([digest], (), 1)
    assert stack.stores.artifacts.holds(digest)
    assert garbage.found[0].size == len(b"rubbish")


def test_what_is_young_stays_and_so_does_what_it_names(stack: Stack) -> None:
    """A proposal that nobody granted yet names the proof that its records will rest on."""
    store = stack.stores.artifacts
    proof = aged(store, store.publish(b"a proof"))
    step = aged(store, store.publish(canonical_bytes({"proof": proof})))
    other = aged(store, store.publish(b"rubbish"))
    young = store.publish(canonical_bytes({"rests on": [step]}))
    assert names(sweep(stack).removed) == [other]
    assert set(store.digests()) == {proof, step, young}


def test_bytes_that_only_name_themselves_in_a_circle_of_garbage_go(stack: Stack) -> None:
    store = stack.stores.artifacts
    first = aged(store, store.publish(b"first"))
    second = aged(store, store.publish(first.encode()))
    assert set(names(sweep(stack).removed)) == {first, second}


def test_an_active_reference_holds_and_a_released_one_does_not(stack: Stack) -> None:
    store = stack.stores.artifacts
    digest = aged(store, store.publish(b"for the audit"))
    name = refer(stack, digest)
    assert not sweep(stack).found
    move = Move(machine=Machine.REFERENCE, id=name, event=Event.RELEASE, generation=1, fence=1)
    all_good(stack.owner.apply([Command(moves=(move,))]))
    assert names(sweep(stack).removed) == [digest]
    with pytest.raises(NotFoundError):
        store.read(digest)


class Meanwhile:
    """A Ledger during whose reading something else happens."""

    def __init__(self, inner: OpenLedger, act: Any) -> None:
        self._inner, self._act = inner, act

    @contextmanager
    def reading(self) -> Iterator[LedgerReader]:
        self._act()
        with self._inner.reading() as reader:
            yield reader


def test_what_is_published_again_during_a_collection_stays(stack: Stack) -> None:
    """It was old when ages were read and nothing names it; the publisher's record is yet to come."""
    store = stack.stores.artifacts
    digest = aged(store, store.publish(b"used again"))
    late = Meanwhile(stack.stores.ledger, lambda: store.publish(b"used again"))
    garbage = sweep(stack, ledger=cast("OpenLedger", late))
    assert names(garbage.found) == [digest]
    assert garbage.removed == ()
    assert store.read(digest) == b"used again"


def test_what_is_dropped_before_it_is_published_again_is_written_again(stack: Stack) -> None:
    store = stack.stores.artifacts
    digest = aged(store, store.publish(b"used again"))
    assert store.drop(digest, CUTOFF)
    assert not store.drop(digest, CUTOFF)
    assert store.publish(b"used again") == digest
    assert not store.drop(digest, CUTOFF)
    assert store.read(digest) == b"used again"


def test_a_drop_waits_for_a_publisher_that_is_about_to_make_young(stack: Stack) -> None:
    """Both hold the lock of the folder, so that looking at the age and removing are one step."""
    store = stack.stores.artifacts
    digest = aged(store, store.publish(b"used again"))
    answers: list[bool] = []
    dropper = threading.Thread(target=lambda: answers.append(store.drop(digest, CUTOFF)))
    with store._locked(fcntl.LOCK_SH):
        dropper.start()
        dropper.join(timeout=0.2)
        assert dropper.is_alive()
        os.utime(store.location(digest))
    dropper.join()
    assert answers == [False]
    assert store.holds(digest)


def test_publishers_and_a_collector_at_once(stack: Stack) -> None:
    """Whatever was published a moment ago can be read, though each byte string grows old again and again."""
    store, stop = stack.stores.artifacts, threading.Event()
    datas = [f"bytes {number}".encode() for number in range(5)]
    lost: list[str] = []

    def collector() -> None:
        while not stop.is_set():
            for data in datas:
                store.drop(digest_bytes(data), CUTOFF)

    worker = threading.Thread(target=collector)
    worker.start()
    try:
        for number in range(300):
            digest = store.publish(datas[number % len(datas)])
            if store.holds(digest):
                os.utime(store.location(digest), (0, 0))
            else:
                lost.append(digest)
    finally:
        stop.set()
        worker.join()
    assert not lost


def test_unfinished_files_of_writers_that_are_gone_are_swept(stack: Stack) -> None:
    store = stack.stores.artifacts
    place = Path(store.location(store.publish(b"whole")))
    draft, young = (place.with_name(f"{place.name}.{letter * 32}") for letter in "ab")
    notes = place.with_name("notes.txt")
    for file in (draft, young, notes):
        file.write_bytes(b"half")
    os.utime(draft, (0, 0))
    os.utime(notes, (0, 0))
    assert names(sweep(stack).removed) == [draft.name]
    assert (young.exists(), notes.exists()) == (True, True)


def test_bytes_that_were_changed_end_the_collection(stack: Stack) -> None:
    store = stack.stores.artifacts
    rubbish = aged(store, store.publish(b"rubbish"))
    held = store.publish(b"whole")
    refer(stack, held)
    Path(store.location(held)).write_bytes(b"changed")
    with pytest.raises(IntegrityError):
        sweep(stack)
    assert store.holds(rubbish)


def test_only_a_folder_is_swept(stack: Stack) -> None:
    store = ArtifactStore("memory://garbage")
    digest = store.publish(b"rubbish")
    with pytest.raises(UnavailableError):
        collect(stack.stores.ledger, stack.stores.runtime, store, published_before=time.time(), remove=True)
    with pytest.raises(UnavailableError):
        store.drop(digest, time.time())
    assert store.holds(digest)
