"""What the run owner does outside the spine, when a Run may end, and what a blocked decision must show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.leases import completion
from memory.spine import Spine
from records.decisions import BlockedProposal, InvalidRequestEvidence
from records.errors import IntegrityError, InvalidInputError, NotFoundError, StaleError, VrmError
from records.flows import FLOWS, Authority, Transition
from records.ids import IntentId
from records.outcomes import DecisionStatus, OutcomeReason, RecallOutcome, SourceStatus, TerminalReason
from records.runtime import Authorization, Command, Create, Move
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.contract.test_spine_authority import ADMITTED, House
from tests.support.decision_samples import make_outcome
from tests.support.samples import POLICY, Common
from tests.support.stack import Stores
from tests.support.stores import expect, fresh_namespace
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def house(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> House:
    return House(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace()).begin()


def spine_moves() -> Iterator[tuple[Machine, Event]]:
    """Every step that a grant or its settlement makes."""
    for flow in FLOWS.values():
        if flow.machine is not None:
            yield from ((flow.machine, event) for event in flow.events)
    yield from ((Machine.AUTHORIZATION, event) for event in (Event.COMMIT, Event.RETIRE))


class TestPlainCommands:
    def test_no_step_of_the_spine_is_one(self, house: House) -> None:
        before = house.state()
        for machine, event in sorted(set(spine_moves())):
            move = Move(machine=machine, id="any", event=event, generation=1, fence=1)
            (answer,) = house.owner.apply([Command(moves=(move,))])
            assert isinstance(answer, InvalidInputError), (machine, event)
        assert house.state() == before

    def test_it_makes_neither_grant_nor_decision(self, house: House) -> None:
        for machine, phase in ((Machine.AUTHORIZATION, Phase.GRANTED), (Machine.DECISION, Phase.REGISTERING)):
            made = Create(machine=machine, id=f"made/{house.namespace}", run_id=house.run_id, phase=phase, body="{}")
            (answer,) = house.owner.apply([Command(creates=(made,))])
            assert isinstance(answer, InvalidInputError), machine
            assert house.stores.runtime.find(machine, run_id=house.run_id) == []

    def test_its_neighbours_in_the_group_are_carried_out(self, house: House) -> None:
        bad = Command(moves=(Move(machine=Machine.AUTHORIZATION, id="x", event=Event.COMMIT, generation=1, fence=1),))
        answers = house.owner.apply([bad, completion(house.run_id), bad])
        assert [isinstance(answer, VrmError) for answer in answers] == [True, False, True]
        run = house.stores.runtime.subject(Machine.RUN, house.run_id)
        assert run is not None
        assert run.phase is Phase.COMPLETED


class TestEndOfARun:
    """Spec 6.3: no terminal state while something that the Run owns is open, whoever asks."""

    def ended(self, house: House) -> bool:
        (answer,) = house.owner.apply([completion(house.run_id)])
        assert isinstance(answer, StaleError) or not isinstance(answer, VrmError), answer
        return not isinstance(answer, VrmError)

    def test_not_while_a_decision_has_no_outcome(self, house: House) -> None:
        intent = house.opened()
        assert not self.ended(house)
        (receipt,) = house.spine.carry([house.closing(intent)])
        assert not isinstance(receipt, VrmError)
        assert receipt.committed
        assert self.ended(house)

    def test_not_while_a_grant_is_unresolved(self, house: House) -> None:
        intent = house.opened()
        granted = expect(Authorization, house.grant(house.closing(intent)))
        house.coordinator.append_granted([str(granted.id)])
        assert not self.ended(house)  # the Ledger has the outcome, the Runtime does not know yet
        Spine(house.stores.artifacts, house.owner, house.coordinator).recover(house.stores.runtime)
        assert self.ended(house)

    def test_what_other_runs_have_open_does_not_matter(self, house: House) -> None:
        house.opened()
        other = house.admit("study-2", "decide")
        (answer,) = house.owner.apply([completion(other)])
        assert not isinstance(answer, VrmError)


class TestBlockedProof:
    """A blocked outcome rests on a proof that both sides read back themselves (spec 6.3, 8.2)."""

    def required(self, house: House, iteration: int = 0) -> Any:
        view, intent = house.intent(iteration)
        intent = intent.model_copy(update={"arm": "required", "governance": ADMITTED.binding("required")})
        (receipt,) = house.spine.carry([house.proposal(intent, (view, intent))])
        assert not isinstance(receipt, VrmError)
        return intent

    def proof(self, intent: Any) -> BlockedProposal:
        return BlockedProposal(
            intent_id=IntentId(intent.id),
            request_digest=digest("request"),
            retrieval_policy=POLICY,
            recall_input_id=None,
            evidence=InvalidRequestEvidence(fields=("request.query",)),
        )

    def blocked(self, house: House, intent: Any, proof_digest: str, reason: str | None = None) -> RecallOutcome:
        done = make_outcome(
            Common(house.namespace), intent, None, SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM
        )
        changes = {
            "source_status": SourceStatus.BLOCKED,
            "outcome_reason": reason or "blocked_request_invalid",
            "decision_status": DecisionStatus.BLOCKED,
            "terminal_reason": TerminalReason.BLOCKED_RECALL_SOURCE,
            "artifact_committed": False,
            "artifact_digest": None,
            "memory_binding_digest": None,
            "proposed_knob": None,
            "proposed_value": None,
            "effective_config_digest": None,
            "executed_actor": None,
            "blocked_proof_digest": proof_digest,
        }
        return RecallOutcome.load(done.model_copy(update=changes).canonical)

    def asked(self, house: House, intent: Any, outcome: RecallOutcome) -> Any:
        return house.proposal(intent, (outcome,), transition=Transition.APPEND_OUTCOME, authority=Authority.NORMAL)

    def test_its_own(self, house: House) -> None:
        intent = self.required(house)
        proof = house.stores.artifacts.publish(self.proof(intent).canonical)
        (receipt,) = house.spine.carry([self.asked(house, intent, self.blocked(house, intent, proof))])
        assert not isinstance(receipt, VrmError)
        assert receipt.committed

    def test_none_another_decisions_or_another_reasons(self, house: House) -> None:
        intent, other = self.required(house, 0), self.required(house, 1)
        own = self.proof(intent).canonical
        publish = house.stores.artifacts.publish
        wrong = [
            (self.blocked(house, intent, digest("never published")), NotFoundError),
            (self.blocked(house, intent, publish(self.proof(other).canonical)), IntegrityError),
            (self.blocked(house, intent, publish(own), "blocked_corrupt_input"), IntegrityError),
            (self.blocked(house, intent, publish(own + b" ")), IntegrityError),
            (self.blocked(house, intent, publish(b'{"reason":"because"}')), InvalidInputError),
        ]
        before = house.state()
        for outcome, error in wrong:
            assert isinstance(house.grant(self.asked(house, intent, outcome)), error), error
        assert house.state() == before

    def test_the_ledger_side_reads_it_again(self, house: House) -> None:
        """A proof that is gone between grant and append stops the append; nothing is written, not even a refusal."""
        intent = self.required(house)
        proof = house.stores.artifacts.publish(self.proof(intent).canonical)
        granted = expect(Authorization, house.grant(self.asked(house, intent, self.blocked(house, intent, proof))))
        Path(house.stores.artifacts.location(proof)).unlink()
        before = house.journal()
        assert isinstance(house.coordinator.append_granted([str(granted.id)])[0], NotFoundError)
        assert house.journal() == before


def test_a_settled_grant_without_a_receipt_is_never_appended(house: House) -> None:
    """A Ledger that is older than the Runtime lost what it acknowledged; writing it again would hide that."""
    intent = house.opened()
    granted = expect(Authorization, house.grant(house.closing(intent)))
    runtime = house.stores.runtime
    move = Move(machine=Machine.AUTHORIZATION, id=str(granted.id), event=Event.COMMIT, generation=1, fence=1)
    runtime.apply(runtime.claim(f"forger/{house.namespace}", "test"), [Command(moves=(move,))])
    before = house.journal()
    assert isinstance(house.coordinator.append_granted([str(granted.id)])[0], IntegrityError)
    assert house.journal() == before
