"""What one event of a claim must keep to, given the claim and where it stood, and a receipt given its trace (spec 004).

Rules kept here: the guards ask it of what is appended, and the integrity check of what is stored, so that neither lets
through what the other refuses. What concerns several claims at once is asked in `memory.workspace.together`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory.guard_rules import Rules
from policies.workspace.arrows import ClaimHead
from policies.workspace.lifecycle import apart, independent, lacks_of, new_evidence
from policies.workspace.policy import WorkspacePolicy, workspace_policy
from policies.workspace.reward import reward
from policies.workspace.shadow import ShadowPolicy, shadow_policy
from records.claim_traces import ClaimReceipt, ClaimTrace
from records.errors import InvalidInputError
from records.values import PolicyIdentity
from records.workspace import ClaimEvent, ClaimReason, ClaimSource, EvidenceEvent, WorkspaceClaim

_NEW: Final = frozenset({ClaimReason.NEW_EVIDENCE, ClaimReason.RELEASED, ClaimReason.UPHELD})


def policy_of(identity: PolicyIdentity) -> WorkspacePolicy | None:
    """Return the policy of an identity; None if this program does not have exactly that one."""
    try:
        found = workspace_policy(identity.version)
    except InvalidInputError:
        return None
    return found if found.identity == identity else None


def steps_of(event: ClaimEvent, claim: WorkspaceClaim, head: ClaimHead | None) -> Rules:
    """Say what must hold of an event of a claim; `head` is where the claim stood before it."""
    policy = policy_of(event.policy)
    if policy is None:
        yield False, "the event is by a policy that this program does not have"
        return
    yield event.workspace == claim.workspace, "the event is of another workspace than its claim"
    had = (*claim.certificate.evidence, *(() if head is None else head.evidence))
    yield _is_consistent(had, event.evidence), "an event of evidence has another content than before"
    if head is None:
        start = apart(claim)
        yield start is None or event.reason is start, f"a claim like this starts as {start}"
    if event.reason is ClaimReason.LOCALLY_VERIFIED:
        yield claim.source is ClaimSource.DETERMINISTIC, "only what was extracted deterministically starts durable"
        yield not lacks_of(claim, had, policy.deterministic_start), "it has not what starts a claim durable"
    if event.reason is ClaimReason.PROMOTED:
        yield not lacks_of(claim, (*had, *event.evidence), policy.promotion), "it has not what a promotion needs"
    if event.reason in _NEW:
        least = policy.resolution if event.reason is ClaimReason.UPHELD else policy.revival
        fresh = independent(new_evidence(had, event.evidence))
        yield fresh >= least.evidence, "the evidence is not new"
    if event.reason is ClaimReason.RELEASED:
        yield apart(claim) is not ClaimReason.UNTRUSTED_SOURCE, "a claim of an untrusted source stays quarantined"
    known = all(each.ordinal <= len(claim.predicates) for each in event.findings)
    yield known, "a finding is about a predicate that the claim does not have"
    telling = all(each.outcome in policy.stale_on for each in event.findings)
    yield telling, "a finding tells nothing about the world, so it marks nothing stale"


def receipt_rules(receipt: ClaimReceipt, trace: ClaimTrace) -> Rules:
    """Say what a receipt must repeat of its trace, and that its reward follows from its outcome."""
    yield receipt.task_id == trace.task_id, "the receipt is of another task than its trace"
    yield receipt.selected == trace.selected, "the receipt does not name what its trace showed"
    yield receipt.shadow == trace.shadow, "the receipt names another shadow version than its trace"
    policy = _shadow(receipt.policy)
    if policy is None:
        yield False, "the reward is by a policy that this program does not have"
        return
    yield receipt.reward == reward(receipt.outcome, policy.reward), "the reward is not that of the outcome"


def _shadow(identity: PolicyIdentity) -> ShadowPolicy | None:
    try:
        found = shadow_policy(identity.version)
    except InvalidInputError:
        return None
    return found if found.identity == identity else None


def _is_consistent(had: Iterable[EvidenceEvent], brought: Iterable[EvidenceEvent]) -> bool:
    contents = {each.event_id: each.content_digest for each in had}
    return all(contents.get(each.event_id, each.content_digest) == each.content_digest for each in brought)
