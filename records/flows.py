"""The spine's registry: every way to write into the Ledger is one row here.

Rules kept here:

- there are two classes of append and no third: *granted* ones carry a single-use authorization, *direct* ones an
  operation key and a request digest;
- a row says which authorities may grant it, which machine the grant moves and how, which record kinds it may write,
  which of them may already be there with the same bytes, and which typed reasons it may give for writing nothing;
- the issuer of a grant and the Ledger transaction both check the same row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from records.errors import InvalidInputError
from records.outcomes import NoCommitReason
from records.states import Event, Machine, Phase


class Transition(StrEnum):
    """Every append that the Ledger knows."""

    APPEND_INTENT = "APPEND_INTENT"
    APPEND_CONTEXT = "APPEND_CONTEXT"
    APPEND_OUTCOME = "APPEND_OUTCOME"
    ENQUEUE_DISTILLATION = "ENQUEUE_DISTILLATION"
    ABANDON_ENQUEUE = "ABANDON_ENQUEUE"
    COMMIT_DISTILLATION = "COMMIT_DISTILLATION"
    CLOSE_WORK_ITEM = "CLOSE_WORK_ITEM"
    BEGIN_ERASURE = "BEGIN_ERASURE"
    CLOSE_ERASURE = "CLOSE_ERASURE"
    APPEND_EVIDENCE = "APPEND_EVIDENCE"
    RECEIPT_NOT_QUEUED = "RECEIPT_NOT_QUEUED"
    CAPTURE_SNAPSHOT = "CAPTURE_SNAPSHOT"
    FREEZE_KNOWLEDGE = "FREEZE_KNOWLEDGE"
    INDEX_RECEIPT = "INDEX_RECEIPT"
    COMPOSE_RECALL_INPUT = "COMPOSE_RECALL_INPUT"
    ASSIGN_WORK = "ASSIGN_WORK"
    LINK_ATTEMPT = "LINK_ATTEMPT"
    IMPORT_LEGACY = "IMPORT_LEGACY"
    ADD_REFERENCE = "ADD_REFERENCE"
    INDEX_REFERENCES = "INDEX_REFERENCES"
    FREEZE_REFERENCES = "FREEZE_REFERENCES"
    ADD_NODE_REPORT = "ADD_NODE_REPORT"
    ADD_LINEAGE_ENTRY = "ADD_LINEAGE_ENTRY"
    APPEND_CLAIMS = "APPEND_CLAIMS"
    TRACE_CLAIMS = "TRACE_CLAIMS"
    RECEIPT_CLAIMS = "RECEIPT_CLAIMS"


class Authority(StrEnum):
    """In whose name an append is made."""

    ADMISSION = "ADMISSION"
    NORMAL = "NORMAL"
    RUNTIME_CLOSURE = "RUNTIME_CLOSURE"
    HANDOFF_ATTEMPT = "HANDOFF_ATTEMPT"
    HANDOFF_ABANDONMENT = "HANDOFF_ABANDONMENT"
    RETENTION = "RETENTION"
    DIRECT = "DIRECT"


ENDING: Final = frozenset({Authority.RUNTIME_CLOSURE, Authority.HANDOFF_ABANDONMENT})
"""Authorities for what a Run that is cancelling or failing leaves behind; all others need one that is running."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One row of the registry.

    Attributes:
        writes: nouns that the append may hold; `primary` is the one that its authorization expects.
        shared: nouns among them that may already be stored with the same bytes; the rest must be new.
        machine: the Runtime machine whose subject the grant moves; None for direct appends.
        granted: the event of the grant; None where the grant itself creates the subject.
        committed: the event of success; None where `ends` says it.
        ends: the event of success by the `status` of the primary record, where a flow has several.
        retired: the event of a typed no-commit, by the phase that the grant started from.
        reasons: the no-commit reasons that the row may give, in order of precedence.
        conflicts: those of them that are journaled as a Distillation Commit Conflict.
        derives: whether further records are derived from plan and authorization after the grant.
        is_retirable: whether recovery may retire the attempt while its grant is unresolved. The grant still gets its
            one answer, which then settles the grant alone; a proof of the Store says what becomes of the subject.
        ends_what_began: whether it may be granted as long as its Run is not over, whatever else the Run is about.
    """

    transition: Transition
    authorities: frozenset[Authority]
    primary: str
    writes: frozenset[str]
    shared: frozenset[str] = frozenset()
    machine: Machine | None = None
    granted: Event | None = None
    committed: Event | None = None
    ends: dict[str, Event] = field(default_factory=dict)
    retired: dict[Phase, Event] | None = None
    reasons: tuple[NoCommitReason, ...] = ()
    conflicts: frozenset[NoCommitReason] = frozenset()
    derives: bool = False
    is_retirable: bool = False
    ends_what_began: bool = False

    @property
    def is_granted(self) -> bool:
        """Whether the append needs an authorization."""
        return self.machine is not None

    @property
    def events(self) -> frozenset[Event]:
        """Every event by which its grant and the settlement of it move the subject."""
        named = {self.granted, self.committed, *self.ends.values(), *(self.retired or {}).values()}
        return frozenset(event for event in named if event is not None)


_COMMON = (
    NoCommitReason.PRECONDITION_CONFLICT,
    NoCommitReason.CANONICAL_RECORD_CONFLICT,
    NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED,
)


def _direct(transition: Transition, primary: str, *others: str) -> Flow:
    nouns = frozenset({primary, *others})
    return Flow(
        transition=transition,
        authorities=frozenset({Authority.DIRECT}),
        primary=primary,
        writes=nouns,
        shared=nouns,
    )


_ROWS: Final = (
    Flow(
        transition=Transition.APPEND_INTENT,
        authorities=frozenset({Authority.ADMISSION}),
        primary="decision-intent",
        writes=frozenset({"decision-intent", "decision-contract-view"}),
        shared=frozenset({"decision-contract-view"}),
        machine=Machine.DECISION,
        committed=Event.ADMITTED,
        retired={Phase.REGISTERING: Event.GHOST},
        reasons=_COMMON,
    ),
    Flow(
        transition=Transition.APPEND_CONTEXT,
        authorities=frozenset({Authority.NORMAL}),
        primary="decision-recall-context",
        writes=frozenset({"decision-recall-context"}),
        machine=Machine.DECISION,
        granted=Event.GRANT_CONTEXT,
        committed=Event.CONTEXT_COMMITTED,
        retired={Phase.OPEN: Event.CONTEXT_RETIRED},
        reasons=(NoCommitReason.RETENTION_FRONTIER_STALE, *_COMMON),
    ),
    Flow(
        transition=Transition.APPEND_OUTCOME,
        authorities=frozenset({Authority.NORMAL, Authority.RUNTIME_CLOSURE}),
        primary="recall-decision-outcome",
        writes=frozenset({"recall-decision-outcome"}),
        machine=Machine.DECISION,
        granted=Event.GRANT_OUTCOME,
        committed=Event.OUTCOME_COMMITTED,
        retired={
            Phase.OPEN: Event.OUTCOME_RETIRED_OPEN,
            Phase.CONTEXT_COMMITTED: Event.OUTCOME_RETIRED_CONTEXT,
        },
        reasons=_COMMON,
    ),
    Flow(
        transition=Transition.ENQUEUE_DISTILLATION,
        authorities=frozenset({Authority.HANDOFF_ATTEMPT}),
        primary="distillation-work-item",
        writes=frozenset({"distillation-work-item", "distillation-receipt", "enqueue-transaction"}),
        machine=Machine.HANDOFF,
        granted=Event.GRANT_ENQUEUE,
        committed=Event.BOUND,
        retired={Phase.PENDING: Event.ENQUEUE_RETIRED, Phase.PROVED_ABSENT: Event.ENQUEUE_RETIRED},
        reasons=_COMMON,
        derives=True,
        is_retirable=True,
    ),
    Flow(
        transition=Transition.ABANDON_ENQUEUE,
        authorities=frozenset({Authority.HANDOFF_ABANDONMENT}),
        primary="distillation-receipt",
        writes=frozenset({"distillation-receipt"}),
        machine=Machine.HANDOFF,
        granted=Event.GRANT_ABANDON,
        committed=Event.ABANDONED,
        retired={Phase.PROVED_ABSENT: Event.ABANDON_RETIRED},
        reasons=_COMMON,
        is_retirable=True,
    ),
    Flow(
        transition=Transition.COMMIT_DISTILLATION,
        authorities=frozenset({Authority.NORMAL}),
        primary="distillation-report",
        writes=frozenset(
            {
                "distillation-batch",
                "knowledge-candidate",
                "memory-record",
                "knowledge-lifecycle-event",
                "memory-relation",
                "distillation-decision",
                "distillation-work-disposition",
                "distillation-report",
                "distillation-work-completion",
            }
        ),
        machine=Machine.ACTIVITY,
        granted=Event.GRANT_COMMIT,
        committed=Event.COMMITTED,
        retired={Phase.RUNNING: Event.NO_COMMIT},
        reasons=(NoCommitReason.RETENTION_REVOKED, NoCommitReason.LIFECYCLE_HEAD_STALE, *_COMMON),
        conflicts=frozenset({NoCommitReason.RETENTION_REVOKED, NoCommitReason.LIFECYCLE_HEAD_STALE}),
        derives=True,
    ),
    Flow(
        transition=Transition.CLOSE_WORK_ITEM,
        authorities=frozenset({Authority.RUNTIME_CLOSURE}),
        primary="distillation-work-completion",
        writes=frozenset({"distillation-work-completion"}),
        machine=Machine.ACTIVITY,
        granted=Event.GRANT_CLOSE,
        ends={"cancelled": Event.CANCELLED, "dead_letter": Event.FAILED},
        retired=dict.fromkeys(
            (Phase.AWAITING_ASSIGNMENT, Phase.READY, Phase.LEASED, Phase.RUNNING), Event.CLOSE_RETIRED
        ),
        reasons=_COMMON,
    ),
    Flow(
        transition=Transition.BEGIN_ERASURE,
        authorities=frozenset({Authority.RETENTION}),
        primary="retention-erasure-intent",
        writes=frozenset({"retention-erasure-intent", "knowledge-lifecycle-event"}),
        machine=Machine.ERASURE,
        committed=Event.ADMITTED,
        retired={Phase.REGISTERING: Event.GHOST},
        reasons=(NoCommitReason.LIFECYCLE_HEAD_STALE, *_COMMON),
    ),
    Flow(
        transition=Transition.CLOSE_ERASURE,
        authorities=frozenset({Authority.RETENTION}),
        primary="memory-retention-tombstone",
        writes=frozenset({"memory-retention-tombstone"}),
        machine=Machine.ERASURE,
        granted=Event.GRANT_CLOSE,
        committed=Event.CLOSED,
        retired={Phase.OPEN: Event.CLOSE_RETIRED},
        reasons=_COMMON,
        ends_what_began=True,
    ),
    _direct(
        Transition.APPEND_EVIDENCE,
        "experience",
        "evaluation-contract",
        "hypothesis",
        "attempt",
        "observation",
        "verification",
        "intervention",
        "trial-provenance",
    ),
    _direct(Transition.RECEIPT_NOT_QUEUED, "distillation-receipt"),
    _direct(Transition.CAPTURE_SNAPSHOT, "capture-operation", "evidence-snapshot"),
    _direct(Transition.FREEZE_KNOWLEDGE, "knowledge-snapshot"),
    _direct(Transition.INDEX_RECEIPT, "memory-index-build", "memory-index-failure"),
    _direct(Transition.COMPOSE_RECALL_INPUT, "recall-input-snapshot"),
    _direct(Transition.ASSIGN_WORK, "distillation-work-assignment"),
    _direct(Transition.LINK_ATTEMPT, "outcome-attempt-link"),
    _direct(Transition.IMPORT_LEGACY, "legacy-import", "legacy-record"),
    _direct(Transition.ADD_REFERENCE, "reference-source", "reference-chunks"),
    _direct(Transition.INDEX_REFERENCES, "reference-index-build"),
    _direct(Transition.FREEZE_REFERENCES, "reference-context"),
    _direct(Transition.ADD_NODE_REPORT, "node-report"),
    _direct(Transition.ADD_LINEAGE_ENTRY, "lineage-entry"),
    _direct(Transition.APPEND_CLAIMS, "claim-event", "workspace-claim"),
    _direct(Transition.TRACE_CLAIMS, "claim-trace"),
    _direct(Transition.RECEIPT_CLAIMS, "claim-receipt"),
)

FLOWS: Final[dict[Transition, Flow]] = {row.transition: row for row in _ROWS}
"""Every flow by its transition."""


def require_legal(transition: Transition, authority: Authority, nouns: frozenset[str]) -> Flow:
    """Return the row of a transition after checking that authority and record kinds are legal for it.

    Raises:
        InvalidInputError: the (transition, authority) pair or one of the record kinds is not in the registry.
    """
    flow = FLOWS[transition]
    if authority not in flow.authorities:
        legal = ", ".join(sorted(flow.authorities))
        raise InvalidInputError(f"{transition}.authority", authority.value, f"Legal authorities: {legal}.")
    foreign = sorted(nouns - flow.writes)
    if foreign:
        legal = ", ".join(sorted(flow.writes))
        raise InvalidInputError(f"{transition}.records", ", ".join(foreign), f"This append writes only: {legal}.")
    return flow
