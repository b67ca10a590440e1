"""Every record kind and variant is stored and read back, with its child rows, on both adapters."""

from __future__ import annotations

import pytest

from records.appends import Append, AppendReceipt
from records.base import Record
from records.errors import (
    IntegrityError,
)
from records.flows import Authority, Transition
from records.ids import ExperienceId, MemoryId
from records.knowledge import EventType, GovernedRecord, MemoryRecord
from records.outcomes import NoCommitReason
from records.values import Disposition
from store.ledger.schema import column_names
from tests.support.decision_samples import every_variant, sample_records
from tests.support.samples import SECOND_CLAIM, Common, baseline_records, make_event, make_memory
from tests.support.stores import Writer, chained, evidence_append, expect, granted
from tests.support.variant_samples import make_retraction


def distillation(records: dict[str, Record], nouns: tuple[str, ...], name: str) -> Append:
    return granted(Transition.COMMIT_DISTILLATION, [records[noun] for noun in nouns], name)


def erasure(transition: Transition, name: str, *records: Record) -> Append:
    return granted(transition, records, name, Authority.RETENTION)


PROOFS = {"no-commit-receipt", "distillation-commit-conflict"}


def test_every_kind_and_variant_is_stored_and_read_back(writer: Writer) -> None:
    records = sample_records(writer.namespace)
    common = Common(writer.namespace)
    comparator = baseline_records(writer.namespace)
    first = records["memory-record"]
    assert isinstance(first, MemoryRecord)
    second = make_memory(common, records, ExperienceId(comparator[-1].id), SECOND_CLAIM, MemoryId(first.id))
    variants = every_variant(writer.namespace)
    procedure = variants["memory-record/procedure"]
    assert isinstance(procedure, GovernedRecord)
    retraction = make_retraction(common, first, str(records["knowledge-lifecycle-event"].id))
    appends = [
        evidence_append([*comparator, *list(records.values())[1:8]]),
        granted(
            Transition.ENQUEUE_DISTILLATION,
            [records[noun] for noun in ("distillation-work-item", "distillation-receipt", "enqueue-transaction")],
            "enqueue",
            Authority.HANDOFF_ATTEMPT,
        ),
        Append.direct(Transition.ASSIGN_WORK, "assign", (records["distillation-work-assignment"],)),
        Append.direct(
            Transition.CAPTURE_SNAPSHOT, "capture", (records["evidence-snapshot"], records["capture-operation"])
        ),
        distillation(
            records,
            (
                "distillation-batch",
                "knowledge-candidate",
                "memory-record",
                "knowledge-lifecycle-event",
                "distillation-decision",
                "distillation-work-disposition",
                "distillation-report",
                "distillation-work-completion",
            ),
            "commit",
        ),
        granted(Transition.COMMIT_DISTILLATION, [*second, records["memory-relation"]], "second"),
        granted(
            Transition.COMMIT_DISTILLATION,
            [
                variants["knowledge-candidate/procedure"],
                procedure,
                make_event(common, procedure, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE),
            ],
            "procedure",
        ),
        Append.direct(
            Transition.RECEIPT_NOT_QUEUED, "abandoned", (variants["distillation-receipt/abandoned_before_enqueue"],)
        ),
        Append.direct(Transition.FREEZE_KNOWLEDGE, "freeze", (records["knowledge-snapshot"],)),
        Append.direct(Transition.INDEX_RECEIPT, "index", (records["memory-index-build"],)),
        Append.direct(Transition.INDEX_RECEIPT, "failure", (records["memory-index-failure"],)),
        Append.direct(Transition.COMPOSE_RECALL_INPUT, "input", (records["recall-input-snapshot"],)),
        granted(
            Transition.APPEND_INTENT,
            [records["decision-contract-view"], records["decision-intent"]],
            "intent",
            Authority.ADMISSION,
        ),
        granted(Transition.APPEND_CONTEXT, [records["decision-recall-context"]], "context"),
        granted(Transition.APPEND_OUTCOME, [records["recall-decision-outcome"]], "outcome"),
        Append.direct(Transition.LINK_ATTEMPT, "link", (records["outcome-attempt-link"],)),
        Append.direct(Transition.ADD_REFERENCE, "source", (records["reference-source"], records["reference-chunks"])),
        Append.direct(Transition.INDEX_REFERENCES, "references", (records["reference-index-build"],)),
        Append.direct(Transition.FREEZE_REFERENCES, "consulted", (records["reference-context"],)),
        Append.direct(Transition.ADD_NODE_REPORT, "node", (records["node-report"],)),
        Append.direct(Transition.ADD_LINEAGE_ENTRY, "entry", (records["lineage-entry"],)),
        Append.direct(Transition.ADD_LINEAGE_ENTRY, "rerun", (variants["lineage-entry/reproducibility_event"],)),
        Append.direct(Transition.APPEND_CLAIMS, "claim", (records["workspace-claim"], records["claim-event"])),
        Append.direct(Transition.TRACE_CLAIMS, "trace", (records["claim-trace"],)),
        Append.direct(Transition.RECEIPT_CLAIMS, "outcome-of-trial", (records["claim-receipt"],)),
        erasure(Transition.BEGIN_ERASURE, "begin", retraction, records["retention-erasure-intent"]),
        erasure(Transition.CLOSE_ERASURE, "close", records["memory-retention-tombstone"]),
        erasure(Transition.BEGIN_ERASURE, "begin-2", variants["retention-erasure-intent/not_applicable"]),
        erasure(Transition.CLOSE_ERASURE, "close-2", variants["memory-retention-tombstone/not_applicable"]),
    ]
    for append in appends:
        receipt = expect(AppendReceipt, writer.commit(append, guard=lambda _r, _a: None)[0])
        assert receipt.committed, (append.transition, writer.store.get(receipt.record_ids[0]))
    # The proofs of a no-commit are written by refusals alone: tests/contract/test_ledger_granted.py.
    everything = records | variants
    written = {name: record for name, record in everything.items() if record.kind.noun not in PROOFS}
    for name, record in written.items():
        stored = writer.store.get(record.id)
        assert stored is not None, name
        assert stored.load() == record
        assert type(stored.load()) is type(record)
        for column in ("record_kind", "disposition", "retraction", "entry_kind"):
            if column in column_names(record.kind):
                found = writer.store.find(record.kind.noun, writer.namespace, **{column: str(getattr(record, column))})
                assert str(record.id) in [each.id for each in found]
    assert [row.chain_digest for row in writer.journal()] == chained(writer)


@pytest.mark.parametrize("field", ["members", "affected_indexes"])
def test_child_rows_are_unique_within_their_parent(writer: Writer, field: str) -> None:
    records = sample_records(writer.namespace) | every_variant(writer.namespace)
    noun, transition = {
        "members": ("evidence-snapshot", Transition.CAPTURE_SNAPSHOT),
        "affected_indexes": ("retention-erasure-intent/not_applicable", Transition.BEGIN_ERASURE),
    }[field]
    record = records[noun]
    twice = record.model_copy(update={field: getattr(record, field) * 2})
    writer.good(evidence_append([*baseline_records(writer.namespace), *list(records.values())[1:8]]))
    if transition is Transition.CAPTURE_SNAPSHOT:
        (answer,) = writer.commit(Append.direct(transition, "twice", (twice,)), guard=lambda _r, _a: None)
        assert isinstance(answer, IntegrityError)
    else:
        (answer,) = writer.commit(erasure(transition, "twice", twice), guard=lambda _r, _a: None)
        assert expect(AppendReceipt, answer).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
