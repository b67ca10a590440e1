"""Cross-validation of a bundle: whole ones resolve, and each single broken tie is refused (VRM-W03)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from policies.bundles import NotABundle, cross_validate
from policies.distillation_policy import CandidateReason
from records.base import Record
from records.evidence import AttemptStatus, Experience, VerificationKind, VerifiedEvidenceBundle
from records.ids import (
    AttemptId,
    ContractId,
    HypothesisId,
    InterventionId,
    ObservationId,
    TaskScopeId,
)
from records.values import ArtifactRef
from tests.support.trials import digest, make_evidence


def rows(**changes: Any) -> dict[str, Record]:
    """Return the records of a changed trial by noun, in an order in which they refer to each other."""
    return {record.kind.noun: record for record in make_evidence(**changes)}


def resolve(found: Iterable[Record]) -> VerifiedEvidenceBundle | NotABundle:
    """Resolve the one Experience among records."""
    known = {str(record.id): record for record in found}
    (experience,) = (record for record in known.values() if isinstance(record, Experience))
    return cross_validate(experience, known)


def broken(noun: str, **changes: Any) -> NotABundle:
    """Return what becomes of a bundle in which one record says something else.

    Ids follow from content, so a changed record has another id. Every reference to it is mended: nothing is wrong with
    the bundle but what the changed fields say.
    """
    mended: dict[str, str] = {}
    found = []
    for record in rows().values():
        links = {
            name: mended[value]
            for name in type(record).model_fields
            if isinstance(value := getattr(record, name), str) and value in mended
        }
        changed = record.model_copy(update=links | (changes if record.kind.noun == noun else {}))
        mended[str(record.id)] = str(changed.id)
        found.append(type(record).load(changed.canonical))
    answer = resolve(found)
    assert isinstance(answer, NotABundle)
    return answer


OTHER = digest("other")
# Noun, the one changed field, and the rules that it breaks: each id and digest that two records share (spec 4, 9.1).
TIES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("attempt", {"hypothesis_id": HypothesisId.derive({"x": 1})}, ["the attempt tests another hypothesis"]),
    ("hypothesis", {"task_scope_id": TaskScopeId.derive({"x": 1})}, ["another task scope"]),
    ("observation", {"attempt_id": AttemptId.derive({"x": 1})}, ["observation is of another attempt"]),
    ("verification", {"observation_id": ObservationId.derive({"x": 1})}, ["verification is of another observation"]),
    ("verification", {"contract_id": ContractId.derive({"x": 1})}, ["under another contract"]),
    ("verification", {"evaluator_digest": OTHER}, ["evaluator is not the contract's"]),
    ("verification", {"verification_kind": VerificationKind.ATTESTED}, ["of another kind"]),
    (
        "verification",
        {"evidence_digests": (OTHER,)},
        ["rests on artifacts that the observation does not have", "leaves a required artifact out"],
    ),
    ("verification", {"evidence_digests": ()}, ["leaves a required artifact out"]),
    ("intervention", {"attempt_id": AttemptId.derive({"x": 1})}, ["intervention is of another attempt"]),
    ("intervention", {"hypothesis_id": HypothesisId.derive({"x": 1})}, ["intervention tests another hypothesis"]),
    ("intervention", {"config_digest": OTHER}, ["executed configuration is not the intervention's"]),
    ("trial-provenance", {"attempt_id": AttemptId.derive({"x": 1})}, ["provenance is of another attempt"]),
    ("trial-provenance", {"observation_id": ObservationId.derive({"x": 1})}, ["provenance is of another observation"]),
    ("trial-provenance", {"intervention_id": InterventionId.derive({"x": 1})}, ["of another intervention"]),
    ("trial-provenance", {"source_digest": OTHER}, ["source digests differ"]),
    ("trial-provenance", {"config_digest": OTHER}, ["config digests differ"]),
    ("trial-provenance", {"dataset_digest": OTHER}, ["dataset digests differ"]),
    ("trial-provenance", {"environment_digest": OTHER}, ["environment digests differ"]),
    ("trial-provenance", {"contract_digest": OTHER}, ["contract digests differ"]),
    ("trial-provenance", {"evaluator_digest": OTHER}, ["evaluator digests differ"]),
    ("trial-provenance", {"evidence_digest": OTHER}, ["evidence digests differ"]),
    ("observation", {"environment_digest": OTHER}, ["environment digests differ"]),
    ("attempt", {"source_digest": OTHER}, ["source digests differ"]),
    ("attempt", {"dataset_digest": OTHER}, ["dataset digests differ"]),
    ("attempt", {"config_digest": OTHER}, ["executed configuration", "config digests differ"]),
    ("attempt", {"task_scope_id": TaskScopeId.derive({"x": 1})}, ["another task scope"]),
    (
        "observation",
        {"artifacts": (ArtifactRef(role="log", sha256=digest("iris 0 ('scaler', 'none', 'standard')"), size_bytes=1),)},
        ["required artifact is missing", "evidence digests differ"],
    ),
]


def test_a_whole_bundle_resolves() -> None:
    found = rows()
    bundle = resolve(found.values())
    assert isinstance(bundle, VerifiedEvidenceBundle)
    parts = (
        bundle.contract, bundle.hypothesis, bundle.attempt, bundle.observation, bundle.verification,
        bundle.intervention, bundle.provenance, bundle.experience,
    )  # fmt: skip
    assert list(parts) == list(found.values())


@pytest.mark.parametrize(("noun", "changes", "rules"), TIES, ids=[f"{noun}-{min(made)}" for noun, made, _ in TIES])
def test_vrm_w03_each_broken_tie_is_refused(noun: str, changes: dict[str, Any], rules: list[str]) -> None:
    """One field of one record differs from what the others say; the reason names just the ties that it breaks."""
    answer = broken(noun, **changes)
    assert answer.reason is CandidateReason.MISSING_TRIAL_PROVENANCE
    assert len(answer.detail.split("; ")) == len(rules)
    assert all(rule in answer.detail for rule in rules), answer.detail


def test_the_contract_that_counts_is_the_stored_one() -> None:
    """A contract with another evaluator under the mended id breaks every digest that was made from it."""
    rules = broken("evaluation-contract", evaluator_digest=OTHER).detail.split("; ")
    assert rules == [
        "the evaluator is not the contract's",
        "contract digests differ",
        "evaluator digests differ",
    ]


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("verification_id", CandidateReason.MISSING_VERIFICATION),
        ("provenance_id", CandidateReason.MISSING_TRIAL_PROVENANCE),
        ("intervention_id", CandidateReason.MISSING_TYPED_ACTION),
    ],
)
def test_an_incomplete_experience_says_what_it_lacks(part: str, reason: CandidateReason) -> None:
    answer = broken("experience", **{part: None})
    assert answer.reason is reason


@pytest.mark.parametrize(
    "noun",
    ["hypothesis", "attempt", "observation", "verification", "intervention", "trial-provenance"],
)
def test_an_id_without_its_row_is_no_bundle(noun: str) -> None:
    answer = resolve(record for record in rows().values() if record.kind.noun != noun)
    assert isinstance(answer, NotABundle)
    assert answer.detail == f"no authoritative {noun}"


def test_a_row_of_another_kind_is_no_row() -> None:
    found = rows()
    by_id = {str(record.id): record for record in found.values()}
    by_id[str(found["hypothesis"].id)] = found["attempt"]
    experience = found["experience"]
    assert isinstance(experience, Experience)
    assert isinstance(cross_validate(experience, by_id), NotABundle)


def test_an_invalid_attempt_needs_no_artifacts() -> None:
    """What crashed left nothing behind; its bundle is whole, and its verification says that it is invalid."""
    bundle = resolve(rows(artifacts=(), verified={}, violations=("missing_artifact:predictions",)).values())
    assert isinstance(bundle, VerifiedEvidenceBundle)
    assert bundle.attempt.status is AttemptStatus.INVALID
    assert not bundle.verification.valid
