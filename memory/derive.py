"""Records that exist only after the grant, because they bind the authorization.

Pure: records of the proposal and the authorization in, the complete append out. Their timestamps are the
authorization's, so deriving again gives the same bytes.

Deriving also checks that the authorization is about these records: it moves the very subject, in the very Run, that
they speak of. Both sides derive, so what is about another subject is neither granted nor appended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from records.base import Record
from records.canonical import domain_digest
from records.decisions import DecisionIntent, RecallContext
from records.errors import IntegrityError
from records.flows import Transition
from records.handoffs import EnqueueAttempt
from records.ids import ActivityId, BatchId, HandoffId, ReportId, WorkItemId
from records.ingestion import (
    AbandonedReceipt,
    Batch,
    CompletionStatus,
    DistillationReceipt,
    EnqueueTransaction,
    Report,
    WorkCompletion,
    WorkItem,
)
from records.outcomes import RecallOutcome
from records.retention import ErasureIntent, RetentionTombstone
from records.runtime import Authorization, enqueue_attempt_id, handoff_id, reference_id

Records = tuple[Record, ...]
R = TypeVar("R", bound=Record)


WORK_ITEM_OWNER: Final = "DISTILLATION_WORK_ITEM:"
"""How the owner names of work items begin."""


def profile_owner(work_item_id: WorkItemId) -> str:
    """Return the owner name under which the Runtime holds the profile bytes of a work item (spec 4.14)."""
    return f"{WORK_ITEM_OWNER}{work_item_id}"


def derive(records: Records, authorization: Authorization) -> Records:
    """Return the records of the append: those proposed, and those that the flow derives.

    Raises:
        IntegrityError: the records are about another subject or Run than the authorization, or not those of the flow.
    """
    if authorization.transition in _SUBJECTS:
        _require_own(_SUBJECTS[authorization.transition](records), authorization)
    derivation = _DERIVATIONS.get(authorization.transition)
    return records if derivation is None else derivation(records, authorization)


def _enqueue(records: Records, authorization: Authorization) -> Records:
    item, receipt = _only(records, WorkItem), _only(records, DistillationReceipt)
    work_item_id = WorkItemId(item.id)
    handoff = HandoffId.check(authorization.subject_id)
    sidecar = EnqueueTransaction(
        namespace=item.namespace,
        created_at=authorization.granted_at,
        work_item_id=work_item_id,
        handoff_id=handoff,
        profile_reference_id=reference_id(profile_owner(work_item_id), item.campaign_profile_digest),
        attempt_id=enqueue_attempt_id(handoff, authorization.generation, authorization.fence),
        attempt_generation=authorization.generation,
        attempt_fence=authorization.fence,
        authorization_digest=authorization.canonical_digest,
        transaction_digest=domain_digest("enqueue-transaction-order", [item.payload_digest, receipt.payload_digest]),
    )
    return (*records, sidecar)


def _complete(records: Records, authorization: Authorization) -> Records:
    batch, report = _only(records, Batch), _only(records, Report)
    completion = WorkCompletion(
        namespace=batch.namespace,
        created_at=authorization.granted_at,
        work_item_id=batch.work_item_id,
        run_id=authorization.run_id,
        activity_id=ActivityId.check(authorization.subject_id),
        status=CompletionStatus.COMPLETED,
        authorization_id=authorization.id,
        authorization_digest=authorization.canonical_digest,
        batch_id=BatchId(batch.id),
        report_id=ReportId(report.id),
        report_digest=report.payload_digest,
        terminal_evidence_digest=None,
    )
    return (*records, completion)


def _abandon(records: Records, authorization: Authorization) -> Records:
    """Add nothing: check that the proof is that of the attempt which ended before this one (spec 8.1)."""
    handoff = HandoffId.check(authorization.subject_id)
    ended = EnqueueAttempt.before(handoff, authorization.generation, authorization.fence)
    proof = _only(records, AbandonedReceipt).proof
    if proof.ref != ended.id:
        raise IntegrityError("proof.ref", proof.ref, f"The attempt that was proved absent is {ended.id}.")
    return records


_DERIVATIONS: Final[dict[Transition, Callable[[Records, Authorization], Records]]] = {
    Transition.ABANDON_ENQUEUE: _abandon,
    Transition.ENQUEUE_DISTILLATION: _enqueue,
    Transition.COMMIT_DISTILLATION: _complete,
}


Place = tuple[str, str | None]
"""The subject that records speak of, and its Run where they name one."""


def _intent(records: Records) -> Place:
    intent = _only(records, DecisionIntent)
    return str(intent.id), intent.run_id


def _context(records: Records) -> Place:
    return _only(records, RecallContext).intent_id, None


def _outcome(records: Records) -> Place:
    outcome = _only(records, RecallOutcome)
    return outcome.intent_id, outcome.run_id


def _handoff(records: Records) -> Place:
    return handoff_id(WorkItemId(_only(records, WorkItem).id)), None


def _abandoned(records: Records) -> Place:
    return handoff_id(_only(records, AbandonedReceipt).abandoned_work_item_id), None


def _closed(records: Records) -> Place:
    completion = _only(records, WorkCompletion)
    return completion.activity_id, completion.run_id


def _intended(records: Records) -> Place:
    return _only(records, ErasureIntent).id, None


def _tombstone(records: Records) -> Place:
    return _only(records, RetentionTombstone).intent_id, None


_SUBJECTS: Final[dict[Transition, Callable[[Records], Place]]] = {
    Transition.APPEND_INTENT: _intent,
    Transition.APPEND_CONTEXT: _context,
    Transition.APPEND_OUTCOME: _outcome,
    Transition.ENQUEUE_DISTILLATION: _handoff,
    Transition.ABANDON_ENQUEUE: _abandoned,
    Transition.CLOSE_WORK_ITEM: _closed,
    Transition.BEGIN_ERASURE: _intended,
    Transition.CLOSE_ERASURE: _tombstone,
}
"""Where the subject follows from the records; a completion's Activity is compared with its assignment in the Ledger."""


def _require_own(place: Place, authorization: Authorization) -> None:
    subject_id, run_id = place
    if subject_id != authorization.subject_id:
        raise IntegrityError("proposal.subject_id", authorization.subject_id, f"Its records are about {subject_id}.")
    if run_id is not None and run_id != authorization.run_id:
        raise IntegrityError("proposal.run_id", authorization.run_id, f"Its records are of {run_id}.")


def _only(records: Records, model: type[R]) -> R:
    found = [record for record in records if isinstance(record, model)]
    if len(found) != 1:
        raise IntegrityError("proposal.records", len(found), f"Exactly one {model.kind.noun} is expected.")
    return found[0]
