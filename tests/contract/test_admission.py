"""A decision carries what its Run was admitted with for its arm, or it is not admitted (spec 4.2, 9.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory.leases import admission
from memory.ports import all_good
from records.decisions import DecisionIntent
from records.errors import IntegrityError, InvalidRecordError, NotFoundError, VrmError
from records.flows import Authority, Transition
from records.governance import ArmAssignment, ArmManifest
from records.runtime import activity_id
from records.values import RecallRequirement
from tests.support.governance import manifest, profile, publish_admitted
from tests.support.stack import Stack
from tests.support.stack_control import checked, without_memory
from tests.support.stack_decisions import Study
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def study(stack: Stack) -> Study:
    """A control arm whose Run is admitted and whose decision is not."""
    made = without_memory(stack)
    publish_admitted(stack.stores.artifacts)
    all_good(stack.owner.apply([admission(stack.body(f"{made.key}/{made.arm}"), ["trial"])]))
    return made


def require_refused(study: Study, intent: DecisionIntent, kind: type[VrmError]) -> str:
    """The intent is refused in this way on both sides of the spine's first step, and nothing is written."""
    stack, before = study.stack, study.stack.state()
    asked = study.proposal(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, intent)
    (refused,) = stack.spine.carry([asked.model_copy(update={"subject_id": str(intent.id), "run_id": intent.run_id})])
    assert isinstance(refused, kind), refused
    assert stack.state() == before
    return refused.field


@pytest.mark.parametrize(
    "changes",
    [
        {"profile_ref": "another"},
        {"profile_digest": digest("another")},
        {"assignment_manifest_digest": digest("another")},
        {"recall_requirement": RecallRequirement.REQUIRED},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_binding(study: Study, changes: dict[str, Any]) -> None:
    """A control arm cannot claim memory, nor any arm another profile or manifest."""
    governance = study.intent.governance.model_copy(update=changes)
    met = require_refused(study, study.intent.model_copy(update={"governance": governance}), IntegrityError)
    assert met == f"governance.{next(iter(changes))}"


@pytest.mark.parametrize("arm", ["memory", "unheard-of", None])
def test_another_arm(study: Study, arm: str | None) -> None:
    """The binding is the arm's own; one that was never admitted has none."""
    require_refused(study, study.intent.model_copy(update={"arm": arm}), IntegrityError)


def _without_manifest(_stack: Stack) -> tuple[str, type[VrmError]]:
    return digest("never published"), NotFoundError


def _no_manifest(stack: Stack) -> tuple[str, type[VrmError]]:
    return stack.stores.artifacts.publish(b"{}"), InvalidRecordError


def _not_canonical(stack: Stack) -> tuple[str, type[VrmError]]:
    return stack.stores.artifacts.publish(manifest().canonical + b"\n"), IntegrityError


def _without_profile(stack: Stack) -> tuple[str, type[VrmError]]:
    lost = profile().model_copy(update={"mode": "never-published"})
    arms = tuple(ArmAssignment.of(each.arm, lost, each.recall_requirement) for each in manifest().arms)
    made = manifest().model_copy(update={"arms": arms})
    return stack.stores.artifacts.publish(made.canonical), NotFoundError


@pytest.mark.parametrize("made", [_without_manifest, _no_manifest, _not_canonical, _without_profile])
def test_a_run_admitted_with_something_else(study: Study, made: Callable[[Stack], tuple[str, type[VrmError]]]) -> None:
    """The manifest that a Run was admitted with must be there, be one, and name a profile that is there."""
    stack = study.stack
    specification, kind = made(stack)
    body = stack.body("other").model_copy(update={"specification_digest": specification})
    all_good(stack.owner.apply([admission(body, ["trial"])]))
    governance = study.intent.governance.model_copy(update={"assignment_manifest_digest": specification})
    if made is _without_profile:
        found = ArmManifest.read(stack.stores.artifacts.read(specification), specification)
        governance = found.binding(study.intent.arm)
    place = {"run_id": body.id, "activity_id": activity_id(body.id, "trial"), "governance": governance}
    require_refused(study, study.intent.model_copy(update=place), kind)


def test_a_run_that_was_never_admitted(study: Study) -> None:
    run_id = study.stack.body("nobody").id
    place = {"run_id": run_id, "activity_id": activity_id(run_id, "trial")}
    require_refused(study, study.intent.model_copy(update=place), NotFoundError)


def test_the_admitted_binding_is_kept(study: Study) -> None:
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    (stored,) = study.stack.load("decision-intent")
    assert stored.governance == manifest().binding("control")
    assert not checked(study.stack).violations
