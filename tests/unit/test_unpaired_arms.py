"""Unpaired arms: when runs are compared as two arms, by which numbers, and that every run of both is cited."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from policies.contrasts import tabulate
from policies.effects import UncertaintyMethod
from records.ids import ContextId
from records.knowledge import DecisionKind, LinkRelation
from records.values import ActionKind, Grade
from tests.unit.comparisons import FIRST, POLICY, arms, ids, left_behind, paired, run, task, verdicts

BASE = (0.50, 0.52, 0.51, 0.49, 0.505)
BETTER = (0.60, 0.63, 0.61, 0.59, 0.62, 0.605)
values = st.lists(st.integers(300, 700).map(lambda x: x / 1000), min_size=5, max_size=9)


def test_two_arms_of_one_task_give_welchs_interval_and_p() -> None:
    """What scipy finds for the same numbers, in the record of that evaluation task, under the name of the method."""
    whole, instance = verdicts(arms(BETTER, BASE))
    expected = stats.ttest_ind(BETTER, BASE, equal_var=False)
    interval = expected.confidence_interval(0.95)
    effect = instance.effect
    assert effect.method == UncertaintyMethod.WELCH == "welch-unequal-variances"
    assert effect.mean_interval is not None
    assert float(effect.mean_interval.low) == pytest.approx(float(interval.low))
    assert float(effect.mean_interval.high) == pytest.approx(float(interval.high))
    assert float(effect.p_value or "nan") == pytest.approx(float(expected.pvalue))
    assert float(effect.mean_delta) == pytest.approx(sum(BETTER) / 6 - sum(BASE) / 5)
    assert (effect.unit_count, effect.pair_count) == (6, 0)
    assert (instance.verdict.decision, instance.verdict.action) == (DecisionKind.PROMOTED_ACTIVE, ActionKind.RECOMMEND)
    assert instance.strength.grade is Grade.REPLICATED
    assert whole.verdict.decision is DecisionKind.DEFERRED
    assert (whole.effect.unit_count, whole.effect.method) == (1, "one-unit")
    assert "unpaired_arms" in {finding.code for finding in whole.findings}


@settings(max_examples=30, deadline=None)
@given(values, values)
def test_any_two_arms(after: list[float], before: list[float]) -> None:
    """Interval, classification and links of arms of any numbers; both arms are cited whole and nothing else is."""
    bundles = arms(after, before)
    instance = verdicts(bundles)[-1]
    if max(after) > min(after) and max(before) > min(before):
        expected = stats.ttest_ind(after, before, equal_var=False)
        assert instance.summary.p_value == pytest.approx(float(expected.pvalue), rel=1e-6, abs=1e-12)
    cited = {part for link in instance.links for part in (link.experience_id, link.comparator_id)}
    assert cited == ids(bundles)
    assert len(instance.links) == max(len(after), len(before))
    assert [(link.relation.value, link.experience_id) for link in instance.links] == sorted(
        (link.relation.value, link.experience_id) for link in instance.links
    )
    assert len({link.support_unit_id for link in instance.links}) == len(after)
    wanted = {LinkRelation.SUPPORTS, LinkRelation.CONTRADICTS, LinkRelation.TIES}
    assert {link.relation for link in instance.links} <= wanted


def test_a_support_unit_of_an_unpaired_run_stays_when_more_runs_come() -> None:
    few = tabulate(arms(BETTER[:2], BASE[:2]), POLICY)
    many = tabulate(arms(BETTER, BASE), POLICY)

    def units(table: object) -> dict[str, str]:
        return {
            contrast.changed.experience.id: contrast.support_unit_id
            for variant in table.variants.values()  # type: ignore[attr-defined]  # a table
            for contrast in variant.contrasts
        }

    assert units(few).items() < units(many).items()
    assert len(set(units(many).values())) == len(BETTER)


def test_where_one_changed_run_has_its_baseline_the_others_do_not_borrow_one() -> None:
    """Same-seed pairing goes first, for a whole stratum and change."""
    bundles = [*paired([0.1]), run("alone", 0.7, seed=9)]
    table = tabulate(bundles, POLICY)
    (variant,) = table.variants.values()
    assert [contrast.paired for contrast in variant.contrasts] == [True]
    assert table.unpaired == ids(bundles[2:])


def test_another_change_of_the_stratum_keeps_its_own_way_of_comparing() -> None:
    other = ("tol", 0.001, 0.01)
    bundles = [*paired([0.1]), run("t", 0.7, seed=9, change=other)]
    found = tabulate(bundles, POLICY).variants.values()
    assert {variant.target.knob.name: variant.contrasts[0].paired for variant in found} == {
        "scaler": True,
        "tol": False,
    }


def test_all_baselines_of_one_seed_are_used() -> None:
    """A rerun with another result is no second choice: their mean is what is compared with, and both are cited."""
    bundles = [
        run("b", 0.50, seed=1, change=None),
        run("b again", 0.54, seed=1, change=None),
        run("c", 0.60, seed=1),
    ]
    (verdict,) = verdicts(bundles)
    assert (verdict.effect.baseline_mean, verdict.effect.mean_delta) == ("0.52", "0.08")
    assert {link.comparator_id for link in verdict.links} == ids(bundles[:2])
    assert {link.experience_id for link in verdict.links} == ids(bundles[2:])
    assert len({link.support_unit_id for link in verdict.links}) == 1


def test_at_the_level_of_the_scope_an_unpaired_root_is_one_unit() -> None:
    """Paired and unpaired roots stand side by side: each is its mean difference."""
    bundles = [*arms((0.6, 0.64), (0.5, 0.52, 0.51), task=task("u"))]
    for root in ("a", "b", "c"):
        bundles += paired([0.1, 0.12], task=task(root))
    whole = verdicts(bundles)[0]
    by_hand = (0.62 - 0.51, 0.11, 0.11, 0.11)
    assert float(whole.effect.mean_delta) == pytest.approx(sum(by_hand) / 4)
    assert (whole.effect.unit_count, whole.effect.pair_count) == (4, 6)


def test_a_run_that_a_recall_steered_needs_a_baseline_of_its_own() -> None:
    """Told to try the change by memory, it is evidence only beside the baseline of its seed."""
    steered = {"recall_context_id": ContextId.derive({"recall": 1})}
    for bundles, refused in (
        ([*arms(BETTER, BASE)[:5], run("s", 0.9, seed=7, **steered)], True),
        ([run("b", 0.5, seed=7, change=None), run("s", 0.9, seed=7, **steered)], False),
    ):
        table = tabulate(bundles, POLICY)
        assert bool(table.refused) is refused
        assert bool(table.variants) is not refused
        assert set(table.refused) <= ids(bundles[-1:])


def test_under_version_1_there_are_no_arms() -> None:
    bundles = arms(BETTER, BASE)
    table = tabulate(bundles, FIRST)
    assert not table.variants
    assert table.unpaired == ids(bundles)


def test_one_run_against_one_run_has_no_interval() -> None:
    """Nothing is inferred from it, and it is never a rule."""
    (whole,) = verdicts(arms((0.9,), (0.5,)))
    assert whole.effect.mean_interval is None
    assert whole.verdict.decision is DecisionKind.DEFERRED


def test_the_same_evidence_under_another_seed_counts_once() -> None:
    """A run without a logged seed gets one from its id, so that importing it again gives it another."""
    again = [run(f"again {at}", 0.6, seed=3000 + at, artifacts=left_behind("one run")) for at in range(9)]
    bundles = [*arms((), BASE), *again]
    table = tabulate(bundles, POLICY)
    (variant,) = table.variants.values()
    assert len(variant.contrasts) == 1
    assert len(table.duplicates) == 8
