"""What would complete an Experience: an answer for every code, with the figures that were decided on."""

from __future__ import annotations

from dataclasses import replace
from statistics import stdev, variance
from typing import get_args

import pytest

from memory import campaigns, orphans, work_closure
from policies.completion import Code, Facts, Hold, code_of, remedies, remedy
from policies.distillation_policy import CandidateReason, ScopeField, distillation_policy
from policies.distiller import VariantVerdict
from policies.failures import FailureClass
from policies.gate import GateReason
from policies.sample_size import SOURCE, units_to_settle
from records.evidence import VerificationKind
from tests.unit.comparisons import arms, paired
from tests.unit.comparisons import verdicts as compared
from tests.unit.test_distiller import GOOD, pairs, verdicts
from tests.unit.test_guardrails import HARM, guarded

POLICY = distillation_policy()
NOTHING = Facts(policy=POLICY)
CODES: list[Code] = [code for family in get_args(Code) for code in family]


def facts(verdict: VariantVerdict) -> Facts:
    """Return what is known of a contrast."""
    return Facts(policy=POLICY, verdict=verdict)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_remedy_with_facts_and_without(code: Code) -> None:
    known = replace(facts(verdicts(pairs(GOOD))["scaler"]), detail=("what was met",), seed=7, apart=("budget_class",))
    for each in (NOTHING, known):
        said = remedy(code, each)
        assert said.endswith(".")
        assert said[0].isupper() or said[0].isdigit()
        assert "  " not in said


def test_codes_of_the_families_never_mean_two_things() -> None:
    values = [code.value for code in CODES]
    assert len(values) == len(set(values))
    assert all(code_of(code.value) is code for code in CODES)
    assert get_args(Code) == (CandidateReason, GateReason, Hold)


def test_every_code_that_a_receipt_is_given_is_known() -> None:
    given = {
        *campaigns._TOO_LATE[1],
        *work_closure._WHY.values(),
        *orphans._REASONS.values(),
        *(f"verification_{kind.value}" for kind in VerificationKind),
        "evaluation_corpus",
        "invalid_verification",
    }
    assert all(code_of(code) for code in given)


def test_a_code_of_another_vocabulary_is_not_explained_away() -> None:
    assert code_of("tired") is None
    assert remedies(["tired"], NOTHING) == ("tired is a code of another vocabulary; no remedy is known.",)


@pytest.mark.parametrize(
    ("deltas", "said"),
    [
        ({"a": 0.05}, "1 of 3 dataset roots; needs 2 more dataset roots of the same task scope."),
        ({"a": 0.05, "b": 0.04}, "2 of 3 dataset roots; needs 1 more dataset root of the same task scope."),
    ],
)
def test_missing_roots_are_counted(deltas: dict[str, float], said: str) -> None:
    assert remedy(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT, facts(verdicts(pairs(deltas))["scaler"])) == said


def test_an_interval_that_spans_zero_gets_a_rough_estimate() -> None:
    """Mean 0.02, sd 0.02582, so that d is 0.7746: 16 units in all, as test_sample_size integrates."""
    verdict = verdicts(pairs({"a": 0.05, "b": -0.01, "c": 0.03, "d": 0.01}))["scaler"]
    said = remedy(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT, facts(verdict))
    # By hand: 0.02 -+ 3.18245 * 0.0258199 / 2.
    assert said.startswith("The 95 % interval of the mean, -0.02109 to +0.06109, spans zero. Rough estimate: about ")
    assert "about 12 more dataset roots" in said
    assert SOURCE in said


def test_an_adjusted_p_is_told_with_its_family() -> None:
    verdict = verdicts(pairs({"a": 0.05, "b": -0.01, "c": 0.03, "d": 0.01}))["scaler"]
    gate = replace(verdict.gate, p_value=0.01, adjusted_p=0.08, family_size=18)
    said = remedy(GateReason.ADJUSTED_P_ABOVE_Q, facts(replace(verdict, gate=gate)))
    assert said.startswith("Adjusted p 0.08 over a family of 18, above q 0.05. Rough estimate: about ")


