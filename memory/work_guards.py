"""What must hold inside the Ledger transaction for durable distillation work (spec 8.1, 9.8, VRM-W08, W09).

Rules kept here:

- a queued receipt, its item and its sidecar are about one Experience; the only receipt that may be appended directly is
  one that says why nothing was queued, since the rest need a proof;
- a completion closes the item that its Activity was assigned, by the batch, report and disposition of that very item;
- what becomes live is what the Decision about its Candidate says, and rests on members of the batch's snapshot alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from memory.guard_rules import Rules, first_broken, held, of, precondition, read, rejected
from records.appends import Append, StoredRecord
from records.ingestion import (
    AbandonedReceipt,
    Batch,
    CompletionStatus,
    EvidenceSnapshot,
    ExperienceReceipt,
    ReceiptDisposition,
    Report,
    WorkAssignment,
    WorkCompletion,
    WorkDisposition,
    WorkItem,
)
from records.knowledge import Candidate, DecisionKind, DistillationDecision, GovernedRecord, LifecycleEvent, cited
from records.values import Disposition
from store.ledger.port import LedgerReader, Refusal

_NONE: Final[frozenset[str]] = frozenset()
_WITHOUT_PROOF: Final = frozenset({ReceiptDisposition.DEFERRED, ReceiptDisposition.NOT_REQUIRED})
_DECIDED: Final = {
    Disposition.PROVISIONAL: DecisionKind.PROMOTED_PROVISIONAL,
    Disposition.ACTIVE: DecisionKind.PROMOTED_ACTIVE,
    Disposition.CONTESTED: DecisionKind.PROMOTED_CONTESTED,
}


def guard_receipt(_reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a direct receipt that needs a work item or a proof."""
    for receipt in of(append, ExperienceReceipt):
        if receipt.disposition not in _WITHOUT_PROOF:
            return precondition(f"a receipt that says {receipt.disposition} is not appended directly")
    return None


