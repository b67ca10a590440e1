"""Rounds, Runs and decisions that another specification began: passed over when over, named with a way on when not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.leases import admission
from memory.ports import all_good
from policies.catalog import load_catalog
from policies.ideation import Branch
from records.canonical import canonical_bytes
from records.decisions import DecisionIntent
from records.errors import IdentityConflictError
from records.flows import Authority, Transition
from records.runtime import RunBody
from records.states import Phase
from tests.support.stack import Stack
from tests.support.stack_control import Staged, stop, without_memory
from tests.support.stack_jobs import job_over
from vrm.domain import CATALOG
from vrm.mainjob.deciding import Decisions
from vrm.mainjob.ideation import search
from vrm.mainjob.plan import SMALL, Round, held_out_tasks, sweep_body
from vrm.mainjob.run import next_round, run_round
from vrm.mainjob.searches import FIRST_SEED
from vrm.mainjob.trials import new_trials

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def bodies_of(stack: Stack) -> list[RunBody]:
    """Return the specifications of the sweep and of the trials of the first round."""
    round_, catalog = Round(namespace=stack.namespace, number=0, size=SMALL), load_catalog(CATALOG)
    return [
        sweep_body(round_, catalog),
        *(state.run for state in new_trials(round_, held_out_tasks(SMALL), catalog)),
    ]


def earlier(body: RunBody) -> RunBody:
    """Return the specification that an earlier version had for a Run."""
    return body.model_copy(update={"specification_digest": "0" * 64})


def admit(stack: Stack, bodies: list[RunBody]) -> None:
    """Admit Runs without Activities, so that they can complete."""
    all_good(stack.owner.apply([admission(body, ()) for body in bodies]))


def next_here(stack: Stack) -> Round:
    """Return the round that would be carried out now."""
    return next_round(stack.stores.runtime, stack.stores.artifacts, stack.namespace, SMALL)


def next_number(stack: Stack) -> int:
    """Return the number of the round that would be carried out now."""
    return next_here(stack).number


def test_an_interrupted_round_of_an_earlier_version_is_named_with_a_way_on(stack: Stack) -> None:
    """The sweep is this version's own; the trials, whose manifest holds a policy's digest, are not."""
    bodies = bodies_of(stack)
    admit(stack, [bodies[0], *map(earlier, bodies[1:])])
    round_ = next_here(stack)
    before = stack.state()
    with pytest.raises(IdentityConflictError, match=f"vrm runs cancel {bodies[1].id}") as refused:
        run_round(replace(job_over(stack), round=round_))
    assert refused.value.value.startswith(f"{bodies[1].id} RUNNING")
    assert f"{len(bodies) - 1} more" in refused.value.remedy
    assert stack.state() == before
    stop(stack, bodies[1].id, fail=False)
    assert next_number(stack) == round_.number + 1


def test_an_interrupted_search_of_an_earlier_version_is_refused_before_anything_is_done(stack: Stack) -> None:
    """A grant that a crash left unsettled stays so until the command may go on."""
    Staged(without_memory(stack)).reach(Phase.REGISTERING)
    round_ = Round(namespace=stack.namespace, number=0, size=SMALL)
    body = round_.run_body(f"ideation/breast_cancer/{FIRST_SEED}/{Branch.WITH_MEMORY}", "0" * 64)
    admit(stack, [body])
    before = stack.state()
    with pytest.raises(IdentityConflictError, match=f"vrm runs cancel {body.id}"):
        search(replace(job_over(stack), round=round_), 1, 1)
    assert stack.state() == before


def test_a_finished_part_of_an_earlier_round_leaves_what_waits_to_be_cancelled(stack: Stack) -> None:
    bodies = bodies_of(stack)
    admit(stack, [earlier(bodies[0]), bodies[1]])
    stack.complete(bodies[0].id)
    job = replace(job_over(stack), round=next_here(stack))
    with pytest.raises(IdentityConflictError) as refused:
        run_round(job)
    assert refused.value.value == f"{bodies[0].id} COMPLETED ({bodies[0].admission_key})", "the cause"
    assert refused.value.remedy == (
        "It was begun with another specification, by an earlier version or with another catalog or Recall Input. "
        f"Finish {bodies[1].id} RUNNING, which belongs to it, with what began it, or give it up with "
        f"`vrm runs cancel {bodies[1].id}` and give the command again."
    )


def test_a_round_of_an_earlier_version_that_nothing_waits_in_is_passed_over(stack: Stack) -> None:
    """Its sweep is complete and its trials never began: no command could end it, and its seeds are used."""
    bodies = bodies_of(stack)
    admit(stack, [earlier(bodies[0])])
    assert next_number(stack) == 0
    stack.complete(bodies[0].id)
    assert next_number(stack) == 1


def test_an_own_round_goes_on(stack: Stack) -> None:
    bodies = bodies_of(stack)
    admit(stack, bodies[:2])
    stack.complete(bodies[0].id)
    assert next_number(stack) == 0


@pytest.mark.parametrize("over", [False, True])
def test_any_run_that_was_begun_otherwise_is_refused_with_what_helps(stack: Stack, over: bool) -> None:
    (body, *_) = bodies_of(stack)
    admit(stack, [earlier(body)])
    if over:
        stack.complete(body.id)
    remedy = "another Run" if over else "vrm runs cancel"
    with pytest.raises(IdentityConflictError, match=remedy):
        job_over(stack).admit([body], "sweep")


def test_a_decision_that_an_earlier_version_registered_is_named_with_a_way_on(stack: Stack) -> None:
    """A version with another template registers another intent at the same place of the same Run."""
    study = without_memory(stack)
    stack.admit(f"{study.key}/{study.arm}", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    actor = study.intent.planned_actor.model_copy(update={"template_digest": "0" * 64})
    draft = DecisionIntent.load(canonical_bytes(study.intent.as_json() | {"planned_actor": actor.as_json()}))
    assert draft.id != study.intent.id
    for _ in range(2):  # the second time the Runtime knows the decision that was refused
        with pytest.raises(IdentityConflictError, match=f"vrm runs cancel {draft.run_id}") as refused:
            Decisions(job_over(stack)).register(study.view, [draft])
        assert refused.value.value == str(study.intent.id)
