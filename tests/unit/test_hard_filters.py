"""Hard filters: each reason, the fixed order, and a plain record-by-record oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.hard_filters import Column, FilterColumns, FilterQuestion, hard_filter
from policies.planner import current_settings, open_actions
from policies.retrieval_policy import RequiredFilter
from records.decisions import AllowedAction
from records.knowledge import MemoryRecord
from records.values import ActionKind, DecisionPoint, Disposition
from tests.unit.recall_support import ASKED, CATALOG, METRIC, SCOPE, SPACE, effect, rule

QUESTION = FilterQuestion(
    namespace=SPACE,
    scope=ASKED,
    metric=METRIC,
    points=frozenset({DecisionPoint.INTERVENTION}),
    catalog_digest=CATALOG.digest,
    prior_config=current_settings(CATALOG, CATALOG.baseline),
    allowed_actions=open_actions(CATALOG, CATALOG.baseline, frozenset()),
    dispositions=frozenset({Disposition.ACTIVE}),
    actions=frozenset({ActionKind.RECOMMEND, ActionKind.AVOID}),
    private_visibilities=frozenset({"evaluator_private"}),
    filters=frozenset(RequiredFilter),
    own=("run:0", None, None),
    tools={},
)


def scoped(**changes: Any) -> MemoryRecord:
    return rule(scope=SCOPE.model_copy(update=changes))


def refused(record: MemoryRecord, question: FilterQuestion = QUESTION, state: Disposition = Disposition.ACTIVE) -> str:
    """Return the one reason that refuses a record, or nothing."""
    result = hard_filter(FilterColumns.of([(record, state)]), question)
    assert len(result.refused) == 1 - result.rows.size
    return result.refused[0].reason if result.refused else ""


def test_vrm_r02_an_applicable_rule_passes() -> None:
    """Unconstrained fields bind nothing; constrained ones bind exactly."""
    assert refused(rule()) == ""
    exact = scoped(evaluation_task_id=ASKED.evaluation_task_id, dataset_digest="d" * 64, model_family="svm")
    assert refused(exact) == ""


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (rule(namespace="elsewhere"), "other_namespace"),
        (scoped(visibility="another-team"), "other_visibility"),
        (rule(action=ActionKind.ABSTAIN), "action_kind_not_admitted"),
        (scoped(domain="tabular-regression"), "domain_mismatch"),
        (scoped(dataset_digest="c" * 64), "dataset_mismatch"),
        (scoped(source_digest="c" * 64), "source_mismatch"),
        (scoped(model_family="mlp"), "model_family_mismatch"),
        (scoped(environment_digest="c" * 64), "environment_mismatch"),
        (scoped(contract_digest="c" * 64), "contract_mismatch"),
        (rule(effect=effect().model_copy(update={"metric": METRIC.model_copy(update={"unit": "bits"})})),
         "metric_mismatch"),
        (scoped(budget_class="ten-fits"), "budget_class_mismatch"),
        (rule(decision_point=DecisionPoint.DIAGNOSIS), "decision_point_mismatch"),
        (rule(catalog_digest="c" * 64), "catalog_mismatch"),
        (rule("C", "1", start="10"), "action_already_in_effect"),
        (rule("C", "1000"), "action_not_allowed"),
        (rule("C", "10", start="100"), "prior_config_mismatch"),
    ],
)  # fmt: skip
def test_vrm_r02_each_hard_filter_refuses(record: MemoryRecord, reason: str) -> None:
    assert refused(record) == reason


def test_vrm_r02_what_a_record_constrains_a_request_must_say() -> None:
    """Null in the request is no wildcard."""
    silent = replace(QUESTION, scope=ASKED.model_copy(update={"dataset_digest": None, "evaluation_task_id": None}))
    assert refused(scoped(dataset_digest="d" * 64), silent) == "dataset_mismatch"
    assert refused(scoped(evaluation_task_id=ASKED.evaluation_task_id), silent) == "evaluation_task_mismatch"
    assert refused(rule(), silent) == ""


def test_private_membership_retention_and_disposition() -> None:
    private = scoped(visibility="evaluator_private")
    asks_for_it = replace(QUESTION, scope=ASKED.model_copy(update={"visibility": "evaluator_private"}))
    assert refused(private, asks_for_it) == "evaluator_private"
    columns = FilterColumns.of([(rule(), Disposition.ACTIVE)])
    outside = replace(columns, members=~columns.members)
    assert hard_filter(outside, QUESTION).count("not_in_snapshot") == 1
    assert refused(rule(), replace(QUESTION, denied=frozenset({str(rule().id)}))) == "retention_denied"
    for state in set(Disposition) - {Disposition.ACTIVE}:
        assert refused(rule(), state=state) == "disposition_not_admitted"


def test_first_reason_counts() -> None:
    """A row that breaks several rules is counted once, under the first of them in the fixed order."""
    bad = scoped(domain="other", dataset_digest="c" * 64, budget_class="x")
    assert refused(bad, state=Disposition.CONTESTED) == "disposition_not_admitted"
    assert refused(bad) == "domain_mismatch"


_RECORDS = st.builds(
    lambda place, knob, scope: rule(*knob, scope=SCOPE.model_copy(update=scope), namespace=place),
    st.sampled_from([SPACE, SPACE, "elsewhere"]),
    st.sampled_from([("C", "10"), ("C", "7"), ("kernel", '"poly"')]),
    st.fixed_dictionaries(
        {},
        optional={
            "dataset_digest": st.sampled_from([None, "d" * 64, "c" * 64]),
            "model_family": st.sampled_from([None, "svm", "mlp"]),
            "budget_class": st.sampled_from(["one-fit", "two-fits"]),
        },
    ),
)


def _oracle(record: MemoryRecord) -> str | None:
    """The same rules as plain conditions on one record, written from the reference's order."""
    scope, knob = record.scope, record.target.knob
    wanted = {entry.knob: entry.value for entry in QUESTION.prior_config}
    checks = (
        (record.namespace == SPACE, "other_namespace"),
        (scope.dataset_digest in {None, ASKED.dataset_digest}, "dataset_mismatch"),
        (scope.model_family in {None, ASKED.model_family}, "model_family_mismatch"),
        (scope.budget_class == ASKED.budget_class, "budget_class_mismatch"),
        (AllowedAction(knob=knob.name, value=knob.to_value) in QUESTION.allowed_actions, "action_not_allowed"),
        (wanted[knob.name] == knob.from_value, "prior_config_mismatch"),
    )
    return next((reason for holds, reason in checks if not holds), None)


