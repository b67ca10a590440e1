"""Durable distillation work: from Experiences to receipts, items, campaigns and completions (spec 4.14, 8.1, 9.8).

Three steps, each over everything that is waiting and each safe to repeat:

1. `ingest`: every Experience gets its one receipt; an eligible one also its work item, behind an ACTIVE reference to
   the campaign profile's bytes, through the spine's ENQUEUE_DISTILLATION;
2. `project`: every unassigned item gets its singleton campaign, a MEMORY_DISTILLATION Run whose admission key is the
   item, with one Activity, and its assignment;
3. `distil`: every open Activity is leased, proposed by the distiller and committed through the spine, and the Run of
   every completed item is completed.

What is waiting is read from the stores, so a crash between any two steps is continued by running them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Final, Protocol

from memory.assignments import activation, assigning, campaign_admission, campaign_run, manifest
from memory.distillation.distiller import DistillationRequest
from memory.distillation.policies import Policies
from memory.evidence import resolve_bundles
from memory.handoffs import opening
from memory.leases import ATTEMPTS, completion
from memory.leasing import Leasing
from memory.ports import Clock, RunOwnerPort, all_good
from memory.receipts import unreceipted
from memory.reserving import HeadsPort, reserving
from memory.retention import REVOKED, denied_experiences
from memory.spine import GROUP, Spine, chunks
from memory.work_state import Waiting, Work, pinned_profile, unassigned, waiting, work_of
from policies.bundles import NotABundle
from policies.completion import Hold
from records.appends import Append, AppendReceipt, Proposal
from records.control import BudgetLimit, ControlCause
from records.errors import BudgetExceededError, FencedError, StaleError, VrmError
from records.evidence import Corpus, Experience, VerifiedEvidenceBundle
from records.flows import Authority, Transition
from records.ids import EvidenceSnapshotId, ExperienceId, RunId, WorkItemId
from records.ingestion import DistillationReceipt, ReceiptDisposition, WorkAssignment, WorkItem
from records.outcomes import NoCommitReason
from records.runtime import Applied, RunBody, handoff_id
from records.states import Machine, Phase, ends_of
from records.values import CampaignProfile
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

BUDGET: Final = (BudgetLimit(resource=ATTEMPTS, limit=50),)
"""What a campaign begins with. A race for a head costs an attempt, so there are many."""
_FOR_GOOD: Final = frozenset({NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED.value})
"""Answers of the Ledger that the same item would get for ever. A record that is stored with other bytes is none of
them: somebody else led a variant meanwhile, and what is proposed next rests on that Decision."""

Progress = Callable[[int], None]
_Admitted = tuple[WorkItem, RunBody]
_Answers = Sequence[AppendReceipt | Applied | VrmError]
Eligibility = tuple[ReceiptDisposition, tuple[str, ...]]
_TOO_LATE: Final[Eligibility] = (ReceiptDisposition.DEFERRED, ("source_run_over",))
"""What becomes of evidence that was appended after its Run had ended: it stays, and nothing holds a profile for it."""
_ERASED: Final[Eligibility] = (ReceiptDisposition.DEFERRED, (REVOKED,))
"""What becomes of evidence that retention denies before it was queued."""


class DistillerPort(Protocol):
    """Who proposes: a distiller here, or a pool of workers elsewhere."""

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one complete proposal per request, in order."""


@dataclass(frozen=True, kw_only=True)
class CampaignPorts:
    """What a campaign reads and through whom it acts.

    Attributes:
        clock: by which leases end.
        holder: the name under which this driver holds them; the same after a crash.
    """

    ledger: LedgerReader
    runtime: RuntimeReader
    artifacts: ArtifactStore
    owner: RunOwnerPort
    spine: Spine
    heads: HeadsPort
    clock: Clock
    holder: str


@dataclass(frozen=True)
class Failure:
    """A step that failed for one record; what it concerns stays waiting.

    Attributes:
        hopeless: why trying again cannot help; None if it may. Such an item is for `memory.dead_letters`.
    """

    subject: str
    error: VrmError
    hopeless: ControlCause | None = None