def test_a_run_without_a_comparator_is_told_its_seed_and_what_keeps_it_apart() -> None:
    code = CandidateReason.NON_COMPARABLE_EVIDENCE
    assert "No baseline with seed 7 in its stratum, or" in remedy(code, replace(NOTHING, seed=7))
    assert "baselines with other seeds" in remedy(code, replace(NOTHING, seed=7, apart=()))
    said = remedy(code, replace(NOTHING, seed=7, apart=("budget_class", "source_digest")))
    assert "the nearest one differs in budget_class, source_digest." in said
    assert said.endswith("Run the baseline configuration with seed 7 in the same stratum.")


def test_a_finding_of_its_own_hides_what_the_gate_held_against_it() -> None:
    verdict = verdicts(pairs({"a": 0.001, "b": -0.001, "c": 0.002, "d": -0.001, "e": 0.0}))["scaler"]
    codes = [*verdict.verdict.reason_codes, *verdict.verdict.findings]
    assert len(codes) > 1
    (said,) = remedies([code.value for code in codes], facts(verdict))
    assert said.startswith("Nothing is missing: the interval of the mean (-0.001419 to +0.001819) lies inside")


def test_what_is_said_twice_is_said_once() -> None:
    codes = [CandidateReason.TRUE_CONTRADICTION.value, CandidateReason.ELIGIBLE_CONTESTED.value]
    assert len(remedies(codes, NOTHING)) == 1


def test_one_task_asks_for_more_runs_of_that_task() -> None:
    """Five pairs whose mean is zero, so that only a null can be shown; the spread is that of the pairs."""
    instance = compared(paired((0.02, -0.02, 0.015, -0.016, 0.001)))[-1]
    said = remedy(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT, facts(instance))
    settled = units_to_settle(0.0, stdev((0.02, -0.02, 0.015, -0.016, 0.001)), 0.005, 0.05)
    assert settled is not None
    assert f"about {settled.units - 5} more runs at this mean and spread" in said


def test_two_arms_ask_for_more_runs_of_each() -> None:
    """The spread of a pair of runs is that of Welch's interval: sqrt((v1 / n1 + v2 / n2) * n) of the smaller arm."""
    after, before = (0.55, 0.50, 0.53, 0.49, 0.54, 0.52), (0.50, 0.52, 0.51, 0.49, 0.505)
    instance = compared(arms(after, before))[-1]
    said = remedy(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT, facts(instance))
    spread = ((variance(after) / 6 + variance(before) / 5) * 5) ** 0.5
    settled = units_to_settle(sum(after) / 6 - sum(before) / 5, spread, 0.005, 0.05)
    assert settled is not None
    assert f"about {settled.units - 5} more runs of each arm at this mean and spread" in said


def test_a_harmed_guardrail_is_the_price_that_is_told() -> None:
    (verdict,) = compared(guarded(HARM))
    (said,) = remedies([code.value for code in verdict.verdict.reason_codes], facts(verdict))
    assert said.startswith("It gains at the price of a guardrail (accuracy -0.045 share, 95 % interval ")


def test_guardrails_that_are_missing_are_counted() -> None:
    (verdict,) = compared(guarded((0.01, 0.0, None, None, None)))
    (said,) = remedies([code.value for code in verdict.verdict.reason_codes], facts(verdict))
    assert "(accuracy in 2 of 3 dataset roots)" in said


def test_what_did_not_work_has_no_comparator_to_look_for() -> None:
    said = remedy(CandidateReason.NON_COMPARABLE_EVIDENCE, replace(NOTHING, failure=FailureClass.ENVIRONMENT))
    assert said.startswith("The run did not work (environment)")


def test_a_field_that_splits_is_named() -> None:
    verdict = replace(verdicts(pairs(GOOD))["scaler"], split_by=ScopeField.ENVIRONMENT)
    said = remedy(CandidateReason.SCOPE_SPLIT_REQUIRED, facts(verdict))
    assert said.startswith("environment_digest explains why the evidence disagrees")
