"""Enqueue handoffs: opening, retiring an attempt, the Store's proofs, and what closes it (spec 8.1, VRM-W09).

Rules kept here:

- a handoff at generation and fence (g, f) that is RETIRED, or was proved absent, ended its attempt (g - 1, f - 1);
- the Store answers by one pure function over a reader of one moment, the same for every adapter;
- absence is answered only after the drain. An attempt writes under the one authorization that it was granted, the
  coordinator serialises appends by epoch and namespace lock, and the Ledger gives an authorization one receipt for
  ever. So as long as that receipt is missing nobody may say ABSENT; recovery asks for the append once more, which gets
  a success that was already there, or, since the attempt is over, a no-commit. From then on whoever still holds the
  old attempt gets that same receipt again and writes nothing. An attempt that was never granted cannot write at all;
- a proof closes an attempt only if its request is the one that the handoff makes now, and only if the Store, asked
  again, still gives that answer. What somebody merely claims, or proved for another attempt, closes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory.derive import profile_owner
from memory.guard_rules import R, precondition
from records.appends import Append
from records.canonical import canonical_bytes, parse_canonical
from records.errors import IntegrityError, NotFoundError, StaleError
from records.flows import FLOWS
from records.handoffs import (
    AbandonedPresent,
    Absent,
    EnqueueAttempt,
    HandoffBody,
    QueuedPresent,
    RecoveryRequest,
    StoreProof,
)
from records.ids import AuthorizationId, EnqueueTransactionId, HandoffId, ReceiptId, RunId, WorkItemId
from records.ingestion import AbandonedReceipt, EnqueueTransaction, ExperienceReceipt, ReceiptDisposition, WorkItem
from records.runtime import Authorization, Command, Create, Move, Require, Subject, handoff_id, reference_id
from records.states import Event, Machine, Phase
from store.ledger.port import LedgerReader, Refusal
from store.runtime.port import RuntimeReader

_CLOSES: Final = {
    QueuedPresent: (Event.QUEUED_PRESENT, Phase.BOUND),
    AbandonedPresent: (Event.ABANDONED_PRESENT, Phase.ABANDONED),
    Absent: (Event.ABSENT, Phase.PROVED_ABSENT),
}
"""The event of each proof, and the phase it leads to."""

PROVED: Final = frozenset(event for event, _ in _CLOSES.values())
"""Events that rest on a proof of the Store."""


def opening(item: WorkItem, source_run: RunId) -> Command:
    """Reference the profile's bytes and open the handoff, in one step (spec 8.1, step 2); the Run must be running."""
    work_item_id, digest = WorkItemId(item.id), item.campaign_profile_digest
    owner = profile_owner(work_item_id)
    reference, handoff = reference_id(owner, digest), handoff_id(work_item_id)
    body = HandoffBody(
        namespace=item.namespace,
        experience_id=item.experience_id,
        work_item_id=work_item_id,
        work_item_digest=item.payload_digest,
        policy=item.distillation_policy,
        reference_id=reference,
    )
    return Command(
        key=(Machine.HANDOFF, handoff),
        requires=(Require(machine=Machine.RUN, id=source_run, phase=Phase.RUNNING),),
        creates=(
            Create(
                machine=Machine.REFERENCE,
                id=reference,
                run_id=None,
                phase=Phase.ACTIVE,
                body=canonical_bytes({"owner": owner, "digest": digest}).decode(),
            ),
            Create(
                machine=Machine.HANDOFF,
                id=handoff,
                run_id=source_run,
                phase=Phase.PENDING,
                body=body.canonical.decode(),
            ),
        ),
    )


def retirement(handoff: Subject) -> Command:
    """End the attempt that a handoff is at, whether its grant is resolved or not; whoever works on it is refused."""
    return Command(moves=(Move.of(handoff, Event.RETIRE_ATTEMPT),))


def retired_attempts(runtime: RuntimeReader, authorizations: Iterable[Authorization]) -> frozenset[str]:
    """Return the ids of those authorizations whose attempt is over, of flows in which it may end unresolved."""
    asked = [each for each in authorizations if FLOWS[each.transition].is_retirable]
    over: set[str] = set()
    for machine in {each.machine for each in asked}:
        mine = [each for each in asked if each.machine is machine]
        subjects = runtime.subjects(machine, {each.subject_id for each in mine})
        for each in mine:
            subject = subjects.get(each.subject_id)
            if subject is not None and (subject.generation, subject.fence) != (each.generation, each.fence):
                over.add(str(each.id))
    return frozenset(over)


def guard_retired(_reader: LedgerReader, _append: Append) -> Refusal | None:
    """Refuse the append of an attempt that was retired before the Ledger had an answer for it."""
    return precondition("the attempt was retired before it was appended")


def recovery_request(handoff: Subject) -> RecoveryRequest:
    """Freeze the question about the attempt that a handoff ended last.

    Raises:
        InvalidRecordError: the handoff's body is not one.
    """
    body = HandoffBody.load(handoff.body)
    latest = parse_canonical(handoff.facts).get("authorization")
    return RecoveryRequest(
        namespace=body.namespace,
        experience_id=body.experience_id,
        work_item_id=body.work_item_id,
        work_item_digest=body.work_item_digest,
        policy=body.policy,
        handoff_id=HandoffId.check(handoff.id),
        attempt=EnqueueAttempt.before(HandoffId.check(handoff.id), handoff.generation, handoff.fence),
        authorization_id=None if latest is None else AuthorizationId.check(latest),
    )


