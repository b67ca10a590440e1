"""Propose, grant, append, reconcile on both adapters: grants replay, ends are final, transactions never overlap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from memory.coordinator import CommitCoordinator
from memory.run_owner import RunOwner
from records.appends import Append, AppendReceipt, Proposal
from records.base import Record
from records.decisions import DecisionIntent
from records.errors import (
    FencedError,
    IdentityConflictError,
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import Authority, Transition
from records.outcomes import NoCommitReason, OutcomeReason, SourceStatus
from records.runtime import Authorization, Command, Create, Move
from records.states import Event, Machine, Phase
from records.values import RecallRequirement
from store import owners
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.decision_samples import make_intent, make_outcome, sample_records
from tests.support.governance import manifest, publish_admitted
from tests.support.samples import Common, run_of
from tests.support.stores import Addresses, evidence_append, expect, fresh_namespace, ticking_clock
from tests.support.trials import digest, make_contract


@dataclass
class Spine:
    """Both owners of a namespace with one admitted Run."""

    ledger: LedgerStore
    runtime: RuntimeStore
    artifacts: ArtifactStore
    namespace: str

    def __post_init__(self) -> None:
        self.owner = RunOwner(self.runtime, self.ledger, self.artifacts, ticking_clock(), "test")
        self.coordinator = CommitCoordinator(self.ledger, self.runtime, self.artifacts, "test")
        admitted = manifest(RecallRequirement.REGISTERED_NOT_REQUESTED)
        publish_admitted(self.artifacts, RecallRequirement.REGISTERED_NOT_REQUESTED)
        run = run_of(self.namespace, admitted.canonical_digest)
        made = Create(
            machine=Machine.RUN, id=str(run.id), run_id=run.id, phase=Phase.RUNNING, body=run.canonical.decode()
        )
        self.owner.apply([Command(key=(Machine.RUN, str(run.id)), creates=(made,))])
        self.coordinator.append_direct([evidence_append([make_contract(self.namespace)])])
        self.view, self.intent = make_intent(Common(self.namespace), sample_records(self.namespace), manifest=admitted)

    def propose(
        self,
        transition: Transition,
        records: tuple[Record, ...],
        authority: Authority = Authority.NORMAL,
        at: tuple[int, int] = (1, 1),
    ) -> str:
        proposal = Proposal(
            namespace=self.namespace,
            transition=transition,
            authority=authority,
            machine=Machine.DECISION,
            subject_id=str(self.intent.id),
            run_id=run_of(self.namespace).id,
            generation=at[0],
            fence=at[1],
            records=Proposal.bodies(records),
        )
        return self.artifacts.publish(proposal.canonical)

    def propose_intent(self, created_at: str | None = None, at: tuple[int, int] = (1, 1)) -> str:
        intent: DecisionIntent = self.intent
        if created_at:
            intent = intent.model_copy(update={"created_at": created_at})
        return self.propose(Transition.APPEND_INTENT, (self.view, intent), Authority.ADMISSION, at)

    def outcome(self, plan: str = "plan") -> Record:
        outcome = make_outcome(
            Common(self.namespace), self.intent, None, SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM
        )
        return outcome.model_copy(update={"artifact_digest": digest(plan)})

    def grant(self, proposal: str) -> Authorization | VrmError:
        return self.owner.grant([proposal])[0]

    def carry(self, proposal: str) -> AppendReceipt:
        grant = expect(Authorization, self.grant(proposal))
        return self.finish(str(grant.id))

    def finish(self, authorization_id: str) -> AppendReceipt:
        appended = expect(AppendReceipt, self.coordinator.append_granted([authorization_id])[0])
        settled: AppendReceipt = expect(AppendReceipt, self.owner.reconcile([authorization_id])[0])
        assert settled == appended
        return settled

    def phase(self) -> Phase | None:
        subject = self.runtime.subject(Machine.DECISION, str(self.intent.id))
        return None if subject is None else subject.phase


@pytest.fixture
def spine(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Spine:
    return Spine(ledger, runtime, ArtifactStore(str(tmp_path)), fresh_namespace())


class TestGrants:
    def test_whole_way_of_a_control_decision(self, spine: Spine) -> None:
        assert spine.carry(spine.propose_intent()).committed
        assert spine.phase() is Phase.OPEN
        assert spine.carry(spine.propose(Transition.APPEND_OUTCOME, (spine.outcome(),))).committed
        assert spine.phase() is Phase.OUTCOME_COMMITTED

    def test_same_proposal_gets_the_same_authorization_at_any_time(self, spine: Spine) -> None:
        proposal = spine.propose_intent()
        first = expect(Authorization, spine.grant(proposal))
        assert spine.grant(proposal) == first
        assert spine.owner.grant([proposal, proposal]) == [first, first]
        spine.coordinator.append_granted([str(first.id)])
        assert spine.grant(proposal) == first
        spine.owner.reconcile([str(first.id)])
        assert spine.grant(proposal) == first
        assert spine.finish(str(first.id)).committed
        assert spine.phase() is Phase.OPEN

    def test_successor_gives_the_same_answers(self, spine: Spine) -> None:
        proposal = spine.propose_intent()
        first = expect(Authorization, spine.grant(proposal))
        successor = RunOwner(spine.runtime, spine.ledger, spine.artifacts, ticking_clock(), "successor")
        with pytest.raises(FencedError):
            spine.owner.apply([Command(key=(Machine.RUN, "x"))])
        assert successor.grant([proposal]) == [first]

    def test_unresolved_grant_stops_every_other(self, spine: Spine) -> None:
        spine.carry(spine.propose_intent())
        first = expect(Authorization, spine.grant(spine.propose(Transition.APPEND_OUTCOME, (spine.outcome(),))))
        rival = spine.propose(Transition.APPEND_OUTCOME, (spine.outcome("other plan"),))
        assert isinstance(spine.grant(rival), StaleError)
        assert spine.finish(str(first.id)).committed
        assert isinstance(spine.grant(rival), IllegalTransitionError)

    def test_intent_is_admitted_by_one_proposal(self, spine: Spine) -> None:
        spine.carry(spine.propose_intent())
        rival = spine.propose_intent("2026-01-01T00:00:00.000000Z")
        assert isinstance(spine.grant(rival), IdentityConflictError)

    def test_no_commit_goes_back_and_raises_the_fence(self, spine: Spine) -> None:
        spine.carry(spine.propose_intent())
        foreign = spine.outcome().model_copy(update={"decision_slot": "another"})
        stale = spine.propose(Transition.APPEND_OUTCOME, (foreign,))
        receipt = spine.carry(stale)
        assert receipt.reason is NoCommitReason.PRECONDITION_CONFLICT
        assert spine.phase() is Phase.OPEN
        assert isinstance(spine.grant(spine.propose(Transition.APPEND_OUTCOME, (spine.outcome(),))), StaleError)
        again = spine.propose(Transition.APPEND_OUTCOME, (spine.outcome(),), at=(2, 2))
        assert spine.carry(again).committed

    def test_ghost_of_an_intent(self, spine: Spine) -> None:
        (view, intent) = (spine.view, spine.intent.model_copy(update={"contract_view_id": _foreign_view(spine)}))
        spine.intent = intent
        receipt = spine.carry(spine.propose(Transition.APPEND_INTENT, (view, intent), Authority.ADMISSION))
        assert receipt.reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
        assert spine.phase() is Phase.RETIRED

    def test_what_cannot_be_granted(self, spine: Spine) -> None:
        outcome = spine.outcome()
        cases: list[tuple[str, type[VrmError]]] = [
            (spine.propose(Transition.APPEND_OUTCOME, (outcome,)), NotFoundError),
            (spine.propose(Transition.APPEND_OUTCOME, (outcome,), Authority.ADMISSION), InvalidInputError),
            (spine.propose(Transition.APPEND_INTENT, (spine.view,), Authority.ADMISSION), IntegrityError),
            (spine.propose(Transition.APPEND_INTENT, (outcome,), Authority.ADMISSION), InvalidInputError),
            (spine.propose(Transition.COMMIT_DISTILLATION, ()), IntegrityError),
            (spine.propose_intent(at=(2, 1)), StaleError),
            (digest("never published"), NotFoundError),
            (spine.artifacts.publish(b"{}"), VrmError),
        ]
        for proposal, error in cases:
            assert isinstance(spine.grant(proposal), error), error
        assert spine.phase() is None

    def test_run_that_is_over_grants_nothing(self, spine: Spine) -> None:
        run = str(run_of(spine.namespace).id)
        end = Move(machine=Machine.RUN, id=run, event=Event.COMPLETE, generation=1, fence=1)
        spine.owner.apply([Command(key=(Machine.RUN, run), key_phase=Phase.COMPLETED, moves=(end,))])
        assert isinstance(spine.grant(spine.propose_intent()), StaleError)
        assert spine.phase() is None


class TestReconciliation:
    def test_nothing_is_settled_without_an_answer_of_the_ledger(self, spine: Spine) -> None:
        grant = expect(Authorization, spine.grant(spine.propose_intent()))
        assert isinstance(spine.owner.reconcile([str(grant.id)])[0], NotFoundError)
        assert spine.phase() is Phase.REGISTERING
        assert spine.finish(str(grant.id)).committed

    def test_again_is_a_replay(self, spine: Spine) -> None:
        grant = expect(Authorization, spine.grant(spine.propose_intent()))
        receipt = spine.finish(str(grant.id))
        before = spine.runtime.subject(Machine.DECISION, str(spine.intent.id))
        assert spine.owner.reconcile([str(grant.id)] * 2) == [receipt, receipt]
        assert spine.runtime.subject(Machine.DECISION, str(spine.intent.id)) == before

    def test_unknown_authorization(self, spine: Spine) -> None:
        unknown = "authorization:" + "0" * 64
        assert isinstance(spine.owner.reconcile([unknown])[0], NotFoundError)
        assert isinstance(spine.coordinator.append_granted([unknown])[0], NotFoundError)

    def test_granted_flow_cannot_be_appended_directly(self, spine: Spine) -> None:
        append = Append.direct(Transition.APPEND_INTENT, "k", (spine.view, spine.intent))
        assert isinstance(spine.coordinator.append_direct([append])[0], InvalidInputError)


def _foreign_view(spine: Spine) -> str:
    return str(type(spine.view).load(spine.view.payload).model_copy(update={"budget_class": "other"}).id)


class TestTransactions:
    """No code path holds a transaction on one authority while it holds one on the other."""

    @pytest.fixture
    def opened(self, monkeypatch: pytest.MonkeyPatch, ledger_database: Addresses) -> Iterator[list[str]]:
        """Record whose connection is taken to write, and let the server say that no transaction is open by then."""
        history: list[str] = []
        original = owners.Writer.using
        watcher = psycopg.connect(ledger_database.superuser, autocommit=True)

        @contextmanager
        def watched(self: owners.Writer, resource: str, epoch: int) -> Iterator[object]:
            with original(self, resource, epoch) as connection:
                history.append(self._schema)
                busy = watcher.execute(
                    "SELECT DISTINCT datname FROM pg_stat_activity "
                    "WHERE xact_start IS NOT NULL AND application_name LIKE 'vrm %'"
                ).fetchall()
                assert not busy
                yield connection

        monkeypatch.setattr(owners.Writer, "using", watched)
        yield history
        watcher.close()

    @pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
    @pytest.mark.parametrize("runtime", ["postgres"], indirect=True)
    def test_never_on_both_at_once(self, spine: Spine, opened: list[str]) -> None:
        spine.carry(spine.propose_intent())
        spine.carry(spine.propose(Transition.APPEND_OUTCOME, (spine.outcome(),)))
        assert opened == ["runtime", "ledger", "runtime"] * 2
