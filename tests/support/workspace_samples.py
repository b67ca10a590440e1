"""Claims about a code base: one record of each kind, and claims that tests change field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policies.workspace.policy import workspace_policy
from policies.workspace.reward import reward
from policies.workspace.shadow import ShadowState, shadow_policy
from records.base import Record
from records.claim_traces import (
    ClaimReceipt,
    ClaimTrace,
    ListRank,
    Recommendation,
    TraceEnding,
    TraceItem,
    TraceReason,
    TrialOutcome,
)
from records.ids import ClaimEventId, ClaimTraceId, WorkspaceClaimId
from records.workspace import (
    GENESIS,
    ClaimEvent,
    ClaimReason,
    ClaimSource,
    ClaimState,
    ClaimStatus,
    ClaimType,
    EvidenceCertificate,
    EvidenceEvent,
    FileHash,
    Trust,
    WorkspaceClaim,
)
from tests.support.samples import by_noun
from tests.support.trials import NOW, digest

TEXT = "Retries of the client are capped at 3"


def evidence(*names: str) -> tuple[EvidenceEvent, ...]:
    """Return one event for each name, each with a content of its own; `name=content` gives another content."""
    parts = (name.partition("=") for name in names)
    return tuple(EvidenceEvent(event_id=one, content_digest=digest(other or one)) for one, _, other in parts)


def make_claim(text: str = TEXT, *, events: Sequence[EvidenceEvent] = (), **changes: Any) -> WorkspaceClaim:
    """Return a claim that a model extracted and a person verified, with one piece of evidence unless more are given."""
    certificate = EvidenceCertificate(
        extractor_version="reader/1", claim_schema_version="1", evidence=tuple(events) or evidence("config-read-1")
    )
    given: dict[str, Any] = {
        "namespace": "test", "created_at": NOW, "workspace": "app", "text": text, "claim_type": ClaimType.FACT,
        "trust": Trust.TRUSTED_LOCAL, "status": ClaimStatus.VERIFIED, "source": ClaimSource.MODEL, "confidence": "0.5",
        "predicates": (), "certificate": certificate,
    }  # fmt: skip
    return WorkspaceClaim(**(given | changes))


def make_claim_event(claim: WorkspaceClaim, reason: ClaimReason = ClaimReason.ADDED, **changes: Any) -> ClaimEvent:
    """Return an event of a claim; the first one, unless more is said."""
    given: dict[str, Any] = {
        "namespace": claim.namespace, "created_at": NOW, "workspace": claim.workspace,
        "claim_id": WorkspaceClaimId(claim.id), "expected_prior": GENESIS, "state": ClaimState.PROBATIONARY,
        "reason": reason, "counterpart": None, "evidence": (), "findings": (), "policy": workspace_policy().identity,
    }  # fmt: skip
    return ClaimEvent(**(given | changes))


def make_outcome(**changes: Any) -> TrialOutcome:
    """Return the outcome of a trial that passed."""
    given: dict[str, Any] = {
        "passed": True, "corrected": False, "reverted": False, "unauthorised_side_effect": False, "tokens": 900,
        "duration_ms": 4_000, "grader": "pytest", "grader_digest": digest("1 passed"),
    }  # fmt: skip
    return TrialOutcome(**(given | changes))


def make_item(event: ClaimEvent, **changes: Any) -> TraceItem:
    """Return the item of a claim that was shown."""
    given: dict[str, Any] = {
        "claim_id": event.claim_id, "event_id": ClaimEventId(event.id), "claim_type": ClaimType.FACT,
        "reason": TraceReason.SELECTED, "score": 32_786, "ranks": (ListRank(name="words", rank=1),), "tokens": 40,
        "recommended": Recommendation.INJECT, "shadow_value": 0,
    }  # fmt: skip
    return TraceItem(**(given | changes))


def make_trace(namespace: str, *items: TraceItem, occasion: str = "first", **changes: Any) -> ClaimTrace:
    """Return the trace of a retrieval that showed these items."""
    given: dict[str, Any] = {
        "namespace": namespace, "created_at": NOW, "workspace": "app", "task_id": "task-1", "occasion": occasion,
        "objective": "how often is a request tried again", "policy": workspace_policy().identity,
        "renderer": "vrm-claims/1", "tokenizer": "tiktoken/cl100k_base", "embedder": None, "ledger_position": 2,
        "considered": len(items), "durable": len(items), "refused": (), "items": items,
        "ending": TraceEnding.SELECTED if items else TraceEnding.NO_DURABLE_CLAIM, "budget": 600,
        "token_count": 120 if items else 0, "rendered_digest": digest("section"),
        "shadow": ShadowState().named(shadow_policy()), "latency_us": 1_200,
    }  # fmt: skip
    return ClaimTrace(**(given | changes))


def make_receipt(trace: ClaimTrace, trial_id: str = "trial-1", **outcome: Any) -> ClaimReceipt:
    """Return the receipt of one trial of a trace."""
    found, policy = make_outcome(**outcome), shadow_policy()
    return ClaimReceipt(
        namespace=trace.namespace, created_at=NOW, trace_id=ClaimTraceId(trace.id), task_id=trace.task_id,
        trial_id=trial_id, selected=trace.selected, shadow=trace.shadow, outcome=found, policy=policy.identity,
        reward=reward(found, policy.reward),
    )  # fmt: skip


def workspace_samples(namespace: str = "test") -> dict[str, Record]:
    """Return a claim, its first event, a trace that shows it and a receipt, by noun, in the order of their appends."""
    claim = make_claim(namespace=namespace, predicates=(FileHash(path="config.json", sha256=digest("{}")),))
    event = make_claim_event(claim)
    trace = make_trace(namespace, make_item(event))
    return by_noun(claim, event, trace, make_receipt(trace))
