"""Variants of a kind: one registry entry, one table, one model for each value of a closed discriminator."""

from __future__ import annotations

import json
import typing
from enum import StrEnum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.base import KINDS, Kind, Record, load_record
from records.errors import InvalidRecordError
from records.ingestion import AbandonedReceipt, DistillationReceipt
from records.knowledge import Candidate, GovernedRecord, KnowledgeCandidate, MemoryRecord
from records.procedures import ProcedureCandidate, ProcedureRecord
from store.ledger import schema
from tests.support.decision_samples import every_variant, sample_records

SAMPLES = sample_records()
VARIANTS = every_variant()
WITH_VARIANTS = sorted(noun for noun, kind in KINDS.items() if kind.discriminator)


def test_which_kinds_have_variants() -> None:
    told_apart = {noun: KINDS[noun].discriminator for noun in WITH_VARIANTS}
    assert told_apart == {
        "distillation-commit-conflict": "reason",
        "distillation-receipt": "disposition",
        "knowledge-candidate": "record_kind",
        "lineage-entry": "entry_kind",
        "memory-record": "record_kind",
        "memory-retention-tombstone": "retraction",
        "retention-erasure-intent": "retraction",
    }


@pytest.mark.parametrize("noun", WITH_VARIANTS)
def test_every_value_of_the_discriminator_has_one_model(noun: str) -> None:
    kind = KINDS[noun]
    assert kind.discriminator is not None
    shared = kind.model.model_fields[kind.discriminator].annotation
    assert shared is not None
    closed = isinstance(shared, type) and issubclass(shared, StrEnum)
    legal = set(shared) if closed else set(typing.get_args(shared))  # type: ignore[call-overload]  # closed enums
    assert {str(value) for value in legal} == set(kind.variants)
    for model in kind.variants.values():
        assert model.kind is kind
        assert model.__bases__ == (kind.model,)


@pytest.mark.parametrize("noun", WITH_VARIANTS)
def test_what_variants_share_makes_no_records(noun: str) -> None:
    fields = SAMPLES[noun].as_json()
    with pytest.raises(TypeError, match="abstract"):
        KINDS[noun].model(**fields)


@pytest.mark.parametrize("noun", WITH_VARIANTS)
def test_columns_and_children_are_of_the_shared_part(noun: str) -> None:
    kind = KINDS[noun]
    names = {*schema.column_names(kind), *(child.path for child in kind.children)}
    assert kind.discriminator in names
    assert names <= set(kind.model.model_fields)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_the_discriminator_picks_the_model(name: str) -> None:
    record = VARIANTS[name]
    noun, value = name.split("/")
    loaded = load_record(noun, record.payload)
    assert type(loaded) is type(record) is KINDS[noun].variants[value]
    assert (loaded, loaded.id) == (record, record.id)
    assert type(load_record(noun, SAMPLES[noun].payload)) is type(SAMPLES[noun])
    assert type(SAMPLES[noun]) is not type(record)


@pytest.mark.parametrize("noun", WITH_VARIANTS)
@pytest.mark.parametrize("value", ["unheard_of", "", "SEMANTIC", None, 1, ["semantic"], ...])
def test_an_unknown_discriminator_is_refused_by_name(noun: str, value: Any) -> None:
    kind = KINDS[noun]
    assert kind.discriminator is not None
    body = SAMPLES[noun].as_json() | {kind.discriminator: value}
    body = {key: item for key, item in body.items() if item is not ...}
    with pytest.raises(InvalidRecordError) as caught:
        load_record(noun, json.dumps(body))
    assert caught.value.field == f"{kind.model.__name__}.{kind.discriminator}"
    assert all(known in caught.value.remedy for known in kind.variants)


