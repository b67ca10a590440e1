"""The lifecycle heads of a group of proposals: as many of them as can be had (spec 8.1; docs/adr/0036).

Rules kept here:

- the heads of a group are asked for at once. Where that fails each proposal asks for its own, so that a head which
  cannot be had holds back those alone that touch it;
- who rests on what a proposal held back was to commit touches its head as well: it is held back too, granted nothing;
- whatever was taken is let go of at the end of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from memory.heads import Reservation
from memory.ports import Fence
from records.appends import Proposal
from records.base import Record
from records.canonical import digest_bytes
from records.errors import VrmError
from records.ingestion import Report
from records.knowledge import DistillationDecision, GovernedRecord, LifecycleEvent, MemoryRelation

Unpacked = Sequence[tuple[Record, ...]]
"""The records of each proposal of a group."""


class HeadsPort(Protocol):
    """Who owns the lifecycle heads."""

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        """Take the variants of a plan's events; one reservation per host."""

    def release(self, plan: str) -> None:
        """Let go of a plan's variants."""


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """What came of asking for heads.

    Attributes:
        fences: the epochs of the hosts that gave them, which must hold when the group commits.
        refused: why proposals are held back, by their place in the group.
    """

    fences: tuple[Fence, ...] = ()
    refused: Mapping[int, VrmError] = field(default_factory=dict)


@contextmanager
def reserving(heads: HeadsPort, namespace: str, proposals: Sequence[Proposal]) -> Iterator[Reserved]:
    """Hold the heads that proposals touch for the length of a block."""
    plans = _Plans(heads, namespace)
    group = digest_bytes(b"".join(proposal.canonical for proposal in proposals))
    try:
        yield _reserved(plans, group, [proposal.unpack() for proposal in proposals])
    finally:
        plans.let_go()


class _Plans:
    """The plans under which something may be held."""

    def __init__(self, heads: HeadsPort, namespace: str) -> None:
        self._heads, self._namespace = heads, namespace
        self._taken: list[str] = []

    def take(self, plan: str, events: Sequence[LifecycleEvent]) -> set[Fence]:
        self._taken.append(plan)  # noted first: one host may give its share before another one refuses
        return {given.fence for given in self._heads.reserve(self._namespace, plan, events)}

    def let_go(self) -> None:
        while self._taken:
            self._heads.release(self._taken.pop())


def _reserved(plans: _Plans, group: str, unpacked: Unpacked) -> Reserved:
    events = ([each for each in records if isinstance(each, LifecycleEvent)] for records in unpacked)
    touching = {place: found for place, found in enumerate(events) if found}
    if not touching:
        return Reserved()
    try:
        return Reserved(fences=tuple(sorted(plans.take(group, [each for own in touching.values() for each in own]))))
    except VrmError:
        plans.let_go()
    fences: set[Fence] = set()
    refused: dict[int, VrmError] = {}
    for place, own in touching.items():
        try:
            fences |= plans.take(f"{group}/{place}", own)
        except VrmError as error:
            refused[place] = error
    return Reserved(fences=tuple(sorted(fences)), refused=_held_back(unpacked, refused))


def _held_back(unpacked: Unpacked, refused: Mapping[int, VrmError]) -> dict[int, VrmError]:
    """Return the refused with all that rest on them, each with the error of the one that it rests on."""
    made, named = [set(_made(records)) for records in unpacked], [set(_named(records)) for records in unpacked]
    held, fresh = dict(refused), list(refused.items())
    while fresh:
        place, error = fresh.pop()
        resting = [other for other, names in enumerate(named) if other not in held and names & made[place]]
        held |= dict.fromkeys(resting, error)
        fresh += [(other, error) for other in resting]
    return held


def _made(records: Iterable[Record]) -> Iterator[str]:
    return (str(each.id) for each in records if isinstance(each, DistillationDecision | GovernedRecord))


def _named(records: Iterable[Record]) -> Iterator[str]:
    for each in records:
        if isinstance(each, Report):
            yield from map(str, each.decision_ids)
        elif isinstance(each, MemoryRelation):
            yield str(each.target_memory_id)
