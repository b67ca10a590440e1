"""The decisions that schedules are about, made once in a process and used by all of them.

Records never change, so a schedule shares them with every other one; what it writes is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import Any, Final, NamedTuple

from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG, CONTRACT, METRIC, SPACE
from evaluation.simulation.world import OpenLedger
from memory.distillation.policies import Policies
from memory.index.embedding import HashEmbedder
from memory.leases import admission, completion
from memory.snapshots import (
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
    index_key,
    knowledge_key,
    recall_input_key,
)
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import selection_policy
from records.appends import Proposal
from records.base import Record
from records.canonical import digest_bytes
from records.decisions import (
    BlockedProposal,
    ContextStatus,
    CorruptInputEvidence,
    DecisionContractView,
    DecisionIntent,
    RecallContext,
    RetentionCheck,
    memory_binding,
)
from records.flows import Authority, Transition
from records.governance import ArmAssignment, ArmManifest, MemoryProfile, Mode
from records.ids import ContextId, ContractId, ContractViewId, IntentId, RecallInputId, RunId
from records.outcomes import (
    DecisionStatus,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
    TerminalReason,
)
from records.runtime import Command, RunBody, activity_id
from records.states import Machine
from records.values import (
    ActorIdentity,
    CampaignProfile,
    DecisionPoint,
    RecallRequirement,
)

TIMES: Final = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z")
"""When the two workers of a decision wrote their records; the bytes differ by it, the ids do not."""
POLICIES: Final = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())
PROFILE: Final = CampaignProfile(
    profile="default",
    workflow="w",
    drafting_adapter="registered-contrast",
    budget_class=corpus.BUDGET,
    retention="keep",
)
SLOT: Final = "decide"
ANSWER: Final = b"what the actor answered"
"""The bytes behind every artifact that a record names."""


class Account(NamedTuple):
    """How a decision ends: what memory offered, what became of it, why, and in whose name that is written."""

    source: SourceStatus
    status: DecisionStatus
    reason: TerminalReason | None
    authority: Authority


class Ending(Enum):
    """How a worker wants a decision to end."""

    COMPLETED = Account(SourceStatus.NOT_REQUESTED, DecisionStatus.COMPLETED, None, Authority.NORMAL)
    NO_OP = Account(
        SourceStatus.NOT_REQUESTED, DecisionStatus.NO_OP, TerminalReason.ALREADY_SATISFIED, Authority.NORMAL
    )
    FAILED = Account(
        SourceStatus.NOT_REQUESTED,
        DecisionStatus.ACTOR_FAILED,
        TerminalReason.RUNTIME_FAILURE_CLOSURE,
        Authority.RUNTIME_CLOSURE,
    )
    EMPTY = Account(SourceStatus.EMPTY, DecisionStatus.NO_OP, TerminalReason.NO_APPLICABLE_ACTION, Authority.NORMAL)
    EMPTY_FAILED = Account(
        SourceStatus.EMPTY,
        DecisionStatus.ACTOR_FAILED,
        TerminalReason.ACTOR_INVOCATION_FAILED,
        Authority.RUNTIME_CLOSURE,
    )
    BLOCKED = Account(
        SourceStatus.BLOCKED, DecisionStatus.BLOCKED, TerminalReason.BLOCKED_RECALL_SOURCE, Authority.NORMAL
    )
    CANCELLED = Account(
        SourceStatus.CANCELLED_BEFORE_RECALL,
        DecisionStatus.CANCELLED,
        TerminalReason.CANCELLED_BY_COMMAND,
        Authority.RUNTIME_CLOSURE,
    )

    @property
    def account(self) -> Account:
        """How the decision is to end."""
        made: Account = self.value
        return made

    @property
    def source(self) -> SourceStatus:
        """What memory had to offer."""
        return self.account.source

    @property
    def requested(self) -> bool:
        """Whether memory was to be asked at all."""
        return self.source is not SourceStatus.NOT_REQUESTED


ARMS: Final = ("arm", "rival")
"""What an intent may be registered as; of two arms at one place only one can be admitted."""

REQUESTED: Final = tuple(ending for ending in Ending if ending.requested)
CONTROL: Final = tuple(ending for ending in Ending if not ending.requested)
_NOTHING: Final[dict[str, Any]] = dict.fromkeys(
    (
        "proposed_knob", "proposed_value", "hypothesis_id", "intervention_id", "effective_config_digest",
        "executed_actor",
    )
)  # fmt: skip
"""What an outcome without an experiment leaves open."""
_REASONS: Final = {
    SourceStatus.NOT_REQUESTED: OutcomeReason.CONTROL_ARM.value,
    SourceStatus.EMPTY: OutcomeReason.NO_ELIGIBLE_EVIDENCE.value,
    SourceStatus.BLOCKED: "blocked_corrupt_input",
}


@lru_cache(maxsize=1)
def recall_input() -> tuple[tuple[tuple[Transition, str, Record], ...], bytes]:
    """Return the appends of a Recall Input over nothing, and the bytes of its index."""
    empty = OpenLedger()
    with empty.reading() as reader:
        snapshot = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, SPACE)
        build, data = build_index(reader, snapshot, HashEmbedder(32), test_index=True)
    composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
    return (
        (Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot),
        (Transition.INDEX_RECEIPT, index_key(build), build),
        (Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed),
    ), data


@lru_cache(maxsize=1)
def contract_view() -> DecisionContractView:
    """Return what an actor may see of the contract."""
    return DecisionContractView(
        namespace=SPACE,
        created_at=TIMES[0],
        contract_id=ContractId(CONTRACT.id),
        contract_digest=CONTRACT.comparability_digest,
        primary_metric=METRIC,
        guardrail_metrics=(),
        equivalence_margin=CONTRACT.equivalence_margin,
        budget_class=corpus.BUDGET,
    )


@cache
def profile() -> MemoryProfile:
    """Return how the decisions use memory."""
    policy = retrieval_policy().identity
    return MemoryProfile(profile_ref="simulation", mode=Mode.DECISION_MEMORY, retrieval_policy=policy)


@cache
def manifest(*, requested: bool) -> ArmManifest:
    """Return the arms that a decision may be registered as, all with memory or all without."""
    requirement = RecallRequirement.REQUIRED if requested else RecallRequirement.REGISTERED_NOT_REQUESTED
    arms = tuple(ArmAssignment.of(arm, profile(), requirement) for arm in ARMS)
    return ArmManifest(study="simulation", specification=digest_bytes(b"specification"), arms=arms)


@lru_cache(maxsize=64)
def admitted(run: RunBody, slot: str) -> Command:
    """Return the command that admits a scientific Run with one Activity."""
    return admission(run, [slot])


@lru_cache(maxsize=64)
def completed(run_id: RunId) -> Command:
    """Return the command that completes a Run."""
    return completion(run_id)


@lru_cache(maxsize=64)
def study(key: str, specification: str | None = None) -> RunBody:
    """Return the specification of a scientific Run."""
    return RunBody(
        namespace=SPACE,
        run_kind="SCIENTIFIC",
        admission_key=key,
        specification_digest=specification or digest_bytes(b"specification"),
        admitted_at=TIMES[0],
    )


def input_id() -> RecallInputId:
    """Return the id of the Recall Input."""
    return RecallInputId(recall_input()[0][-1][2].id)


@dataclass(frozen=True)
class Decision:
    """One decision as one worker sees it; workers of one decision differ in ending and time only.

    Attributes:
        number: which decision; its Run has no other.
        ending: how this worker means to end it.
        late: whether this worker writes the later time.
        arm: what the intent is registered as; of two arms at one place only one can be admitted.
    """

    number: int
    ending: Ending
    late: bool = False
    arm: str = "arm"

    @cached_property
    def run(self) -> RunBody:
        """The Run of the decision."""
        return study(f"decision/{self.number}", manifest(requested=self.ending.requested).canonical_digest)

    @property
    def admitted(self) -> list[bytes]:
        """What must be published before the Run is admitted."""
        return [profile().canonical, manifest(requested=self.ending.requested).canonical]

    @property
    def time(self) -> str:
        """When the worker writes."""
        return TIMES[self.late]

    @cached_property
    def intent(self) -> DecisionIntent:
        """The preallocated identity of the decision."""
        subject, run_id = corpus.task(0), self.run.id
        return DecisionIntent(
            namespace=SPACE,
            created_at=self.time,
            run_id=run_id,
            activity_id=activity_id(run_id, SLOT),
            iteration=0,
            generation=1,
            arm=self.arm,
            pair="pair",
            evaluation_task_id=subject.evaluation_task_id,
            task_scope_id=subject.task_scope_id,
            research_context_digest=digest_bytes(b"research context"),
            contract_view_id=ContractViewId(contract_view().id),
            decision_point=DecisionPoint.INTERVENTION,
            decision_slot="intervention/0",
            artifact_kind="intervention-proposal",
            catalog_digest=CATALOG.digest,
            allowed_action_digest=digest_bytes(b"actions"),
            planned_actor=_actor(),
            governance=manifest(requested=self.ending.requested).binding(self.arm),
        )

    def context(self, retention: RetentionCheck) -> RecallContext:
        """Return the context of a search that found nothing."""
        return RecallContext(
            namespace=SPACE,
            created_at=self.time,
            intent_id=IntentId(self.intent.id),
            request_digest=digest_bytes(b"request"),
            recall_input_id=input_id(),
            query_vector_digest=None,
            retention=retention,
            status=ContextStatus.EMPTY,
            status_reason=_REASONS[SourceStatus.EMPTY],
            items=(),
            rendered_digest=digest_bytes(b""),
            token_count=0,
            candidates=(),
            filtered=(),
        )

    @cached_property
    def blocked(self) -> BlockedProposal:
        """The proof that the input of the search was corrupt."""
        return BlockedProposal(
            intent_id=IntentId(self.intent.id),
            request_digest=digest_bytes(b"request"),
            retrieval_policy=_actor().policy,
            recall_input_id=None,
            evidence=CorruptInputEvidence(attempted="index", finding="digest"),
        )

    @property
    def artifacts(self) -> list[bytes]:
        """What must be published before the outcome is proposed."""
        return [ANSWER, self.blocked.canonical]

    def outcome(self, context: RecallContext | None) -> RecallOutcome:
        """Return the account that this worker gives, if `context` is what the Ledger holds."""
        source, status, reason, _ = self.ending.account
        completed = status is DecisionStatus.COMPLETED
        answered = source in {SourceStatus.NOT_REQUESTED, SourceStatus.EMPTY}
        return RecallOutcome.answering(
            self.intent,
            **self._proofs(),
            **_NOTHING,
            created_at=self.time,
            source_status=source,
            outcome_reason=_REASONS[source],
            context_id=ContextId(context.id) if context and source is SourceStatus.EMPTY else None,
            decision_status=status,
            terminal_reason=reason,
            artifact_committed=completed,
            artifact_digest=digest_bytes(ANSWER) if completed else None,
            memory_binding_digest=memory_binding(self.intent, context).canonical_digest if answered else None,
            dispositions=(),
        )

    def _proofs(self) -> dict[str, Any]:
        """Return what an outcome rests on besides its context."""
        blocked = self.ending.source is SourceStatus.BLOCKED
        return {
            "blocked_proof_digest": self.blocked.canonical_digest if blocked else None,
            "closure_event_digest": None,
            "terminal_evidence_kind": None,
            "terminal_evidence_digest": None,
        }


@lru_cache(maxsize=4096)
def decision(number: int, ending: Ending, *, late: bool, arm: str) -> Decision:
    """Return a decision whose records are made once."""
    return Decision(number, ending, late, arm)


@lru_cache(maxsize=4096)
def proposal(
    subject: Decision,
    transition: Transition,
    attempt: tuple[int, int],
    held: RecallContext | None,
    retention: RetentionCheck | None = None,
) -> Proposal:
    """Return what a worker proposes for a decision at an attempt.

    Args:
        subject: the decision.
        transition: which append it is for.
        attempt: generation and fence.
        held: the decision's context in the Ledger, if there is one.
        retention: what is denied now; given for a context.
    """
    records: dict[Transition, tuple[Record, ...]] = {
        Transition.APPEND_INTENT: (contract_view(), subject.intent),
        Transition.APPEND_CONTEXT: () if retention is None else (subject.context(retention),),
        Transition.APPEND_OUTCOME: (),
    }
    authority = {Transition.APPEND_INTENT: Authority.ADMISSION, Transition.APPEND_CONTEXT: Authority.NORMAL}
    return Proposal(
        namespace=SPACE,
        transition=transition,
        authority=authority.get(transition, subject.ending.account.authority),
        machine=Machine.DECISION,
        subject_id=str(subject.intent.id),
        run_id=subject.run.id,
        generation=attempt[0],
        fence=attempt[1],
        records=Proposal.bodies(records[transition] or (subject.outcome(held),)),
    )


@lru_cache(maxsize=1)
def _actor() -> ActorIdentity:
    return ActorIdentity(
        model="simulation",
        config_digest=digest_bytes(b"configuration"),
        template_digest=digest_bytes(b"template"),
        policy=retrieval_policy().identity,
    )
