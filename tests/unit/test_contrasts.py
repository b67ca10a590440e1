"""Pairing: strata and seeds, what has no comparator, what counts once, and an order that does not matter."""

from __future__ import annotations

import random
from typing import Any

import pytest

from memory.evidence import Trial, bundle_records
from policies.bundles import cross_validate
from policies.contrasts import ContrastTable, stratum_of, tabulate
from policies.distillation_policy import distillation_policy
from policies.effects import effect_units
from records.errors import InvalidRecordError
from records.evidence import Experience, VerificationKind, VerifiedEvidenceBundle
from records.ids import ExperienceId, RunId
from records.values import ArtifactRef
from tests.support.trials import digest, make_contract, make_task, make_trial

POLICY, FIRST = distillation_policy(), distillation_policy("1")
RERUN = RunId.derive({"run": "again"})


def bundle_of(trial: Trial) -> VerifiedEvidenceBundle:
    records = bundle_records(trial)
    assert isinstance(records[-1], Experience)
    bundle = cross_validate(records[-1], {str(record.id): record for record in records})
    assert isinstance(bundle, VerifiedEvidenceBundle), bundle
    return bundle


def baseline(**fields: Any) -> VerifiedEvidenceBundle:
    return bundle_of(make_trial(change=None, **fields))


def changed(**fields: Any) -> VerifiedEvidenceBundle:
    return bundle_of(make_trial(**fields))


def pairs(table: ContrastTable) -> list[tuple[str, int, int, float, float]]:
    """Return root, both seeds and both values of each pair."""
    found = []
    for variant in table.variants.values():
        for contrast in variant.contrasts:
            delta = contrast.delta("balanced_accuracy")
            assert delta is not None
            seeds = contrast.changed.attempt.seed, contrast.baselines.runs[0].attempt.seed
            found.append((delta.root, *seeds, delta.baseline, delta.changed))
    return sorted(found)


def ids(*bundles: VerifiedEvidenceBundle) -> frozenset[ExperienceId]:
    return frozenset(ExperienceId(bundle.experience.id) for bundle in bundles)


def test_each_change_is_paired_with_the_baseline_of_its_stratum_and_seed() -> None:
    bundles = []
    for place, (root, seed) in enumerate([("iris", 0), ("iris", 1), ("wine", 0), ("wine", 1)]):
        task, value = make_task(root), 0.5 + place / 10
        bundles.append(baseline(task=task, seed=seed, verified={"balanced_accuracy": value}))
        bundles.append(changed(task=task, seed=seed, verified={"balanced_accuracy": value + 0.05}))
    table = tabulate(bundles, POLICY)
    assert pairs(table) == [
        ("iris", 0, 0, 0.5, 0.55),
        ("iris", 1, 1, 0.6, 0.65),
        ("wine", 0, 0, 0.7, 0.75),
        ("wine", 1, 1, 0.8, 0.8500000000000001),
    ]
    (variant,) = table.variants.values()
    assert len({contrast.stratum_id for contrast in variant.contrasts}) == 2
    assert len({contrast.support_unit_id for contrast in variant.contrasts}) == 4
    assert table.unpaired == table.inert == table.duplicates == frozenset()
    assert set(table.variants_of) == ids(*bundles)


def test_under_version_1_a_change_without_its_baseline_is_unpaired() -> None:
    """Neither another seed nor another root will do."""
    alone = changed(seed=3)
    others = [baseline(seed=4), baseline(seed=3, task=make_task("wine"))]
    table = tabulate([alone, *others], FIRST)
    assert not table.variants
    assert table.unpaired == ids(alone, *others)


@pytest.mark.parametrize(
    "other",
    [
        {"source_digest": digest("other")},
        {"environment_digest": digest("other")},
        {"catalog_digest": digest("other")},
        {"baseline_config_digest": digest("other")},
        {"model_family": "tree"},
        {"budget_class": "large"},
        {"contract": make_contract(version="2")},
        {"contract": make_contract(verification_kind=VerificationKind.PUBLISHED_RECORD)},
        {"task": make_task("iris-resplit", root="iris")},
    ],
    ids="-".join,
)
def test_what_a_stratum_demands_must_be_shared(other: dict[str, Any]) -> None:
    """Comparability may not leave out contract, dataset, source or budget, and this policy leaves out nothing (8.1)."""
    foreign, base = changed(**other), baseline()
    assert stratum_of(foreign, POLICY) != stratum_of(base, POLICY)
    assert tabulate([base, foreign], POLICY).unpaired == ids(base, foreign)


def test_seed_and_value_are_no_part_of_the_stratum() -> None:
    here = {stratum_of(bundle, POLICY) for bundle in (baseline(), changed(), changed(seed=9))}
    value = changed(change=("scaler", "none", "robust"))
    assert here == {stratum_of(value, POLICY)}


def test_two_values_of_one_knob_are_two_variants() -> None:
    table = tabulate([baseline(), changed(), changed(change=("scaler", "none", "robust"))], POLICY)
    values = {variant.target.knob.to_value for variant in table.variants.values()}
    assert values == {'"standard"', '"robust"'}
    assert table.variants_of[ExperienceId(baseline().experience.id)] == tuple(sorted(table.variants))


