"""What `vrm.connect()` gives: read rules, ask for cards, from a script, a notebook or a Ray job.

Rules kept here: nothing is written, but the trace of a retrieval of workspace claims. A question is answered by the
same retriever as a governed decision, against the newest Recall Input of the namespace, and comes back as cards with
citations, an explicit nothing, or a typed block.
Where a cluster runs its replicas answer; otherwise the model is loaded here, which takes some seconds once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Self

from actors.handles import Owners
from actors.settings import now
from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder
from memory.recall.context import Recall
from memory.recall.retriever import DecisionPointRetriever
from memory.recall.validation import parse_request
from memory.tokens import Tokenizer
from memory.workspace.retrieving import ClaimRetriever
from policies.catalog import InterventionCatalog, load_catalog
from policies.planner import allowed_action_digest, current_settings, open_actions
from policies.procedures.drafting import situation_of
from policies.procedures.policy import procedure_policy
from policies.retrieval_policy import retrieval_policy, shipped_policies
from records.canonical import domain_digest
from records.decisions import AllowedTool, BlockedProposal, Card, DecisionContractView, DecisionIntent, RecallRequest
from records.errors import AmbiguousIdError, NotFoundError, UnavailableError
from records.evidence import EvaluationContract
from records.fields import require_namespace
from records.ids import ContractViewId, EvaluationTaskId, IntentId, RecallInputId, RunId, TaskScopeId
from records.knowledge import MemoryRecord
from records.runtime import activity_id
from records.snapshots import RecallInput
from records.values import (
    ActorIdentity,
    DecisionPoint,
    Disposition,
    GovernanceBinding,
    MemoryScope,
    RecallRequirement,
)
from vrm.bootstrap import Stores, cluster_of, embedding, home_of, open_stores, owners
from vrm.claims import ClaimAnswer, ClaimQuestion, answer_of, retrieve, retriever_of
from vrm.domain import BUDGET_CLASS, CATALOG, MODEL_FAMILY
from vrm.home import DEFAULT_NAMESPACE
from vrm.lineage import Lineage
from vrm.references import ReferenceAnswer, ReferenceQuestion, consult


@dataclass(frozen=True, kw_only=True)
class Question:
    """One typed question: which change would help here?

    Attributes:
        task: the public attributes of the task, such as problem_type, class_balance, size_band, feature_kinds.
        config: knob values that differ from the catalog's defaults.
        text: what you would say in words; one more signal for ranking, never a filter.
        catalog: the Intervention Catalog that governs the decision.
        point: the decision point, which says what may be shown: procedures at experiment_design and diagnosis.
    """

    task: Mapping[str, str]
    config: Mapping[str, object] = field(default_factory=dict)
    text: str = "Which one change helps most here?"
    catalog: str = CATALOG
    point: DecisionPoint = DecisionPoint.INTERVENTION


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What memory says: at most three cards, or nothing, and why.

    `status` is ok, empty, degraded or blocked; `rendered` is the delimited section that an actor would see. A blocked
    answer has its proof in `blocked`.
    """

    status: str
    reason: str
    cards: tuple[Card, ...]
    rendered: str
    tokens: int
    blocked: BlockedProposal | None = None


