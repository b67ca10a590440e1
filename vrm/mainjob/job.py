"""What every step of the main job works with: open stores, owners, policies, folders, a clock for each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from actors.fits import Folders
from actors.handles import Owners
from actors.settings import now
from actors.workers import Asked
from memory.campaigns import CampaignPorts, Campaigns, DistillerPort, Failure
from memory.closure import ClosurePorts, RunClosure
from memory.commands import RunCommands
from memory.dead_letters import DeadLetters
from memory.distillation.pinned import PinnedDistillers
from memory.distillation.policies import Policies
from memory.distillation.wording import Drafter
from memory.leasing import Leasing
from memory.ports import all_good
from memory.recall.context import Recall
from memory.recovery import Reads, Recovery
from memory.spine import Spine
from memory.trace.costs import Component, CostBook, Meter
from policies.acting import ActorFailure
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.modes import Lane
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion
from records.appends import Append, AppendReceipt
from records.base import Record
from records.control import BudgetLimit
from records.decisions import BlockedProposal
from records.errors import IdentityConflictError, VrmError
from records.flows import Transition
from records.runtime import Command, RunBody, activity_id
from records.values import ActorIdentity, CampaignProfile
from vrm.bootstrap import Stores
from vrm.mainjob.begun import require_own
from vrm.mainjob.plan import PROFILE, Round


class Deciding(Protocol):
    """An actor that is named in every intent of its decisions."""

    @property
    def identity(self) -> ActorIdentity:
        """Who it is."""

    def __call__(self, question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer | ActorFailure:
        """Return what it decides, or why it decided nothing."""


@dataclass
class Job:
    """One run of the main job.

    Attributes:
        holder: the name under which this driver holds leases (`vrm.mainjob.driver`).
        drafter: who words rules, in this process, which alone knows the key to a model; None leaves the words to the
            template, and the work to the pool.
        actor: who decides in this process, for the same reason; None leaves it to the planner.
    """

    stores: Stores
    owners: Owners
    round: Round
    policies: Policies
    console: Console
    holder: str
    seconds: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    quiet: bool = False
    drafter: Drafter | None = None
    actor: Deciding | None = None

    @property
    def namespace(self) -> str:
        """The Ledger namespace."""
        return self.round.namespace

    @property
    def spine(self) -> Spine:
        """The spine over this job's owners."""
        return Spine(self.stores.artifacts, self.owners.run_owner, self.owners.coordinator)

    @property
    def recovery(self) -> Recovery:
        """The recovery scanner over this job's stores and owners."""
        stores = self.stores
        reads = Reads(ledger=stores.ledger, runtime=stores.runtime, artifacts=stores.artifacts, clock=now)
        return Recovery(reads, self.owners.run_owner, self.owners.coordinator)

    @property
    def folders(self) -> Folders:
        """Where the custodian and the runner meet: public problems, private labels, artifacts."""
        base = self.stores.home.root / "custody"
        return Folders(str(base / "public"), str(base / "private"), self.stores.artifacts.url)

    @property
    def work_folder(self) -> Path:
        """Where the evaluator exchanges files with its caller."""
        folder = self.stores.home.root / "evaluator"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def campaigns(self) -> Campaigns:
        """The distillation work of this namespace."""
        ports = CampaignPorts(
            ledger=self.stores.ledger,
            runtime=self.stores.runtime,
            artifacts=self.stores.artifacts,
            owner=self.owners.run_owner,
            spine=self.spine,
            heads=self.owners.heads,
            clock=now,
            holder=self.holder,
        )
        distils = self.round.rules.distils is Lane.VERIFIED
        return Campaigns(ports, self.policies, self.profile, self.namespace, distils=distils)

    @property
    def profile(self) -> CampaignProfile:
        """The profile of the campaigns that this job admits."""
        adapter = PROFILE.drafting_adapter if self.drafter is None else self.drafter.identity
        return CampaignProfile(**(PROFILE.as_json() | {"drafting_adapter": adapter}))

    @cached_property
    def distillers(self) -> DistillerPort:
        """Who proposes: the pool, or this process if it drafts."""
        if self.drafter is None:
            return self.owners.distillers
        return PinnedDistillers(self.stores.ledger, now, drafter=self.drafter)

    @property
    def dead_letters(self) -> DeadLetters:
        """Where items go that cannot be distilled."""
        stores, owner = self.stores, self.owners.run_owner
        ports = ClosurePorts(
            ledger=stores.ledger, runtime=stores.runtime, artifacts=stores.artifacts, owner=owner, spine=self.spine
        )
        commands = RunCommands(stores.runtime, stores.artifacts, owner, now)
        return DeadLetters(commands, RunClosure(ports), self.namespace)

    @property
    def meter(self) -> Meter:
        """Measures what this namespace is spent on (VRM-O06)."""
        return Meter(CostBook(self.stores.home.costs), self.namespace, now)

    def recall(self, asked: Sequence[Asked]) -> Sequence[Recall | BlockedProposal]:
        """Ask the replicas, and state what it cost."""
        if not asked:
            return ()
        with self.meter.measured(Component.RETRIEVAL, asked[0][1].recall_input_id) as spent:
            answers = self.owners.retrievers.propose(asked)
            spent.on = [intent.id for intent, _ in asked]
        return answers

    @cached_property
    def leasing(self) -> Leasing:
        """The Activities of this driver's own Runs."""
        return Leasing(self.stores.runtime, self.owners.run_owner, now, self.holder)

    def admit(self, runs: Sequence[RunBody], slot: str, budget: Sequence[BudgetLimit] = ()) -> None:
        """Admit Runs with one Activity each, and lease those that are not committed.

        Args:
            runs: the specifications.
            slot: the name of the Activity.
            budget: the limits that each of them begins with.

        Raises:
            IdentityConflictError: one of them was begun with another specification; the error says what to do.
            StaleError: another driver holds one of them, or a Run is not RUNNING.
            BudgetExceededError: a Run may not be attempted again.
        """
        commands = RunCommands(self.stores.runtime, self.stores.artifacts, self.owners.run_owner, now)
        try:
            commands.drive_runs(runs, [slot], budget)
        except IdentityConflictError:
            require_own(self.stores.runtime, runs)
            raise
        self.leasing.take([activity_id(run.id, slot) for run in runs]).require_all()

    def keep(self) -> None:
        """Renew the leases that need it.

        Raises:
            StaleError: one was lost, and somebody else may be at work.
        """
        for lost in self.leasing.keep():
            raise lost

    def apply(self, commands: Sequence[Command]) -> None:
        """Carry out Runtime commands that must all succeed."""
        all_good(self.owners.run_owner.apply(commands))

    def append(self, transition: Transition, key: str, *records: Record) -> AppendReceipt:
        """Carry out one direct append that must succeed."""
        answers = self.spine.direct([Append.direct(transition, key, records)])
        return all_good(answers)[0]

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Time a step and show how far it is; the block gets a function that is told what was done."""
        started = time.monotonic()
        columns = (
            TextColumn("{task.description:<40}"),
            BarColumn(bar_width=16),  # with the columns around it, one line of 80 characters
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, disable=self.quiet) as progress:
            bar = progress.add_task(name, total=total)
            try:
                yield lambda count: self._advance(progress, bar, count)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    def _advance(self, progress: Progress, bar: TaskID, count: int) -> None:
        progress.advance(bar, count)
        self.keep()


def pinned_policies() -> Policies:
    """Return the packaged Distillation and Lifecycle Policies."""
    return Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())


def require(answers: Sequence[AppendReceipt | VrmError]) -> list[AppendReceipt]:
    """Return receipts that all committed, or raise the first error or typed refusal."""
    receipts = all_good(answers)
    for receipt in receipts:
        if not receipt.committed:
            raise VrmError(receipt.transition.value, str(receipt.reason), "Nothing was written; run the job again.")
    return receipts
