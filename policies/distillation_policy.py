"""The Distillation Policy: which evidence may become knowledge, and what one effect becomes.

Rules kept here (spec 8.1, VRM-W04 to W08; docs/adr/0030):

- every number is in `policies/files/distillation-v<n>.yaml`; the verdict is a pure function of effect, gate, grade and
  open contradiction, and says why in the closed candidate reason codes;
- only an effect that passed the gate of its family, on enough units, is active; a harmful one becomes an active
  avoidance. A shown "no effect" is rejected and an uncertain one deferred: neither is ever active;
- open contradiction goes before everything: what is contested is promoted as contested, never as active;
- the policy may make comparability stricter, but cannot leave out contract, dataset, source or budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.effects import Classification, EffectPolicy, EffectSummary
from policies.gate import Claim, GatePolicy, GateReason, GateResult
from policies.loading import Policy, PolicyPart, packaged_policy
from policies.strength import StrengthPolicy
from records.evidence import VerificationKind
from records.knowledge import DecisionKind
from records.values import ActionKind, Grade


class StratumField(StrEnum):
    """What two runs must share to be compared (spec 8.1); seed and intervention value are what may differ."""

    EVALUATION_TASK = "evaluation_task_id"
    TASK_SCOPE = "task_scope_id"
    DOMAIN = "domain"
    DATASET = "dataset_digest"
    MODEL_FAMILY = "model_family"
    SOURCE = "source_digest"
    CONTRACT = "contract_digest"
    METRIC = "primary_metric"
    BUDGET_CLASS = "budget_class"
    ALLOCATION = "allocation_policy"
    CATALOG = "catalog_digest"
    ENVIRONMENT = "environment_class"
    BASELINE = "baseline_identity"


_REQUIRED_FIELDS: Final = frozenset(
    {StratumField.CONTRACT, StratumField.DATASET, StratumField.SOURCE, StratumField.BUDGET_CLASS}
)


class CandidateReason(StrEnum):
    """The closed reason codes of candidates."""

    MISSING_VERIFICATION = "missing_verification"
    MISSING_TRIAL_PROVENANCE = "missing_trial_provenance"
    PRIVATE_EVALUATOR_DEPENDENCY = "private_evaluator_dependency"
    NON_COMPARABLE_EVIDENCE = "non_comparable_evidence"
    DUPLICATE_SUPPORT_UNIT = "duplicate_support_unit"
    MISSING_DECISION_POINT = "missing_decision_point"
    MISSING_TYPED_ACTION = "missing_typed_action"
    GENERIC_OR_NON_ACTIONABLE = "generic_or_non_actionable"
    MISSING_EFFECT_ESTIMATE = "missing_effect_estimate"
    MISSING_GUARDRAIL_EVIDENCE = "missing_guardrail_evidence"
    INSUFFICIENT_INDEPENDENT_SUPPORT = "insufficient_independent_support"
    SCOPE_SPLIT_REQUIRED = "scope_split_required"
    TRUE_CONTRADICTION = "true_contradiction"
    ELIGIBLE_PROVISIONAL = "eligible_provisional"
    ELIGIBLE_ACTIVE = "eligible_active"
    ELIGIBLE_CONTESTED = "eligible_contested"


class SupportPolicy(PolicyPart):
    """How much independent support a rule needs.

    Attributes:
        provisional_units: fewest units behind a provisional rule.
        active_units: fewest units behind an active rule for a task scope.
        active_grades: grades that an active rule may have.
    """

    provisional_units: Annotated[int, Field(ge=2)]
    active_units: Annotated[int, Field(ge=2)]
    active_grades: tuple[Grade, ...]

    @field_validator("active_grades")
    @classmethod
    def _replicated_or_better(cls, grades: tuple[Grade, ...]) -> tuple[Grade, ...]:
        if not grades or not set(grades) <= {Grade.REPLICATED, Grade.STRONG}:
            raise ValueError("an active rule is replicated or strong; name one or both")
        return grades


class DistillationPolicy(Policy):
    """One version of the policy.

    Attributes:
        active_verifications: kinds of verification whose evidence may support active knowledge; the other kinds stay
            episodic.
        stratum_fields: what the two runs of a comparison must share.
        effect: how effects are estimated.
        gate: the gate of one task scope's family of contrasts.
        strength: the cut-offs between grades.
        support: how much independent support a rule needs.
    """

    active_verifications: Annotated[tuple[VerificationKind, ...], Field(min_length=1)]
    stratum_fields: tuple[StratumField, ...]
    effect: EffectPolicy
    gate: GatePolicy
    strength: StrengthPolicy
    support: SupportPolicy

    @field_validator("stratum_fields")
    @classmethod
    def _comparable(cls, fields: tuple[StratumField, ...]) -> tuple[StratumField, ...]:
        missing = _REQUIRED_FIELDS - set(fields)
        if missing:
            raise ValueError(f"comparability needs {', '.join(sorted(missing))} as well")
        return fields

    def may_support_active(self, kind: VerificationKind) -> bool:
        """Tell whether evidence verified in this way may stand behind an active rule."""
        return kind in self.active_verifications


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


def distillation_policy(version: str = "1") -> DistillationPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(DistillationPolicy, "distillation", version)


def decide(
    policy: DistillationPolicy,
    summary: EffectSummary | None,
    gate: GateResult | None,
    grade: Grade,
    *,
    contradiction: bool,
) -> Verdict:
    """Return what one contrast becomes; the first line that holds decides.

    1. no estimate: rejected, missing_effect_estimate;
    2. an open contradiction, or a contested grade: promoted contested;
    3. a shown no-effect: rejected, for no action follows from it;
    4. too few units for a provisional rule, or no claim at all: deferred, insufficient support;
    5. gate passed, interval on the side of the claim, enough units, grade allowed: promoted active;
    6. interval clear of zero on enough units for an active rule, but roots disagree: deferred, until a scope split
       explains them if the family's test was passed, for want of support if it was not;
    7. interval clear of zero, or two units with nothing but the same sign: promoted provisional, development only;
    8. all else is uncertain: deferred, insufficient support.

    Raises:
        ValueError: there is an estimate but no gate result for it.
    """
    if summary is None:
        return Verdict(
            decision=DecisionKind.REJECTED,
            reason_codes=(CandidateReason.MISSING_EFFECT_ESTIMATE,),
            action=None,
            findings=(),
        )
    if gate is None:
        raise ValueError("an effect that was estimated is judged with the gate result of its family")
    decision, codes = _outcome(policy, summary, gate, (grade, contradiction))
    promoted = decision not in {DecisionKind.REJECTED, DecisionKind.DEFERRED}
    return Verdict(
        decision=decision,
        reason_codes=codes,
        action=_action(gate.claim) if promoted else None,
        findings=() if gate.passed else gate.reasons,
    )


_DISAGREEMENT: Final = frozenset({GateReason.QUANTILE_DISAGREES, GateReason.SIGNS_DISAGREE})
_Outcome = tuple[DecisionKind, tuple[CandidateReason, ...]]
_UNSUPPORTED: Final[_Outcome] = (DecisionKind.DEFERRED, (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,))


def _outcome(
    policy: DistillationPolicy, summary: EffectSummary, gate: GateResult, standing: tuple[Grade, bool]
) -> _Outcome:
    grade, contradiction = standing
    support = policy.support
    if contradiction or grade is Grade.CONTESTED:
        return DecisionKind.PROMOTED_CONTESTED, (CandidateReason.TRUE_CONTRADICTION, CandidateReason.ELIGIBLE_CONTESTED)
    if summary.classification is Classification.NO_EFFECT:
        return DecisionKind.REJECTED, (CandidateReason.GENERIC_OR_NON_ACTIONABLE,)
    if summary.n_units < support.provisional_units or gate.claim is Claim.NOTHING:
        return _UNSUPPORTED
    clear = summary.classification.value == gate.claim.value
    enough = summary.n_units >= support.active_units
    if gate.passed and clear and enough and grade in support.active_grades:
        return DecisionKind.PROMOTED_ACTIVE, (CandidateReason.ELIGIBLE_ACTIVE,)
    if clear and enough and _DISAGREEMENT & set(gate.reasons):
        shown = GateReason.ADJUSTED_P_ABOVE_Q not in gate.reasons
        return (DecisionKind.DEFERRED, (CandidateReason.SCOPE_SPLIT_REQUIRED,)) if shown else _UNSUPPORTED
    one_sign = summary.mean_interval is None and gate.against_claim == 0 and gate.ties == 0
    if clear or one_sign:
        return DecisionKind.PROMOTED_PROVISIONAL, (
            CandidateReason.ELIGIBLE_PROVISIONAL,
            CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,
        )
    return _UNSUPPORTED


def _action(claim: Claim) -> ActionKind:
    match claim:
        case Claim.IMPROVES:
            return ActionKind.RECOMMEND
        case Claim.HARMS:
            return ActionKind.AVOID
        case Claim.NOTHING:
            return ActionKind.ABSTAIN
