"""Levels of scope: what one evaluation task may say for itself, in which family, and how scope splits are drafted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from policies.contrasts import tabulate
from policies.distillation_policy import CandidateReason, ScopeField
from policies.distiller import judge, withdraw
from policies.strength import StrengthReason
from records.knowledge import DecisionKind
from records.values import ActionKind, Grade
from tests.support.trials import digest
from tests.unit.comparisons import FIRST, POLICY, arms, ids, paired, roots, run, task, verdicts

GAINS = (0.05, 0.07, 0.03, 0.05, 0.06)
NOISE = (0.02, -0.02, 0.015, -0.016, 0.001)
TASK = ScopeField.EVALUATION_TASK
HERE, THERE = digest("one accelerator"), digest("eight accelerators")


class TestOneEvaluationTask:
    def test_from_five_pairs_on_a_task_has_a_rule_of_its_own(self) -> None:
        """A t interval over the paired seeds, by scipy; the scope binds the task, and its task scope has one root."""
        bundles = paired(GAINS)
        whole, instance = verdicts(bundles)
        interval = stats.t.interval(0.95, 4, loc=np.mean(GAINS), scale=stats.sem(GAINS))
        assert instance.effect.mean_interval is not None
        assert float(instance.effect.mean_interval.low) == pytest.approx(float(interval[0]))
        assert float(instance.effect.mean_interval.high) == pytest.approx(float(interval[1]))
        assert float(instance.effect.p_value or "nan") == pytest.approx(float(stats.ttest_1samp(GAINS, 0).pvalue))
        assert instance.variant.bound == (ScopeField.EVALUATION_TASK,)
        assert instance.variant.scope.evaluation_task_id == bundles[0].attempt.evaluation_task_id
        assert instance.verdict.decision is DecisionKind.PROMOTED_ACTIVE
        assert "5 pairs of runs of one evaluation task" in instance.claim
        assert (whole.variant.bound, whole.variant.scope.evaluation_task_id) == ((), None)
        assert (whole.effect.unit_count, whole.verdict.decision) == (1, DecisionKind.DEFERRED)

    def test_below_five_pairs_it_has_none(self) -> None:
        assert len(verdicts(paired(GAINS[:4]))) == 1

    def test_arms_count_by_the_smaller_one(self) -> None:
        assert len(verdicts(arms((0.6,) * 1 + (0.61, 0.62, 0.63, 0.64), (0.5, 0.51, 0.52, 0.53)))) == 1
        assert len(verdicts(arms((0.6,) * 1 + (0.61, 0.62, 0.63, 0.64), (0.5, 0.51, 0.52, 0.53, 0.54)))) == 2

    def test_one_root_is_never_strong(self) -> None:
        instance = verdicts(paired(np.linspace(0.05, 0.06, 20)))[-1]
        assert instance.summary.n_units == 20
        assert instance.strength.grade is Grade.REPLICATED
        assert StrengthReason.FEW_ROOTS.value in instance.strength.reasons

    def test_a_null_of_one_task_is_no_rule(self) -> None:
        instance = verdicts(paired(NOISE))[-1]
        assert instance.verdict.decision is DecisionKind.DEFERRED

    def test_under_version_1_there_is_one_level(self) -> None:
        table = tabulate(paired(GAINS), FIRST)
        assert {variant.bound for variant in table.variants.values()} == {()}

    def test_an_experience_names_its_variants_widest_first(self) -> None:
        bundles = paired(GAINS)
        table = tabulate(bundles, POLICY)
        assert set(table.variants_of) == ids(bundles)
        for keys in table.variants_of.values():
            assert [table.variants[key].bound for key in keys] == [(), (ScopeField.EVALUATION_TASK,)]

    def test_its_family_is_what_was_tried_on_that_task(self) -> None:
        """Contrasts of another task, and of the scope, neither open nor close the gate here."""
        other = ("tol", 0.001, 0.01)
        alone = verdicts(paired(GAINS))[-1]
        elsewhere = paired(NOISE, change=other, task=task("wine"))
        assert verdicts(paired(GAINS) + elsewhere)[-1].gate == alone.gate
        both = verdicts(paired(GAINS) + paired(NOISE, change=other))[-1]
        p = [float(stats.ttest_1samp(values, 0).pvalue) for values in (GAINS, NOISE)]
        assert both.gate.family_size == 2
        assert both.gate.adjusted_p == pytest.approx(float(stats.false_discovery_control(p)[0]))

    def test_seeds_that_fall_into_two_camps_contest_at_both_levels(self) -> None:
        bundles = paired((0.05, 0.051, 0.049, -0.05, -0.051, -0.049))
        assert {verdict.verdict.decision for verdict in verdicts(bundles)} == {DecisionKind.PROMOTED_CONTESTED}


class TestOpenContradictions:
    def test_the_caller_says_which_variants_have_one(self) -> None:
        """Only the variant that is named is contested; by default none is."""
        table = tabulate(paired(GAINS), POLICY)
        told = next(key for key, variant in table.variants.items() if variant.of_one_task)
        found = judge(table, POLICY, lambda key: key == told)
        assert found[told].verdict.decision is DecisionKind.PROMOTED_CONTESTED
        assert found[told].verdict.reason_codes[0] is CandidateReason.TRUE_CONTRADICTION
        plain = judge(table, POLICY)
        assert {key for key in found if found[key] != plain[key]} == {told}


class TestScopeSplit:
    """Roots or strata that disagree because of a field that a scope can bind."""

    def by_environment(self, here: float = 0.05, there: float = -0.05) -> list[object]:
        wobble = (0.002, -0.002, 0.001, -0.001)
        split = roots({f"h{at}": here + each for at, each in enumerate(wobble)}, environment_digest=HERE)
        return split + roots({f"t{at}": there + each for at, each in enumerate(wobble)}, environment_digest=THERE)

    def test_an_environment_that_turns_the_effect_splits_the_scope(self) -> None:
        """The pooled rule waits; a recommendation here and an avoidance there are rules of their own."""
        whole, *parts = verdicts(self.by_environment())  # type: ignore[arg-type]
        assert whole.verdict.decision is DecisionKind.DEFERRED
        assert whole.verdict.reason_codes == (CandidateReason.SCOPE_SPLIT_REQUIRED,)
        assert whole.split_by is ScopeField.ENVIRONMENT
        assert {part.variant.scope.environment_digest: part.verdict.action for part in parts} == {
            HERE: ActionKind.RECOMMEND,
            THERE: ActionKind.AVOID,
        }
        assert {part.variant.refines for part in parts} == {whole.scope_variant_id}
        assert {part.verdict.decision for part in parts} == {DecisionKind.PROMOTED_ACTIVE}
        assert all(part.variant.bound == (ScopeField.ENVIRONMENT,) for part in parts)

    def test_the_parts_are_judged_in_a_family_that_counts_them_all(self) -> None:
        """Two parts, the whole, and another contrast of the scope: four tests, by scipy."""
        other = ("tol", 0.001, 0.01)
        noise = roots({"h0": 0.01, "h1": -0.012, "h2": 0.02}, change=other, environment_digest=HERE)
        whole, *parts = verdicts([*self.by_environment(), *noise])  # type: ignore[list-item]
        deltas = {
            scope: [0.002 + base, -0.002 + base, 0.001 + base, -0.001 + base]
            for scope, base in ((HERE, 0.05), (THERE, -0.05))
        }
        tests = [[*deltas[HERE], *deltas[THERE]], [0.01, -0.012, 0.02], deltas[HERE], deltas[THERE]]
        adjusted = stats.false_discovery_control([float(stats.ttest_1samp(each, 0).pvalue) for each in tests])
        assert whole.gate.family_size == 2
        for part in parts:
            assert part.gate.family_size == 4
            at = 2 if part.variant.scope.environment_digest == HERE else 3
            assert part.gate.adjusted_p == pytest.approx(float(adjusted[at]))

    def test_what_no_field_explains_stays_as_it_was(self) -> None:
        """The same disagreement, spread over both environments."""
        mixed = {f"r{at}": value for at, value in enumerate((0.05, -0.05) * 4)}
        halves = list(mixed.items())
        bundles = roots(dict(halves[:4]), environment_digest=HERE) + roots(dict(halves[4:]), environment_digest=THERE)
        (whole,) = verdicts(bundles)
        assert whole.split_by is None
        assert whole.verdict.reason_codes == (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,)

    def test_a_rule_that_holds_everywhere_is_not_split(self) -> None:
        """Larger here than there, and active all the same: its action is right in both."""
        (whole,) = verdicts(self.by_environment(0.08, 0.05))  # type: ignore[arg-type]
        assert (whole.verdict.decision, whole.split_by) == (DecisionKind.PROMOTED_ACTIVE, None)

    def test_the_source_splits_where_the_environment_does_not(self) -> None:
        first = roots({f"h{at}": 0.05 + at / 1000 for at in range(4)}, source_digest=digest("source 1"))
        second = roots({f"t{at}": -0.05 - at / 1000 for at in range(4)}, source_digest=digest("source 2"))
        whole, *parts = verdicts(first + second)
        assert whole.split_by is ScopeField.SOURCE
        assert all(part.variant.scope.source_digest for part in parts)

    def test_arms_of_two_environments_are_never_one_pool(self) -> None:
        """One task on one accelerator and on eight: the task waits, and each environment is compared within itself."""
        slow, fast = (59.5, 59.6, 59.4, 59.55, 59.45), (7.9, 7.92, 7.88, 7.91, 7.89)
        share = [tuple(value / 100 for value in arm) for arm in (slow, fast)]
        faster = [tuple(value - cut for value in arm) for arm, cut in zip(share, (0.05, 0.006), strict=True)]
        bundles = arms(faster[0], share[0], environment_digest=HERE) + arms(
            faster[1], share[1], environment_digest=THERE
        )
        found = verdicts(bundles)
        instance = next(each for each in found if each.variant.bound == (ScopeField.EVALUATION_TASK,))
        parts = [each for each in found if each.variant.refines == instance.scope_variant_id]
        assert instance.verdict.reason_codes == (CandidateReason.SCOPE_SPLIT_REQUIRED,)
        assert sorted(float(part.effect.mean_delta) for part in parts) == pytest.approx([-0.05, -0.006])
        for part, (after, before) in zip(
            sorted(parts, key=lambda part: part.summary.mean), zip(faster, share, strict=True), strict=True
        ):
            expected = stats.ttest_ind(after, before, equal_var=False)
            assert part.summary.p_value == pytest.approx(float(expected.pvalue))
            assert part.verdict.action is ActionKind.AVOID

    def test_a_part_that_is_too_small_waits(self) -> None:
        """Five pairs here, and three of the same task there: the three are drafted, and are no rule."""
        bundles = paired((0.05, 0.051, 0.049, 0.05, 0.052), environment_digest=HERE)
        bundles += paired((-0.05, -0.051, -0.049), first=10, environment_digest=THERE)
        found = {each.variant.scope.environment_digest: each for each in verdicts(bundles) if each.variant.refines}
        assert found[HERE].verdict.decision is DecisionKind.PROMOTED_ACTIVE
        assert found[THERE].verdict.decision is DecisionKind.DEFERRED

    def test_drafts_of_parts_that_nothing_asked_for_are_not_judged(self) -> None:
        table = tabulate(self.by_environment(0.05, 0.05), POLICY)  # type: ignore[arg-type]
        assert sum(variant.refines is not None for variant in table.variants.values()) == 2
        assert len(judge(table, POLICY)) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-80, 80).map(lambda x: x / 1000), min_size=5, max_size=10), st.integers(0, 9))
def test_seeds_of_one_task_against_scipy(deltas: list[float], seed: int) -> None:
    """Whatever the seeds say, the estimate is the one-sample one over them, and a null is never active."""
    if max(deltas) == min(deltas):
        deltas = [*deltas, deltas[0] + 0.001]
    instance = verdicts(paired(deltas, first=seed))[-1]
    assert instance.summary.p_value == pytest.approx(float(stats.ttest_1samp(deltas, 0).pvalue), rel=1e-6, abs=1e-9)
    if instance.verdict.decision is DecisionKind.PROMOTED_ACTIVE:
        assert (instance.summary.p_value or 0.0) <= 0.05
        assert instance.strength.grade is Grade.REPLICATED


class TestTheSameResultInSeveralStrata:
    """A run that leaves the same bytes elsewhere has shown nothing more (VRM-W06)."""

    def test_vrm_w06_pairs_repeated_in_another_environment_are_the_same_pairs(self) -> None:
        deltas = (0.05, 0.07, 0.03)
        here = paired(deltas)
        there = [
            run(
                f"again-{each.experience.id[-8:]}",
                each.verification.metric("balanced_accuracy"),
                seed=each.attempt.seed,
                change=None if each.intervention.knob is None else ("scaler", "none", "standard"),
                artifacts=each.observation.artifacts,
                environment_digest=digest("another environment"),
            )
            for each in here
        ]
        found = verdicts([*here, *there])
        assert [verdict for verdict in found if verdict.variant.of_one_task] == []
        (instance,) = tabulate([*here, *there], POLICY).quiet.values()
        assert instance.runs_per_arm == len(deltas)

    def test_identical_values_explain_no_split(self) -> None:
        """On a metric of coarse steps both sides may have no variance at all; that is no certainty of a difference."""
        here = paired((0.0333,) * 3)
        there = paired((0.0667,) * 3, first=10, environment_digest=digest("another environment"))
        (whole,) = [each for each in verdicts([*here, *there]) if each.variant.bound == (TASK,)]
        assert whole.split_by is None
        assert whole.verdict.decision is DecisionKind.PROMOTED_ACTIVE


def test_what_nothing_asks_for_any_more_is_deferred_whatever_it_shows() -> None:
    table = tabulate(paired((0.05, 0.052, 0.049)), POLICY)
    (instance,) = table.quiet.values()
    assert instance.scope_variant_id not in judge(table, POLICY)
    ended = withdraw(instance, POLICY)
    assert ended is not None
    assert (ended.verdict.decision, ended.verdict.action) == (DecisionKind.DEFERRED, None)
    assert ended.links
