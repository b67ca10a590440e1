"""The family gate: multiplicity, agreement of mean, quantile and signs, and symmetry of harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.distillation_policy import distillation_policy
from policies.effects import EffectSummary, PairedDelta, effect_units, summarise_effect
from policies.gate import Claim, GateReason, SignRole, family_gate
from records.values import Direction

POLICY = distillation_policy()
GAIN = [0.05, 0.06, 0.04, 0.07, 0.05, 0.06]


def effect(deltas: list[float], direction: Direction = Direction.MAXIMIZE) -> EffectSummary:
    """Return the summary of one root per delta."""
    units = effect_units([PairedDelta(f"r{i:03}", "t", 0, 0.5, 0.5 + d) for i, d in enumerate(deltas)])
    return summarise_effect(units, direction, POLICY.effect)


def test_gain_passes_and_shows_its_figures() -> None:
    """Six roots of one sign: p by t, the sign test a test."""
    summary = effect(GAIN)
    result = family_gate({"knob": summary}, POLICY.gate)["knob"]
    assert result.passed
    assert result.reasons == (GateReason.PASSED,)
    assert (result.claim, result.sign_role) == (Claim.IMPROVES, SignRole.TEST)
    assert result.adjusted_p == summary.p_value
    assert (result.with_claim, result.against_claim, result.ties) == (6, 0, 0)
    assert result.guard_quantile == summary.lower_quantile


@given(st.lists(st.floats(-0.2, 0.2).map(lambda x: round(x, 3)), min_size=1, max_size=12))
def test_harm_is_the_mirror_image_of_gain(deltas: list[float]) -> None:
    """Mirrored deltas, or the other direction, turn the claim and change no verdict."""
    mirror = {Claim.IMPROVES: Claim.HARMS, Claim.HARMS: Claim.IMPROVES, Claim.NOTHING: Claim.NOTHING}
    one = family_gate({0: effect(deltas)}, POLICY.gate)[0]
    mirrored = family_gate({0: effect([-d for d in deltas])}, POLICY.gate)[0]
    minimised = family_gate({0: effect(deltas, Direction.MINIMIZE)}, POLICY.gate)[0]
    assert mirrored.passed is minimised.passed is one.passed
    assert mirrored.claim is minimised.claim is mirror[one.claim]
    assert mirrored.reasons == minimised.reasons == one.reasons


def test_family_size_closes_the_gate_on_what_many_tries_find() -> None:
    """A p of about 0.02 passes alone and not among nineteen nulls."""
    lucky = effect([0.01, 0.05, 0.06, 0.09, 0.02])
    assert lucky.p_value is not None
    assert 0.01 < lucky.p_value < 0.05
    nulls = {f"null{i}": effect([0.05, -0.05, 0.04, -0.04 + i / 1e4]) for i in range(19)}
    assert family_gate({"lucky": lucky}, POLICY.gate)["lucky"].passed
    among = family_gate({"lucky": lucky, **nulls}, POLICY.gate)["lucky"]
    assert among.reasons == (GateReason.ADJUSTED_P_ABOVE_Q,)
    assert among.adjusted_p == pytest.approx(20 * lucky.p_value, rel=1e-9)


def test_untested_contrasts_neither_pass_nor_dilute() -> None:
    """Two units have no p-value: not tested, reported, and no part of the family's count."""
    family = family_gate({"gain": effect(GAIN), "two": effect([0.5, 0.5])}, POLICY.gate)
    assert GateReason.NOT_TESTED in family["two"].reasons
    assert not family["two"].passed
    assert (family["gain"].family_size, family["gain"].family_untested) == (1, 1)
    assert family["gain"].adjusted_p == family["gain"].p_value


def test_mean_carried_by_a_few_roots_does_not_pass() -> None:
    """The mean is clearly up, but a quarter of the roots and more lose."""
    result = family_gate({0: effect([-0.01] * 6 + [0.3, 0.32, 0.31, 0.29, 0.3, 0.33, 0.31, 0.3])}, POLICY.gate)[0]
    assert result.reasons == (GateReason.QUANTILE_DISAGREES,)


def test_majority_of_small_gains_hiding_large_losses_passes_neither_way() -> None:
    """Seventy per cent better and harmful on average: no rule in either direction."""
    result = family_gate({0: effect([0.002] * 70 + [-0.1] * 30)}, POLICY.gate)[0]
    assert result.claim is Claim.HARMS
    assert GateReason.SIGNS_DISAGREE in result.reasons
    assert not result.passed


def test_nulls_do_not_pass() -> None:
    """A no-op, and an effect shown to be smaller than what matters, though significant."""
    tiny = [0.001, 0.0011, 0.0012, 0.0009, 0.001]
    family = family_gate({"no_op": effect([0.0] * 8), "tiny": effect(tiny)}, POLICY.gate)
    assert GateReason.MEAN_IS_ZERO in family["no_op"].reasons
    assert family["no_op"].claim is Claim.NOTHING
    assert family["tiny"].reasons == (GateReason.INSIDE_MARGIN,)


def test_identical_gains_on_few_roots_do_not_pass_by_rounding() -> None:
    """Five equal gains have no variance: the sign test's 0.0625 stands, not an infinite t."""
    result = family_gate({0: effect([0.1] * 5)}, POLICY.gate)[0]
    assert result.adjusted_p == 0.0625
    assert not result.passed


def test_sign_test_below_five_untied_units_is_a_consistency_check() -> None:
    """Ties do not make a sign test."""
    result = family_gate({0: effect([0.1, 0.11, 0.1, 0.12, 0.0])}, POLICY.gate)[0]
    assert result.sign_role is SignRole.CONSISTENCY


def test_family_of_nothing() -> None:
    """An empty scope has an empty answer."""
    assert family_gate({}, POLICY.gate) == {}
