"""Distillation work: queued receipts have item and sidecar, completions batch and report (VRM-W09)."""

from __future__ import annotations

from collections.abc import Iterator

from memory.derive import profile_owner
from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from records.appends import AppendReceipt
from records.canonical import domain_digest
from records.flows import Transition
from records.ids import WorkItemId
from records.ingestion import (
    AbandonedReceipt,
    Batch,
    CompletionStatus,
    DistillationReceipt,
    EnqueueTransaction,
    ReceiptDisposition,
    Report,
    WorkAssignment,
    WorkCompletion,
    WorkDisposition,
    WorkItem,
)
from records.runtime import enqueue_attempt_id, handoff_id, reference_id


def check_distillation(case: Case, chunk: Chunk) -> None:
    """Check the work of a stretch of journal."""
    _check_queued(case, chunk)
    _check_abandoned(case, chunk)
    _check_items(case, chunk)
    _check_completions(case, chunk)


def _check_queued(case: Case, chunk: Chunk) -> None:
    queued = {
        key: receipt
        for key, receipt in chunk.of(DistillationReceipt).items()
        if receipt.disposition is ReceiptDisposition.QUEUED
    }
    names = {str(receipt.work_item_id) for receipt in queued.values()}
    items = case.read(names, WorkItem)
    found = case.find(EnqueueTransaction, chunk.namespace, "work_item_id", names).values()
    sidecars = {str(sidecar.work_item_id): sidecar for sidecar in found}
    answers = chunk.answers(queued)
    for key, receipt in queued.items():
        item, sidecar = items.get(str(receipt.work_item_id)), sidecars.get(str(receipt.work_item_id))
        for fault in _queue_faults(receipt, item, sidecar, answers.get(key)):
            case.findings.add(Code.QUEUED_INCOMPLETE, key, fault)


def _check_abandoned(case: Case, chunk: Chunk) -> None:
    """Only the granted append that rests on a proof says abandoned; that its item is nowhere is the items' check."""
    abandoned = chunk.of(AbandonedReceipt)
    for key, answer in chunk.answers(abandoned).items():
        if answer.transition is not Transition.ABANDON_ENQUEUE:
            case.findings.add(Code.RECEIPT_ILLEGAL, key, f"it says abandoned and was written by {answer.transition}")


def _queue_faults(
    receipt: DistillationReceipt,
    item: WorkItem | None,
    sidecar: EnqueueTransaction | None,
    answer: AppendReceipt | None,
) -> Iterator[str]:
    name = receipt.work_item_id
    if item is None or item.experience_id != receipt.experience_id:
        yield f"no work item {name} for {receipt.experience_id}"
    elif item.distillation_policy != receipt.policy:
        yield f"{name} is under another policy"
    if sidecar is None:
        yield f"no enqueue transaction of {name}"
    if answer is not None and answer.transition is not Transition.ENQUEUE_DISTILLATION:
        yield f"it says queued and was written by {answer.transition}"
    if item is not None and sidecar is not None and answer is not None:
        held = (sidecar.handoff_id, sidecar.profile_reference_id, sidecar.attempt_id)
        if held != _place(item, sidecar):
            yield f"the enqueue transaction of {name} is of another handoff, reference or attempt"
        ordered = domain_digest("enqueue-transaction-order", [item.payload_digest, receipt.payload_digest])
        if (sidecar.transaction_digest, sidecar.authorization_digest) != (ordered, answer.permit_digest):
            yield f"the enqueue transaction of {name} binds other bytes, or another authorization"


def _place(item: WorkItem, sidecar: EnqueueTransaction) -> tuple[str, str, str]:
    """Return what handoff, profile reference and attempt of a sidecar must be."""
    name = WorkItemId(item.id)
    handoff = handoff_id(name)
    return (
        handoff,
        reference_id(profile_owner(name), item.campaign_profile_digest),
        enqueue_attempt_id(handoff, sidecar.attempt_generation, sidecar.attempt_fence),
    )


