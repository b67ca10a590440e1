"""Whether a campaign is whole in Ledger and Runtime, and how it ends (spec 8.1, VRM-W09).

Rules kept here:

- every assignment and completion that names the Run is read, whatever its status, so that a foreign one shows; the
  manifest holds one item, which is the Run's admission key;
- its Activity says what the completion says: COMMITTED completed, FAILED dead letter, CANCELLED cancelled;
- the predicates of the end are disjoint and ordered: a dead letter, then all completed, then something cancelled; a
  failure that took over says so and changes no completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from records.canonical import domain_digest
from records.control import CampaignEnd, CoverageRef
from records.errors import IntegrityWaitError, StaleError
from records.ingestion import CompletionStatus, WorkAssignment, WorkCompletion
from records.runtime import RunBody, Subject
from records.states import Event, Phase
from store.ledger.port import LedgerReader

_SAYS: Final = {
    Phase.COMMITTED: CompletionStatus.COMPLETED,
    Phase.FAILED: CompletionStatus.DEAD_LETTER,
    Phase.CANCELLED: CompletionStatus.CANCELLED,
}
"""What a completion must say for each phase in which an Activity of a campaign is over."""


@dataclass(frozen=True)
class CampaignCoverage:
    """What the Ledger holds of one campaign at one moment, in order of ids."""

    frontier: int
    assignments: tuple[WorkAssignment, ...] = ()
    completions: tuple[WorkCompletion, ...] = ()

    @property
    def ref(self) -> CoverageRef:
        """Frontier, and digest over every assignment and completion with its status."""
        slots = [[each.id, each.payload_digest] for each in self.assignments]
        ends = [[each.id, each.payload_digest, each.status.value] for each in self.completions]
        return CoverageRef(frontier=self.frontier, digest=domain_digest("campaign-coverage", [slots, ends]))


def campaign_coverage(reader: LedgerReader, namespace: str, run_ids: Sequence[str]) -> dict[str, CampaignCoverage]:
    """Read what the Ledger holds of some campaigns of a namespace, by Run; `reader` is of one moment."""
    frontier = reader.namespace_head(namespace).position
    wanted = sorted(run_ids)
    assigned = [each.load() for each in reader.find("distillation-work-assignment", namespace, run_id=wanted)]
    ended = [each.load() for each in reader.find("distillation-work-completion", namespace, run_id=wanted)]
    return {
        run_id: CampaignCoverage(
            frontier,
            tuple(sorted((a for a in assigned if isinstance(a, WorkAssignment) and a.run_id == run_id), key=_by_id)),
            tuple(sorted((c for c in ended if isinstance(c, WorkCompletion) and c.run_id == run_id), key=_by_id)),
        )
        for run_id in wanted
    }


def campaign_end(run: Subject, found: CampaignCoverage, activities: Sequence[Subject]) -> tuple[Event, CampaignEnd]:
    """Compare Ledger, manifest and Activities of a campaign; return the last event of its Run, and why.

    Raises:
        StaleError: its item is not ended yet.
        IntegrityWaitError: one side has what the other has not.
    """
    item = RunBody.load(run.body).admission_key
    for subject in activities:
        if subject.phase not in _SAYS:
            raise StaleError("run", f"activity {subject.id} {subject.phase}", "Close it before the campaign ends.")
    if len(activities) != 1 or len(found.assignments) != 1 or len(found.completions) != 1:
        raise IntegrityWaitError("coverage", run.id, "A campaign has one Activity, one assignment, one completion.")
    (activity,), (assignment,), (completion,) = activities, found.assignments, found.completions
    named = {(assignment.work_item_id, assignment.activity_id), (completion.work_item_id, completion.activity_id)}
    if named != {(item, activity.id)}:
        raise IntegrityWaitError("coverage", run.id, f"Its manifest holds {item} alone, for its one Activity.")
    if completion.status is not _SAYS[activity.phase]:
        raise IntegrityWaitError(
            "coverage", activity.id, f"It is {activity.phase}, the Ledger has {completion.status}."
        )
    return _end(completion.status, failed=run.phase is Phase.FAILING)


def _end(status: CompletionStatus, *, failed: bool) -> tuple[Event, CampaignEnd]:
    match status:
        case CompletionStatus.DEAD_LETTER:
            return Event.FAILED, CampaignEnd.DEAD_LETTER_PRESENT
        case CompletionStatus.COMPLETED if failed:
            return Event.FAILED, CampaignEnd.RUNTIME_FAILURE_AFTER_WORK
        case CompletionStatus.COMPLETED:
            return Event.COMPLETE, CampaignEnd.ALL_COMPLETED
        case CompletionStatus.CANCELLED if failed:
            return Event.FAILED, CampaignEnd.RUNTIME_FAILURE_AFTER_CLOSURE
        case CompletionStatus.CANCELLED:
            return Event.CANCELLED, CampaignEnd.CANCELLED


def _by_id(record: WorkAssignment | WorkCompletion) -> str:
    return str(record.id)