@given(st.lists(_RECORDS, max_size=8))
@settings(max_examples=80, deadline=None)
def test_columns_say_what_plain_conditions_say(records: list[MemoryRecord]) -> None:
    result = hard_filter(FilterColumns.of([(record, Disposition.ACTIVE) for record in records]), QUESTION)
    reasons = [_oracle(record) for record in records]
    assert result.rows.tolist() == [at for at, reason in enumerate(reasons) if reason is None]
    assert {entry.reason: entry.count for entry in result.refused} == Counter(found for found in reasons if found)


@given(st.permutations(range(5)))
@settings(max_examples=20, deadline=None)
def test_order_of_rows_does_not_change_who_passes(order: list[int]) -> None:
    records = [rule("C", "10"), scoped(model_family="mlp"), rule("C", "100"), rule("C", "0.1"), rule("C", "5")]
    columns = FilterColumns.of([(records[at], Disposition.ACTIVE) for at in order])
    assert sorted(order[row] for row in hard_filter(columns, QUESTION).rows.tolist()) == [0, 2, 3]


def test_column_of_nothing_and_of_nulls() -> None:
    assert Column.of([]).allows("x").tolist() == []
    column = Column.of(["b", None, "a"])
    assert column.allows("a").tolist() == [False, True, True]
    assert column.allows(None).tolist() == [False, True, False]
    assert column.holds(["b", "z"]).tolist() == [True, False, False]
