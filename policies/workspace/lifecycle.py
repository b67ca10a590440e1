"""What happens to a claim that is added, and to those that it contradicts or revises (spec 004; reference 3.2).

Rules kept here:

- nobody's confidence is asked, and no order of arrival: of claims that contradict each other both are kept, contested,
  until evidence settles it (reference: defect 1). A claim from an untrusted source is quarantined before it is compared
  with any other, so it can contest none;
- evidence counts by different events with different content (reference: defect 2); an event has one content for ever;
- a revision is accepted where the new claim could be promoted by itself, is trusted no less, and rests on evidence that
  the old one does not have;
- a stale claim comes back by new evidence alone, as probationary, and is promoted anew; what returns is held against
  everything that is live, like what is added;
- a decision is complete, or a report of what is missing; nothing is half-decided.

Pure: claims and where they stand come in, records go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policies.workspace.arrows import LIVE, ClaimHead, advance, next_state
from policies.workspace.likeness import Said, Words, contradicts, is_same, said
from policies.workspace.policy import Admission, WorkspacePolicy
from records.errors import IdentityConflictError, InvalidInputError
from records.ids import ClaimEventId, WorkspaceClaimId
from records.workspace import (
    GENESIS,
    ClaimEvent,
    ClaimReason,
    ClaimSource,
    ClaimState,
    ClaimStatus,
    EvidenceEvent,
    PredicateFinding,
    Trust,
    WorkspaceClaim,
)

_TRUST: Final = {Trust.UNTRUSTED: 0, Trust.EXTERNAL: 1, Trust.TRUSTED_LOCAL: 2}


class Lack(StrEnum):
    """What keeps a claim from being promoted, accepted or brought back."""

    NOT_PROBATIONARY = "not_probationary"
    NOT_VERIFIED = "not_verified"
    NOT_TRUSTED = "not_trusted"
    EVIDENCE_MISSING = "evidence_missing"
    EVIDENCE_NOT_NEW = "evidence_not_new"
    PREDICATE_FAILS = "predicate_fails"
    NOT_CONTESTED = "not_contested"
    NOT_LIVE = "not_live"
    LESS_TRUSTED = "less_trusted"
    CONTRADICTED = "contradicted"
    QUARANTINED_BY_ORIGIN = "quarantined_by_origin"


@dataclass(frozen=True, slots=True)
class NotDone:
    """A report: nothing happens to the claim, and why."""

    claim_id: str
    lacks: tuple[Lack, ...]

    def error(self) -> InvalidInputError:
        """Return the report as an error for whoever asked."""
        return InvalidInputError("claim", self.claim_id, f"Not done: {', '.join(self.lacks)}. See docs/claims.md.")


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim with where it stands."""

    claim: WorkspaceClaim
    head: ClaimHead

    @property
    def evidence(self) -> tuple[EvidenceEvent, ...]:
        """All evidence that it has: that of its certificate, then what its events brought."""
        return (*self.claim.certificate.evidence, *self.head.evidence)


