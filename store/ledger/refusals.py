"""The one record that a refused append writes: the proof that nothing else was written."""

from __future__ import annotations

from typing import Any

from records.appends import Append
from records.conflicts import CommitConflict, HeadConflict, NoCommit, RetentionConflict
from records.flows import FLOWS
from records.ids import AuthorizationId
from records.outcomes import NoCommitReason, NoCommitReceipt
from store.ledger.port import Refusal


def proof_of(append: Append, refusal: Refusal) -> NoCommit:
    """Return the proof of a refusal: a commit conflict where the row says so, otherwise a no-commit receipt.

    Raises:
        InvalidRecordError: the refusal lacks what its reason has to tell.
    """
    shared: dict[str, Any] = {
        "namespace": append.namespace,
        "created_at": append.records[0].created_at,
        "authorization_id": AuthorizationId(append.permit_key),
        "authorization_digest": append.permit_digest,
        "detail": refusal.detail[:2000],
    }
    if refusal.reason in FLOWS[append.transition].conflicts:
        return _conflict(shared, refusal)
    return NoCommitReceipt(**shared, transition=append.transition.value, reason=refusal.reason, heads=refusal.heads)


def _conflict(shared: dict[str, Any], refusal: Refusal) -> CommitConflict:
    if refusal.reason is NoCommitReason.LIFECYCLE_HEAD_STALE:
        return HeadConflict.build(**shared, heads=refusal.heads)
    return RetentionConflict.build(**shared, retention=refusal.retention)
