"""The Source/Reference plane is apart: by type, by flow and by frontier, no source is evidence (spec 5, 8.5)."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any

import pytest

from policies.references.policy import reference_policy
from policies.retrieval_policy import retrieval_policy
from records.base import KINDS
from records.errors import InvalidInputError, InvalidRecordError
from records.flows import FLOWS, Transition
from records.models import Id, Model
from records.reference import LicenceOrigin, ReferenceChunks, SourceFacts
from records.values import DecisionPoint
from tests.support.decision_samples import every_variant, sample_records
from tests.support.reference_samples import facts, make_chunks, make_source, reference_samples

OURS = {noun for noun in Id.classes if noun.startswith("reference-")}
FLOWS_OF_OURS = {Transition.ADD_REFERENCE, Transition.INDEX_REFERENCES, Transition.FREEZE_REFERENCES}
PROOFS = {"no-commit-receipt", "distillation-commit-conflict"}
"""They say what was met where nothing was written, in words, and cite nothing."""
OTHERS = {
    name: record
    for name, record in (sample_records() | every_variant()).items()
    if record.kind.noun not in OURS | PROOFS
}


def ids_in(annotation: Any, seen: frozenset[type]) -> Iterator[str]:
    """Yield every noun that a field of this type may hold an id of."""
    if isinstance(annotation, type) and issubclass(annotation, Id):
        yield annotation.noun
    elif isinstance(annotation, type) and issubclass(annotation, Model):
        if annotation not in seen:
            for field in annotation.model_fields.values():
                yield from ids_in(field.annotation, seen | {annotation})
    elif typing.get_origin(annotation) in {typing.Union, UnionType, tuple, list, dict} or typing.get_args(annotation):
        for part in typing.get_args(annotation):
            yield from ids_in(part, seen)


def test_the_plane_is_what_it_says() -> None:
    assert set(reference_samples()) == OURS & set(KINDS)
    assert set(reference_samples()) == {
        "reference-source", "reference-chunks", "reference-index-build", "reference-context",
    }  # fmt: skip


def test_vrm_w03_no_record_of_another_plane_can_name_a_source() -> None:
    """Of every kind and variant, no field, however deep, has a type that takes an id of this plane."""
    for noun, kind in KINDS.items():
        for model in {kind.model, *kind.variants.values()}:
            found = set(ids_in(model, frozenset()))
            assert (noun in OURS) or not found & OURS, (noun, found & OURS)


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_vrm_w03_an_id_of_a_source_is_refused_where_evidence_is_cited(name: str) -> None:
    """Put in the place of any id that a record holds, the id of a source, a chunk or a card makes it no record."""
    record = OTHERS[name]
    put = f"reference-source:{'0' * 64}"

    def swapped(value: Any) -> Iterator[Any]:
        if isinstance(value, str) and re.fullmatch(r"[a-z-]+:[0-9a-f]{64}", value):
            yield put
        elif isinstance(value, dict):
            for key, held in value.items():
                yield from ({**value, key: other} for other in swapped(held))
        elif isinstance(value, list):
            for place, held in enumerate(value):
                yield from ([*value[:place], other, *value[place + 1 :]] for other in swapped(held))

    cited = 0
    for payload in swapped(record.as_json()):
        text = json.dumps(payload)
        if '"target_id"' in text and f'"target_id": "{put}"' in text:
            continue  # what is erased may be a source
        with pytest.raises(InvalidRecordError):
            record.kind.load(text)
        cited += 1
    assert cited or name == "node-report" or not any(ids_in(type(record), frozenset()))  # a root names no parent


def test_vrm_l05_no_kind_of_the_plane_moves_a_frontier_and_no_flow_mixes_planes() -> None:
    assert all(KINDS[noun].frontier is None for noun in reference_samples())
    for transition, flow in FLOWS.items():
        assert (transition in FLOWS_OF_OURS) == bool(flow.writes & OURS)
        assert transition not in FLOWS_OF_OURS or (flow.writes <= OURS and not flow.is_granted)


@pytest.mark.parametrize("point", DecisionPoint)
def test_a_reference_context_stands_beside_ideation_and_writing_alone(point: DecisionPoint) -> None:
    policy = reference_policy()
    if point in {DecisionPoint.IDEATION, DecisionPoint.WRITING}:
        policy.require_adjacent(point)
    else:
        with pytest.raises(InvalidInputError, match="ideation, writing"):
            policy.require_adjacent(point)


def test_the_policy_is_frozen_with_its_version() -> None:
    assert reference_policy().identity.digest == "200ce8d9e32b156e2d6abdbd8a8e6c48c357926c530850497320157b51e1df2f"
    assert reference_policy().rendering.tokenizer == retrieval_policy().rendering.tokenizer


@pytest.mark.parametrize(
    ("licence", "origin"), [(None, LicenceOrigin.GIVEN), (None, LicenceOrigin.STATED), ("MIT", LicenceOrigin.UNKNOWN)]
)
def test_a_licence_is_never_invented(licence: str | None, origin: LicenceOrigin) -> None:
    with pytest.raises(InvalidRecordError, match="licence is unknown"):
        SourceFacts.build(**(dict(facts()) | {"licence": licence, "licence_origin": origin}))


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"start": 1, "quote_start": 1}, "begins with the text"),
        ({"quote_end": 99}, "within its chunk"),
        ({"end": 0, "quote_end": 0}, "at least one character"),
        ({"sha256": "0" * 64}, "id of a chunk"),
    ],
)
def test_chunks_that_do_not_fit_are_refused(change: dict[str, Any], finding: str) -> None:
    made = make_chunks(make_source()).as_json()
    made["chunks"][0] |= change
    with pytest.raises(InvalidRecordError, match=finding):
        ReferenceChunks.load(json.dumps(made))


def test_what_is_stated_is_identity_and_the_time_is_not() -> None:
    first = make_source()
    assert make_source(licence="BSD-3-Clause").id != first.id
    assert make_source("other").id != first.id
    later = first.model_copy(update={"created_at": "2030-01-01T00:00:00.000000Z"})
    assert (later.id, later.payload_digest == first.payload_digest) == (first.id, False)
