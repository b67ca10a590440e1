"""What the closure of a decision may not rest on: neither side of the spine takes it, published or not (spec 9.7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.closure import closure_outcome
from memory.guards import GUARDS
from records.appends import AppendReceipt, Proposal
from records.control import (
    ControlCause,
    ControlEvent,
    ControlKind,
)
from records.decisions import DecisionIntent
from records.errors import (
    IntegrityError,
    InvalidRecordError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import Authority, Transition
from records.ids import IntentId, RunId
from records.outcomes import (
    CLOSURE_ONLY,
    DecisionStatus,
    NoCommitReason,
    RecallOutcome,
    TerminalEvidenceKind,
    TerminalReason,
)
from records.runtime import Authorization
from records.states import Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore, Request
from store.runtime.port import RuntimeStore
from tests.contract.test_control import event, taken
from tests.contract.test_spine_authority import House
from tests.support.stack import Stores
from tests.support.stack_control import checked, closure
from tests.support.stores import expect, fresh_namespace, granted
from tests.support.trials import NOW

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


class Court(House):
    """A house with two open decisions, cancelled; what its closure may write, and what somebody else would like to."""

    def cancelled(self) -> Court:
        self.one, self.two = self.opened(0), self.opened(1)
        self.primary = event(self)
        taken(self, self.primary)
        return self

    def closed(self, intent: DecisionIntent, by: ControlEvent | None = None, **changes: Any) -> Proposal:
        outcome = closure_outcome(intent, None, by or self.primary)
        return self.asked(intent, RecallOutcome.load(outcome.model_copy(update=changes).canonical))

    def forged(self, intent: DecisionIntent, **changes: Any) -> Proposal:
        """Propose an outcome that no constructor would make."""
        return self.asked(intent, closure_outcome(intent, None, self.primary).model_copy(update=changes))

    def asked(self, intent: DecisionIntent, outcome: RecallOutcome, **changes: Any) -> Proposal:
        fields: dict[str, Any] = {"transition": Transition.APPEND_OUTCOME, "authority": Authority.RUNTIME_CLOSURE}
        return self.proposal(intent, (outcome,), **(fields | changes))

    def published(self, given: ControlEvent) -> ControlEvent:
        self.stores.artifacts.publish(given.canonical)
        return given

    def wrong(self) -> Iterator[tuple[str, Proposal, type[VrmError]]]:
        """Yield proposals that rest on the wrong thing: valid in themselves, or forged past the type."""
        one, other = self.one, self.published(event(self, at="2026-01-01T00:00:00.000000Z"))
        failure = self.published(event(self, ControlKind.RUNTIME_FAILURE))
        yield "another event of this run", self.closed(one, other), IntegrityError
        yield "an event of another kind", self.closed(one, failure), IntegrityError
        yield "an event that nobody published", self.closed(one, event(self, detail="forged")), NotFoundError
        foreign = event(self, run_id=RunId.derive({"another": "run"}))
        self.published(foreign)
        yield (
            "the event of another run",
            self.closed(one, terminal_evidence_digest=foreign.canonical_digest),
            IntegrityError,
        )
        swapped: dict[str, Any] = {"terminal_reason": TerminalReason.CANCELLED_BY_INCIDENT}
        yield "another cause", self.closed(one, **swapped), IntegrityError
        kind: dict[str, Any] = {
            "terminal_evidence_kind": TerminalEvidenceKind.RUNTIME_FAILURE,
            "terminal_reason": TerminalReason.RUNTIME_FAILURE_CLOSURE,
            "decision_status": DecisionStatus.ACTOR_FAILED,
        }
        yield "another kind", self.closed(one, **kind), IntegrityError
        pause = self.published(event(self, ControlKind.PAUSE))
        yield "a pause", self.closed(one, terminal_evidence_digest=pause.canonical_digest), IntegrityError
        none = {"terminal_evidence_kind": None, "terminal_evidence_digest": None}
        yield "no event", self.forged(one, **none), InvalidRecordError
        yield "closure claims completed", self.asked(one, self.outcome(one)), IntegrityError
        normal = self.closed(one).model_copy(update={"authority": Authority.NORMAL})
        yield "normal authority claims cancelled", normal, IntegrityError
        draft = {"proposed_knob": "scaler", "proposed_value": '"standard"'}
        yield "what an actor had proposed", self.forged(one, **draft), InvalidRecordError
        yield "another time", self.closed(one, None, created_at="2026-01-01T00:00:00.000000Z"), IntegrityError
        evidence: dict[str, Any] = {
            "decision_status": DecisionStatus.REJECTED,
            "terminal_reason": TerminalReason.PREFLIGHT_REJECTED,
            "memory_binding_digest": None,
        }
        refused = self.forged(one, **evidence).model_copy(update={"authority": Authority.NORMAL})
        yield "normal authority brings an event", refused, InvalidRecordError


@pytest.fixture
def court(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Court:
    made = Court(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace())
    made.begin()
    return made.cancelled()


class TestForgedClosure:
    def test_the_issuer_grants_none(self, court: Court) -> None:
        cases = list(court.wrong())
        before = court.state()
        for name, proposal, error in cases:
            assert isinstance(court.grant(proposal), error), name
        assert court.state() == before
        self.whole(court)

    def test_the_coordinator_appends_none(self, court: Court) -> None:
        """As if somebody had put a grant into the Runtime by himself."""
        cases = [each for each in court.wrong() if each[2] is not InvalidRecordError]  # those are no records to permit
        before = court.journal()
        for place, (name, proposal, error) in enumerate(cases, start=2):
            sent = proposal.model_copy(update={"fence": place})  # each is an authorization of its own
            key = self.planted(court, sent)
            assert isinstance(court.coordinator.append_granted([key])[0], error), name
        assert court.journal() == before

    def test_the_actor_of_another_decision(self, court: Court) -> None:
        """A failure that names one decision's actor is no failure of another one's."""
        house = House(court.stores, fresh_namespace()).begin()
        one, two = house.opened(0), house.opened(1)
        failure = event(
            house,
            ControlKind.RUNTIME_FAILURE,
            cause=ControlCause.ACTOR_INVOCATION_FAILED,
            intent_id=IntentId(one.id),
        )
        taken(house, failure)
        swapped = closure_outcome(two, None, failure).model_copy(
            update={"terminal_reason": TerminalReason.ACTOR_INVOCATION_FAILED}
        )
        fields = {"transition": Transition.APPEND_OUTCOME, "authority": Authority.RUNTIME_CLOSURE}
        before = house.state()
        assert isinstance(house.grant(house.proposal(two, (swapped,), **fields)), IntegrityError)
        own = closure_outcome(one, None, failure)
        assert isinstance(house.grant(house.proposal(two, (own,), **fields)), IntegrityError)
        assert house.state() == before
        assert closure(house).close(house.run_id) is Phase.FAILED
        reasons = {outcome.intent_id: outcome.terminal_reason for outcome in house.load("recall-decision-outcome")}
        assert reasons == {
            one.id: TerminalReason.ACTOR_INVOCATION_FAILED,
            two.id: TerminalReason.RUNTIME_FAILURE_CLOSURE,
        }
        assert checked(house).clean

    def test_closure_needs_a_run_that_closes(self, court: Court) -> None:
        house = House(court.stores, fresh_namespace()).begin()
        intent = house.opened()
        cancel = event(house)
        house.stores.artifacts.publish(cancel.canonical)
        proposal = house.proposal(
            intent,
            (closure_outcome(intent, None, cancel),),
            transition=Transition.APPEND_OUTCOME,
            authority=Authority.RUNTIME_CLOSURE,
        )
        before = house.state()
        assert isinstance(house.grant(proposal), StaleError)
        assert house.state() == before
        key = self.planted(house, proposal)
        journal = house.journal()
        assert isinstance(house.coordinator.append_granted([key])[0], IntegrityError)
        assert house.journal() == journal

    @pytest.mark.parametrize("kind", [None, TerminalEvidenceKind.RUNTIME_FAILURE])
    def test_the_ledger_refuses_evidence_of_another_status(
        self, court: Court, kind: TerminalEvidenceKind | None
    ) -> None:
        """Inside the transaction, where neither Runtime nor artifacts are asked."""
        good = closure_outcome(court.one, None, court.primary)
        wrong = good.model_copy(
            update={"terminal_evidence_kind": kind, "terminal_evidence_digest": kind and good.terminal_evidence_digest}
        )
        ledger = court.stores.ledger
        epoch = ledger.claim(f"writer/{court.namespace}", "test")
        for name, outcome, reason in (("wrong", wrong, NoCommitReason.PRECONDITION_CONFLICT), ("good", good, None)):
            append = granted(Transition.APPEND_OUTCOME, [outcome], name, Authority.RUNTIME_CLOSURE)
            (receipt,) = ledger.commit(epoch, [Request(append, GUARDS[Transition.APPEND_OUTCOME])])
            assert expect(AppendReceipt, receipt).reason is reason

    def whole(self, court: Court) -> None:
        """The two decisions are closed by the primary event after all."""
        assert closure(court).close(court.run_id) is Phase.CANCELLED
        outcomes = court.load("recall-decision-outcome")
        assert {outcome.terminal_evidence_digest for outcome in outcomes} == {court.primary.canonical_digest}
        assert {outcome.decision_status for outcome in outcomes} <= CLOSURE_ONLY
        assert len(outcomes) == 2
        report = checked(court)
        assert report.clean, report.violations

    def planted(self, house: House, proposal: Proposal) -> str:
        (record,) = proposal.unpack()
        body = Authorization(
            **{name: getattr(proposal, name) for name in Authorization.model_fields if name in Proposal.model_fields},
            origin_phase=Phase.OPEN,
            expected_id=str(record.id),
            expected_digest=record.payload_digest,
            proposal_digest=house.stores.artifacts.publish(proposal.canonical),
            granted_at=NOW,
        )
        house.plant(body, str(body.id))
        return str(body.id)
