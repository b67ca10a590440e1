"""Bad input: every refusal is an InvalidRecordError that names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.evidence import bundle_records
from records.base import KINDS, load_record
from records.errors import InvalidRecordError
from records.evidence import Attempt
from records.fields import Name
from records.models import Id, Model, noun_of
from tests.support.legacy_samples import every_sample
from tests.support.samples import authorization_id
from tests.support.trials import NOW, make_contract, make_task, make_trial

SAMPLES = every_sample()
ATTEMPT = SAMPLES["attempt"].as_json()
OTHER_ID = str(SAMPLES["hypothesis"].id)

BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown field": ("attempt", {"colour": "red"}, "Attempt.colour"),
    "missing field": ("attempt", {"seed": ...}, "Attempt.seed"),
    "boolean for a number": ("attempt", {"seed": True}, "Attempt.seed"),
    "float for an integer": ("attempt", {"seed": 1.5}, "Attempt.seed"),
    "whole float for an integer": ("attempt", {"seed": 1.0}, "Attempt.seed"),
    "text for a number": ("attempt", {"seed": "1"}, "Attempt.seed"),
    "negative count": ("attempt", {"iteration": -1}, "Attempt.iteration"),
    "integer beyond 2^53": ("attempt", {"seed": 2**53}, "Attempt.seed"),
    "number for a boolean": ("verification", {"valid": 1}, "Verification.valid"),
    "upper-case digest": ("attempt", {"config_digest": "A" * 64}, "Attempt.config_digest"),
    "short digest": ("attempt", {"config_digest": "a" * 63}, "Attempt.config_digest"),
    "digest with a newline": ("attempt", {"config_digest": "a" * 64 + "\n"}, "Attempt.config_digest"),
    "time without a zone": ("attempt", {"created_at": NOW[:-1]}, "Attempt.created_at"),
    "time with an offset": ("attempt", {"created_at": NOW[:-1] + "+00:00"}, "Attempt.created_at"),
    "time without microseconds": ("attempt", {"created_at": "2025-03-01T12:00:00Z"}, "Attempt.created_at"),
    "thirtieth of February": ("attempt", {"created_at": "2025-02-30T12:00:00.000000Z"}, "Attempt.created_at"),
    "month 13": ("attempt", {"created_at": "2025-13-01T12:00:00.000000Z"}, "Attempt.created_at"),
    "hour 24": ("attempt", {"created_at": "2025-03-01T24:00:00.000000Z"}, "Attempt.created_at"),
    "digits of another script": ("attempt", {"created_at": "٢٠٢٥-03-01T12:00:00.000000Z"}, "Attempt.created_at"),
    "id of another noun": ("attempt", {"contract_id": OTHER_ID}, "Attempt.contract_id"),
    "id in upper case": ("attempt", {"contract_id": OTHER_ID.upper()}, "Attempt.contract_id"),
    "id with a newline": ("attempt", {"hypothesis_id": OTHER_ID + "\n"}, "Attempt.hypothesis_id"),
    "null for an id": ("attempt", {"contract_id": None}, "Attempt.contract_id"),
    "namespace in upper case": ("attempt", {"namespace": "Test"}, "Attempt.namespace"),
    "empty namespace": ("attempt", {"namespace": ""}, "Attempt.namespace"),
    "namespace with a quote": ("attempt", {"namespace": "a'; DROP"}, "Attempt.namespace"),
    "namespace of 64": ("attempt", {"namespace": "a" * 64}, "Attempt.namespace"),
    "name with a space": ("attempt", {"model_family": "a b"}, "Attempt.model_family"),
    "name too long": ("attempt", {"model_family": "a" * 201}, "Attempt.model_family"),
    "unknown choice": ("attempt", {"corpus": "secret"}, "Attempt.corpus"),
    "other schema version": ("attempt", {"schema_version": "2"}, "Attempt.schema_version"),
    "metric not in shortest form": ("evaluation-contract", {"metric_low": "0.10"}, "EvaluationContract.metric_low"),
    "metric that is NaN": ("evaluation-contract", {"metric_low": "nan"}, "EvaluationContract.metric_low"),
    "metric that is infinite": ("evaluation-contract", {"metric_low": "1e999"}, "EvaluationContract.metric_low"),
    "metric as a number": ("evaluation-contract", {"metric_low": 0.1}, "EvaluationContract.metric_low"),
    "metric that is no number": ("evaluation-contract", {"metric_low": "good"}, "EvaluationContract.metric_low"),
    "minus zero": ("evaluation-contract", {"metric_low": "-0"}, "EvaluationContract.metric_low"),
    "text too long": ("experience", {"analysis": "a" * 100_001}, "Experience.analysis"),
    "valid with violations": ("verification", {"violations": ["x"]}, "Verification.$"),
    "changed without a knob": ("intervention", {"knob": None}, "Intervention.$"),
    "queued without an item": ("distillation-receipt", {"work_item_id": None}, "DistillationReceipt.$"),
    "covered without a decision": ("distillation-work-disposition", {"decision_id": None}, "WorkDisposition.$"),
    "completed without a report": ("distillation-work-completion", {"report_id": None}, "WorkCompletion.$"),
    "promoted without a record": ("distillation-decision", {"memory_id": None}, "DistillationDecision.$"),
    "family of another claim": ("memory-record", {"mechanism": "other"}, "MemoryRecord.$"),
    "ok without cards": ("decision-recall-context", {"items": []}, "RecallContext.$"),
    "too many tokens": ("decision-recall-context", {"token_count": 1501}, "RecallContext.token_count"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_by_name(case: str) -> None:
    noun, changes, field = BAD[case]
    body = SAMPLES[noun].as_json() | changes
    body = {key: value for key, value in body.items() if value is not ...}
    with pytest.raises(InvalidRecordError) as caught:
        load_record(noun, json.dumps(body))
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "NaN"])
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(InvalidRecordError):
        load_record("attempt", text)


def test_unknown_noun() -> None:
    with pytest.raises(InvalidRecordError, match="Known kinds"):
        load_record("thought", "{}")


def test_payload_is_never_repaired() -> None:
    body = ATTEMPT | {"dataset_root": "e"}
    assert Attempt.load(json.dumps(body)).dataset_root == "e"
    statement = SAMPLES["hypothesis"].as_json() | {"statement": "e\u0301"}
    with pytest.raises(InvalidRecordError):
        _ = load_record("hypothesis", json.dumps(statement)).id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": make_task(root="two words")}, "Attempt.dataset_root"),
        ({"seed": -1}, "Attempt.seed"),
        ({"namespace": "No"}, "Hypothesis.namespace"),
        ({"config_digest": "x"}, "Attempt.config_digest"),
        ({"verified": {"bad name!": 1.0, "balanced_accuracy": 1.0}}, "NamedMetric.name"),
        ({"verified": {"balanced_accuracy": float("nan")}}, "metric"),
    ],
)
def test_trial_from_outside_is_refused_by_our_error(changes: dict[str, Any], field: str) -> None:
    trial = make_trial()
    with pytest.raises(InvalidRecordError) as caught:
        bundle_records(type(trial)(**(vars(trial) | changes)))
    assert caught.value.field == field


@pytest.mark.parametrize("noun", sorted(Id.classes))
def test_ids_are_told_apart_and_fit_into_names(noun: str) -> None:
    class Named(Model):
        name: Name

    made = Id.classes[noun].derive({"a": 1})
    assert noun_of(made) == noun
    assert type(Id.classes[noun].check(made)) is Id.classes[noun]
    assert Named.build(name=str(made)).name == made
    wrong = [other for other in Id.classes.values() if other.noun != noun]
    for other in wrong:
        with pytest.raises(ValueError, match="expected an id"):
            other.check(made)


def test_noun_is_declared_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        type("Again", (Id,), {}, noun="attempt")


@pytest.mark.parametrize("noun", sorted(KINDS))
def test_times_outside_and_inside_of_identity(noun: str) -> None:
    record = SAMPLES[noun]
    later = record.model_copy(update={"created_at": "2030-01-01T00:00:00.000000Z"})
    assert later.id == record.id
    assert later.payload_digest != record.payload_digest


@pytest.mark.parametrize("noun", sorted(KINDS))
def test_same_content_in_two_namespaces_is_two_records(noun: str) -> None:
    assert SAMPLES[noun].model_copy(update={"namespace": "other"}).id != SAMPLES[noun].id


def test_copies_do_not_keep_what_was_computed() -> None:
    contract = make_contract()
    before = (contract.id, contract.canonical, contract.canonical_digest)
    copy = contract.model_copy(update={"name": "other"})
    assert (copy.id, copy.canonical, copy.canonical_digest) != before
    assert contract.model_copy() == contract


def test_authorization_ids_of_two_spaces_differ() -> None:
    assert authorization_id("one") != authorization_id("two")


@given(st.text(max_size=30))
def test_any_text_as_a_seed_or_a_digest_is_refused(text: str) -> None:
    for field in ("seed", "config_digest"):
        with pytest.raises(InvalidRecordError) as caught:
            Attempt.build(**(ATTEMPT | {field: text}))
        assert caught.value.field.startswith("Attempt.")
