"""Decisions over a `Stack`: recall by the real retriever, the real planner, an outcome, evidence and the link.

Every step first reads what is there, as a job does that goes on where another was killed. Only the experiment is made
up: what the catalog's scaler would do to a score is a constant here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from memory.evidence import Trial, bundle_records
from memory.index.embedding import HashEmbedder
from memory.leases import admission
from memory.ports import all_good
from memory.recall.context import Recall
from memory.recall.retriever import DecisionPointRetriever
from memory.snapshots import (
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
    index_key,
    knowledge_key,
    recall_input_key,
)
from memory.tokens import Tokenizer
from policies.catalog import load_catalog
from policies.planner import (
    PlannerAnswer,
    PlannerQuestion,
    allowed_action_digest,
    current_settings,
    open_actions,
    plan,
    planner_policy,
)
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import selection_policy
from records.appends import Append, AppendReceipt, Proposal
from records.base import Record
from records.canonical import canonical_bytes
from records.decisions import DecisionContractView, DecisionIntent, RecallContext, RecallRequest, memory_binding
from records.evidence import Corpus
from records.flows import Authority, Transition
from records.ids import (
    ContextId,
    ContractId,
    ContractViewId,
    IntentId,
    RecallInputId,
    RunId,
)
from records.outcomes import RecallOutcome
from records.runtime import activity_id
from records.states import Machine, Phase
from records.values import (
    ActorIdentity,
    ArtifactRef,
    DecisionPoint,
    MemoryScope,
    RecallRequirement,
)
from tests.support.governance import manifest, publish_admitted
from tests.support.stack import CHANGE, Stack, effects, quiet
from tests.support.trials import BALANCED_ACCURACY, NOW, digest, make_contract, make_task, make_trial
from vrm.mainjob.experiments import Verified, verified_of
from vrm.mainjob.outcomes import Decided, link_of, outcome_of, planner_envelope
from vrm.mainjob.tabular import Setting

CATALOG: Final = load_catalog("tabular-svm-v1")
ARMS: Final = {
    "control": RecallRequirement.REGISTERED_NOT_REQUESTED,
    "memory": RecallRequirement.REQUIRED,
}


def learn(stack: Stack, deltas: dict[str, float]) -> RecallInputId:
    """Distil what scaling does on some roots, and compose what decisions query."""
    base, scaled = (CATALOG.config_digest(CATALOG.baseline | {"scaler": value}) for value in ("none", "standard"))
    trials = effects(
        stack,
        "sweep",
        deltas,
        configs=(base, scaled),
        catalog_digest=CATALOG.digest,
        baseline_config_digest=base,
    )
    assert not stack.study("sweep", trials)
    with stack.stores.ledger.reading() as reader:
        snapshot = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, stack.namespace)
        build, data = build_index(reader, snapshot, HashEmbedder(32), test_index=True)
    stack.stores.artifacts.publish(data)
    composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
    made: list[tuple[Transition, str, Record]] = [
        (Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot),
        (Transition.INDEX_RECEIPT, index_key(build), build),
        (Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed),
    ]
    all_good(stack.spine.direct([Append.direct(kind, key, (record,)) for kind, key, record in made]))
    return RecallInputId(composed.id)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    """Return the one tokenizer of a session; loading it takes a while."""
    return Tokenizer()


@dataclass(frozen=True)
class Study:
    """One arm of one study: a Run with one decision on a task that nothing was learnt from."""

    stack: Stack
    key: str
    arm: str
    recall_input: RecallInputId
    seed: int = 0

    @cached_property
    def run_id(self) -> RunId:
        """The Run of this arm."""
        return self.stack.body(f"{self.key}/{self.arm}").id

    @property
    def view(self) -> DecisionContractView:
        """What the planner may see of the contract."""
        contract = make_contract(self.stack.namespace)
        return DecisionContractView(
            namespace=self.stack.namespace,
            created_at=NOW,
            contract_id=ContractId(contract.id),
            contract_digest=contract.comparability_digest,
            primary_metric=BALANCED_ACCURACY,
            guardrail_metrics=(),
            equivalence_margin=contract.equivalence_margin,
            budget_class="small",
        )

    @property
    def intent(self) -> DecisionIntent:
        """The preallocated identity of the decision."""
        task = make_task("held-out")
        return DecisionIntent(
            namespace=self.stack.namespace,
            created_at=NOW,
            run_id=self.run_id,
            activity_id=activity_id(self.run_id, "trial"),
            iteration=1,
            generation=1,
            arm=self.arm,
            pair=self.key,
            evaluation_task_id=task.evaluation_task_id,
            task_scope_id=task.task_scope_id,
            research_context_digest=digest("context"),
            contract_view_id=ContractViewId(self.view.id),
            decision_point=DecisionPoint.INTERVENTION,
            decision_slot="intervention-1",
            artifact_kind="intervention",
            catalog_digest=CATALOG.digest,
            allowed_action_digest=allowed_action_digest(self._actions),
            planned_actor=ActorIdentity(
                model="planner",
                config_digest=planner_policy().identity.digest,
                template_digest=digest("template"),
                policy=planner_policy().identity,
            ),
            governance=manifest().binding(self.arm),
        )

    @property
    def request(self) -> RecallRequest:
        """What the memory arm asks."""
        task = make_task("held-out")
        return RecallRequest(
            intent_id=IntentId(self.intent.id),
            recall_input_id=self.recall_input,
            decision_point=DecisionPoint.INTERVENTION,
            scope=MemoryScope(
                task_scope_id=task.task_scope_id,
                evaluation_task_id=task.evaluation_task_id,
                domain="tabular",
                dataset_digest=task.dataset_digest,
                source_digest=digest("source"),
                model_family="svc",
                environment_digest=digest("environment"),
                contract_digest=self.view.contract_digest,
                budget_class="small",
                visibility=self.stack.namespace,
            ),
            metric=BALANCED_ACCURACY,
            prior_config=current_settings(CATALOG, CATALOG.baseline),
            prior_observation=None,
            no_prior_observation_reason="first_decision",
            allowed_actions=self._actions,
            query="what raises balanced accuracy on a small table",
        )

    @property
    def _actions(self) -> Any:
        return open_actions(CATALOG, CATALOG.baseline, frozenset())

    def decide(self) -> RecallOutcome:
        """Take the decision from wherever it stands to its linked outcome, and its Run to its end."""
        publish_admitted(self.stack.stores.artifacts)
        self.stack.owner.apply([admission(self.stack.body(f"{self.key}/{self.arm}"), ["trial"])])
        if self.phase() is None:
            self.carry(Transition.APPEND_INTENT, Authority.ADMISSION, self.view, self.intent)
        context = self.context() if self.arm == "memory" else None
        answer = self.answer(context)
        given = [
            memory_binding(self.intent, context).canonical,
            canonical_bytes(planner_envelope(self.intent, answer, context)),
        ]
        self.stack.spine._artifacts.publish_many(given)
        verified = self.execute(answer, context)
        outcome = self.outcome(context, answer, verified)
        if self.phase() is not Phase.OUTCOME_COMMITTED:
            self.carry(Transition.APPEND_OUTCOME, Authority.NORMAL, outcome)
        link = link_of(outcome, verified)
        all_good(self.stack.spine.direct([Append.direct(Transition.LINK_ATTEMPT, f"link/{outcome.id}", (link,))]))
        assert not self.stack.campaigns.ingest(self.run_id, quiet)
        self.stack.complete(self.run_id)
        return outcome

    def answer(self, context: RecallContext | None) -> PlannerAnswer:
        """Ask the planner."""
        question = PlannerQuestion(
            cards=context.items if context else (),
            config=CATALOG.baseline,
            catalog=CATALOG,
            tried=frozenset(),
            decision_index=0,
            seed=self.seed,
            view=self.view,
        )
        return plan(question, planner_policy())

    def outcome(self, context: RecallContext | None, answer: PlannerAnswer, verified: Verified) -> RecallOutcome:
        """Return the account of the decision if this is what was executed."""
        return outcome_of(Decided(self.intent, context, answer, verified, self.intent.created_at))

    def trial(self, answer: PlannerAnswer, context: RecallContext | None) -> Trial:
        """Return the made-up experiment that carries out an answer."""
        change = answer.change
        assert change is not None
        left = canonical_bytes({"run": self.run_id, "knob": change.knob, "value": change.to_value})
        return make_trial(
            self.stack.namespace,
            task=make_task("held-out"),
            change=(change.knob, change.from_value, change.to_value),
            mechanism=change.mechanism,
            run_id=self.run_id,
            iteration=1,
            catalog_digest=CATALOG.digest,
            config_digest=CATALOG.config_digest(CATALOG.baseline | {change.knob: change.to_value}),
            baseline_config_digest=CATALOG.config_digest(CATALOG.baseline),
            artifacts=(self._artifact(left),),
            verified={"balanced_accuracy": 0.75 if change.knob == CHANGE[0] else 0.7},
            corpus=Corpus.EVALUATION,
            arm=self.arm,
            pair=self.key,
            recall_context_id=ContextId(context.id) if context else None,
        )

    def _artifact(self, data: bytes) -> ArtifactRef:
        return self.stack.stores.artifacts.reference("predictions", data)

    def phase(self) -> Phase | None:
        """Return where the decision stands."""
        subject = self.stack.stores.runtime.subject(Machine.DECISION, str(self.intent.id))
        return None if subject is None else subject.phase

    def proposal(self, transition: Transition, authority: Authority, *records: Record) -> Proposal:
        """Return a proposal about the decision as it stands."""
        subject = self.stack.stores.runtime.subject(Machine.DECISION, str(self.intent.id))
        return Proposal(
            namespace=self.stack.namespace,
            transition=transition,
            authority=authority,
            machine=Machine.DECISION,
            subject_id=str(self.intent.id),
            run_id=self.run_id,
            generation=subject.generation if subject else 1,
            fence=subject.fence if subject else 1,
            records=Proposal.bodies(records),
        )

    def carry(self, transition: Transition, authority: Authority, *records: Record) -> AppendReceipt:
        """Carry a proposal about the decision; it must commit."""
        (receipt,) = all_good(self.stack.spine.carry([self.proposal(transition, authority, *records)]))
        assert receipt.committed, receipt
        return receipt

    def context(self) -> RecallContext:
        """Return the context that is there, or recall and commit it."""
        stored = self.stack.stores.ledger.find(
            "decision-recall-context", self.stack.namespace, intent_id=str(self.intent.id)
        )
        if stored:
            found = stored[0].load()
            assert isinstance(found, RecallContext)
            return found
        context = self.recalled()
        self.carry(Transition.APPEND_CONTEXT, Authority.NORMAL, context)
        return context

    def recalled(self) -> RecallContext:
        """Return the context that recall proposes."""
        retriever = DecisionPointRetriever(
            self.stack.stores.ledger,
            self.stack.stores.artifacts,
            HashEmbedder(32),
            tokenizer(),
            retrieval_policy(),
            test_index=True,
        )
        recall = retriever.propose(self.intent, self.request, retriever.load(self.recall_input), now=NOW)
        assert isinstance(recall, Recall), recall
        return recall.context

    def verified(self, answer: PlannerAnswer, context: RecallContext | None) -> Verified:
        """Return the experiment that carries out an answer, whether it is in the Ledger or not."""
        change = answer.change
        assert change is not None
        setting = Setting(
            task="held-out",
            seed=0,
            before=CATALOG.baseline,
            change=(change.knob, change.to_value),
            iteration=1,
            run_id=self.run_id,
        )
        return verified_of(setting, bundle_records(self.trial(answer, context)))

    def execute(self, answer: PlannerAnswer, context: RecallContext | None) -> Verified:
        """Append the evidence of the experiment that carries out an answer."""
        records = bundle_records(self.trial(answer, context))
        append = Append.direct(Transition.APPEND_EVIDENCE, f"trial/{records[-1].id}", records)
        all_good(self.stack.spine.direct([append]))
        return self.verified(answer, context)
