"""Threads that race on a Ledger, on both adapters: one permit, one head, one unique key, one journal, one claim.

Every answer is one that some order of the same calls would have given, and the journal is gapless whatever the order.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from records.appends import Append, AppendReceipt
from records.errors import FencedError, IdentityConflictError, IntegrityError, VrmError
from records.flows import Transition
from records.ids import ExperienceId
from records.knowledge import EventType
from records.outcomes import NoCommitReason
from records.values import Disposition
from store.ledger.memory import MemoryLedger
from store.ledger.port import Epoch, LedgerStore, Request
from store.ledger.postgres import PostgresLedger
from tests.support.decision_samples import sample_records
from tests.support.samples import Common, baseline_records, make_event, make_memory
from tests.support.stores import Addresses, Writer, evidence_append, fresh_namespace, granted
from tests.support.trials import make_evidence

RACERS: Final = 6
Stores = Callable[[], LedgerStore]


@pytest.fixture(params=["memory", "postgres"])
def open_store(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Open the same Ledger again and again: one state in memory, a connection of its own on Postgres."""
    if request.param == "memory":
        store = MemoryLedger()
        yield lambda: store
        return
    addresses: Addresses = request.getfixturevalue("ledger_database")
    opened: list[PostgresLedger] = []

    def another() -> LedgerStore:
        opened.append(PostgresLedger(addresses.app, "race"))
        return opened[-1]

    yield another
    for each in opened:
        each.close()


