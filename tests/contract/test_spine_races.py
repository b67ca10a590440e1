"""Two at once on one scope variant: one leads, the other gets a typed no-commit and follows on its next pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from memory.campaigns import Campaigns
from memory.distillation.distiller import DistillationRequest, KnowledgeDistiller
from memory.heads import HOLD_SECONDS
from memory.leases import ATTEMPTS
from memory.ports import RunOwnerPort
from records.appends import AppendReceipt, Proposal
from records.conflicts import HeadConflict
from records.control import BudgetLimit
from records.errors import BudgetExceededError, FencedError, StaleError, VrmError
from records.ids import EvidenceSnapshotId
from records.ingestion import WorkOutcome
from records.knowledge import GENESIS, LifecycleEvent
from records.outcomes import NoCommitReason
from records.runtime import Applied, Command, Subject
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.stack import GOOD, POLICIES, Stack, Stores, effects, quiet, record_of
from tests.support.stores import expect, fresh_namespace, ticking_clock

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


class Race(Stack):
    """A stack whose items are assigned and not distilled, and two distillers that know nothing of each other."""

    def begin(self) -> Race:
        run_id = self.admit("first")
        self.evidence(effects(self, "first", GOOD))
        assert not self.campaigns.ingest(run_id, quiet)
        assert not self.campaigns.project(quiet)
        self.snapshot = self.capture()
        return self

    def lease(self, place: int) -> DistillationRequest:
        (request,), _ = self.campaigns._lease([self.campaigns.waiting()[place]], self.snapshot)
        return request

    def propose(self, request: DistillationRequest) -> Proposal:
        """Let a distiller of its own propose, as another process would."""
        (proposal,) = KnowledgeDistiller(self.stores.ledger, POLICIES, ticking_clock()).propose([request])
        return proposal

    def carry(self, proposal: Proposal) -> AppendReceipt:
        receipt: AppendReceipt = expect(AppendReceipt, self.spine.carry([proposal])[0])
        return receipt

    def activity(self, request: DistillationRequest) -> Subject:
        subject: Subject = expect(Subject, self.stores.runtime.subject(Machine.ACTIVITY, request.activity.id))
        return subject

    def finish(self, snapshot: EvidenceSnapshotId | None = None) -> None:
        assert not self.campaigns.distil(snapshot or self.snapshot, self.distiller, quiet)
        assert not self.campaigns.waiting()
        assert not self.granted_here()

    def granted_here(self) -> list[Subject]:
        runs = {str(item.run_id) for item in self.load("distillation-work-assignment")}
        found = self.stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED])
        return [subject for subject in found if subject.run_id in runs]


@pytest.fixture
def race(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Race:
    return Race(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace()).begin()


def nouns(proposal: Proposal) -> set[str]:
    return {body.noun for body in proposal.records}


class TestHeadStale:
    def test_one_leads_and_the_other_follows_on_its_next_pass(self, race: Race) -> None:
        requests = [race.lease(0), race.lease(1)]
        first, second = [race.propose(request) for request in requests]
        assert "knowledge-lifecycle-event" in nouns(first) & nouns(second), "both think that they lead"
        assert race.carry(first).committed
        before = race.journal()

        receipt = race.carry(second)

        assert receipt.reason is NoCommitReason.LIFECYCLE_HEAD_STALE
        late = race.activity(requests[1])
        assert (late.phase, late.generation, late.fence) == (Phase.READY, 2, 2)
        refusal = expect(HeadConflict, record_of(race, str(receipt.no_commit_id)))
        (head,) = refusal.heads
        (event,) = race.load("knowledge-lifecycle-event")
        assert (head.scope_variant_id, head.expected, head.observed) == (event.scope_variant_id, GENESIS, event.id)
        after = race.journal()
        assert after[: len(before)] == before
        assert [row.id for row in after[len(before) :]] == [receipt.no_commit_id], "the refusal is all that was written"

        race.finish()
        item = requests[1].item
        (disposition,) = [each for each in race.load("distillation-work-disposition") if each.work_item_id == item.id]
        assert disposition.outcome is WorkOutcome.COVERED
        assert len(race.load("memory-record")) == len(race.load("knowledge-lifecycle-event")) == 1
        assert race.activity(requests[1]).phase is Phase.COMMITTED

    def test_the_refusal_is_the_answer_for_ever(self, race: Race) -> None:
        requests = [race.lease(0), race.lease(1)]
        first, second = [race.propose(request) for request in requests]
        race.carry(first)
        refused = race.carry(second)
        race.finish()
        before = race.state()
        assert race.coordinator.append_granted([refused.permit_key]) == [refused]
        assert race.owner.reconcile([refused.permit_key]) == [refused]
        assert race.state() == before

    def test_the_old_proposal_cannot_be_granted_again(self, race: Race) -> None:
        """Its attempt is over: the same bytes get the same spent authorization, others of that fence are stale."""
        requests = [race.lease(0), race.lease(1)]
        first, second = [race.propose(request) for request in requests]
        race.carry(first)
        refused = race.carry(second)
        assert race.carry(second) == refused
        assert isinstance(race.spine.carry([race.propose(requests[1])])[0], StaleError)
        race.finish()

    def test_both_in_one_group_end_alike(self, race: Race) -> None:
        requests = [race.lease(0), race.lease(1)]
        answers = race.spine.carry([race.propose(request) for request in requests])
        reasons = [expect(AppendReceipt, answer).reason for answer in answers]
        assert reasons == [None, NoCommitReason.LIFECYCLE_HEAD_STALE]
        race.finish()

    def test_a_follower_whose_leader_was_refused_writes_nothing(self, race: Race) -> None:
        """It names a Decision that is not there; the append is refused whole, and done right on the next pass."""
        leader, follower = race.distiller.propose([race.lease(0), race.lease(1)])
        assert "distillation-decision" not in nouns(follower)
        receipt = race.carry(follower)
        assert receipt.reason is NoCommitReason.PRECONDITION_CONFLICT
        assert not race.load("distillation-report")
        assert race.carry(leader).committed
        race.finish()


class TestLeases:
    def test_a_worker_whose_lease_was_taken_over_is_refused_at_the_grant(self, race: Race) -> None:
        old = race.lease(0)
        late = race.propose(old)
        new = race.lease(0)
        assert (new.activity.generation, new.activity.fence) == (2, 2)
        before = race.journal()
        assert isinstance(race.spine.carry([late])[0], StaleError)
        assert race.journal() == before
        assert race.carry(race.propose(new)).committed
        race.finish()

    def test_a_lease_does_not_take_over_an_unresolved_grant(self, race: Race) -> None:
        request = race.lease(0)
        digest = race.stores.artifacts.publish(race.propose(request).canonical)
        (grant,) = race.owner.grant([digest])
        assert not isinstance(grant, VrmError)
        assert race.campaigns._lease([race.campaigns.waiting()[0]], race.snapshot) == ([], [])
        subject = race.stores.runtime.subject(Machine.ACTIVITY, request.activity.id)
        assert subject is not None
        assert (subject.phase, subject.fence) == (Phase.COMMITTING, 1)
        (settled,) = [answer for answer in race.recover() if isinstance(answer, AppendReceipt)]
        assert settled.committed
        race.finish()

    def test_a_lease_whose_reply_was_lost_is_a_lease(self, race: Race) -> None:
        class Deaf:
            def __init__(self, owner: RunOwnerPort) -> None:
                self.grant, self.reconcile, self._apply = owner.grant, owner.reconcile, owner.apply

            def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
                self._apply(commands)
                return self._apply(commands)  # as a retry after a lost reply does

        ports = replace(race.campaigns._ports, owner=Deaf(race.campaigns._ports.owner))
        deaf = Campaigns(ports, POLICIES, race.campaigns._profile, race.campaigns._namespace)
        (request,), _ = deaf._lease([race.campaigns.waiting()[0]], race.snapshot)
        assert (request.activity.phase, request.activity.fence) == (Phase.RUNNING, 1)
        assert race.carry(race.propose(request)).committed
        race.finish()

    def test_another_driver_waits_for_the_deadline_and_does_the_rest_meanwhile(self, race: Race) -> None:
        now = "2025-03-01T12:00:00.000000Z"
        held = race.lease(0)
        other = Stack(race.stores, race.namespace, clock=lambda: now, holder="other")
        (failure,) = other.campaigns.distil(race.snapshot, other.distiller, quiet)
        assert (failure.subject, type(failure.error)) == (held.item.id, StaleError)
        assert "held by test until 2025-03-01T12:15:00" in failure.error.value
        assert race.counts()["distillation-work-completion"] == 7
        now = "2025-03-01T12:16:00.000000Z"
        assert not other.campaigns.distil(race.snapshot, other.distiller, quiet)
        assert race.counts()["distillation-work-completion"] == 8
        assert isinstance(other.spine.carry([race.propose(held)])[0], StaleError), "it came too late"

    def test_a_campaign_that_may_not_try_again_is_left_waiting(self, race: Race) -> None:
        """Its Budget Envelope is the one that its admission gave it."""
        limits = (BudgetLimit(resource=ATTEMPTS, limit=1),)
        ports = race.campaigns._ports
        race.admit("second")
        race.evidence(effects(race, "second", {"e": 0.05}, seed=1))
        assert not race.campaigns.ingest(race.body("second").id, quiet)
        thrifty = Campaigns(ports, POLICIES, race.campaigns._profile, race.namespace, limits)
        fresh = {item.id for item in thrifty.unassigned()}
        assert not thrifty.project(quiet)
        waiting = [each for each in thrifty.waiting() if each[0].id in fresh]
        assert len(waiting) == len(fresh) == 2
        requests, refused = thrifty._lease(waiting, race.snapshot)
        assert (len(requests), refused) == (2, [])
        requests, refused = thrifty._lease(waiting, race.snapshot)
        assert requests == []
        assert {type(failure.error) for failure in refused} == {BudgetExceededError}

    def test_two_drivers_over_one_namespace(self, race: Race) -> None:
        """While one waits for its proposals the other does all the work; the first finds every attempt over."""

        class Overtaken:
            def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
                proposals = KnowledgeDistiller(race.stores.ledger, POLICIES, ticking_clock()).propose(requests)
                race.finish()
                return proposals

        failures = race.campaigns.distil(race.snapshot, Overtaken(), quiet)
        assert {type(failure.error) for failure in failures} == {StaleError}
        assert len(failures) == 8
        assert len(race.load("memory-record")) == 1
        assert race.counts()["distillation-work-completion"] == 8


class TestReservations:
    def test_a_head_that_another_plan_holds_makes_the_group_wait(self, race: Race) -> None:
        event = next(item for item in race.propose(race.lease(0)).unpack() if isinstance(item, LifecycleEvent))
        race.heads.reserve(race.namespace, "another plan", [event])
        before = race.journal()
        failures = race.campaigns.distil(race.snapshot, race.distiller, quiet)
        assert {type(failure.error) for failure in failures} == {StaleError}
        assert race.journal() == before
        race.heads.release("another plan")
        race.finish()

    def test_a_driver_that_died_between_reserving_and_releasing(self, race: Race) -> None:
        """The host lives on with the dead plan's reservation, which lapses."""
        event = next(item for item in race.propose(race.lease(0)).unpack() if isinstance(item, LifecycleEvent))
        race.heads.reserve(race.namespace, "dead", [event])
        assert race.campaigns.distil(race.snapshot, race.distiller, quiet)
        later = race.heads.host._seconds() + HOLD_SECONDS
        race.heads.host._seconds = lambda: later
        race.finish()

    def test_a_replaced_host_passes_nothing(self, race: Race) -> None:
        """The epoch of the reservation is held to the end of the commit: the whole group is refused."""
        proposal = race.propose(race.lease(0))
        event = next(item for item in proposal.unpack() if isinstance(item, LifecycleEvent))
        (reserved,) = race.heads.reserve(race.namespace, "plan", [event])
        race.stores.ledger.claim(reserved.fence[0], "successor")
        before = race.journal()
        with pytest.raises(FencedError):
            race.spine.carry([proposal], [reserved.fence])
        assert race.journal() == before
        race.recover()
        successor = Stack(race.stores, race.namespace)
        assert not successor.campaigns.distil(race.snapshot, successor.distiller, quiet)
        assert len(race.load("memory-record")) == 1