def test_a_change_that_changed_nothing_is_inert() -> None:
    inert = changed(config_digest=digest("config None"))
    table = tabulate([baseline(), inert], POLICY)
    assert table.inert == ids(inert)
    assert not table.variants


def test_vrm_w06_the_same_evidence_imported_again_adds_no_support() -> None:
    """Two Runs that hold the same predictions are one support unit; so is a baseline that comes twice."""
    base, change = baseline(), changed()
    again, base_again = changed(run_id=RERUN), baseline(run_id=RERUN)
    assert len(ids(base, change, again, base_again)) == 4
    once, twice = tabulate([base, change], POLICY), tabulate([base, change, again, base_again], POLICY)
    assert pairs(once) == pairs(twice)
    assert len(twice.duplicates) == 2
    assert not twice.unpaired
    (unit,) = effect_units(pair for pair in _deltas(twice))
    assert unit.n_pairs == 1


def test_vrm_w06_a_rerun_with_another_result_is_another_pair_of_the_same_root() -> None:
    left = (ArtifactRef(role="predictions", sha256=digest("other predictions"), size_bytes=1),)
    base = baseline(verified={"balanced_accuracy": 0.7})
    runs = [
        changed(verified={"balanced_accuracy": 0.75}),
        changed(verified={"balanced_accuracy": 0.79}, artifacts=left, run_id=RERUN),
    ]
    table = tabulate([base, *runs], POLICY)
    (variant,) = table.variants.values()
    assert sorted(contrast.rerun for contrast in variant.contrasts) == [0, 1]
    assert len({contrast.support_unit_id for contrast in variant.contrasts}) == 2
    (unit,) = effect_units(_deltas(table))
    assert (unit.root, unit.n_pairs) == ("iris", 2)
    assert unit.effect == pytest.approx(0.07)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_vrm_w06_the_same_result_under_two_seeds_is_one_unit_in_any_order(order: tuple[int, int]) -> None:
    """Both sides are the same under both seeds: the unit is the lower one, whatever the order of imports."""
    times = {seed: (f"2025-03-0{place + 1}T12:00:00.000000Z",) * 3 for place, seed in enumerate(order)}
    left = [(ArtifactRef(role="predictions", sha256=digest(each), size_bytes=1),) for each in ("before", "after")]
    bundles = {
        seed: [
            baseline(seed=seed, times=times[seed], artifacts=left[0]),
            changed(seed=seed, times=times[seed], artifacts=left[1]),
        ]
        for seed in order
    }
    table, alone = tabulate([*bundles[0], *bundles[1]], POLICY), tabulate(bundles[0], POLICY)
    assert _units(table) == _units(alone)
    assert len(_units(table)) == 1
    assert table.duplicates >= ids(bundles[1][1])


def _units(table: ContrastTable) -> list[str]:
    return [contrast.support_unit_id for variant in table.variants.values() for contrast in variant.contrasts]


def test_under_version_1_a_rerun_of_the_baseline_is_kept_and_not_compared() -> None:
    left = (ArtifactRef(role="predictions", sha256=digest("other predictions"), size_bytes=1),)
    bundles = [baseline(), baseline(artifacts=left, run_id=RERUN), changed()]
    table = tabulate(bundles, FIRST)
    assert len(pairs(table)) == 1
    assert len(table.unpaired) == 1
    assert table.unpaired | set(table.variants_of) == ids(*bundles)


def test_a_metric_that_one_of_the_two_does_not_have_gives_no_delta() -> None:
    both = {"balanced_accuracy": 0.7, "accuracy": 0.9}
    table = tabulate([baseline(verified=both), changed()], POLICY)
    (variant,) = table.variants.values()
    (contrast,) = variant.contrasts
    assert contrast.delta("accuracy") is None
    assert contrast.delta("balanced_accuracy") is not None


def test_a_valid_trial_has_the_primary_metric() -> None:
    with pytest.raises(InvalidRecordError, match=r"trial\.verified"):
        changed(verified={"accuracy": 0.9})


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_bundles_does_not_matter(seed: int) -> None:
    left = (ArtifactRef(role="predictions", sha256=digest("rerun"), size_bytes=1),)
    bundles = [baseline(seed=number) for number in range(3)]
    bundles += [changed(seed=number) for number in range(4)]
    bundles += [changed(seed=0, run_id=RERUN), changed(seed=1, run_id=RERUN, artifacts=left)]
    bundles += [baseline(run_id=RERUN), baseline(run_id=RERUN, artifacts=left)]
    bundles += [changed(config_digest=digest("config None"))]
    shuffled = random.Random(seed).sample(bundles, len(bundles))  # noqa: S311 - not for secrets
    assert tabulate(shuffled, POLICY) == tabulate(bundles, POLICY)


def test_every_bundle_is_accounted_for_once() -> None:
    bundles = [baseline(), changed(), changed(seed=5), changed(run_id=RERUN), baseline(seed=8)]
    table = tabulate(bundles, POLICY)
    places = [table.unpaired, table.inert, table.duplicates, frozenset(table.variants_of)]
    assert sum(len(place) for place in places) == len(bundles)
    assert frozenset().union(*places) == ids(*bundles)


def _deltas(table: ContrastTable) -> list[Any]:
    return [
        contrast.delta("balanced_accuracy") for variant in table.variants.values() for contrast in variant.contrasts
    ]
