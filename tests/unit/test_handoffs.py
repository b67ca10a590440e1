"""The pure parts of a handoff's recovery: proofs as closed types, and the decision to release (spec 8.1, VRM-W09)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.derive import derive, profile_owner
from memory.releases import HeldElsewhere, Holding, Kept, RetentionEnded, release_decision
from records.canonical import canonical_bytes
from records.errors import IntegrityError, InvalidRecordError
from records.flows import Authority, Transition
from records.handoffs import (
    AbandonedPresent,
    Absent,
    EnqueueAttempt,
    QueuedPresent,
    RecoveryRequest,
    StoreProof,
    read_proof,
)
from records.ids import (
    ActivityId,
    AuthorizationId,
    BatchId,
    EnqueueTransactionId,
    ExperienceId,
    ReceiptId,
    ReportId,
    RunId,
    WorkItemId,
)
from records.ingestion import AbandonedReceipt, CompletionStatus, WorkCompletion
from records.runtime import Authorization, Command, Subject, handoff_id, reference_id
from records.states import Event, Machine, Phase
from records.values import PolicyIdentity, ProofRef
from tests.support.trials import digest

ITEM = WorkItemId.derive({"item": 1})
HANDOFF = handoff_id(ITEM)
RUN = RunId.derive({"run": 1})
POLICY = PolicyIdentity(policy_id="distillation", version="1", digest=digest("policy"))
REQUEST = RecoveryRequest(
    namespace="space",
    experience_id=ExperienceId.derive({"experience": 1}),
    work_item_id=ITEM,
    work_item_digest=digest("item"),
    policy=POLICY,
    handoff_id=HANDOFF,
    attempt=EnqueueAttempt.of(HANDOFF, 1, 1),
    authorization_id=None,
)
RECEIPT = {"receipt_id": ReceiptId.derive({"receipt": 1}), "receipt_digest": digest("receipt")}
SIDECAR = {"sidecar_id": EnqueueTransactionId.derive({"sidecar": 1}), "sidecar_digest": digest("sidecar")}
PROOFS: dict[str, StoreProof] = {
    "QUEUED_PRESENT": QueuedPresent.build(request=REQUEST, frontier=9, **RECEIPT, **SIDECAR),
    "ABANDONED_PRESENT": AbandonedPresent.build(request=REQUEST, frontier=9, **RECEIPT),
    "ABSENT": Absent(request=REQUEST, frontier=9),
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof_is_read_back_as_what_it_is(name: str) -> None:
    proof = PROOFS[name]
    assert proof.proof == name
    assert read_proof(proof.canonical, proof.canonical_digest) == proof
    with pytest.raises(IntegrityError):
        read_proof(proof.canonical, digest("another"))


@pytest.mark.parametrize("change", [{"proof": "PERHAPS"}, {"proof": "QUEUED_PRESENT"}, {"frontier": -1}, {"more": 1}])
def test_there_is_no_fourth_answer_and_no_other_field(change: dict[str, Any]) -> None:
    data = canonical_bytes(PROOFS["ABSENT"].as_json() | change)
    with pytest.raises(InvalidRecordError):
        read_proof(data, digest("any"))


def test_an_end_raises_generation_and_fence_by_one() -> None:
    assert EnqueueAttempt.before(HANDOFF, 2, 2) == REQUEST.attempt
    assert EnqueueAttempt.before(HANDOFF, 3, 3) == EnqueueAttempt.of(HANDOFF, 2, 2) != REQUEST.attempt
    with pytest.raises(InvalidRecordError):
        EnqueueAttempt.before(HANDOFF, 0, 0)


@pytest.mark.parametrize(("generation", "fits"), [(1, False), (2, True), (3, False)])
def test_an_abandonment_is_of_the_attempt_that_ended_before_it(generation: int, fits: bool) -> None:
    """Both sides of the spine derive, so neither takes the proof of an older attempt."""
    receipt = AbandonedReceipt(
        namespace="space", created_at="2025-03-01T12:00:00.000000Z", experience_id=REQUEST.experience_id,
        reasons=("source_run_cancelled",), policy=POLICY, abandoned_work_item_id=ITEM,
        abandoned_payload_digest=digest("item"), proof=ProofRef(ref=REQUEST.attempt.id, digest=digest("proof")),
    )  # fmt: skip
    authorization = Authorization(
        namespace="space", transition=Transition.ABANDON_ENQUEUE, authority=Authority.HANDOFF_ABANDONMENT,
        machine=Machine.HANDOFF, subject_id=HANDOFF, run_id=RUN, origin_phase=Phase.PROVED_ABSENT,
        generation=generation, fence=generation, expected_id=str(receipt.id),
        expected_digest=receipt.payload_digest, proposal_digest=digest("proposal"),
        granted_at="2025-03-01T12:00:00.000000Z",
    )  # fmt: skip
    if fits:
        assert derive((receipt,), authorization) == (receipt,)
    else:
        with pytest.raises(IntegrityError, match="proved absent"):
            derive((receipt,), authorization)


def subject(machine: Machine, phase: Phase, name: str, **body: str) -> Subject:
    return Subject(
        machine=machine, id=name, run_id=RUN, phase=phase, version=3, generation=1, fence=1,
        body=canonical_bytes(body).decode(), facts="{}",
    )  # fmt: skip


COMPLETION = WorkCompletion(
    namespace="space", created_at="2025-03-01T12:00:00.000000Z", work_item_id=ITEM, run_id=RUN,
    activity_id=ActivityId.derive({"activity": 1}), status=CompletionStatus.COMPLETED,
    authorization_id=AuthorizationId.derive({"authorization": 1}), authorization_digest=digest("authorization"),
    batch_id=BatchId.derive({"batch": 1}), report_id=ReportId.derive({"report": 1}), report_digest=digest("report"),
    terminal_evidence_digest=None,
)  # fmt: skip
BYTES = digest("profile")
OWN = reference_id(profile_owner(ITEM), BYTES)
AUDIT = reference_id("AUDIT:1", BYTES)
WHOLE = Holding(
    handoff=subject(Machine.HANDOFF, Phase.BOUND, HANDOFF),
    reference=subject(Machine.REFERENCE, Phase.ACTIVE, OWN, owner=profile_owner(ITEM), digest=BYTES),
    source_run=subject(Machine.RUN, Phase.COMPLETED, RUN),
    completion=COMPLETION,
    campaign_run=subject(Machine.RUN, Phase.COMPLETED, "campaign"),
    elsewhere=None,
)
ELSEWHERE = subject(Machine.REFERENCE, Phase.ACTIVE, AUDIT, owner="AUDIT:1", digest=BYTES)
LATER = "2025-03-08T12:00:00.000000Z"
"""Seven days after the completion."""


def test_handoff_and_reference_are_released_in_one_step() -> None:
    command = release_decision(WHOLE, RetentionEnded(7), LATER)
    assert isinstance(command, Command)
    assert [(move.machine, move.id, move.event) for move in command.moves] == [
        (Machine.HANDOFF, HANDOFF, Event.RELEASE),
        (Machine.REFERENCE, OWN, Event.RELEASE),
    ]
    assert command.requires == ()


def test_the_other_holder_must_still_hold_when_the_bytes_are_let_go() -> None:
    command = release_decision(
        replace(WHOLE, elsewhere=ELSEWHERE), HeldElsewhere("AUDIT:1"), "2025-03-01T12:00:00.000000Z"
    )
    assert isinstance(command, Command)
    assert [(each.id, each.phase, each.version) for each in command.requires] == [(AUDIT, Phase.ACTIVE, 3)]


def run(phase: Phase) -> Subject:
    return subject(Machine.RUN, phase, RUN)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"handoff": subject(Machine.HANDOFF, Phase.IN_FLIGHT, HANDOFF)}, Kept.NOT_BOUND),
        ({"handoff": subject(Machine.HANDOFF, Phase.PROVED_ABSENT, HANDOFF)}, Kept.NOT_BOUND),
        ({"reference": None}, Kept.REFERENCE_GONE),
        ({"reference": subject(Machine.REFERENCE, Phase.RELEASED, OWN)}, Kept.REFERENCE_GONE),
        ({"source_run": run(Phase.RUNNING)}, Kept.SOURCE_RUN_OPEN),
        ({"source_run": None}, Kept.SOURCE_RUN_OPEN),
        ({"completion": None}, Kept.NO_COMPLETION),
        ({"campaign_run": run(Phase.RUNNING)}, Kept.CAMPAIGN_RUN_OPEN),
        ({"campaign_run": None}, Kept.CAMPAIGN_RUN_OPEN),
    ],
)
def test_each_condition_keeps_by_itself(change: dict[str, Any], reason: Kept) -> None:
    holding = replace(WHOLE, elsewhere=ELSEWHERE, **change)
    for ground in (RetentionEnded(7), HeldElsewhere("AUDIT:1")):
        assert release_decision(holding, ground, LATER) is reason


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED])
def test_a_run_has_ended_however_it_did(phase: Phase) -> None:
    holding = replace(WHOLE, source_run=run(phase), campaign_run=run(phase))
    assert isinstance(release_decision(holding, RetentionEnded(7), LATER), Command)


def test_retention_ends_at_its_very_moment() -> None:
    assert release_decision(WHOLE, RetentionEnded(7), "2025-03-08T11:59:59.999999Z") is Kept.RETAINED
    assert release_decision(WHOLE, RetentionEnded(8), LATER) is Kept.RETAINED


@pytest.mark.parametrize("elsewhere", [None, ELSEWHERE.model_copy(update={"phase": Phase.RELEASED})])
def test_who_does_not_hold_is_no_holder(elsewhere: Subject | None) -> None:
    """Not even when the retention would have ended: the ground that is given is the one that is looked at."""
    holding = replace(WHOLE, elsewhere=elsewhere)
    assert release_decision(holding, HeldElsewhere("AUDIT:1"), LATER) is Kept.NOT_HELD_ELSEWHERE


def test_an_abandoned_handoff_waits_for_nothing() -> None:
    holding = replace(
        WHOLE, handoff=subject(Machine.HANDOFF, Phase.ABANDONED, HANDOFF), source_run=run(Phase.RUNNING),
        completion=None, campaign_run=None,
    )  # fmt: skip
    assert isinstance(release_decision(holding, RetentionEnded(365), LATER), Command)
