"""Where the distillation work of a namespace stands, read from the stores (spec 4.14, 8.1).

Rules kept here:

- completions are read before assignments and these before items, so that what is ended is never shown without what it
  ended, however much is written meanwhile;
- an item is worked on under the policies and the profile that it pins, whatever is configured since it was queued.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from records.evidence import Attempt, Experience
from records.ids import RunId
from records.ingestion import ExperienceReceipt, WorkAssignment, WorkCompletion, WorkItem
from records.values import CampaignProfile, PolicyIdentity
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

Waiting = tuple[WorkItem, WorkAssignment]
"""An item that is assigned and not ended."""


class Work(NamedTuple):
    """One item, with its assignment and its end as far as it has them."""

    item: WorkItem
    assignment: WorkAssignment | None
    completion: WorkCompletion | None


class Pinned(NamedTuple):
    """What an item was queued under: both policies, and the digest of its campaign profile."""

    distillation: PolicyIdentity
    lifecycle: PolicyIdentity
    profile_digest: str

    @classmethod
    def of(cls, item: WorkItem) -> Pinned:
        """Return what an item pins."""
        return cls(item.distillation_policy, item.lifecycle_policy, item.campaign_profile_digest)


def work_of(ledger: LedgerReader, namespace: str) -> list[Work]:
    """Return every item of a namespace, in journal order."""
    ended = [stored.load() for stored in ledger.find("distillation-work-completion", namespace)]
    assigned = [stored.load() for stored in ledger.find("distillation-work-assignment", namespace)]
    completions = {str(each.work_item_id): each for each in ended if isinstance(each, WorkCompletion)}
    assignments = {str(each.work_item_id): each for each in assigned if isinstance(each, WorkAssignment)}
    loaded = (stored.load() for stored in ledger.find("distillation-work-item", namespace))
    return [
        Work(item, assignments.get(item.id), completions.get(item.id)) for item in loaded if isinstance(item, WorkItem)
    ]


def unassigned(work: Iterable[Work]) -> list[WorkItem]:
    """Return the items that have no campaign yet."""
    return [each.item for each in work if each.assignment is None]


def waiting(work: Iterable[Work]) -> list[Waiting]:
    """Return the items that have a campaign and no end."""
    return [(each.item, each.assignment) for each in work if each.assignment and each.completion is None]


def by_pinned(found: Iterable[Waiting]) -> dict[Pinned, list[Waiting]]:
    """Group items by what they pin; groups and items stay in the order in which they come."""
    groups: dict[Pinned, list[Waiting]] = {}
    for each in found:
        groups.setdefault(Pinned.of(each[0]), []).append(each)
    return groups


def unreceipted_runs(ledger: LedgerReader, namespace: str) -> list[RunId]:
    """Return the source Runs of Experiences that have no receipt, in the order of their first one."""
    given = (stored.load() for stored in ledger.find("distillation-receipt", namespace))
    receipted = {str(each.experience_id) for each in given if isinstance(each, ExperienceReceipt)}
    loaded = (stored.load() for stored in ledger.find("experience", namespace))
    missing = [each for each in loaded if isinstance(each, Experience) and each.id not in receipted]
    attempts = ledger.get_many(str(each.attempt_id) for each in missing)
    made = (attempts[each.attempt_id].load() for each in missing if each.attempt_id in attempts)
    return list(dict.fromkeys(each.run_id for each in made if isinstance(each, Attempt)))


def pinned_profile(artifacts: ArtifactStore, item: WorkItem) -> CampaignProfile:
    """Return the profile that an item pins, as its bytes say; the item's handoff holds them.

    Raises:
        NotFoundError: the bytes are missing.
        IntegrityError: the bytes were changed.
    """
    return CampaignProfile.load(artifacts.read(item.campaign_profile_digest))