def _check_items(case: Case, chunk: Chunk) -> None:
    items = chunk.of(WorkItem)
    wanted = {str(item.experience_id) for item in items.values()}
    receipts = case.find(DistillationReceipt, chunk.namespace, "experience_id", wanted).values()
    queued = {str(receipt.work_item_id) for receipt in receipts if receipt.work_item_id is not None}
    for key, item in items.items():
        if key not in queued:
            case.findings.add(Code.WORK_ITEM_UNRECEIPTED, key, f"no queued receipt of {item.experience_id} names it")


def _check_completions(case: Case, chunk: Chunk) -> None:
    completions = chunk.of(WorkCompletion)
    names = {str(completion.work_item_id) for completion in completions.values()}
    assigned = case.find(WorkAssignment, chunk.namespace, "work_item_id", names).values()
    assignments = {str(each.work_item_id): each for each in assigned}
    disposed = case.find(WorkDisposition, chunk.namespace, "work_item_id", names).values()
    dispositions = {str(each.work_item_id): each for each in disposed}
    items = case.read(names, WorkItem)
    answers = chunk.answers(completions)
    batches = case.read((each.batch_id for each in completions.values()), Batch)
    reports = case.read((each.report_id for each in completions.values()), Report)
    for key, completion in completions.items():
        name = str(completion.work_item_id)
        faults = list(_place_faults(completion, assignments.get(name), answers.get(key)))
        if completion.status is CompletionStatus.COMPLETED:
            batch, report = batches.get(str(completion.batch_id)), reports.get(str(completion.report_id))
            faults += _result_faults(completion, batch, report, dispositions.get(name))
            faults += _batch_faults(items.get(name), batch)
        for fault in faults:
            case.findings.add(Code.COMPLETION_UNBOUND, key, fault)


def _place_faults(
    completion: WorkCompletion, assignment: WorkAssignment | None, answer: AppendReceipt | None
) -> Iterator[str]:
    if assignment is None:
        yield f"no assignment of {completion.work_item_id}"
    elif (assignment.run_id, assignment.activity_id) != (completion.run_id, completion.activity_id):
        yield f"its work item was assigned to {assignment.run_id}"
    if answer is None:
        return
    done = completion.status is CompletionStatus.COMPLETED
    if answer.transition is not (Transition.COMMIT_DISTILLATION if done else Transition.CLOSE_WORK_ITEM):
        yield f"it says {completion.status} and was written by {answer.transition}"
    bound = (completion.authorization_id, completion.authorization_digest)
    if done and bound != (answer.permit_key, answer.permit_digest):
        yield f"it binds {completion.authorization_id}, and was written under {answer.permit_key}"


def _batch_faults(item: WorkItem | None, batch: Batch | None) -> Iterator[str]:
    if item is None or batch is None:
        return
    if item.experience_id not in batch.experience_ids:
        yield "its batch did not consider the experience of its work item"
    pinned = (item.distillation_policy, item.lifecycle_policy)
    if pinned != (batch.distillation_policy, batch.lifecycle_policy):
        yield "its batch is under other policies than its work item"


def _result_faults(
    completion: WorkCompletion, batch: Batch | None, report: Report | None, disposition: WorkDisposition | None
) -> Iterator[str]:
    if batch is None or batch.work_item_id != completion.work_item_id:
        yield f"{completion.batch_id} is not the batch of its work item"
    if report is None or (report.work_item_id, report.batch_id) != (completion.work_item_id, completion.batch_id):
        yield f"{completion.report_id} is not the report of its batch"
    elif report.payload_digest != completion.report_digest:
        yield f"the report has digest {report.payload_digest}, the completion binds {completion.report_digest}"
    if disposition is None or disposition.batch_id != completion.batch_id:
        yield "its work item has no disposition in this batch"
    elif report is not None and disposition.outcome is not report.work_outcome:
        yield f"the disposition says {disposition.outcome}, the report {report.work_outcome}"
