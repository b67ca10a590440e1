"""Links lead back to the units that were decided on: pairs, rerun baselines, unpaired arms, several tasks of a root."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.distillation_policy import DistillationPolicy
from policies.effects import EffectUnit, effect_units
from policies.linked import LinkedRun, linked_deltas
from policies.statistics import mean
from records.evidence import VerifiedEvidenceBundle
from tests.unit.comparisons import FIRST, POLICY, arms, paired, roots, run, task, verdicts

METRIC = "balanced_accuracy"
few = st.lists(st.integers(400, 700).map(lambda x: x / 1000), min_size=2, max_size=5)


def units_of_links(
    bundles: Sequence[VerifiedEvidenceBundle], policy: DistillationPolicy
) -> list[tuple[tuple[EffectUnit, ...], tuple[EffectUnit, ...]]]:
    """Return for each verdict the units of its contrasts, and those that its links lead back to."""
    by_id = {str(each.experience.id): each for each in bundles}
    found = []
    for verdict in verdicts(bundles, policy):
        deltas = [delta for each in verdict.variant.contrasts if (delta := each.delta(METRIC)) is not None]
        runs = [
            _linked(by_id[link.experience_id], by_id[link.comparator_id], str(link.stratum_id))
            for link in verdict.links
        ]
        found.append((effect_units(deltas), effect_units(linked_deltas(runs))))
    return found


def _linked(changed: VerifiedEvidenceBundle, baseline: VerifiedEvidenceBundle, stratum: str) -> LinkedRun:
    values = [each.verification.metric(METRIC) for each in (changed, baseline)]
    assert values[0] is not None
    assert values[1] is not None
    return LinkedRun(
        stratum_id=stratum, changed_id=str(changed.experience.id), baseline_id=str(baseline.experience.id),
        root=changed.attempt.dataset_root, seed=changed.attempt.seed, baseline_seed=baseline.attempt.seed,
        changed=values[0], baseline=values[1],
    )  # fmt: skip


def _same(found: tuple[EffectUnit, ...], wanted: tuple[EffectUnit, ...]) -> None:
    assert [unit.root for unit in found] == [unit.root for unit in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.effect == pytest.approx(other.effect, abs=1e-12)
        assert one.n_pairs == other.n_pairs
        for mine, theirs in zip(one.strata, other.strata, strict=True):
            assert sorted(mine.deltas) == pytest.approx(sorted(theirs.deltas), abs=1e-12)
            assert mine.paired == theirs.paired


REREAD = [
    *paired([0.05, 0.02, 0.03]),
    run("again", 0.44, seed=1, change=None),  # a second baseline of seed 1
    run("rerun", 0.61, seed=1),  # and a second changed run
]
TWO_TASKS = [*paired([0.05, 0.01], task=task("a-1", "a")), *paired([0.04], task=task("a-2", "a"), first=7)]


@pytest.mark.parametrize("policy", [FIRST, POLICY], ids=["1", "2"])
@pytest.mark.parametrize(
    "bundles",
    [roots({"a": 0.05, "b": -0.02, "c": 0.0}), REREAD, TWO_TASKS, paired([0.01 * n for n in range(6)])],
    ids=["roots", "reruns", "tasks", "one task"],
)
def test_links_lead_back_to_the_units(bundles: list[VerifiedEvidenceBundle], policy: DistillationPolicy) -> None:
    told = units_of_links(bundles, policy)
    assert told
    for wanted, found in told:
        _same(found, wanted)


@settings(max_examples=20, deadline=None)
@given(few, few)
def test_links_of_unpaired_arms_lead_back_to_the_mean_of_the_arm(after: list[float], before: list[float]) -> None:
    told = units_of_links(arms(after, before), POLICY)
    assert told
    for wanted, found in told:
        _same(found, wanted)
        (unit,) = found
        # The arm of the baseline as a whole, whichever of its runs a link names.
        assert unit.effect == pytest.approx(mean(after) - mean(before), abs=1e-9)
        assert unit.n_pairs == 0


def test_no_link_gives_no_delta() -> None:
    assert linked_deltas([]) == ()
