"""Abandonment of a handoff, one of its two ends, on both adapters (spec 8.1, VRM-W09)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import pytest

from memory.fsck import Code, fsck
from memory.garbage import collect
from memory.orphans import Abandonment
from memory.ports import all_good
from records.appends import Append, AppendReceipt, Proposal
from records.canonical import parse_canonical
from records.control import ControlCause, ControlEvent, ControlKind
from records.errors import (
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import Authority, Transition
from records.handoffs import AbandonedPresent, AbandonmentProof, QueuedPresent
from records.ids import ExperienceId, HandoffId, ReceiptId, WorkItemId
from records.ingestion import AbandonedReceipt, ReceiptDisposition
from records.outcomes import NoCommitReason
from records.states import Phase
from records.values import PolicyIdentity, ProofRef
from store.ledger.port import Request
from tests.support.samples import Common
from tests.support.stack import Crash, Stack, record_of
from tests.support.stack_control import stop
from tests.support.stack_handoffs import CutAt, Scene
from tests.support.stores import expect
from tests.support.trials import NOW, digest
from tests.support.variant_samples import make_abandoned

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def kept_back(stack: Stack) -> list[Proposal]:
    """Let the spine of a stack carry nothing; what it is given is kept in the list."""
    kept: list[Proposal] = []

    def keep(proposals: Sequence[Proposal], fences: object = ()) -> list[Any]:  # noqa: ARG001  # as the spine's
        kept.extend(proposals)
        return []

    stack.spine.carry = keep  # type: ignore[method-assign]
    return kept


class TestAbandonment:
    """Absence proved, a cause published: one honest receipt, and never a retry."""

    @pytest.mark.parametrize("step", ["opened", "granted"])
    def test_vrm_w09_an_experience_keeps_one_honest_receipt(self, stack: Stack, step: str) -> None:
        scene = Scene(stack).cut(step).absent().abandon()
        assert scene.phases() == {Phase.ABANDONED}
        receipts = scene.stack.load("distillation-receipt")
        assert [each.disposition for each in receipts] == [ReceiptDisposition.ABANDONED] * 2
        assert {each.reasons for each in receipts} == {("source_run_cancelled",)}
        assert not scene.stack.load("distillation-work-item")
        proof = AbandonmentProof.load(scene.stack.stores.artifacts.read(receipts[0].proof.digest))
        assert (proof.request.experience_id, proof.retry) == (receipts[0].experience_id, "never")
        scene.finish()
        assert {each.phase for each in scene.handoffs()} == {Phase.ABANDONED}
        assert not scene.stack.load("distillation-work-item")
        scene.require_clean()

    def test_vrm_w09_a_collection_keeps_what_an_abandonment_rests_on(self, stack: Stack) -> None:
        """Proof, absence and cause are named by one another; garbage beside them goes."""
        scene = Scene(stack).cut("granted").absent().abandon()
        artifacts = scene.stack.stores.artifacts
        artifacts.publish(b"nobody names this")
        kept = set(artifacts.digests()) - {digest("nobody names this")}
        stores = scene.stack.stores
        garbage = collect(stores.ledger, stores.runtime, artifacts, published_before=time.time() + 60, remove=True)
        assert [each.name for each in garbage.removed] == [digest("nobody names this")]
        assert set(artifacts.digests()) == kept
        assert scene.cause().digest in kept
        assert set(scene.absences()) <= kept
        scene.finish()
        scene.require_clean()

    def test_vrm_w09_no_retry_is_possible(self, stack: Stack) -> None:
        """A worker that still holds the item, and knows the attempt it would be, gets no grant."""
        scene = Scene(stack).cut("opened").absent()
        kept = kept_back(scene.stack)
        with pytest.raises(ValueError, match="zip"):  # nothing was answered
            scene.stack.campaigns.ingest(scene.run_id, lambda _done: None)
        assert {each.transition for each in kept} == {Transition.ENQUEUE_DISTILLATION}
        scene.stack = Stack(stack.stores, stack.namespace)
        scene.abandon()
        before = scene.stack.state()
        answers = scene.stack.spine.carry(kept)
        assert len(answers) == 2
        assert all(isinstance(each, StaleError) for each in answers)  # its Run is being cancelled
        scene.ingest()
        assert scene.stack.state() == before

    @pytest.mark.parametrize(
        ("name", "after"),
        [
            ("RunOwner.grant", False), ("RunOwner.grant", True), ("CommitCoordinator.append_granted", True),
            ("RunOwner.reconcile", True),
        ],
    )  # fmt: skip
    def test_vrm_w09_a_cut_abandonment_goes_on(self, stack: Stack, name: str, after: bool) -> None:
        scene = Scene(stack).cut("opened").absent()
        wanted = scene.abandonments()
        with pytest.raises(Crash):
            Stack(stack.stores, stack.namespace, CutAt(name=name, after=after)).orphans.abandon(wanted)
        scene.stack = Stack(stack.stores, stack.namespace)
        scene.stack.recover()
        if not after:
            scene.abandon()
        assert scene.phases() == {Phase.ABANDONED}
        assert len(scene.stack.load("distillation-receipt")) == 2
        scene.finish()
        scene.require_clean()

    def test_vrm_w09_a_retired_abandonment_is_closed_by_its_receipt(self, stack: Stack) -> None:
        """ABANDONED_PRESENT: what had committed before the drain is recovered, without an item."""
        scene = Scene(stack).cut("opened").absent()
        cut, wanted = CutAt(name="CommitCoordinator.append_granted", after=True), scene.abandonments()
        with pytest.raises(Crash):
            Stack(stack.stores, stack.namespace, cut).orphans.abandon(wanted)
        scene.stack = Stack(stack.stores, stack.namespace)
        assert scene.phases() == {Phase.ABANDONING}
        scene.retire()
        assert scene.attempts() == {(3, 3)}
        proofs = [expect(AbandonedPresent, each) for each in scene.recovered()]
        assert {each.receipt_id for each in proofs} == {each.id for each in scene.stack.load("distillation-receipt")}
        assert scene.phases() == {Phase.ABANDONED}
        scene.finish()
        scene.require_clean()

    def test_vrm_w09_an_abandonment_that_was_refused_is_proved_anew(self, stack: Stack) -> None:
        """Retired before it was appended, it is a no-commit; the next one rests on a proof of its own attempt."""
        scene = Scene(stack).cut("opened").absent()
        first, wanted = scene.proofs(), scene.abandonments()
        with pytest.raises(Crash):
            Stack(stack.stores, stack.namespace, CutAt(name="RunOwner.grant", after=True)).orphans.abandon(wanted)
        scene.stack = Stack(stack.stores, stack.namespace)
        scene.absent()
        assert not set(first) & set(scene.proofs())
        assert scene.attempts() == {(3, 3)}
        reasons = {each.reason for each in scene.stack.load("no-commit-receipt")}
        assert reasons == {NoCommitReason.PRECONDITION_CONFLICT}
        scene.abandon()
        scene.finish()
        scene.require_clean()

    def test_vrm_w09_only_what_was_proved_absent_is_abandoned(self, stack: Stack) -> None:
        scene = Scene(stack).cut("opened")
        wanted = [*scene.abandonments(), Abandonment(HandoffId.derive({"made": "up"}), scene.cause(), "no_such")]
        before = scene.stack.state()
        assert [type(each) for each in scene.stack.orphans.abandon(wanted)] == [StaleError, StaleError, NotFoundError]
        assert scene.stack.state() == before
        scene.retire()
        assert [type(each) for each in scene.stack.orphans.abandon(wanted)][:2] == [StaleError] * 2


class Announced(Scene):
    """A Run whose cancellation is published, and nobody has carried it out."""

    def cause(self) -> ProofRef:
        event = ControlEvent(
            namespace=self.stack.namespace, run_id=self.run_id, kind=ControlKind.CANCEL_EVENT,
            cause=ControlCause.COMMAND, detail="cancelled", at=NOW,
        )  # fmt: skip
        return ProofRef(ref="announced", digest=self.stack.stores.artifacts.publish(event.canonical))


class Forged:
    """An abandonment whose proposal is made by hand, with one part exchanged."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.handoff, self.other = scene.handoffs()
        scene.stack = Stack(scene.stack.stores, scene.stack.namespace)
        kept = kept_back(scene.stack)
        with pytest.raises(StopIteration):
            scene.stack.orphans.abandon(scene.abandonments()[:1])
        scene.stack = Stack(scene.stack.stores, scene.stack.namespace)
        self.proposal = kept[0]
        self.receipt: AbandonedReceipt = expect(AbandonedReceipt, self.proposal.unpack()[0])
        self.proof = AbandonmentProof.load(self.publish_read(self.receipt.proof.digest))

    def publish_read(self, name: str) -> bytes:
        return self.scene.stack.stores.artifacts.read(name)

    def publish(self, data: bytes) -> str:
        return self.scene.stack.stores.artifacts.publish(data)

    def offer(self, receipt: AbandonedReceipt, **changes: Any) -> Any:
        proposal = self.proposal.model_copy(update={"records": Proposal.bodies((receipt,)), **changes})
        return self.scene.stack.owner.grant([self.publish(proposal.canonical)])[0]

    def with_proof(self, data: bytes) -> AbandonedReceipt:
        return self.receipt.model_copy(
            update={"proof": ProofRef(ref=self.receipt.proof.ref, digest=self.publish(data))}
        )

    def bent_proof(self, **changes: Any) -> AbandonedReceipt:
        return self.with_proof(self.proof.model_copy(update=changes).canonical)

    def bent_request(self, **changes: Any) -> AbandonedReceipt:
        return self.bent_proof(request=self.proof.request.model_copy(update=changes))


