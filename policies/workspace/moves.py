"""What happens to claims that are there: promotion, contest, resolution, staleness, return (spec 004).

The rules are those of `policies.workspace.lifecycle`. Every function returns the events, or says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from policies.workspace.arrows import LIVE, is_contested_with
from policies.workspace.lifecycle import (
    HeldClaim,
    Lack,
    NotDone,
    Steps,
    contradicted_by,
    independent,
    lacks_of,
    live_texts,
    new_evidence,
    require_known_content,
    trusted_evidence,
)
from policies.workspace.likeness import Words, said
from policies.workspace.policy import WorkspacePolicy
from records.workspace import (
    ClaimEvent,
    ClaimReason,
    ClaimState,
    EvidenceEvent,
    PredicateFinding,
    Trust,
)

Events = tuple[ClaimEvent, ...]
RETURNING: Final = {ClaimState.STALE: ClaimReason.NEW_EVIDENCE, ClaimState.QUARANTINED: ClaimReason.RELEASED}
"""The reason by which new evidence brings a claim back, by its state."""


def promote(
    held: HeldClaim,
    board: Mapping[str, HeldClaim],
    offered: Sequence[EvidenceEvent],
    policy: WorkspacePolicy,
    now: str,
    *,
    holds: bool,
) -> Events | NotDone:
    """Return the event that makes a probationary claim durable.

    Args:
        held: the claim.
        board: every claim of its workspace with where it stands.
        offered: evidence beside what it has.
        policy: the lifecycle's numbers.
        now: the time of the event.
        holds: whether its predicates hold now.

    Raises:
        IdentityConflictError: an event is known with another content.
    """
    require_known_content(trusted_evidence(board), offered)
    brought = _unknown(held, offered)
    lacks = lacks_of(held.claim, (*held.evidence, *brought), policy.promotion, holds=holds)
    if held.head.state is not ClaimState.PROBATIONARY:
        lacks = (Lack.NOT_PROBATIONARY, *lacks)
    if lacks:
        return NotDone(str(held.claim.id), lacks)
    steps = Steps(policy, now, [held])
    steps.step(held.claim, ClaimReason.PROMOTED, evidence=brought)
    return steps.done


def contest(one: HeldClaim, other: HeldClaim, policy: WorkspacePolicy, now: str) -> Events | NotDone:
    """Return the events by which two live claims are contested, whichever is trusted or surer."""
    for each in (one, other):
        if each.head.state not in LIVE:
            return NotDone(str(each.claim.id), (Lack.NOT_LIVE,))
    steps = Steps(policy, now, [one, other])
    steps.contest(one.claim, [other.claim])
    return steps.done


def resolve(
    winner: HeldClaim,
    board: Mapping[str, HeldClaim],
    offered: Sequence[EvidenceEvent],
    policy: WorkspacePolicy,
    now: str,
    *,
    holds: bool,
) -> Events | NotDone:
    """Return the events by which evidence settles a contradiction: one claim is upheld, what it contests is rejected.

    The upheld claim is promoted in the same go if it has what a promotion needs; otherwise it is probationary.

    Args:
        winner: the claim that the evidence speaks for.
        board: every claim of the workspace.
        offered: the evidence.
        policy: the lifecycle's numbers.
        now: the time of the events.
        holds: whether the winner's predicates hold now.

    Raises:
        IdentityConflictError: an event is known with another content.
    """
    require_known_content(trusted_evidence(board), offered)
    contested = [board[name] for name in winner.head.counterparts if name in board]
    known = (*winner.evidence, *(each for held in contested for each in held.evidence))
    found = {
        Lack.NOT_CONTESTED: winner.head.state is not ClaimState.CONTESTED,
        Lack.EVIDENCE_NOT_NEW: independent(new_evidence(known, offered)) < policy.resolution.evidence,
        Lack.PREDICATE_FAILS: not holds,
    }
    if lacks := tuple(lack for lack, missing in found.items() if missing):
        return NotDone(str(winner.claim.id), lacks)
    brought = _unknown(winner, offered)
    steps = Steps(policy, now, [winner, *contested])
    steps.step(winner.claim, ClaimReason.UPHELD, str(winner.head.counterparts[0]), evidence=brought)
    for each in contested:
        if is_contested_with(each.head, winner.claim.id):
            steps.step(each.claim, ClaimReason.REJECTED, str(winner.claim.id))
    if not lacks_of(winner.claim, (*winner.evidence, *brought), policy.promotion, holds=holds):
        steps.step(winner.claim, ClaimReason.PROMOTED)
    return steps.done


def go_stale(
    held: HeldClaim, findings: Sequence[PredicateFinding], policy: WorkspacePolicy, now: str
) -> Events | NotDone:
    """Return the event that marks a claim stale for its failed predicates; findings that tell nothing mark nothing."""
    telling = tuple(each for each in findings if each.outcome in policy.stale_on)
    if not telling or held.head.state not in LIVE:
        return NotDone(str(held.claim.id), (Lack.NOT_LIVE,))
    steps = Steps(policy, now, [held])
    steps.step(held.claim, ClaimReason.PREDICATE_FAILED, findings=telling)
    return steps.done


def come_back(
    held: HeldClaim,
    board: Mapping[str, HeldClaim],
    offered: Sequence[EvidenceEvent],
    policy: WorkspacePolicy,
    now: str,
    *,
    words: Words,
    holds: bool,
) -> Events | NotDone:
    """Return the events by which new evidence brings a stale or quarantined claim back.

    It is probationary, or contested with every live claim that it contradicts.

    Args:
        held: the claim.
        board: every claim of its workspace with where it stands.
        offered: the evidence; what the claim had before brings nothing back.
        policy: the lifecycle's numbers.
        now: the time of the events.
        words: gives the words of a text.
        holds: whether its predicates hold now.

    Raises:
        IdentityConflictError: an event is known with another content.
    """
    require_known_content(trusted_evidence(board), offered)
    reason = RETURNING.get(held.head.state)
    found = {
        Lack.NOT_LIVE: reason is None,
        Lack.QUARANTINED_BY_ORIGIN: held.claim.trust is Trust.UNTRUSTED,
        Lack.EVIDENCE_NOT_NEW: independent(new_evidence(held.evidence, offered)) < policy.revival.evidence,
        Lack.PREDICATE_FAILS: not holds,
    }
    lacks = tuple(lack for lack, missing in found.items() if missing)
    if lacks or reason is None:
        return NotDone(str(held.claim.id), lacks)
    steps = Steps(policy, now, board.values())
    steps.step(held.claim, reason, evidence=_unknown(held, offered))
    mine, texts = said(held.claim.text, words, policy.likeness), live_texts(board, policy, words)
    steps.contest(held.claim, [board[name].claim for name in contradicted_by(mine, texts, policy)])
    return steps.done


def withdraw(held: HeldClaim, reason: ClaimReason, policy: WorkspacePolicy, now: str) -> Events:
    """Return the event that takes a claim out: `invalidated` by whoever knows better, or `suspected` and quarantined.

    Raises:
        IllegalTransitionError: it is out already.
    """
    steps = Steps(policy, now, [held])
    steps.step(held.claim, reason)
    return steps.done


def _unknown(held: HeldClaim, offered: Sequence[EvidenceEvent]) -> tuple[EvidenceEvent, ...]:
    """Return the offered events that the claim does not have yet, each once."""
    had = {each.event_id for each in held.evidence}
    return tuple({each.event_id: each for each in offered if each.event_id not in had}.values())
