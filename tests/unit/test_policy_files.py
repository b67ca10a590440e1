"""Policy files: what ships loads, what is malformed is refused by name, and verdicts follow the file."""

from __future__ import annotations

from importlib.resources import files

import pytest

from policies.distillation_policy import CandidateReason, DistillationPolicy, distillation_policy
from policies.effects import PairedDelta, effect_units, summarise_effect
from policies.gate import GateReason, family_gate
from policies.lifecycle_policy import LifecyclePolicy, lifecycle_policy
from policies.loading import load_policy, packaged_policy, policy_set_digest
from policies.strength import grade_evidence
from policies.verdicts import Circumstances, Verdict, decide
from records.errors import InvalidInputError
from records.evidence import VerificationKind
from records.knowledge import DecisionKind
from records.values import ActionKind, Direction, Grade

POLICY = distillation_policy()
FIRST = distillation_policy("1")
TEXT = files("policies").joinpath("files/distillation-v1.yaml").read_text(encoding="utf-8")
LIFECYCLE = files("policies").joinpath("files/lifecycle-v1.yaml").read_text(encoding="utf-8")

# Frozen with their versions: another digest under the same version would let history be judged by other numbers.
DISTILLATION_V1 = "1072f8fae09755f2007238bda62f3292f975303eec41e8625734b4dfe339d6bd"
DISTILLATION_V2 = "2c22598d2ae87007a634a207da55587034dc0104713f10c59932a1175b2811f0"


def verdict(*effects: float, contradiction: bool = False, family: int = 1) -> Verdict:
    """Judge one root per effect, among `family - 1` no-op contrasts."""
    units = effect_units(PairedDelta(f"r{i:03}", "t", 0, 0.5, 0.5 + d) for i, d in enumerate(effects))
    summary = summarise_effect(units, Direction.MAXIMIZE, POLICY.effect)
    null_units = effect_units(PairedDelta(f"r{i}", "t", 0, 0.5, 0.5) for i in range(5))
    null = summarise_effect(null_units, Direction.MAXIMIZE, POLICY.effect)
    gates = family_gate({0: summary, **dict.fromkeys(range(1, family), null)}, POLICY.gate)
    strength = grade_evidence(summary, units, POLICY.strength, POLICY.effect)
    return decide(POLICY, summary, gates[0], strength.grade, Circumstances(contradiction=contradiction))


def test_identity_is_content_not_layout() -> None:
    """Comments, order and number spelling do not count; a number does."""
    assert FIRST.identity.digest == DISTILLATION_V1
    assert POLICY.identity.digest == DISTILLATION_V2
    assert load_policy(DistillationPolicy, TEXT.replace("q: 0.05", "q: 5.0e-2  # x"), "f").identity == FIRST.identity
    changed = load_policy(DistillationPolicy, TEXT.replace("q: 0.05", "q: 0.1"), "f")
    assert changed.identity.digest != FIRST.identity.digest


def test_version_2_changes_no_number_of_version_1() -> None:
    """It only adds the section that version 1 has not, and is what is used where no version is asked for."""
    assert (FIRST.version, POLICY.version) == ("1", "2")
    assert FIRST.comparison is None
    assert POLICY.comparison is not None
    own = {"version", "comparison"}
    assert {k: v for k, v in POLICY.as_json().items() if k not in own} == {
        k: v for k, v in FIRST.as_json().items() if k not in own
    }
    assert "comparison" not in FIRST.as_json()


def test_policy_set_digest_is_over_the_ordered_set() -> None:
    """The order given does not count, the members do, and a policy counts once."""
    one, two = POLICY.identity, lifecycle_policy().identity
    assert policy_set_digest([one, two]) == policy_set_digest([two, one])
    assert policy_set_digest([one, two]) != policy_set_digest([one])
    with pytest.raises(InvalidInputError, match="once"):
        policy_set_digest([one, one.model_copy(update={"version": "2"})])


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("q: 0.05", "q: true", "gate.q"),
        ("q: 0.05", "q: .nan", "gate.q"),
        ("q: 0.05", "q: .inf", "gate.q"),
        ("q: 0.05", "q: 5e-2", "gate.q"),
        ("q: 0.05", "q: 2026-01-01", "gate.q"),
        ("q: 0.05", "q: 1.5", "gate.q"),
        ("q: 0.05", "q: 0.05\n  p: 0.1", "gate.p"),
        ("q: 0.05", "", "gate.q"),
        ("q: 0.05", "q: 0.05\n  q: 0.5", "given twice"),
        ("strong_units: 5", "strong_units: yes", "strength.strong_units"),
        ("strong_units: 5", "strong_units: 5.5", "strength.strong_units"),
        ('version: "1"', "version: 1", "version"),
        ("[recomputed, published_record]", "[hearsay]", "active_verifications"),
        ("[recomputed, published_record]", "[]", "active_verifications"),
        ("  - contract_digest\n", "", "stratum_fields"),
        ("[replicated, strong]", "[single]", "active_grades"),
        ("policy_id: distillation", "[1, 2", "file.yaml"),
    ],
)
def test_malformed_policies_are_refused_by_file_and_field(old: str, new: str, field: str) -> None:
    """Each error names the file, the field and the remedy."""
    assert old in TEXT
    with pytest.raises(InvalidInputError) as caught:
        load_policy(DistillationPolicy, TEXT.replace(old, new), "file.yaml")
    assert "file.yaml" in str(caught.value)
    assert field in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "- 1", "just text", "\x00"])
