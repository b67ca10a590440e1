"""The sweep of a job: its snapshots follow retention, its patience follows progress, and retry gives attempts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from memory.distillation.distiller import DistillationRequest
from memory.leases import ATTEMPTS
from memory.work_state import Work, work_of
from records.appends import Proposal
from records.control import BudgetLimit, BudgetLine, RunFacts
from records.ingestion import CompletionStatus, EvidenceSnapshot
from records.states import Machine
from tests.contract.test_erasures_denied import Interrupted
from tests.support.incidents import Incident
from tests.support.stack import NULL, POLICIES, Stack, effects, quiet, record_of
from tests.support.stack_control import checked
from tests.support.stack_jobs import job_over
from tests.support.stores import expect
from vrm.mainjob import steps
from vrm.mainjob.distillation import retry
from vrm.mainjob.job import Job

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def queued(stack: Stack, deltas: dict[str, float]) -> list[Work]:
    """Queue and assign evidence of a Run of its own; return its items."""
    known = {work.item.id for work in work_of(stack.stores.ledger, stack.namespace)}
    run_id = stack.admit("second")
    stack.evidence(effects(stack, "second", deltas, change=NULL))
    assert not stack.campaigns.ingest(run_id, quiet)
    assert not stack.campaigns.project(quiet)
    return [work for work in work_of(stack.stores.ledger, stack.namespace) if work.item.id not in known]


def proposing(stack: Stack, distiller: object) -> Job:
    """Return a job whose proposals come from a distiller."""
    job = job_over(stack)
    job.__dict__["distillers"] = distiller
    return job


def members(stack: Stack, snapshot_id: str) -> set[str]:
    snapshot: EvidenceSnapshot = expect(EvidenceSnapshot, record_of(stack, snapshot_id))
    return {str(each.experience_id) for each in snapshot.members}


class TestSnapshots:
    def test_a_denial_makes_another_capture_of_the_same_evidence(self, incident: Incident) -> None:
        stack, job = incident.stack, job_over(incident.stack)
        first = steps.capture(job, POLICIES.distillation)
        assert steps.capture(job, POLICIES.distillation) == first
        intent = incident.opened(incident.of_observation())
        (denied,) = stack.stores.ledger.find("experience", stack.namespace, observation_id=intent.target_id)
        second = steps.capture(job, POLICIES.distillation)
        assert members(stack, first) - members(stack, second) == {denied.id}

    def test_what_was_denied_meanwhile_is_in_no_later_pass_of_the_same_sweep(self, incident: Incident) -> None:
        stack = incident.stack
        mine = queued(stack, {"e": 0.05, "f": 0.05})
        intent = incident.of_observation(-1)
        job = proposing(stack, Interrupted(incident, intent))
        steps.swept(job)
        assert not job.failures
        (denied,) = stack.stores.ledger.find("experience", stack.namespace, observation_id=intent.target_id)
        ends = {work.item.experience_id: work.completion for work in work_of(stack.stores.ledger, stack.namespace)}
        found = {work.item.experience_id: ends[work.item.experience_id] for work in mine}
        assert all(found.values())
        assert {key for key, end in found.items() if end and end.status is CompletionStatus.DEAD_LETTER} == {denied.id}
        batches = {batch.id: batch for batch in stack.load("distillation-batch")}
        for end in found.values():
            if end and end.batch_id is not None:
                assert denied.id not in members(stack, batches[end.batch_id].evidence_snapshot_id)
        assert not checked(stack).violations


class Half:
    """A distiller of whose proposals only the first ones are in time; the others are a fence too late."""

    def __init__(self, stack: Stack, in_time: int) -> None:
        self.stack, self.in_time = stack, in_time

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        made = self.stack.distiller.propose(requests)
        late = [each.model_copy(update={"fence": each.fence - 1}) for each in made[self.in_time :]]
        return [*made[: self.in_time], *late]


def test_patience_is_measured_from_the_last_progress(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    queued(stack, {"a": 0.0, "b": 0.001})
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(steps, "time", SimpleNamespace(monotonic=lambda: clock.now))
    half = Half(stack, 2)
    sweep = steps.Sweep(proposing(stack, half))
    clock.now = 20.0
    assert sweep.leaves_work(quiet), "two of four are left"
    assert sweep.idle_seconds() == 0.0
    clock.now, half.in_time = 45.0, 0
    assert sweep.leaves_work(quiet)
    assert sweep.idle_seconds() == 25.0, "a pass that settles nothing is no progress"
    half.in_time = 2
    assert not sweep.leaves_work(quiet)
    assert sweep.idle_seconds() == 0.0


def line_of(stack: Stack, work: Work) -> BudgetLine:
    """Return what the campaign of an item may be attempted and was."""
    assert work.assignment is not None
    run: Any = stack.stores.runtime.subject(Machine.RUN, str(work.assignment.run_id))
    (found,) = RunFacts.load(run.facts).budget
    return found


def test_retry_gives_attempts_to_what_has_none_left_and_takes_it_up(stack: Stack) -> None:
    stack.campaigns._budget = (BudgetLimit(resource=ATTEMPTS, limit=2),)
    (work, *_) = queued(stack, {"a": 0.0})
    snapshot = stack.capture()
    for _ in range(2):
        assert stack.campaigns.distil(snapshot, Half(stack, 0), quiet)
    assert line_of(stack, work) == BudgetLine(resource=ATTEMPTS, limit=2, spent=2)
    (answer,) = retry(job_over(stack), [work], attempts=5)
    assert (answer.outcome, answer.retried, answer.detail) == ("completed", True, "")
    assert line_of(stack, work) == BudgetLine(resource=ATTEMPTS, limit=7, spent=3)