def guard_enqueue(_reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse an item whose receipt is about something else; the sidecar is derived from the item itself."""
    items, receipts = list(of(append, WorkItem)), list(of(append, ExperienceReceipt))
    if len(items) != 1 or len(receipts) != 1:
        return rejected("an enqueue holds one item and its one receipt")
    item, receipt = items[0], receipts[0]
    rules = (
        (receipt.work_item_id == item.id, "the receipt names another item"),
        (receipt.experience_id == item.experience_id, "the receipt is about another experience"),
        (receipt.policy == item.distillation_policy, "receipt and item are under different policies"),
    )
    return first_broken(iter(rules), rejected)


def guard_abandon(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse to abandon what is queued already, or an Experience that has its receipt (spec 8.1)."""
    receipts = list(of(append, AbandonedReceipt))
    if len(receipts) != 1 or len(append.records) != 1:
        return rejected("an abandonment holds one receipt that says so")
    receipt = receipts[0]
    known = reader.find("distillation-receipt", append.namespace, experience_id=str(receipt.experience_id))
    rules = (
        (not known, "the experience has its receipt already"),
        (reader.get(receipt.abandoned_work_item_id) is None, "the item is in the Ledger"),
    )
    return first_broken(iter(rules), precondition)


def guard_give_up(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse to give up an item that was assigned elsewhere, or has its completion (spec 8.1)."""
    completions = list(of(append, WorkCompletion))
    if len(completions) != 1 or completions[0].status is CompletionStatus.COMPLETED:
        return rejected("an item is given up by one completion that says so")
    completion, work_item_id = completions[0], str(completions[0].work_item_id)
    found = reader.find("distillation-work-assignment", append.namespace, work_item_id=work_item_id)
    assignment = found[0].load() if found else None
    place = (completion.run_id, completion.activity_id)
    own = isinstance(assignment, WorkAssignment) and (assignment.run_id, assignment.activity_id) == place
    done = reader.find("distillation-work-completion", append.namespace, work_item_id=work_item_id)
    rules = (
        (own, "the item was not assigned to this Activity"),
        (not done, "the item has its completion already"),
    )
    return first_broken(iter(rules), precondition)


def guard_completion(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a completion that is not of its item, or knowledge that does not follow from its Decision."""
    for completion in of(append, WorkCompletion):
        batch = next(of(append, Batch), None)
        report = next(of(append, Report), None)
        dispositions = list(of(append, WorkDisposition))
        if batch is None or report is None or len(dispositions) != 1:
            return rejected("a completion comes with one batch, one report and one disposition")
        refusal = (
            first_broken(_placed(reader, completion, batch), rejected)
            or first_broken(_led(reader, append, report), precondition)
            or first_broken(_accounted(reader, append, (batch, report, dispositions[0])), rejected)
            or first_broken(_founded(reader, append, batch), rejected)
            or first_broken(_decided(append), rejected)
        )
        if refusal is not None:
            return refusal
    return None


def rests_on(append: Append) -> Iterator[str]:
    """Name what a completion is checked against; see `store.ledger.port.Request`."""
    for batch in of(append, Batch):
        yield from (batch.work_item_id, batch.assignment_id)
        if any(of(append, Candidate)):
            yield batch.evidence_snapshot_id
    for report in of(append, Report):
        yield from report.decision_ids


@lru_cache(maxsize=4)
def _members(snapshot: StoredRecord) -> frozenset[str]:
    """Return the members of a snapshot; it is read once, however many rules are drawn from it."""
    record = snapshot.load()
    return frozenset(each.experience_id for each in record.members) if isinstance(record, EvidenceSnapshot) else _NONE


def _placed(reader: LedgerReader, completion: WorkCompletion, batch: Batch) -> Rules:
    item = read(reader, batch.work_item_id, WorkItem)
    assignment = read(reader, batch.assignment_id, WorkAssignment)
    yield item is not None and assignment is not None, "item or assignment is not in the Ledger"
    if item is None or assignment is None:
        return
    place = (assignment.work_item_id, assignment.run_id, assignment.activity_id)
    yield place == (item.id, completion.run_id, completion.activity_id), "the item was assigned to another Activity"
    policies = (item.distillation_policy, item.lifecycle_policy)
    yield policies == (batch.distillation_policy, batch.lifecycle_policy), "the batch is under other policies"
    yield item.experience_id in batch.experience_ids, "the batch did not consider its item's experience"


def _accounted(reader: LedgerReader, append: Append, made: tuple[Batch, Report, WorkDisposition]) -> Rules:
    batch, report, disposition = made
    own = (batch.work_item_id, batch.id)
    yield (report.work_item_id, report.batch_id) == own, "the report is of another batch"
    yield (disposition.work_item_id, disposition.batch_id) == own, "the disposition is of another batch"
    yield disposition.outcome is report.work_outcome, "report and disposition say different things"
    if disposition.decision_id is None:
        return
    here, known = _decisions(reader, append, report)
    decision = (here | known).get(disposition.decision_id)
    covered = decision is not None and decision.candidate_id == disposition.candidate_id
    yield covered, "the covering decision is about another candidate"
    yield report.decision_ids[:1] == (disposition.decision_id,), "the report names another decision first"
    yield set(here) <= set(report.decision_ids), "the report leaves a decision of its batch out"


def _decisions(
    reader: LedgerReader, append: Append, report: Report
) -> tuple[dict[str, DistillationDecision], dict[str, DistillationDecision]]:
    """Return the Decisions that an append makes, and those of the Ledger that its report names besides."""
    here = {str(record.id): record for record in of(append, DistillationDecision)}
    stored = reader.get_many([each for each in report.decision_ids if each not in here])
    known = {each: decision for each in stored if (decision := held(stored, each, DistillationDecision)) is not None}
    return here, known


def _led(reader: LedgerReader, append: Append, report: Report) -> Rules:
    """Say that every Decision is there; one that another item was to commit may come about in the next pass."""
    here, known = _decisions(reader, append, report)
    yield set(report.decision_ids) <= here.keys() | known.keys(), "a Decision that covers it is not in the Ledger yet"


def _founded(reader: LedgerReader, append: Append, batch: Batch) -> Rules:
    candidates = list(of(append, Candidate))
    if not candidates:
        return
    snapshot = reader.get(batch.evidence_snapshot_id)
    members = _NONE if snapshot is None else _members(snapshot)
    for candidate in candidates:
        yield candidate.evidence_snapshot_id == batch.evidence_snapshot_id, "the candidate is of another snapshot"
        yield members.issuperset(candidate.experience_ids), "the candidate rests on what the snapshot does not hold"
    rests: list[Candidate | GovernedRecord] = [*candidates, *of(append, GovernedRecord)]
    for made in rests:
        yield bool(made.links) and members >= cited(made), "its evidence is not in the snapshot"


def _decided(append: Append) -> Rules:
    candidates = {str(candidate.id) for candidate in of(append, Candidate)}
    memories = {str(record.id): record for record in of(append, GovernedRecord)}
    kinds: dict[str, DecisionKind] = {}
    for decision in of(append, DistillationDecision):
        yield decision.candidate_id in candidates, "the decision is about a candidate that is not here"
        if decision.memory_id is not None:
            record = memories.get(decision.memory_id)
            own = record is not None and record.candidate_id == decision.candidate_id
            yield own, "the decision promotes another candidate's record"
            kinds[decision.memory_id] = decision.decision
    yield kinds.keys() == memories.keys(), "a record without the decision that promotes it"
    for event in of(append, LifecycleEvent):
        wanted = _DECIDED.get(event.disposition)
        yield wanted is None or kinds.get(event.memory_id) is wanted, "what becomes live is not what was decided"