class Campaigns:
    """Drives the distillation work of one namespace."""

    def __init__(
        self,
        ports: CampaignPorts,
        policies: Policies,
        profile: CampaignProfile,
        namespace: str,
        budget: Sequence[BudgetLimit] = BUDGET,
        *,
        distils: bool = True,
    ) -> None:
        """Work under pinned policies and one admission profile; each campaign begins with the budget.

        `distils` is whether the mode lets anything be queued; what is ingested without it has a receipt that says so.
        """
        self._ports = ports
        self._leasing = Leasing(ports.runtime, ports.owner, ports.clock, ports.holder)
        self._budget = budget
        self._policies = policies
        self._profile = profile
        self._namespace = namespace
        self._distils = distils

    def without_receipt(self, source_run: RunId) -> list[Experience]:
        """Return the Experiences of a Run that have no receipt yet, in journal order."""
        return unreceipted(self._ports.ledger, self._namespace, [source_run]).get(source_run, [])

    def ingest(self, source_run: RunId, progress: Progress) -> list[Failure]:
        """Give every Experience of a Run that has no receipt the one that policy decides."""
        failures: list[Failure] = []
        run = self._ports.runtime.subject(Machine.RUN, source_run)
        over = run is not None and run.phase in ends_of(Machine.RUN)
        for group in chunks(self.without_receipt(source_run), GROUP):
            bundles = resolve_bundles(self._ports.ledger, group)
            denied = denied_experiences(self._ports.ledger, self._namespace, [str(each.id) for each in group])
            queued, others = [], []
            for experience in group:
                bundle = bundles[ExperienceId(experience.id)]
                decided = _ERASED if experience.id in denied else self._eligibility(bundle)
                if over and decided[0] is ReceiptDisposition.QUEUED:
                    decided = _TOO_LATE
                if decided[0] is ReceiptDisposition.QUEUED and isinstance(bundle, VerifiedEvidenceBundle):
                    queued.append((experience, bundle))
                else:
                    others.append((experience, decided))
            failures += self._receipts(others)
            failures += self._enqueue(queued, source_run)
            progress(len(group))
        return failures

    def unassigned(self) -> list[WorkItem]:
        """Return the items without an assignment, in journal order."""
        return unassigned(self._work())

    def project(self, progress: Progress) -> list[Failure]:
        """Admit a campaign for every unassigned item and assign it; an item that fails keeps no other one waiting."""
        failures: list[Failure] = []
        for group in chunks(self.unassigned(), GROUP):
            expanded, refused = self._expanded(group)
            self._ports.artifacts.publish_many([manifest(item, profile) for item, profile in expanded])
            runs = [(item, campaign_run(item, profile)) for item, profile in expanded]
            for step in (self._admit, self._assign, self._activate):
                refused += failed([str(item.id) for item, _ in runs], step(runs))
                lost = {each.subject for each in refused}
                runs = [(item, run) for item, run in runs if item.id not in lost]
            failures += refused
            progress(len(group))
        return failures

    def _expanded(self, group: Sequence[WorkItem]) -> tuple[list[tuple[WorkItem, CampaignProfile]], list[Failure]]:
        """Return the items with the profiles that they pin; one whose profile cannot be read waits until it can."""
        expanded, refused = [], []
        for item in group:
            try:
                expanded.append((item, self._profile_of(item)))
            except VrmError as error:
                refused.append(Failure(str(item.id), error))
        return expanded, refused

    def _admit(self, runs: Sequence[_Admitted]) -> _Answers:
        return self._ports.owner.apply([campaign_admission(run, self._budget) for _, run in runs])

    def _assign(self, runs: Sequence[_Admitted]) -> _Answers:
        return self._ports.spine.direct([assigning(run, item.created_at) for item, run in runs])

    def _activate(self, runs: Sequence[_Admitted]) -> _Answers:
        return self._ports.owner.apply([activation(run.id) for _, run in runs])

    def waiting(self) -> list[Waiting]:
        """Return the assigned items without a completion, in journal order."""
        return waiting(self._work())

    def distil(
        self,
        snapshot_id: EvidenceSnapshotId,
        distiller: DistillerPort,
        progress: Progress,
        items: Sequence[Waiting] | None = None,
    ) -> list[Failure]:
        """Lease, propose and commit every waiting item, or those given, against one snapshot."""
        failures: list[Failure] = []
        for group in chunks(self.waiting() if items is None else items, GROUP):
            requests, refused = self._lease(group, snapshot_id)
            proposals = distiller.propose(requests)
            self._leasing.keep()  # what was lost meanwhile is refused by its fence
            answers = self._commit(proposals)
            self._leasing.let_go(str(request.activity.id) for request in requests)
            failures += map(_judged, [*refused, *failed([str(request.item.id) for request in requests], answers)])
            progress(len(group))
        self.complete()
        return failures

    def _commit(self, proposals: Sequence[Proposal]) -> list[AppendReceipt | VrmError]:
        """Reserve the heads that the proposals touch, carry those that got theirs, and let go."""
        with reserving(self._ports.heads, self._namespace, proposals) as held:
            free = [proposal for place, proposal in enumerate(proposals) if place not in held.refused]
            carried: Iterator[AppendReceipt | VrmError]
            try:
                carried = iter(self._ports.spine.carry(free, held.fences))
            except FencedError as error:
                self._ports.spine.recover(self._ports.runtime)  # a host of heads was replaced after the grants
                carried = repeat(error)
        return [held.refused.get(place) or next(carried) for place in range(len(proposals))]

    def _eligibility(self, bundle: VerifiedEvidenceBundle | NotABundle) -> Eligibility:
        if isinstance(bundle, NotABundle):
            return ReceiptDisposition.DEFERRED, (bundle.reason.value,)
        if bundle.attempt.corpus is Corpus.EVALUATION:
            return ReceiptDisposition.NOT_REQUIRED, ("evaluation_corpus",)
        if not bundle.verification.valid:
            return ReceiptDisposition.DEFERRED, ("invalid_verification", *bundle.verification.violations)
        if not self._policies.distillation.may_support_active(bundle.verification.verification_kind):
            return ReceiptDisposition.DEFERRED, (f"verification_{bundle.verification.verification_kind.value}",)
        if not self._distils:
            return ReceiptDisposition.NOT_REQUIRED, (Hold.DISTILLATION_OFF.value,)
        return ReceiptDisposition.QUEUED, ()

    def _receipts(self, decided: Sequence[tuple[Experience, Eligibility]]) -> list[Failure]:
        receipts = [
            DistillationReceipt.build(
                namespace=self._namespace,
                created_at=experience.created_at,
                experience_id=ExperienceId(experience.id),
                disposition=disposition,
                reasons=reasons,
                policy=self._policies.distillation.identity,
                work_item_id=None,
            )
            for experience, (disposition, reasons) in decided
        ]
        answers = self._ports.spine.direct(
            [
                Append.direct(Transition.RECEIPT_NOT_QUEUED, f"receipt/{item.experience_id}", (item,))
                for item in receipts
            ]
        )
        return failed([str(item.experience_id) for item in receipts], answers)

    def _enqueue(self, queued: Sequence[tuple[Experience, VerifiedEvidenceBundle]], source_run: RunId) -> list[Failure]:
        self._ports.artifacts.publish(self._profile.canonical)
        wanted = [self._item(experience, bundle) for experience, bundle in queued]
        opened = self._ports.owner.apply([opening(item, source_run) for item in wanted])
        pairs = list(zip(wanted, opened, strict=True))
        refused = [Failure(str(item.id), answer) for item, answer in pairs if isinstance(answer, VrmError)]
        items = [item for item, answer in pairs if not isinstance(answer, VrmError)]
        subjects = self._ports.runtime.subjects(
            Machine.HANDOFF, [str(handoff_id(WorkItemId(item.id))) for item in items]
        )
        proposals = []
        for item in items:
            subject = subjects[str(handoff_id(WorkItemId(item.id)))]
            receipt = DistillationReceipt(
                namespace=self._namespace,
                created_at=item.created_at,
                experience_id=item.experience_id,
                disposition=ReceiptDisposition.QUEUED,
                reasons=(),
                policy=self._policies.distillation.identity,
                work_item_id=WorkItemId(item.id),
            )
            proposals.append(
                Proposal(
                    namespace=self._namespace,
                    transition=Transition.ENQUEUE_DISTILLATION,
                    authority=Authority.HANDOFF_ATTEMPT,
                    machine=Machine.HANDOFF,
                    subject_id=subject.id,
                    run_id=source_run,
                    generation=subject.generation,
                    fence=subject.fence,
                    records=Proposal.bodies((item, receipt)),
                )
            )
        return refused + failed([str(item.id) for item in items], self._ports.spine.carry(proposals))

    def _item(self, experience: Experience, bundle: VerifiedEvidenceBundle) -> WorkItem:
        return WorkItem(
            namespace=self._namespace,
            created_at=experience.created_at,
            experience_id=ExperienceId(experience.id),
            task_scope_id=bundle.attempt.task_scope_id,
            distillation_policy=self._policies.distillation.identity,
            lifecycle_policy=self._policies.lifecycle.identity,
            campaign_profile_id=self._profile.id,
            campaign_profile_digest=self._profile.canonical_digest,
        )

    def _lease(
        self, group: Sequence[Waiting], snapshot_id: EvidenceSnapshotId
    ) -> tuple[list[DistillationRequest], list[Failure]]:
        """Lease what can be leased; what is committing or another's waits a pass, and what is denied is leased no more.

        A batch names the Experience of its item, so no attempt could end one whose Experience retention denies.
        """
        denied = denied_experiences(self._ports.ledger, self._namespace, [item.experience_id for item, _ in group])
        open_ones = [each for each in group if each[0].experience_id not in denied]
        taken = self._leasing.take([assignment.activity_id for _, assignment in open_ones])
        requests = []
        refused = [_revoked(item, denied[item.experience_id]) for item, _ in group if item.experience_id in denied]
        for item, assignment in open_ones:
            activity = taken.held.get(assignment.activity_id)
            if activity is not None:
                requests.append(
                    DistillationRequest(item=item, assignment=assignment, activity=activity, snapshot_id=snapshot_id)
                )
            elif assignment.activity_id in taken.refused:
                refused.append(Failure(str(item.id), taken.refused[assignment.activity_id]))
        return requests, refused

    def complete(self) -> None:
        """Complete every Run whose Activity has committed, those of an earlier pass that was cut short included."""
        running = [run.id for run in self._ports.runtime.find(Machine.RUN, [Phase.RUNNING])]
        stored = self._ports.ledger.find("distillation-work-assignment", self._namespace, run_id=running)
        assigned = [item for each in stored if isinstance(item := each.load(), WorkAssignment)]
        subjects = self._ports.runtime.subjects(Machine.ACTIVITY, [str(item.activity_id) for item in assigned])
        done = [item.run_id for item in assigned if subjects[str(item.activity_id)].phase is Phase.COMMITTED]
        for group in chunks(done, GROUP):
            all_good(self._ports.owner.apply([completion(run_id) for run_id in group]))

    def _work(self) -> list[Work]:
        return work_of(self._ports.ledger, self._namespace)

    def _profile_of(self, item: WorkItem) -> CampaignProfile:
        """Return the profile that an item pins, which need not be the one under which items are queued now."""
        if item.campaign_profile_digest == self._profile.canonical_digest:
            return self._profile
        return pinned_profile(self._ports.artifacts, item)


def _revoked(item: WorkItem, target: str) -> Failure:
    error = StaleError("experience", f"retention denies {target}", "It was erased for good; its item is given up.")
    return Failure(str(item.id), error, ControlCause.RETENTION_REVOKED)


def _judged(failure: Failure) -> Failure:
    """Say whether an item that was not distilled may be tried again (spec 8.1, 9.8)."""
    if failure.error.value in _FOR_GOOD:
        return replace(failure, hopeless=ControlCause.WORK_REJECTED)
    if isinstance(failure.error, BudgetExceededError):
        return replace(failure, hopeless=ControlCause.RETRY_EXHAUSTED)
    return failure


def failed(subjects: Sequence[str], answers: Sequence[AppendReceipt | Applied | VrmError]) -> list[Failure]:
    """Return what was not done: errors, and typed no-commits as a stale error."""
    failures = []
    for subject, answer in zip(subjects, answers, strict=True):
        if isinstance(answer, VrmError):
            failures.append(Failure(subject, answer))
        elif isinstance(answer, AppendReceipt) and not answer.committed and answer.reason is not None:
            stale = StaleError(answer.transition.value, answer.reason.value, "Nothing was written; it is tried again.")
            failures.append(Failure(subject, stale))
    return failures