def forge(scene: Scene, transition: Transition, authority: Authority, record: Any) -> None:
    """Write a record as somebody with the Ledger's password could: by a legal row, and asked by no guard."""
    store = scene.stack.stores.ledger
    append = Append.direct(transition, f"forged/{record.id}", (record,))
    epoch = store.claim(f"forger/{scene.stack.namespace}", "test")
    all_good(store.commit(epoch, [Request(dataclasses.replace(append, authority=authority))]))


class TestIntegrityCheck:
    """What no flow writes is found, whoever wrote it."""

    def found(self, scene: Scene) -> set[Code]:
        with scene.stack.stores.ledger.reading() as reader:
            return {each.code for each in fsck(reader, None, None, namespace=scene.stack.namespace).violations}

    def test_vrm_w09_an_abandoned_receipt_comes_by_its_own_flow(self, stack: Stack) -> None:
        scene = Scene(stack)
        experience = scene.stack.load("experience")[0]
        receipt = make_abandoned(Common(stack.namespace), experience)
        forge(scene, Transition.RECEIPT_NOT_QUEUED, Authority.DIRECT, receipt)
        assert self.found(scene) == {Code.RECEIPT_ILLEGAL}

    def test_vrm_w09_what_was_abandoned_has_no_item(self, stack: Stack) -> None:
        scene = Scene(stack).cut("opened").absent()
        kept = kept_back(scene.stack)
        with pytest.raises(ValueError, match="zip"):  # nothing was answered
            scene.ingest()
        scene.stack = Stack(stack.stores, stack.namespace)
        scene.abandon()
        assert not self.found(scene)
        item = next(each for each in kept[0].unpack() if each.kind.noun == "distillation-work-item")
        forge(scene, Transition.ENQUEUE_DISTILLATION, Authority.HANDOFF_ATTEMPT, item)
        assert Code.WORK_ITEM_UNRECEIPTED in self.found(scene)


