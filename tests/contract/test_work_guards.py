"""A worker that proposes what does not follow from its own work writes nothing but the refusal (VRM-W08, W09)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memory.distillation.distiller import DistillationRequest
from records.appends import Append, Proposal
from records.base import Record
from records.errors import IdentityConflictError, StaleError
from records.flows import Transition
from records.ids import AssignmentId, BatchId, CandidateId, ExperienceId, MemoryId, WorkItemId
from records.ingestion import AbandonedReceipt, DistillationReceipt, ExperienceReceipt, ReceiptDisposition, WorkOutcome
from records.knowledge import DecisionKind, RelationKind
from records.values import Disposition, ProofRef
from tests.support.stack import GOOD, POLICIES, Stack, effects, quiet
from tests.support.trials import digest

Distort = Callable[[Any, "Stack"], Any]

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


PAIR = ("source_memory_id", "target_memory_id")


class Dishonest:
    """Proposes for the first item only what the distiller would, with one kind of record distorted."""

    def __init__(self, stack: Stack, noun: str, distort: Distort) -> None:
        self.stack, self.noun, self.distort = stack, noun, distort

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        honest = self.stack.distiller.propose(requests)
        return [self.bend(honest[0]), *honest[1:]]

    def bend(self, proposal: Proposal) -> Proposal:
        """Distort the records; every id that follows from them is mended, as a liar with a library would."""
        mended: dict[str, Any] = {}
        bent: list[Record] = []
        for record in proposal.unpack():
            links = {
                name: mended[value]
                for name in type(record).model_fields
                if isinstance(value := getattr(record, name), str) and value in mended
            }
            if record.kind.noun == "distillation-report":
                links |= {name: tuple(mended.get(each, each) for each in getattr(record, name))
                          for name in ("decision_ids", "memory_ids")}  # fmt: skip
            if getattr(record, "relation", None) is RelationKind.CONTESTS:
                links |= dict(zip(PAIR, sorted(links.get(name, getattr(record, name)) for name in PAIR), strict=True))
            changed = record.model_copy(update=links)
            if record.kind.noun == self.noun:
                changed = self.distort(changed, self.stack)
            mended[str(record.id)] = changed.id
            bent.append(changed)
        return proposal.model_copy(update={"records": Proposal.bodies(tuple(bent))})


def other_item(batch: Any, stack: Stack) -> Any:
    other = next(item for item in stack.load("distillation-work-item") if item.id != batch.work_item_id)
    return batch.model_copy(update={"work_item_id": WorkItemId(other.id)})


def other_assignment(batch: Any, stack: Stack) -> Any:
    other = next(a for a in stack.load("distillation-work-assignment") if a.work_item_id != batch.work_item_id)
    return batch.model_copy(update={"assignment_id": AssignmentId(other.id)})


def blind(batch: Any, _stack: Stack) -> Any:
    return batch.model_copy(update={"experience_ids": ()})


def lenient(batch: Any, _stack: Stack) -> Any:
    policy = batch.distillation_policy.model_copy(update={"version": "0"})
    return batch.model_copy(update={"distillation_policy": policy})


def from_nowhere(record: Any, _stack: Stack) -> Any:
    link = record.links[0].model_copy(update={"comparator_id": ExperienceId.derive({"made": "up"})})
    return record.model_copy(update={"links": (link, *record.links[1:])})


def bare(record: Any, _stack: Stack) -> Any:
    return record.model_copy(update={"links": ()})


def provisional(decision: Any, _stack: Stack) -> Any:
    return decision.model_copy(update={"decision": DecisionKind.PROMOTED_PROVISIONAL})


def deferred(decision: Any, _stack: Stack) -> Any:
    return decision.model_copy(update={"decision": DecisionKind.DEFERRED, "memory_id": None})


def nothing_said(disposition: Any, _stack: Stack) -> Any:
    nothing = {"outcome": WorkOutcome.NO_CANDIDATE, "candidate_id": None, "decision_id": None}
    return disposition.model_copy(update=nothing)


def other_candidate(disposition: Any, _stack: Stack) -> Any:
    return disposition.model_copy(update={"candidate_id": CandidateId.derive({"made": "up"})})


def other_batch(report: Any, _stack: Stack) -> Any:
    return report.model_copy(update={"batch_id": BatchId.derive({"made": "up"})})


LIES = [
    ("distillation-batch", other_item, "assigned to another Activity"),
    ("distillation-batch", other_assignment, "assigned to another Activity"),
    ("distillation-batch", lenient, "under other policies"),
    ("distillation-batch", blind, "did not consider its item's experience"),
    ("knowledge-candidate", from_nowhere, "evidence is not in the snapshot"),
    ("memory-record", from_nowhere, "evidence is not in the snapshot"),
    ("memory-record", bare, "evidence is not in the snapshot"),
    ("distillation-decision", provisional, "what becomes live is not what was decided"),
    ("distillation-decision", deferred, "a record without the decision that promotes it"),
    ("distillation-work-disposition", nothing_said, "say different things"),
    ("distillation-work-disposition", other_candidate, "about another candidate"),
    ("distillation-report", other_batch, "the report is of another batch"),
]


@pytest.mark.parametrize(("noun", "distort", "rule"), LIES, ids=[f"{noun}-{lie.__name__}" for noun, lie, _ in LIES])
def test_vrm_w08_a_proposal_that_does_not_follow_is_refused(
    stack: Stack, noun: str, distort: Distort, rule: str
) -> None:
    """The liar gets a typed no-commit; the honest worker that comes after it gets the rule through."""
    run_id = stack.admit("first")
    stack.evidence(effects(stack, "first", GOOD))
    assert not stack.campaigns.ingest(run_id, quiet)
    assert not stack.campaigns.project(quiet)
    snapshot = stack.capture()
    failures = stack.campaigns.distil(snapshot, Dishonest(stack, noun, distort), quiet)
    assert failures
    assert all(isinstance(failure.error, StaleError) for failure in failures)
    assert any(rule in receipt.detail for receipt in stack.load("no-commit-receipt"))
    assert not stack.stores.ledger.variant_heads(stack.namespace)
    assert not stack.campaigns.distil(snapshot, stack.distiller, quiet)
    (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
    assert head.disposition == Disposition.ACTIVE.value
    assert MemoryId.check(head.memory_id) == stack.load("memory-record")[-1].id


@pytest.mark.parametrize("claimed", [ReceiptDisposition.ABANDONED, ReceiptDisposition.QUEUED])
def test_vrm_w09_a_receipt_that_needs_a_proof_is_not_appended_directly(
    stack: Stack, claimed: ReceiptDisposition
) -> None:
    stack.admit("first")
    stack.evidence(effects(stack, "first", GOOD))
    experience = stack.load("experience")[0]
    common: dict[str, Any] = {
        "namespace": stack.namespace,
        "created_at": experience.created_at,
        "experience_id": ExperienceId(experience.id),
        "reasons": (),
        "policy": POLICIES.distillation.identity,
    }
    item = WorkItemId.derive({"made": "up"})
    receipt: ExperienceReceipt
    if claimed is ReceiptDisposition.QUEUED:
        receipt = DistillationReceipt(**common, disposition=ReceiptDisposition.QUEUED, work_item_id=item)
    else:
        proof = ProofRef(ref="proof", digest=digest("proof"))
        receipt = AbandonedReceipt(
            **common, abandoned_work_item_id=item, abandoned_payload_digest=digest("item"), proof=proof
        )
    before = stack.journal()
    append = Append.direct(Transition.RECEIPT_NOT_QUEUED, f"receipt/{experience.id}", (receipt,))
    (answer,) = stack.coordinator.append_direct([append])
    assert isinstance(answer, IdentityConflictError)
    assert stack.journal() == before


@pytest.mark.parametrize("field", ["experience_id", "policy"])
def test_vrm_w09_an_item_is_queued_with_its_own_receipt(stack: Stack, field: str) -> None:
    """The receipt of one experience does not queue another one."""
    run_id = stack.admit("first")
    stack.evidence(effects(stack, "first", GOOD))
    other = stack.load("experience")[-1]
    carry = stack.spine.carry

    def bend(proposals: Sequence[Proposal]) -> Any:
        item, receipt = proposals[0].unpack()
        lenient = POLICIES.distillation.identity.model_copy(update={"version": "0"})
        wrong = {"experience_id": ExperienceId(other.id), "policy": lenient}[field]
        records = Proposal.bodies((item, receipt.model_copy(update={field: wrong})))
        return carry([proposals[0].model_copy(update={"records": records})])

    stack.campaigns.without_receipt = lambda source_run: stack.load("experience")[:1]  # type: ignore[method-assign]  # noqa: ARG005 - the port names it
    stack.spine.carry = bend  # type: ignore[method-assign,assignment]
    assert len(stack.campaigns.ingest(run_id, quiet)) == 1
    assert not stack.load("distillation-work-item")
    assert not stack.load("distillation-receipt")
