"""The main job from beginning to end: one round in one mode, resumable at every step.

What a round does beside its experiments follows from its mode (`policies/modes.py`): whether they are recorded, whether
what was recorded is distilled, and what its decisions may recall. A mode that does less leaves what is there as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from policies.catalog import InterventionCatalog, load_catalog
from policies.modes import Lane, RecallPath
from policies.planner import plan, planner_policy
from records.errors import InvalidInputError
from records.governance import Mode
from records.ids import RecallInputId, RunId
from records.runtime import RunBody
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.runtime.port import RuntimeReader
from vrm.domain import CATALOG
from vrm.mainjob import published, steps
from vrm.mainjob.answered import given_up
from vrm.mainjob.begun import begun_otherwise, require_own
from vrm.mainjob.experiments import Experiments
from vrm.mainjob.heldout import HeldOut
from vrm.mainjob.job import Job
from vrm.mainjob.lessons import Lessons, learn_lessons
from vrm.mainjob.plan import FrozenInput, Round, Size, held_out_tasks, sweep_body
from vrm.mainjob.published import import_table
from vrm.mainjob.tabular import contract_of
from vrm.mainjob.trials import DecisionMaker, TrialState, new_trials
from vrm.mainjob.unrecorded import run_unrecorded

DECISION_MEMORY: Final = (Mode.DECISION_MEMORY,)
COMPARED: Final[tuple[tuple[Mode, ...], ...]] = (
    (Mode.DECISION_MEMORY, Mode.LEGACY_RECALL), (Mode.FROZEN_MEMORY, Mode.LEGACY_RECALL),
)  # fmt: skip
RECORDED: Final = (*((mode,) for mode in Mode if mode is not Mode.OFF), *COMPARED)
"""What the modes of a round may be that leaves something behind."""


@dataclass(frozen=True)
class Done:
    """A round that was carried out.

    Attributes:
        recovered: how many authorizations of an interrupted round were settled first.
        states: where the arms of its held-out trials stand.
    """

    recovered: int
    states: Sequence[TrialState]


def next_round(
    runtime: RuntimeReader,
    artifacts: ArtifactStore,
    namespace: str,
    size: Size,
    modes: tuple[Mode, ...] = DECISION_MEMORY,
    *,
    frozen_input: FrozenInput | None = None,
    actor: str | None = None,
) -> Round:
    """Return the first round that is not finished: an interrupted one goes on, a finished one is followed by the next.

    A round is finished when its sweep and all of its trials are, or when one of them was cancelled or failed: without
    it the round has no end. A trial whose actor gave no decision is over and stops no other one. The Runtime says so,
    and the events that it names. A number that a round of other modes has begun is passed over,
    so that no two rounds have the same seeds; so is one that was begun with another specification, once nothing of it
    is under way. While something is, it is this round that is returned, and `run_round` says what to do.

    Raises:
        InvalidInputError: frozen memory has no Recall Input to query, or another mode has one.
    """
    if (modes[0] is Mode.FROZEN_MEMORY) != (frozen_input is not None):
        remedy = "Name the one Recall Input that frozen_memory queries, and none in another mode."
        met = "none" if frozen_input is None else frozen_input.recall_input_id
        raise InvalidInputError("--recall-input", met, remedy)
    number = 0
    while True:
        found = Round(
            namespace=namespace, number=number, size=size, modes=modes, frozen_input=frozen_input, actor=actor
        )
        if not (_is_finished(runtime, artifacts, found) or _is_taken(runtime, found)):
            return found
        number += 1


def run_round(job: Job) -> Done:
    """Carry out the job's round; whatever is there already is not done again.

    Raises:
        IdentityConflictError: a Run of the round was begun with another specification and is under way.
    """
    catalog = load_catalog(CATALOG)
    contract = contract_of(job.namespace, catalog.domain)
    tasks = held_out_tasks(job.round.size)
    experiments = Experiments(job, catalog, contract)
    if not job.round.rules.records:
        return Done(0, run_unrecorded(job, experiments, catalog, tasks))
    require_own(job.stores.runtime, _bodies(job.round, catalog))
    recovered = recover(job)
    runs = {steps.sweep(job, catalog, contract): steps.SLOT}
    if job.round.size.published:
        runs[import_table(job)] = published.SLOT
    steps.ingest(job, list(runs))
    for each in job.failures:  # set apart; the round does not wait for them
        job.console.print(f"{each.subject} waits: {each.error}", markup=False, soft_wrap=True)
    if job.round.rules.distils is Lane.VERIFIED:
        steps.distil(job)
    maker = DecisionMaker(
        round=job.round,
        catalog=catalog,
        contract=contract,
        planner=planner_policy(),
        recall_input_id=_queried(job, [state.run_id for state in new_trials(job.round, tasks, catalog)]),
        acting=None if job.actor is None else job.actor.identity,
    )
    learn = partial(_lessons, job, catalog)
    decisions = HeldOut(job, maker, experiments, job.recall, learn=learn, actor=job.actor or plan)
    states = decisions.run(tasks)
    for run_id, slot in runs.items():
        steps.close_run(job, run_id, slot)
    return Done(recovered, states)


def _queried(job: Job, trials: Sequence[RunId]) -> RecallInputId | None:
    """Return the Recall Input that the round's decisions query, if its mode recalls verified memory."""
    match job.round.rules.recalls:
        case RecallPath.EXPOSE | RecallPath.SHADOW:
            return steps.recall_input_of(job, trials)
        case RecallPath.FROZEN if job.round.frozen_input is not None:
            named = job.round.frozen_input.recall_input_id
            return steps.frozen_input(job.stores.ledger, job.namespace, named).recall_input_id
        case _:
            return None


