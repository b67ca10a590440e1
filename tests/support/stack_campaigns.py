"""One campaign over a `Stack`, taken to any phase of its Activity and left there."""

from __future__ import annotations

from dataclasses import dataclass

from memory.assignments import SLOT, assigning, campaign_admission, campaign_run, manifest
from memory.distillation.distiller import DistillationRequest
from memory.leases import leases
from memory.ports import all_good
from records.appends import Proposal
from records.control import RunFacts
from records.ids import RunId
from records.ingestion import WorkAssignment, WorkCompletion, WorkItem
from records.runtime import Authorization, Subject, activity_id
from records.states import Machine, Phase
from tests.support.samples import PROFILE
from tests.support.stack import Stack, effects, quiet
from tests.support.stores import expect

UNASSIGNED = "unassigned"
"""The Activity waits, and the Ledger has no assignment of it."""


@dataclass
class Campaign:
    """The campaign of one queued item.

    Attributes:
        proposal: what a worker proposed, from RUNNING on.
        granted: the grant of it, in COMMITTING.
    """

    stack: Stack
    proposal: Proposal | None = None
    granted: Authorization | None = None

    @property
    def item(self) -> WorkItem:
        """The item."""
        (item,) = self.stack.load("distillation-work-item")
        return expect(WorkItem, item)  # type: ignore[no-any-return]

    @property
    def run_id(self) -> RunId:
        """The campaign's Run."""
        return campaign_run(self.item, PROFILE).id

    @property
    def run(self) -> Subject:
        """The campaign's Run as it stands."""
        return expect(Subject, self.stack.stores.runtime.subject(Machine.RUN, self.run_id))  # type: ignore[no-any-return]

    @property
    def facts(self) -> RunFacts:
        """What the Run keeps."""
        return RunFacts.load(self.run.facts)

    @property
    def activity(self) -> Subject:
        """The campaign's Activity as it stands."""
        found = self.stack.stores.runtime.subject(Machine.ACTIVITY, str(activity_id(self.run_id, SLOT)))
        return expect(Subject, found)  # type: ignore[no-any-return]

    @property
    def completions(self) -> list[WorkCompletion]:
        """Every completion in the Ledger."""
        return self.stack.load("distillation-work-completion")

    def assignment(self) -> WorkAssignment:
        """Return the item's assignment."""
        (found,) = self.stack.load("distillation-work-assignment")
        return expect(WorkAssignment, found)  # type: ignore[no-any-return]


def campaign(stack: Stack, at: Phase | str) -> Campaign:
    """Queue one Experience and take its campaign to a phase."""
    source = stack.admit("source")
    stack.evidence(effects(stack, "source", {"a": 0.05})[:1])
    assert not stack.campaigns.ingest(source, quiet)
    made = Campaign(stack)
    if at in {UNASSIGNED, Phase.AWAITING_ASSIGNMENT}:
        run = campaign_run(made.item, PROFILE)
        stack.stores.artifacts.publish(manifest(made.item, PROFILE))
        all_good(stack.owner.apply([campaign_admission(run)]))
        if at is Phase.AWAITING_ASSIGNMENT:
            all_good(stack.spine.direct([assigning(run, made.item.created_at)]))
        return made
    assert not stack.campaigns.project(quiet)
    if at is not Phase.READY:
        _work(made, begin=at is not Phase.LEASED)
    if at is Phase.COMMITTING:
        assert made.proposal is not None
        (granted,) = stack.owner.grant([stack.stores.artifacts.publish(made.proposal.canonical)])
        made.granted = expect(Authorization, granted)
    return made


def lease(made: Campaign, *, begin: bool = True) -> Subject:
    """Lease the Activity, and begin it."""
    (command,) = leases([made.activity])
    moves = command.moves if begin else command.moves[:-1]
    all_good(made.stack.owner.apply([command.model_copy(update={"moves": moves})]))
    return made.activity


def _work(made: Campaign, *, begin: bool) -> None:
    stack = made.stack
    activity = lease(made, begin=begin)
    if begin:
        request = DistillationRequest(
            item=made.item, assignment=made.assignment(), activity=activity, snapshot_id=stack.capture()
        )
        (made.proposal,) = stack.distiller.propose([request])
