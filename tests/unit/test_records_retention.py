"""Erasures, commit conflicts and failed index builds as records: what each must hold, and what none may (spec 4.15)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retention import named
from records.appends import AppendReceipt
from records.base import KINDS, Frontier, load_record
from records.errors import InvalidRecordError
from records.flows import Authority, Transition
from records.ids import IndexBuildId
from records.retention import AffectedIndex, ErasureIntent, RetentionTombstone, TargetKind
from records.snapshots import IndexBuildRef
from tests.support.decision_samples import every_variant, sample_records
from tests.support.trials import digest

SAMPLES = sample_records() | every_variant()
INTENT, TOMBSTONE = SAMPLES["retention-erasure-intent"], SAMPLES["memory-retention-tombstone"]
OTHER = "retention-erasure-intent/not_applicable"
STALE, REVOKED = SAMPLES["distillation-commit-conflict"], SAMPLES["distillation-commit-conflict/RETENTION_REVOKED"]
BUILDS = [{"index_build_id": f"memory-index-build:{char * 64}", "digest": "0" * 64} for char in "ba"]
TARGETS = [{"target_id": name, "digest": "0" * 64} for name in ("b", "a")]
CHECK = REVOKED.as_json()["retention"]
HEAD = STALE.as_json()["heads"][0]

BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a rule without its retraction": ("retention-erasure-intent", {"retraction_event_id": None}),
    "a rule that says it has no lifecycle": ("retention-erasure-intent", {"retraction": "not_applicable"}),
    "an observation with a retraction": (OTHER, {"retraction_event_id": INTENT.as_json()["retraction_event_id"]}),
    "an observation that is called a rule": (OTHER, {"target_kind": "memory-record"}),
    "an unknown kind of target": (OTHER, {"target_kind": "evaluation-contract"}),
    "an unknown reason": (OTHER, {"reason": "tidiness"}),
    "index builds out of order": (OTHER, {"affected_indexes": BUILDS}),
    "an index build twice": (OTHER, {"affected_indexes": BUILDS[:1] * 2}),
    "artifacts out of order": (OTHER, {"affected_artifacts": [{"sha256": "b" * 64}, {"sha256": "a" * 64}]}),
    "a failure among the affected": (
        OTHER, {"affected_indexes": [BUILDS[0] | {"index_build_id": str(SAMPLES["memory-index-failure"].id)}]}),
    "a generation below zero": (OTHER, {"material": INTENT.as_json()["material"] | {"generation": -1}}),
    "acknowledged twice": (
        "memory-retention-tombstone", {"acknowledgements": TOMBSTONE.as_json()["acknowledgements"][:1] * 2}),
    "a proof without a digest": ("memory-retention-tombstone", {"erasure_receipt": {"ref": "x", "digest": "x"}}),
    "a tombstone of a rule without its retraction": ("memory-retention-tombstone", {"retraction_event_id": None}),
    "a stale head without heads": ("distillation-commit-conflict", {"heads": []}),
    "a stale head with null heads": ("distillation-commit-conflict", {"heads": None}),
    "a stale head with a retention check": ("distillation-commit-conflict", {"retention": CHECK}),
    "a head that is not stale": ("distillation-commit-conflict", {"heads": [HEAD | {"observed": HEAD["expected"]}]}),
    "a head twice": ("distillation-commit-conflict", {"heads": [HEAD, HEAD]}),
    "a revocation without a check": ("distillation-commit-conflict/R", {"retention": None}),
    "a revocation with heads": ("distillation-commit-conflict/R", {"heads": [HEAD]}),
    "a revocation of nothing": ("distillation-commit-conflict/R", {"retention": CHECK | {"blocked": []}}),
    "targets out of order": ("distillation-commit-conflict/R", {"retention": CHECK | {"blocked": TARGETS}}),
    "a conflict of another reason": ("distillation-commit-conflict", {"reason": "PRECONDITION_CONFLICT"}),
    "an unknown reason of a failure": ("memory-index-failure", {"reason": "bad_luck"}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str) -> None:
    name, changes = BAD[case]
    record = REVOKED if name.endswith("/R") else SAMPLES[name]
    with pytest.raises(InvalidRecordError):
        load_record(record.kind.noun, json.dumps(record.as_json() | changes))


def test_both_retention_kinds_and_no_other_advance_the_retention_frontier() -> None:
    advancing = {noun for noun, kind in KINDS.items() if kind.frontier is Frontier.RETENTION}
    assert advancing == {"retention-erasure-intent", "memory-retention-tombstone"}


def test_every_target_kind_but_an_artifact_is_a_noun_of_the_ledger() -> None:
    assert {kind.value for kind in TargetKind} - {"artifact"} <= set(KINDS)


def test_the_tombstone_repeats_its_intent_and_names_every_proof() -> None:
    assert isinstance(INTENT, ErasureIntent)
    assert isinstance(TOMBSTONE, RetentionTombstone)
    assert TOMBSTONE.intent_id == INTENT.id
    assert [part.affected for part in TOMBSTONE.acknowledgements] == INTENT.affected
    assert len(TOMBSTONE.proofs) == 1 + len(INTENT.affected) == 3


def test_a_recall_input_cannot_name_a_build_that_failed() -> None:
    failure = str(SAMPLES["memory-index-failure"].id)
    with pytest.raises(InvalidRecordError, match="memory-index-build"):
        IndexBuildRef.load(json.dumps({"index_build_id": failure, "digest": "0" * 64}))
    body = SAMPLES["recall-input-snapshot"].as_json()
    body["index_builds"] = [{"index_build_id": failure, "digest": "0" * 64}]
    with pytest.raises(InvalidRecordError):
        load_record("recall-input-snapshot", json.dumps(body))


def test_a_failure_tells_people_more_than_its_identity() -> None:
    failure = SAMPLES["memory-index-failure"]
    assert failure.model_copy(update={"detail": "another wording"}).id == failure.id
    assert failure.model_copy(update={"operation_key": "build-2"}).id != failure.id


@pytest.mark.parametrize("proof", ["distillation-commit-conflict", "no-commit-receipt"])
def test_a_receipt_names_either_proof(proof: str) -> None:
    receipt = AppendReceipt(
        namespace="test", transition=Transition.COMMIT_DISTILLATION, authority=Authority.NORMAL, permit_key="k",
        permit_digest=digest("k"), record_ids=(str(SAMPLES[proof].id),), positions=(1,),
        no_commit_id=SAMPLES[proof].id, reason=SAMPLES[proof].reason,  # type: ignore[arg-type, attr-defined]  # either
    )  # fmt: skip
    again = AppendReceipt.load(receipt.canonical)
    assert (again, type(again.no_commit_id)) == (receipt, type(SAMPLES[proof].id))
    assert not again.committed
    with pytest.raises(InvalidRecordError):
        AppendReceipt.load(json.dumps(vars(receipt) | {"no_commit_id": str(SAMPLES["attempt"].id)}))


@given(st.sets(st.integers(0, 15), max_size=6).map(sorted), st.randoms())
def test_an_affected_set_has_one_order(numbers: list[int], random: Any) -> None:
    builds = tuple(AffectedIndex(index_build_id=IndexBuildId.derive({"n": n}), digest="0" * 64) for n in numbers)
    ordered = sorted(builds, key=lambda part: part.index_build_id)
    body = SAMPLES[OTHER].as_json() | {"affected_indexes": [part.as_json() for part in ordered]}
    good = load_record("retention-erasure-intent", json.dumps(body))
    assert isinstance(good, ErasureIntent)
    shuffled = list(ordered)
    random.shuffle(shuffled)
    if shuffled != ordered:
        with pytest.raises(InvalidRecordError):
            load_record("retention-erasure-intent", json.dumps(body | {
                "affected_indexes": [part.as_json() for part in shuffled]}))  # fmt: skip


def test_what_a_record_names() -> None:
    text = {"a": ["hypothesis:" + "0" * 64, {"b": "f" * 64}], "c": "hypothesis:0", "d": 7, "e": None, "f": "F" * 64}
    assert sorted(named(text)) == ["f" * 64, "hypothesis:" + "0" * 64]
    assert set(named(SAMPLES["experience"].as_json())) >= {str(SAMPLES[noun].id) for noun in ("attempt", "observation")}
