"""From a Ledger to answers, as a running system takes it: snapshot, index, Recall Input, intent, request, proposal.

Rules kept here:

- nothing is left out and nothing is put in: the members are what the Knowledge Snapshot selects, the index is built by
  the real model, an answer is what the Decision-Point Retriever proposes;
- the candidates of an answer are those that the retriever itself gathered, so that fitting weights starts from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from evaluation.retrieval.questions import Question
from evaluation.simulation.world import OpenLedger
from memory.guards import GUARDS
from memory.index.embedding import Embedder
from memory.index.fusion import FusedHit
from memory.recall.candidates import Gathered
from memory.recall.context import Admitted, Recall, Searched
from memory.recall.retriever import DecisionPointRetriever
from memory.recall.sources import Sources
from memory.snapshots import (
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
    index_key,
    knowledge_key,
    recall_input_key,
)
from memory.tokens import Tokenizer
from policies.planner import allowed_action_digest
from policies.retrieval_policy import RetrievalPolicy
from policies.selection_policy import selection_policy
from records.appends import Append
from records.base import Record
from records.canonical import digest_bytes
from records.decisions import BlockedProposal, DecisionContractView, DecisionIntent, RecallRequest
from records.errors import IntegrityError, VrmError
from records.flows import Authority, Transition
from records.ids import AuthorizationId, ContractId, ContractViewId, IntentId, RecallInputId, RunId
from records.knowledge import MemoryRecord
from records.models import Id
from records.runtime import activity_id
from records.values import ActorIdentity, DecisionPoint, GovernanceBinding, RecallRequirement, SourceKind
from store.artifacts import ArtifactStore
from store.ledger.port import Request, no_guard

NOW: Final = "2026-03-01T00:00:00.000000Z"
_SLOT: Final = "decide"


@dataclass(frozen=True)
class Answer:
    """What came of one question.

    Attributes:
        found: the proposal.
        candidates: the records of the fused candidate list, best first; empty where the request was blocked.
        cards: the records of the cards, in their order.
    """

    question: Question
    found: Recall | BlockedProposal
    candidates: tuple[MemoryRecord, ...]
    gathered: Gathered | None
    cards: tuple[MemoryRecord, ...]

    def relevance(self, hit: FusedHit) -> Fraction:
        """Return the fused score of a candidate as a share of the best one possible."""
        return Fraction(0) if self.gathered is None else self.gathered.relevance(hit)

    @property
    def rendered(self) -> str:
        """The section; empty where the request was blocked."""
        return self.found.rendered if isinstance(self.found, Recall) else ""


class Asker:
    """Asks questions of one Ledger under one policy.

    Attributes:
        recall_input_id: the Recall Input that every question is put to.
    """

    def __init__(
        self,
        ledger: OpenLedger,
        artifacts: ArtifactStore,
        *,
        embedder: Embedder,
        policy: RetrievalPolicy,
        namespace: str,
        answering: RetrievalPolicy | None = None,
        asking: Embedder | None = None,
        damaged: bool = False,
        test_index: bool = False,
    ) -> None:
        """Claim the Ledger, freeze what it knows, index and compose it.

        Args:
            ledger: what is asked; the Recall Input is appended to it, and so is every intent.
            artifacts: where the index and the query vectors go.
            embedder: what the index is built with.
            policy: what the Recall Input is made for.
            namespace: whose knowledge it is.
            answering: the policy of the retriever, if it is another one.
            asking: what requests are embedded with, if it is another one.
            damaged: whether a byte of the index is changed before it is loaded.
            test_index: allow vectors without meaning; for tests only.
        """
        self._ledger, self._artifacts, self._policy, self._space = ledger, artifacts, policy, namespace
        self._appender = Appender(ledger)
        self.recall_input_id, data = self._compose(embedder, test_index=test_index)
        self._retriever = _Watched(
            ledger, artifacts, asking or embedder, Tokenizer(), answering or policy, test_index=test_index
        )
        self._loaded = self._retriever.load(self.recall_input_id, _changed(data) if damaged else data)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Admit and answer each question."""
        return [self.ask_one(question, number) for number, question in enumerate(questions)]

    def ask_one(self, question: Question, number: int) -> Answer:
        """Admit one question as decision `number` of this policy's Run, and answer it."""
        view = _view(question, self._space)
        intent = _intent(question, self._space, view, f"{self.recall_input_id}/{question.name}", number)
        self._appender.direct(Transition.APPEND_EVIDENCE, f"contract/{question.contract.id}", question.contract)
        self._appender.granted(Transition.APPEND_INTENT, Authority.ADMISSION, view, intent)
        request = _request(question, intent, self.recall_input_id)
        found = self._retriever.propose(intent, request, self._loaded, now=NOW)
        gathered = self._retriever.take()
        candidates = () if gathered is None else tuple(hit.id for hit in gathered.hits)
        cards = [str(item.memory_id) for item in found.context.items] if isinstance(found, Recall) else []
        return Answer(question, found, self._records(candidates), gathered, self._records(cards))

    def _compose(self, embedder: Embedder, *, test_index: bool) -> tuple[RecallInputId, bytes]:
        with self._ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, self._space)
        self._appender.direct(Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot)
        with self._ledger.reading() as reader:
            build, data = build_index(reader, snapshot, embedder, test_index=test_index)
        self._artifacts.publish(data)
        self._appender.direct(Transition.INDEX_RECEIPT, index_key(build), build)
        composed = RecallInputSnapshotBuilder(self._policy).compose(snapshot, [build])
        self._appender.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
        return RecallInputId(composed.id), data

    def _records(self, ids: Iterable[str]) -> tuple[MemoryRecord, ...]:
        wanted = list(ids)
        stored = self._ledger.get_many(wanted)
        loaded = [stored[each].load() for each in wanted]
        return tuple(record for record in loaded if isinstance(record, MemoryRecord))


