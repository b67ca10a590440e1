"""Campaigns that are cancelled or fail, at every phase, and the end that each of them has (spec 8.1, VRM-W09)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory.assignments import activation
from memory.campaigns import Failure
from memory.dead_letters import DeadLetter, DeadLetters, dead_letters
from memory.distillation.distiller import KnowledgeDistiller
from memory.leases import ATTEMPTS, completion
from memory.ports import all_good
from memory.work_closure import closure_completion
from memory.work_state import work_of
from records.appends import Proposal
from records.control import BudgetLimit, CampaignEnd, ControlCause
from records.errors import (
    IllegalTransitionError,
    StaleError,
    VrmError,
)
from records.ingestion import CompletionStatus
from records.outcomes import NoCommitReason
from records.runtime import activity_id
from records.states import Machine, Phase
from tests.support.stack import POLICIES, Stack, effects, quiet
from tests.support.stack_campaigns import UNASSIGNED, Campaign, campaign, giving_up
from tests.support.stack_control import checked, closure, commands, run_of, stop
from tests.support.stores import ticking_clock

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
        all_good(stack.spine.carry([giving_up(made, closure_completion(made.assignment(), event))]))
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


class TestDeadLetters:
    """What is refused for good, or too often, is given up and stays visible."""

    def test_refused_for_good(self, stack: Stack) -> None:
        made = campaign(stack, Phase.READY)
        failures = stack.campaigns.distil(stack.capture(), _Broken(stack), quiet)
        assert [each.hopeless for each in failures] == [ControlCause.WORK_REJECTED]
        buried = _dead_letters(stack).bury(failures)
        assert buried == {str(made.item.id): Phase.FAILED}
        require_ended(made, Phase.FAILED, Phase.FAILED, CampaignEnd.DEAD_LETTER_PRESENT, CompletionStatus.DEAD_LETTER)
        event = closure(stack)._event(made.run)
        assert event.cause is ControlCause.WORK_REJECTED
        assert "AUTHORIZED_PAYLOAD_REJECTED" in event.detail
        (letter,) = letters(stack)
        assert (letter.work_item_id, letter.experience_id) == (made.item.id, made.item.experience_id)
        assert (letter.run_id, letter.at, letter.cause) == (made.run_id, event.at, ControlCause.WORK_REJECTED)
        assert letter.detail == event.detail
        assert letter.decisions == ()

    def test_what_is_given_up_is_named_with_the_decisions_that_rest_on_its_evidence(self, stack: Stack) -> None:
        """Another item of the comparison carries it: nothing that was learned is lost with a dead letter."""
        source = stack.admit("source")
        stack.evidence(effects(stack, "source", {"a": 0.05, "b": 0.05, "c": 0.05}))
        assert not stack.campaigns.ingest(source, quiet)
        assert not stack.campaigns.project(quiet)
        given_up, *others = stack.campaigns.waiting()
        lost = Failure(str(given_up[0].id), StaleError("head", "moved", "no more"), ControlCause.RETRY_EXHAUSTED)
        assert _dead_letters(stack).bury([lost]) == {given_up[0].id: Phase.FAILED}
        assert not stack.campaigns.distil(stack.capture(), stack.distiller, quiet, others)
        assert not stack.campaigns.waiting()
        (letter,) = letters(stack)
        decided = [each.id for each in stack.load("distillation-decision")]
        assert list(letter.decisions) == decided
        assert len(decided) == 1
        assert "another Experience" in letter.remedy
        assert not checked(stack).violations

    def test_a_record_that_somebody_else_wrote_meanwhile_is_no_reason_to_give_up(self, stack: Stack) -> None:
        """Two drivers lead a variant whose Decision makes no event: the second finds the first one's Decision."""
        source = stack.admit("source")
        stack.evidence(effects(stack, "source", {"a": 0.0, "b": 0.001, "c": -0.001, "d": 0.0}))
        assert not stack.campaigns.ingest(source, quiet)
        assert not stack.campaigns.project(quiet)
        snapshot, (first, second, *_) = stack.capture(), stack.campaigns.waiting()
        late = _Overtaken(stack, lambda: stack.campaigns.distil(snapshot, stack.distiller, quiet, [second]))
        (failure,) = stack.campaigns.distil(snapshot, late, quiet, [first])
        assert (failure.error.value, failure.hopeless) == ("CANONICAL_RECORD_CONFLICT", None)
        assert not stack.campaigns.distil(snapshot, stack.distiller, quiet)
        assert not stack.campaigns.waiting()
        assert len(stack.load("distillation-decision")) == 1

    def test_who_rests_on_what_was_refused_for_good_is_tried_again(self, stack: Stack) -> None:
        """The Decision that was to cover them did not come about; in the next pass another item leads."""
        source = stack.admit("source")
        stack.evidence(effects(stack, "source", {"a": 0.05, "b": 0.05, "c": 0.05}))
        assert not stack.campaigns.ingest(source, quiet)
        assert not stack.campaigns.project(quiet)
        snapshot, waiting = stack.capture(), [item.id for item, _ in stack.campaigns.waiting()]
        failures = {each.subject: each for each in stack.campaigns.distil(snapshot, _Broken(stack, first=True), quiet)}
        leader, *followers = waiting
        assert failures.keys() == set(waiting)
        assert failures[leader].hopeless is ControlCause.WORK_REJECTED
        for each in followers:
            assert (failures[each].error.value, failures[each].hopeless) == ("PRECONDITION_CONFLICT", None)
        assert _dead_letters(stack).bury(failures.values()) == {leader: Phase.FAILED}
        assert not stack.campaigns.distil(snapshot, stack.distiller, quiet)
        ends = {each.work_item_id: each.status for each in stack.load("distillation-work-completion")}
        assert ends == dict.fromkeys(followers, CompletionStatus.COMPLETED) | {leader: CompletionStatus.DEAD_LETTER}
        assert not checked(stack).violations

    def test_too_often(self, stack: Stack) -> None:
        stack.campaigns._budget = (BudgetLimit(resource=ATTEMPTS, limit=2),)
        made = campaign(stack, Phase.READY)
        assert not made.completions
        for _ in range(2):
            (late,) = stack.campaigns.distil(stack.capture(), _Late(made), quiet)
            assert late.hopeless is None
        failures = stack.campaigns.distil(stack.capture(), stack.distiller, quiet)
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
        assert not stack.campaigns.ingest(run_id, quiet)
        (receipt,) = stack.load("distillation-receipt")
        assert (receipt.work_item_id, receipt.reasons) == (None, ("source_run_over",))
        assert not stack.stores.runtime.find(Machine.HANDOFF, run_id=run_id)


