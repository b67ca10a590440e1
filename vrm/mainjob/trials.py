"""What a held-out trial is: the arms of its mode on one task and seed, the same budget, one Run each. Pure.

All arms start from the catalog's baseline and take the same number of decisions. Each decision changes one knob of the
configuration in effect; a change that does better on the validation rows is kept. The test rows only judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from policies.catalog import Change, Config, InterventionCatalog, KnobValue
from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer, PlannerPolicy, allowed_action_digest, current_settings, open_actions
from policies.retrieval_policy import retrieval_policy
from records.canonical import domain_digest
from records.decisions import AllowedAction, DecisionContractView, DecisionIntent, RecallRequest
from records.errors import InvalidInputError
from records.evidence import Corpus, EvaluationContract
from records.governance import ArmAssignment, ArmManifest, FrozenMemoryProfile, MemoryProfile, Mode
from records.ids import ActivityId, ContextId, ContractId, ContractViewId, IntentId, RecallInputId, RunId
from records.runtime import RunBody, activity_id
from records.values import ActorIdentity, DecisionPoint, MemoryScope
from vrm.domain import BUDGET_CLASS, MODEL_FAMILY
from vrm.mainjob.plan import PUBLISHED_AT, FrozenInput, Round
from vrm.mainjob.tabular import PRIMARY, STEERING, Setting, identity_of

SLOT: Final = "trial"


@dataclass
class TrialState:
    """Where one arm of one trial stands; rebuilt from the Ledger when a job goes on.

    Attributes:
        config: the configuration in effect.
        steering: its validation metric; test: its test metric, which is only reported.
        tried: actions taken so far.
        path: the test metric in effect after 0, 1, ... decisions.
        answers: what its actor proposed, decision by decision; None where no actor was asked.
        cards: how many cards its contexts held in all.
        leader: the arm whose situations a shadow is asked about; None for an arm that acts.
        failed: why its Run was failed, if its actor gave no decision; no further one is taken.
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
    answers: list[PlannerAnswer | None] = field(default_factory=list)
    cards: int = 0
    mode: Mode = Mode.DECISION_MEMORY
    leader: TrialState | None = None
    failed: str | None = None

    def follow(self) -> None:
        """Stand where the leader stands, if there is one."""
        if self.leader is not None:
            self.config, self.tried = dict(self.leader.config), set(self.leader.tried)
            self.steering, self.test, self.path = self.leader.steering, self.leader.test, list(self.leader.path)

    @property
    def run_id(self) -> RunId:
        """The Run of this arm."""
        return self.run.id

    @property
    def pair(self) -> str:
        """What the arms share."""
        return f"{self.task}/{self.seed}"

    @property
    def exploration_seed(self) -> int:
        """What decides the order of exploration: task and seed, so that all arms explore alike, and tasks do not."""
        return int(domain_digest("exploration-seed", [self.task, self.seed])[:12], 16)

    @property
    def activity_id(self) -> ActivityId:
        """The one Activity of the Run."""
        return activity_id(self.run_id, SLOT)

    def setting(self, iteration: int, change: Change | None, context_id: ContextId | None = None) -> Setting:
        """Return what is run from here: the baseline (no change), or the change of a decision with its context."""
        return Setting(
            task=self.task,
            seed=self.seed,
            before=self.config,
            change=None if change is None else (change.knob, change.to_value),
            iteration=iteration,
            run_id=self.run_id,
            corpus=Corpus.EVALUATION,
            arm=self.arm,
            pair=self.pair,
            recall_context_id=context_id,
        )

    def observe(self, metrics: Mapping[str, float], config: Mapping[str, KnobValue]) -> None:
        """Keep a configuration that does better on the validation rows; an invalid result has no metrics."""
        if metrics and metrics[STEERING] > self.steering:
            self.steering, self.test, self.config = metrics[STEERING], metrics[PRIMARY.name], dict(config)
        self.path.append(self.test)


def new_trials(round_: Round, tasks: tuple[str, ...], catalog: InterventionCatalog) -> list[TrialState]:
    """Return every arm of every held-out trial of a round at its start."""
    manifest = arm_manifest(round_).canonical_digest
    states: list[TrialState] = []
    for task in tasks:
        for seed in round_.trial_seeds:
            for arm in round_.arms:
                state = TrialState(
                    task=task,
                    seed=seed,
                    arm=arm.name,
                    run=round_.run_body(f"trial/{task}/{seed}/{arm.name}", manifest),
                    config=dict(catalog.baseline),
                    mode=arm.mode,
                    leader=None if arm.acts else states[-1],
                )
                states.append(state)
    return states