def prove(reader: LedgerReader, request: RecoveryRequest) -> StoreProof:
    """Answer a recovery request; `reader` must be of one moment.

    Raises:
        StaleError: the attempt's authorization has no answer yet, or the Experience has a receipt of another kind.
        IntegrityError: what the Ledger holds of the item is not whole, or of another attempt or other bytes.
    """
    if request.authorization_id is not None and reader.receipt(request.namespace, request.authorization_id) is None:
        raise StaleError("attempt", request.authorization_id, "Its grant has no answer yet; append it again first.")
    frontier = reader.namespace_head(request.namespace).position
    receipts = _found(reader, request, ExperienceReceipt, experience_id=str(request.experience_id))
    sidecars = _found(reader, request, EnqueueTransaction, work_item_id=str(request.work_item_id))
    stored = reader.get(request.work_item_id)
    if not receipts and not sidecars and stored is None:
        return Absent(request=request, frontier=frontier)
    if len(receipts) != 1:
        raise IntegrityError("handoff", request.work_item_id, "It is stored without its receipt; run vrm fsck.")
    receipt = receipts[0]
    if isinstance(receipt, AbandonedReceipt) and not sidecars and stored is None:
        return _abandoned(request, frontier, receipt)
    if receipt.disposition is not ReceiptDisposition.QUEUED:
        raise StaleError("receipt", receipt.disposition.value, "The Experience has another receipt than this handoff.")
    item = None if stored is None else stored.load()
    if not isinstance(item, WorkItem) or len(sidecars) != 1:
        raise IntegrityError("handoff", request.work_item_id, "Item, receipt and sidecar are not all there.")
    return _queued(request, frontier, (receipt, item, sidecars[0]))


def _abandoned(request: RecoveryRequest, frontier: int, receipt: AbandonedReceipt) -> AbandonedPresent:
    named = (receipt.abandoned_work_item_id, receipt.abandoned_payload_digest, receipt.policy)
    if named != (request.work_item_id, request.work_item_digest, request.policy):
        raise IntegrityError("receipt", receipt.id, "It abandons another item of this Experience.")
    return AbandonedPresent(
        request=request, frontier=frontier, receipt_id=ReceiptId(receipt.id), receipt_digest=receipt.payload_digest
    )


def _queued(
    request: RecoveryRequest, frontier: int, held: tuple[ExperienceReceipt, WorkItem, EnqueueTransaction]
) -> QueuedPresent:
    receipt, item, sidecar = held
    if receipt.work_item_id != request.work_item_id or item.payload_digest != request.work_item_digest:
        raise IntegrityError("handoff", request.work_item_id, "The Ledger holds another item of this Experience.")
    attempt = (sidecar.handoff_id, sidecar.attempt_id, sidecar.attempt_generation, sidecar.attempt_fence)
    asked = request.attempt
    if attempt != (request.handoff_id, asked.id, asked.generation, asked.fence):
        raise IntegrityError("sidecar", sidecar.attempt_id, f"Another attempt than {asked.id} queued the item.")
    return QueuedPresent(
        request=request,
        frontier=frontier,
        receipt_id=ReceiptId(receipt.id),
        receipt_digest=receipt.payload_digest,
        sidecar_id=EnqueueTransactionId(sidecar.id),
        sidecar_digest=sidecar.payload_digest,
    )


def closing(handoff: Subject | None, proof: StoreProof, digest: str, reader: LedgerReader) -> Command | None:
    """Return the command that closes a retired attempt by a proof; None if that very proof has closed it before.

    Args:
        handoff: the subject that the proof names, as the Runtime has it.
        proof: the proof as it was published.
        digest: its digest.
        reader: the Ledger at one moment; it is asked again.

    Raises:
        NotFoundError: there is no such handoff.
        StaleError: no attempt is waiting, the proof is about another request, or the Ledger says otherwise by now.
        IntegrityError: the proof is of a moment that the Ledger has not reached.
    """
    event, phase = _CLOSES[type(proof)]
    if handoff is None:
        raise NotFoundError("handoff", proof.request.handoff_id, "It was never opened.")
    facts = parse_canonical(handoff.facts)
    if handoff.phase is phase and facts.get("proof") == digest:
        return None
    if handoff.phase is not Phase.RETIRED:
        raise StaleError("handoff.phase", handoff.phase.value, "Only a retired attempt is closed by a proof.")
    request = recovery_request(handoff)
    if proof.request != request:
        raise StaleError(
            "proof.request", proof.request.attempt.id, f"The attempt to be closed is {request.attempt.id}."
        )
    now = prove(reader, request)
    if proof.frontier > now.frontier:
        raise IntegrityError("proof.frontier", proof.frontier, f"The Ledger stands at {now.frontier}.")
    if now.model_copy(update={"frontier": proof.frontier}) != proof:
        raise StaleError("proof", proof.proof, f"Asked again the Store says {now.proof}; publish that proof.")
    return Command(moves=(Move.of(handoff, event, canonical_bytes(facts | {"proof": digest}).decode()),))


def _found(reader: LedgerReader, request: RecoveryRequest, model: type[R], **equal: str) -> list[R]:
    stored = reader.find(model.kind.noun, request.namespace, **equal)
    return [record for each in stored if isinstance(record := each.load(), model)]
