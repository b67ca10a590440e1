"""Receipts against the journal, both ways, and against the registry of flows.

Every permit has one receipt, which names exactly the rows that it wrote; success and no-commit exclude each other. The
rules of the registry are checked on what is stored, so that a receipt that was written together with its rows, chain
and digests included, must still be one that a writer may get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from memory.fsck.authorizations import check_answers
from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from records.appends import AppendReceipt, JournalRow
from records.conflicts import CommitConflict, NoCommit
from records.errors import VrmError
from records.flows import FLOWS, Transition
from records.models import noun_of
from records.outcomes import NoCommitReceipt
from store.ledger.audit import Place, ScannedReceipt

_GROUP: Final = 500
_COMPLETE: Final = {
    Transition.COMMIT_DISTILLATION: (
        "distillation-batch",
        "distillation-work-disposition",
        "distillation-report",
        "distillation-work-completion",
    ),
    Transition.ENQUEUE_DISTILLATION: ("distillation-work-item", "distillation-receipt", "enqueue-transaction"),
}
"""What a granted append of more than its primary record holds, one of each (spec 4.14, 8.1)."""

Fault = tuple[Code, str]


def read_receipts(case: Case, rows: tuple[JournalRow, ...]) -> dict[str, AppendReceipt]:
    """Read the receipts of a stretch of journal, checking each one on the way, and that every row stands in one."""
    found = case.scan.receipts(rows[0].namespace, sorted({row.permit_key for row in rows}))
    receipts = _check(case, list(found.values()))
    named = {(key, each) for key, receipt in receipts.items() for each in _pairs(receipt)}
    for row in rows:
        if row.permit_key not in found:
            case.findings.add(Code.RECEIPT_MISSING, row.id, f"no receipt of permit {row.permit_key}")
        elif row.permit_key in receipts and (row.permit_key, (row.id, row.position)) not in named:
            case.findings.add(Code.RECEIPT_MISMATCH, row.permit_key, f"it does not name {row.id} at {row.position}")
    return receipts


def check_unused_receipts(case: Case, namespace: str) -> None:
    """Check the receipts of permits that wrote no row, because all of their records were there already."""
    rows = case.scan.unused_receipts(namespace)
    while group := list(islice(rows, _GROUP)):
        _check(case, group)


def check_proofs(case: Case, chunk: Chunk) -> None:
    """The proof of a no-commit must be the one answer of its authorization."""
    proofs: dict[str, NoCommit] = {**chunk.of(NoCommitReceipt), **chunk.of(CommitConflict)}
    for row in chunk.rows if proofs else ():
        proof = proofs.get(row.id)
        if proof is None:
            continue
        receipt = chunk.receipts.get(row.permit_key)
        transition = Transition.COMMIT_DISTILLATION.value if isinstance(proof, CommitConflict) else proof.transition
        answer = (row.permit_key, row.id, proof.reason, proof.authorization_digest, transition)
        if receipt is None or answer != (
            str(proof.authorization_id),
            str(receipt.no_commit_id),
            receipt.reason,
            receipt.permit_digest,
            receipt.transition.value,
        ):
            met = f"it is not the answer that {proof.authorization_id} has"
            case.findings.add(Code.PERMIT_ANSWERED_TWICE, row.id, met)


def _check(case: Case, rows: list[ScannedReceipt]) -> dict[str, AppendReceipt]:
    receipts: dict[str, AppendReceipt] = {}
    for row in rows:
        receipt = _load(row)
        if receipt is None or not _is_projection(receipt, row):
            case.findings.add(Code.RECEIPT_MISMATCH, row.permit_key, "text and columns do not belong together")
        if receipt is not None:
            receipts[row.permit_key] = receipt
    places = case.places(record_id for receipt in receipts.values() for record_id in receipt.record_ids)
    for key, receipt in receipts.items():
        for code, met in (*_place_faults(receipt, places), *_flow_faults(receipt)):
            case.findings.add(code, key, met)
    check_answers(case, receipts)
    case.findings.checked["receipts"] += len(rows)
    return receipts


def _place_faults(receipt: AppendReceipt, places: dict[str, Place]) -> Iterator[Fault]:
    if len(receipt.record_ids) != len(receipt.positions):
        yield Code.RECEIPT_MISMATCH, "it has not one position for each record"
        return
    shared = FLOWS[receipt.transition].shared if receipt.committed else frozenset()
    for record_id, position in _pairs(receipt):
        place = places.get(record_id)
        if place is None or (place.namespace, place.position) != (receipt.namespace, position):
            where = "nowhere" if place is None else f"at {place.namespace}/{place.position}"
            yield Code.RECEIPT_MISMATCH, f"{record_id} at {position}, the journal has it {where}"
        elif place.permit_key != receipt.permit_key and noun_of(record_id) not in shared:
            yield Code.RECEIPT_MISMATCH, f"{record_id} was written under {place.permit_key}"


def _flow_faults(receipt: AppendReceipt) -> Iterator[Fault]:
    """Yield what no writer may do: pairs, kinds and reasons outside the registry, and half an append (spec 6.3)."""
    flow = FLOWS[receipt.transition]
    if (receipt.no_commit_id is None) != (receipt.reason is None) or (
        receipt.no_commit_id is not None and receipt.record_ids != (str(receipt.no_commit_id),)
    ):
        yield Code.PERMIT_ANSWERED_TWICE, "a no-commit stands beside written records"
        return
    if receipt.authority not in flow.authorities:
        yield Code.RECEIPT_ILLEGAL, f"{receipt.transition} has no authority {receipt.authority}"
    if receipt.reason is not None:
        if receipt.reason not in flow.reasons:
            yield Code.RECEIPT_ILLEGAL, f"{receipt.transition} has no refusal {receipt.reason}"
        return
    nouns = Counter(noun_of(record_id) for record_id in receipt.record_ids)
    foreign = sorted(nouns.keys() - flow.writes)
    if foreign or not nouns:
        yield Code.RECEIPT_ILLEGAL, f"{receipt.transition} writes no {', '.join(foreign) or 'receipt without a record'}"
    for noun in _COMPLETE.get(receipt.transition, (flow.primary,)) if flow.is_granted else ():
        if nouns[noun] != 1:
            yield Code.RECEIPT_ILLEGAL, f"{receipt.transition} holds one {noun}, this one {nouns[noun]}"


def _load(row: ScannedReceipt) -> AppendReceipt | None:
    try:
        return AppendReceipt.load(row.receipt)
    except VrmError:
        return None


def _is_projection(receipt: AppendReceipt, row: ScannedReceipt) -> bool:
    columns = (receipt.namespace, receipt.permit_key, receipt.permit_digest, receipt.transition.value)
    stored = (row.namespace, row.permit_key, row.permit_digest, row.transition)
    return columns == stored and receipt.canonical == row.receipt.encode()


def _pairs(receipt: AppendReceipt) -> list[tuple[str, int]]:
    return list(zip(receipt.record_ids, receipt.positions, strict=False))
