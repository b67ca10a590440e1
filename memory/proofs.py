"""What is read back from the artifact store before a record may rest on it (spec 6.3, 8.2).

Both sides of the spine ask: the run owner before it grants, the coordinator before it opens the Ledger transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from records.base import Record
from records.control import ControlEvent, ControlKind, ControlRef, RunFacts
from records.decisions import BlockedProposal
from records.errors import IntegrityError, NotFoundError, StaleError
from records.flows import Authority
from records.handoffs import AbandonmentProof, Absent, read_proof, require_published
from records.ingestion import AbandonedReceipt, CompletionStatus, WorkCompletion
from records.outcomes import CLOSURE_ONLY, CardReason, DecisionStatus, RecallOutcome
from records.retention import RetentionTombstone
from records.runtime import Subject
from store.artifacts import ArtifactStore


def require_proofs(artifacts: ArtifactStore, records: Iterable[Record]) -> None:
    """Check that every record that rests on a published proof has it: Outcomes, completions, tombstones, receipts.

    The proof of a blocked Outcome and the control event of a closed one must be those of its own decision, the control
    event of a completion that of its Run, the proof of an abandoned receipt that of its own item, with the proof of
    absence and the control event that it names; of tombstones the bytes must be there.

    Raises:
        NotFoundError: the proof was never published.
        InvalidRecordError: the bytes are no proof.
        IntegrityError: it is the proof of another Run, decision, reason or item, or not in canonical form.
    """
    for record in records:
        if isinstance(record, RecallOutcome):
            _require_blocked(artifacts, record)
            _require_closed(artifacts, record)
        elif isinstance(record, WorkCompletion):
            _require_given_up(artifacts, record)
        elif isinstance(record, RetentionTombstone):
            for proof in record.proofs:
                artifacts.read(proof.digest)
        elif isinstance(record, AbandonedReceipt):
            _require_abandoned(artifacts, record)


def require_current(
    artifacts: ArtifactStore, records: Iterable[Record], facts: Mapping[str, object], run: Subject | None
) -> None:
    """Check that an abandonment rests on the proof by which the Runtime closed the attempt, and on what ends the Run.

    `facts` are those of the handoff, `run` is the Run as the Runtime holds it now.

    Raises:
        StaleError: the handoff was closed by another proof.
        IntegrityError: the cause is not the control event of the Run.
    """
    control = None if run is None else RunFacts.load(run.facts).control
    for record in records:
        if isinstance(record, AbandonedReceipt):
            proof = _abandonment(artifacts, record)
            if proof.absence != facts.get("proof"):
                raise StaleError("proof.absence", proof.absence, f"The attempt was closed by {facts.get('proof')}.")
            if control is None or control.digest != proof.cause.digest:
                raise IntegrityError("proof.cause", proof.cause.digest, "It is not the control event of the Run.")


def _abandonment(artifacts: ArtifactStore, receipt: AbandonedReceipt) -> AbandonmentProof:
    data = artifacts.read(receipt.proof.digest)
    proof = AbandonmentProof.load(data)
    require_published(proof, data, receipt.proof.digest)
    return proof


def _require_abandoned(artifacts: ArtifactStore, receipt: AbandonedReceipt) -> None:
    proof = _abandonment(artifacts, receipt)
    absence = read_proof(artifacts.read(proof.absence), proof.absence)
    request, cause = proof.request, proof.cause.digest
    event = ControlEvent.read(artifacts.read(cause), cause)
    event.evidence_kind()
    if (event.namespace, event.run_id) != (request.namespace, proof.source_run_id):
        raise IntegrityError("proof.cause", event.run_id, f"The work is of {proof.source_run_id}.")
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


def _require_closed(artifacts: ArtifactStore, outcome: RecallOutcome) -> None:
    digest = outcome.terminal_evidence_digest
    if (digest is not None) != (outcome.decision_status in CLOSURE_ONLY):
        raise IntegrityError(
            "outcome.terminal_evidence_digest", digest, "Closure rests on a control event, and nothing else does."
        )
    if digest is None:
        return
    event = ControlEvent.read(artifacts.read(digest), digest)
    if (event.namespace, event.run_id) != (outcome.namespace, outcome.run_id):
        raise IntegrityError("control_event.run_id", event.run_id, f"The outcome is of {outcome.run_id}.")
    if event.evidence_kind() is not outcome.terminal_evidence_kind:
        raise IntegrityError("control_event.kind", event.kind.value, "The outcome says another kind.")
    if event.reason(outcome.intent_id) is not outcome.terminal_reason:
        raise IntegrityError("control_event.cause", event.cause.value, f"It is no {outcome.terminal_reason} here.")
    _require_no_draft(outcome, event)


def _require_given_up(artifacts: ArtifactStore, completion: WorkCompletion) -> None:
    digest = completion.terminal_evidence_digest
    if digest is None:
        return
    event = ControlEvent.read(artifacts.read(digest), digest)
    if (event.namespace, event.run_id) != (completion.namespace, completion.run_id):
        raise IntegrityError("control_event.run_id", event.run_id, f"The completion is of {completion.run_id}.")
    if event.kind is not _GIVEN_UP.get(completion.status):
        raise IntegrityError("control_event.kind", event.kind.value, f"It makes no item {completion.status}.")
    if completion.created_at != event.at:
        raise IntegrityError("completion.created_at", completion.created_at, "The control event says otherwise.")


def _require_no_draft(outcome: RecallOutcome, event: ControlEvent) -> None:
    """Closure says what the event says; of what an actor left half done it takes nothing (spec 13)."""
    cancelled = outcome.decision_status is DecisionStatus.CANCELLED
    fate = CardReason.NOT_CONSIDERED_CANCELLED if cancelled else CardReason.NOT_CONSIDERED_ACTOR_FAILED
    ran = event.executed_actor if event.concerns(outcome.intent_id) else None
    rules = (
        ("dispositions", all(each.reason is fate for each in outcome.dispositions)),
        ("proposed_knob", (outcome.proposed_knob, outcome.proposed_value, outcome.hypothesis_id) == (None, None, None)),
        ("executed_actor", outcome.executed_actor in (None, ran)),
        ("created_at", outcome.created_at == event.at),
    )
    for name, holds in rules:
        if not holds:
            raise IntegrityError(f"outcome.{name}", getattr(outcome, name), "The control event says otherwise.")


def require_authority(authority: Authority, records: Iterable[Record], run: Subject | None, *, current: bool) -> None:
    """Check that authority and record fit, and that closure rests on the control event of its own Run.

    `run` is what the Runtime holds now. With `current` the event must be the primary one, as for a new grant; else it
    may also be the cancellation that a failure has taken over since the grant, which stays valid.

    Raises:
        IntegrityError: normal authority claims what only closure may, closure something else, or another event.
        StaleError: the event was the primary one until another took over.
        NotFoundError: the Runtime holds no such Run.
    """
    for record in records:
        if not isinstance(record, RecallOutcome | WorkCompletion):
            continue
        closure = authority is Authority.RUNTIME_CLOSURE
        status = record.decision_status if isinstance(record, RecallOutcome) else record.status
        if (status in CLOSURE_ONLY or status in _GIVEN_UP) != closure:
            raise IntegrityError(
                f"{record.kind.noun}.status", status.value, f"Authority {authority} does not write it."
            )
        if closure:
            _require_controlled(record, run, current=current)


_GIVEN_UP: Final = {
    CompletionStatus.CANCELLED: ControlKind.CANCEL_EVENT,
    CompletionStatus.DEAD_LETTER: ControlKind.RUNTIME_FAILURE,
}
"""What closure makes of a work item, by the kind of the control event that ends its Run."""


def given_up(kind: ControlKind) -> CompletionStatus:
    """Return what becomes of a work item whose Run is ended by this kind of control event.

    Raises:
        IntegrityError: the kind ends no Run.
    """
    found = next((status for status, ends in _GIVEN_UP.items() if ends is kind), None)
    if found is None:
        raise IntegrityError("control_event.kind", kind.value, "This event ends no work.")
    return found


def _claimed(record: RecallOutcome | WorkCompletion) -> ControlRef | None:
    digest = record.terminal_evidence_digest
    if isinstance(record, WorkCompletion):
        kind = _GIVEN_UP.get(record.status)
    else:
        kind = None if record.terminal_evidence_kind is None else ControlKind(record.terminal_evidence_kind.value)
    return None if kind is None or digest is None else ControlRef(kind=kind, digest=digest)


def _require_controlled(record: RecallOutcome | WorkCompletion, run: Subject | None, *, current: bool) -> None:
    if run is None:
        raise NotFoundError("run", record.run_id, "It was never admitted.")
    facts = RunFacts.load(run.facts)
    claimed, digest = _claimed(record), record.terminal_evidence_digest
    if current and claimed is not None and claimed == facts.superseded:
        raise StaleError("run.control", digest, "A failure has taken over since; read the Run and close it again.")
    if claimed is None or claimed not in (facts.control, facts.superseded):
        raise IntegrityError(
            f"{record.kind.noun}.terminal_evidence_digest",
            digest,
            "It is not the control event of its Run; read the Run again.",
        )
