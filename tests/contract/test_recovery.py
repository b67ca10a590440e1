"""One recovery on both stores: whatever is unresolved is resumed from what is stored, by anyone, twice at once as well.

Recovery is of a whole installation, and tests share one: each leaves nothing unresolved behind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory.campaigns import Campaigns
from memory.erasing import ErasureRequest
from memory.leases import leases
from memory.ports import all_good
from memory.recovery import SWEEPS, Reads, Recovery, Swept, unresolved
from records.canonical import canonical_bytes
from records.errors import IllegalTransitionError, StaleError
from records.ingestion import AbandonedReceipt, WorkItem
from records.retention import ErasureReason
from records.runtime import Command, Create, Move, activity_id, reference_id
from records.states import Event, Machine, Phase
from records.values import CampaignProfile
from tests.support.samples import PROFILE
from tests.support.stack import POLICIES, Interrupted, Stack, effects
from tests.support.stack_control import checked, run_of, stop
from tests.support.stack_handoffs import STEPS, Scene
from tests.support.stores import expect

FAR = "2999-01-01T00:00:00.000000Z"

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def swept(answer: tuple[Swept, ...]) -> dict[str, tuple[int, int]]:
    """Return how many each sweep resumed and how many wait, where it found anything."""
    found = {each.sweep: (len(each.resumed), len(each.waiting)) for each in answer}
    assert list(found) == [sweep.name for sweep in SWEEPS]
    return {name: numbers for name, numbers in found.items() if numbers != (0, 0)}


def begun(stack: Stack, key: str = "private") -> Any:
    """Begin the erasure of an observation, and return its intent."""
    stack.admit(key)
    stack.evidence(effects(stack, key, {f"{stack.namespace}-{key}": 0.05})[:1])
    target = str(stack.load("observation")[-1].id)
    asked = ErasureRequest(target=target, reason=ErasureReason.LEGAL_ORDER, incident="case-1")
    return stack.officer.begin(asked)


def take(stack: Stack, activity: str) -> None:
    """Lease an Activity for a worker whose deadline is far away."""
    subjects = stack.stores.runtime.subjects(Machine.ACTIVITY, [activity]).values()
    commands = leases(subjects, "worker", FAR).values()
    all_good(stack.owner.apply([expect(Command, each) for each in commands]))


def leased(stack: Stack, key: str) -> str:
    """Return an Activity that somebody works on, in a Run that is then cancelled."""
    run_id = stack.admit(key, "slot")
    activity = str(activity_id(run_id, "slot"))
    take(stack, activity)
    stop(stack, run_id, fail=True)
    return activity


def disorder(stack: Stack) -> Stack:
    """Leave something of every sort unresolved: two grants, an erasure, a lease, two attempts, two Runs that end."""
    intent = begun(stack)
    stack.admit("waits")
    leased(stack, "busy")
    Scene(stack, "retired").cut("opened").retire()
    scene = Scene(Stack(stack.stores, stack.namespace), "granted").cut("granted")
    stop(scene.stack, scene.run_id, fail=False)
    assert not scene.stack.load("memory-retention-tombstone")
    assert intent.erased_bytes
    return scene.stack


def in_order(stack: Stack) -> None:
    """Nothing is unresolved, every erasure has its one tombstone, both stores are whole."""
    reads = stack.recovery.reads
    assert not swept(unresolved(reads))
    assert len(stack.load("memory-retention-tombstone")) == len(stack.load("retention-erasure-intent"))
    report = checked(stack)
    assert (report.violations, report.notes) == ((), ())


def test_one_recovery_resumes_all_that_is_unresolved(stack: Stack) -> None:
    stack = disorder(stack)
    before = stack.state()
    found = swept(unresolved(stack.recovery.reads))
    assert found == {
        "authorizations": (0, 2), "erasures": (0, 1), "leases": (0, 1), "handoffs": (0, 2), "runs": (0, 2),
    }  # fmt: skip
    assert stack.state() == before, "to look changes nothing"
    assert swept(stack.recovery.sweep()) == {
        "authorizations": (2, 0), "erasures": (1, 0), "leases": (1, 0), "handoffs": (2, 0), "runs": (2, 0),
    }  # fmt: skip
    in_order(stack)
    after = stack.state()
    assert not swept(stack.recovery.sweep())
    assert stack.state() == after
    phases = stack.phases()
    assert (phases["run", "CANCELLED"], phases["run", "FAILED"]) == (1, 1)
    assert (phases["handoff", "BOUND"], phases["handoff", "PROVED_ABSENT"]) == (2, 2)


@pytest.mark.parametrize("fail", [False, True], ids=["cancel", "fail"])
@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_ends_leaves_no_handoff_open(stack: Stack, step: str, fail: bool) -> None:
    """Wherever its enqueue was cut: what was enqueued is bound, what was not is abandoned for the Run's own event."""
    scene = Scene(stack).cut(step)
    control = stop(scene.stack, scene.run_id, fail=fail).control
    assert control is not None
    scene.stack.recovery.sweep()
    assert run_of(scene.stack, scene.run_id).phase is (Phase.FAILED if fail else Phase.CANCELLED)
    receipts = scene.stack.load("distillation-receipt")
    assert len(receipts) == len(scene.stack.load("experience")) == 2
    enqueued = step in {"granted", "appended", "unheard"}
    assert scene.phases() == {Phase.BOUND if enqueued else Phase.RELEASED}
    assert len(scene.stack.load("distillation-work-item")) == (2 if enqueued else 0)
    if not enqueued:
        assert all(isinstance(each, AbandonedReceipt) for each in receipts)
        assert {each.reasons for each in receipts} == {("source_run_failed" if fail else "source_run_cancelled",)}
        references = scene.stack.stores.runtime.find(Machine.REFERENCE)
        mine = {str(each.abandoned_work_item_id) for each in receipts}
        assert {each.phase for each in references if any(item in each.body for item in mine)} == {Phase.RELEASED}
    in_order(scene.stack)


