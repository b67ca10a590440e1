"""Campaigns of distillation work: their manifest, their Run, and the proof behind an assignment (spec 4.14, 8.1).

Rules kept here:

- a campaign is a pure expansion of its work item and the profile that the item pins: manifest, Run, Activity and
  assignment follow from these two, so whoever projects an item comes to the same ids;
- an assignment that is not in the Ledger yet is appended only for an Activity that waits for it, in a Run that was
  admitted for this very item with this very manifest, as the Runtime and its artifacts say at that moment. One that is
  there is a replay, whatever became of the Activity since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from memory.leases import envelope, running
from records.appends import Append, StoredRecord
from records.canonical import canonical_bytes, digest_bytes, parse_canonical
from records.control import BudgetLimit
from records.errors import IntegrityError, NotFoundError, StaleError, VrmError
from records.flows import Transition
from records.ids import ManifestId, RunId, WorkItemId
from records.ingestion import WorkAssignment, WorkItem
from records.runtime import Command, Create, Move, RunBody, Subject, activity_id
from records.states import Event, Machine, Phase, ends_of
from records.values import CampaignProfile
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

CAMPAIGN: Final = "MEMORY_DISTILLATION"
SLOT: Final = "distil"


def manifest(item: WorkItem, profile: CampaignProfile) -> bytes:
    """Return the manifest of an item's campaign, which holds exactly this item."""
    return canonical_bytes(
        {
            "namespace": item.namespace,
            "work_item_id": item.id,
            "work_item_digest": item.payload_digest,
            "distillation_policy": item.distillation_policy.as_json(),
            "lifecycle_policy": item.lifecycle_policy.as_json(),
            "profile": profile.as_json(),
        }
    )


def campaign_run(item: WorkItem, profile: CampaignProfile) -> RunBody:
    """Return the specification of an item's campaign; its admission key is the item."""
    return RunBody(
        namespace=item.namespace,
        run_kind=CAMPAIGN,
        admission_key=str(item.id),
        specification_digest=digest_bytes(manifest(item, profile)),
        admitted_at=item.created_at,
    )


def campaign_id(namespace: str, work_item_id: str) -> RunId:
    """Return the id of an item's campaign."""
    return RunId.derive({"namespace": namespace, "run_kind": CAMPAIGN, "admission_key": work_item_id})


def assignment_to(run: RunBody, created_at: str) -> WorkAssignment:
    """Return the one assignment of a campaign; `created_at` is its item's."""
    return WorkAssignment(
        namespace=run.namespace,
        created_at=created_at,
        work_item_id=WorkItemId.check(run.admission_key),
        manifest_id=ManifestId.derive({"digest": run.specification_digest}),
        run_id=run.id,
        activity_id=activity_id(run.id, SLOT),
    )


def assigning(run: RunBody, created_at: str) -> Append:
    """Return the append of a campaign's assignment."""
    return Append.direct(Transition.ASSIGN_WORK, f"assign/{run.admission_key}", (assignment_to(run, created_at),))


def campaign_admission(run: RunBody, budget: Iterable[BudgetLimit] = ()) -> Command:
    """Admit a campaign with its budget and its one Activity, which nobody can lease before it is assigned."""
    body = canonical_bytes({"work_item_id": run.admission_key}).decode()
    return Command(
        key=(Machine.RUN, run.id),
        creates=(
            Create(
                machine=Machine.RUN,
                id=run.id,
                run_id=run.id,
                phase=Phase.RUNNING,
                body=run.canonical.decode(),
                facts=envelope(budget),
            ),
            Create(
                machine=Machine.ACTIVITY,
                id=activity_id(run.id, SLOT),
                run_id=run.id,
                phase=Phase.AWAITING_ASSIGNMENT,
                body=body,
            ),
        ),
    )


def activation(run_id: RunId) -> Command:
    """Bind a campaign's Activity to its assignment, if the Run is running; again it is a replay."""
    activity = activity_id(run_id, SLOT)
    return Command(
        key=(Machine.ACTIVITY, activity),
        key_phase=Phase.READY,
        requires=(running(run_id),),
        moves=(Move(machine=Machine.ACTIVITY, id=activity, event=Event.ASSIGN, generation=1, fence=1),),
    )


def unproved(
    ledger: LedgerReader, runtime: RuntimeReader, artifacts: ArtifactStore, assignments: Sequence[WorkAssignment]
) -> dict[str, VrmError]:
    """Return by id what keeps an assignment that is not in the Ledger yet from being appended now.

    The errors say: Run, Activity, item or manifest is not there; the Run was admitted for another item or manifest, or
    the assignment is not the Run's; the Run is over, or its Activity does not wait for an assignment.
    """
    known = ledger.get_many([each.id for each in assignments]) if assignments else {}
    fresh = [each for each in assignments if each.id not in known]
    if not fresh:
        return {}
    items = ledger.get_many([each.work_item_id for each in fresh])
    runs = runtime.subjects(Machine.RUN, [each.run_id for each in fresh])
    activities = runtime.subjects(Machine.ACTIVITY, [each.activity_id for each in fresh])
    errors: dict[str, VrmError] = {}
    for each in fresh:
        try:
            run = _campaign(runs.get(each.run_id), each)
            _require_manifest(items.get(each.work_item_id), artifacts, each, run)
            _require_waiting(activities.get(each.activity_id), each.run_id)
        except VrmError as error:
            errors[str(each.id)] = error
    # What another projector appended since was read as missing, and its Activity is past waiting for that very reason.
    made = ledger.get_many(errors) if errors else {}
    return {key: error for key, error in errors.items() if key not in made}


def _campaign(subject: Subject | None, assignment: WorkAssignment) -> RunBody:
    if subject is None:
        raise NotFoundError("run", assignment.run_id, "It was never admitted; admit the campaign first.")
    if subject.phase in ends_of(Machine.RUN):
        raise StaleError("run.phase", subject.phase.value, "The campaign is over; nothing is assigned to it.")
    run = RunBody.load(subject.body)
    if run.run_kind != CAMPAIGN or assignment != assignment_to(run, assignment.created_at):
        raise IntegrityError("assignment", assignment.id, f"It is not the assignment of {run.id}.")
    return run


def _require_manifest(
    stored: StoredRecord | None, artifacts: ArtifactStore, assignment: WorkAssignment, run: RunBody
) -> None:
    item = None if stored is None else stored.load()
    if not isinstance(item, WorkItem):
        raise NotFoundError("work item", assignment.work_item_id, "It is not in the Ledger.")
    data = artifacts.read(run.specification_digest)
    profile = CampaignProfile.build(**parse_canonical(data).get("profile", {}))
    pinned = (profile.id, profile.canonical_digest)
    if pinned != (item.campaign_profile_id, item.campaign_profile_digest) or manifest(item, profile) != data:
        raise IntegrityError("manifest", run.specification_digest, "It is not the expansion of the item's profile.")
    if assignment.created_at != item.created_at:
        raise IntegrityError("assignment.created_at", assignment.created_at, f"The item says {item.created_at}.")


def _require_waiting(activity: Subject | None, run_id: RunId) -> None:
    if activity is None or activity.run_id != run_id:
        raise NotFoundError("activity", run_id, "The campaign has no such Activity.")
    if activity.phase is not Phase.AWAITING_ASSIGNMENT:
        raise StaleError("activity.phase", activity.phase.value, "Only an Activity that waits for it is assigned.")
