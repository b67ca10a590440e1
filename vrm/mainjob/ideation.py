"""An ideation search with a fresh start: two registered branches on the same tasks, each idea tried from one start.

Every idea is a decision of its own, with intent, context or registered nothing, preflight, experiment, outcome and
link, just as a held-out decision is (`vrm.mainjob.heldout`); what differs is that no idea builds on another one. What
came of it is evidence of evaluation and enters no memory. A search that was cut short goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from evaluation.ideation import BranchResult, Search, ideation_report
from experiments.tabular.tasks import task_names
from policies.catalog import InterventionCatalog, KnobValue, load_catalog
from policies.ideation import Branch, Idea, IdeationPolicy, dependence_cap, ideation_policy, propose, steerable
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, planner_policy
from policies.retrieval_policy import retrieval_policy
from records.canonical import domain_digest
from records.governance import ArmAssignment, ArmManifest
from records.states import Machine
from records.values import DecisionPoint, RecallRequirement
from vrm.domain import CATALOG
from vrm.mainjob import steps
from vrm.mainjob.begun import require_own
from vrm.mainjob.experiments import Experiments
from vrm.mainjob.heldout import Actor, HeldOut
from vrm.mainjob.job import Job
from vrm.mainjob.plan import in_scope
from vrm.mainjob.run import recover
from vrm.mainjob.searches import Place, next_search
from vrm.mainjob.tabular import PRIMARY, STEERING, contract_of
from vrm.mainjob.trials import DecisionMaker, TrialState, memory_profile

REQUIREMENTS: Final = {
    Branch.WITH_MEMORY: RecallRequirement.REQUIRED,
    Branch.FRESH_START: RecallRequirement.REGISTERED_NOT_REQUESTED,
}


@dataclass
class SearchState(TrialState):
    """Where one branch stands: it always starts from the same configuration, and keeps what each idea came to.

    Attributes:
        found: the verified metrics of each idea, in order; none where it was invalid, or there was no idea.
        best: the judged metric of the best configuration by the steering metric, the start included.
    """

    found: list[Mapping[str, float]] = field(default_factory=list)
    best: tuple[float, float] | None = None

    def observe(self, metrics: Mapping[str, float], config: Mapping[str, KnobValue]) -> None:
        """Take the start for the configuration in effect, and every idea for a result beside it."""
        is_start = not self.path
        if is_start:
            super().observe(metrics, config)
        else:
            self.found.append(metrics)
            self.path.append(self.test)
        if metrics and (self.best is None or metrics[STEERING] > self.best[0]):
            self.best = metrics[STEERING], metrics[PRIMARY.name]


def search(job: Job, tasks: int | None, seeds: int) -> dict[str, Any]:
    """Run the next search of the namespace and return its report.

    Args:
        job: the stores and owners; its round's size says which task scope is searched.
        tasks: most tasks; None takes all of the scope.
        seeds: seeds per task.

    Raises:
        IdentityConflictError: the search that is under way was begun with another specification.
    """
    policy, catalog = ideation_policy(), load_catalog(CATALOG)
    cap = dependence_cap(retrieval_policy())
    names = in_scope(task_names("held_out"), job.round.size)[:tasks]
    place = next_search(job.stores.runtime.find(Machine.RUN), job.round, names, seeds)
    states = _states(place, policy, catalog)
    require_own(job.stores.runtime, [state.run for state in states])
    recovered = recover(job)
    contract = contract_of(job.namespace, catalog.domain)
    maker = DecisionMaker(
        round=place.round,
        catalog=catalog,
        contract=contract,
        planner=planner_policy(),
        recall_input_id=steps.recall_input_of(job, [state.run_id for state in states]),
        point=decision_point(),
        registered=manifest(policy),
    )
    experiments = Experiments(job, catalog, contract)
    ideas = HeldOut(job, maker, experiments, job.recall, actor=_capped(steerable(policy.proposals, cap)))
    ideas.carry(states, policy.proposals, "Ideas: two branches")
    report = ideation_report(_searches(states, catalog), policy, cap, PRIMARY.name)
    return {
        "namespace": job.namespace,
        "number": place.round.number,
        "decision_point": maker.point.value,
        "recall_input": maker.recall_input_id,
        "recovered": recovered,
        **report,
    }


def decision_point() -> DecisionPoint:
    """Return the point that ideas are recalled for: ideation, where the Retrieval Policy has a profile for it."""
    has = retrieval_policy().profile(DecisionPoint.IDEATION) is not None
    return DecisionPoint.IDEATION if has else DecisionPoint.INTERVENTION


def manifest(policy: IdeationPolicy) -> ArmManifest:
    """Return the two registered branches; every Run and every intent of a search holds its digest."""
    profile = memory_profile()
    return ArmManifest(
        study="ideation",
        specification=domain_digest("ideation-specification", policy.identity.as_json()),
        arms=tuple(ArmAssignment.of(branch.value, profile, need) for branch, need in REQUIREMENTS.items()),
    )


def _capped(most: int) -> Actor:
    def actor(question: PlannerQuestion, planner: PlannerPolicy) -> PlannerAnswer:
        return propose(question, planner, most)

    return actor


def _states(place: Place, policy: IdeationPolicy, catalog: InterventionCatalog) -> list[SearchState]:
    digest = manifest(policy).canonical_digest
    return [
        SearchState(
            task=task,
            seed=seed,
            arm=branch.value,
            run=place.round.run_body(f"ideation/{task}/{seed}/{branch}", digest),
            config=dict(catalog.baseline),
        )
        for task in place.tasks
        for seed in place.seeds
        for branch in Branch
    ]


def _searches(states: Sequence[SearchState], catalog: InterventionCatalog) -> list[Search]:
    found: dict[tuple[str, int], dict[Branch, BranchResult]] = {}
    for state in states:
        found.setdefault((state.task, state.seed), {})[Branch(state.arm)] = _result(state, catalog)
    return [Search(task=task, seed=seed, branches=branches) for (task, seed), branches in found.items()]


def _result(state: SearchState, catalog: InterventionCatalog) -> BranchResult:
    ideas = tuple(
        Idea(
            family=None if answer is None or answer.action is None else catalog.knobs[answer.action.knob].mechanism,
            valid=bool(metrics),
            steered=answer is not None and answer.steered,
        )
        for answer, metrics in zip(state.answers, state.found, strict=True)
    )
    return BranchResult(ideas=ideas, quality=None if state.best is None else state.best[1], cards=state.cards)
