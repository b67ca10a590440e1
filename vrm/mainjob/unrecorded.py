"""The held-out trials of mode `off`: the same experiments and the same explorer, and nothing is remembered (spec 18).

No Run is admitted, no intent registered and no evidence appended: neither authority learns of them. What the custodian
keeps of its splits, and the predictions that the evaluator was given, stay where experiments leave them.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.catalog import InterventionCatalog
from policies.planner import PlannerAnswer, PlannerQuestion, plan, planner_policy
from records.decisions import DecisionContractView
from vrm.mainjob.experiments import Experiments
from vrm.mainjob.job import Job
from vrm.mainjob.tabular import Setting, contract_of
from vrm.mainjob.trials import TrialState, new_trials, view_of


def run_unrecorded(
    job: Job, experiments: Experiments, catalog: InterventionCatalog, tasks: tuple[str, ...]
) -> list[TrialState]:
    """Run the one arm of every trial to the end, and return where they stand."""
    states = new_trials(job.round, tasks, catalog)
    view = view_of(contract_of(job.namespace, catalog.domain))
    decisions = job.round.size.decisions
    with job.step("Held-out decisions, not recorded", len(states) * (decisions + 1)) as advance:
        _try(experiments, states, [state.setting(0, None) for state in states])
        advance(len(states))
        for index in range(decisions):
            acting, settings = [], []
            for state in states:
                answer = _planned(state, catalog, view, index)
                if answer.change is not None and answer.action is not None:
                    acting.append(state)
                    settings.append(state.setting(index + 1, answer.change))
                    state.tried.add(answer.action)
            _try(experiments, acting, settings)
            advance(len(states))
    return states


def _planned(state: TrialState, catalog: InterventionCatalog, view: DecisionContractView, index: int) -> PlannerAnswer:
    question = PlannerQuestion(
        cards=(),
        config=state.config,
        catalog=catalog,
        tried=frozenset(state.tried),
        decision_index=index,
        seed=state.exploration_seed,
        view=view,
    )
    return plan(question, planner_policy())


def _try(experiments: Experiments, states: Sequence[TrialState], settings: Sequence[Setting]) -> None:
    for state, verified in zip(states, experiments.run_unrecorded(settings), strict=True):
        state.observe(verified.metrics, verified.setting.config)
