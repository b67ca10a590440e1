"""Distillation work: a queued receipt has its item and sidecar, a completion binds its batch and report (VRM-W09)."""

from __future__ import annotations

from collections.abc import Iterator

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from records.ingestion import (
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


def check_distillation(case: Case, chunk: Chunk) -> None:
    """Check the work of a stretch of journal."""
    _check_queued(case, chunk)
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
    sidecars = case.find(EnqueueTransaction, chunk.namespace, "work_item_id", names).values()
    with_sidecar = {str(sidecar.work_item_id) for sidecar in sidecars}
    for key, receipt in queued.items():
        name = str(receipt.work_item_id)
        item = items.get(name)
        if item is None or item.experience_id != receipt.experience_id:
            case.findings.add(Code.QUEUED_INCOMPLETE, key, f"no work item {name} for {receipt.experience_id}")
        if name not in with_sidecar:
            case.findings.add(Code.QUEUED_INCOMPLETE, key, f"no enqueue transaction of {name}")


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
    batches = case.read((each.batch_id for each in completions.values()), Batch)
    reports = case.read((each.report_id for each in completions.values()), Report)
    for key, completion in completions.items():
        name = str(completion.work_item_id)
        faults = list(_place_faults(completion, assignments.get(name)))
        if completion.status is CompletionStatus.COMPLETED:
            batch, report = batches.get(str(completion.batch_id)), reports.get(str(completion.report_id))
            faults += _result_faults(completion, batch, report, dispositions.get(name))
        for fault in faults:
            case.findings.add(Code.COMPLETION_UNBOUND, key, fault)


def _place_faults(completion: WorkCompletion, assignment: WorkAssignment | None) -> Iterator[str]:
    if assignment is None:
        yield f"no assignment of {completion.work_item_id}"
    elif (assignment.run_id, assignment.activity_id) != (completion.run_id, completion.activity_id):
        yield f"its work item was assigned to {assignment.run_id}"


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
