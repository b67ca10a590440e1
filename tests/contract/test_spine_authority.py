"""Who may write what: the closed table on both sides, and authorizations that are not what they claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records.appends import Append, Proposal
from records.canonical import canonical_bytes
from records.decisions import DecisionIntent
from records.errors import (
    IdentityConflictError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import FLOWS, Authority, Transition
from records.outcomes import NoCommitReason, OutcomeReason, RecallOutcome, SourceStatus
from records.runtime import Authorization, Command, Create, RunBody
from records.states import Machine, Phase
from records.values import RecallRequirement
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore, Request
from store.runtime.port import RuntimeStore
from tests.support.decision_samples import make_intent, make_outcome, sample_records
from tests.support.governance import manifest, publish_admitted
from tests.support.samples import Common, authorization_id
from tests.support.stack import Stack, Stores
from tests.support.stores import evidence_append, expect, fresh_namespace
from tests.support.trials import digest, make_contract

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


ADMITTED = manifest(RecallRequirement.REGISTERED_NOT_REQUESTED)


class House(Stack):
    """A stack with one admitted Run and decisions of its control arm."""

    def body(self, key: str) -> RunBody:
        return super().body(key).model_copy(update={"specification_digest": ADMITTED.canonical_digest})

    def begin(self) -> House:
        publish_admitted(self.stores.artifacts, RecallRequirement.REGISTERED_NOT_REQUESTED)
        self.run_id = self.admit("study-1", "decide")
        self.direct = self.coordinator.append_direct([evidence_append([make_contract(self.namespace)])])
        return self

    def intent(self, iteration: int = 0) -> tuple[Any, DecisionIntent]:
        return make_intent(Common(self.namespace), sample_records(self.namespace), iteration, manifest=ADMITTED)

    def outcome(self, intent: DecisionIntent) -> RecallOutcome:
        return make_outcome(Common(self.namespace), intent, None, SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM)

    def proposal(self, intent: DecisionIntent, records: tuple[Any, ...], **changes: Any) -> Proposal:
        fields: dict[str, Any] = {
            "namespace": self.namespace,
            "transition": Transition.APPEND_INTENT,
            "authority": Authority.ADMISSION,
            "machine": Machine.DECISION,
            "subject_id": str(intent.id),
            "run_id": self.run_id,
            "generation": 1,
            "fence": 1,
            "records": Proposal.bodies(records),
        }
        return Proposal(**(fields | changes))

    def opened(self, iteration: int = 0) -> DecisionIntent:
        view, intent = self.intent(iteration)
        (receipt,) = self.spine.carry([self.proposal(intent, (view, intent))])
        assert not isinstance(receipt, VrmError)
        assert receipt.committed
        return intent

    def closing(self, intent: DecisionIntent, **changes: Any) -> Proposal:
        fields: dict[str, Any] = {"transition": Transition.APPEND_OUTCOME, "authority": Authority.NORMAL}
        return self.proposal(intent, (self.outcome(intent),), **(fields | changes))

    def grant(self, proposal: Proposal) -> Any:
        return self.owner.grant([self.stores.artifacts.publish(proposal.canonical)])[0]

    def plant(self, body: Authorization, key: str) -> None:
        """Put an authorization into the Runtime that no grant made, as somebody with its password could."""
        made = Create(
            machine=Machine.AUTHORIZATION,
            id=key,
            run_id=self.run_id,
            phase=Phase.GRANTED,
            body=body.canonical.decode(),
        )
        runtime = self.stores.runtime
        forger = runtime.claim(f"forger/{self.namespace}", "test")
        (answer,) = runtime.apply(forger, [Command(key=(Machine.AUTHORIZATION, key), creates=(made,))])
        assert not isinstance(answer, VrmError)


@pytest.fixture
def house(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> House:
    return House(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace()).begin()


def illegal_pairs() -> Iterator[tuple[Transition, Authority]]:
    return (
        (transition, authority)
        for transition in Transition
        for authority in Authority
        if authority not in FLOWS[transition].authorities
    )


class TestClosedTable:
    def test_the_issuer_grants_no_other_pair(self, house: House) -> None:
        view, intent = house.intent()
        pairs = list(illegal_pairs())
        assert len(pairs) == len(Transition) * len(Authority) - 27
        for transition, authority in pairs:
            asked = house.proposal(intent, (view, intent), transition=transition, authority=authority)
            assert isinstance(house.grant(asked), InvalidInputError), (transition, authority)
        assert house.stores.runtime.find(Machine.DECISION, run_id=house.run_id) == []
        assert house.stores.runtime.find(Machine.AUTHORIZATION, run_id=house.run_id) == []

    def test_the_issuer_grants_no_direct_append(self, house: House) -> None:
        """A direct pair is legal for the Ledger and never for a grant: there is no machine that it would move."""
        _, intent = house.intent()
        for transition, flow in FLOWS.items():
            if not flow.is_granted:
                asked = house.proposal(intent, (), transition=transition, authority=Authority.DIRECT)
                assert isinstance(house.grant(asked), VrmError), transition

    def test_the_ledger_takes_no_other_pair(self, house: House) -> None:
        view, _ = house.intent()
        before = house.journal()
        epoch = house.stores.ledger.claim(f"writer/{house.namespace}", "test")
        pairs = list(illegal_pairs())
        appends = [
            Append(
                namespace=house.namespace,
                transition=transition,
                authority=authority,
                permit_key=str(authorization_id(house.namespace, f"{transition}/{authority}")),
                permit_digest=digest("any"),
                records=(view,),
            )
            for transition, authority in pairs
        ]
        answers = house.stores.ledger.commit(epoch, [Request(append) for append in appends])
        assert [type(answer) for answer in answers] == [InvalidInputError] * len(pairs)
        assert house.journal() == before

    def test_a_granted_flow_is_never_direct(self, house: House) -> None:
        view, intent = house.intent()
        before = house.state()
        for transition, flow in FLOWS.items():
            if flow.is_granted:
                append = Append.direct(transition, f"k/{transition}", (view, intent))
                assert isinstance(house.coordinator.append_direct([append])[0], InvalidInputError), transition
        assert house.state() == before


class TestForgery:
    """An authorization that is not the one that was granted writes nothing, not even a refusal."""

    def test_forged(self, house: House) -> None:
        before = house.state()
        (answer,) = house.coordinator.append_granted([str(authorization_id(house.namespace, "made up"))])
        assert isinstance(answer, NotFoundError)
        assert house.state() == before

    def test_under_another_id(self, house: House) -> None:
        granted = expect(Authorization, house.grant(house.closing(house.opened())))
        key = str(authorization_id(house.namespace, "copy"))
        house.plant(granted, key)
        before = house.state()
        assert isinstance(house.coordinator.append_granted([key])[0], IntegrityError)
        assert isinstance(house.owner.reconcile([key])[0], VrmError)
        assert house.state() == before

    @pytest.mark.parametrize(
        "changes",
        [
            {"fence": 7},
            {"generation": 7},
            {"authority": Authority.RUNTIME_CLOSURE},
            {"subject_id": "decision-intent:" + "0" * 64},
            {"machine": Machine.ACTIVITY},
        ],
        ids="-".join,
    )
    def test_for_another_attempt_than_the_proposal(self, house: House, changes: dict[str, Any]) -> None:
        granted = expect(Authorization, house.grant(house.closing(house.opened())))
        forged = granted.model_copy(update=changes)
        house.plant(forged, str(forged.id))
        before = house.state()
        assert isinstance(house.coordinator.append_granted([str(forged.id)])[0], IntegrityError)
        assert house.state() == before

    def test_swapped_for_the_proposal_of_another_decision(self, house: House) -> None:
        """Authorization of one decision, proposal of the other, each valid by itself."""
        first, second = house.opened(0), house.opened(1)
        other = house.stores.artifacts.publish(house.closing(second).canonical)
        granted = Authorization(
            namespace=house.namespace,
            transition=Transition.APPEND_OUTCOME,
            authority=Authority.NORMAL,
            machine=Machine.DECISION,
            subject_id=str(first.id),
            run_id=house.run_id,
            origin_phase=Phase.OPEN,
            generation=1,
            fence=1,
            expected_id=str(house.outcome(first).id),
            expected_digest=house.outcome(first).payload_digest,
            proposal_digest=other,
            granted_at=first.created_at,
        )
        house.plant(granted, str(granted.id))
        before = house.state()
        assert isinstance(house.coordinator.append_granted([str(granted.id)])[0], IntegrityError)
        assert house.state() == before

    @pytest.mark.parametrize("field", ["expected_id", "expected_digest"])
    def test_for_another_record_than_the_proposal_holds(self, house: House, field: str) -> None:
        intent = house.opened()
        granted = expect(Authorization, house.grant(house.closing(intent)))
        other = house.outcome(house.intent(1)[1])
        value = str(other.id) if field == "expected_id" else other.payload_digest
        forged = granted.model_copy(update={field: value, "fence": 2})
        sent = house.closing(intent, fence=2)
        house.stores.artifacts.publish(sent.canonical)
        forged = forged.model_copy(update={"proposal_digest": sent.canonical_digest})
        house.plant(forged, str(forged.id))
        before = house.state()
        assert isinstance(house.coordinator.append_granted([str(forged.id)])[0], IntegrityError)
        assert house.state() == before

    def test_foreign(self, house: House) -> None:
        """What another namespace's Run was granted names that namespace's bytes, and lands there or nowhere."""
        other = House(house.stores, fresh_namespace()).begin()
        granted = expect(Authorization, other.grant(other.closing(other.opened())))
        before = house.journal()
        (receipt,) = other.coordinator.append_granted([str(granted.id)])
        assert not isinstance(receipt, VrmError)
        assert receipt.namespace == other.namespace
        assert house.journal() == before

    def test_reused_after_it_was_spent(self, house: House) -> None:
        intent = house.opened()
        granted = expect(Authorization, house.grant(house.closing(intent)))
        (first,) = house.coordinator.append_granted([str(granted.id)])
        house.owner.reconcile([str(granted.id)])
        before = house.state()
        assert house.coordinator.append_granted([str(granted.id)]) == [first]
        assert house.owner.reconcile([str(granted.id)]) == [first]
        later = house.stores.ledger.claim(f"writer/{house.namespace}", "test")
        again = Append(
            namespace=house.namespace,
            transition=Transition.APPEND_OUTCOME,
            authority=Authority.NORMAL,
            permit_key=str(granted.id),
            permit_digest=digest("another body"),
            records=(house.outcome(house.intent(1)[1]),),
        )
        (answer,) = house.stores.ledger.commit(later, [Request(again)])
        assert isinstance(answer, IdentityConflictError)
        assert house.state() == before

    def test_about_another_decision_than_its_records(self, house: House) -> None:
        """One decision's subject does not let another decision's records pass, whoever's turn it is."""
        first, second = house.opened(0), house.opened(1)
        third = house.intent(2)
        before = house.state()
        asked = [
            house.closing(first).model_copy(update={"records": house.closing(second).records}),
            house.proposal(first, third, subject_id="decision-intent:" + "0" * 64),
        ]
        for proposal in asked:
            refused = expect(IntegrityError, house.grant(proposal))
            assert refused.field == "proposal.subject_id"
        assert house.state() == before

    def test_of_another_run_than_its_records(self, house: House) -> None:
        """Another Run that is still going lends its name to nobody."""
        intent = house.opened()
        other = house.admit("study-2", "decide")
        before = house.state()
        assert isinstance(house.grant(house.closing(intent, run_id=other)), IntegrityError)
        assert house.state() == before

    def test_an_attempt_that_is_over_is_granted_nothing(self, house: House) -> None:
        intent = house.opened()
        stranger = house.outcome(intent).model_copy(update={"decision_slot": "another"})
        foreign = house.closing(intent).model_copy(update={"records": Proposal.bodies((stranger,))})
        (refused,) = house.spine.carry([foreign])
        assert not isinstance(refused, VrmError)
        assert refused.reason is NoCommitReason.PRECONDITION_CONFLICT
        before = house.state()
        assert isinstance(house.grant(house.closing(intent)), StaleError)
        assert house.state() == before

    def test_a_proposal_that_was_changed_in_the_store(self, house: House) -> None:
        granted = expect(Authorization, house.grant(house.closing(house.opened())))
        path = Path(house.stores.artifacts.location(granted.proposal_digest))
        path.write_bytes(canonical_bytes({"not": "it"}))
        before = house.journal()
        assert isinstance(house.coordinator.append_granted([str(granted.id)])[0], IntegrityError)
        assert house.journal() == before
