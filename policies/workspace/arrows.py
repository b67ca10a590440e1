"""The states of a claim: arrows by reason, and the fold of its events (spec 004, "Claim lifecycle").

    from                                      reason             to
    (not started)                             added              probationary
    (not started)                             locally_verified   durable
    (not started)                             contradicted       contested
    (not started)                             untrusted_source   quarantined
    (not started)                             stated_invalid     stale
    probationary                              promoted           durable
    probationary, durable, contested          contradicted       contested
    contested                                 upheld             probationary
    contested                                 rejected           superseded
    probationary, durable, contested, stale   revised            superseded
    probationary, durable, contested          predicate_failed   stale
    probationary, durable, contested          invalidated        stale
    stale                                     new_evidence       probationary
    probationary, durable, contested, stale   suspected          quarantined
    quarantined                               released           probationary

Rules kept here:

- every pair that is not drawn is refused; superseded is final;
- only `promoted` and `locally_verified` lead to durable: what was contested, stale or quarantined is promoted anew;
- the events of a claim are one chain from GENESIS. Each consumes exactly one earlier event, whatever order they are
  given in; what is no such chain is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from records.errors import IllegalTransitionError, IntegrityError
from records.ids import WorkspaceClaimId
from records.workspace import GENESIS, ClaimEvent, ClaimReason, ClaimState, EvidenceEvent

ARROWS_VERSION: Final = "claim-arrows/v1"

_P, _D, _C, _S, _Q = (
    ClaimState.PROBATIONARY,
    ClaimState.DURABLE,
    ClaimState.CONTESTED,
    ClaimState.STALE,
    ClaimState.QUARANTINED,
)
LIVE: Final = frozenset({_P, _D, _C})
"""States in which a claim is held to be possibly true now."""

_ROWS: Final[tuple[tuple[frozenset[ClaimState | None], ClaimReason, ClaimState], ...]] = (
    (frozenset({None}), ClaimReason.ADDED, _P),
    (frozenset({None}), ClaimReason.LOCALLY_VERIFIED, _D),
    (frozenset({None}), ClaimReason.UNTRUSTED_SOURCE, _Q),
    (frozenset({None}), ClaimReason.STATED_INVALID, _S),
    (frozenset({None, _P, _D, _C}), ClaimReason.CONTRADICTED, _C),
    (frozenset({_P}), ClaimReason.PROMOTED, _D),
    (frozenset({_C}), ClaimReason.UPHELD, _P),
    (frozenset({_C}), ClaimReason.REJECTED, ClaimState.SUPERSEDED),
    (frozenset({_P, _D, _C, _S}), ClaimReason.REVISED, ClaimState.SUPERSEDED),
    (frozenset({_P, _D, _C}), ClaimReason.PREDICATE_FAILED, _S),
    (frozenset({_P, _D, _C}), ClaimReason.INVALIDATED, _S),
    (frozenset({_S}), ClaimReason.NEW_EVIDENCE, _P),
    (frozenset({_P, _D, _C, _S}), ClaimReason.SUSPECTED, _Q),
    (frozenset({_Q}), ClaimReason.RELEASED, _P),
)
ARROWS: Final[dict[tuple[ClaimState | None, ClaimReason], ClaimState]] = {
    (state, reason): after for states, reason, after in _ROWS for state in states
}
"""The state after each reason, by the state before; None is a claim that has not started."""


def next_state(current: ClaimState | None, reason: ClaimReason) -> ClaimState:
    """Return the state of a claim after an event.

    Raises:
        IllegalTransitionError: there is no such arrow.
    """
    after = ARROWS.get((current, reason))
    if after is None:
        state = "not started" if current is None else current.value
        raise IllegalTransitionError("claim", f"{state} -> {reason.value}", "docs/claims.md draws the arrows.")
    return after


@dataclass(frozen=True, slots=True)
class ClaimHead:
    """Where a claim stands.

    Attributes:
        event_id: its last event, which the next one consumes.
        length: how many events led there.
        counterparts: the claims that it is contested by and that it was not resolved with yet.
        evidence: what its events brought, in their order; that of its certificate is not among it.
    """

    claim_id: WorkspaceClaimId
    event_id: str
    state: ClaimState
    length: int
    counterparts: tuple[WorkspaceClaimId, ...] = ()
    evidence: tuple[EvidenceEvent, ...] = ()


def is_contested_with(head: ClaimHead, other: str) -> bool:
    """Tell whether a claim is contested by another one now."""
    return head.state is ClaimState.CONTESTED and other in head.counterparts


def advance(head: ClaimHead | None, event: ClaimEvent) -> ClaimHead:
    """Return where a claim stands after one more event.

    Raises:
        IllegalTransitionError: there is no such arrow, or the event says another state than it leads to.
        IntegrityError: it consumes another event than the last one, or is of another claim.
    """
    last = GENESIS if head is None else head.event_id
    if event.expected_prior != last:
        raise IntegrityError("claim event", event.id, f"It consumes {event.expected_prior}; the last one is {last}.")
    if head is not None and head.claim_id != event.claim_id:
        raise IntegrityError("claim event", event.id, f"It is of {event.claim_id}, the chain of {head.claim_id}.")
    state = next_state(None if head is None else head.state, event.reason)
    if state is not event.state:
        raise IllegalTransitionError("claim event", f"{event.reason} -> {event.state}", f"It leads to {state}.")
    before = () if head is None else head.counterparts
    return ClaimHead(
        claim_id=event.claim_id,
        event_id=str(event.id),
        state=state,
        length=1 if head is None else head.length + 1,
        counterparts=_counterparts(before, event),
        evidence=(*(() if head is None else head.evidence), *event.evidence),
    )


def _counterparts(before: tuple[WorkspaceClaimId, ...], event: ClaimEvent) -> tuple[WorkspaceClaimId, ...]:
    if event.state is not ClaimState.CONTESTED or event.counterpart is None:
        return ()
    return tuple(dict.fromkeys((*before, event.counterpart)))


def fold(events: Iterable[ClaimEvent]) -> dict[str, ClaimHead]:
    """Return where each claim stands, by its id, whatever order the events come in.

    Raises:
        IntegrityError: the events of a claim are no single chain from GENESIS.
        IllegalTransitionError: one of them has no arrow.
    """
    chains: dict[str, dict[str, ClaimEvent]] = {}
    for event in events:
        chain = chains.setdefault(event.claim_id, {})
        if chain.setdefault(event.expected_prior, event) != event:
            raise IntegrityError("claim event", event.id, f"{event.expected_prior} is consumed twice.")
    return {claim: _folded(claim, chain) for claim, chain in chains.items()}


def walk(chain: Mapping[str, ClaimEvent]) -> Iterator[tuple[ClaimHead | None, ClaimEvent, ClaimHead]]:
    """Yield the events of one claim from GENESIS on, each with where the claim stood before it and after.

    Args:
        chain: the events by what they consume; those that do not follow from GENESIS are not reached.

    Raises:
        IllegalTransitionError: an event has no arrow.
        IntegrityError: an event is of another claim.
    """
    head: ClaimHead | None = None
    while (event := chain.get(GENESIS if head is None else head.event_id)) is not None:
        before, head = head, advance(head, event)
        yield before, event, head


def _folded(claim: str, chain: Mapping[str, ClaimEvent]) -> ClaimHead:
    heads = [after for _, _, after in walk(chain)]
    if not heads or len(heads) < len(chain):
        left = len(chain) - len(heads)
        raise IntegrityError("claim events", claim, f"{left} of {len(chain)} do not follow from GENESIS.")
    return heads[-1]
