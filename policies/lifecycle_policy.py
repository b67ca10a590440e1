"""The Lifecycle Policy: the arrows between dispositions, and the fold of a scope variant's events to its head.

One record moves like this (spec 10):

    from           event                  to
    (not started)  promoted_provisional   provisional
    (not started)  promoted_active        active
    (not started)  promoted_contested     contested
    provisional    activated              active
    provisional    retracted              retracted
    active         superseded             superseded
    active         retracted              retracted
    contested      superseded             superseded

Superseded and retracted are final, so no record is ever active again.

Rules kept here (docs/adr/0030):

- the events of one scope variant are one chain from GENESIS; every event consumes exactly one earlier event, and no
  event is consumed twice. What is not such a chain is refused, whatever order it is given in;
- the chain may span records: a record may start on GENESIS, or on the event that ended its predecessor, and a record
  that has left the chain never comes back. `activated` may name the provisional record itself, or the record that
  holds the enlarged evidence and takes its place, for the links are part of a record's identity;
- a replacement is two events in this order: the old record ends, the new one starts on that very event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from policies.loading import Policy, PolicyPart, packaged_policy
from records.errors import IllegalTransitionError, IntegrityError
from records.knowledge import GENESIS, DecisionKind, EventType, LifecycleEvent
from records.values import Disposition, Grade

ENDED: Final = frozenset({Disposition.SUPERSEDED, Disposition.RETRACTED})
_NOTHING: Final = frozenset({DecisionKind.REJECTED, DecisionKind.DEFERRED})
_STARTS: Final = frozenset(
    {
        EventType.PROMOTED_PROVISIONAL,
        EventType.PROMOTED_ACTIVE,
        EventType.PROMOTED_CONTESTED,
    }
)


def next_disposition(current: Disposition | None, event: EventType) -> Disposition:
    """Return the disposition of ONE record after an event; None is a record that has not started.

    Raises:
        IllegalTransitionError: the diagram has no such arrow.
    """
    match (current, event):
        case (None, EventType.PROMOTED_PROVISIONAL):
            return Disposition.PROVISIONAL
        case (None, EventType.PROMOTED_ACTIVE):
            return Disposition.ACTIVE
        case (None, EventType.PROMOTED_CONTESTED):
            return Disposition.CONTESTED
        case (Disposition.PROVISIONAL, EventType.ACTIVATED):
            return Disposition.ACTIVE
        case (Disposition.PROVISIONAL | Disposition.ACTIVE, EventType.RETRACTED):
            return Disposition.RETRACTED
        case (Disposition.ACTIVE | Disposition.CONTESTED, EventType.SUPERSEDED):
            return Disposition.SUPERSEDED
        case _:
            state = "not started" if current is None else current.value
            raise IllegalTransitionError("disposition", f"{state} -> {event.value}", "See the arrows of the lifecycle.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleFact:
    """What the fold needs of one lifecycle event.

    Attributes:
        scope_variant_id: whose chain the event belongs to.
        event_id: the event's own id.
        expected_prior: id of the event it consumes, or GENESIS.
        event_type: what happened.
        resulting_disposition: the disposition that the event claims to lead to.
        memory_id: the record it happened to.
    """

    scope_variant_id: str
    event_id: str
    expected_prior: str
    event_type: EventType
    resulting_disposition: Disposition
    memory_id: str

    @classmethod
    def of(cls, event: LifecycleEvent) -> LifecycleFact:
        """Return what the fold needs of a stored event."""
        return cls(
            scope_variant_id=event.scope_variant_id,
            event_id=event.id,
            expected_prior=event.expected_prior,
            event_type=event.event_type,
            resulting_disposition=event.disposition,
            memory_id=event.memory_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleHead:
    """Where a scope variant stands: its last event, the record that is about, and how many events led there."""

    scope_variant_id: str
    event_id: str
    memory_id: str
    disposition: Disposition
    length: int


def fold(events: Iterable[LifecycleFact]) -> dict[str, LifecycleHead]:
    """Return the head of every scope variant, in the order of their ids; the order of the events does not count.

    Raises:
        IntegrityError: a fork, a gap, a cycle, an event id with two contents, a record that comes back, or a claimed
            disposition that does not follow.
        IllegalTransitionError: an event has no arrow from where its chain stood.
    """
    by_id: dict[str, LifecycleFact] = {}
    for event in events:
        if by_id.setdefault(event.event_id, event) != event:
            raise IntegrityError("event_id", event.event_id, "One event id has one content; run fsck on the ledger.")
    chains: dict[str, list[LifecycleFact]] = defaultdict(list)
    for event in by_id.values():
        chains[event.scope_variant_id].append(event)
    return {scope: _fold_chain(scope, chains[scope]) for scope in sorted(chains)}


def advance(head: LifecycleHead | None, event: LifecycleFact) -> LifecycleHead:
    """Return the head after one more event; `fold` is this, along the chain.

    Raises:
        IntegrityError: the event does not consume this head, or claims a disposition that does not follow.
        IllegalTransitionError: there is no such arrow, or the event is about another record than the head's.
    """
    if event.expected_prior != (GENESIS if head is None else head.event_id):
        raise IntegrityError("expected_prior", event.expected_prior, "An event consumes the head of its scope variant.")
    starts = event.event_type in _STARTS
    current = None if head is None or (starts and head.disposition in ENDED) else head.disposition
    disposition = next_disposition(current, event.event_type)
    if disposition is not event.resulting_disposition:
        raise IntegrityError(
            "resulting_disposition", event.resulting_disposition.value, f"This event leads to {disposition.value}."
        )
    if head is not None and not _about_the_right_record(head, event):
        raise IllegalTransitionError(
            "memory_id", event.memory_id, f"{event.event_type.value} cannot follow an event of {head.memory_id} here."
        )
    return LifecycleHead(
        scope_variant_id=event.scope_variant_id,
        event_id=event.event_id,
        memory_id=event.memory_id,
        disposition=disposition,
        length=1 if head is None else head.length + 1,
    )


class Opening(PolicyPart):
    """Which decision starts a record, and with which grades.

    Attributes:
        decision: the promoting decision; the event that starts the record has the same name.
        grades: evidence-strength grades that the decision is legal with.
    """

    decision: Literal[DecisionKind.PROMOTED_PROVISIONAL, DecisionKind.PROMOTED_ACTIVE, DecisionKind.PROMOTED_CONTESTED]
    grades: Annotated[tuple[Grade, ...], Field(min_length=1)]


class LifecyclePolicy(Policy):
    """One version of the policy.

    Attributes:
        arrows: which table of arrows rules; named, so that a change of the table changes the digest.
        openings: one entry per promoting decision. A decision without an entry starts nothing.
    """

    arrows: Literal["lifecycle-arrows/v1"]
    openings: tuple[Opening, ...]

    @model_validator(mode="after")
    def _one_opening_each(self) -> LifecyclePolicy:
        decisions = [opening.decision for opening in self.openings]
        if len(set(decisions)) != len(decisions):
            raise ValueError("name each promoting decision once")
        return self

    def permits(self, decision: DecisionKind, grade: Grade) -> bool:
        """Tell whether a decision is legal for evidence of this grade; one that promotes nothing always is."""
        if decision in _NOTHING:
            return True
        return any(opening.decision is decision and grade in opening.grades for opening in self.openings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """One lifecycle event to append, in order; each consumes the one before it, the first consumes the head."""

    event_type: EventType
    resulting_disposition: Disposition
    memory_id: str


def lifecycle_policy(version: str = "1") -> LifecyclePolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(LifecyclePolicy, "lifecycle", version)


def plan_events(
    policy: LifecyclePolicy, head: LifecycleHead | None, decision: DecisionKind, grade: Grade, memory_id: str
) -> tuple[PlannedEvent, ...]:
    """Return the events that carry out a decision on a scope variant; none for a decision that promotes nothing.

    A live record makes room first: active and contested are superseded. A provisional one has no such arrow: it turns
    active by added support, and any other replacement retracts it, with the replacement's evidence as the reason.

    Raises:
        IllegalTransitionError: the policy does not permit the decision with this grade, or the record is the head's.
    """
    if not policy.permits(decision, grade):
        raise IllegalTransitionError("decision", f"{decision.value} with {grade.value}", "The policy permits no such.")
    if decision in _NOTHING:
        return ()
    starts = EventType(decision.value)
    if head is not None and head.memory_id == memory_id:
        raise IllegalTransitionError("memory_id", memory_id, "Changed evidence makes a new record.")
    if head is None or head.disposition in ENDED:
        return (_planned(None, starts, memory_id),)
    if head.disposition is Disposition.PROVISIONAL:
        if starts is EventType.PROMOTED_ACTIVE:
            return (_planned(head.disposition, EventType.ACTIVATED, memory_id),)
        ending = EventType.RETRACTED
    else:
        ending = EventType.SUPERSEDED
    return (_planned(head.disposition, ending, head.memory_id), _planned(None, starts, memory_id))


def _planned(current: Disposition | None, event: EventType, memory_id: str) -> PlannedEvent:
    return PlannedEvent(event_type=event, resulting_disposition=next_disposition(current, event), memory_id=memory_id)


def _about_the_right_record(head: LifecycleHead, event: LifecycleFact) -> bool:
    if event.event_type in _STARTS:
        return event.memory_id != head.memory_id
    return event.event_type is EventType.ACTIVATED or event.memory_id == head.memory_id


def _fold_chain(scope: str, events: list[LifecycleFact]) -> LifecycleHead:
    following: dict[str, LifecycleFact] = {}
    for event in events:
        rival = following.setdefault(event.expected_prior, event)
        if rival is not event:
            raise IntegrityError(scope, f"{rival.event_id}, {event.event_id}", "Two events consume one head: a fork.")
    head: LifecycleHead | None = None
    left: set[str] = set()
    while (step := following.get(GENESIS if head is None else head.event_id)) is not None:
        if step.memory_id in left:
            raise IntegrityError(scope, step.memory_id, "A record that has left the chain never comes back.")
        moved = advance(head, step)
        if head is not None and head.memory_id != moved.memory_id:
            left.add(head.memory_id)
        head = moved
    if head is None or head.length != len(events):
        reached = 0 if head is None else head.length
        raise IntegrityError(scope, f"{reached} of {len(events)} events reached", "An earlier event is missing: a gap.")
    return head
