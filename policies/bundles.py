"""Cross-validation of a Verified Evidence Bundle from authoritative records (VRM-W03).

Pure: the rows that an Experience points at go in, the bundle or the reason codes that hold it back come out. Every tie
is checked from both ends, so that no digest or id in one record can contradict another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from policies.distillation_policy import CandidateReason
from records.base import Record
from records.canonical import domain_digest
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
from records.values import ArtifactRef

R = TypeVar("R", bound=Record)


def evidence_digest(artifacts: Iterable[ArtifactRef]) -> str:
    """Return the digest of what a trial left behind: the roles and digests of its artifacts, in no order.

    Support units are made of it, so it must follow from the artifacts and from nothing that a writer may choose
    (VRM-W06).
    """
    return domain_digest("evidence-payload", sorted([item.role, item.sha256] for item in artifacts))


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
    try:
        attempt = _row(rows, experience.attempt_id, Attempt)
        bundle = VerifiedEvidenceBundle(
            experience=experience,
            hypothesis=_row(rows, experience.hypothesis_id, Hypothesis),
            attempt=attempt,
            observation=_row(rows, experience.observation_id, Observation),
            verification=_row(rows, experience.verification_id, Verification),
            intervention=_row(rows, experience.intervention_id, Intervention),
            provenance=_row(rows, experience.provenance_id, TrialProvenance),
            contract=_row(rows, attempt.contract_id, EvaluationContract),
        )
    except LookupError as missing:
        return NotABundle(CandidateReason.MISSING_TRIAL_PROVENANCE, f"no authoritative {missing.args[0]}")
    broken = [rule for holds, rule in _ties(bundle) if not holds]
    if broken:
        return NotABundle(CandidateReason.MISSING_TRIAL_PROVENANCE, "; ".join(broken))
    return bundle


def _row(rows: Mapping[str, Record], record_id: str, model: type[R]) -> R:
    row = rows.get(record_id)
    if isinstance(row, model):
        return row
    raise LookupError(model.kind.noun)


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
        (provenance.evidence_digest == evidence_digest(observation.artifacts), "evidence digests differ"),
        ({item.sha256 for item in observation.artifacts} >= set(verification.evidence_digests),
         "the verification rests on artifacts that the observation does not have"),
        ({item.role for item in observation.artifacts} >= set(contract.required_artifacts)
         or attempt.status is not AttemptStatus.COMPLETED, "a required artifact is missing"),
        (not verification.valid
         or set(verification.evidence_digests)
         >= {item.sha256 for item in observation.artifacts if item.role in contract.required_artifacts},
         "the verification leaves a required artifact out"),
    )  # fmt: skip