class Memory:
    """One namespace of an installation, open for reading."""

    def __init__(self, stores: Stores, actors: Owners | None, namespace: str) -> None:
        """Read `namespace` from open stores; `actors` are the running owners, if a cluster is up."""
        self.stores = stores
        self.actors = actors
        self.namespace = namespace
        self._claim_retrievers: dict[str, ClaimRetriever] = {}

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back the connections; servers and actors keep running."""
        self.close()

    def close(self) -> None:
        """Give back the connections; servers and actors keep running."""
        self.stores.close()

    def rules(self, disposition: Disposition = Disposition.ACTIVE) -> list[MemoryRecord]:
        """Return the rules whose head has this disposition, in the order of their scope variants."""
        heads = self.stores.ledger.variant_heads(self.namespace).values()
        wanted = [head.memory_id for head in heads if head.disposition == disposition.value]
        stored = self.stores.ledger.get_many(wanted)
        loaded = (stored[memory_id].load() for memory_id in wanted)
        return [record for record in loaded if isinstance(record, MemoryRecord)]

    def recall(self, question: Question) -> Answer:
        """Answer a question without writing anything.

        Raises:
            InvalidInputError: a knob or value is not in the catalog.
            NotFoundError: the namespace has no Recall Input or no contract for this domain yet; run `vrm run` first.
        """
        return _answer(self._propose(*self._asked(question)))

    def recall_request(self, intent_id: str, data: bytes) -> Answer:
        """Answer a request as it came from outside, as JSON, for an intent of the Ledger; nothing is written.

        What is no complete, valid request is blocked, with the names of the fields and the digest of the bytes as its
        proof.

        Args:
            intent_id: the id of the Decision Intent, or any unambiguous beginning of it.
            data: the request, as `RecallRequest` writes it.

        Raises:
            AmbiguousIdError: several records begin so.
            NotFoundError: the namespace has no such intent.
        """
        intent = self._intent(intent_id)
        request = parse_request(intent, data, retrieval_policy())
        return _answer(request if isinstance(request, BlockedProposal) else self._propose(intent, request))

    def _intent(self, prefix: str) -> DecisionIntent:
        digits = prefix.strip().lower().rpartition(":")[2]
        found = self.stores.ledger.resolve(f"{IntentId.noun}:{digits}") if digits else []
        if len(found) > 1:
            raise AmbiguousIdError("intent", prefix, f"Give more digits; it begins {len(found)} or more intents.")
        stored = self.stores.ledger.get(found[0]) if found else None
        intent = None if stored is None else stored.load()
        if not isinstance(intent, DecisionIntent) or intent.namespace != self.namespace:
            raise NotFoundError("intent", prefix, f"{self.namespace} has no such Decision Intent; name another one.")
        return intent

    def references(self, question: ReferenceQuestion | str) -> ReferenceAnswer:
        """Return what external sources say, without writing anything; it is never evidence (docs/reference.md).

        Raises:
            InvalidInputError: the decision point takes no Reference Context, or words or budget are none.
            NotFoundError: the namespace has no source; `vrm reference add` adds some.
            UnavailableError: the model or the tokenizer cannot be used.
        """
        asked = ReferenceQuestion(text=question) if isinstance(question, str) else question
        return consult(self.stores.ledger, self.stores.artifacts, self.namespace, self._embedder, asked)

    def lineage(self, checkpoint: str | None = None) -> Lineage:
        """Return a checkpoint of lineage memory, or the only one, to read; none of it is evidence."""
        return Lineage(self.stores.ledger, self.stores.artifacts, self.namespace, lambda: self._embedder, checkpoint)

    def claims(self, question: ClaimQuestion) -> ClaimAnswer:
        """Return the durable claims about a code base that hold now, and leave the trace of it (docs/claims.md).

        Raises:
            InvalidInputError: words, budget or root are none.
            IdentityConflictError: a claim moved meanwhile, or the occasion has another trace; ask again.
            UnavailableError: no cluster runs, so the trace cannot be written; or the model cannot be used.
        """
        if self.actors is None:
            raise UnavailableError("cluster", "none runs", "Start it: `vrm up`. A retrieval without a trace is none.")
        if question.workspace not in self._claim_retrievers:
            made = retriever_of(self.namespace, question.workspace, self._embedder)
            self._claim_retrievers[question.workspace] = made
        retriever = self._claim_retrievers[question.workspace]
        return answer_of(retrieve(self.stores.ledger, self.actors.coordinator, retriever, question))

    @cached_property
    def _embedder(self) -> SentenceTransformerEmbedder:
        return SentenceTransformerEmbedder(ModelSettings.of(embedding()))

    def _propose(self, intent: DecisionIntent, request: RecallRequest) -> Recall | BlockedProposal:
        if self.actors is not None:
            return self.actors.retrievers.propose([(intent, request)])[0]
        loaded = self._retriever.load(request.recall_input_id)
        return self._retriever.propose(intent, request, loaded, now=now())

    @cached_property
    def _retriever(self) -> DecisionPointRetriever:
        return DecisionPointRetriever(
            self.stores.ledger,
            self.stores.artifacts,
            self._embedder,
            Tokenizer(),
            retrieval_policy(),
            also=shipped_policies(),
        )

    def _asked(self, question: Question) -> tuple[DecisionIntent, RecallRequest]:
        catalog = load_catalog(question.catalog)
        scope = TaskScopeId.derive({"taxonomy": f"{catalog.domain}/v1", "attributes": dict(question.task)})
        view, contract = self._contract(catalog)
        intent = _intent(self.namespace, catalog, question, (scope, ContractViewId(view.id)))
        return intent, self._request(catalog, question, intent, contract)

    def _request(
        self, catalog: InterventionCatalog, question: Question, intent: DecisionIntent, contract: EvaluationContract
    ) -> RecallRequest:
        config = catalog.effective_config(question.config)
        procedures = question.point is not DecisionPoint.INTERVENTION  # an intervention is one change, and has none
        here = _here() if procedures else (None, None)
        return RecallRequest(
            intent_id=IntentId(intent.id),
            recall_input_id=self._recall_input(),
            decision_point=question.point,
            scope=MemoryScope(
                task_scope_id=intent.task_scope_id,
                evaluation_task_id=intent.evaluation_task_id,
                domain=catalog.domain,
                dataset_digest=None,
                source_digest=here[0],
                model_family=MODEL_FAMILY,
                environment_digest=here[1],
                contract_digest=contract.comparability_digest,
                budget_class=BUDGET_CLASS,
                visibility=self.namespace,
            ),
            metric=contract.primary_metric,
            prior_config=current_settings(catalog, config),
            prior_observation=None,
            no_prior_observation_reason="asked_outside_a_run",
            allowed_actions=open_actions(catalog, config, frozenset()),
            query=question.text,
            situation=situation_of(catalog.config_digest(config)) if procedures else None,
            tools=_tools(catalog.domain) if procedures else None,
        )

    def _recall_input(self) -> RecallInputId:
        """Return the newest Recall Input that is not for confirmatory trials, which ask for themselves."""
        trials = {policy.identity for policy in shipped_policies() if policy.confirmatory}
        for stored in reversed(self.stores.ledger.find("recall-input-snapshot", self.namespace)):
            record = stored.load()
            if isinstance(record, RecallInput) and record.retrieval_policy not in trials:
                return RecallInputId.check(stored.id)
        raise NotFoundError("recall input", self.namespace, "Nothing was distilled here yet; `vrm run` does it.")

    def _contract(self, catalog: InterventionCatalog) -> tuple[DecisionContractView, EvaluationContract]:
        for stored in reversed(self.stores.ledger.find("decision-contract-view", self.namespace)):
            view = stored.load()
            contract = self.stores.ledger.get(view.contract_id) if isinstance(view, DecisionContractView) else None
            loaded = None if contract is None else contract.load()
            same_domain = isinstance(loaded, EvaluationContract) and loaded.domain == catalog.domain
            if same_domain and isinstance(view, DecisionContractView) and isinstance(loaded, EvaluationContract):
                return view, loaded
        raise NotFoundError("contract", catalog.domain, "No decision was registered for this domain; run `vrm run`.")


def _here() -> tuple[str, str]:
    """Return the digests of the source and of the environment that run here; a procedure is bound to its own."""
    from experiments.fingerprint import environment_digest  # noqa: PLC0415  # brings everything that experiments need
    from experiments.tabular.pipelines import source_digest  # noqa: PLC0415

    return source_digest(), environment_digest()


def _tools(domain: str) -> tuple[AllowedTool, ...]:
    from vrm.mainjob.procedures import running_tools  # noqa: PLC0415  # brings everything that experiments need

    running = running_tools(procedure_policy(), domain)
    return tuple(AllowedTool(tool=tool, version=version) for tool, version in sorted(running.items()))


def _answer(found: Recall | BlockedProposal) -> Answer:
    if isinstance(found, BlockedProposal):
        reason = found.blocked_reason.value
        return Answer(status="blocked", reason=reason, cards=(), rendered="", tokens=0, blocked=found)
    context = found.context
    return Answer(
        status=context.status.value,
        reason=context.status_reason,
        cards=tuple(item.card for item in context.items),
        rendered=found.rendered,
        tokens=context.token_count,
    )


def connect(namespace: str = DEFAULT_NAMESPACE) -> Memory:
    """Open an installation: that of VRM_HOME, or the nearest `.vrm` folder; databases are started if they must be.

    Raises:
        InvalidInputError: `namespace` cannot be the name of one.
        UnavailableError: no database can be started or reached.
        IntegrityError: a database holds something else.
    """
    require_namespace(namespace)
    home = home_of()
    stores = open_stores(home)
    info = cluster_of(home)
    return Memory(stores, owners(stores, info) if info is not None else None, namespace)


def _intent(
    namespace: str, catalog: InterventionCatalog, question: Question, ids: tuple[TaskScopeId, ContractViewId]
) -> DecisionIntent:
    """Return an intent that is never admitted: it identifies the question, and no decision follows from it."""
    config = catalog.effective_config(question.config)
    policy = retrieval_policy().identity
    digest = domain_digest("question", [dict(question.task), config, question.text, question.point])
    run_id = RunId.derive({"namespace": namespace, "question": digest})
    return DecisionIntent(
        namespace=namespace,
        created_at=now(),
        run_id=run_id,
        activity_id=activity_id(run_id, "question"),
        iteration=1,
        generation=1,
        arm=None,
        pair=None,
        evaluation_task_id=EvaluationTaskId.derive({"question": digest}),
        task_scope_id=ids[0],
        research_context_digest=digest,
        contract_view_id=ids[1],
        decision_point=question.point,
        decision_slot="question",
        artifact_kind="answer",
        catalog_digest=catalog.digest,
        allowed_action_digest=allowed_action_digest(open_actions(catalog, config, frozenset())),
        planned_actor=ActorIdentity(model="caller", config_digest=digest, template_digest=digest, policy=policy),
        governance=GovernanceBinding(
            profile_ref="question/v1",
            profile_digest=digest,
            assignment_manifest_digest=digest,
            recall_requirement=RecallRequirement.REQUIRED,
        ),
    )
