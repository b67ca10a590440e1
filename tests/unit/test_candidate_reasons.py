"""Every reason code of candidates has a producer, and a run without a comparator says what keeps it apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from policies.bundles import NotABundle, cross_validate
from policies.contrasts import tabulate
from policies.distillation_policy import CandidateReason, StratumField
from policies.verdicts import decide
from records.evidence import Experience
from records.ids import ContextId, ExperienceId
from records.values import DecisionPoint, Direction, Grade, MetricSpec
from tests.support.trials import digest, make_contract, make_evidence
from tests.unit.comparisons import FIRST, POLICY, arms, ids, paired, roots, run, task, verdicts

GOOD = {"a": 0.05, "b": 0.07, "c": 0.03, "d": 0.05}


def without(part: str) -> CandidateReason:
    """Return why an Experience without one of its parts is no bundle."""
    found = {str(record.id): record for record in make_evidence()}
    (whole,) = [record for record in found.values() if isinstance(record, Experience)]
    answer = cross_validate(whole.model_copy(update={part: None}), found)
    assert isinstance(answer, NotABundle)
    return answer.reason


def left_out(bundles: Iterable[Any], at: int = -1) -> CandidateReason | None:
    """Return why one of some bundles is in no contrast."""
    known = list(bundles)
    return tabulate(known, POLICY).why_not(ExperienceId(known[at].experience.id))


def decided(bundles: Iterable[Any]) -> CandidateReason:
    """Return the deciding reason of the widest verdict."""
    return verdicts(bundles)[0].verdict.reason_codes[0]


def at_point(point: DecisionPoint) -> Any:
    """Return a changed run whose change was made at a decision point."""
    made = run("c", 0.6, seed=0)
    moved = made.intervention.model_copy(update={"decision_point": point})
    return made.model_copy(update={"intervention": moved})


def told_by(evaluator: str) -> Any:
    """Return a changed run whose mechanism names the evaluator."""
    return run("c", 0.6, seed=0, mechanism=f"scored-by:{evaluator}")


BEFORE = run("b", 0.5, seed=0, change=None)
CAMPS = paired((0.05, 0.051, 0.049, -0.05, -0.051, -0.049))
SPLIT = roots(dict(zip("abcdefghijklmn", (*[-0.01] * 6, 0.3, 0.32, 0.31, 0.29, 0.3, 0.33, 0.31, 0.3), strict=True)))
UNGUARDED = [
    each
    for root, delta in GOOD.items()
    for each in paired(
        [delta],
        task=task(root),
        contract=make_contract(
            guardrail_metrics=(MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, unit="share"),)
        ),
    )
]

PRODUCERS: dict[CandidateReason, Callable[[], CandidateReason | None]] = {
    CandidateReason.MISSING_VERIFICATION: lambda: without("verification_id"),
    CandidateReason.MISSING_TRIAL_PROVENANCE: lambda: without("provenance_id"),
    CandidateReason.MISSING_TYPED_ACTION: lambda: without("intervention_id"),
    CandidateReason.MISSING_DECISION_POINT: lambda: left_out([BEFORE, at_point(DecisionPoint.WRITING)]),
    CandidateReason.PRIVATE_EVALUATOR_DEPENDENCY: lambda: left_out([BEFORE, told_by(make_contract().evaluator)]),
    CandidateReason.NON_COMPARABLE_EVIDENCE: lambda: left_out([BEFORE, run("c", 0.6, seed=0, budget_class="large")]),
    CandidateReason.DUPLICATE_SUPPORT_UNIT: lambda: left_out(
        [
            BEFORE,
            run("c", 0.6, seed=0),
            run("other", 0.6, seed=0, artifacts=run("c", 0.6, seed=0).observation.artifacts),
        ]
    ),
    CandidateReason.GENERIC_OR_NON_ACTIONABLE: lambda: decided(roots(dict.fromkeys(GOOD, 0.0))),
    CandidateReason.MISSING_EFFECT_ESTIMATE: lambda: decide(POLICY, None, None, Grade.SINGLE).reason_codes[0],
    CandidateReason.MISSING_GUARDRAIL_EVIDENCE: lambda: decided(UNGUARDED),
    CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT: lambda: left_out(
        [*arms((), (0.5, 0.51)), run("c", 0.9, seed=7, recall_context_id=ContextId.derive({"recall": 1}))]
    ),
    CandidateReason.SCOPE_SPLIT_REQUIRED: lambda: decided(SPLIT),
    CandidateReason.TRUE_CONTRADICTION: lambda: decided(CAMPS),
    CandidateReason.ELIGIBLE_PROVISIONAL: lambda: decided(roots({"a": 0.09, "b": 0.08})),
    CandidateReason.ELIGIBLE_ACTIVE: lambda: decided(roots(GOOD)),
    CandidateReason.ELIGIBLE_CONTESTED: lambda: verdicts(CAMPS)[0].verdict.reason_codes[1],
}


@pytest.mark.parametrize("reason", CandidateReason)
def test_every_reason_code_is_given_by_something(reason: CandidateReason) -> None:
    assert PRODUCERS[reason]() is reason


def test_a_compared_run_needs_no_excuse() -> None:
    assert left_out([BEFORE, run("c", 0.6, seed=0)]) is None
    assert left_out([BEFORE, at_point(DecisionPoint.EXPERIMENT_DESIGN)]) is None


def test_a_name_that_only_contains_the_evaluators_is_not_the_evaluators() -> None:
    assert left_out([BEFORE, told_by(make_contract().evaluator + "_of_ours")]) is None


def test_a_change_that_changed_nothing_asks_for_no_action() -> None:
    inert = run("c", 0.5, seed=0, config_digest=digest("config None"))
    assert left_out([BEFORE, inert]) is CandidateReason.GENERIC_OR_NON_ACTIONABLE


class TestApart:
    """The fewest fields by which a run without a comparator differs from a baseline."""

    @pytest.mark.parametrize(
        ("other", "fields"),
        [
            ({"budget_class": "large"}, (StratumField.BUDGET_CLASS,)),
            ({"environment_digest": digest("e")}, (StratumField.ENVIRONMENT,)),
            ({"source_digest": digest("s")}, (StratumField.SOURCE,)),
            (
                {"source_digest": digest("s"), "model_family": "tree"},
                (StratumField.MODEL_FAMILY, StratumField.SOURCE),
            ),
        ],
    )
    def test_of_the_same_task(self, other: dict[str, str], fields: tuple[StratumField, ...]) -> None:
        lonely = run("c", 0.6, seed=0, **other)
        table = tabulate([BEFORE, lonely], POLICY)
        assert dict(table.apart) == dict.fromkeys(ids([lonely]), fields)

    def test_the_nearest_baseline_counts(self) -> None:
        far = run("far", 0.5, seed=0, change=None, source_digest=digest("s"), budget_class="tiny")
        near = run("near", 0.5, seed=0, change=None, source_digest=digest("s"))
        lonely = run("c", 0.6, seed=0)
        found = tabulate([far, near, lonely], POLICY).apart
        assert list(found.values()) == [(StratumField.SOURCE,)]

    def test_of_another_task_of_the_catalog_where_its_own_has_none(self) -> None:
        elsewhere = run("b", 0.5, seed=0, change=None, task=task("wine"))
        lonely = run("c", 0.6, seed=0)
        (fields,) = tabulate([elsewhere, lonely], POLICY).apart.values()
        assert fields == (StratumField.EVALUATION_TASK, StratumField.DATASET)

    def test_only_the_seed(self) -> None:
        """Where other runs of the change have their baseline, a seed without one differs in nothing else."""
        bundles = [*paired([0.1]), run("alone", 0.7, seed=9)]
        assert dict(tabulate(bundles, POLICY).apart) == dict.fromkeys(ids(bundles[-1:]), ())

    def test_with_no_baseline_anywhere_there_is_nothing_to_say(self) -> None:
        assert not tabulate([run("c", 0.6, seed=0)], POLICY).apart

    def test_under_version_1_as_well(self) -> None:
        lonely = run("c", 0.6, seed=0, budget_class="large")
        assert list(tabulate([BEFORE, lonely], FIRST).apart.values()) == [(StratumField.BUDGET_CLASS,)]