class TestForgedAbandonment:
    """A proof that is foreign, stale, swapped or not there gets no grant, and nothing is written."""

    def test_vrm_w09_the_proof_must_be_the_own(self, stack: Stack) -> None:
        scene = Scene(stack).cut("opened").absent()
        forged = Forged(scene)
        first, second = scene.proofs()
        own = scene.stack.stores.artifacts.read(first)
        again = forged.publish(own.replace(b'"frontier":', b'"frontier":1'))
        queued = QueuedPresent.build(
            request=forged.proof.request, frontier=1, receipt_id=ReceiptId.derive({"a": 1}),
            receipt_digest=digest("a"), sidecar_id="enqueue-transaction:" + "0" * 64, sidecar_digest=digest("b"),
        )  # fmt: skip
        wrong = {
            "never published": (forged.receipt.model_copy(
                update={"proof": ProofRef(ref=forged.receipt.proof.ref, digest=digest("never"))}), NotFoundError),
            "no proof at all": (forged.with_proof(b"{}"), InvalidInputError),
            "not canonical": (forged.with_proof(forged.proof.canonical + b" "), IntegrityError),
            "absence of the other": (forged.bent_proof(absence=second), IntegrityError),
            "absence at another frontier": (forged.bent_proof(absence=again), StaleError),
            "absence never published": (forged.bent_proof(absence=digest("never")), NotFoundError),
            "presence": (forged.bent_proof(absence=forged.publish(queued.canonical)), IntegrityError),
            "no cause": (forged.bent_proof(cause=ProofRef(ref="c", digest=digest("never"))), NotFoundError),
            "a later retry": (
                forged.with_proof(forged.proof.canonical.replace(b'"never"', b'"later"')), InvalidInputError),
            "another item": (forged.bent_request(work_item_id=WorkItemId.derive({"made": "up"})), IntegrityError),
        }  # fmt: skip
        before = scene.stack.state()
        for name, (receipt, error) in wrong.items():
            answer = forged.offer(receipt)
            assert isinstance(answer, error), (name, answer)
        assert scene.stack.state() == before
        assert not isinstance(forged.offer(forged.receipt), VrmError)

    def test_vrm_w09_the_receipt_must_be_of_the_handoff(self, stack: Stack) -> None:
        scene = Scene(stack).cut("opened").absent()
        forged = Forged(scene)
        other = parse_canonical(forged.other.body)
        policy = PolicyIdentity(policy_id="lenient", version="1", digest=digest("lenient"))
        attempt = ProofRef(ref="enqueue-attempt:" + "0" * 64, digest=forged.receipt.proof.digest)
        changes: list[dict[str, Any]] = [
            {"experience_id": ExperienceId.check(other["experience_id"])},
            {"abandoned_work_item_id": WorkItemId.check(other["work_item_id"])},
            {"abandoned_payload_digest": digest("other")},
            {"policy": policy},
            {"proof": attempt},
        ]
        before = scene.stack.state()
        for change in changes:
            answer = forged.offer(forged.receipt.model_copy(update=change))
            assert isinstance(answer, IntegrityError), (change, answer)
        assert isinstance(forged.offer(forged.receipt, generation=1, fence=1), StaleError)
        assert isinstance(forged.offer(forged.receipt, authority=Authority.HANDOFF_ATTEMPT), InvalidInputError)
        assert scene.stack.state() == before

    def test_vrm_w09_a_retry_outdates_the_proof(self, stack: Stack) -> None:
        scene = Announced(stack).cut("opened").absent()
        forged = Forged(scene)
        scene.ingest()
        before = scene.stack.state()
        assert isinstance(forged.offer(forged.receipt), StaleError | IllegalTransitionError)
        assert isinstance(scene.stack.orphans.abandon(scene.abandonments())[0], StaleError)
        assert scene.stack.state() == before

    def test_vrm_w09_a_cancellation_that_nobody_carried_out_is_no_cause(self, stack: Stack) -> None:
        scene = Announced(stack).cut("opened").absent()
        assert isinstance(scene.stack.orphans.abandon(scene.abandonments())[0], StaleError)  # the Run is running
        stop(scene.stack, scene.run_id, fail=False)
        assert isinstance(scene.stack.orphans.abandon(scene.abandonments())[0], IntegrityError)  # by another event
        assert scene.phases() == {Phase.PROVED_ABSENT}
        assert not scene.stack.load("distillation-receipt")

    def test_vrm_w09_what_came_to_be_meanwhile_is_a_typed_no_commit(self, stack: Stack) -> None:
        """A receipt that slipped in after absence was proved refuses the abandonment inside the transaction."""
        scene = Scene(stack).cut("opened").absent()
        experience = record_of(scene.stack, parse_canonical(scene.handoffs()[0].body)["experience_id"])
        scene.stack.campaigns._receipts(
            [(experience, (ReceiptDisposition.DEFERRED, ("by-hand",)))]  # type: ignore[list-item]
        )
        answers = [expect(AppendReceipt, each) for each in scene.stack.orphans.abandon(scene.abandonments())]
        assert [each.reason for each in answers] == [NoCommitReason.PRECONDITION_CONFLICT, None]
        assert [each.phase for each in scene.handoffs()] == [Phase.RETIRED, Phase.ABANDONED]
