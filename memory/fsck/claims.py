"""Workspace claims: one legal chain of events each; traces show what was durable, receipts repeat them (spec 004)."""

from __future__ import annotations

from collections.abc import Mapping

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.workspace.steps import receipt_rules, steps_of
from policies.workspace.arrows import fold, walk
from records.claim_traces import ClaimReceipt, ClaimTrace, TraceItem, TraceReason
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
    known = case.read(by_claim, WorkspaceClaim)
    for key, chain in by_claim.items():
        _check_chain(case, key, known.get(key), chain)
    traced = chunk.of(ClaimTrace)
    seen = case.read((item.event_id for trace in traced.values() for item in _shown(trace)), ClaimEvent)
    for key, trace in traced.items():
        _check_trace(case, key, trace, seen)
    receipts = chunk.of(ClaimReceipt)
    traces = case.read((receipt.trace_id for receipt in receipts.values()), ClaimTrace)
    for key, receipt in receipts.items():
        _check_receipt(case, key, receipt, traces.get(str(receipt.trace_id)))


def _check_chain(case: Case, key: str, claim: WorkspaceClaim | None, chain: list[ClaimEvent]) -> None:
    """Check that events are one legal chain, each a step that its guard lets through."""
    try:
        fold(chain)
    except (IllegalTransitionError, IntegrityError) as error:
        case.findings.add(Code.CLAIM_MISMATCH, key, str(error))
        return
    if claim is None:  # a reference that leads nowhere is another check's finding
        return
    for before, event, _ in walk({event.expected_prior: event for event in chain}):
        for holds, rule in steps_of(event, claim, before):
            if not holds:
                case.findings.add(Code.CLAIM_MISMATCH, str(event.id), rule)


def _shown(trace: ClaimTrace) -> list[TraceItem]:
    return [item for item in trace.items if item.reason is TraceReason.SELECTED]


def _check_trace(case: Case, key: str, trace: ClaimTrace, events: Mapping[str, ClaimEvent]) -> None:
    for item in _shown(trace):
        event = events.get(str(item.event_id))
        if event is None or event.claim_id != item.claim_id or event.state is not ClaimState.DURABLE:
            case.findings.add(Code.CLAIM_MISMATCH, key, f"{item.claim_id} was not durable by the event it names")


def _check_receipt(case: Case, key: str, receipt: ClaimReceipt, trace: ClaimTrace | None) -> None:
    if trace is None:  # a reference that leads nowhere is another check's finding
        return
    for holds, rule in receipt_rules(receipt, trace):
        if not holds:
            case.findings.add(Code.CLAIM_MISMATCH, key, rule)