class Addition(StrEnum):
    """What becomes of a claim that is added."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Added:
    """What an addition leads to.

    Attributes:
        stands: the claim that is there afterwards: the new one, or the one that it repeats.
        claims: the claims to append; none for a duplicate.
        events: the events to append, of the new claim and of those that it contradicts or revises.
        contradicts: the claims that it is contested with.
    """

    addition: Addition
    stands: str
    claims: tuple[WorkspaceClaim, ...] = ()
    events: tuple[ClaimEvent, ...] = ()
    contradicts: tuple[str, ...] = ()


class Steps:
    """Events that follow one another, at one moment, under one policy."""

    def __init__(self, policy: WorkspacePolicy, now: str, held: Iterable[HeldClaim] = ()) -> None:
        """Begin where claims stand; `now` is the time of every event."""
        self.policy, self.now = policy, now
        self.events: list[ClaimEvent] = []
        self.heads: dict[str, ClaimHead] = {str(each.claim.id): each.head for each in held}

    def step(
        self,
        claim: WorkspaceClaim,
        reason: ClaimReason,
        counterpart: str | None = None,
        evidence: Sequence[EvidenceEvent] = (),
        findings: Sequence[PredicateFinding] = (),
    ) -> None:
        """Add one event.

        Raises:
            IllegalTransitionError: there is no such arrow.
        """
        head = self.heads.get(str(claim.id))
        event = ClaimEvent(
            namespace=claim.namespace,
            created_at=self.now,
            workspace=claim.workspace,
            claim_id=WorkspaceClaimId(claim.id),
            expected_prior=GENESIS if head is None else ClaimEventId(head.event_id),
            state=next_state(None if head is None else head.state, reason),
            reason=reason,
            counterpart=None if counterpart is None else WorkspaceClaimId(counterpart),
            evidence=tuple(evidence),
            findings=tuple(findings),
            policy=self.policy.identity,
        )
        self.heads[str(claim.id)] = advance(head, event)
        self.events.append(event)

    def contest(self, claim: WorkspaceClaim, others: Iterable[WorkspaceClaim]) -> None:
        """Contest a claim and every one of the others with each other.

        Raises:
            IllegalTransitionError: one of them is not live.
        """
        for other in others:
            self.step(claim, ClaimReason.CONTRADICTED, str(other.id))
            self.step(other, ClaimReason.CONTRADICTED, str(claim.id))

    @property
    def done(self) -> tuple[ClaimEvent, ...]:
        """The events so far."""
        return tuple(self.events)


def independent(evidence: Iterable[EvidenceEvent]) -> int:
    """Return how many of these events are different events with different content.

    An event has one content, so as many as there are contents can be chosen with no event and no content twice.
    """
    return len({each.content_digest for each in evidence})


def require_known_content(known: Iterable[EvidenceEvent], offered: Iterable[EvidenceEvent]) -> None:
    """Refuse an event that is known with another content.

    Raises:
        IdentityConflictError: one is.
    """
    contents = {each.event_id: each.content_digest for each in known}
    for each in offered:
        if contents.setdefault(each.event_id, each.content_digest) != each.content_digest:
            remedy = "An event has one content; give another event its own id. Nothing was written."
            raise IdentityConflictError("evidence event", each.event_id, remedy)


def trusted_evidence(board: Mapping[str, HeldClaim]) -> Iterator[EvidenceEvent]:
    """Yield the evidence of a workspace whose content binds every claim of it: all that no untrusted claim brought."""
    trusted = (held for held in board.values() if held.claim.trust is not Trust.UNTRUSTED)
    return (each for held in trusted for each in held.evidence)


def new_evidence(known: Sequence[EvidenceEvent], offered: Sequence[EvidenceEvent]) -> tuple[EvidenceEvent, ...]:
    """Return the offered events whose event and content are both unknown.

    Raises:
        IdentityConflictError: an event is known with another content.
    """
    require_known_content(known, offered)
    events, contents = {each.event_id for each in known}, {each.content_digest for each in known}
    return tuple(each for each in offered if each.event_id not in events and each.content_digest not in contents)


def lacks_of(
    claim: WorkspaceClaim, evidence: Iterable[EvidenceEvent], rule: Admission, *, holds: bool = True
) -> tuple[Lack, ...]:
    """Return what keeps a claim from being durable, apart from where it stands; `holds` is about its predicates now."""
    found = {
        Lack.NOT_VERIFIED: claim.status is not ClaimStatus.VERIFIED,
        Lack.NOT_TRUSTED: claim.trust not in rule.trusts,
        Lack.EVIDENCE_MISSING: independent(evidence) < rule.evidence,
        Lack.PREDICATE_FAILS: not holds,
    }
    return tuple(lack for lack, missing in found.items() if missing)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A claim that is to be added.

    Attributes:
        revises: the claim whose accepted revision it is meant to be.
        holds: whether its predicates hold now.
    """

    claim: WorkspaceClaim
    revises: str | None = None
    holds: bool = True


