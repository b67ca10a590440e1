"""Decisions to recall for, over a store of made-up rules: what `propose` and the protocol are measured on.

The rules go in through the commit algorithm of the Ledger with the guards of their flows. The grants that would come
before are left out: they are not measured, and the store is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG, CONTRACT, METRIC, NOW, SPACE
from evaluation.bench.server import Bench
from memory.evidence import TaskIdentity
from memory.guards import GUARDS
from memory.index.embedding import Embedder
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
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.planner import allowed_action_digest, current_settings, open_actions
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import selection_policy
from records.appends import Append
from records.base import Record
from records.canonical import digest_bytes
from records.decisions import DecisionContractView, DecisionIntent, RecallRequest
from records.errors import VrmError
from records.flows import Authority, Transition
from records.governance import ArmAssignment, ArmManifest, MemoryProfile, Mode
from records.ids import (
    AuthorizationId,
    ContractId,
    ContractViewId,
    EvidenceSnapshotId,
    IntentId,
    MemoryId,
    RecallInputId,
    RunId,
)
from records.knowledge import GENESIS, EventType, LifecycleEvent, MemoryRecord
from records.runtime import activity_id
from records.values import ActorIdentity, DecisionPoint, Disposition, RecallRequirement
from store.ledger.port import Request, no_guard

SLOT: Final = "decide"
"""The Activity of a Run that takes its decisions."""
_RETRIEVAL: Final = retrieval_policy()
PROFILE: Final = MemoryProfile(profile_ref="bench", mode=Mode.DECISION_MEMORY, retrieval_policy=_RETRIEVAL.identity)
MANIFEST: Final = ArmManifest(
    study="bench",
    specification=digest_bytes(b"specification"),
    arms=(ArmAssignment.of("memory", PROFILE, RecallRequirement.REQUIRED),),
)
"""What the Run of all decisions is admitted with."""
_RULES_A_COMMIT: Final = 50


@dataclass(frozen=True)
class Composed:
    """A Recall Input over the rules, and the bytes of its index."""

    recall_input_id: RecallInputId
    index: bytes


@dataclass(frozen=True)
class Prepared:
    """A request with all that it needs in the store."""

    intent: DecisionIntent
    request: RecallRequest
    recall_input_id: RecallInputId
    index: bytes


class Preparation:
    """Fills an empty Ledger with rules, composes what decisions query, and admits one decision."""

    def __init__(self, bench: Bench) -> None:
        """Claim the Ledger of a bench."""
        self._ledger, self._artifacts = bench.ledger, bench.artifacts
        self._epoch = bench.ledger.claim("commit-coordinator/0", "bench")
        self._grants = 0

    def fill(self, rules: int, told: Callable[[int, int], None], crowd: int = 0) -> None:
        """Append contract and rules, each rule active under a scope variant of its own.

        Args:
            rules: how many.
            told: called with how many are in.
            crowd: how many of them are about the first task.
        """
        self._direct(Transition.APPEND_EVIDENCE, "contract", CONTRACT)
        builder = EvidenceSnapshotBuilder(distillation_policy())
        with self._ledger.reading() as reader:
            frozen, operation = builder.freeze(reader, FreezeEvidence(namespace=SPACE, operation_key="bench"))
        self._direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), frozen, operation)
        snapshot = EvidenceSnapshotId(frozen.id)
        for start in range(0, rules, _RULES_A_COMMIT):
            made = [
                corpus.rule(number, snapshot, crowd) for number in range(start, min(start + _RULES_A_COMMIT, rules))
            ]
            records = [part for candidate, rule in made for part in (candidate, rule, _promotion(rule, snapshot))]
            self._granted(Transition.COMMIT_DISTILLATION, Authority.NORMAL, *records)
            told(start + len(made), rules)

    def compose(self, embedder: Embedder) -> Composed:
        """Freeze, index and compose what is there."""
        with self._ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, SPACE)
        self._direct(Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot)
        with self._ledger.reading() as reader:
            build, data = build_index(reader, snapshot, embedder, test_index=True)
        self._artifacts.publish(data)
        self._direct(Transition.INDEX_RECEIPT, index_key(build), build)
        composed = RecallInputSnapshotBuilder(_RETRIEVAL).compose(snapshot, [build])
        self._direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
        return Composed(RecallInputId(composed.id), data)

    def decide(self, embedder: Embedder) -> Prepared:
        """Compose what is there, and admit a decision on the first task."""
        composed = self.compose(embedder)
        view = contract_view()
        intent = intent_of(RunId.derive({"bench": "decision"}))
        self._granted(Transition.APPEND_INTENT, Authority.ADMISSION, view, intent)
        found = composed.recall_input_id
        return Prepared(intent, request_of(intent, found), found, composed.index)

    def _direct(self, transition: Transition, key: str, *records: Record) -> None:
        self._append(Append.direct(transition, key, records))

    def _granted(self, transition: Transition, authority: Authority, *records: Record) -> None:
        self._grants += 1
        key = str(AuthorizationId.derive({"bench": self._grants}))
        self._append(
            Append(
                namespace=SPACE,
                transition=transition,
                authority=authority,
                permit_key=key,
                permit_digest=digest_bytes(key.encode()),
                records=records,
            )
        )

    def _append(self, append: Append) -> None:
        request = Request(append, GUARDS.get(append.transition, no_guard))
        for answer in self._ledger.commit(self._epoch, [request]):
            if isinstance(answer, VrmError):
                raise answer


def _promotion(rule: MemoryRecord, snapshot: EvidenceSnapshotId) -> LifecycleEvent:
    return LifecycleEvent(
        namespace=SPACE,
        created_at=NOW,
        memory_id=MemoryId(rule.id),
        family_id=rule.family_id,
        scope_variant_id=rule.scope_variant_id,
        event_type=EventType.PROMOTED_ACTIVE,
        disposition=Disposition.ACTIVE,
        expected_prior=GENESIS,
        reasons=("bench",),
        evidence_ids=(),
        evidence_snapshot_id=snapshot,
        policy=lifecycle_policy().identity,
    )


def contract_view() -> DecisionContractView:
    """Return what the actor of every decision may see of the contract."""
    return DecisionContractView(
        namespace=SPACE,
        created_at=NOW,
        contract_id=ContractId(CONTRACT.id),
        contract_digest=CONTRACT.comparability_digest,
        primary_metric=METRIC,
        guardrail_metrics=(),
        equivalence_margin=CONTRACT.equivalence_margin,
        budget_class=corpus.BUDGET,
    )


def intent_of(run_id: RunId, number: int = 0, subject: TaskIdentity | None = None) -> DecisionIntent:
    """Return decision `number` of a Run; `subject` is the task that it is about, by default the first one."""
    subject = subject or corpus.task(0)
    actions = open_actions(CATALOG, CATALOG.baseline, frozenset())
    return DecisionIntent(
        namespace=SPACE,
        created_at=NOW,
        run_id=run_id,
        activity_id=activity_id(run_id, SLOT),
        iteration=number,
        generation=0,
        arm="memory",
        pair="bench",
        evaluation_task_id=subject.evaluation_task_id,
        task_scope_id=subject.task_scope_id,
        research_context_digest=digest_bytes(b"research context"),
        contract_view_id=ContractViewId(contract_view().id),
        decision_point=DecisionPoint.INTERVENTION,
        decision_slot="intervention/0",
        artifact_kind="intervention-proposal",
        catalog_digest=CATALOG.digest,
        allowed_action_digest=allowed_action_digest(actions),
        planned_actor=ActorIdentity(
            model="bench",
            config_digest=digest_bytes(b"configuration"),
            template_digest=digest_bytes(b"template"),
            policy=_RETRIEVAL.identity,
        ),
        governance=MANIFEST.binding("memory"),
    )


def request_of(
    intent: DecisionIntent, recall_input: RecallInputId, subject: TaskIdentity | None = None, words: str = ""
) -> RecallRequest:
    """Return what a decision about `subject` asks of memory, in words that may be its own."""
    subject = subject or corpus.task(0)
    return RecallRequest(
        intent_id=IntentId(intent.id),
        recall_input_id=recall_input,
        decision_point=DecisionPoint.INTERVENTION,
        scope=corpus.rule_scope(subject).model_copy(
            update={
                "evaluation_task_id": subject.evaluation_task_id,
                "dataset_digest": subject.dataset_digest,
                "source_digest": digest_bytes(b"source"),
                "environment_digest": digest_bytes(b"environment"),
            }
        ),
        metric=METRIC,
        prior_config=current_settings(CATALOG, CATALOG.baseline),
        prior_observation=None,
        no_prior_observation_reason="first_decision",
        allowed_actions=open_actions(CATALOG, CATALOG.baseline, frozenset()),
        query=f"what raises {METRIC.name} on a task with {subject.scope_description} {words}".rstrip(),
    )
