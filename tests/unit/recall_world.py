"""A small Ledger in memory, and an artifact store, with what tests of snapshots and recall put into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.evidence import Trial, bundle_records
from memory.guards import GUARDS
from memory.index.embedding import Embedder, HashEmbedder, TextKind
from memory.index.lexical import TERMS_VERSION
from memory.recall.context import Recall
from memory.recall.retriever import DecisionPointRetriever
from memory.snapshots import (
    EvidenceSnapshotBuilder,
    FreezeEvidence,
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
    capture_key,
    index_key,
    knowledge_key,
    recall_input_key,
)
from memory.tokens import Tokenizer
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.retrieval_policy import Fallback, RetrievalPolicy, retrieval_policy
from policies.selection_policy import SelectionPolicy, selection_policy
from records.appends import Append, AppendReceipt
from records.base import Record
from records.decisions import (
    BlockedProposal,
    DecisionContractView,
    DecisionIntent,
    RecallContext,
)
from records.errors import UnavailableError, VrmError
from records.evidence import Experience
from records.flows import Authority, Transition
from records.ids import (
    CandidateId,
    EventId,
    EvidenceSnapshotId,
    MemoryId,
    RecallInputId,
)
from records.ingestion import EvidenceSnapshot
from records.knowledge import (
    GENESIS,
    EventType,
    GovernedRecord,
    KnowledgeCandidate,
    LifecycleEvent,
    MemoryRecord,
)
from records.snapshots import IndexBuild, KnowledgeSnapshot, RecallInput
from records.values import DecisionPoint, Disposition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Request
from tests.unit.recall_support import CONTRACT, NOW, SPACE, intent, request, view


@dataclass
class World:
    """A Ledger and an artifact store with what was put into them."""

    folder: Path
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        self.artifacts = ArtifactStore(str(self.folder / "artifacts"))
        self.epoch = self.ledger.claim("commit-coordinator/0", "test")
        self._count = 0
        self.direct(Transition.APPEND_EVIDENCE, "contract", CONTRACT)

    def append(self, append: Append) -> AppendReceipt:
        """Append through the real guards."""
        guard = GUARDS.get(append.transition)
        sent = Request(append) if guard is None else Request(append, guard)
        (answer,) = self.ledger.commit(self.epoch, [sent])
        if isinstance(answer, VrmError):
            raise answer
        assert answer.committed, answer
        return answer

    def direct(self, transition: Transition, key: str, *records: Record) -> AppendReceipt:
        """Append directly."""
        return self.append(Append.direct(transition, key, records))

    def granted(self, transition: Transition, authority: Authority, *records: Record) -> AppendReceipt:
        """Append as if it were granted; the grant itself is tested elsewhere."""
        self._count += 1
        return self.append(
            Append(
                namespace=records[0].namespace,
                transition=transition,
                authority=authority,
                permit_key=f"authorization:{self._count:064x}",
                permit_digest="0" * 64,
                records=records,
            )
        )

    def experience(self, finished: Trial, **changes: Any) -> Experience:
        """Append the bundle of a trial, its experience changed so, and return the experience."""
        *records, experience = bundle_records(finished)
        assert isinstance(experience, Experience)
        experience = experience.model_copy(update=changes)
        self.direct(Transition.APPEND_EVIDENCE, f"evidence:{experience.id}", *records, experience)
        return experience

    def capture(self, key: str, namespace: str = SPACE) -> EvidenceSnapshot:
        """Capture and append an evidence snapshot."""
        builder = EvidenceSnapshotBuilder(distillation_policy())
        with self.ledger.reading() as reader:
            snapshot, operation = builder.freeze(reader, FreezeEvidence(namespace=namespace, operation_key=key))
        self.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), snapshot, operation)
        return snapshot

    def learn(
        self, record: MemoryRecord, event: EventType = EventType.PROMOTED_ACTIVE, prior: str = GENESIS
    ) -> tuple[MemoryRecord, LifecycleEvent]:
        """Append a rule with its candidate and first event; the record comes back with its candidate."""
        snapshot = self.capture(f"for-{record.namespace}", record.namespace)
        candidate = _candidate(record, EvidenceSnapshotId(snapshot.id))
        stored = record.model_copy(update={"candidate_id": CandidateId(candidate.id)})
        started = lifecycle_event(stored, event, prior, EvidenceSnapshotId(snapshot.id))
        self.granted(Transition.COMMIT_DISTILLATION, Authority.NORMAL, candidate, stored, started)
        return stored, started

    def end(self, record: MemoryRecord, event: EventType, prior: LifecycleEvent) -> LifecycleEvent:
        """Append the event that ends a rule."""
        ended = lifecycle_event(record, event, str(prior.id), prior.evidence_snapshot_id)
        self.granted(Transition.COMMIT_DISTILLATION, Authority.NORMAL, ended)
        return ended

    def freeze(self, policy: SelectionPolicy | None = None, namespace: str = SPACE) -> KnowledgeSnapshot:
        """Freeze and append the knowledge of a namespace."""
        with self.ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(policy or selection_policy()).freeze(reader, namespace)
        self.direct(Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot)
        return snapshot

    def index(
        self, snapshot: KnowledgeSnapshot, embedder: Embedder | None = None, rule: str = TERMS_VERSION
    ) -> tuple[IndexBuild, bytes]:
        """Build, publish and append the index of a snapshot."""
        with self.ledger.reading() as reader:
            build, data = build_index(reader, snapshot, embedder or HashEmbedder(32), test_index=True, rule=rule)
        self.artifacts.publish(data)
        self.direct(Transition.INDEX_RECEIPT, index_key(build), build)
        return build, data

    def ready(self, policy: RetrievalPolicy | None = None, namespace: str = SPACE) -> RecallInput:
        """Freeze, index, compose and append; return the Recall Input."""
        snapshot = self.freeze(namespace=namespace)
        build, _ = self.index(snapshot)
        return self.compose(snapshot, build, policy)

    def compose(
        self, snapshot: KnowledgeSnapshot, build: IndexBuild, policy: RetrievalPolicy | None = None
    ) -> RecallInput:
        """Compose and append; return the Recall Input."""
        composed = RecallInputSnapshotBuilder(policy or retrieval_policy()).compose(snapshot, [build])
        self.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
        return composed

    def admit(self, decision: DecisionIntent, seen: DecisionContractView | None = None) -> DecisionIntent:
        """Append an intent and its contract view."""
        self.granted(Transition.APPEND_INTENT, Authority.ADMISSION, seen or view(), decision)
        return decision

    def retriever(self, policy: RetrievalPolicy | None = None, **options: Any) -> DecisionPointRetriever:
        """Return a retriever with the test embedder, or the one given."""
        embedder = options.pop("embedder", None) or HashEmbedder(32)
        options.setdefault("test_index", True)
        return DecisionPointRetriever(
            self.ledger, self.artifacts, embedder, Tokenizer(), policy or retrieval_policy(), **options
        )


def lifecycle_event(
    record: GovernedRecord, event: EventType, prior: str, snapshot: EvidenceSnapshotId
) -> LifecycleEvent:
    """Return a lifecycle event of a record."""
    reached = {
        EventType.PROMOTED_ACTIVE: Disposition.ACTIVE,
        EventType.PROMOTED_PROVISIONAL: Disposition.PROVISIONAL,
        EventType.PROMOTED_CONTESTED: Disposition.CONTESTED,
        EventType.SUPERSEDED: Disposition.SUPERSEDED,
        EventType.RETRACTED: Disposition.RETRACTED,
    }
    return LifecycleEvent(
        namespace=record.namespace,
        created_at="2026-02-11T00:00:00.000000Z",
        memory_id=MemoryId(record.id),
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_type=event,
        disposition=reached[event],
        expected_prior=EventId(prior) if prior != GENESIS else "GENESIS",
        reasons=("test",),
        evidence_ids=(),
        evidence_snapshot_id=snapshot,
        policy=lifecycle_policy().identity,
    )


def _candidate(record: MemoryRecord, snapshot: EvidenceSnapshotId) -> KnowledgeCandidate:
    return KnowledgeCandidate(
        namespace=record.namespace,
        created_at=record.created_at,
        proposed_family_id=record.family_id,
        proposed_scope_variant_id=record.scope_variant_id,
        evidence_snapshot_id=snapshot,
        experience_ids=(),
        scope=record.scope,
        target=record.target,
        mechanism=record.mechanism,
        claim=record.claim,
        effect=record.effect,
        links=record.links,
        drafting_adapter="by-hand",
        policy=record.distillation_policy,
        findings=(),
    )


def answer(world: World, source: RecallInput | None = None, **changes: Any) -> Recall | BlockedProposal:
    """Admit a decision, load the input and ask."""
    options = {
        key: changes.pop(key) for key in ("policy", "also", "embedder", "denials", "test_index") if key in changes
    }
    decision = changes.pop("decision", None) or world.admit(intent())
    found = source or world.ready(options.get("policy"))
    retriever = world.retriever(**options)
    loaded = retriever.load(RecallInputId(found.id))
    return retriever.propose(decision, request(decision, RecallInputId(found.id), **changes), loaded, now=NOW)


def context(found: Recall | BlockedProposal) -> RecallContext:
    assert isinstance(found, Recall), found
    return found.context


def proof(found: Recall | BlockedProposal) -> BlockedProposal:
    assert isinstance(found, BlockedProposal), found
    return found


class BrokenEmbedder:
    """An embedder whose weights are gone: it knows its name or not, and embeds nothing."""

    dimensions = 32

    def __init__(self, name: str | None) -> None:
        self._name = name

    @property
    def id(self) -> str:
        if self._name is None:
            raise UnavailableError("embedder", "weights", "Install them.")
        return self._name

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        raise UnavailableError("embedder", f"{len(texts)} texts as {kind}", "Install the weights.")


def without_fallback() -> RetrievalPolicy:
    policy = retrieval_policy()
    profile = policy.require_profile(DecisionPoint.INTERVENTION).model_copy(update={"fallback": Fallback.NONE})
    return policy.model_copy(update={"version": "99", "profiles": (profile,)})
