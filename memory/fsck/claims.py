"""Workspace claims: one legal chain of events each; traces show what was durable, receipts repeat them (spec 004)."""

from __future__ import annotations

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from policies.workspace.arrows import fold
from records.claim_traces import ClaimReceipt, ClaimTrace, TraceReason
from records.errors import IllegalTransitionError, IntegrityError
from records.workspace import ClaimEvent, ClaimState, WorkspaceClaim


def check_claims(case: Case, chunk: Chunk) -> None:
    """Check the claims, events, traces and receipts of a stretch of journal."""
    claims = chunk.of(WorkspaceClaim)
    moved = {str(event.claim_id) for event in chunk.of(ClaimEvent).values()}
    events = case.find(ClaimEvent, chunk.namespace, "claim_id", {*claims, *moved})
    by_claim: dict[str, list[ClaimEvent]] = {}
    for event in events.values():
        by_claim.setdefault(str(event.claim_id), []).append(event)
    for key in claims.keys() - by_claim.keys():
        case.findings.add(Code.CLAIM_MISMATCH, key, "it has no event")
    for key, chain in by_claim.items():
        try:
            fold(chain)
        except (IllegalTransitionError, IntegrityError) as error:
            case.findings.add(Code.CLAIM_MISMATCH, key, str(error))
    for key, trace in chunk.of(ClaimTrace).items():
        _check_trace(case, key, trace)
    receipts = chunk.of(ClaimReceipt)
    traces = case.read((receipt.trace_id for receipt in receipts.values()), ClaimTrace)
    for key, receipt in receipts.items():
        _check_receipt(case, key, receipt, traces.get(str(receipt.trace_id)))


def _check_trace(case: Case, key: str, trace: ClaimTrace) -> None:
    shown = [item for item in trace.items if item.reason is TraceReason.SELECTED]
    events = case.read((item.event_id for item in shown), ClaimEvent)
    for item in shown:
        event = events.get(str(item.event_id))
        if event is None or event.claim_id != item.claim_id or event.state is not ClaimState.DURABLE:
            case.findings.add(Code.CLAIM_MISMATCH, key, f"{item.claim_id} was not durable by the event it names")


def _check_receipt(case: Case, key: str, receipt: ClaimReceipt, trace: ClaimTrace | None) -> None:
    if trace is None:  # a reference that leads nowhere is another check's finding
        return
    told = (receipt.task_id, receipt.selected, receipt.shadow)
    if told != (trace.task_id, trace.selected, trace.shadow):
        case.findings.add(Code.CLAIM_MISMATCH, key, f"it does not repeat {receipt.trace_id}")
