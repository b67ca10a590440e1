"""When the profile bytes of a work item need no longer be held (spec 8.1, VRM-W09).

Rules kept here:

- a bound handoff and its reference are released in one step, and only when all of this is so: the source Run has ended,
  which it does on BOUND and ACTIVE alone; the item has its terminal completion; the campaign's Run has ended; and the
  campaign is kept no longer, or somebody else holds the same bytes by an ACTIVE reference of their own;
- the end of the source Run is a condition and never a reason: nothing is released because of it;
- an abandoned handoff has its receipt read back before it is called so, and nothing else to wait for;
- the decision is pure: everything it needs is read before and handed in, the time included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from memory.derive import WORK_ITEM_OWNER
from policies.retention import kept_for_days
from records.canonical import parse_canonical
from records.errors import InvalidInputError, NotFoundError, StaleError
from records.handoffs import HandoffBody
from records.ids import HandoffId
from records.ingestion import WorkAssignment, WorkCompletion
from records.runtime import Command, Move, Require, Subject, reference_id
from records.states import Event, Machine, Phase, ends_of
from records.values import CampaignProfile
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader


@dataclass(frozen=True)
class RetentionEnded:
    """The campaign is kept for so many days after its completion."""

    days: int

    def __post_init__(self) -> None:
        """Refuse a period that ends before it begins."""
        if self.days < 0:
            raise InvalidInputError("retention days", self.days, "Give zero or more days.")


@dataclass(frozen=True)
class HeldElsewhere:
    """Somebody else, who is no work item, answers for the same bytes, by a reference of this owner."""

    owner: str


Ground = RetentionEnded | HeldElsewhere
"""Why bytes may be let go; what policy puts in."""


@dataclass(frozen=True)
class Release:
    """A handoff to be released, and on what ground."""

    handoff_id: HandoffId
    ground: Ground


class Kept(StrEnum):
    """Why a handoff is not released."""

    NOT_BOUND = "the handoff is neither bound nor abandoned"
    REFERENCE_GONE = "its reference is not active"
    SOURCE_RUN_OPEN = "the source Run has not ended"
    NO_COMPLETION = "the work item has no terminal completion"
    CAMPAIGN_RUN_OPEN = "the campaign's Run has not ended"
    RETAINED = "the campaign is still kept"
    NOT_HELD_ELSEWHERE = "nobody else holds the bytes"


@dataclass(frozen=True, kw_only=True)
class Holding:
    """All that a release depends on, as it was read.

    Attributes:
        handoff: the handoff.
        reference: the reference by which its item holds the profile bytes.
        source_run: the Run that the handoff belongs to.
        completion: the completion of the item, if it has one.
        campaign_run: the Run of the campaign, if the item was assigned to one.
        elsewhere: the reference of another owner to the same bytes, if the ground names one that exists.
    """

    handoff: Subject
    reference: Subject | None
    source_run: Subject | None
    completion: WorkCompletion | None
    campaign_run: Subject | None
    elsewhere: Subject | None


def is_of_a_work_item(reference: Subject) -> bool:
    """Tell whether a reference holds the profile bytes of a work item, so that only its handoff's release ends it."""
    return str(parse_canonical(reference.body).get("owner", "")).startswith(WORK_ITEM_OWNER)


def ground_of(profile: CampaignProfile) -> RetentionEnded | None:
    """Return the ground that a campaign's own profile gives; None if it is kept for good."""
    days = kept_for_days(profile.retention)
    return None if days is None else RetentionEnded(days)


def read_holding(runtime: RuntimeReader, ledger: LedgerReader, release: Release) -> Holding:
    """Read what a release depends on.

    Raises:
        NotFoundError: there is no such handoff.
    """
    found = read_holdings(runtime, ledger, [release])
    if release.handoff_id not in found:
        raise NotFoundError("handoff", release.handoff_id, "It was never opened.")
    return found[release.handoff_id]