def test_a_handoff_of_a_run_that_goes_on_is_not_given_up(stack: Stack) -> None:
    scene = Scene(stack).cut("opened")
    with pytest.raises(IllegalTransitionError):
        scene.stack.orphans.give_up(scene.run_id)
    assert scene.phases() == {Phase.PENDING}
    assert not swept(scene.stack.recovery.sweep())
    assert scene.phases() == {Phase.PENDING}, "who enqueues is at work on it, for all that is known"
    scene.absent()
    scene.finish()
    in_order(scene.stack)


def test_what_waits_says_why_and_keeps_nobody_else_waiting(stack: Stack) -> None:
    intents = [begun(stack, key) for key in ("one", "two")]
    digest = intents[0].erased_bytes[0]
    name = reference_id("AUDIT:1", digest)
    body = canonical_bytes({"owner": "AUDIT:1", "digest": digest}).decode()
    made = Create(machine=Machine.REFERENCE, id=name, run_id=None, phase=Phase.ACTIVE, body=body)
    all_good(stack.owner.apply([Command(key=(Machine.REFERENCE, name), creates=(made,))]))
    (erasures,) = (each for each in stack.recovery.sweep() if each.sweep == "erasures")
    assert erasures.resumed == (str(intents[1].id),)
    (waiting,) = erasures.waiting
    assert waiting.subject == str(intents[0].id)
    assert isinstance(waiting.reason, StaleError)
    assert name in waiting.reason.remedy
    assert waiting.as_json() == {"subject": str(intents[0].id)} | waiting.reason.as_dict()
    move = Move(machine=Machine.REFERENCE, id=name, event=Event.RELEASE, generation=1, fence=1)
    all_good(stack.owner.apply([Command(moves=(move,))]))
    assert swept(stack.recovery.sweep()) == {"erasures": (1, 0)}
    in_order(stack)


