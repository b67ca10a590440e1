"""An incident over a `Stack`: a rule that recall can find, and the erasure of it or of its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.index.embedding import HashEmbedder
from memory.recall.retriever import DecisionPointRetriever
from policies.retrieval_policy import retrieval_policy
from records.appends import AppendReceipt, Proposal
from records.base import Record
from records.errors import VrmError
from records.flows import Authority, Transition
from records.ids import RecallInputId, RunId
from records.knowledge import LifecycleEvent, MemoryRecord
from records.outcomes import NoCommitReceipt
from records.retention import ErasureIntent
from records.states import Machine, Phase
from tests.support.samples import Common
from tests.support.stack import Stack, record_of
from tests.support.stack_decisions import tokenizer
from tests.support.stores import expect
from tests.support.variant_samples import (
    make_evidence_intent,
    make_memory_intent,
    make_retraction,
    make_tombstone,
    proof_bytes,
)


@dataclass
class Incident:
    """A store with an active rule that recall can find, and a Run in which something of it is erased."""

    stack: Stack
    recall_input: RecallInputId
    run_id: RunId

    @property
    def common(self) -> Common:
        return Common(self.stack.namespace)

    @property
    def rule(self) -> MemoryRecord:
        (rule,) = self.stack.load("memory-record")
        return expect(MemoryRecord, rule)  # type: ignore[no-any-return]  # it was checked

    @property
    def builds(self) -> tuple[Record, ...]:
        return tuple(self.stack.load("memory-index-build"))

    def retraction(self) -> LifecycleEvent:
        (head,) = self.stack.stores.ledger.variant_heads(self.stack.namespace).values()
        snapshot = expect(LifecycleEvent, record_of(self.stack, head.event_id)).evidence_snapshot_id
        event = make_retraction(self.common, self.rule, head.event_id)
        return event.model_copy(update={"evidence_snapshot_id": snapshot})

    def of_rule(self, **changes: Any) -> tuple[LifecycleEvent, ErasureIntent]:
        event = self.retraction()
        return event, make_memory_intent(self.common, self.rule, event, self.builds).model_copy(update=changes)

    def of_observation(self, place: int = 0) -> ErasureIntent:
        return make_evidence_intent(self.common, self.stack.load("observation")[place], self.builds)

    def phase(self, intent: Record) -> Phase | None:
        subject = self.stack.stores.runtime.subject(Machine.ERASURE, str(intent.id))
        return None if subject is None else subject.phase

    def proposal(self, transition: Transition, intent_id: str, *records: Record) -> Proposal:
        subject = self.stack.stores.runtime.subject(Machine.ERASURE, intent_id)
        return Proposal(
            namespace=self.stack.namespace,
            transition=transition,
            authority=Authority.RETENTION,
            machine=Machine.ERASURE,
            subject_id=intent_id,
            run_id=self.run_id,
            generation=subject.generation if subject else 1,
            fence=subject.fence if subject else 1,
            records=Proposal.bodies(records),
        )

    def begin(self, *records: Record) -> AppendReceipt | VrmError:
        intent = next(record for record in records if isinstance(record, ErasureIntent))
        proposal = self.proposal(Transition.BEGIN_ERASURE, str(intent.id), *records)
        return self.stack.spine.carry([proposal])[0]

    def opened(self, *records: Record) -> ErasureIntent:
        """Begin an erasure that must begin."""
        receipt = expect(AppendReceipt, self.begin(*records))
        assert receipt.committed, record_of(self.stack, str(receipt.no_commit_id))
        return next(record for record in records if isinstance(record, ErasureIntent))

    def close(self, intent: ErasureIntent, **changes: Any) -> AppendReceipt | VrmError:
        tombstone = make_tombstone(self.common, intent).model_copy(update=changes)
        return self.stack.spine.carry([self.proposal(Transition.CLOSE_ERASURE, str(intent.id), tombstone)])[0]

    def publish(self, intent: ErasureIntent) -> None:
        self.stack.stores.artifacts.publish_many(proof_bytes(intent))

    def retriever(self) -> DecisionPointRetriever:
        stores = self.stack.stores
        return DecisionPointRetriever(
            stores.ledger, stores.artifacts, HashEmbedder(32), tokenizer(), retrieval_policy(), test_index=True
        )

    def refused(self, answer: AppendReceipt | VrmError) -> NoCommitReceipt:
        receipt = expect(AppendReceipt, answer)
        assert not receipt.committed
        return expect(NoCommitReceipt, record_of(self.stack, str(receipt.no_commit_id)))  # type: ignore[no-any-return]
