"""How a Run that is cancelled or has failed closes its work: items of a campaign, Experiences (spec 6.3, 8.1).

Rules kept here:

- an item that is not finished gets one completion that follows from its assignment and the Run's control event, the
  event's time included: cancelled by a cancellation, dead letter by a failure. What has one keeps it;
- a slot that was never assigned is assigned first, while its Activity cannot be dispatched, so nothing of a campaign is
  left behind a Run that is over;
- an Experience without a receipt gets one that says why nothing was queued. One whose handoff is open is left to the
  recovery of handoffs, which says what the Ledger holds of it (`memory.orphans`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.assignments import CAMPAIGN, assigning, assignment_to
from memory.known import load
from memory.proofs import given_up
from memory.receipts import unreceipted
from records.appends import Append, Proposal
from records.control import ControlEvent, ControlKind
from records.errors import IntegrityError
from records.flows import Authority, Transition
from records.handoffs import HandoffBody
from records.ids import ActivityId, ExperienceId, WorkItemId
from records.ingestion import DistillationReceipt, ReceiptDisposition, WorkAssignment, WorkCompletion, WorkItem
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
from records.values import PolicyIdentity
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

_UNFINISHED: Final = (Phase.AWAITING_ASSIGNMENT, Phase.READY, Phase.LEASED, Phase.RUNNING)
_WHY: Final = {ControlKind.CANCEL_EVENT: "source_run_cancelled", ControlKind.RUNTIME_FAILURE: "source_run_failed"}


def closure_completion(assignment: WorkAssignment, event: ControlEvent) -> WorkCompletion:
    """Return the completion by which closure ends an item.

    Raises:
        IntegrityError: the event ends no work, or is of another Run.
    """
    if (event.namespace, event.run_id) != (assignment.namespace, assignment.run_id):
        raise IntegrityError("control_event.run_id", event.run_id, f"The work is of {assignment.run_id}.")
    return WorkCompletion.build(
        namespace=assignment.namespace,
        created_at=event.at,
        work_item_id=assignment.work_item_id,
        run_id=assignment.run_id,
        activity_id=assignment.activity_id,
        status=given_up(event.kind),
        authorization_id=None,
        authorization_digest=None,
        batch_id=None,
        report_id=None,
        report_digest=None,
        terminal_evidence_digest=event.canonical_digest,
    )


class WorkClosure:
    """What closure writes about the work of one Run."""

    def __init__(
        self, ledger: LedgerReader, runtime: RuntimeReader, event: ControlEvent, policy: PolicyIdentity
    ) -> None:
        """Close by a control event; receipts are written under a policy."""
        self._ledger, self._runtime, self._event, self._policy = ledger, runtime, event, policy

    def appends(self, run: Subject) -> list[Append]:
        """Return the direct appends: assignments that are missing, or the receipts of Experiences that have none."""
        body = RunBody.load(run.body)
        if body.run_kind == CAMPAIGN:
            waiting = self._runtime.find(Machine.ACTIVITY, [Phase.AWAITING_ASSIGNMENT], run.id)
            return [assigning(body, self._assignment(body).created_at)] if waiting else []
        receipts = self._receipts(run)
        return [
            Append.direct(Transition.RECEIPT_NOT_QUEUED, f"receipt/{each.experience_id}", (each,)) for each in receipts
        ]

    def proposals(self, run: Subject) -> list[Proposal]:
        """Return one closure proposal for each item of a campaign that is not finished."""
        body = RunBody.load(run.body)
        if body.run_kind != CAMPAIGN:
            return []
        unfinished = self._runtime.find(Machine.ACTIVITY, _UNFINISHED, run.id)
        return [self._proposal(each, self._assignment(body)) for each in unfinished]

    def _assignment(self, body: RunBody) -> WorkAssignment:
        stored = self._ledger.get(WorkItemId.check(body.admission_key))
        item = None if stored is None else load(stored)
        if not isinstance(item, WorkItem):
            raise IntegrityError("run.admission_key", body.admission_key, "The Ledger holds no such item.")
        return assignment_to(body, item.created_at)

    def _proposal(self, activity: Subject, assignment: WorkAssignment) -> Proposal:
        if ActivityId.check(activity.id) != assignment.activity_id:
            raise IntegrityError("activity", activity.id, f"The campaign's is {assignment.activity_id}.")
        return Proposal(
            namespace=assignment.namespace,
            transition=Transition.CLOSE_WORK_ITEM,
            authority=Authority.RUNTIME_CLOSURE,
            machine=Machine.ACTIVITY,
            subject_id=activity.id,
            run_id=assignment.run_id,
            generation=activity.generation,
            fence=activity.fence,
            records=Proposal.bodies((closure_completion(assignment, self._event),)),
        )

    def _receipts(self, run: Subject) -> Sequence[DistillationReceipt]:
        found = unreceipted(self._ledger, self._event.namespace, [run.id]).get(run.id, [])
        if not found:
            return []
        handoffs = self._runtime.find(Machine.HANDOFF, run_id=run.id)
        handed = {str(HandoffBody.load(each.body).experience_id) for each in handoffs}
        return [
            DistillationReceipt.build(
                namespace=experience.namespace,
                created_at=experience.created_at,
                experience_id=ExperienceId(experience.id),
                disposition=ReceiptDisposition.DEFERRED,
                reasons=(_WHY[self._event.kind],),
                policy=self._policy,
                work_item_id=None,
            )
            for experience in found
            if experience.id not in handed
        ]
