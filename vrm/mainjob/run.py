"""The main job from beginning to end: one round, resumable at every step."""

from __future__ import annotations

from policies.catalog import load_catalog
from policies.planner import planner_policy
from records.states import Machine, Phase
from store.runtime.port import RuntimeReader
from vrm.domain import CATALOG
from vrm.mainjob import published, steps
from vrm.mainjob.experiments import Experiments
from vrm.mainjob.heldout import HeldOut
from vrm.mainjob.job import Job
from vrm.mainjob.plan import Round, Size, held_out_tasks
from vrm.mainjob.published import import_table
from vrm.mainjob.tabular import contract_of
from vrm.mainjob.trials import DecisionMaker, new_trials


def next_round(runtime: RuntimeReader, namespace: str, size: Size) -> Round:
    """Return the first round that is not finished: an interrupted one goes on, a finished one is followed by the next.

    A round is finished when its sweep and all of its trials are, or when one of them was cancelled or failed: without
    it the round has no end. The Runtime alone says so.
    """
    number = 0
    while _is_finished(runtime, candidate := Round(namespace=namespace, number=number, size=size)):
        number = candidate.number + 1
    return candidate


def run_round(job: Job) -> int:
    """Carry out the job's round; whatever is there already is not done again.

    Returns:
        How many authorizations of an interrupted round were settled first.
    """
    recovered = recover(job)
    catalog = load_catalog(CATALOG)
    contract = contract_of(job.namespace, catalog.domain)
    runs = {steps.sweep(job, catalog, contract): steps.SLOT}
    if job.round.size.published:
        runs[import_table(job)] = published.SLOT
    steps.ingest(job, list(runs))
    steps.distil(job)
    tasks = held_out_tasks(job.round.size)
    maker = DecisionMaker(
        round=job.round,
        catalog=catalog,
        contract=contract,
        planner=planner_policy(),
        recall_input_id=steps.recall_input_of(job, [state.run_id for state in new_trials(job.round, tasks, catalog)]),
    )
    decisions = HeldOut(job, maker, Experiments(job, catalog, contract), job.recall)
    decisions.run(tasks)
    for run_id, slot in runs.items():
        steps.close_run(job, run_id, slot)
    return recovered


def recover(job: Job) -> int:
    """Resume what a crash or a stop left unresolved, and return how many grants were settled.

    What cannot be resumed now is told, and met again, with its error, by the step that needs its subject.
    """
    swept = {each.sweep: each for each in job.recovery.sweep()}
    for sweep in swept.values():
        for waiting in sweep.waiting:
            job.console.print(f"{sweep.sweep} {waiting.subject} waits: {waiting.reason}", markup=False, soft_wrap=True)
    return len(swept["authorizations"].resumed)


def _is_finished(runtime: RuntimeReader, round_: Round) -> bool:
    catalog = load_catalog(CATALOG)
    ids = [str(round_.run_id("sweep"))]
    ids += [str(state.run_id) for state in new_trials(round_, held_out_tasks(round_.size), catalog)]
    runs = runtime.subjects(Machine.RUN, ids)
    phases = [run.phase for run in runs.values()]
    stopped = any(phase not in {Phase.RUNNING, Phase.PAUSED, Phase.COMPLETED} for phase in phases)
    return stopped or (len(runs) == len(set(ids)) and all(phase is Phase.COMPLETED for phase in phases))
