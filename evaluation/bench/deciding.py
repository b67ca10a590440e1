"""Decisions as the product carries them, one at a time: what the protocol benchmark times and counts.

A decision is everything from the proposal of its intent to the reconciliation of its outcome: three proposals that are
published, granted, appended and reconciled through the real owners, the recall between the first two, the planner, and
what the actor was given and answered, published before the outcome. Left out, because they are no part of it: the Run
and what the decision queries, both made before; and the experiment. All decisions here lead to the same one, whose
evidence is appended in the first of them, which nobody counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from actors.settings import now
from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG, NOW, SPACE
from evaluation.bench.decision import MANIFEST, PROFILE, SLOT, Preparation, contract_view, intent_of, request_of
from evaluation.bench.server import Bench, carry_out
from memory.commands import RunCommands
from memory.coordinator import CommitCoordinator
from memory.index.embedding import HashEmbedder
from memory.ports import CoordinatorPort, all_good
from memory.recall.context import Recall
from memory.recall.retriever import DecisionPointRetriever
from memory.run_owner import RunOwner
from memory.spine import Spine
from memory.tokens import Tokenizer
from policies.catalog import Change
from policies.planner import PlannerAnswer, PlannerQuestion, plan, planner_policy
from policies.retrieval_policy import retrieval_policy
from records.appends import Append, AppendReceipt, Proposal
from records.base import Record
from records.canonical import canonical_bytes, digest_bytes
from records.decisions import DecisionIntent, RecallContext, memory_binding
from records.errors import IntegrityError
from records.evidence import Hypothesis, Intervention
from records.flows import Authority, Transition
from records.ids import ContextId, HypothesisId, InterventionId
from records.outcomes import DecisionStatus, ExecutedActor, RecallOutcome, SourceStatus
from records.runtime import RunBody
from records.states import Machine
from store.runtime.port import RuntimeStore

_PLANNER: Final = planner_policy()
PARTS: Final = ("intent", "recall", "context", "outcome")
_RUN: Final = RunBody(
    namespace=SPACE,
    run_kind="SCIENTIFIC",
    admission_key="bench",
    specification_digest=MANIFEST.canonical_digest,
    admitted_at=NOW,
)


class Decisions:
    """Carries decisions of one Run over a store of rules.

    Attributes:
        spent: seconds of each part of every decision so far.
    """

    def __init__(
        self, bench: Bench, runtime: RuntimeStore, rules: int, told: Callable[[int, int], None] = lambda _at, _of: None
    ) -> None:
        """Fill the store, compose what is queried, claim the owners, and admit the Run."""
        preparation = Preparation(bench)
        preparation.fill(rules, told)
        composed = preparation.compose(HashEmbedder())
        self._runtime, self._artifacts = runtime, bench.artifacts
        owner = RunOwner(runtime, bench.ledger, bench.artifacts, now, "bench")
        self._coordinator: CoordinatorPort = CommitCoordinator(bench.ledger, runtime, bench.artifacts, "bench")
        self._spine = Spine(bench.artifacts, owner, self._coordinator)
        bench.artifacts.publish_many([PROFILE.canonical, MANIFEST.canonical])
        RunCommands(runtime, bench.artifacts, owner, now).drive_run(_RUN, [SLOT])
        self._input = composed.recall_input_id
        self._retriever = DecisionPointRetriever(
            bench.ledger, bench.artifacts, HashEmbedder(), Tokenizer(), retrieval_policy(), test_index=True
        )
        self._loaded = self._retriever.load(self._input, composed.index)
        self._executed: dict[bytes, tuple[HypothesisId, InterventionId]] = {}
        self.spent: dict[str, list[float]] = {part: [] for part in PARTS}

    def intent(self, number: int) -> DecisionIntent:
        """Return the identity of a decision that nobody has registered yet."""
        return intent_of(_RUN.id, number)

    def carry(self, intent: DecisionIntent) -> AppendReceipt:
        """Take one decision from its intent to its settled outcome, and return the outcome's receipt."""
        with self._timed("intent"):
            attempt = self._attempt(intent)
            self._granted(attempt, Transition.APPEND_INTENT, Authority.ADMISSION, contract_view(), intent)
        with self._timed("recall"):
            context = self._recall(intent)
        with self._timed("context"):
            self._granted(attempt, Transition.APPEND_CONTEXT, Authority.NORMAL, context)
        with self._timed("outcome"):
            outcome = self._decide(intent, context)
            return self._granted(attempt, Transition.APPEND_OUTCOME, Authority.NORMAL, outcome)

    def _recall(self, intent: DecisionIntent) -> RecallContext:
        answer = self._retriever.propose(intent, request_of(intent, self._input), self._loaded, now=now())
        if not isinstance(answer, Recall) or not answer.context.items:
            raise IntegrityError("benchmark request", type(answer).__name__, "It got no cards; report this.")
        return answer.context

    def _decide(self, intent: DecisionIntent, context: RecallContext) -> RecallOutcome:
        given = memory_binding(intent, context)
        self._artifacts.publish(given.canonical)  # before the actor is asked
        question = PlannerQuestion(
            cards=context.items,
            config=CATALOG.baseline,
            catalog=CATALOG,
            tried=frozenset(),
            decision_index=0,
            seed=0,
            view=contract_view(),
        )
        answer = plan(question, _PLANNER)
        answered = self._artifacts.publish(canonical_bytes(_envelope(intent, answer)))  # before anything is executed
        return outcome_of(intent, context, answer, answered, self._execute(answer.change))

    def _execute(self, change: Change | None) -> tuple[HypothesisId, InterventionId]:
        """Return hypothesis and intervention of the experiment; its evidence is appended once."""
        if change is None:
            raise IntegrityError("benchmark decision", "no action", "The planner has nothing to do; report this.")
        key = canonical_bytes([change.knob, change.to_value])
        if key not in self._executed:
            number = CATALOG.contrasts.index(change)
            records = corpus.bundle(number)
            self._artifacts.publish(str(number).encode())  # its predictions
            carry_out(self._coordinator, [Append.direct(Transition.APPEND_EVIDENCE, f"experiment:{number}", records)])
            (hypothesis,) = (each.id for each in records if isinstance(each, Hypothesis))
            (intervention,) = (each.id for each in records if isinstance(each, Intervention))
            self._executed[key] = HypothesisId(hypothesis), InterventionId(intervention)
        return self._executed[key]

    def _attempt(self, intent: DecisionIntent) -> dict[str, Any]:
        """Return what every proposal of this attempt says of itself; read again later, it could never be found over."""
        subject = self._runtime.subject(Machine.DECISION, str(intent.id))
        return {
            "namespace": intent.namespace,
            "machine": Machine.DECISION,
            "subject_id": str(intent.id),
            "run_id": intent.run_id,
            "generation": subject.generation if subject else 1,
            "fence": subject.fence if subject else 1,
        }

    def _granted(
        self, attempt: dict[str, Any], transition: Transition, authority: Authority, *records: Record
    ) -> AppendReceipt:
        """Carry one proposal of an attempt."""
        bodies = Proposal.bodies(records)
        proposal = Proposal(transition=transition, authority=authority, records=bodies, **attempt)
        (receipt,) = all_good(self._spine.carry([proposal]))
        if not receipt.committed:
            raise IntegrityError("benchmark decision", str(receipt.reason), "It was refused; report this.")
        return receipt

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.spent[part].append(time.perf_counter() - begun)


