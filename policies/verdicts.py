"""What one effect becomes under a Distillation Policy (spec 8.1, 10; VRM-W04 to W08; docs/adr/0030, 0031).

Pure. Rules kept here:

- the verdict is a function of effect, gate, grade and circumstances, and says why in the closed candidate reason codes;
- only an effect that passed the gate of its family, on enough units, is active; a harmful one becomes an active
  avoidance. A shown "no effect" is rejected and an uncertain one deferred: neither is ever active;
- open contradiction goes before everything: what is contested is promoted as contested, never as active;
- what a field explains is no rule for all: it is deferred, and its parts are judged;
- a trade is no rule. A gain at the price of a guardrail is never recommended, and a loss that buys a guardrail is never
  an avoidance: no action follows from either, so it is rejected, and contested it asks to abstain. A gain whose
  guardrails were not looked at waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.effects import Classification, EffectSummary
from policies.estimates import GuardrailEffect
from policies.gate import Claim, GateReason, GateResult
from records.knowledge import DecisionKind
from records.values import ActionKind, Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one candidate.

    Attributes:
        decision: the Distillation DecisionKind.
        reason_codes: closed candidate reasons, the deciding one first.
        action: what the rule tells to do; None where nothing is promoted.
        findings: what the gate held against the effect, for the report.
    """

    decision: DecisionKind
    reason_codes: tuple[CandidateReason, ...]
    action: ActionKind | None
    findings: tuple[GateReason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a verdict depends on beside the effect.

    Attributes:
        contradiction: whether a contradiction of the scope variant is open.
        enough_runs: whether one evaluation task has the runs from which it may speak for itself.
        divisible: whether units lie in different strata, so that a scope split can explain why they disagree.
        explained: whether a scope field does explain that.
        guardrails: what the change did to the guardrails of the contract.
        guardrail_units: units that each of them needs at least, beside what the support of the rule asks.
    """

    contradiction: bool = False
    enough_runs: bool = True
    divisible: bool = True
    explained: bool = False
    guardrails: Sequence[GuardrailEffect] = ()
    guardrail_units: int = 0


ORDINARY: Final = Circumstances()
_DISAGREEMENT: Final = frozenset({GateReason.QUANTILE_DISAGREES, GateReason.SIGNS_DISAGREE})
_PROMOTED: Final = frozenset(
    {DecisionKind.PROMOTED_ACTIVE, DecisionKind.PROMOTED_PROVISIONAL, DecisionKind.PROMOTED_CONTESTED}
)
_Outcome = tuple[DecisionKind, tuple[CandidateReason, ...]]
_CONTESTED: Final[_Outcome] = (
    DecisionKind.PROMOTED_CONTESTED,
    (CandidateReason.TRUE_CONTRADICTION, CandidateReason.ELIGIBLE_CONTESTED),
)
_ACTIVE: Final[_Outcome] = (DecisionKind.PROMOTED_ACTIVE, (CandidateReason.ELIGIBLE_ACTIVE,))
_PROVISIONAL: Final[_Outcome] = (
    DecisionKind.PROMOTED_PROVISIONAL,
    (CandidateReason.ELIGIBLE_PROVISIONAL, CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT),
)
_UNSHOWN: Final[_Outcome] = (DecisionKind.REJECTED, (CandidateReason.MISSING_EFFECT_ESTIMATE,))
_NO_ACTION: Final[_Outcome] = (DecisionKind.REJECTED, (CandidateReason.GENERIC_OR_NON_ACTIONABLE,))
_UNSUPPORTED: Final[_Outcome] = (DecisionKind.DEFERRED, (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,))
_UNGUARDED: Final[_Outcome] = (DecisionKind.DEFERRED, (CandidateReason.MISSING_GUARDRAIL_EVIDENCE,))
_SPLIT: Final[_Outcome] = (DecisionKind.DEFERRED, (CandidateReason.SCOPE_SPLIT_REQUIRED,))


def decide(
    policy: DistillationPolicy,
    summary: EffectSummary | None,
    gate: GateResult | None,
    grade: Grade,
    around: Circumstances = ORDINARY,
) -> Verdict:
    """Return what one contrast becomes; the first line that holds decides.

    1. no estimate: rejected, missing_effect_estimate;
    2. an open contradiction, or a contested grade: promoted contested;
    3. a shown no-effect: rejected, for no action follows from it;
    4. a scope field explains why the units disagree: deferred, scope_split_required;
    5. too few units or runs for a provisional rule, or no claim at all: deferred, insufficient support;
    6. gate passed, interval on the side of the claim, enough units, grade allowed: promoted active;
    7. interval clear of zero on enough units for an active rule, but units disagree: deferred, until a scope split
       explains them if the family's test was passed, for want of support if it was not;
    8. interval clear of zero, or two units with nothing but the same sign: promoted provisional, development only;
    9. all else is uncertain: deferred, insufficient support.

    A rule of lines 6 and 8 is rejected if it is a trade, and a gain deferred with missing_guardrail_evidence if a
    guardrail is not verified in as many units as the rule needs.

    Raises:
        ValueError: there is an estimate but no gate result for it.
    """
    if summary is None:
        decision, codes = _UNSHOWN
        return Verdict(decision=decision, reason_codes=codes, action=None, findings=())
    if gate is None:
        raise ValueError("an effect that was estimated is judged with the gate result of its family")
    decision, codes = _guarded(policy, gate, _outcome(policy, summary, gate, (grade, around)), around)
    return Verdict(
        decision=decision,
        reason_codes=codes,
        action=_action(gate.claim, around) if decision in _PROMOTED else None,
        findings=() if gate.passed else gate.reasons,
    )


def _outcome(
    policy: DistillationPolicy, summary: EffectSummary, gate: GateResult, standing: tuple[Grade, Circumstances]
) -> _Outcome:
    grade, around = standing
    if around.contradiction or grade is Grade.CONTESTED:
        return _CONTESTED
    if summary.classification is Classification.NO_EFFECT:
        return _NO_ACTION
    if around.explained:
        return _SPLIT
    few = summary.n_units < policy.support.provisional_units or not around.enough_runs
    if few or gate.claim is Claim.NOTHING:
        return _UNSUPPORTED
    clear = summary.classification.value == gate.claim.value
    enough = summary.n_units >= policy.support.active_units
    if gate.passed and clear and enough and grade in policy.support.active_grades:
        return _ACTIVE
    if clear and enough and _DISAGREEMENT & set(gate.reasons):
        shown = GateReason.ADJUSTED_P_ABOVE_Q not in gate.reasons
        return _SPLIT if shown and around.divisible else _UNSUPPORTED
    one_sign = summary.mean_interval is None and gate.against_claim == 0 and gate.ties == 0
    return _PROVISIONAL if clear or one_sign else _UNSUPPORTED


def _guarded(policy: DistillationPolicy, gate: GateResult, outcome: _Outcome, around: Circumstances) -> _Outcome:
    if outcome not in (_ACTIVE, _PROVISIONAL):
        return outcome
    if _is_trade(gate.claim, around):
        return _NO_ACTION
    support = policy.support
    needed = max(around.guardrail_units, support.active_units if outcome is _ACTIVE else support.provisional_units)
    unguarded = gate.claim is Claim.IMPROVES and any(guard.n_units < needed for guard in around.guardrails)
    return _UNGUARDED if unguarded else outcome


def _is_trade(claim: Claim, around: Circumstances) -> bool:
    """Tell whether the metric and a guardrail are shown to have moved opposite ways."""
    opposite = {Claim.IMPROVES: Classification.HARMS, Claim.HARMS: Classification.IMPROVES}.get(claim)
    return opposite is not None and any(guard.classification is opposite for guard in around.guardrails)


def _action(claim: Claim, around: Circumstances) -> ActionKind:
    if claim is Claim.NOTHING or _is_trade(claim, around):
        return ActionKind.ABSTAIN
    return ActionKind.RECOMMEND if claim is Claim.IMPROVES else ActionKind.AVOID