def add(
    newcomer: Newcomer, board: Mapping[str, HeldClaim], policy: WorkspacePolicy, words: Words, now: str
) -> Added | NotDone:
    """Return what becomes of a claim.

    Args:
        newcomer: the claim.
        board: every claim of its workspace with where it stands.
        policy: the lifecycle's numbers.
        words: gives the words of a text.
        now: the time of the events.

    Raises:
        InvalidInputError: its text is too short, it has too many predicates, or it revises a claim that is not there.
        IdentityConflictError: an event of its certificate is known with another content.
    """
    claim, key = newcomer.claim, str(newcomer.claim.id)
    _require_form(claim, policy)
    if key in board:
        return Added(Addition.REPLAYED, key)
    require_known_content(trusted_evidence(board), claim.certificate.evidence)
    steps = Steps(policy, now, board.values())
    if (start := apart(claim)) is not None:
        steps.step(claim, start)
        return Added(Addition.ADDED, key, (claim,), steps.done)
    mine, texts = said(claim.text, words, policy.likeness), live_texts(board, policy, words)
    against = contradicted_by(mine, texts, policy)
    if newcomer.revises is not None:
        return _revise(newcomer, board, steps, against)
    for name, theirs in texts.items():
        if is_same(mine, theirs) and board[name].claim.predicates == claim.predicates:
            return Added(Addition.DUPLICATE, name)
    if against:
        steps.contest(claim, [board[name].claim for name in against])
    elif _starts_durable(newcomer, policy):
        steps.step(claim, ClaimReason.LOCALLY_VERIFIED)
    else:
        steps.step(claim, ClaimReason.ADDED)
    return Added(Addition.ADDED, key, (claim,), steps.done, against)


def _require_form(claim: WorkspaceClaim, policy: WorkspacePolicy) -> None:
    limits = policy.extraction
    if len(claim.text.strip()) < limits.text_min:
        raise InvalidInputError("text", claim.text, f"Say it in {limits.text_min} characters at least.")
    if len(claim.predicates) > limits.max_predicates:
        met = f"{len(claim.predicates)} predicates"
        raise InvalidInputError("predicates", met, f"Give {limits.max_predicates} at most.")


def apart(claim: WorkspaceClaim) -> ClaimReason | None:
    """Return the start of a claim that is compared with no other."""
    if claim.trust is Trust.UNTRUSTED:
        return ClaimReason.UNTRUSTED_SOURCE
    return ClaimReason.STATED_INVALID if claim.status is ClaimStatus.INVALIDATED else None


def live_texts(board: Mapping[str, HeldClaim], policy: WorkspacePolicy, words: Words) -> dict[str, Said]:
    """Return what the live claims of a workspace say, by their ids."""
    live = {name: each for name, each in board.items() if each.head.state in LIVE}
    return {name: said(each.claim.text, words, policy.likeness) for name, each in live.items()}


def contradicted_by(mine: Said, texts: Mapping[str, Said], policy: WorkspacePolicy) -> tuple[str, ...]:
    """Return which of several texts contradict one."""
    return tuple(sorted(name for name, theirs in texts.items() if contradicts(mine, theirs, policy.likeness)))


def _starts_durable(newcomer: Newcomer, policy: WorkspacePolicy) -> bool:
    claim, rule = newcomer.claim, policy.deterministic_start
    lacks = lacks_of(claim, claim.certificate.evidence, rule, holds=newcomer.holds)
    return claim.source is ClaimSource.DETERMINISTIC and not lacks


def revision_lacks(
    claim: WorkspaceClaim, old: HeldClaim, policy: WorkspacePolicy, *, holds: bool = True
) -> tuple[Lack, ...]:
    """Return what keeps a new claim from taking the place of an old one; `holds` is about its predicates now.

    Raises:
        IdentityConflictError: an event of its certificate is known to the old one with another content.
    """
    brought = claim.certificate.evidence
    found = {
        Lack.NOT_LIVE: old.head.state not in LIVE | {ClaimState.STALE},
        Lack.LESS_TRUSTED: _TRUST[claim.trust] < _TRUST[old.claim.trust],
        Lack.EVIDENCE_NOT_NEW: not new_evidence(old.evidence, brought),
    }
    return (
        *lacks_of(claim, brought, policy.promotion, holds=holds),
        *(lack for lack, missing in found.items() if missing),
    )


def _revise(
    newcomer: Newcomer, board: Mapping[str, HeldClaim], steps: Steps, against: tuple[str, ...]
) -> Added | NotDone:
    claim, old = newcomer.claim, board.get(str(newcomer.revises))
    if old is None:
        raise InvalidInputError("revises", newcomer.revises, "Name a claim of this workspace.")
    lacks = revision_lacks(claim, old, steps.policy, holds=newcomer.holds)
    lacks += (Lack.CONTRADICTED,) if set(against) - {str(old.claim.id)} else ()
    if lacks:
        return NotDone(str(claim.id), lacks)
    steps.step(claim, ClaimReason.ADDED)
    steps.step(claim, ClaimReason.PROMOTED)
    steps.step(old.claim, ClaimReason.REVISED, str(claim.id))
    return Added(Addition.ADDED, str(claim.id), (claim,), steps.done)
