"""Enqueue handoffs that were cut short: the drain, the Store's three proofs, retry and recovery (spec 8.1, VRM-W09)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from memory.coordinator import CommitCoordinator
from memory.handoffs import prove, recovery_request
from memory.orphans import Orphans
from memory.spine import Spine
from records.appends import AppendReceipt
from records.errors import (
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    InvalidRecordError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.handoffs import AbandonedPresent, Absent, EnqueueAttempt, QueuedPresent, StoreProof
from records.ids import HandoffId, ReceiptId, WorkItemId
from records.ingestion import ReceiptDisposition
from records.outcomes import NoCommitReason
from records.runtime import Applied, Command, Move, Subject
from records.states import Event, Machine, Phase
from store.runtime.port import RuntimeReader
from tests.support.stack import Crash, Faults, Stack, record_of
from tests.support.stack_handoffs import STEPS, Scene, SlowRuntime
from tests.support.stores import expect
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

SAID = {"opened": Absent, "published": Absent, "granted": Absent, "appended": QueuedPresent}
"""What the Store must say about an attempt that was retired after a cut at each step."""


@pytest.mark.parametrize("step", STEPS)
def test_vrm_w09_a_cut_enqueue_goes_on(stack: Stack, step: str) -> None:
    """Without retirement recovery asks for the append again; a lost bind reply is bound by what is read back."""
    scene = Scene(stack).cut(step)
    scene.stack.recover()
    scene.ingest()
    assert scene.phases() == {Phase.BOUND}
    assert scene.attempts() == {(1, 1)}
    scene.finish()
    scene.require_clean()


@pytest.mark.parametrize("step", SAID)
def test_vrm_w09_a_retired_attempt_is_closed_by_what_the_store_says(stack: Stack, step: str) -> None:
    """What had committed is bound, under the attempt that did it; what had not is absent, and stays so."""
    scene = Scene(stack).cut(step)
    scene.retire()
    assert scene.phases() == {Phase.RETIRED}
    assert scene.attempts() == {(2, 2)}
    proofs = [expect(SAID[step], each) for each in scene.recovered()]
    assert {(each.request.attempt.generation, each.request.attempt.fence) for each in proofs} == {(1, 1)}
    assert not scene.granted()
    committed = SAID[step] is QueuedPresent
    assert scene.phases() == {Phase.BOUND if committed else Phase.PROVED_ABSENT}
    scene.require_clean()
    scene.ingest()
    assert scene.phases() == {Phase.BOUND}
    sidecars = scene.stack.load("enqueue-transaction")
    assert {(each.attempt_generation, each.attempt_fence) for each in sidecars} == {(1, 1) if committed else (2, 2)}
    scene.finish()
    scene.require_clean()


@pytest.mark.parametrize("step", ["granted", "appended"])
def test_vrm_w09_recovery_may_be_cut_anywhere(stack: Stack, step: str) -> None:
    counted = Faults()
    probe = Scene(stack, "probe").cut(step)
    probe.retire()
    Stack(stack.stores, stack.namespace, counted).orphans.recover()
    wanted = probe.phases()
    assert len(counted.calls) > 5
    for at in range(1, len(counted.calls) + 1):
        for after in (False, True):
            scene = Scene(Stack(stack.stores, stack.namespace), f"run-{at}-{after}").cut(step)
            scene.retire()
            with pytest.raises(Crash):
                Stack(stack.stores, stack.namespace, Faults(at, after)).orphans.recover()
            scene.stack = Stack(stack.stores, stack.namespace)
            assert not [each for each in scene.recovered() if isinstance(each, VrmError)]
            assert scene.phases() == wanted, counted.calls[at - 1]
    scene.require_clean()


def test_vrm_w09_absence_is_not_said_before_the_drain(stack: Stack) -> None:
    """As long as the grant has no answer its append may still come."""
    scene = Scene(stack).cut("granted")
    scene.retire()
    with scene.stack.stores.ledger.reading() as reader:
        for handoff in scene.handoffs():
            with pytest.raises(StaleError, match="no answer"):
                prove(reader, recovery_request(handoff))
    early = [Absent(request=recovery_request(each), frontier=scene.stack.position()) for each in scene.handoffs()]
    before = scene.stack.state()
    for proof in early:
        assert isinstance(closed(scene, proof), StaleError)
    assert scene.stack.state() == before


def test_vrm_w09_an_append_of_a_retired_attempt_is_a_typed_no_commit(stack: Stack) -> None:
    """The drain gives the grant its one answer, and an append that comes after it gets the same."""
    scene = Scene(stack).cut("granted")
    scene.retire()
    keys = scene.authorizations()
    first = [expect(AppendReceipt, each) for each in scene.stack.coordinator.append_granted(keys)]
    assert {each.reason for each in first} == {NoCommitReason.PRECONDITION_CONFLICT}
    refusal: Any = record_of(scene.stack, str(first[0].no_commit_id))
    assert "the attempt was retired" in refusal.detail
    assert all(isinstance(each, Absent) for each in scene.recovered())
    before = scene.stack.state()
    assert scene.stack.coordinator.append_granted(keys) == first
    assert scene.stack.owner.reconcile(keys) == first
    assert scene.stack.state() == before


@pytest.mark.parametrize("late", [False, True], ids=["before-the-drain", "after-the-drain"])
def test_vrm_w09_a_coordinator_that_slept_through_the_retirement(stack: Stack, late: bool) -> None:
    """It looked at the handoff while the attempt was current; whichever append is first is the answer for both."""
    scene = Scene(stack).cut("granted")
    stores = scene.stack.stores
    slow = SlowRuntime(stores.runtime)
    coordinator = CommitCoordinator(stores.ledger, cast("RuntimeReader", slow), stores.artifacts, "slow")
    spine = Spine(stores.artifacts, scene.stack.owner, coordinator)
    orphans = Orphans(stores.runtime, stores.ledger, stores.artifacts, scene.stack.owner, spine)
    seen = scene.handoffs()
    scene.retire()
    if late:
        assert all(isinstance(each, Absent) for each in scene.recovered(orphans))
    before = scene.stack.position()
    slow.sleep(seen)
    receipts = [expect(AppendReceipt, each) for each in coordinator.append_granted(scene.authorizations())]
    slow.asleep = False
    assert {each.committed for each in receipts} == {not late}
    if late:
        assert scene.stack.position() == before
        assert scene.phases() == {Phase.PROVED_ABSENT}
    else:
        assert all(isinstance(each, QueuedPresent) for each in scene.recovered(orphans))
        assert scene.phases() == {Phase.BOUND}
    scene.require_clean()


def test_vrm_w09_a_retired_attempt_gets_no_second_grant(stack: Stack) -> None:
    """Nor is it bound by its own settlement; only a proof closes it."""
    scene = Scene(stack).cut("granted")
    scene.retire()
    failures = scene.stack.campaigns.ingest(scene.run_id, lambda _done: None)
    assert len(failures) == 2
    assert all(isinstance(each.error, StaleError | IllegalTransitionError) for each in failures)
    assert scene.phases() == {Phase.RETIRED}
    scene.stack.recover()
    assert scene.phases() == {Phase.RETIRED}
    assert not scene.granted()


def test_vrm_w09_a_run_does_not_end_over_an_open_handoff(stack: Stack) -> None:
    scene = Scene(stack).cut("opened").absent()
    with pytest.raises(StaleError, match="still open"):
        scene.stack.complete(scene.run_id)


def closed(scene: Scene, proof: StoreProof) -> Applied | VrmError:
    """Publish a proof and have it close its handoff."""
    return scene.stack.owner.resolve([scene.stack.stores.artifacts.publish(proof.canonical)])[0]


def bent(kind: str, proof: Absent, other: Subject) -> StoreProof:
    """Return a proof that is not the one of its handoff."""
    request = proof.request
    foreign = recovery_request(other)
    older = EnqueueAttempt.of(request.handoff_id, 0, 0)
    told = {"receipt_id": ReceiptId.derive({"made": "up"}), "receipt_digest": digest("receipt")}
    match kind:
        case "swapped":
            return proof.model_copy(update={"request": foreign.model_copy(update={"handoff_id": request.handoff_id})})
        case "older":
            return proof.model_copy(update={"request": request.model_copy(update={"attempt": older})})
        case "other-item":
            item = WorkItemId.derive({"made": "up"})
            return proof.model_copy(update={"request": request.model_copy(update={"work_item_id": item})})
        case "other-bytes":
            return proof.model_copy(
                update={"request": request.model_copy(update={"work_item_digest": digest("other")})}
            )
        case "foreign":
            handoff = HandoffId.derive({"made": "up"})
            return proof.model_copy(update={"request": request.model_copy(update={"handoff_id": handoff})})
        case "of-tomorrow":
            return proof.model_copy(update={"frontier": proof.frontier + 1})
        case _:
            return AbandonedPresent.build(request=request, frontier=proof.frontier, **told)


BENT = {
    "swapped": StaleError, "older": StaleError, "other-item": StaleError, "other-bytes": StaleError,
    "foreign": NotFoundError, "of-tomorrow": IntegrityError, "other-kind": StaleError,
}  # fmt: skip


@pytest.mark.parametrize("kind", BENT)
def test_vrm_w09_a_proof_that_is_not_the_own_closes_nothing(stack: Stack, kind: str) -> None:
    scene = Scene(stack).cut("opened")
    scene.retire()
    first, second = scene.handoffs()
    with scene.stack.stores.ledger.reading() as reader:
        proof = expect(Absent, prove(reader, recovery_request(first)))
    before = scene.stack.state()
    assert isinstance(closed(scene, bent(kind, proof, second)), BENT[kind])
    assert scene.stack.state() == before
    assert closed(scene, proof) == Applied(replayed=False)
    assert closed(scene, proof) == Applied(replayed=True)


def test_vrm_w09_a_proof_of_an_older_generation_closes_no_newer_attempt(stack: Stack) -> None:
    """Absence was true of the first attempt; the second one is asked about anew, and did commit."""
    scene = Scene(stack).cut("opened").absent()
    old = scene.proofs()
    scene.cut("appended")
    scene.retire()
    scene.stack.recover()
    before = scene.stack.state()
    assert all(isinstance(each, StaleError) for each in scene.stack.owner.resolve(old))
    assert scene.stack.state() == before
    assert all(isinstance(each, QueuedPresent) for each in scene.recovered())
    assert scene.phases() == {Phase.BOUND}
    assert all(isinstance(each, StaleError) for each in scene.stack.owner.resolve(old))
    scene.require_clean()


def test_vrm_w09_what_is_no_published_proof_closes_nothing(stack: Stack) -> None:
    scene = Scene(stack).cut("opened")
    scene.retire()
    with scene.stack.stores.ledger.reading() as reader:
        proof = prove(reader, recovery_request(scene.handoffs()[0]))
    publish = scene.stack.stores.artifacts.publish
    before = scene.stack.state()
    given = [digest("never"), publish(b"{}"), publish(proof.canonical + b" "), publish(b'{"proof":"PERHAPS"}')]
    answers = scene.stack.owner.resolve(given)
    wanted = [NotFoundError, InvalidRecordError, IntegrityError, InvalidRecordError]
    assert [type(each) for each in answers] == wanted
    assert scene.stack.state() == before


@pytest.mark.parametrize(
    "event",
    [Event.QUEUED_PRESENT, Event.ABANDONED_PRESENT, Event.ABSENT, Event.GRANT_ABANDON, Event.ABANDONED, Event.RELEASE],
)
def test_vrm_w09_no_plain_command_closes_or_releases_a_handoff(stack: Stack, event: Event) -> None:
    scene = Scene(stack).cut("opened")
    scene.retire()
    before = scene.stack.state()
    move = Move(machine=Machine.HANDOFF, id=scene.ids()[0], event=event, generation=2, fence=2)
    assert isinstance(scene.stack.owner.apply([Command(moves=(move,))])[0], InvalidInputError)
    assert scene.stack.state() == before


def test_vrm_w09_a_retirement_of_an_attempt_that_is_over_is_stale(stack: Stack) -> None:
    scene = Scene(stack).cut("granted")
    scene.retire()
    before = scene.stack.state()
    answers = scene.stack.orphans.retire([*scene.ids(), HandoffId.derive({"made": "up"})])
    assert [type(each) for each in answers] == [IllegalTransitionError, IllegalTransitionError, NotFoundError]
    assert scene.stack.state() == before


def test_vrm_w09_a_receipt_of_another_kind_leaves_the_attempt_unproved(stack: Stack) -> None:
    """Absence includes the absence of any receipt; none of the three proofs says what happened here."""
    scene = Scene(stack).cut("granted")
    scene.retire()
    request = recovery_request(scene.handoffs()[0])
    scene.stack.campaigns._receipts(
        [(record_of(scene.stack, request.experience_id), (ReceiptDisposition.DEFERRED, ("by-hand",)))]  # type: ignore[list-item]
    )
    answers = scene.recovered()
    assert [type(each) for each in answers].count(StaleError) == 1
    assert [type(each) for each in answers].count(Absent) == 1
