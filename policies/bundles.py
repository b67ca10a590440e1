"""Cross-validation of a Verified Evidence Bundle from authoritative records (VRM-W03).

Pure: the rows that an Experience points at go in, the bundle or the reason codes that hold it back come out. Every tie
is checked from both ends, so that no digest or id in one record can contradict another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.distillation_policy import CandidateReason
from records.base import Record
from records.evidence import (
    Attempt,
    AttemptStatus,
    EvaluationContract,
    Experience,
    Hypothesis,
    Intervention,
    Observation,
    TrialProvenance,
    Verification,
    VerifiedEvidenceBundle,
)


@dataclass(frozen=True)
class NotABundle:
    """Why an Experience has no bundle: a reason code and what was met."""

    reason: CandidateReason
    detail: str


def cross_validate(experience: Experience, rows: Mapping[str, Record]) -> VerifiedEvidenceBundle | NotABundle:
    """Return the bundle of an Experience from the authoritative rows, by id, or say what holds it back."""
    if experience.verification_id is None:
        return NotABundle(CandidateReason.MISSING_VERIFICATION, "the experience names no verification")
    if experience.provenance_id is None:
        return NotABundle(CandidateReason.MISSING_TRIAL_PROVENANCE, "the experience names no trial provenance")
    if experience.intervention_id is None:
        return NotABundle(CandidateReason.MISSING_TYPED_ACTION, "the experience names no intervention")
    attempt = rows.get(experience.attempt_id)
    contract = rows.get(attempt.contract_id) if isinstance(attempt, Attempt) else None
    members = (
        (rows.get(experience.hypothesis_id), Hypothesis),
        (attempt, Attempt),
        (rows.get(experience.observation_id), Observation),
        (rows.get(experience.verification_id), Verification),
        (rows.get(experience.intervention_id), Intervention),
        (rows.get(experience.provenance_id), TrialProvenance),
        (contract, EvaluationContract),
    )
    for row, model in members:
        if not isinstance(row, model):
            return NotABundle(CandidateReason.MISSING_TRIAL_PROVENANCE, f"no authoritative {model.kind.noun}")
    bundle = VerifiedEvidenceBundle(
        experience=experience,
        hypothesis=members[0][0],
        attempt=members[1][0],
        observation=members[2][0],
        verification=members[3][0],
        intervention=members[4][0],
        provenance=members[5][0],
        contract=members[6][0],
    )
    broken = [rule for holds, rule in _ties(bundle) if not holds]
    if broken:
        return NotABundle(CandidateReason.MISSING_TRIAL_PROVENANCE, "; ".join(broken))
    return bundle


def _ties(bundle: VerifiedEvidenceBundle) -> tuple[tuple[bool, str], ...]:
    attempt, observation, provenance = bundle.attempt, bundle.observation, bundle.provenance
    verification, intervention, contract = bundle.verification, bundle.intervention, bundle.contract
    return (
        (attempt.hypothesis_id == bundle.hypothesis.id, "the attempt tests another hypothesis"),
        (attempt.task_scope_id == bundle.hypothesis.task_scope_id, "the hypothesis is about another task scope"),
        (observation.attempt_id == attempt.id, "the observation is of another attempt"),
        (verification.observation_id == observation.id, "the verification is of another observation"),
        (verification.contract_id == contract.id, "the verification is under another contract"),
        (verification.evaluator_digest == contract.evaluator_digest, "the evaluator is not the contract's"),
        (verification.verification_kind is contract.verification_kind, "the verification is of another kind"),
        (intervention.attempt_id == attempt.id, "the intervention is of another attempt"),
        (intervention.hypothesis_id == bundle.hypothesis.id, "the intervention tests another hypothesis"),
        (intervention.config_digest == attempt.config_digest, "the executed configuration is not the intervention's"),
        (provenance.attempt_id == attempt.id, "the provenance is of another attempt"),
        (provenance.observation_id == observation.id, "the provenance is of another observation"),
        (provenance.intervention_id == intervention.id, "the provenance is of another intervention"),
        (provenance.source_digest == attempt.source_digest, "source digests differ"),
        (provenance.config_digest == attempt.config_digest, "config digests differ"),
        (provenance.dataset_digest == attempt.dataset_digest, "dataset digests differ"),
        (provenance.environment_digest == observation.environment_digest, "environment digests differ"),
        (provenance.contract_digest == contract.comparability_digest, "contract digests differ"),
        (provenance.evaluator_digest == contract.evaluator_digest, "evaluator digests differ"),
        ({item.sha256 for item in observation.artifacts} >= set(verification.evidence_digests),
         "the verification rests on artifacts that the observation does not have"),
        ({item.role for item in observation.artifacts} >= set(contract.required_artifacts)
         or attempt.status is not AttemptStatus.COMPLETED, "a required artifact is missing"),
    )  # fmt: skip