class _Broken:
    """A distiller whose proposals, or the first of them, no Ledger would take: the report is of another outcome."""

    def __init__(self, stack: Stack, *, first: bool = False) -> None:
        self._stack, self._count = stack, 1 if first else None

    def propose(self, requests: Any) -> list[Proposal]:
        made = self._stack.distiller.propose(requests)
        return [*map(_spoiled, made[: self._count]), *(made[self._count :] if self._count else ())]


class _Late:
    """A distiller whose attempts are over when it answers."""

    def __init__(self, made: Campaign) -> None:
        self._stack = made.stack

    def propose(self, requests: Any) -> list[Proposal]:
        proposals = self._stack.distiller.propose(requests)
        return [each.model_copy(update={"fence": each.fence - 1}) for each in proposals]


class _Overtaken:
    """A distiller that is overtaken after it has proposed."""

    def __init__(self, stack: Stack, meanwhile: Callable[[], object]) -> None:
        self._stack, self._meanwhile = stack, meanwhile

    def propose(self, requests: Any) -> list[Proposal]:
        proposals = KnowledgeDistiller(self._stack.stores.ledger, POLICIES, ticking_clock()).propose(requests)
        self._meanwhile()
        return proposals


def letters(stack: Stack) -> list[DeadLetter]:
    """Return the dead letters of the namespace."""
    ledger = stack.stores.ledger
    return dead_letters(ledger, stack.stores.artifacts, stack.namespace, work_of(ledger, stack.namespace))


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


def _dead_letters(stack: Stack) -> DeadLetters:
    return DeadLetters(commands(stack), closure(stack), stack.namespace)