def race(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Carry out all at once; an error of our family is an answer."""
    gate = threading.Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        gate.wait()
        try:
            return act()
        except VrmError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def owners(open_store: Stores, count: int, namespace: str) -> list[Writer]:
    """Return live owners of different resources that write into one namespace, each with a store of its own."""
    stores = [open_store() for _ in range(count)]
    return [
        Writer(store, namespace, store.claim(f"racer/{namespace}/{number}", "race"))
        for number, store in enumerate(stores)
    ]


def commit(writer: Writer, *appends: Append) -> list[Any]:
    return list(writer.store.commit(writer.epoch, [Request(append) for append in appends]))


def first(writer: Writer, append: Append) -> Any:
    """Commit one append and return its answer."""
    return commit(writer, append)[0]


def require_gapless(writer: Writer) -> None:
    rows = writer.store.journal(writer.namespace, limit=100_000)
    assert [row.position for row in rows] == list(range(1, len(rows) + 1))
    assert writer.store.namespace_head(writer.namespace).position == len(rows)


def test_one_permit_gets_one_receipt(open_store: Stores) -> None:
    racers = owners(open_store, RACERS, fresh_namespace())
    append = evidence_append(make_evidence(racers[0].namespace))
    answers = race([partial(first, writer, append) for writer in racers])
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(answers[0], AppendReceipt)
    assert len(racers[0].journal()) == len(append.records)
    require_gapless(racers[0])


def test_one_permit_with_different_requests_has_one_winner(open_store: Stores) -> None:
    racers = owners(open_store, RACERS, fresh_namespace())
    appends = [evidence_append(make_evidence(racers[0].namespace, seed=seed), "one") for seed in range(RACERS)]
    answers = race([partial(first, w, a) for w, a in zip(racers, appends, strict=True)])
    assert Counter(map(type, answers)) == {AppendReceipt: 1, IdentityConflictError: RACERS - 1}
    assert len(racers[0].journal()) == len(appends[0].records)
    require_gapless(racers[0])


def test_one_head_has_one_winner_and_the_others_are_told_whose(open_store: Stores) -> None:
    racers = owners(open_store, RACERS, fresh_namespace())
    namespace = racers[0].namespace
    records = sample_records(namespace)
    pair = (records["evidence-snapshot"], records["capture-operation"])
    evidence = evidence_append([*baseline_records(namespace), *list(records.values())[1:8]])
    commit(racers[0], evidence, Append.direct(Transition.CAPTURE_SNAPSHOT, "capture", pair))
    comparator = ExperienceId(baseline_records(namespace)[-1].id)
    appends = []
    for number in range(RACERS):
        candidate, memory = make_memory(Common(namespace), records, comparator, f"claim {number}")
        event = make_event(Common(namespace), memory, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE)
        appends.append(granted(Transition.COMMIT_DISTILLATION, [candidate, memory, event], f"rival {number}"))
    answers = race([partial(first, w, a) for w, a in zip(racers, appends, strict=True)])
    winners = [answer for answer in answers if answer.committed]
    assert len(winners) == 1
    losers = {answer.reason for answer in answers if not answer.committed}
    assert losers == {NoCommitReason.LIFECYCLE_HEAD_STALE}
    (head,) = racers[0].store.variant_heads(namespace).values()
    assert (head.event_id, head.version) == (winners[0].record_ids[2], 1)
    require_gapless(racers[0])


def test_one_unique_key_has_one_winner(open_store: Stores) -> None:
    """An attempt has one experience; six of them with different analyses are six records for one place."""
    racers = owners(open_store, RACERS, fresh_namespace())
    evidence = make_evidence(racers[0].namespace)
    commit(racers[0], evidence_append(evidence[:7], "base"))
    rivals = [evidence[7].model_copy(update={"analysis": f"analysis {number}"}) for number in range(RACERS)]
    appends = [evidence_append([rival], f"rival-{number}") for number, rival in enumerate(rivals)]
    answers = race([partial(first, w, a) for w, a in zip(racers, appends, strict=True)])
    assert Counter(map(type, answers)) == {AppendReceipt: 1, IntegrityError: RACERS - 1}
    assert len(racers[0].store.find("experience", racers[0].namespace)) == 1
    require_gapless(racers[0])


def test_different_namespaces_do_not_disturb_each_other(open_store: Stores) -> None:
    racers = [owners(open_store, 1, fresh_namespace())[0] for _ in range(RACERS)]

    def work(writer: Writer) -> list[Any]:
        return [
            commit(writer, evidence_append(make_evidence(writer.namespace, seed=seed), f"k{seed}"))[0].positions
            for seed in range(5)
        ]

    answers = race([partial(work, writer) for writer in racers])
    assert all(answer == answers[0] for answer in answers)
    for writer in racers:
        require_gapless(writer)


def test_groups_over_several_namespaces_do_not_deadlock(open_store: Stores) -> None:
    """Each racer names the same two namespaces in an order of its own."""
    names = [fresh_namespace(), fresh_namespace()]
    racers = owners(open_store, RACERS, names[0])

    def work(number: int) -> list[Any]:
        order = names if number % 2 else names[::-1]
        return [
            answer
            for seed in range(4)
            for answer in commit(
                racers[number],
                *(evidence_append(make_evidence(name, seed=10 * number + seed), f"{number}-{seed}") for name in order),
            )
        ]

    answers = race([partial(work, number) for number in range(RACERS)])
    assert all(isinstance(answer, AppendReceipt) for each in answers for answer in each)
    for name in names:
        require_gapless(replace(racers[0], namespace=name))


def test_a_claim_that_races_commits_fences_them_all_from_then_on(open_store: Stores) -> None:
    """Commits go on until each racer is fenced; what was acknowledged is there, what was not may not be half there."""
    store = open_store()
    namespace = fresh_namespace()
    resource = f"shared/{namespace}"
    owner = Writer(store, namespace, store.claim(resource, "first"))
    successor = open_store()
    done: list[AppendReceipt] = []
    begun = threading.Event()

    def work() -> Any:
        for seed in range(10_000):
            done.extend(commit(owner, evidence_append(make_evidence(namespace, seed=seed), f"k{seed}")))
            begun.set()
        raise AssertionError("it was never fenced")

    def claim() -> Epoch:
        begun.wait(60)
        return successor.claim(resource, "second")

    fenced, epoch = race([work, claim])
    assert isinstance(fenced, FencedError)
    assert epoch.number == owner.epoch.number + 1
    acknowledged = {receipt.permit_key for receipt in done}
    assert acknowledged <= {row.permit_key for row in successor.journal(namespace, limit=100_000)}
    assert isinstance(race([lambda: commit(owner, evidence_append(make_evidence(namespace)))])[0], FencedError)
    require_gapless(Writer(successor, namespace, epoch))


def test_racing_claims_get_epochs_of_their_own(open_store: Stores) -> None:
    resource = f"claimed/{fresh_namespace()}"
    stores = [open_store() for _ in range(RACERS)]
    epochs = race([partial(store.claim, resource, "race") for store in stores])
    assert sorted(epoch.number for epoch in epochs) == list(range(1, RACERS + 1))


def test_a_reader_that_is_opened_during_commits_sees_one_moment(open_store: Stores) -> None:
    (writer,) = owners(open_store, 1, fresh_namespace())
    reader_store = open_store()
    finished = threading.Event()

    def write() -> None:
        for seed in range(20):
            commit(writer, evidence_append(make_evidence(writer.namespace, seed=seed), f"k{seed}"))
        finished.set()

    def read() -> list[int]:
        seen = []
        while not finished.is_set():
            with reader_store.reading() as reader:
                head = reader.namespace_head(writer.namespace)
                rows = reader.journal(writer.namespace, limit=100_000)
                assert [row.position for row in rows] == list(range(1, head.position + 1))
                assert len(reader.get_many(row.id for row in rows)) == len(rows)
                assert reader.receipts(writer.namespace, {row.permit_key for row in rows}).keys() == {
                    row.permit_key for row in rows
                }
                assert reader.namespace_head(writer.namespace) == head
            seen.append(head.position)
        return seen

    _, seen = race([write, read])
    assert seen == sorted(seen)
    require_gapless(writer)