def _envelope(intent: DecisionIntent, answer: PlannerAnswer) -> dict[str, Any]:
    """Return the decision artifact: the proposal and one disposition per card."""
    return {
        "intent_id": intent.id,
        "proposal": None if answer.action is None else answer.action.as_json(),
        "dispositions": [disposition.as_json() for disposition in answer.dispositions],
        "steered": answer.steered,
    }


def outcome_of(
    intent: DecisionIntent,
    context: RecallContext,
    answer: PlannerAnswer,
    answered: str,
    executed: tuple[HypothesisId, InterventionId],
) -> RecallOutcome:
    """Return the account of a decision that was carried out."""
    action = answer.action
    actor = ExecutedActor(
        model=intent.planned_actor.model, response_digest=answered, rendered_prompt_digest=context.rendered_digest
    )
    return RecallOutcome.answering(
        intent,
        created_at=now(),
        source_status=SourceStatus(context.status.value),
        outcome_reason=context.status_reason,
        context_id=ContextId(context.id),
        decision_status=DecisionStatus.COMPLETED,
        terminal_reason=None,
        artifact_committed=True,
        artifact_digest=answered,
        memory_binding_digest=memory_binding(intent, context).canonical_digest,
        dispositions=answer.dispositions,
        proposed_knob=None if action is None else action.knob,
        proposed_value=None if action is None else action.value,
        hypothesis_id=executed[0],
        intervention_id=executed[1],
        effective_config_digest=digest_bytes(b"configuration"),
        blocked_proof_digest=None,
        closure_event_digest=None,
        terminal_evidence_kind=None,
        terminal_evidence_digest=None,
        executed_actor=actor,
    )
