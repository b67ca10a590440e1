"""Completions and assignments that somebody forged, replayed or brought too early are refused (spec 8.1, VRM-W09)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.assignments import activation, assigning, campaign_admission, campaign_run
from memory.ports import all_good
from memory.work_closure import closure_completion
from records.appends import AppendReceipt
from records.canonical import digest_bytes
from records.control import ControlCause, ControlEvent, ControlKind
from records.errors import (
    IntegrityError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import Authority
from records.ingestion import CompletionStatus
from records.states import Phase
from tests.support.samples import PROFILE
from tests.support.stack import Stack
from tests.support.stack_campaigns import UNASSIGNED, Campaign, campaign, giving_up, queued
from tests.support.stack_control import closure, run_of, stop
from tests.support.stores import expect

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


class TestForged:
    """A completion that closure would not have made is refused, and nothing is written."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"status": CompletionStatus.DEAD_LETTER},
            {"terminal_evidence_digest": "f" * 64},
            {"created_at": "2026-01-01T00:00:00.000000Z"},
        ],
        ids=["status", "evidence", "time"],
    )
    def test_by_a_field(self, stack: Stack, changes: dict[str, Any]) -> None:
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        event = closure(stack)._event(made.run)
        honest = closure_completion(made.assignment(), event)
        before = stack.state()
        forged = honest.model_copy(update=changes)
        (refused,) = stack.spine.carry([giving_up(made, forged)])
        assert isinstance(refused, IntegrityError | NotFoundError), refused
        assert stack.state() == before

    def test_by_an_event_of_another_run(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        other = stack.admit("other")
        stop(stack, other, fail=False)
        stop(stack, made.run_id, fail=False)
        foreign = closure(stack)._event(run_of(stack, other))
        with pytest.raises(IntegrityError):
            closure_completion(made.assignment(), foreign)
        event = closure(stack)._event(made.run)
        honest = closure_completion(made.assignment(), event)
        forged = honest.model_copy(
            update={"terminal_evidence_digest": foreign.canonical_digest, "created_at": foreign.at}
        )
        (refused,) = stack.spine.carry([giving_up(made, forged)])
        assert isinstance(refused, IntegrityError)

    def test_while_the_run_is_running(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        event = ControlEvent.build(
            namespace=stack.namespace,
            run_id=made.run_id,
            kind=ControlKind.CANCEL_EVENT,
            cause=ControlCause.COMMAND,
            detail="nobody gave it",
            at="2026-01-01T00:00:00.000000Z",
        )
        stack.stores.artifacts.publish(event.canonical)
        before = stack.state()
        (refused,) = stack.spine.carry([giving_up(made, closure_completion(made.assignment(), event))])
        assert isinstance(refused, StaleError)
        assert stack.state() == before

    def test_by_normal_authority(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        honest = giving_up(made, closure_completion(made.assignment(), closure(stack)._event(made.run)))
        (refused,) = stack.spine.carry([honest.model_copy(update={"authority": Authority.NORMAL})])
        assert isinstance(refused, VrmError)
        assert not made.completions

    def test_events_of_closure_are_no_plain_commands(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        move = activation(made.run_id).moves[0]
        for event in ("grant_close", "cancelled", "failed", "close_retired"):
            command = activation(made.run_id).model_copy(
                update={
                    "requires": (),
                    "key": None,
                    "key_phase": None,
                    "moves": (move.model_copy(update={"event": event}),),
                }
            )
            (refused,) = stack.owner.apply([type(command).load(command.canonical)])
            assert isinstance(refused, VrmError)
        assert made.activity.phase is Phase.READY


class TestAssignment:
    """An assignment needs the Runtime's proof as long as it is not there, and none afterwards."""

    def test_without_a_run(self, stack: Stack) -> None:
        made = queued(stack)
        self.refused(made, NotFoundError)

    def test_without_its_manifest(self, stack: Stack) -> None:
        made = queued(stack)
        all_good(stack.owner.apply([campaign_admission(campaign_run(made.item, PROFILE))]))
        self.refused(made, NotFoundError)

    def test_to_a_run_with_another_manifest(self, stack: Stack) -> None:
        """The first admission wins the key; an assignment that says another manifest is not its."""
        made = queued(stack)
        run = campaign_run(made.item, PROFILE)
        other = run.model_copy(update={"specification_digest": digest_bytes(b"another manifest")})
        stack.stores.artifacts.publish(b"another manifest")
        all_good(stack.owner.apply([campaign_admission(other)]))
        self.refused(made, IntegrityError)
        (answer,) = stack.spine.direct([assigning(other, made.item.created_at)])
        assert isinstance(answer, VrmError)
        assert not stack.load("distillation-work-assignment")

    def test_again_is_a_replay_whatever_became_of_it(self, stack: Stack) -> None:
        made = campaign(stack, Phase.RUNNING)
        before = stack.position()
        append = assigning(campaign_run(made.item, PROFILE), made.item.created_at)
        (answer,) = stack.spine.direct([append])
        assert expect(AppendReceipt, answer).committed
        assert stack.position() == before

    def test_of_an_activity_that_does_not_wait(self, stack: Stack) -> None:
        made = campaign(stack, UNASSIGNED)
        all_good(stack.owner.apply([activation(made.run_id)]))
        self.refused(made, StaleError)

    def refused(self, made: Campaign, kind: type[VrmError]) -> None:
        """The assignment is refused in this way, and is not there."""
        append = assigning(campaign_run(made.item, PROFILE), made.item.created_at)
        (answer,) = made.stack.spine.direct([append])
        assert isinstance(answer, kind), answer
        assert not made.stack.load("distillation-work-assignment")
