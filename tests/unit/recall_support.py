"""Real records for the tests of snapshots and recall: trials, rules and one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memory.evidence import TaskIdentity, Trial
from policies.catalog import InterventionCatalog, load_catalog
from policies.distillation_policy import distillation_policy
from policies.planner import allowed_action_digest, current_settings, open_actions, planner_policy
from records.canonical import digest_bytes, metric_text
from records.decisions import DecisionContractView, DecisionIntent, RecallRequest
from records.evidence import EvaluationContract, Experience, VerificationKind
from records.ids import (
    ActivityId,
    CandidateId,
    ContractId,
    ContractViewId,
    ExperienceId,
    IntentId,
    InterventionId,
    ObservationId,
    ProvenanceId,
    RecallInputId,
    RunId,
    StratumId,
    SupportUnitId,
    VerificationId,
)
from records.knowledge import (
    EvidenceLink,
    LinkRelation,
    MemoryRecord,
    family_id,
    scope_variant_id,
)
from records.values import (
    ActionKind,
    ActorIdentity,
    ArtifactRef,
    DecisionPoint,
    DecisionTarget,
    Direction,
    EffectEstimate,
    EvidenceStrength,
    GovernanceBinding,
    Grade,
    Interval,
    Knob,
    MemoryScope,
    MetricSpec,
    RecallRequirement,
)

NOW = "2026-03-01T12:00:00.000000Z"
SPACE = "tabular"
METRIC = MetricSpec(name="macro_f1", direction=Direction.MAXIMIZE, unit="share")
CATALOG: InterventionCatalog = load_catalog("tabular-svm-v1")
TASK = TaskIdentity(
    name="wine", root="wine", domain="tabular-classification", attributes={"rows": "small"}, dataset_digest="d" * 64
)
CONTRACT = EvaluationContract(
    namespace=SPACE,
    created_at="2026-01-01T00:00:00.000000Z",
    name="tabular-macro-f1",
    version="1",
    domain=TASK.domain,
    primary_metric=METRIC,
    guardrail_metrics=(),
    metric_low="0",
    metric_high="1",
    equivalence_margin="0.005",
    verification_kind=VerificationKind.RECOMPUTED,
    evaluator="evaluator",
    evaluator_digest="e" * 64,
    timeout_seconds=60,
    required_artifacts=("predictions",),
)
SCOPE = MemoryScope(
    task_scope_id=TASK.task_scope_id,
    evaluation_task_id=None,
    domain=TASK.domain,
    dataset_digest=None,
    source_digest=None,
    model_family=None,
    environment_digest=None,
    contract_digest=CONTRACT.comparability_digest,
    budget_class="one-fit",
    visibility=SPACE,
)
ASKED = SCOPE.model_copy(
    update={
        "evaluation_task_id": TASK.evaluation_task_id,
        "dataset_digest": "d" * 64,
        "source_digest": "5" * 64,
        "model_family": "svm",
        "environment_digest": "4" * 64,
    }
)


def trial(seed: int, change: tuple[str, object, object] | None = None, **changes: Any) -> Trial:
    """Return one finished trial of the task."""
    settings = {} if change is None else {change[0]: change[2]}
    base = Trial(
        namespace=SPACE,
        task=TASK,
        contract=CONTRACT,
        catalog_digest=CATALOG.digest,
        run_id=RunId.derive({"run": seed}),
        iteration=0 if change is None else 1,
        seed=seed,
        change=change,
        mechanism="regularisation_strength",
        config_digest=CATALOG.config_digest(CATALOG.effective_config(settings)),
        baseline_config_digest=CATALOG.config_digest(CATALOG.baseline),
        source_digest="5" * 64,
        environment_digest="4" * 64,
        model_family="svm",
        budget_class="one-fit",
        artifacts=(ArtifactRef(role="predictions", sha256=digest_bytes(bytes([seed])), size_bytes=1),),
        verified={METRIC.name: 0.5 + seed / 100},
        violations=(),
        times=tuple(f"2026-02-0{day}T00:00:0{seed % 10}.000000Z" for day in (1, 2, 3)),  # type: ignore[arg-type]
    )
    return replace(base, **changes)


def effect(mean: float = 0.05, *, low: float = 0.01, high: float = 0.09, units: int = 12) -> EffectEstimate:
    """Return an effect whose prediction interval runs from `low` to `high`, in shares of macro F1."""
    return EffectEstimate(
        metric=METRIC,
        baseline_mean="0.8",
        changed_mean=metric_text(round(0.8 + mean, 6)),
        mean_delta=metric_text(mean),
        method="t-mean-and-prediction",
        mean_interval=Interval(low=metric_text(mean - 0.01), high=metric_text(mean + 0.01), level="0.95"),
        prediction_interval=Interval(low=metric_text(low), high=metric_text(high), level="0.95"),
        unit_range=(metric_text(low), metric_text(high)),
        unit_count=units,
        pair_count=units * 5,
        improved_count=units - 1,
        worsened_count=1,
        tied_count=0,
        p_value="0.001",
        adjusted_p_value="0.01",
        guardrails=(),
    )


def rule(
    knob: str = "C",
    value: str = "10",
    *,
    start: str = "1",
    mechanism: str = "regularisation_strength",
    claim: str = "A larger C raises macro F1.",
    **fields: Any,
) -> MemoryRecord:
    """Return a hand-made rule; fields of the record can be replaced."""
    namespace: str = fields.pop("namespace", SPACE)
    scope: MemoryScope = fields.pop("scope", SCOPE)
    estimate: EffectEstimate = fields.pop("effect", effect())
    target = DecisionTarget(
        decision_point=fields.pop("decision_point", DecisionPoint.INTERVENTION),
        knob=Knob(name=knob, from_value=start, to_value=value),
        catalog_digest=fields.pop("catalog_digest", CATALOG.digest),
    )
    family = family_id(namespace, target, estimate.metric.name, mechanism)
    content: dict[str, Any] = {
        "namespace": namespace,
        "created_at": "2026-02-10T00:00:00.000000Z",
        "family_id": family,
        "scope_variant_id": scope_variant_id(namespace, family, scope, target),
        "prior_memory_id": None,
        "candidate_id": CandidateId.derive({"of": claim}),
        "scope": scope,
        "scope_description": "rows small",
        "target": target,
        "mechanism": mechanism,
        "claim": claim,
        "action": ActionKind.RECOMMEND,
        "effect": estimate,
        "strength": strength(),
        "links": (),
        "distillation_policy": distillation_policy().identity,
    }
    return MemoryRecord(**(content | fields))


def strength(grade: Grade = Grade.STRONG, support: int = 11, counter: int = 1) -> EvidenceStrength:
    """Return an evidence strength."""
    return EvidenceStrength(
        grade=grade,
        support_count=support,
        counter_count=counter,
        paired_comparison_count=60,
        effect_consistency=metric_text(round(support / max(1, support + counter), 6)),
        uncertainty_method="t-mean-and-prediction",
        reasons=("sign_replicated",),
    )


def view(**changes: Any) -> DecisionContractView:
    """Return what an actor may see of the contract."""
    content: dict[str, Any] = {
        "namespace": SPACE,
        "created_at": NOW,
        "contract_id": ContractId(CONTRACT.id),
        "contract_digest": CONTRACT.comparability_digest,
        "primary_metric": METRIC,
        "guardrail_metrics": (),
        "equivalence_margin": CONTRACT.equivalence_margin,
        "budget_class": "one-fit",
    }
    return DecisionContractView(**(content | changes))


def intent(iteration: int = 0, **changes: Any) -> DecisionIntent:
    """Return an admitted decision about the task, the whole catalog open."""
    actor = ActorIdentity(
        model="planner", config_digest="2" * 64, template_digest="3" * 64, policy=planner_policy().identity
    )
    content: dict[str, Any] = {
        "namespace": SPACE,
        "created_at": NOW,
        "run_id": RunId.derive({"run": "held out"}),
        "activity_id": ActivityId.derive({"activity": iteration}),
        "iteration": iteration,
        "generation": 0,
        "arm": "memory",
        "pair": "pair-1",
        "evaluation_task_id": TASK.evaluation_task_id,
        "task_scope_id": TASK.task_scope_id,
        "research_context_digest": "1" * 64,
        "contract_view_id": ContractViewId(view().id),
        "decision_point": DecisionPoint.INTERVENTION,
        "decision_slot": "intervention/0",
        "artifact_kind": "intervention-proposal",
        "catalog_digest": CATALOG.digest,
        "allowed_action_digest": allowed_action_digest(open_actions(CATALOG, CATALOG.baseline, frozenset())),
        "planned_actor": actor,
        "governance": GovernanceBinding(
            profile_ref="memory",
            profile_digest="6" * 64,
            assignment_manifest_digest="7" * 64,
            recall_requirement=RecallRequirement.REQUIRED,
        ),
    }
    return DecisionIntent(**(content | changes))


def request(of: DecisionIntent, recall_input: RecallInputId, **changes: Any) -> RecallRequest:
    """Return a request for the baseline configuration."""
    content: dict[str, Any] = {
        "intent_id": IntentId(of.id),
        "recall_input_id": recall_input,
        "decision_point": DecisionPoint.INTERVENTION,
        "scope": ASKED,
        "metric": METRIC,
        "prior_config": current_settings(CATALOG, CATALOG.baseline),
        "prior_observation": None,
        "no_prior_observation_reason": "first_decision",
        "allowed_actions": open_actions(CATALOG, CATALOG.baseline, frozenset()),
        "query": "what raises macro F1 on a small table",
    }
    return RecallRequest(**(content | changes))


def link(experience: Experience, baseline: Experience, relation: LinkRelation) -> EvidenceLink:
    """Return the evidence link of a changed experience and its baseline."""
    assert experience.verification_id
    assert experience.intervention_id
    assert experience.provenance_id
    return EvidenceLink(
        experience_id=ExperienceId(experience.id),
        comparator_id=ExperienceId(baseline.id),
        observation_id=ObservationId(experience.observation_id),
        verification_id=VerificationId(experience.verification_id),
        intervention_id=InterventionId(experience.intervention_id),
        provenance_id=ProvenanceId(experience.provenance_id),
        relation=relation,
        support_unit_id=SupportUnitId.derive({"unit": str(experience.id)}),
        stratum_id=StratumId.derive({"stratum": "one"}),
    )
