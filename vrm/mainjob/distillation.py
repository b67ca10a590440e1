"""Distillation by itself: everything of a namespace from evidence to rules, and what is taken up again by name.

It may be ended at any point and run again: what is waiting is read from the stores, grants that a crash left are
settled first, and a lease of the same driver is taken anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from actors.settings import now
from memory.assignments import campaign_id
from memory.campaigns import BUDGET
from memory.commands import RunCommands
from memory.dead_letters import dead_letters
from memory.leases import ATTEMPTS, attempts_left
from memory.work_state import Work, unassigned, unreceipted_runs, work_of
from records.control import BudgetLimit, RunFacts
from records.ids import RunId
from records.ingestion import CompletionStatus
from records.runtime import Subject
from records.states import Machine, Phase
from vrm.mainjob import steps
from vrm.mainjob.job import Job
from vrm.mainjob.purposes import Purpose
from vrm.mainjob.run import recover

FINAL: Final = {
    CompletionStatus.COMPLETED: "It was distilled; there is nothing to do again.",
    CompletionStatus.CANCELLED: "Its campaign was cancelled, which is final; repeat the trial and import it.",
}


@dataclass(frozen=True)
class Retried:
    """What became of an item that was to be taken up again.

    Attributes:
        outcome: completed, dead_letter or cancelled if it is ended; else waiting.
        retried: whether it was taken up; what was ended before is not.
        detail: what keeps it, or what helps; empty if it was completed now.
    """

    work_item_id: str
    outcome: str
    retried: bool
    detail: str


def distil_waiting(job: Job, purpose: Purpose = Purpose.NORMAL) -> dict[str, Any]:
    """Carry whatever waits in the namespace to completions, and compose a Recall Input; return the summary."""
    before = work_of(job.stores.ledger, job.namespace)
    recovered = recover(job)
    steps.ingest(job, unreceipted_runs(job.stores.ledger, job.namespace))
    refused = list(job.failures)
    sweep = steps.swept(job)
    after = work_of(job.stores.ledger, job.namespace)
    ended = _ends(after) - _ends(before)
    return {
        "namespace": job.namespace,
        "recovered": recovered,
        "queued": len(after) - len(before),
        "distilled": ended[CompletionStatus.COMPLETED.value],
        "dead_letters": ended[CompletionStatus.DEAD_LETTER.value],
        "waiting": len(sweep.waiting()) + len(unassigned(after)),
        "failures": [{"subject": each.subject, **each.error.as_dict()} for each in [*refused, *job.failures]],
        "recall_input": steps.recall_input(job, purpose),
    }


def retry(job: Job, items: Iterable[Work], attempts: int = BUDGET[0].limit) -> list[Retried]:
    """Take up items that wait; those whose budget is used up get `attempts` more. What is ended stays as it is."""
    asked = list(items)
    recover(job)
    open_ones = [work.item for work in asked if work.completion is None]
    unassigned_ones = any(work.assignment is None for work in asked)
    set_apart = job.campaigns.project(lambda _count: None) if unassigned_ones else []
    ids = {str(item.id) for item in open_ones}
    for run in _campaigns(job, ids):
        _allow(job, run, attempts)
    if ids:
        steps.swept(job, ids)
    reasons = {each.subject: str(each.error) for each in [*set_apart, *job.failures]}
    known = {str(work.item.id): work for work in work_of(job.stores.ledger, job.namespace)}
    letters = {
        str(each.work_item_id): each
        for each in dead_letters(job.stores.ledger, job.stores.artifacts, job.namespace, known.values())
    }
    answers = []
    for item_id in (str(work.item.id) for work in asked):
        completion, taken = known[item_id].completion, item_id in ids
        if completion is None:
            answers.append(Retried(item_id, "waiting", taken, reasons.get(item_id, "Distil again.")))
        elif completion.status is CompletionStatus.DEAD_LETTER:
            answers.append(Retried(item_id, completion.status.value, taken, letters[item_id].remedy))
        else:
            detail = "" if taken else FINAL[completion.status]
            answers.append(Retried(item_id, completion.status.value, taken, detail))
    return answers


def _campaigns(job: Job, item_ids: Iterable[str]) -> list[Subject]:
    wanted = [campaign_id(job.namespace, each) for each in sorted(item_ids)]
    return list(job.stores.runtime.subjects(Machine.RUN, wanted).values())


def _allow(job: Job, run: Subject, attempts: int) -> None:
    """Give a running campaign that has fewer attempts left than are asked for as many."""
    left = attempts_left(run)
    if run.phase is not Phase.RUNNING or left is None or left >= attempts:
        return
    line = next(each for each in RunFacts.load(run.facts).budget if each.resource == ATTEMPTS)
    commands = RunCommands(job.stores.runtime, job.stores.artifacts, job.owners.run_owner, now)
    limit = BudgetLimit(resource=ATTEMPTS, limit=line.spent + attempts)
    commands.amend_budget(RunId.check(run.id), [limit], run.version, "vrm distil retry")


def _ends(work: Iterable[Work]) -> Counter[str]:
    return Counter(each.completion.status.value for each in work if each.completion)
