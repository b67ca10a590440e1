"""One card of each kind, and requests as they are with and without what only procedures and episodes ask about."""

from __future__ import annotations

from typing import Any

from records.cards import EpisodicCard, ProcedureCard
from records.decisions import AllowedTool, EvidenceCard, RecallRequest
from records.evidence import Attempt, Experience, Hypothesis, Intervention, Verification
from records.ids import (
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    IntentId,
    MemoryId,
    RecallInputId,
    VerificationId,
)
from records.procedures import ProcedureRecord
from records.values import DecisionPoint, Disposition
from tests.support.decision_samples import every_variant, make_card, sample_records
from tests.support.samples import STRENGTH, scope_of
from tests.support.trials import BALANCED_ACCURACY, digest


def sample_cards() -> dict[str, EvidenceCard | ProcedureCard | EpisodicCard]:
    """Return one card of each kind."""
    known = sample_records()
    procedure = every_variant()["memory-record/procedure"]
    assert isinstance(procedure, ProcedureRecord)
    return {
        "semantic": make_card(known),
        "procedure": make_procedure_card(procedure, EventId(known["knowledge-lifecycle-event"].id)),
        "episodic": make_episodic_card(known),
    }


def make_procedure_card(record: ProcedureRecord, event: EventId, **changes: Any) -> ProcedureCard:
    """Return the card of a procedure."""
    procedure = record.procedure
    parts = ProcedureCard.model_fields.keys() & type(procedure).model_fields.keys()
    content: dict[str, Any] = {
        "namespace": record.namespace, "memory_id": MemoryId(record.id), "memory_digest": record.payload_digest,
        "family_id": record.family_id, "scope_variant_id": record.scope_variant_id, "event_id": event,
        "disposition": Disposition.ACTIVE, "as_of_position": 1, "applicability": record.scope_description,
        "mechanism": record.mechanism, "strength": STRENGTH, "contradicting": (), "renderer": "vrm-cards/2",
        "supporting": tuple(sorted(each.experience_id for each in record.links)),
        **{name: getattr(procedure, name) for name in parts},
    }  # fmt: skip
    return ProcedureCard(**(content | changes))


def make_episodic_card(known: dict[str, Any], **changes: Any) -> EpisodicCard:
    """Return the card of the sample experience."""
    experience, attempt, verification = known["experience"], known["attempt"], known["verification"]
    hypothesis, intervention = known["hypothesis"], known["intervention"]
    assert isinstance(experience, Experience)
    assert isinstance(attempt, Attempt)
    assert isinstance(verification, Verification)
    assert isinstance(hypothesis, Hypothesis)
    assert isinstance(intervention, Intervention)
    content: dict[str, Any] = {
        "namespace": experience.namespace, "experience_id": ExperienceId(experience.id),
        "experience_digest": experience.payload_digest,
        "evidence_snapshot_id": EvidenceSnapshotId(known["evidence-snapshot"].id), "bundle_digest": digest("bundle"),
        "verification_id": VerificationId(verification.id), "evidence_position": 8, "run_id": attempt.run_id,
        "arm": attempt.arm, "pair": attempt.pair, "iteration": attempt.iteration,
        "evaluation_task_id": attempt.evaluation_task_id, "decision_point": intervention.decision_point,
        "applicability": "one run", "hypothesis": hypothesis.statement, "change": intervention.knob,
        "metric": BALANCED_ACCURACY, "value": "0.5", "verified": verification.verified_metrics,
        "violations": verification.violations, "failure": "execution", "signature": "execution/ValueError",
        "analysis": experience.analysis, "renderer": "vrm-cards/2",
    }  # fmt: skip
    return EpisodicCard(**(content | changes))


def sample_requests() -> dict[str, RecallRequest]:
    """Return a request of before there were procedures and episodes, and one that asks about them."""
    known = sample_records()
    plain: dict[str, Any] = {
        "intent_id": IntentId(known["decision-intent"].id),
        "recall_input_id": RecallInputId(known["recall-input-snapshot"].id),
        "decision_point": DecisionPoint.INTERVENTION, "scope": scope_of(known), "metric": BALANCED_ACCURACY,
        "prior_config": (), "prior_observation": None, "no_prior_observation_reason": "first_decision",
        "allowed_actions": (), "query": "what helps",
    }  # fmt: skip
    asks = {
        "decision_point": DecisionPoint.DIAGNOSIS,
        "situation": "loss_diverged",
        "tools": (AllowedTool(tool="tabular-runner", version="1.2.0"),),
        "failure_signature": "execution/ValueError",
    }
    return {"plain": RecallRequest(**plain), "full": RecallRequest(**(plain | asks))}
