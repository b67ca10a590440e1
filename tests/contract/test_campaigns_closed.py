"""Campaigns that are cancelled or fail, at every phase, and the end that each of them has (spec 8.1, VRM-W09)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.assignments import SLOT, activation, assigning, campaign_admission, campaign_run
from memory.campaigns import Failure
from memory.dead_letters import DeadLetters
from memory.leases import completion
from memory.ports import all_good
from memory.work_closure import closure_completion
from records.appends import AppendReceipt, Proposal
from records.canonical import digest_bytes
from records.control import CampaignEnd, ControlCause, ControlEvent, ControlKind
from records.errors import (
    IllegalTransitionError,
    IntegrityError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import Authority, Transition
from records.ingestion import CompletionStatus, WorkCompletion
from records.outcomes import NoCommitReason
from records.runtime import activity_id
from records.states import Machine, Phase
from tests.support.samples import PROFILE
from tests.support.stack import Stack, effects, quiet
from tests.support.stack_campaigns import UNASSIGNED, Campaign, campaign, lease
from tests.support.stack_control import checked, closure, commands, run_of, stop
from tests.support.stores import expect

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

BOTH = pytest.mark.parametrize("fail", [False, True], ids=["cancel", "fail"])
UNFINISHED = (UNASSIGNED, Phase.AWAITING_ASSIGNMENT, Phase.READY, Phase.LEASED, Phase.RUNNING)


def require_ended(made: Campaign, run: Phase, activity: Phase, end: CampaignEnd, status: CompletionStatus) -> None:
    """Run, Activity, facts and the one completion say the same, nothing waits, and the check finds nothing."""
    assert (made.run.phase, made.activity.phase, made.facts.end) == (run, activity, end)
    assert [each.status for each in made.completions] == [status]
    assert made.facts.coverage is not None
    assert not made.stack.granted()
    assert not made.stack.campaigns.unassigned()
    assert not made.stack.campaigns.waiting()
    report = checked(made.stack)
    assert not report.violations, report.violations


class TestUnfinished:
    """What is not granted is closed from where it stands."""

    @BOTH
    @pytest.mark.parametrize("at", UNFINISHED)
    def test_from_every_phase(self, stack: Stack, at: Phase | str, *, fail: bool) -> None:
        made = campaign(stack, at)
        stop(stack, made.run_id, fail=fail)
        ended = closure(stack).close(made.run_id)
        if fail:
            expected = (Phase.FAILED, Phase.FAILED, CampaignEnd.DEAD_LETTER_PRESENT, CompletionStatus.DEAD_LETTER)
        else:
            expected = (Phase.CANCELLED, Phase.CANCELLED, CampaignEnd.CANCELLED, CompletionStatus.CANCELLED)
        assert ended is expected[0]
        require_ended(made, *expected)
        (found,) = made.completions
        assert found.terminal_evidence_digest == made.facts.control.digest  # type: ignore[union-attr]
        assert (found.batch_id, found.report_id, found.authorization_id) == (None, None, None)
        assert (made.assignment().run_id, made.assignment().activity_id) == (made.run_id, made.activity.id)

    def test_closing_again_changes_nothing(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        closure(stack).close(made.run_id)
        snapshot, before = stack.capture(), stack.state()
        assert closure(stack).close(made.run_id) is Phase.CANCELLED
        assert not stack.campaigns.project(quiet)
        assert not stack.campaigns.distil(snapshot, stack.distiller, quiet)
        assert stack.state() == before

    def test_a_worker_that_comes_late_writes_nothing(self, stack: Stack) -> None:
        made = campaign(stack, Phase.RUNNING)
        assert made.proposal is not None
        stop(stack, made.run_id, fail=False)
        (refused,) = stack.spine.carry([made.proposal])
        assert isinstance(refused, StaleError)
        closure(stack).close(made.run_id)
        (refused,) = stack.spine.carry([made.proposal])
        assert isinstance(refused, VrmError)
        assert not stack.load("distillation-batch")
        require_ended(made, Phase.CANCELLED, Phase.CANCELLED, CampaignEnd.CANCELLED, CompletionStatus.CANCELLED)

    def test_a_stale_activation_leaves_the_run_in_its_closure(self, stack: Stack) -> None:
        made = campaign(stack, Phase.AWAITING_ASSIGNMENT)
        stop(stack, made.run_id, fail=False)
        (refused,) = stack.owner.apply([activation(made.run_id)])
        assert isinstance(refused, StaleError)
        closure(stack).close(made.run_id)
        require_ended(made, Phase.CANCELLED, Phase.CANCELLED, CampaignEnd.CANCELLED, CompletionStatus.CANCELLED)


class TestGranted:
    """A grant that is unresolved is settled first; what it wrote decides."""

    def test_a_cancellation_comes_too_late(self, stack: Stack) -> None:
        made = campaign(stack, Phase.COMMITTING)
        stop(stack, made.run_id, fail=False)
        assert closure(stack).close(made.run_id) is Phase.COMPLETED
        require_ended(made, Phase.COMPLETED, Phase.COMMITTED, CampaignEnd.ALL_COMPLETED, CompletionStatus.COMPLETED)

    def test_a_failure_after_the_work(self, stack: Stack) -> None:
        made = campaign(stack, Phase.COMMITTING)
        stop(stack, made.run_id, fail=True)
        assert closure(stack).close(made.run_id) is Phase.FAILED
        require_ended(
            made, Phase.FAILED, Phase.COMMITTED, CampaignEnd.RUNTIME_FAILURE_AFTER_WORK, CompletionStatus.COMPLETED
        )

    @BOTH
    def test_what_wrote_nothing_is_closed(self, stack: Stack, *, fail: bool) -> None:
        made = campaign(stack, Phase.RUNNING)
        made.proposal = _without_its_report(made)
        (granted,) = stack.owner.grant([stack.stores.artifacts.publish(made.proposal.canonical)])
        assert not isinstance(granted, VrmError), granted
        stop(stack, made.run_id, fail=fail)
        closure(stack).close(made.run_id)
        status = CompletionStatus.DEAD_LETTER if fail else CompletionStatus.CANCELLED
        assert [each.status for each in made.completions] == [status]
        assert not stack.load("distillation-batch")
        (refused,) = stack.load("no-commit-receipt")
        assert refused.reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
        assert not checked(stack).violations

    def test_a_failure_after_a_closure(self, stack: Stack) -> None:
        """The item is cancelled already when an independent failure takes over: it stays cancelled."""
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        run, closing = run_of(stack, made.run_id), closure(stack)
        event = closing._event(run)
        all_good(stack.spine.carry([_giving_up(made, closure_completion(made.assignment(), event))]))
        stop(stack, made.run_id, fail=True)
        assert closure(stack).close(made.run_id) is Phase.FAILED
        require_ended(
            made, Phase.FAILED, Phase.CANCELLED, CampaignEnd.RUNTIME_FAILURE_AFTER_CLOSURE, CompletionStatus.CANCELLED
        )

    @BOTH
    def test_nobody_else_completes_it(self, stack: Stack, *, fail: bool) -> None:
        made = campaign(stack, Phase.COMMITTING)
        stop(stack, made.run_id, fail=fail)
        stack.recover()
        if fail:
            (refused,) = stack.owner.apply([completion(made.run_id)])
            assert isinstance(refused, StaleError)
            assert refused.field == "run.end"
        else:
            all_good(stack.owner.apply([completion(made.run_id)]))
            assert made.facts.end is CampaignEnd.ALL_COMPLETED

    def test_an_unfinished_one_is_not_completed(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        (refused,) = stack.owner.apply([completion(made.run_id)])
        assert isinstance(refused, StaleError)
        assert made.run.phase is Phase.RUNNING


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
        (refused,) = stack.spine.carry([_giving_up(made, forged)])
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
        (refused,) = stack.spine.carry([_giving_up(made, forged)])
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
        (refused,) = stack.spine.carry([_giving_up(made, closure_completion(made.assignment(), event))])
        assert isinstance(refused, StaleError)
        assert stack.state() == before

    def test_by_normal_authority(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        stop(stack, made.run_id, fail=False)
        honest = _giving_up(made, closure_completion(made.assignment(), closure(stack)._event(made.run)))
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
        made = _queued(stack)
        self.refused(made, NotFoundError)

    def test_without_its_manifest(self, stack: Stack) -> None:
        made = _queued(stack)
        all_good(stack.owner.apply([campaign_admission(campaign_run(made.item, PROFILE))]))
        self.refused(made, NotFoundError)

    def test_to_a_run_with_another_manifest(self, stack: Stack) -> None:
        """The first admission wins the key; an assignment that says another manifest is not its."""
        made = _queued(stack)
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


class TestDeadLetters:
    """What is refused for good, or too often, is given up and stays visible."""

    def test_refused_for_good(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        failures = stack.campaigns.distil(stack.capture(), _Broken(made), quiet)
        assert [each.hopeless for each in failures] == [ControlCause.WORK_REJECTED]
        buried = _dead_letters(stack).bury(failures)
        assert buried == {str(made.item.id): Phase.FAILED}
        require_ended(made, Phase.FAILED, Phase.FAILED, CampaignEnd.DEAD_LETTER_PRESENT, CompletionStatus.DEAD_LETTER)
        event = closure(stack)._event(made.run)
        assert event.cause is ControlCause.WORK_REJECTED
        assert "AUTHORIZED_PAYLOAD_REJECTED" in event.detail

    def test_too_often(self, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memory.campaigns.ATTEMPTS", 3)
        made = campaign(stack, Phase.READY)
        lease(made)
        lease(made)
        failures = stack.campaigns.distil(stack.capture(), _Late(made), quiet)
        assert [each.hopeless for each in failures] == [ControlCause.RETRY_EXHAUSTED]
        _dead_letters(stack).bury(failures)
        require_ended(made, Phase.FAILED, Phase.FAILED, CampaignEnd.DEAD_LETTER_PRESENT, CompletionStatus.DEAD_LETTER)

    def test_what_may_be_tried_again_is_left_alone(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        stale = Failure(str(made.item.id), StaleError("head", "moved", "Try again."))
        assert not _dead_letters(stack).bury([stale])
        assert made.run.phase is Phase.RUNNING


class TestScientificRuns:
    """A Run ends when its Experiences have their receipts; closure writes those that are missing."""

    def test_no_end_before_the_receipts(self, stack: Stack) -> None:
        run_id = stack.admit("source")
        stack.evidence(effects(stack, "source", {"a": 0.05}))
        (refused,) = stack.owner.apply([completion(run_id)])
        assert isinstance(refused, StaleError)
        assert "receipt" in str(refused)
        assert not stack.campaigns.ingest(run_id, quiet)
        stack.complete(run_id)
        assert run_of(stack, run_id).phase is Phase.COMPLETED

    @BOTH
    def test_closure_writes_what_is_missing(self, stack: Stack, *, fail: bool) -> None:
        run_id = stack.admit("source")
        stack.evidence(effects(stack, "source", {"a": 0.05}))
        stop(stack, run_id, fail=fail)
        assert stack.campaigns.ingest(run_id, quiet)  # nothing more is queued for a Run that is ending
        assert not stack.load("distillation-work-item")
        ended = closure(stack).close(run_id)
        assert ended is (Phase.FAILED if fail else Phase.CANCELLED)
        reasons = {reason for receipt in stack.load("distillation-receipt") for reason in receipt.reasons}
        assert reasons == {"source_run_failed" if fail else "source_run_cancelled"}
        assert len(stack.load("distillation-receipt")) == 2
        activity = stack.stores.runtime.subject(Machine.ACTIVITY, str(activity_id(run_id, "sweep")))
        assert activity is not None
        assert activity.phase is ended
        assert not checked(stack).violations

    def test_what_was_queued_stays_queued(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        source = stack.body("source").id
        stop(stack, source, fail=False)
        assert closure(stack).close(source) is Phase.CANCELLED
        assert not stack.campaigns.distil(stack.capture(), stack.distiller, quiet)
        assert [each.status for each in made.completions] == [CompletionStatus.COMPLETED]
        assert made.facts.end is CampaignEnd.ALL_COMPLETED

    def test_an_ended_one_opens_no_handoff(self, stack: Stack) -> None:
        run_id = stack.admit("source")
        stop(stack, run_id, fail=False)
        closure(stack).close(run_id)
        with pytest.raises(IllegalTransitionError):
            stop(stack, run_id, fail=True)
        stack.evidence(effects(stack, "source", {"a": 0.05})[:1])
        assert stack.campaigns.ingest(run_id, quiet)
        assert not stack.stores.runtime.find(Machine.HANDOFF, run_id=run_id)


class _Broken:
    """A distiller whose proposals no Ledger would take: the report is of another outcome."""

    def __init__(self, made: Campaign) -> None:
        self._stack = made.stack

    def propose(self, requests: Any) -> list[Proposal]:
        return [_spoiled(each) for each in self._stack.distiller.propose(requests)]


class _Late:
    """A distiller whose attempts are over when it answers."""

    def __init__(self, made: Campaign) -> None:
        self._stack = made.stack

    def propose(self, requests: Any) -> list[Proposal]:
        proposals = self._stack.distiller.propose(requests)
        return [each.model_copy(update={"fence": each.fence - 1}) for each in proposals]


def _spoiled(proposal: Proposal) -> Proposal:
    """Return a proposal whose report says another outcome than its disposition; the guard rejects it for good."""
    records = []
    for record in proposal.unpack():
        if record.kind.noun == "distillation-report":
            record = record.model_copy(update={"work_outcome": "rejected_no_candidate"})  # noqa: PLW2901
            record = type(record).load(record.canonical)  # noqa: PLW2901
        records.append(record)
    return proposal.model_copy(update={"records": Proposal.bodies(tuple(records))})


def _without_its_report(made: Campaign) -> Proposal:
    assert made.proposal is not None
    return _spoiled(made.proposal)


def _giving_up(made: Campaign, completed: WorkCompletion) -> Proposal:
    activity = made.activity
    return Proposal(
        namespace=made.stack.namespace,
        transition=Transition.CLOSE_WORK_ITEM,
        authority=Authority.RUNTIME_CLOSURE,
        machine=Machine.ACTIVITY,
        subject_id=str(activity_id(made.run_id, SLOT)),
        run_id=made.run_id,
        generation=activity.generation,
        fence=activity.fence,
        records=Proposal.bodies((completed,)),
    )


def _dead_letters(stack: Stack) -> DeadLetters:
    return DeadLetters(commands(stack), closure(stack), stack.namespace)


def _queued(stack: Stack) -> Campaign:
    source = stack.admit("source")
    stack.evidence(effects(stack, "source", {"a": 0.05})[:1])
    assert not stack.campaigns.ingest(source, quiet)
    return Campaign(stack)