def test_a_lease_of_a_run_that_ends_is_taken_back_and_its_holder_is_refused(stack: Stack) -> None:
    running = stack.admit("running", "slot")
    mine = str(activity_id(running, "slot"))
    take(stack, mine)
    activity = leased(stack, "ending")
    (held,) = stack.stores.runtime.subjects(Machine.ACTIVITY, [activity]).values()
    assert held.phase is Phase.RUNNING
    stack.recovery.sweep()
    (back,) = stack.stores.runtime.subjects(Machine.ACTIVITY, [activity]).values()
    assert (back.phase, back.fence) == (Phase.FAILED, held.fence + 1), "taken back, and then closed with its Run"
    (other,) = stack.stores.runtime.subjects(Machine.ACTIVITY, [mine]).values()
    assert other.phase is Phase.RUNNING, "its Run goes on"


def profiled(stack: Stack, retention: str) -> Scene:
    """Return a Run whose campaigns are over, with a profile of that retention."""
    profile = CampaignProfile(**(PROFILE.as_json() | {"retention": retention}))
    stack.campaigns = Campaigns(stack.campaigns._ports, POLICIES, profile, stack.namespace)
    scene = Scene(stack)
    scene.finish()
    return scene


def at(stack: Stack, moment: str) -> Recovery:
    """Return a recovery at a time."""
    reads = replace(stack.recovery.reads, clock=lambda: moment)
    assert isinstance(reads, Reads)
    return Recovery(reads, stack.owner, stack.coordinator)


def test_profile_bytes_are_let_go_when_their_profile_says_so(stack: Stack) -> None:
    """The owner decides by its own clock; the stack's stands in March 2025."""
    scene = profiled(stack, "days:0")
    assert scene.phases() == {Phase.BOUND}
    assert swept(stack.recovery.sweep()) == {"releases": (2, 0)}
    assert scene.phases() == {Phase.RELEASED}
    in_order(stack)


@pytest.mark.parametrize("retention", ["keep", "days:36500", "for-long"])
def test_profile_bytes_stay_until_then(stack: Stack, retention: str) -> None:
    scene = profiled(stack, retention)
    assert not swept(at(stack, "2026-03-01T12:00:00.000000Z").sweep())
    assert scene.phases() == {Phase.BOUND}


def raced(stack: Stack, place: int) -> int:
    """Recover twice at once, the second in full before a call of the first; return how many calls the first made."""
    faults = Interrupted()
    racing = Stack(disorder(stack).stores, stack.namespace, faults)
    faults.calls.clear()
    faults.at, faults.other = place, racing.recovery.sweep
    answer = racing.recovery.sweep()
    assert not any(each.waiting for each in answer), answer
    in_order(Stack(racing.stores, stack.namespace))
    return len(faults.calls)


@pytest.mark.slow
def test_two_recoveries_at_once_do_everything_once(stack: Stack, request: pytest.FixtureRequest) -> None:
    """Whatever the call at which the second one comes."""
    calls = raced(stack, 0)
    assert calls > 25
    slow = "postgres" in request.node.name
    for place in range(1, calls + 1, 9 if slow else 1):
        raced(Stack(stack.stores, f"{stack.namespace}_{place}"), place)


def test_an_absent_attempt_of_a_run_that_goes_on_is_taken_up_again(stack: Stack) -> None:
    """Recovery proves it absent and leaves it there; the next ingestion enqueues it under a higher fence."""
    scene = Scene(stack).cut("opened")
    scene.retire()
    assert swept(scene.stack.recovery.sweep()) == {"handoffs": (2, 0)}
    assert scene.phases() == {Phase.PROVED_ABSENT}
    scene.ingest()
    assert all(isinstance(each, WorkItem) for each in scene.stack.load("distillation-work-item"))
    assert scene.phases() == {Phase.BOUND}
