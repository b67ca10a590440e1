"""What is read back from the artifact store before a record may rest on it (spec 6.3, 8.2).

Both sides of the spine ask: the run owner before it grants, the coordinator before it opens the Ledger transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from records.base import Record
from records.decisions import BlockedProposal
from records.errors import IntegrityError, StaleError
from records.handoffs import AbandonmentProof, Absent, read_proof, require_published
from records.ingestion import AbandonedReceipt
from records.outcomes import RecallOutcome
from records.retention import RetentionTombstone
from store.artifacts import ArtifactStore


def require_proofs(artifacts: ArtifactStore, records: Iterable[Record]) -> None:
    """Check that every record that rests on a published proof has it: blocked Outcomes, tombstones, abandoned receipts.

    The proof of a blocked Outcome must be that of its own decision, the proof of an abandoned receipt that of its own
    item, with the proof of absence that it names; of tombstones, and of the cause of an abandonment, the bytes must be
    there.

    Raises:
        NotFoundError: the proof was never published.
        InvalidRecordError: the bytes are no proof.
        IntegrityError: it is the proof of another decision, reason or item, or not in canonical form.
    """
    for record in records:
        if isinstance(record, RecallOutcome):
            _require_blocked(artifacts, record)
        elif isinstance(record, RetentionTombstone):
            for proof in record.proofs:
                artifacts.read(proof.digest)
        elif isinstance(record, AbandonedReceipt):
            _require_abandoned(artifacts, record)


def require_current(artifacts: ArtifactStore, records: Iterable[Record], facts: Mapping[str, object]) -> None:
    """Check that an abandonment rests on the very proof by which the Runtime closed the attempt.

    Raises:
        StaleError: the handoff was closed by another proof.
    """
    for record in records:
        if isinstance(record, AbandonedReceipt):
            absence = _abandonment(artifacts, record).absence
            if absence != facts.get("proof"):
                raise StaleError("proof.absence", absence, f"The attempt was closed by {facts.get('proof')}.")


def _abandonment(artifacts: ArtifactStore, receipt: AbandonedReceipt) -> AbandonmentProof:
    data = artifacts.read(receipt.proof.digest)
    proof = AbandonmentProof.load(data)
    require_published(proof, data, receipt.proof.digest)
    return proof


def _require_abandoned(artifacts: ArtifactStore, receipt: AbandonedReceipt) -> None:
    proof = _abandonment(artifacts, receipt)
    absence = read_proof(artifacts.read(proof.absence), proof.absence)
    artifacts.read(proof.cause.digest)
    request = proof.request
    if not isinstance(absence, Absent) or absence.request != request:
        raise IntegrityError("proof.absence", proof.absence, "It does not say that this attempt left nothing.")
    proved = (request.namespace, request.experience_id, request.work_item_id, request.work_item_digest)
    claimed = (receipt.namespace, receipt.experience_id, receipt.abandoned_work_item_id)
    if proved != (*claimed, receipt.abandoned_payload_digest):
        raise IntegrityError("proof.request", request.work_item_id, "It is the proof of another item.")
    if (request.attempt.id, request.policy) != (receipt.proof.ref, receipt.policy):
        raise IntegrityError("proof.request", request.attempt.id, "It is the proof of another attempt or policy.")


def _require_blocked(artifacts: ArtifactStore, outcome: RecallOutcome) -> None:
    if outcome.blocked_proof_digest is not None:
        data = artifacts.read(outcome.blocked_proof_digest)
        proof = BlockedProposal.load(data)
        if proof.canonical != data:
            raise IntegrityError("blocked_proof", outcome.blocked_proof_digest, "It is not in canonical form.")
        if (proof.intent_id, proof.blocked_reason.value) != (outcome.intent_id, outcome.outcome_reason):
            raise IntegrityError(
                "blocked_proof", outcome.blocked_proof_digest, "It is the proof of another decision or reason."
            )
