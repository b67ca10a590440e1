"""Receipts against the journal, both ways; success and no-commit exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from records.appends import AppendReceipt
from records.conflicts import CommitConflict, NoCommit
from records.errors import VrmError
from records.flows import FLOWS
from records.outcomes import NoCommitReceipt
from records.runtime import Authorization
from records.states import Machine, Phase
from store.ledger.audit import ScannedReceipt

_GROUP: Final = 200


def check_permits(case: Case, chunk: Chunk) -> None:
    """Every journal row must stand in the receipt of the permit that it names, at its position."""
    found = case.scan.receipts(chunk.namespace, sorted({row.permit_key for row in chunk.rows}))
    receipts = {key: receipt for key, row in found.items() if (receipt := _load(row)) is not None}
    for row in chunk.rows:
        if row.permit_key not in found:
            case.findings.add(Code.RECEIPT_MISSING, row.id, f"no receipt of permit {row.permit_key}")
            continue
        receipt = receipts.get(row.permit_key)
        if receipt is not None and (row.id, row.position) not in _pairs(receipt):
            case.findings.add(Code.RECEIPT_MISMATCH, row.permit_key, f"it does not name {row.id} at {row.position}")
    _check_proofs(case, chunk)


def _check_proofs(case: Case, chunk: Chunk) -> None:
    """The proof of a no-commit must be the one answer of its authorization."""
    proofs: dict[str, NoCommit] = {**chunk.of(NoCommitReceipt), **chunk.of(CommitConflict)}
    found = case.scan.receipts(chunk.namespace, sorted({str(proof.authorization_id) for proof in proofs.values()}))
    for key, proof in proofs.items():
        row = found.get(str(proof.authorization_id))
        receipt = None if row is None else _load(row)
        if receipt is None or str(receipt.no_commit_id) != key or receipt.reason is not proof.reason:
            met = "its permit has another answer" if row else "its permit has no receipt"
            case.findings.add(Code.PERMIT_ANSWERED_TWICE, key, f"{met}: {proof.authorization_id}")


def check_receipts(case: Case) -> None:
    """Every receipt must say what the journal says, and a granted one must answer a known authorization."""
    rows = case.scan.all_receipts()
    while group := tuple(islice(rows, _GROUP)):
        receipts: dict[str, AppendReceipt] = {}
        for row in group:
            receipt = _load(row)
            if receipt is None or _projection(receipt) != row:
                case.findings.add(Code.RECEIPT_MISMATCH, row.permit_key, "text and columns do not belong together")
            if receipt is not None:
                receipts[row.permit_key] = receipt
        _check_positions(case, receipts)
        _check_authorizations(case, receipts)
        case.findings.checked["receipts"] += len(group)
        case.progress("receipts", case.findings.checked["receipts"], 0)


def _check_positions(case: Case, receipts: dict[str, AppendReceipt]) -> None:
    named = sorted({record_id for receipt in receipts.values() for record_id in receipt.record_ids})
    positions = case.scan.positions(named)
    for key, receipt in receipts.items():
        if len(receipt.record_ids) != len(receipt.positions):
            case.findings.add(Code.RECEIPT_MISMATCH, key, "it has not one position for each record")
            continue
        for record_id, position in _pairs(receipt):
            if positions.get(record_id) != (receipt.namespace, position):
                met = f"{record_id} at {position}, the journal says {positions.get(record_id)}"
                case.findings.add(Code.RECEIPT_MISMATCH, key, met)
        alone = receipt.no_commit_id is None or receipt.record_ids == (str(receipt.no_commit_id),)
        if not alone or (receipt.no_commit_id is None) != (receipt.reason is None):
            case.findings.add(Code.PERMIT_ANSWERED_TWICE, key, "a no-commit stands beside written records")


def _check_authorizations(case: Case, receipts: dict[str, AppendReceipt]) -> None:
    if case.runtime is None:
        return
    granted = {key: receipt for key, receipt in receipts.items() if FLOWS[receipt.transition].is_granted}
    subjects = case.runtime.subjects(Machine.AUTHORIZATION, sorted(granted))
    for key, receipt in granted.items():
        subject = subjects.get(key)
        if subject is None:
            case.findings.add(Code.AUTHORIZATION_UNKNOWN, key, "the Runtime never granted it")
            continue
        for broken in _answers(receipt, subject.body, subject.phase):
            case.findings.add(Code.AUTHORIZATION_MISMATCH, key, broken)


def _answers(receipt: AppendReceipt, body: str, phase: Phase) -> Iterator[str]:
    """Yield what keeps a receipt from being the answer of an authorization."""
    try:
        authorization = Authorization.load(body)
    except VrmError as error:
        yield str(error)
        return
    if str(authorization.id) != receipt.permit_key:
        yield f"its body belongs to {authorization.id}"
    if authorization.canonical_digest != receipt.permit_digest:
        yield "the receipt answers another body"
    if receipt.committed and authorization.expected_id not in receipt.record_ids:
        yield f"{authorization.expected_id} was authorized and not written"
    wrong = Phase.RETIRED_NO_COMMIT if receipt.committed else Phase.COMMITTED
    if phase is wrong:
        yield f"the Runtime has it as {phase}, the Ledger says otherwise"


def check_settled(case: Case) -> None:
    """Every authorization that the Runtime settled must have its receipt in the Ledger."""
    by_namespace: dict[str, list[str]] = {}
    for key, subject in case.settled.items():
        try:
            by_namespace.setdefault(Authorization.load(subject.body).namespace, []).append(key)
        except VrmError as error:
            case.findings.add(Code.AUTHORIZATION_MISMATCH, key, str(error))
    for namespace, keys in sorted(by_namespace.items()):
        for start in range(0, len(keys), _GROUP):
            group = keys[start : start + _GROUP]
            found = case.scan.receipts(namespace, group)
            for key in group:
                if key not in found:
                    met = f"the Runtime has it as {case.settled[key].phase}, the Ledger has no receipt"
                    case.findings.add(Code.AUTHORIZATION_UNANSWERED, key, met)
    case.findings.checked["authorizations"] += len(case.settled)


def _load(row: ScannedReceipt) -> AppendReceipt | None:
    try:
        return AppendReceipt.load(row.receipt)
    except VrmError:
        return None


def _projection(receipt: AppendReceipt) -> ScannedReceipt:
    return ScannedReceipt(
        namespace=receipt.namespace,
        permit_key=receipt.permit_key,
        permit_digest=receipt.permit_digest,
        transition=receipt.transition.value,
        receipt=receipt.canonical.decode(),
    )


def _pairs(receipt: AppendReceipt) -> list[tuple[str, int]]:
    return list(zip(receipt.record_ids, receipt.positions, strict=False))
