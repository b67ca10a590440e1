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
from records.ids import ErasureIntentId, RecallInputId, RunId
from records.knowledge import LifecycleEvent, MemoryRecord
from records.outcomes import NoCommitReceipt
from records.retention import (
    Acknowledgement,
    ErasureIntent,
    ErasureOperation,
    ErasureProof,
    RetentionTombstone,
    TerminalState,
)
from records.states import Machine, Phase
from records.values import ProofRef
from tests.support.samples import Common
from tests.support.stack import Stack, record_of
from tests.support.stack_decisions import tokenizer
from tests.support.stores import expect
from tests.support.trials import NOW
from tests.support.variant_samples import (
    make_evidence_intent,
    make_memory_intent,
    make_retraction,
    make_tombstone,
)


def proofs_of(intent: ErasureIntent, **changes: Any) -> list[ErasureProof]:
    """Return the proofs of an erasure as the specification has them (4.15): the target, then every affected object."""
    common: dict[str, Any] = {
        "namespace": intent.namespace,
        "incident": intent.incident,
        "intent_id": ErasureIntentId(intent.id),
        "target_id": intent.target_id,
        "target_digest": intent.target_digest,
        "generation": intent.material.generation,
        "at": NOW,
    }
    erased = {"operation": ErasureOperation.ERASED, "state": TerminalState.GONE}
    denied = {"operation": ErasureOperation.INVALIDATED, "state": TerminalState.DENIED}
    objects = [(intent.target_id, erased)]
    objects += [(str(part.index_build_id), denied) for part in intent.affected_indexes]
    objects += [(part.sha256, erased) for part in intent.affected_artifacts]
    return [
        ErasureProof(**(common | own | {"object_ref": name, "sequence": place} | changes))
        for place, (name, own) in enumerate(objects, start=1)
    ]


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

    def tombstone(self, intent: ErasureIntent, **changes: Any) -> RetentionTombstone:
        """Return the tombstone of an intent, with the proofs that `publish` publishes."""
        receipt, *others = (
            ProofRef(ref=proof.object_ref, digest=proof.canonical_digest) for proof in proofs_of(intent)
        )
        named = zip(intent.affected, others, strict=True)
        own = {
            "erasure_receipt": receipt,
            "acknowledgements": tuple(Acknowledgement(affected=each, proof=proof) for each, proof in named),
        }
        return make_tombstone(self.common, intent).model_copy(update=own | changes)

    def close(self, intent: ErasureIntent, **changes: Any) -> AppendReceipt | VrmError:
        tombstone = self.tombstone(intent, **changes)
        return self.stack.spine.carry([self.proposal(Transition.CLOSE_ERASURE, str(intent.id), tombstone)])[0]

    def publish(self, intent: ErasureIntent) -> None:
        """Let the bytes be gone and the proofs be published."""
        for digest in intent.erased_bytes:
            self.stack.stores.artifacts.erase(digest)
        self.stack.stores.artifacts.publish_many([proof.canonical for proof in proofs_of(intent)])

    def retriever(self) -> DecisionPointRetriever:
        stores = self.stack.stores
        return DecisionPointRetriever(
            stores.ledger, stores.artifacts, HashEmbedder(32), tokenizer(), retrieval_policy(), test_index=True
        )

    def refused(self, answer: AppendReceipt | VrmError) -> NoCommitReceipt:
        receipt = expect(AppendReceipt, answer)
        assert not receipt.committed
        return expect(NoCommitReceipt, record_of(self.stack, str(receipt.no_commit_id)))  # type: ignore[no-any-return]
