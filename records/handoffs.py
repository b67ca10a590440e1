"""What is asked and answered about an enqueue handoff whose attempt was cut short (spec 8.1, VRM-W09).

Rules kept here:

- a recovery request is frozen from the handoff alone: the Experience, the work item with its digest, and the exact
  attempt that was retired, with the last grant that the handoff had;
- the Store has three answers and no fourth, each of which repeats the whole request and the Ledger position at which it
  was read. A proof of another attempt therefore differs in its request, and closes nothing;
- an obligation is abandoned on the proof of absence of the very attempt that is current, for a published cause, for
  good.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter

from records.errors import IntegrityError
from records.fields import Digest, Namespace
from records.ids import (
    AuthorizationId,
    EnqueueAttemptId,
    EnqueueTransactionId,
    ExperienceId,
    HandoffId,
    ReceiptId,
    ReferenceId,
    RunId,
    WorkItemId,
)
from records.models import Model, refusing
from records.runtime import enqueue_attempt_id
from records.values import Count, PolicyIdentity, ProofRef


class HandoffBody(Model):
    """What a handoff is about, fixed before anything is enqueued; the item itself may never come to be."""

    namespace: Namespace
    experience_id: ExperienceId
    work_item_id: WorkItemId
    work_item_digest: Digest
    policy: PolicyIdentity
    reference_id: ReferenceId


class EnqueueAttempt(Model):
    """One attempt of a handoff."""

    id: EnqueueAttemptId
    generation: Count
    fence: Count

    @classmethod
    def of(cls, handoff: HandoffId, generation: int, fence: int) -> Self:
        """Return the attempt of a handoff at a generation and fence."""
        return cls.build(id=enqueue_attempt_id(handoff, generation, fence), generation=generation, fence=fence)

    @classmethod
    def before(cls, handoff: HandoffId, generation: int, fence: int) -> Self:
        """Return the attempt whose end brought the handoff to a generation and fence: an end raises both by one."""
        return cls.of(handoff, generation - 1, fence - 1)


class RecoveryRequest(Model):
    """The question whether a retired attempt left anything in the Ledger.

    `authorization_id` is the last grant that the handoff had, if it had any; the answer can be absence only once that
    grant has its own answer.
    """

    namespace: Namespace
    experience_id: ExperienceId
    work_item_id: WorkItemId
    work_item_digest: Digest
    policy: PolicyIdentity
    handoff_id: HandoffId
    attempt: EnqueueAttempt
    authorization_id: AuthorizationId | None


class _Answer(Model):
    request: RecoveryRequest
    frontier: Count


class QueuedPresent(_Answer):
    """The attempt did commit: receipt, item and sidecar are in the Ledger."""

    proof: Literal["QUEUED_PRESENT"] = "QUEUED_PRESENT"
    receipt_id: ReceiptId
    receipt_digest: Digest
    sidecar_id: EnqueueTransactionId
    sidecar_digest: Digest


class AbandonedPresent(_Answer):
    """The obligation was abandoned before: its receipt is in the Ledger, an item is not and never will be."""

    proof: Literal["ABANDONED_PRESENT"] = "ABANDONED_PRESENT"
    receipt_id: ReceiptId
    receipt_digest: Digest


class Absent(_Answer):
    """Nothing of the attempt is in the Ledger, nor any receipt of its Experience, and nothing of it can still come."""

    proof: Literal["ABSENT"] = "ABSENT"


StoreProof = Annotated[QueuedPresent | AbandonedPresent | Absent, Field(discriminator="proof")]
"""What the Store says about a retired attempt."""

_PROOFS: Final[TypeAdapter[StoreProof]] = TypeAdapter(StoreProof)


def read_proof(data: bytes, digest: str) -> StoreProof:
    """Read a published proof of the Store back.

    Raises:
        InvalidRecordError: the bytes are no such proof.
        IntegrityError: they are not its canonical form, or have another digest.
    """
    with refusing():
        proof = _PROOFS.validate_json(data)
    require_published(proof, data, digest)
    return proof


class AbandonmentProof(Model):
    """The Runtime's proof that an enqueue obligation is over for good.

    `absence` is the digest of the published proof of absence of the current attempt, `cause` the control event that
    ended the work, such as the cancellation of the source Run. `retry` has one value: there is none, ever.
    """

    request: RecoveryRequest
    absence: Digest
    source_run_id: RunId
    cause: ProofRef
    retry: Literal["never"] = "never"


def require_published(model: Model, data: bytes, digest: str) -> None:
    """Check that bytes are the canonical form of what was read from them, under the digest that names them.

    Raises:
        IntegrityError: they are not.
    """
    if model.canonical != data or model.canonical_digest != digest:
        raise IntegrityError("proof", digest, "The artifact is not what was published; publish the proof again.")
