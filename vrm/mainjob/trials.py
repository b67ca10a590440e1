"""What a held-out trial is: two arms on one task and seed, the same budget, one Run each. Pure.

Both arms start from the catalog's baseline and take the same number of decisions. Each decision changes one knob of the
configuration in effect; a change that does better on the validation rows is kept. The test rows only judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from policies.catalog import Config, InterventionCatalog, KnobValue
from policies.planner import PlannerPolicy, allowed_action_digest, current_settings, open_actions
from policies.retrieval_policy import retrieval_policy
from records.canonical import domain_digest
from records.decisions import AllowedAction, DecisionContractView, DecisionIntent, RecallRequest
from records.evidence import EvaluationContract
from records.governance import ArmAssignment, ArmManifest, MemoryProfile, Mode
from records.ids import ActivityId, ContractId, ContractViewId, IntentId, RecallInputId, RunId
from records.runtime import RunBody, activity_id
from records.values import (
    ActorIdentity,
    DecisionPoint,
    MemoryScope,
    RecallRequirement,
)
from vrm.domain import BUDGET_CLASS, MODEL_FAMILY
from vrm.mainjob.plan import PUBLISHED_AT, Round
from vrm.mainjob.tabular import PRIMARY, STEERING, identity_of

SLOT: Final = "trial"
ARMS: Final[dict[str, RecallRequirement]] = {
    "control": RecallRequirement.REGISTERED_NOT_REQUESTED,
    "memory": RecallRequirement.REQUIRED,
}
"""The registered arms and what each is assigned."""


@dataclass
class TrialState:
    """Where one arm of one trial stands; rebuilt from the Ledger when a job goes on.

    Attributes:
        config: the configuration in effect.
        steering: its validation metric; test: its test metric, which is only reported.
        tried: actions taken so far.
        path: the test metric in effect after 0, 1, ... decisions.
    """

    task: str
    seed: int
    arm: str
    run: RunBody
    config: Config
    steering: float = float("-inf")
    test: float = float("nan")
    tried: set[AllowedAction] = field(default_factory=set)
    path: list[float] = field(default_factory=list)

    @property
    def run_id(self) -> RunId:
        """The Run of this arm."""
        return self.run.id

    @property
    def pair(self) -> str:
        """What the two arms share."""
        return f"{self.task}/{self.seed}"

    @property
    def exploration_seed(self) -> int:
        """What decides the order of exploration: task and seed, so that both arms explore alike, and tasks do not."""
        return int(domain_digest("exploration-seed", [self.task, self.seed])[:12], 16)

    @property
    def activity_id(self) -> ActivityId:
        """The one Activity of the Run."""
        return activity_id(self.run_id, SLOT)

    def observe(self, metrics: Mapping[str, float], config: Mapping[str, KnobValue]) -> None:
        """Keep a configuration that does better on the validation rows; an invalid result has no metrics."""
        if metrics and metrics[STEERING] > self.steering:
            self.steering, self.test, self.config = metrics[STEERING], metrics[PRIMARY.name], dict(config)
        self.path.append(self.test)


def new_trials(round_: Round, tasks: tuple[str, ...], catalog: InterventionCatalog) -> list[TrialState]:
    """Return every arm of every held-out trial of a round at its start."""
    manifest = arm_manifest(round_).canonical_digest
    return [
        TrialState(
            task=task,
            seed=seed,
            arm=arm,
            run=round_.run_body(f"trial/{task}/{seed}/{arm}", manifest),
            config=dict(catalog.baseline),
        )
        for task in tasks
        for seed in round_.trial_seeds
        for arm in ARMS
    ]


def memory_profile() -> MemoryProfile:
    """Return how memory is used in held-out decisions, published before the first of them."""
    return MemoryProfile(
        profile_ref="decision_memory/v1", mode=Mode.DECISION_MEMORY, retrieval_policy=retrieval_policy().identity
    )


def arm_manifest(round_: Round) -> ArmManifest:
    """Return the arm assignment of a round; every Run and every intent of the round holds its digest."""
    specification = domain_digest("trial-specification", [round_.size.decisions, round_.size.name])
    profile = memory_profile()
    arms = tuple(ArmAssignment.of(arm, profile, requirement) for arm, requirement in ARMS.items())
    return ArmManifest(study="held-out", specification=specification, arms=arms)


@dataclass(frozen=True, kw_only=True)
class DecisionMaker:
    """What every decision of a round shares: the catalog, contract and view, the planner, the Recall Input."""

    round: Round
    catalog: InterventionCatalog
    contract: EvaluationContract
    planner: PlannerPolicy
    recall_input_id: RecallInputId

    @property
    def view(self) -> DecisionContractView:
        """The contract as the actor may see it: no evaluator, no labels (spec 9.1)."""
        return DecisionContractView(
            namespace=self.round.namespace,
            created_at=PUBLISHED_AT,
            contract_id=ContractId(self.contract.id),
            contract_digest=self.contract.comparability_digest,
            primary_metric=self.contract.primary_metric,
            guardrail_metrics=self.contract.guardrail_metrics,
            equivalence_margin=self.contract.equivalence_margin,
            budget_class=BUDGET_CLASS,
        )

    @property
    def actor(self) -> ActorIdentity:
        """The planner that is planned for every decision."""
        return ActorIdentity(
            model="deterministic-planner/v1",
            config_digest=self.planner.identity.digest,
            template_digest=domain_digest("planner-template", "structured-question/v1"),
            policy=self.planner.identity,
        )

    def actions(self, state: TrialState) -> tuple[AllowedAction, ...]:
        """Return what the catalog allows from the configuration in effect."""
        return open_actions(self.catalog, state.config, frozenset(state.tried))

    def intent(self, state: TrialState, index: int, now: str) -> DecisionIntent:
        """Return the preallocated identity of one decision; it holds nothing that the actor answers."""
        task = identity_of(state.task, self.catalog.domain)
        context = {"config": self.catalog.config_digest(state.config), "tried": len(state.tried)}
        return DecisionIntent(
            namespace=self.round.namespace,
            created_at=now,
            run_id=state.run_id,
            activity_id=state.activity_id,
            iteration=index + 1,
            generation=1,
            arm=state.arm,
            pair=state.pair,
            evaluation_task_id=task.evaluation_task_id,
            task_scope_id=task.task_scope_id,
            research_context_digest=domain_digest("research-context", context),
            contract_view_id=ContractViewId(self.view.id),
            decision_point=DecisionPoint.INTERVENTION,
            decision_slot=f"intervention-{index + 1}",
            artifact_kind="intervention",
            catalog_digest=self.catalog.digest,
            allowed_action_digest=allowed_action_digest(self.actions(state)),
            planned_actor=self.actor,
            governance=arm_manifest(self.round).binding(state.arm),
        )

    def request(self, state: TrialState, intent: DecisionIntent) -> RecallRequest:
        """Return the typed request for memory of a decision."""
        task = identity_of(state.task, self.catalog.domain)
        first = not state.path
        return RecallRequest(
            intent_id=IntentId(intent.id),
            recall_input_id=self.recall_input_id,
            decision_point=DecisionPoint.INTERVENTION,
            scope=MemoryScope(
                task_scope_id=task.task_scope_id,
                evaluation_task_id=task.evaluation_task_id,
                domain=self.catalog.domain,
                dataset_digest=task.dataset_digest,
                source_digest=None,
                model_family=MODEL_FAMILY,
                environment_digest=None,
                contract_digest=self.contract.comparability_digest,
                budget_class=BUDGET_CLASS,
                visibility=self.round.namespace,
            ),
            metric=self.contract.primary_metric,
            prior_config=current_settings(self.catalog, state.config),
            prior_observation=None if first else f"{STEERING} {state.steering:.6f} with the configuration in effect",
            no_prior_observation_reason="first_decision" if first else None,
            allowed_actions=self.actions(state),
            query=f"Which one change improves {PRIMARY.name} on a task with {task.scope_description}?",
        )