def read_holdings(
    runtime: RuntimeReader, ledger: LedgerReader, releases: Sequence[Release]
) -> dict[HandoffId, Holding]:
    """Read what some releases depend on, together; a handoff that was never opened is left out."""
    handoffs = runtime.subjects(Machine.HANDOFF, [release.handoff_id for release in releases])
    bodies = {key: HandoffBody.load(handoff.body) for key, handoff in handoffs.items()}
    references = runtime.subjects(Machine.REFERENCE, {body.reference_id for body in bodies.values()})
    done: dict[str, WorkCompletion] = {}
    campaign_of: dict[str, str] = {}
    for namespace in sorted({body.namespace for body in bodies.values()}):
        work = {"work_item_id": sorted(body.work_item_id for body in bodies.values() if body.namespace == namespace)}
        for each in ledger.find("distillation-work-completion", namespace, **work):
            if isinstance(completion := each.load(), WorkCompletion):
                done[completion.work_item_id] = completion
        for each in ledger.find("distillation-work-assignment", namespace, **work):
            if isinstance(assigned := each.load(), WorkAssignment):
                campaign_of[assigned.work_item_id] = assigned.run_id
    wanted = {str(handoff.run_id) for handoff in handoffs.values() if handoff.run_id}
    runs = runtime.subjects(Machine.RUN, wanted.union(campaign_of.values()))
    holdings = {}
    for release in releases:
        if release.handoff_id not in handoffs:
            continue
        handoff, body = handoffs[release.handoff_id], bodies[release.handoff_id]
        reference = references.get(body.reference_id)
        holdings[release.handoff_id] = Holding(
            handoff=handoff,
            reference=reference,
            source_run=runs.get(str(handoff.run_id)),
            completion=done.get(body.work_item_id),
            campaign_run=runs.get(campaign_of.get(body.work_item_id, "")),
            elsewhere=_elsewhere(runtime, reference, release.ground),
        )
    return holdings


def _elsewhere(runtime: RuntimeReader, reference: Subject | None, ground: Ground) -> Subject | None:
    if reference is None or not isinstance(ground, HeldElsewhere):
        return None
    digest = parse_canonical(reference.body)["digest"]
    found = runtime.subject(Machine.REFERENCE, reference_id(ground.owner, digest))
    return None if found is None or is_of_a_work_item(found) else found


def release_decision(holding: Holding, ground: Ground, now: str) -> Command | Kept:
    """Return the command that releases handoff and reference, or the first reason why they are kept.

    A handoff that is released already gets the same command again, which is a replay.
    """
    kept = _kept(holding, ground, now)
    if kept is not None or holding.reference is None:
        return kept or Kept.REFERENCE_GONE
    witness = () if holding.elsewhere is None else (Require.of(holding.elsewhere),)
    return Command(
        key=(Machine.HANDOFF, holding.handoff.id),
        key_phase=Phase.RELEASED,
        requires=witness,
        moves=(Move.of(holding.handoff, Event.RELEASE), Move.of(holding.reference, Event.RELEASE)),
    )


def require_released(decided: Command | Kept, handoff_id: str) -> Command:
    """Return the command of a decision.

    Raises:
        StaleError: the decision was to keep; it says why.
    """
    if isinstance(decided, Kept):
        raise StaleError("release", handoff_id, f"It stays: {decided}.")
    return decided


def _kept(holding: Holding, ground: Ground, now: str) -> Kept | None:
    """Return the first condition of the specification that does not hold."""
    if holding.handoff.phase is Phase.RELEASED:
        return None
    return next((kept for holds, kept in _conditions(holding, ground, now) if not holds), None)


def _conditions(holding: Holding, ground: Ground, now: str) -> Iterator[tuple[bool, Kept]]:
    yield holding.handoff.phase in {Phase.BOUND, Phase.ABANDONED}, Kept.NOT_BOUND
    yield holding.reference is not None and holding.reference.phase is Phase.ACTIVE, Kept.REFERENCE_GONE
    if holding.handoff.phase is Phase.ABANDONED:
        return
    yield _has_ended(holding.source_run), Kept.SOURCE_RUN_OPEN
    yield holding.completion is not None, Kept.NO_COMPLETION
    yield _has_ended(holding.campaign_run), Kept.CAMPAIGN_RUN_OPEN
    if isinstance(ground, HeldElsewhere):
        yield holding.elsewhere is not None and holding.elsewhere.phase is Phase.ACTIVE, Kept.NOT_HELD_ELSEWHERE
    elif holding.completion is not None:
        until = datetime.fromisoformat(holding.completion.created_at) + timedelta(days=ground.days)
        yield datetime.fromisoformat(now) >= until, Kept.RETAINED


def _has_ended(run: Subject | None) -> bool:
    return run is not None and run.phase in ends_of(Machine.RUN)
