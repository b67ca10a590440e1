"""Grades by fixed rules: heterogeneity between roots is not contradiction inside a stratum."""

from __future__ import annotations

import numpy as np
import pytest

from policies.distillation_policy import distillation_policy
from policies.effects import PairedDelta, effect_units, summarise_effect
from policies.strength import StrengthReason, disputed_strata, grade_evidence
from records.values import Direction, EvidenceStrength, Grade

POLICY = distillation_policy()


def grade(by_root: dict[str, list[float]]) -> EvidenceStrength:
    """Grade roots with the given seed deltas."""
    units = effect_units(
        PairedDelta(root, f"{root}/t", seed, 0.5, 0.5 + delta)
        for root, deltas in by_root.items()
        for seed, delta in enumerate(deltas)
    )
    summary = summarise_effect(units, Direction.MAXIMIZE, POLICY.effect)
    return grade_evidence(summary, units, POLICY.strength, POLICY.effect)


def roots(*effects: float) -> dict[str, list[float]]:
    """Return one root with one seed per effect."""
    return {f"r{i}": [effect] for i, effect in enumerate(effects)}


@pytest.mark.parametrize(
    ("effects", "expected", "consistency"),
    [
        ((0.1,), Grade.SINGLE, "1"),
        ((0.1, -0.05), Grade.SINGLE, "0.5"),
        ((0.0, 0.0, 0.0), Grade.SINGLE, "0"),
        ((0.1, 0.2), Grade.REPLICATED, "1"),
        ((-0.1, -0.2), Grade.REPLICATED, "1"),
        ((0.1, 0.2, 0.3, 0.2), Grade.REPLICATED, "1"),
        ((0.1, 0.2, 0.3, 0.2, 0.15), Grade.STRONG, "1"),
        ((0.1, 0.2, 0.3, 0.2, 0.15, -0.01, 0.0, 0.1), Grade.STRONG, "0.75"),
        ((0.1, 0.2, -0.3, 0.4, 0.2), Grade.REPLICATED, "0.8"),
        ((0.5, 0.4, -0.01, -0.01, -0.01), Grade.SINGLE, "0.4"),
    ],
)
def test_cut_offs(effects: tuple[float, ...], expected: Grade, consistency: str) -> None:
    """The cut-offs of the policy; consistency counts ties in the whole."""
    result = grade(roots(*effects))
    assert (result.grade, result.effect_consistency) == (expected, consistency)


def test_seeds_of_one_root_never_replicate() -> None:
    """Twenty seeds of one dataset are one unit."""
    assert grade({"a": [0.1 + i / 1000 for i in range(20)]}).grade is Grade.SINGLE


def test_vrm_l03_scope_aware_conflict() -> None:
    """Roots that disagree are reported as heterogeneity and counter-evidence, and contest nothing."""
    result = grade(roots(0.1, 0.2, 0.3, -0.1))
    assert result.grade is Grade.REPLICATED
    assert (result.support_count, result.counter_count) == (3, 1)
    assert StrengthReason.HETEROGENEOUS.value in result.reasons


def test_two_camps_inside_a_stratum_contest() -> None:
    """One comparable stratum in which half the seeds win and half lose, each camp tight."""
    camps = [0.1, 0.11, 0.09, 0.1, -0.1, -0.11, -0.09, -0.1]
    result = grade({"a": camps, **roots(0.1, 0.2, 0.3, 0.2, 0.1)})
    assert result.grade is Grade.CONTESTED
    assert result.reasons[0] == StrengthReason.STRATUM_DISAGREES.value
    few = grade({"a": camps[2:6], **roots(0.1, 0.2)})
    assert few.grade is Grade.REPLICATED


def test_noise_around_zero_contests_almost_never() -> None:
    """Two thousand strata of pure noise with ten seeds each: fewer than one in a hundred look like two camps."""
    rng = np.random.default_rng(7)
    units = effect_units(
        PairedDelta(f"r{i}", f"r{i}/t", seed, 0.5, 0.5 + rng.normal(0, 0.02)) for i in range(2000) for seed in range(10)
    )
    assert len(disputed_strata(units, POLICY.strength, 0.95, 0.005)) < 20


def test_units_of_another_summary_are_a_bug() -> None:
    """Summary and units belong together."""
    units = effect_units([PairedDelta("a", "t", 0, 0.5, 0.6)])
    summary = summarise_effect(units, Direction.MAXIMIZE, POLICY.effect)
    with pytest.raises(ValueError, match="summary"):
        grade_evidence(summary, (), POLICY.strength, POLICY.effect)