@given(st.text(max_size=30))
def test_any_other_text_is_no_variant(text: str) -> None:
    body = SAMPLES["memory-record"].as_json() | {"record_kind": text}
    if text not in {"semantic", "procedure"}:
        with pytest.raises(InvalidRecordError):
            load_record("memory-record", json.dumps(body))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"semantic"', "1"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        load_record("memory-record", text)
    assert caught.value.field == "GovernedRecord.$"


def test_a_refused_field_names_the_variant() -> None:
    body = VARIANTS["memory-record/procedure"].as_json() | {"mechanism": "two words"}
    with pytest.raises(InvalidRecordError) as caught:
        load_record("memory-record", json.dumps(body))
    assert caught.value.field == "ProcedureRecord.mechanism"


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_one_variant_does_not_take_the_fields_of_another(name: str) -> None:
    noun = name.split("/", maxsplit=1)[0]
    discriminator = KINDS[noun].discriminator
    assert discriminator is not None
    for mine, other in ((VARIANTS[name], SAMPLES[noun]), (SAMPLES[noun], VARIANTS[name])):
        body = other.as_json() | {discriminator: mine.as_json()[discriminator]}
        with pytest.raises(InvalidRecordError):
            load_record(noun, json.dumps(body))


def test_rules_and_procedures_share_what_governs_them() -> None:
    for one, two, both in (
        (MemoryRecord, ProcedureRecord, GovernedRecord),
        (KnowledgeCandidate, ProcedureCandidate, Candidate),
    ):
        assert issubclass(one, both)
        assert issubclass(two, both)
        assert not issubclass(two, one)


def test_the_abandoned_item_is_no_foreign_key() -> None:
    kind = KINDS["distillation-receipt"]
    assert "work_item_id" in schema.column_names(kind)
    assert "abandoned_work_item_id" not in schema.column_names(kind)
    fields = AbandonedReceipt.model_fields
    assert set(fields) - set(DistillationReceipt.model_fields) == {
        "abandoned_work_item_id", "abandoned_payload_digest", "proof",
    }  # fmt: skip
    receipt = VARIANTS["distillation-receipt/abandoned_before_enqueue"]
    assert isinstance(receipt, AbandonedReceipt)
    assert receipt.as_json()["work_item_id"] is None


class TestDeclaring:
    """What is no proper variant is refused when its module is imported."""

    @pytest.fixture(autouse=True)
    def _registry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("records.base.KINDS", dict(KINDS))

    def make(self, discriminator: str | None = "sort") -> Any:
        class Shared(Record, kind=Kind(noun="attempt-sort", table="sorts", discriminator=discriminator)):
            sort: Literal["a", "b", "c"]

        return Shared

    def test_two_variants_for_one_value(self) -> None:
        shared = self.make()

        class First(shared):  # type: ignore[misc, valid-type]  # made at run time
            sort: Literal["a", "b"]

        assert set(First.kind.variants) == {"a", "b"}
        with pytest.raises(ValueError, match="two variants for b"):

            class Second(shared):  # type: ignore[misc, valid-type]  # made at run time
                sort: Literal["b", "c"]

    def test_a_subclass_that_narrows_nothing(self) -> None:
        with pytest.raises(ValueError, match="narrows no discriminator"):

            class Open(self.make()):  # type: ignore[misc]  # made at run time
                sort: str

    def test_a_variant_of_a_kind_without_a_discriminator(self) -> None:
        with pytest.raises(ValueError, match="narrows no discriminator"):

            class Narrow(self.make(None)):  # type: ignore[misc]  # made at run time
                sort: Literal["a"]

    def test_a_variant_of_a_variant(self) -> None:
        class First(self.make()):  # type: ignore[misc]  # made at run time
            sort: Literal["a", "b"]

        with pytest.raises(ValueError, match="is no variant"):

            class Deeper(First):
                sort: Literal["a"]

    def test_a_kind_is_declared_once(self) -> None:
        with pytest.raises(ValueError, match="declared twice"):

            class Again(Record, kind=Kind(noun="attempt", table="attempts")):
                pass
