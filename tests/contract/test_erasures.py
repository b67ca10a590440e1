"""Erasures on both stores: one protocol from intent to tombstone (spec 4.15, 15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.fsck import fsck
from memory.leases import completion
from memory.ports import all_good
from memory.retention import affected_indexes, denials
from records.appends import AppendReceipt
from records.base import Record
from records.errors import IntegrityError, InvalidRecordError, NotFoundError, StaleError, VrmError
from records.flows import Transition
from records.ids import IndexBuildId
from records.outcomes import NoCommitReason
from records.retention import AffectedIndex, ErasureIntent, ErasureOperation, TerminalState
from records.states import Phase
from records.values import Disposition, ProofRef
from tests.support.incidents import Incident, proofs_of
from tests.support.stack import Stack, effects
from tests.support.stores import expect

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def test_an_erasure_from_its_intent_to_its_tombstone(incident: Incident) -> None:
    stack = incident.stack
    intent = incident.opened(*incident.of_rule())
    assert incident.phase(intent) is Phase.OPEN
    (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
    assert (head.event_id, head.disposition) == (str(intent.retraction_event_id), Disposition.RETRACTED.value)
    place = stack.stores.ledger.namespace_head(stack.namespace)
    assert (place.lifecycle, place.retention) == (place.position - 1, place.position)
    incident.publish(intent)
    assert expect(AppendReceipt, incident.close(intent)).committed
    assert incident.phase(intent) is Phase.CLOSED
    assert stack.stores.ledger.namespace_head(stack.namespace).retention == stack.position()
    stack.complete(incident.run_id)
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, None)  # the stores hold the other tests' namespaces too
    assert report.clean, report.text()


def unknown(incident: Incident) -> tuple[Record, ...]:
    event, intent = incident.of_rule()
    return event, intent.model_copy(update={"target_id": f"memory-record:{'0' * 64}"})


def other_digest(incident: Incident) -> tuple[Record, ...]:
    return incident.of_rule(target_digest="0" * 64)


def unlisted(incident: Incident) -> tuple[Record, ...]:
    return incident.of_rule(affected_indexes=())


def changed_index(incident: Incident) -> tuple[Record, ...]:
    part = AffectedIndex(index_build_id=IndexBuildId(incident.builds[0].id), digest="0" * 64)
    return incident.of_rule(affected_indexes=(part,))


def unretracted(incident: Incident) -> tuple[Record, ...]:
    (_, start) = incident.of_rule()
    (head,) = incident.stack.stores.ledger.variant_heads(incident.stack.namespace).values()
    return (start.model_copy(update={"retraction_event_id": head.event_id}),)


def another_retraction(incident: Incident) -> tuple[Record, ...]:
    event, intent = incident.of_rule()
    return event.model_copy(update={"reasons": ("other",)}), intent


def with_a_retraction(incident: Incident) -> tuple[Record, ...]:
    return incident.retraction(), incident.of_observation()


def mislabelled(incident: Incident) -> tuple[Record, ...]:
    intent, attempt = incident.of_observation(), incident.stack.load("attempt")[0]
    return (intent.model_copy(update={"target_id": str(attempt.id), "target_digest": attempt.payload_digest}),)


@pytest.mark.parametrize(
    "bend",
    [unknown, other_digest, unlisted, changed_index, unretracted, another_retraction, with_a_retraction, mislabelled],
)
def test_an_erasure_that_is_not_what_the_ledger_holds_does_not_begin(
    incident: Incident, bend: Callable[[Incident], tuple[Record, ...]]
) -> None:
    records = bend(incident)
    intent = next(record for record in records if isinstance(record, ErasureIntent))
    before = incident.stack.position()
    proof = incident.refused(incident.begin(*records))
    assert proof.reason is NoCommitReason.PRECONDITION_CONFLICT
    assert incident.stack.position() == before + 1, "the refusal is all that was written"
    assert incident.phase(intent) is Phase.RETIRED
    assert denials(incident.stack.stores.ledger, incident.stack.namespace) == ()


def test_one_target_has_one_erasure(incident: Incident) -> None:
    intent = incident.opened(incident.of_observation())
    rival = intent.model_copy(update={"incident": "incident-9"})
    assert "begun already" in incident.refused(incident.begin(rival)).detail


def test_a_stale_head_is_a_no_commit_receipt_and_no_distillation_conflict(incident: Incident) -> None:
    event, intent = incident.of_rule()
    stale = event.model_copy(update={"expected_prior": "GENESIS"})
    stale_intent = intent.model_copy(update={"retraction_event_id": stale.id})
    proof = incident.refused(incident.begin(stale, stale_intent))
    assert (proof.reason, len(proof.heads)) == (NoCommitReason.LIFECYCLE_HEAD_STALE, 1)


Bend = Callable[[Incident, ErasureIntent], dict[str, Any]]


def without_one(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    """What is acknowledged at last is left out; the first proofs stay those that the tombstone needs."""
    return {"acknowledgements": incident.tombstone(intent).acknowledgements[:-1]}


def with_a_foreign_one(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    """An artifact that was never affected is acknowledged as well, and its proof is published."""
    made = incident.tombstone(intent).acknowledgements
    last = proofs_of(intent)[-1]
    more = last.model_copy(update={"object_ref": "0" * 64, "sequence": last.sequence + 1})
    incident.stack.stores.artifacts.publish(more.canonical)
    proof = ProofRef(ref=more.object_ref, digest=more.canonical_digest)
    return {"acknowledgements": (*made, made[0].model_copy(update={"affected": "0" * 64, "proof": proof}))}


def changed(**changes: Any) -> Bend:
    """The tombstone says another thing than its intent, and so do its published proofs."""

    def bend(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
        proofs = proofs_of(intent, **changes)
        incident.stack.stores.artifacts.publish_many([proof.canonical for proof in proofs])
        receipt, *others = (ProofRef(ref=proof.object_ref, digest=proof.canonical_digest) for proof in proofs)
        pairs = zip(incident.tombstone(intent).acknowledgements, others, strict=True)
        named = tuple(part.model_copy(update={"proof": proof}) for part, proof in pairs)
        return changes | {"erasure_receipt": receipt, "acknowledgements": named}

    return bend


@pytest.mark.parametrize(
    "bend",
    [without_one, with_a_foreign_one, changed(incident="incident-9"), changed(target_digest="0" * 64)],
    ids=["without one acknowledgement", "with a foreign one", "another incident", "another digest"],
)
def test_a_tombstone_that_is_not_the_end_of_its_intent_is_refused(incident: Incident, bend: Bend) -> None:
    intent = incident.opened(incident.of_observation())
    incident.publish(intent)
    proof = incident.refused(incident.close(intent, **bend(incident, intent)))
    assert proof.reason is NoCommitReason.PRECONDITION_CONFLICT
    assert incident.phase(intent) is Phase.OPEN
    assert expect(AppendReceipt, incident.close(intent)).committed


def test_a_tombstone_rests_on_published_proofs(incident: Incident) -> None:
    intent = incident.opened(incident.of_observation())
    assert isinstance(incident.close(intent), NotFoundError)
    assert incident.phase(intent) is Phase.OPEN


def foreign(**changes: Any) -> Bend:
    """The proof of the last object says something else; its own reference follows it."""

    def bend(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
        wrong = proofs_of(intent, **changes)[-1]
        return ending_with(incident, intent, wrong.canonical, wrong.object_ref)

    return bend


def ending_with(incident: Incident, intent: ErasureIntent, data: bytes, ref: str | None = None) -> dict[str, Any]:
    """Return acknowledgements of which the last rests on these bytes."""
    *most, last = incident.tombstone(intent).acknowledgements
    proof = ProofRef(ref=ref or str(last.affected), digest=incident.stack.stores.artifacts.publish(data))
    return {"acknowledgements": (*most, last.model_copy(update={"proof": proof}))}


def swapped(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    one, two = incident.tombstone(intent).acknowledgements
    moved = one.model_copy(update={"proof": two.proof}), two.model_copy(update={"proof": one.proof})
    return {"acknowledgements": moved}


def reordered(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    return {"acknowledgements": incident.tombstone(intent).acknowledgements[::-1]}


def misnamed(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    return ending_with(incident, intent, proofs_of(intent)[-1].canonical, "invalidated/1")


def receipt_of_an_object(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    return {"erasure_receipt": incident.tombstone(intent).acknowledgements[-1].proof}


def changed_text(before: bytes, after: bytes) -> Bend:
    def bend(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
        data = proofs_of(intent)[-1].canonical
        assert before in data
        return ending_with(incident, intent, data.replace(before, after))

    return bend


def still_there(incident: Incident, intent: ErasureIntent) -> dict[str, Any]:
    """The bytes are copied back, past the artifact store."""
    place = Path(incident.stack.stores.artifacts.location(intent.erased_bytes[0]))
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"index")
    return {}


FORGED: dict[str, tuple[Bend, type[VrmError]]] = {
    "another namespace": (foreign(namespace="elsewhere"), IntegrityError),
    "another incident": (foreign(incident="incident-9"), IntegrityError),
    "another erasure": (foreign(intent_id=f"retention-erasure-intent:{'0' * 64}"), IntegrityError),
    "another target": (foreign(target_id="observation:0"), IntegrityError),
    "another digest of the target": (foreign(target_digest="0" * 64), IntegrityError),
    "another object": (foreign(object_ref="0" * 64), IntegrityError),
    "another place": (foreign(sequence=9), IntegrityError),
    "another generation": (foreign(generation=9), IntegrityError),
    "another operation": (
        foreign(operation=ErasureOperation.INVALIDATED, state=TerminalState.DENIED), IntegrityError),
    "the proof of its neighbour": (swapped, IntegrityError),
    "another order": (reordered, IntegrityError),
    "another name for its proof": (misnamed, IntegrityError),
    "a receipt that is the proof of an artifact": (receipt_of_an_object, IntegrityError),
    "bytes that are no proof": (lambda incident, intent: ending_with(incident, intent, b"gone"), InvalidRecordError),
    "a state that does not follow": (changed_text(b'"GONE"', b'"DENIED"'), InvalidRecordError),
    "bytes that are not canonical": (changed_text(b'{"at"', b'{ "at"'), IntegrityError),
    "bytes that are there": (still_there, StaleError),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_proof_of_anything_else_closes_nothing(incident: Incident, name: str) -> None:
    """Spec 4.15: bound to namespace, incident, target, object and generation, operation, state, sequence and digest."""
    bend, error = FORGED[name]
    intent = incident.opened(incident.of_observation())
    incident.publish(intent)
    changes = bend(incident, intent)
    before = incident.stack.state()
    assert isinstance(incident.close(intent, **changes), error)
    assert incident.stack.state() == before
    incident.publish(intent)
    assert expect(AppendReceipt, incident.close(intent)).committed


def test_a_run_does_not_end_with_an_open_erasure(incident: Incident) -> None:
    intent = incident.opened(incident.of_observation())
    (answer,) = incident.stack.owner.apply([completion(incident.run_id)])
    assert isinstance(answer, StaleError)
    incident.publish(intent)
    incident.close(intent)
    incident.stack.complete(incident.run_id)


def test_a_successor_finishes_what_was_granted(incident: Incident) -> None:
    """A coordinator that died between grant and append leaves a registering subject and nothing in the Ledger."""
    stack, intent = incident.stack, incident.of_observation()
    proposal = incident.proposal(Transition.BEGIN_ERASURE, str(intent.id), intent)
    all_good(stack.owner.grant([stack.stores.artifacts.publish(proposal.canonical)]))
    assert incident.phase(intent) is Phase.REGISTERING
    successor = Stack(stack.stores, stack.namespace)
    assert [receipt.committed for receipt in all_good(successor.recover())] == [True]
    assert incident.phase(intent) is Phase.OPEN
    assert stack.granted() == []


def test_the_affected_index_builds_of_a_target(incident: Incident) -> None:
    stack = incident.stack
    (build,), ledger = incident.builds, stack.stores.ledger
    stray = stack.admit("stray")
    stack.evidence(effects(stack, "stray", {"z": 0.05}))
    far = next(item for item in stack.load("attempt") if item.run_id == stray)
    for target in (incident.rule, stack.load("observation")[0], stack.load("experience")[0]):
        assert affected_indexes(ledger, stack.namespace, str(target.id)) == [build]
    assert affected_indexes(ledger, stack.namespace, str(far.id)) == []