def _lessons(job: Job, catalog: InterventionCatalog, until: int) -> Lessons:
    """Return the lessons of the earlier design, of the evidence up to a journal position."""
    with job.stores.ledger.reading() as reader:
        return learn_lessons(reader, job.namespace, catalog.domain, until)


def recover(job: Job) -> int:
    """Resume what a crash or a stop left unresolved, and return how many grants were settled.

    What cannot be resumed now is told, and met again, with its error, by the step that needs its subject.
    """
    swept = {each.sweep: each for each in job.recovery.sweep()}
    for sweep in swept.values():
        for waiting in sweep.waiting:
            job.console.print(f"{sweep.sweep} {waiting.subject} waits: {waiting.reason}", markup=False, soft_wrap=True)
    return len(swept["authorizations"].resumed)


def _is_finished(runtime: RuntimeReader, artifacts: ArtifactStore, round_: Round) -> bool:
    if not round_.rules.records:
        return False
    catalog = load_catalog(CATALOG)
    bodies = _bodies(round_, catalog)
    runs = runtime.subjects(Machine.RUN, [str(body.id) for body in bodies])
    left = given_up(runtime, artifacts, new_trials(round_, held_out_tasks(round_.size), catalog))
    phases = [run.phase for run in runs.values() if run.id not in left]
    stopped = any(phase not in {Phase.RUNNING, Phase.PAUSED, Phase.COMPLETED} for phase in phases)
    done = all(phase is Phase.COMPLETED for phase in phases)
    return stopped or (done and (len(runs) == len(bodies) or bool(begun_otherwise(bodies, runs))))


def _bodies(round_: Round, catalog: InterventionCatalog) -> list[RunBody]:
    """Return the specifications of a round's Runs: its sweep, and its trials."""
    trials = new_trials(round_, held_out_tasks(round_.size), catalog)
    return [sweep_body(round_, catalog), *(state.run for state in trials)]


def _is_taken(runtime: RuntimeReader, round_: Round) -> bool:
    """Tell whether a round of other modes, whose seeds would be the same, has begun under this number."""
    actor = None if round_.actor is not None else "another"
    others = [replace(round_, modes=modes) for modes in RECORDED if modes != round_.modes]
    others += [replace(round_, modes=modes, actor=actor) for modes in RECORDED]
    return bool(runtime.subjects(Machine.RUN, [str(other.run_id("sweep")) for other in others]))
