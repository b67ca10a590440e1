"""Failure classes: each is told from the records, and only two of them are evidence (spec 11, step 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.contrasts import tabulate
from policies.effects import Classification
from policies.failures import FailureClass, failure_class
from records.evidence import Attempt, AttemptStatus, Observation, Verification, VerifiedEvidenceBundle
from tests.unit.comparisons import POLICY, ids, paired, run

WORKED = run("one", 0.7, seed=1)


def classed(
    status: AttemptStatus = AttemptStatus.COMPLETED,
    exit_code: int = 0,
    error: str | None = None,
    violations: tuple[str, ...] = (),
    effect: Classification | None = None,
) -> FailureClass | None:
    """Classify the one run with other facts."""
    return failure_class(*records(status, exit_code, error, violations), effect)


def records(
    status: AttemptStatus, exit_code: int, error: str | None, violations: tuple[str, ...]
) -> tuple[Attempt, Observation, Verification]:
    """Return the three records that a class is told from."""
    return (
        WORKED.attempt.model_copy(update={"status": status}),
        WORKED.observation.model_copy(update={"exit_code": exit_code, "error": error}),
        WORKED.verification.model_copy(update={"valid": not violations, "violations": violations}),
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"status": AttemptStatus.CANCELLED}, FailureClass.BUDGET),
        ({"exit_code": 124}, FailureClass.BUDGET),
        ({"exit_code": 152}, FailureClass.BUDGET),
        ({"violations": ("evaluator_timeout",)}, FailureClass.BUDGET),
        ({"violations": ("budget_exhausted",)}, FailureClass.BUDGET),
        ({"exit_code": 127}, FailureClass.ENVIRONMENT),
        ({"exit_code": 137}, FailureClass.ENVIRONMENT),
        ({"exit_code": 1, "error": "ModuleNotFoundError: No module named 'xgboost'"}, FailureClass.ENVIRONMENT),
        ({"exit_code": 1, "error": "CUDA error: out of memory"}, FailureClass.ENVIRONMENT),
        ({"exit_code": 1, "error": "ConnectionResetError: peer"}, FailureClass.ENVIRONMENT),
        ({"exit_code": 1}, FailureClass.EXECUTION),
        ({"exit_code": 1, "error": "ValueError: C must be positive"}, FailureClass.EXECUTION),
        ({"exit_code": -11}, FailureClass.EXECUTION),
        ({"status": AttemptStatus.FAILED}, FailureClass.EXECUTION),
        ({"violations": ("metric_not_finite:accuracy",)}, FailureClass.EVALUATION_INVALID),
        ({"violations": ("artifact_changed:predictions",)}, FailureClass.EVALUATION_INVALID),
        ({"violations": ("evaluator_exit_code:1",)}, FailureClass.EVALUATION_INVALID),
        ({"violations": ("too_many_failed_repetitions",)}, FailureClass.EVALUATION_INVALID),
        ({"status": AttemptStatus.INVALID}, FailureClass.EVALUATION_INVALID),
        ({"effect": Classification.HARMS}, FailureClass.SCIENTIFIC_NEGATIVE),
        ({"effect": Classification.NO_EFFECT}, FailureClass.NEUTRAL),
        ({"effect": Classification.UNCERTAIN}, FailureClass.NEUTRAL),
        ({"effect": Classification.IMPROVES}, None),
        ({}, None),
    ],
)
def test_each_class_is_told_from_the_records(facts: dict[str, Any], expected: FailureClass | None) -> None:
    assert classed(**facts) is expected


def test_without_a_verification_nothing_was_evaluated() -> None:
    found = failure_class(WORKED.attempt, WORKED.observation, None, Classification.IMPROVES)
    assert found is FailureClass.EVALUATION_INVALID


@given(
    st.sampled_from(AttemptStatus),
    st.integers(-40, 260),
    st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["OSError: x", "Killed"])),
    st.lists(st.sampled_from(["evaluator_timeout", "missing_artifact:x", "metric_not_finite:m"]), max_size=2),
    st.one_of(st.none(), st.sampled_from(Classification)),
)
def test_the_classes_are_total(
    status: AttemptStatus, code: int, error: str | None, violations: list[str], effect: Classification | None
) -> None:
    """Every run has one class or worked; one that did not work is never a finding, whatever its metrics say."""
    found = classed(status, code, error, tuple(violations), effect)
    fine = status is AttemptStatus.COMPLETED and code == 0 and not error and not violations
    assert (found is None or found.is_evidence) == fine


@pytest.mark.parametrize(
    "facts",
    [
        {"exit_code": 137},
        {"exit_code": 1},
        {"violations": ("metric_not_finite:accuracy",)},
        {"status": AttemptStatus.CANCELLED},
    ],
)
def test_what_did_not_work_is_never_counter_evidence(facts: dict[str, Any]) -> None:
    """A crash with terrible numbers beside five good pairs: the effect is that of the pairs, and the crash is named."""
    bundles = paired((0.05, 0.07, 0.03, 0.05, 0.06))
    before, after = paired([-0.4], first=9)
    whole = {"status": AttemptStatus.COMPLETED, "exit_code": 0, "error": None, "violations": ()} | facts
    attempt, observation, verification = records(**whole)  # type: ignore[arg-type]  # by name
    crashed = after.model_copy(
        update={
            "attempt": after.attempt.model_copy(update={"status": attempt.status}),
            "observation": after.observation.model_copy(update={"exit_code": observation.exit_code}),
            "verification": after.verification.model_copy(
                update={"valid": verification.valid, "violations": verification.violations}
            ),
        }
    )
    assert isinstance(crashed, VerifiedEvidenceBundle)
    table = tabulate([*bundles, before, crashed], POLICY)
    plain = tabulate([*bundles, before], POLICY)
    assert table.variants == plain.variants
    assert set(table.failed) == ids([crashed])
    assert not next(iter(table.failed.values())).is_evidence
