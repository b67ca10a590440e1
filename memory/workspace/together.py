"""What must hold among the claims of one append, and between them and the workspace that they are in (spec 004).

Rules kept here:

- an event that names another claim names one of its own workspace, whose part of the matter is in the same append:
  contested claims are contested by each other, what is rejected loses to what is upheld, and nothing that was contested
  with the upheld one is left so. A claim is revised by what is added and promoted with it, by the rule of additions;
- an event of evidence has one content for ever, whichever claim brings it;
- a claim that is added, or comes back, is held against everything that is live when the append is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.guard_rules import Rules
from memory.index.lexical import terms
from memory.workspace.steps import policy_of
from policies.workspace.arrows import LIVE, ClaimHead, is_contested_with
from policies.workspace.lifecycle import HeldClaim, independent, new_evidence, revision_lacks
from policies.workspace.likeness import contradicts, said
from policies.workspace.policy import WorkspacePolicy
from records.workspace import WITH_EVIDENCE, ClaimEvent, ClaimReason, ClaimState, Trust, WorkspaceClaim

Board = Mapping[str, HeldClaim]


@dataclass(frozen=True, slots=True)
class Moved:
    """The events of an append, each a legal step of its chain.

    Attributes:
        new: the claims that are added, by id.
        claims: these, those that are moved and those that events name, by id.
        before: where the claim of an event stood, by the event's id.
        after: where every moved claim stands when the append is done.
    """

    events: Sequence[ClaimEvent]
    new: Mapping[str, WorkspaceClaim]
    claims: Mapping[str, WorkspaceClaim]
    before: Mapping[str, ClaimHead | None]
    after: Mapping[str, ClaimHead]

    def has(self, name: str, reason: ClaimReason, counterpart: str | None = None) -> bool:
        """Tell whether a claim has an event of a reason, between it and the counterpart if one is given."""
        return any(
            each.claim_id == name and each.reason is reason and counterpart in {None, each.counterpart}
            for each in self.events
        )

    def board(self, stored: Board) -> dict[str, HeldClaim]:
        """Return the claims of a workspace as they stand when the append is done."""
        return dict(stored) | {name: HeldClaim(self.claims[name], head) for name, head in self.after.items()}


def one_content(moved: Moved, stored: Board) -> Rules:
    """Say that an event has one content in a workspace; what an untrusted claim says of one binds no other claim."""
    contents = {
        (held.claim.workspace, each.event_id): each.content_digest
        for held in stored.values()
        if held.claim.trust is not Trust.UNTRUSTED
        for each in held.evidence
    }
    brought = [(claim, claim.certificate.evidence) for claim in moved.new.values()]
    brought += [(moved.claims[str(event.claim_id)], event.evidence) for event in moved.events]
    for claim, evidence in sorted(brought, key=lambda each: each[0].trust is Trust.UNTRUSTED):
        binds = claim.trust is not Trust.UNTRUSTED
        for each in evidence:
            key, said_now = (claim.workspace, each.event_id), each.content_digest
            known = contents.setdefault(key, said_now) if binds else contents.get(key, said_now)
            yield known == said_now, f"the event {each.event_id} has another content in this workspace"


def between(moved: Moved, board: Board) -> Rules:
    """Say what must hold of events that name another claim; `board` is of the end, whole where a claim is upheld."""
    for event in moved.events:
        policy = policy_of(event.policy)
        if event.counterpart is None or policy is None:
            continue
        other = moved.claims.get(str(event.counterpart))
        known = other is not None and (other.namespace, other.workspace) == (event.namespace, event.workspace)
        yield known, "the event names a claim that is not of its workspace"
        head = moved.before[str(event.id)]
        if event.reason is ClaimReason.CONTRADICTED:
            mirrored = moved.has(str(event.counterpart), ClaimReason.CONTRADICTED, str(event.claim_id))
            yield mirrored, "the claim that it names is not contested in turn"
        elif head is not None:
            yield from _ended(moved, event, head, policy)
            if event.reason is ClaimReason.UPHELD:
                yield from _upheld(event, head, board, policy)


def _ended(moved: Moved, event: ClaimEvent, head: ClaimHead, policy: WorkspacePolicy) -> Rules:
    other = str(event.counterpart)
    if event.reason is ClaimReason.REJECTED:
        yield moved.has(other, ClaimReason.UPHELD), "a claim is rejected for one that is upheld with it"
        yield is_contested_with(head, other), "the claim is not contested with the one that it is rejected for"
    if event.reason is ClaimReason.REVISED:
        stands = moved.after[other].state if other in moved.new else None
        taken = stands is ClaimState.DURABLE and moved.has(other, ClaimReason.PROMOTED)
        yield taken, "a claim is revised by one that is added and promoted with it"
        old = HeldClaim(moved.claims[str(event.claim_id)], head)
        lacks = revision_lacks(moved.new[other], old, policy)
        yield not lacks, f"it is no acceptable revision: {', '.join(lacks)}"


def _upheld(event: ClaimEvent, head: ClaimHead, board: Board, policy: WorkspacePolicy) -> Rules:
    name = str(event.claim_id)
    yield is_contested_with(head, str(event.counterpart)), "the claim is not contested with the one that it names"
    others = [board[other] for other in head.counterparts if other in board]
    known = [each for held in others for each in held.evidence]
    fresh = independent(new_evidence(known, event.evidence))
    yield fresh >= policy.resolution.evidence, "a side of the contradiction has the evidence already"
    left = any(is_contested_with(held.head, name) for held in others)
    yield not left, "a claim is left contested with the upheld one"


def against(moved: Moved, board: Board) -> Rules:
    """Say what a claim that is new or back must be contested with: what it contradicts that is live at the end."""
    back = (str(event.claim_id) for event in moved.events if event.reason in WITH_EVIDENCE)
    for name in dict.fromkeys((*moved.new, *back)):
        policy = policy_of(next(event.policy for event in moved.events if event.claim_id == name))
        claim, state = moved.claims[name], moved.after[name].state
        if state not in LIVE or policy is None:
            continue
        rules = policy.likeness
        mine = said(claim.text, terms, rules)
        found = {
            other
            for other, each in board.items()
            if other != name and each.claim.workspace == claim.workspace and each.head.state in LIVE
            and contradicts(mine, said(each.claim.text, terms, rules), rules)
        }  # fmt: skip
        contested = [event for event in moved.events if event.reason is ClaimReason.CONTRADICTED]
        named = {str(event.counterpart) for event in contested if event.claim_id == name}
        turned = {str(event.claim_id) for event in contested if event.counterpart == name}
        yield found == named == turned, "the claim is not contested with exactly what it contradicts now"