class Appender:
    """Appends to a Ledger in memory with the guards of its flows; the grants that come before are left out."""

    def __init__(self, ledger: OpenLedger) -> None:
        """Claim the Ledger."""
        self._ledger = ledger
        self._epoch = ledger.claim("commit-coordinator/0", "evaluation")

    def direct(self, transition: Transition, key: str, *records: Record) -> None:
        """Append directly; the same again is a replay."""
        self._append(Append.direct(transition, key, records))

    def granted(self, transition: Transition, authority: Authority, *records: Record) -> None:
        """Append as if it were granted, under a permit that follows from the records."""
        key = str(AuthorizationId.derive({"evaluation": [str(record.id) for record in records]}))
        self._append(
            Append(
                namespace=records[0].namespace,
                transition=transition,
                authority=authority,
                permit_key=key,
                permit_digest=digest_bytes(key.encode()),
                records=records,
            )
        )

    def _append(self, append: Append) -> None:
        for answer in self._ledger.commit(self._epoch, [Request(append, GUARDS.get(append.transition, no_guard))]):
            if isinstance(answer, VrmError):
                raise answer
            if not answer.committed:
                raise IntegrityError("retrieval evaluation", str(answer), "A record was not appended.")


class _Watched(DecisionPointRetriever):
    """A retriever that remembers the candidates of its last answer."""

    _gathered: Gathered | None = None

    def take(self) -> Gathered | None:
        """Return the candidates of the last answer, once; None where none were looked for."""
        taken, self._gathered = self._gathered, None
        return taken

    def _search(self, admitted: Admitted, sources: Sources, vector_digest: str | None) -> Searched:
        found = super()._search(admitted, sources, vector_digest)
        self._gathered = found.lanes.get(SourceKind.SEMANTIC)
        return found


def _changed(data: bytes) -> bytes:
    """Return bytes that differ in one bit."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _view(question: Question, namespace: str) -> DecisionContractView:
    contract = question.contract
    return DecisionContractView(
        namespace=namespace,
        created_at=NOW,
        contract_id=ContractId(contract.id),
        contract_digest=contract.comparability_digest,
        primary_metric=contract.primary_metric,
        guardrail_metrics=contract.guardrail_metrics,
        equivalence_margin=contract.equivalence_margin,
        budget_class=question.scope.budget_class,
    )


def _intent(question: Question, namespace: str, view: DecisionContractView, run: str, number: int) -> DecisionIntent:
    run_id = RunId.derive({"evaluation": run})
    digests: Mapping[str, str] = {name: digest_bytes(name.encode()) for name in ("context", "config", "template")}
    policy = selection_policy().identity
    return DecisionIntent(
        namespace=namespace,
        created_at=NOW,
        run_id=run_id,
        activity_id=activity_id(run_id, _SLOT),
        iteration=number,
        generation=0,
        arm="memory",
        pair="evaluation",
        evaluation_task_id=_known(question.scope.evaluation_task_id),
        task_scope_id=question.scope.task_scope_id,
        research_context_digest=digests["context"],
        contract_view_id=ContractViewId(view.id),
        decision_point=DecisionPoint.INTERVENTION,
        decision_slot="intervention/0",
        artifact_kind="intervention-proposal",
        catalog_digest=question.catalog.digest,
        allowed_action_digest=allowed_action_digest(question.allowed),
        planned_actor=ActorIdentity(
            model="evaluation", config_digest=digests["config"], template_digest=digests["template"], policy=policy
        ),
        governance=GovernanceBinding(
            profile_ref="evaluation",
            profile_digest=digests["config"],
            assignment_manifest_digest=digests["template"],
            recall_requirement=RecallRequirement.REQUIRED,
        ),
    )


def _known(found: Id | None) -> Any:
    if found is None:
        raise IntegrityError("retrieval evaluation", "a question without a task", "Give each question its task.")
    return found


def _request(question: Question, intent: DecisionIntent, recall_input: RecallInputId) -> RecallRequest:
    return RecallRequest(
        intent_id=IntentId(intent.id),
        recall_input_id=recall_input,
        decision_point=DecisionPoint.INTERVENTION,
        scope=question.scope,
        metric=question.contract.primary_metric,
        prior_config=question.settings,
        prior_observation=None,
        no_prior_observation_reason="first_decision",
        allowed_actions=question.allowed,
        query=question.text,
    )
