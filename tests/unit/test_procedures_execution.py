"""Execution as policy: what stands against it, and the account that follows from what was observed (spec 8.4)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.procedures.adapter import ProcedureAdapter
from memory.procedures.reading import StoredProcedure
from policies.catalog import InterventionCatalog
from policies.distillation_policy import distillation_policy
from policies.procedures.execution import (
    BlockCode,
    Ground,
    Seen,
    Status,
    account_of,
    changes_of,
    holds,
    preflight,
)
from policies.procedures.judging import compile_procedure
from policies.procedures.policy import ProcedureReason, procedure_policy
from policies.procedures.trajectories import read_trajectories
from records.errors import ProcedureBlockedError
from records.procedures import Check, Comparison, Procedure, TypedValue, ValueType
from tests.support.procedure_samples import CATALOG, GOOD, bundles, chains

POLICY, PROCEDURES = distillation_policy(), procedure_policy()


def _compiled() -> Procedure:
    found = read_trajectories(bundles(chains(GOOD)), POLICY).trajectories
    made = compile_procedure(found, POLICY, PROCEDURES)
    assert not isinstance(made, ProcedureReason)
    return made.procedure


PROCEDURE = _compiled()
TOOL, RUNTIME = (next(each.tool for each in PROCEDURE.tools if each.tool.endswith(end)) for end in ("es", "ment"))
RUNNING = {each.tool: each.versions[0] for each in PROCEDURE.tools}
METRIC = "balanced_accuracy"
OTHER = InterventionCatalog.model_validate(CATALOG.model_dump() | {"version": "2"})


def ground(**changes: Any) -> Ground:
    """Return a ground on which the procedure may be executed, but for the changes."""
    observed = {check.observable: json_text(check) for check in PROCEDURE.preconditions}
    fields: dict[str, Any] = {
        "active": True,
        "tools": RUNNING,
        "operations": {TOOL: frozenset({"set_knob"})},
        "catalog": CATALOG,
        "config": CATALOG.baseline,
        "observed": observed,
    }
    return Ground(**(fields | changes))


def json_text(check: Check) -> str:
    return check.expected.value.strip('"')


def seen(place: int, value: float | None, config: str | None = None) -> Seen:
    """Return the run after so many steps, with a score."""
    configs = [json_text(next(c for c in PROCEDURE.preconditions if c.observable == "config_digest"))]
    configs += [json_text(check) for check in PROCEDURE.manipulation_checks]
    metrics = {} if value is None else {METRIC: value}
    return Seen(experience_id=f"experience-{place}", config_digest=config or configs[place], metrics=metrics)


def account(*values: float | None) -> Any:
    return account_of(PROCEDURE, [seen(place, value) for place, value in enumerate(values)])


class TestPreflight:
    def test_nothing_stands_against_it_where_it_was_compiled(self) -> None:
        assert preflight(PROCEDURE, ground()) == ()
        changes = changes_of(PROCEDURE, CATALOG, CATALOG.baseline)
        assert [(each.knob, each.from_value, each.to_value) for each in changes] == [
            ("scaler", "none", "standard"),
            ("class_weight", "none", "balanced"),
        ]

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"active": False}, BlockCode.NOT_ACTIVE),
            ({"tools": {TOOL: RUNNING[TOOL]}}, BlockCode.UNKNOWN_TOOL),
            ({"tools": RUNNING | {TOOL: "f" * 64}}, BlockCode.TOOL_VERSION),
            ({"tools": RUNNING | {RUNTIME: "f" * 64}}, BlockCode.TOOL_VERSION),
            ({"operations": {TOOL: frozenset({"delete"})}}, BlockCode.UNKNOWN_OPERATION),
            ({"catalog": OTHER}, BlockCode.CATALOG),
            ({"config": CATALOG.effective_config({"scaler": "robust"})}, BlockCode.NOT_ALLOWED),
            ({"observed": {}}, BlockCode.PRECONDITION),
        ],
    )
    def test_what_is_not_as_needed_blocks(self, changes: dict[str, Any], code: BlockCode) -> None:
        assert code in {block.code for block in preflight(PROCEDURE, ground(**changes))}

    @pytest.mark.parametrize("name", [check.observable for check in PROCEDURE.preconditions])
    def test_every_precondition_counts(self, name: str) -> None:
        (block,) = preflight(PROCEDURE, ground(observed={**ground().observed, name: "elsewhere"}))
        assert (block.code, block.about, block.met) == (BlockCode.PRECONDITION, name, "elsewhere")

    def test_the_adapter_raises_it_typed(self) -> None:
        adapter = ProcedureAdapter(catalog=CATALOG, running=RUNNING | {TOOL: "f" * 64}, policy=PROCEDURES)
        found = StoredProcedure(record=_Record(PROCEDURE), disposition="active", current=True)  # type: ignore[arg-type]
        here = adapter.ground(found, CATALOG.baseline, ground().observed)
        with pytest.raises(ProcedureBlockedError, match="nothing was run") as caught:
            adapter.changes(found, here)
        assert caught.value.field.startswith("tool_version_changed")
        assert pickle.loads(pickle.dumps(caught.value)).value == "f" * 64  # noqa: S301  # our own bytes

    def test_a_tool_that_no_policy_names_does_not_count_as_running(self) -> None:
        adapter = ProcedureAdapter(catalog=CATALOG, running=RUNNING | {"shell": "1"}, policy=PROCEDURES)
        found = StoredProcedure(record=_Record(PROCEDURE), disposition="active", current=True)  # type: ignore[arg-type]
        assert adapter.ground(found, CATALOG.baseline, {}).tools == RUNNING


class _Record:
    def __init__(self, procedure: Procedure) -> None:
        self.procedure = procedure


class TestAccount:
    def test_success(self) -> None:
        found = account(0.5, 0.6, 0.7)
        assert (found.status, found.kept, found.stopped_by, found.rolled_back) == (Status.SUCCEEDED, 2, None, False)
        assert all(each.holds for each in found.findings)
        gains = {each.check.name: each.observed for each in found.findings if each.check.observable.startswith("gain")}
        assert gains["better-than-the-start"] == pytest.approx(0.2)

    def test_a_gain_inside_the_margin_is_no_success(self) -> None:
        found = account(0.5, 0.502, 0.504)
        assert (found.status, found.kept) == (Status.NO_SUCCESS, 2)

    def test_harm_stops_it_and_the_step_is_undone(self) -> None:
        found = account(0.5, 0.4, 0.9)
        assert (found.status, found.stopped_by, found.kept) == (Status.STOPPED, "no-harm-by-step-1:scaler", 0)
        assert len(found.runs) == 2, "what ran after a stop is no part of it"

    def test_harm_of_a_later_step_leaves_the_earlier_one_in_effect(self) -> None:
        found = account(0.5, 0.6, 0.55)
        assert (found.status, found.kept, found.rolled_back) == (Status.STOPPED, 1, False)

    def test_losses_that_no_step_is_stopped_for_are_rolled_back_at_the_end(self) -> None:
        found = account(0.5, 0.497, 0.495)
        assert (found.status, found.kept, found.rolled_back) == (Status.NO_SUCCESS, 0, True)

    def test_a_step_that_changed_something_else_stops_it(self) -> None:
        found = account_of(PROCEDURE, [seen(0, 0.5), seen(1, 0.6, "0" * 64)])
        assert (found.status, found.stopped_by) == (Status.STOPPED, "changed-by-step-1:scaler")

    def test_an_invalid_result_stops_it(self) -> None:
        found = account(0.5, None)
        assert (found.status, found.kept) == (Status.STOPPED, 0)
        assert found.findings[1].observed is None

    def test_it_goes_on_until_every_step_is_done(self) -> None:
        assert account().status is account(0.5).status is account(0.5, 0.6).status is Status.GOING


SCORE = st.integers(0, 1000).map(lambda number: number / 1000)


@given(st.lists(SCORE, min_size=1, max_size=3))
def test_what_is_in_effect_is_never_worse_than_the_start(values: list[float]) -> None:
    """A rolled-back or stopped execution leaves nothing behind that the steering metric holds to be worse."""
    found = account(*values)
    if found.status is not Status.GOING:
        assert values[found.kept] >= values[0]
        assert (found.status is Status.SUCCEEDED) <= (round(values[-1] - values[0], 6) > 0.005)


NUMBER = st.floats(-10, 10).map(lambda number: round(number, 3) or 0.0)


@given(st.sampled_from(Comparison), NUMBER, NUMBER)
def test_comparisons_are_those_of_numbers(comparison: Comparison, observed: float, expected: float) -> None:
    text = str(int(expected)) if expected.is_integer() else repr(expected)
    check = Check(
        name="x", observable="x", comparison=comparison, expected=TypedValue(type=ValueType.NUMBER, value=text)
    )
    wanted = {
        Comparison.BELOW: observed < expected,
        Comparison.AT_MOST: observed <= expected,
        Comparison.EQUALS: observed == expected,
        Comparison.AT_LEAST: observed >= expected,
        Comparison.ABOVE: observed > expected,
    }
    assert holds(check, observed) == wanted[comparison]


@pytest.mark.parametrize("observed", [True, "1", None])
def test_what_is_no_number_is_not_compared_as_one(observed: object) -> None:
    check = Check(
        name="x", observable="x", comparison=Comparison.AT_LEAST,
        expected=TypedValue(type=ValueType.INTEGER, value="0"),
    )  # fmt: skip
    assert not holds(check, observed)
    assert not holds(replace_comparison(check), observed)


def replace_comparison(check: Check) -> Check:
    expected = TypedValue(type=ValueType.INTEGER, value="1")
    return check.model_copy(update={"comparison": Comparison.EQUALS, "expected": expected})
