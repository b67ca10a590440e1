"""Procedures: what hangs together in one, what a record must say, and which family it belongs to (spec 8.4, 9.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from records.base import load_record
from records.canonical import canonical_bytes, parse_canonical
from records.errors import InvalidRecordError
from records.ids import ExperienceId
from records.knowledge import MemoryRecord, scope_variant_id, variant_under
from records.procedures import (
    Action,
    Counterexample,
    FailureMode,
    Parameter,
    Procedure,
    ProcedureRecord,
    Step,
    ToolRequirement,
    TypedValue,
    ValueType,
    procedure_family_id,
)
from tests.support.decision_samples import every_variant, sample_records
from tests.support.second_canonicaliser import canonicalise, derive
from tests.support.variant_samples import MECHANISM, make_check, make_procedure

SAMPLES = sample_records()
EXPERIENCE = ExperienceId(SAMPLES["experience"].id)
STRANGER = ExperienceId.derive({"nobody": 1})
RECORD = every_variant()["memory-record/procedure"]
GOOD = make_procedure(EXPERIENCE)
STEP = GOOD.steps[0]


def with_action(**changes: Any) -> tuple[Step, ...]:
    return (STEP.model_copy(update={"action": STEP.action.model_copy(update=changes)}), GOOD.steps[1])


LOOSE: dict[str, dict[str, Any]] = {
    "no step": {"steps": ()},
    "two steps of one name": {"steps": (STEP, STEP)},
    "a version that is not declared compatible": {"steps": with_action(version="1.3.0")},
    "a tool that is not required": {"steps": with_action(tool="shell")},
    "parameters out of order": {"steps": with_action(parameters=STEP.action.parameters[::-1])},
    "a parameter twice": {"steps": with_action(parameters=(STEP.action.parameters[0],) * 2)},
    "tools out of order": {"tools": (*GOOD.tools, ToolRequirement(tool="a-tool", versions=("1",)))},
    "a tool twice": {"tools": GOOD.tools * 2},
    "versions out of order": {"tools": (ToolRequirement(tool="tabular-runner", versions=("1.2.0", "1.1.0")),)},
    "a check after a step that is not there": {"success_checks": (make_check("x", "loss", "1", after_step="third"),)},
    "a precondition after a step": {"preconditions": (make_check("x", "loss", "1", after_step="lower"),)},
    "a resource twice": {"cost": GOOD.cost.model_copy(update={"bounds": GOOD.cost.bounds * 2})},
}


@pytest.mark.parametrize("case", LOOSE)
def test_a_procedure_hangs_together(case: str) -> None:
    with pytest.raises(ValidationError):
        make_procedure(EXPERIENCE, **LOOSE[case])


def test_a_tool_needs_a_version() -> None:
    with pytest.raises(ValidationError):
        ToolRequirement(tool="tabular-runner", versions=())


@pytest.mark.parametrize(("expected", "limit"), [("-1", "2"), ("3", "2")])
def test_a_cost_is_within_its_limit(expected: str, limit: str) -> None:
    body = GOOD.cost.bounds[0].as_json() | {"expected": expected, "limit": limit}
    with pytest.raises(InvalidRecordError):
        type(GOOD.cost.bounds[0]).load(json.dumps(body))


INCOMPLETE: dict[str, dict[str, Any]] = {
    "without preconditions": {"preconditions": ()},
    "without a way to succeed": {"success_checks": ()},
    "without a reason to stop early": {"early_stop_checks": ()},
    "an uncited counterexample": {"counterexamples": (Counterexample(experience_id=STRANGER, detail="elsewhere"),)},
    "an uncited failure": {"failure_modes": (FailureMode(code="x", detail="elsewhere", experience_ids=(STRANGER,)),)},
}


@pytest.mark.parametrize("case", INCOMPLETE)
def test_a_candidate_may_be_incomplete_and_a_record_may_not(case: str) -> None:
    procedure = make_procedure(EXPERIENCE, **INCOMPLETE[case]).as_json()
    candidate = every_variant()["knowledge-candidate/procedure"].as_json() | {"procedure": procedure}
    assert load_record("knowledge-candidate", json.dumps(candidate)).kind.noun == "knowledge-candidate"
    with pytest.raises(InvalidRecordError) as caught:
        load_record("memory-record", json.dumps(RECORD.as_json() | {"procedure": procedure}))
    assert caught.value.field == "ProcedureRecord.$"


@pytest.mark.parametrize("name", ["family_id", "scope_variant_id"])
def test_ids_follow_from_content(name: str) -> None:
    rule = SAMPLES["memory-record"].as_json()
    with pytest.raises(InvalidRecordError, match=f"{name} does not follow"):
        load_record("memory-record", json.dumps(RECORD.as_json() | {name: rule[name]}))


def test_the_family_is_of_point_goal_metric_and_mechanism() -> None:
    trigger = GOOD.trigger
    family = procedure_family_id("test", trigger, MECHANISM)
    assert family == derive(
        "knowledge-family",
        {
            "namespace": "test", "record_kind": "procedure", "decision_point": "diagnosis", "goal": "finite_loss",
            "situation": "loss_diverged", "metric": "balanced_accuracy", "mechanism": MECHANISM,
        },
    )  # fmt: skip
    for changes in ({"situation": "other"}, {"goal": "other"}):
        assert procedure_family_id("test", trigger.model_copy(update=changes), MECHANISM) != family
    assert procedure_family_id("other", trigger, MECHANISM) != family
    assert procedure_family_id("test", trigger, "other") != family


def test_wording_scope_evidence_and_allowlist_leave_the_family_alone() -> None:
    assert isinstance(RECORD, ProcedureRecord)
    other = make_procedure(STRANGER, catalog_digest="0" * 64, steps=GOOD.steps[1:], manipulation_checks=())
    family = procedure_family_id("test", other.trigger, MECHANISM)
    assert family == RECORD.family_id
    assert variant_under("test", family, RECORD.scope, other.catalog_digest) != RECORD.scope_variant_id


def test_the_variant_of_a_rule_is_made_as_before() -> None:
    rule = SAMPLES["memory-record"]
    assert isinstance(rule, MemoryRecord)
    made = variant_under("test", rule.family_id, rule.scope, rule.target.catalog_digest)
    assert made == scope_variant_id("test", rule.family_id, rule.scope, rule.target) == rule.scope_variant_id


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ValueType.TEXT, "1"), (ValueType.TEXT, "plain"), (ValueType.INTEGER, "1.5"), (ValueType.INTEGER, "true"),
        (ValueType.NUMBER, '"1"'), (ValueType.NUMBER, "1.0"), (ValueType.NUMBER, "NaN"), (ValueType.NUMBER, "false"),
        (ValueType.BOOLEAN, "1"), (ValueType.BOOLEAN, "null"), (ValueType.TEXT, "[]"), (ValueType.TEXT, ' "a"'),
        (ValueType.TEXT, '"e\u0301"'), (ValueType.INTEGER, "9007199254740993"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_of_its_type(kind: ValueType, value: str) -> None:
    with pytest.raises(ValidationError, match=r"canonical JSON text|Normalise the text"):
        TypedValue(type=kind, value=value)


VALUES = {
    ValueType.TEXT: st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=9),
    ValueType.INTEGER: st.integers(-(2**53) + 1, 2**53 - 1),
    ValueType.NUMBER: st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0),
    ValueType.BOOLEAN: st.booleans(),
}


@given(st.sampled_from(ValueType).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_every_value_of_a_type_has_its_text(pair: tuple[ValueType, Any]) -> None:
    kind, value = pair
    typed = TypedValue(type=kind, value=canonical_bytes(value).decode())
    assert TypedValue.load(typed.canonical) == typed
    assert parse_canonical(typed.value) == value


@given(st.sampled_from(ValueType), st.text(max_size=9))
def test_any_text_is_a_value_in_one_form_or_refused(kind: ValueType, text: str) -> None:
    try:
        typed = TypedValue(type=kind, value=text)
    except (ValidationError, InvalidRecordError):
        return
    assert canonicalise(parse_canonical(typed.value)).decode() == text


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.lists(NAMES, min_size=1, max_size=3, unique=True))
def test_any_steps_with_declared_versions_are_a_procedure(steps: list[str], versions: list[str]) -> None:
    value = TypedValue(type=ValueType.BOOLEAN, value="true")
    made = tuple(
        Step(
            name=name,
            purpose=name,
            action=Action(
                tool="tool",
                version=versions[place % len(versions)],
                operation="do",
                parameters=(Parameter(name="now", value=value),),
            ),
        )
        for place, name in enumerate(steps)
    )
    loose = {"preconditions": (), "success_checks": (), "manipulation_checks": (), "early_stop_checks": ()}
    tools = (ToolRequirement(tool="tool", versions=tuple(sorted(versions))),)
    procedure = make_procedure(EXPERIENCE, steps=made, tools=tools, **loose)
    assert Procedure.load(procedure.canonical) == procedure
    assert [step.name for step in procedure.steps] == steps