def test_what_is_no_mapping_is_no_policy(text: str) -> None:
    """An empty file, a list, a word, a control character."""
    with pytest.raises(InvalidInputError, match="file"):
        load_policy(DistillationPolicy, text, "file.yaml")


def test_lifecycle_file_is_checked_against_itself() -> None:
    """A decision opens once, and only a decision that promotes opens anything."""
    for new in ("promoted_active", "rejected", "superseded"):
        with pytest.raises(InvalidInputError, match=r"openings|once"):
            load_policy(LifecyclePolicy, LIFECYCLE.replace("promoted_contested", new), "file.yaml")


def test_unknown_version_is_refused() -> None:
    """Only what ships can be named."""
    with pytest.raises(InvalidInputError, match="ship"):
        packaged_policy(DistillationPolicy, "distillation", "999")


def test_vrm_w04_comparative_knowledge() -> None:
    """Active needs independent units and the gate: one unit and two units are not enough."""
    assert verdict(0.1).decision is DecisionKind.DEFERRED
    assert verdict(0.1, 0.1).decision is DecisionKind.PROMOTED_PROVISIONAL
    assert verdict(0.1, -0.1).decision is DecisionKind.DEFERRED
    active = verdict(0.1, 0.11, 0.12, 0.1, 0.12)
    assert active.decision is DecisionKind.PROMOTED_ACTIVE
    assert active.reason_codes == (CandidateReason.ELIGIBLE_ACTIVE,)


def test_vrm_w05_actionability() -> None:
    """A gain recommends, a harm is an active avoidance, and what is not promoted tells nothing."""
    assert verdict(0.1, 0.11, 0.12, 0.1, 0.12).action is ActionKind.RECOMMEND
    harm = verdict(-0.1, -0.11, -0.12, -0.1, -0.12)
    assert (harm.decision, harm.action) == (DecisionKind.PROMOTED_ACTIVE, ActionKind.AVOID)
    assert verdict(0.1).action is None


def test_an_open_contradiction_goes_before_everything() -> None:
    """An open contradiction is promoted as contested, however strong the effect."""
    contested = verdict(0.1, 0.11, 0.12, 0.1, 0.12, contradiction=True)
    assert contested.decision is DecisionKind.PROMOTED_CONTESTED
    assert contested.reason_codes[0] is CandidateReason.TRUE_CONTRADICTION


def test_a_null_is_never_active() -> None:
    """Nulls are never active: a no-op, a shown no-effect, and an uncertain one, each with its code."""
    for effects in ((0.0,) * 30, (0.001, 0.0011, 0.0009, 0.001, 0.001)):
        null = verdict(*effects)
        assert (null.decision, null.reason_codes) == (
            DecisionKind.REJECTED,
            (CandidateReason.GENERIC_OR_NON_ACTIONABLE,),
        )
    uncertain = verdict(0.1, -0.12, 0.08, -0.05, 0.02)
    assert uncertain.decision is DecisionKind.DEFERRED
    assert uncertain.reason_codes == (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,)


def test_heterogeneous_roots_wait_for_a_scope_split() -> None:
    """A mean carried by half the roots is shown, but not a rule for all of them."""
    split = verdict(*[-0.01] * 6, 0.3, 0.32, 0.31, 0.29, 0.3, 0.33, 0.31, 0.3)
    assert (split.decision, split.reason_codes) == (DecisionKind.DEFERRED, (CandidateReason.SCOPE_SPLIT_REQUIRED,))
    assert split.findings == (GateReason.QUANTILE_DISAGREES,)


def test_effect_that_only_its_family_holds_back_is_provisional() -> None:
    """Alone it would be active; found among twenty tries it is for development only."""
    effects = (0.01, 0.05, 0.06, 0.09, 0.02)
    assert verdict(*effects).decision is DecisionKind.PROMOTED_ACTIVE
    among = verdict(*effects, family=20)
    assert among.decision is DecisionKind.PROMOTED_PROVISIONAL
    assert among.findings == (GateReason.ADJUSTED_P_ABOVE_Q,)


def test_without_an_estimate_nothing_is_decided_on() -> None:
    """No estimate is a rejection with its own code; an estimate without its family is a bug."""
    missing = decide(POLICY, None, None, Grade.SINGLE)
    assert (missing.decision, missing.reason_codes) == (
        DecisionKind.REJECTED,
        (CandidateReason.MISSING_EFFECT_ESTIMATE,),
    )
    units = effect_units([PairedDelta("a", "t", 0, 0.5, 0.6)])
    with pytest.raises(ValueError, match="family"):
        decide(POLICY, summarise_effect(units, Direction.MAXIMIZE, POLICY.effect), None, Grade.SINGLE)


def test_kinds_of_verification_that_may_support_active_knowledge() -> None:
    """What a log attests stays episodic."""
    assert POLICY.may_support_active(VerificationKind.RECOMPUTED)
    assert POLICY.may_support_active(VerificationKind.PUBLISHED_RECORD)
    assert not POLICY.may_support_active(VerificationKind.ATTESTED)