def memory_profile(mode: Mode = Mode.DECISION_MEMORY, frozen: FrozenInput | None = None) -> MemoryProfile:
    """Return how memory is used in the decisions of an arm, published before the first of them.

    Args:
        mode: the arm's mode.
        frozen: what frozen memory queries; the profile names the policy of that input, whatever is composed today.
    """
    if mode is Mode.FROZEN_MEMORY and frozen is not None:
        return FrozenMemoryProfile(
            profile_ref=f"{mode}/v1",
            retrieval_policy=frozen.retrieval_policy,
            recall_input_id=frozen.recall_input_id,
        )
    return MemoryProfile(profile_ref=f"{mode}/v1", mode=mode, retrieval_policy=retrieval_policy().identity)


def arm_profiles(round_: Round) -> dict[str, MemoryProfile]:
    """Return the profile of each arm of a round."""
    return {arm.name: memory_profile(arm.mode, round_.frozen_input) for arm in round_.arms}


def arm_manifest(round_: Round) -> ArmManifest:
    """Return the arm assignment of a round; every Run and every intent of the round holds its digest."""
    named = [] if round_.actor is None else [round_.actor]
    specification = domain_digest("trial-specification", [round_.size.decisions, round_.size.name, *named])
    profiles = arm_profiles(round_)
    arms = tuple(ArmAssignment.of(arm.name, profiles[arm.name], arm.requirement) for arm in round_.arms)
    return ArmManifest(study="held-out", specification=specification, arms=arms)


def view_of(contract: EvaluationContract) -> DecisionContractView:
    """Return a contract as an actor may see it: no evaluator, no labels (spec 9.1)."""
    return DecisionContractView(
        namespace=contract.namespace,
        created_at=PUBLISHED_AT,
        contract_id=ContractId(contract.id),
        contract_digest=contract.comparability_digest,
        primary_metric=contract.primary_metric,
        guardrail_metrics=contract.guardrail_metrics,
        equivalence_margin=contract.equivalence_margin,
        budget_class=BUDGET_CLASS,
    )


@dataclass(frozen=True, kw_only=True)
class DecisionMaker:
    """What every decision of a round shares: the catalog, contract and view, the planner, the Recall Input.

    `recall_input_id` is None where no arm of the round requires a Recall Context; `registered` are other arms than
    those of the round's mode; `acting` is who decides, if it is not the planner.
    """

    round: Round
    catalog: InterventionCatalog
    contract: EvaluationContract
    planner: PlannerPolicy
    recall_input_id: RecallInputId | None
    point: DecisionPoint = DecisionPoint.INTERVENTION
    registered: ArmManifest | None = None
    acting: ActorIdentity | None = None

    @property
    def manifest(self) -> ArmManifest:
        """The arms that the decisions are registered with: the round's own, unless others were given."""
        return self.registered or arm_manifest(self.round)

    @property
    def view(self) -> DecisionContractView:
        """The contract as the actor may see it."""
        return view_of(self.contract)

    @property
    def actor(self) -> ActorIdentity:
        """Who is planned for every decision."""
        return self.acting or ActorIdentity(
            model="deterministic-planner/v1",
            config_digest=self.planner.identity.digest,
            template_digest=actor_instruction().identity.digest,
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
            decision_point=self.point,
            decision_slot=f"{self.point}-{index + 1}",
            artifact_kind=self.point.value,
            catalog_digest=self.catalog.digest,
            allowed_action_digest=allowed_action_digest(self.actions(state)),
            planned_actor=self.actor,
            governance=self.manifest.binding(state.arm),
        )

    def request(self, state: TrialState, intent: DecisionIntent) -> RecallRequest:
        """Return the typed request for memory of a decision.

        Raises:
            InvalidInputError: the round has nothing that decisions may query.
        """
        if self.recall_input_id is None:
            raise InvalidInputError("recall_input_id", "none", f"Arm {state.arm} of {state.mode} recalls nothing.")
        task = identity_of(state.task, self.catalog.domain)
        profile = self.round.retrieval_policy.require_profile(self.point)
        first = not state.path
        return RecallRequest(
            intent_id=IntentId(intent.id),
            recall_input_id=self.recall_input_id,
            decision_point=self.point,
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
            max_items=profile.max_items,
            token_budget=profile.token_budget,
            query=self.query(state),
        )

    def query(self, state: TrialState) -> str:
        """Return the question of a decision in words; for recall one more signal, for lessons all there is."""
        task = identity_of(state.task, self.catalog.domain)
        return f"Which one change improves {PRIMARY.name} on a task with {task.scope_description}?"
