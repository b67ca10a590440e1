"""What is read back from the artifact store before a record may rest on it (spec 6.3, 8.2).

Both sides of the spine ask: the run owner before it grants, the coordinator before it opens the Ledger transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from records.base import Record
from records.decisions import BlockedProposal
from records.errors import IntegrityError
from records.ingestion import AbandonedReceipt
from records.outcomes import RecallOutcome
from records.retention import RetentionTombstone
from store.artifacts import ArtifactStore


def require_proofs(artifacts: ArtifactStore, records: Iterable[Record]) -> None:
    """Check that every record that rests on a published proof has it: blocked Outcomes, tombstones, abandoned receipts.

    The proof of a blocked Outcome must be that of its own decision; of the others the bytes must be there.

    Raises:
        NotFoundError: the proof was never published.
        InvalidRecordError: the bytes are no proof.
        IntegrityError: it is the proof of another decision or of another reason, or not in canonical form.
    """
    for record in records:
        if isinstance(record, RecallOutcome):
            _require_blocked(artifacts, record)
        elif isinstance(record, RetentionTombstone):
            for proof in record.proofs:
                artifacts.read(proof.digest)
        elif isinstance(record, AbandonedReceipt):
            artifacts.read(record.proof.digest)


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
