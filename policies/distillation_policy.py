"""The Distillation Policy: which evidence may become knowledge, and by which numbers.

Rules kept here (spec 8.1, VRM-W04 to W08; docs/adr/0030):

- every number is in `policies/files/distillation-v<n>.yaml`, and every reason why a candidate becomes what it does is
  one of a closed set of codes; what an effect becomes under it is decided in policies/verdicts.py;
- the policy may make comparability stricter, but cannot leave out contract, dataset, source or budget;
- version 1 has no section `comparison`: it knows pairs of one seed and rules for a task scope, and nothing else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from policies.effects import EffectPolicy
from policies.gate import GatePolicy
from policies.loading import Policy, PolicyPart, packaged_policy
from policies.statistics import MIN_T_VALUES
from policies.strength import StrengthPolicy
from records.evidence import VerificationKind
from records.values import DecisionPoint, Grade


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


class ScopeField(StrEnum):
    """The fields of a Memory Scope that a rule for a task scope leaves open and that a narrower one may bind."""

    EVALUATION_TASK = "evaluation_task_id"
    ENVIRONMENT = "environment_digest"
    SOURCE = "source_digest"


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


class ComparisonPolicy(PolicyPart):
    """What is compared beyond pairs of one seed, and at which levels it may speak (docs/adr/0031).

    Attributes:
        decision_points: where a change of a knob is decided; changes made elsewhere are no typed action.
        instance_runs: pairs, or runs in each arm, from which the contrast of one evaluation task may be a rule of its
            own, bound to that task.
        split_fields: scope fields that may explain why evidence disagrees, in the order in which they are tried.
        guardrail_margin: smallest change of a guardrail that matters, in the guardrail's unit.
    """

    decision_points: Annotated[tuple[DecisionPoint, ...], Field(min_length=1)]
    instance_runs: Annotated[int, Field(ge=MIN_T_VALUES)]
    split_fields: tuple[ScopeField, ...]
    guardrail_margin: Annotated[float, Field(ge=0)]

    @field_validator("split_fields")
    @classmethod
    def _explains(cls, fields: tuple[ScopeField, ...]) -> tuple[ScopeField, ...]:
        if ScopeField.EVALUATION_TASK in fields or len(set(fields)) < len(fields):
            raise ValueError("name each field once, and not the evaluation task, which is a level of its own")
        return fields


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
        comparison: arms, levels, splits and guardrails; None in version 1, which has none of them.
    """

    active_verifications: Annotated[tuple[VerificationKind, ...], Field(min_length=1)]
    stratum_fields: tuple[StratumField, ...]
    effect: EffectPolicy
    gate: GatePolicy
    strength: StrengthPolicy
    support: SupportPolicy
    comparison: ComparisonPolicy | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a section that the file does not have, so that version 1 keeps its digest."""
        values: dict[str, Any] = handler(self)
        return values if self.comparison is not None else {k: v for k, v in values.items() if k != "comparison"}

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


def distillation_policy(version: str = "2") -> DistillationPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(DistillationPolicy, "distillation", version)
