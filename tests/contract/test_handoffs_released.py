"""Release of a handoff with the bytes it held, its other end, on both adapters (spec 8.1, VRM-W09)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.ports import all_good
from memory.releases import HeldElsewhere, Kept, Release, RetentionEnded
from records.canonical import canonical_bytes, parse_canonical
from records.errors import (
    InvalidInputError,
    NotFoundError,
    StaleError,
)
from records.ids import HandoffId
from records.runtime import Applied, Command, Create, Move, reference_id
from records.states import Event, Machine, Phase
from tests.support.samples import PROFILE
from tests.support.stack import Stack
from tests.support.stack_handoffs import Scene
from tests.support.stores import expect
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


class TestRelease:
    """Bytes are let go only when nobody needs them any more, in one step with the handoff."""

    def ended(self, stack: Stack) -> Scene:
        scene = Scene(stack)
        scene.finish()
        return scene

    def release(self, scene: Scene, ground: Any, now: str = "2025-03-02T12:00:00.000000Z") -> list[Any]:
        """Ask for the release at a time; the completions are of the first of March."""
        scene.stack = Stack(scene.stack.stores, scene.stack.namespace, clock=lambda: now)
        return scene.stack.owner.release([Release(each, ground) for each in scene.ids()])

    def references(self, scene: Scene) -> set[Phase]:
        runtime = scene.stack.stores.runtime
        names = [parse_canonical(each.body)["reference_id"] for each in scene.handoffs()]
        return {each.phase for each in runtime.subjects(Machine.REFERENCE, names).values()}

    def hold(self, scene: Scene, owner: str, digest_held: str = PROFILE.canonical_digest) -> str:
        body = canonical_bytes({"owner": owner, "digest": digest_held}).decode()
        name = reference_id(owner, digest_held)
        made = Create(machine=Machine.REFERENCE, id=name, run_id=None, phase=Phase.ACTIVE, body=body)
        all_good(scene.stack.owner.apply([Command(key=(Machine.REFERENCE, name), creates=(made,))]))
        return str(name)

    def test_vrm_w09_released_when_its_retention_has_expired(self, stack: Stack) -> None:
        scene = self.ended(stack)
        assert self.release(scene, RetentionEnded(0)) == [Applied(replayed=False)] * 2
        assert (scene.phases(), self.references(scene)) == ({Phase.RELEASED}, {Phase.RELEASED})
        assert self.release(scene, RetentionEnded(0)) == [Applied(replayed=True)] * 2
        scene.require_clean()

    def test_vrm_w09_kept_as_long_as_its_retention_runs(self, stack: Stack) -> None:
        """The period counts from the completion."""
        scene = self.ended(stack)
        for now, kept in (("2025-03-07T12:00:00.000000Z", True), ("2025-03-08T12:00:01.000000Z", False)):
            answers = self.release(scene, RetentionEnded(7), now)
            assert all(isinstance(each, StaleError) == kept for each in answers)
        with pytest.raises(InvalidInputError):
            RetentionEnded(-1)

    def test_vrm_w09_released_when_somebody_else_holds_the_bytes(self, stack: Stack) -> None:
        scene = self.ended(stack)
        self.hold(scene, f"AUDIT:{stack.namespace}")
        assert self.release(scene, HeldElsewhere(f"AUDIT:{stack.namespace}")) == [Applied(replayed=False)] * 2
        assert self.references(scene) == {Phase.RELEASED}

    def test_vrm_w09_not_released_on_a_reference_that_is_none(self, stack: Stack) -> None:
        """No reference, a released one, one of another item, or one to other bytes is no independent owner."""
        scene = self.ended(stack)
        gone = self.hold(scene, f"AUDIT:gone-{stack.namespace}")
        move = Move(machine=Machine.REFERENCE, id=gone, event=Event.RELEASE, generation=1, fence=1)
        all_good(scene.stack.owner.apply([Command(moves=(move,))]))
        self.hold(scene, f"AUDIT:other-{stack.namespace}", digest("other bytes"))
        items = [f"DISTILLATION_WORK_ITEM:{each.id}" for each in scene.stack.load("distillation-work-item")]
        owners = [f"AUDIT:{name}-{stack.namespace}" for name in ("none", "gone", "other")]
        before = scene.stack.state()
        for owner in (*owners, *items):
            for answer in self.release(scene, HeldElsewhere(owner)):
                assert Kept.NOT_HELD_ELSEWHERE in expect(StaleError, answer).remedy, owner
        assert scene.stack.state() == before
        assert self.references(scene) == {Phase.ACTIVE}

    def test_vrm_w09_refused_for_each_condition_that_is_missing(self, stack: Stack) -> None:
        """Step by step to the end of both Runs; at each step the next condition is what keeps it."""
        scene = Scene(stack).cut("granted")
        self.kept(scene, Kept.NOT_BOUND)
        scene.stack.recover()
        self.kept(scene, Kept.SOURCE_RUN_OPEN)
        scene.stack.complete(scene.run_id)
        self.kept(scene, Kept.NO_COMPLETION)  # the end of the source Run alone releases nothing
        assert not scene.stack.campaigns.project(lambda _done: None)
        self.kept(scene, Kept.NO_COMPLETION)
        snapshot = scene.stack.capture()
        scene.stack.campaigns.complete = lambda: None  # type: ignore[method-assign]
        assert not scene.stack.campaigns.distil(snapshot, scene.stack.distiller, lambda _done: None)
        self.kept(scene, Kept.CAMPAIGN_RUN_OPEN)
        scene.stack = Stack(stack.stores, stack.namespace)
        assert not scene.stack.campaigns.distil(snapshot, scene.stack.distiller, lambda _done: None)
        assert self.release(scene, RetentionEnded(0)) == [Applied(replayed=False)] * 2
        scene.require_clean()

    def kept(self, scene: Scene, reason: Kept) -> None:
        before = scene.stack.state()
        for answer in self.release(scene, RetentionEnded(0)):
            assert reason in expect(StaleError, answer).remedy
        assert scene.stack.state() == before
        assert self.references(scene) == {Phase.ACTIVE}

    def test_vrm_w09_no_plain_command_lets_the_bytes_of_an_item_go(self, stack: Stack) -> None:
        scene = self.ended(stack)
        name = parse_canonical(scene.handoffs()[0].body)["reference_id"]
        move = Move(machine=Machine.REFERENCE, id=name, event=Event.RELEASE, generation=1, fence=1)
        assert isinstance(scene.stack.owner.apply([Command(moves=(move,))])[0], InvalidInputError)
        assert self.references(scene) == {Phase.ACTIVE}

    def test_vrm_w09_an_abandoned_handoff_waits_for_nothing_else(self, stack: Stack) -> None:
        scene = Scene(stack).cut("opened").absent().abandon()
        assert self.release(scene, RetentionEnded(365)) == [Applied(replayed=False)] * 2
        assert (scene.phases(), self.references(scene)) == ({Phase.RELEASED}, {Phase.RELEASED})
        scene.finish()
        scene.require_clean()

    def test_vrm_w09_a_handoff_that_was_never_opened(self, stack: Stack) -> None:
        unknown = Release(HandoffId.derive({"made": "up"}), RetentionEnded(0))
        assert isinstance(stack.owner.release([unknown])[0], NotFoundError)
