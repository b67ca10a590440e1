"""Records that exist only after the grant, because they bind the authorization.

Pure: records of the proposal and the authorization in, the complete append out. Their timestamps are the
authorization's, so deriving again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from records.base import Record
from records.errors import IntegrityError
from records.flows import Transition
from records.ids import ActivityId, BatchId, HandoffId, ReportId, WorkItemId
from records.ingestion import (
    Batch,
    CompletionStatus,
    EnqueueTransaction,
    Report,
    WorkCompletion,
    WorkItem,
)
from records.runtime import Authorization, reference_id

Records = tuple[Record, ...]
R = TypeVar("R", bound=Record)


def profile_owner(work_item_id: WorkItemId) -> str:
    """Return the owner name under which the Runtime holds the profile bytes of a work item (spec 4.14)."""
    return f"DISTILLATION_WORK_ITEM:{work_item_id}"


def derive(records: Records, authorization: Authorization) -> Records:
    """Return the records of the append: those proposed, and those that the flow derives."""
    derivation = _DERIVATIONS.get(authorization.transition)
    return records if derivation is None else derivation(records, authorization)


def _enqueue(records: Records, authorization: Authorization) -> Records:
    item = _only(records, WorkItem)
    work_item_id = WorkItemId(item.id)
    sidecar = EnqueueTransaction(
        namespace=item.namespace,
        created_at=authorization.granted_at,
        work_item_id=work_item_id,
        handoff_id=HandoffId.check(authorization.subject_id),
        profile_reference_id=reference_id(profile_owner(work_item_id), item.campaign_profile_digest),
        attempt_generation=authorization.generation,
        attempt_fence=authorization.fence,
        profile_proof_digest=authorization.canonical_digest,
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


_DERIVATIONS: Final[dict[Transition, Callable[[Records, Authorization], Records]]] = {
    Transition.ENQUEUE_DISTILLATION: _enqueue,
    Transition.COMMIT_DISTILLATION: _complete,
}


def _only(records: Records, model: type[R]) -> R:
    found = [record for record in records if isinstance(record, model)]
    if len(found) != 1:
        raise IntegrityError("proposal.records", len(found), f"Exactly one {model.kind.noun} is expected.")
    return found[0]
