"""The steps of the main job up to the Recall Input: sweep, receipts and campaigns, snapshots, index."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from tenacity import Retrying, retry_if_result, wait_exponential

from actors.settings import now
from memory.campaigns import Failure
from memory.distillation.pinned import packaged
from memory.leases import completion
from memory.recall.memory_index import MEMORY_INDEX, PROCEDURE_INDEX
from memory.snapshots.evidence import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.snapshots.failures import failure_key, index_failure
from memory.snapshots.index import BuildIndex, build_index, build_procedure_index, index_key
from memory.snapshots.knowledge import KnowledgeSnapshotBuilder, knowledge_key
from memory.snapshots.recall_input import RecallInputSnapshotBuilder, recall_input_key
from memory.trace.costs import Component
from memory.work_state import Pinned, Waiting, by_pinned
from policies.catalog import InterventionCatalog
from policies.distillation_policy import DistillationPolicy
from policies.modes import Lane
from policies.retrieval_policy import shipped_policy
from records.decisions import RecallContext
from records.errors import InvalidInputError, NotFoundError, StaleError, VrmError
from records.evidence import EvaluationContract
from records.flows import Transition
from records.ids import EvidenceSnapshotId, RecallInputId, RunId
from records.outcomes import NoCommitReason
from records.runtime import activity_id
from records.snapshots import IndexBuild, KnowledgeSnapshot, RecallInput
from records.states import Phase
from records.values import PolicyIdentity, SourceKind
from store.ledger.port import LedgerReader
from vrm.mainjob.experiments import Experiments
from vrm.mainjob.job import Job
from vrm.mainjob.plan import FrozenInput, arms, development_tasks, sweep_body
from vrm.mainjob.purposes import Purpose, retrieval_for, selection_for
from vrm.mainjob.tabular import Setting

SLOT = "sweep"
_OF_THE_RUN = "run.phase"
"""What an error is about where a campaign is paused or ends: no pass helps, a command does."""
PATIENCE_SECONDS = 30.0
"""How long work that was refused is taken up again; a reservation of a driver that died lapses well within it."""


def sweep_settings(job: Job, catalog: InterventionCatalog, run_id: RunId) -> list[Setting]:
    """Return every setting of a round's sweep: tasks by seeds by arms."""
    settings = []
    for task in development_tasks(job.round.size):
        for seed in job.round.seeds:
            for place, change in enumerate(arms(job.round.size, catalog)):
                settings.append(
                    Setting(
                        task=task,
                        seed=seed,
                        before=catalog.baseline,
                        change=change,
                        iteration=place,
                        run_id=run_id,
                    )
                )
    return settings


def sweep(job: Job, catalog: InterventionCatalog, contract: EvaluationContract) -> RunId:
    """Run the round's experiments and return the Run that owns them."""
    body = sweep_body(job.round, catalog)
    job.admit([body], SLOT)
    Experiments(job, catalog, contract).run(sweep_settings(job, catalog, body.id), "Experiments: fits, evaluated apart")
    return body.id


def close_run(job: Job, run_id: RunId, slot: str) -> None:
    """Complete a Run once every Experience of it has its receipt; the barrier of spec 6.3 is asked first."""
    if job.campaigns.without_receipt(run_id):
        return
    job.apply([completion(run_id, job.leasing.held(activity_id(run_id, slot)))])


def ingest(job: Job, run_ids: list[RunId]) -> None:
    """Give every Experience of the Runs its receipt, then admit and assign a campaign for each item.

    In a mode that distils nothing no campaign begins, whatever an earlier round left waiting (spec 18).
    """
    campaigns = job.campaigns
    waiting = sum(len(campaigns.without_receipt(run_id)) for run_id in run_ids)
    with job.step("Receipts and work items", waiting) as advance:
        for run_id in run_ids:
            job.failures += campaigns.ingest(run_id, advance)
    if job.round.rules.distils is not Lane.VERIFIED:
        return
    with job.step("Campaigns admitted and assigned", len(campaigns.unassigned())) as advance:
        job.failures += campaigns.project(advance)


def capture(job: Job, policy: DistillationPolicy) -> EvidenceSnapshotId:
    """Capture all evidence that a policy admits at the namespace's present frontier; the same again is one capture."""
    with job.stores.ledger.reading() as reader:
        head = reader.namespace_head(job.namespace)
        key = f"evidence-at-{head.evidence}-denied-at-{head.retention}-under-{policy.policy_id}-v{policy.version}"
        request = FreezeEvidence(namespace=job.namespace, operation_key=key)
        snapshot, operation = EvidenceSnapshotBuilder(policy).freeze(reader, request)
    job.append(Transition.CAPTURE_SNAPSHOT, capture_key(operation), snapshot, operation)
    return EvidenceSnapshotId(snapshot.id)


def distil(job: Job) -> None:
    """Distil every waiting item.

    Raises:
        VrmError: why the first of those that still wait was not distilled.
        StaleError: items wait that nobody said anything of: another driver holds them, or they are being committed.
    """
    left = swept(job).waiting()
    if job.failures:
        raise job.failures[0].error
    if left:
        remedy = "Run `vrm recover`, and distil again."
        raise StaleError("distillation", f"{len(left)} items are held or being committed", remedy)


def swept(job: Job, items: Collection[str] | None = None) -> Sweep:
    """Distil every waiting item, or those named; what a race or a dead driver's reservation left is taken up again.

    What still waits afterwards, and why, is in the job's failures.
    """
    sweep = Sweep(job, items)
    passes = Retrying(
        retry=retry_if_result(bool),
        stop=lambda _state: sweep.idle_seconds() > PATIENCE_SECONDS,
        wait=wait_exponential(multiplier=0.1, max=2),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else True,
    )
    with job.step("Distillation: propose, grant, append", len(sweep.waiting())) as advance:
        passes(sweep.leaves_work, advance)
    return sweep


class Sweep:
    """One sweep over the waiting items of a namespace: a snapshot for each policy that they pin, shared by all passes.

    Attributes:
        buried: the items that were given up, with the phase in which their campaigns ended.
    """

    def __init__(self, job: Job, items: Collection[str] | None = None) -> None:
        """Sweep over `items` only, if they are given."""
        self._job, self._items = job, items
        self._snapshots: dict[PolicyIdentity, EvidenceSnapshotId] = {}
        self._left, self._moved_at = len(self.waiting()), time.monotonic()
        self.buried: dict[str, Phase] = {}

    def waiting(self) -> list[Waiting]:
        """Return what is left of the sweep."""
        found = self._job.campaigns.waiting()
        return found if self._items is None else [each for each in found if each[0].id in self._items]

    def leaves_work(self, advance: Callable[[int], None]) -> bool:
        """Make one pass; tell whether another one may do what this one left."""
        job, hopeless = self._job, set[str]()
        job.failures = []
        for pinned, group in by_pinned(self.waiting()).items():
            try:
                snapshot_id = self._snapshot(pinned)
            except (InvalidInputError, StaleError) as error:  # nobody here has what it pins; the other groups go on
                job.failures += [Failure(str(item.id), error) for item, _ in group]
                hopeless |= {str(item.id) for item, _ in group}
                continue
            with job.meter.measured(Component.DISTILLATION, snapshot_id) as spent:
                failures = job.campaigns.distil(snapshot_id, job.distillers, advance, group)
                failed = {each.subject for each in failures}
                spent.on = [item.id for item, _ in group if str(item.id) not in failed]
            if any(each.error.value == NoCommitReason.RETENTION_REVOKED for each in failures):
                self._snapshots.pop(pinned.distillation)  # it holds what is denied by now
            self.buried |= job.dead_letters.bury(failures)
            job.failures += [each for each in failures if each.subject not in self.buried]
            hopeless |= {each.subject for each in failures if each.error.field == _OF_THE_RUN}
        job.campaigns.complete()  # a driver may have ended between the last completion and the end of its Run
        left = self.waiting()
        names = {str(item.id) for item, _ in left}
        job.failures = [each for each in job.failures if each.subject in names]  # the rest was settled after all
        if len(left) < self._left:
            self._left, self._moved_at = len(left), time.monotonic()
        return any(str(item.id) not in hopeless for item, _ in left)

    def idle_seconds(self) -> float:
        """Return how long ago the last pass ended that left less than the one before it."""
        return time.monotonic() - self._moved_at

    def _snapshot(self, pinned: Pinned) -> EvidenceSnapshotId:
        policy = packaged(pinned.distillation, pinned.lifecycle).distillation
        if pinned.distillation not in self._snapshots:
            self._snapshots[pinned.distillation] = capture(self._job, policy)
        return self._snapshots[pinned.distillation]


def recall_input_of(job: Job, trials: Sequence[RunId]) -> RecallInputId:
    """Return the Recall Input that the decisions of these Runs query; once one has, they all query the same."""
    ledger, space = job.stores.ledger, job.namespace
    intents = ledger.find("decision-intent", space, run_id=[str(run_id) for run_id in trials])
    contexts = ledger.find("decision-recall-context", space, intent_id=[intent.id for intent in intents])
    first = contexts[0].load() if contexts else None
    return first.recall_input_id if isinstance(first, RecallContext) else recall_input(job)


def frozen_input(reader: LedgerReader, namespace: str, recall_input_id: RecallInputId) -> FrozenInput:
    """Return the Recall Input that frozen memory names, if it is one of the namespace; nothing is built or changed.

    Whether its index is sound is found out with each request, as a proof that blocks it: a damaged one costs the
    decisions their memory and never the study its pairs (VRM-R10).

    Raises:
        NotFoundError: the Ledger holds no such Recall Input in this namespace, or its policy does not ship.
    """
    stored = reader.get(recall_input_id)
    record = None if stored is None else stored.load()
    if not isinstance(record, RecallInput) or record.namespace != namespace:
        remedy = f"Name a Recall Input of namespace {namespace}; `vrm distil --json` gives the newest."
        raise NotFoundError("--recall-input", recall_input_id, remedy)
    policy = shipped_policy(record.retrieval_policy)
    return FrozenInput(recall_input_id=recall_input_id, retrieval_policy=policy.identity)


def recall_input(job: Job, purpose: Purpose = Purpose.NORMAL) -> RecallInputId:
    """Freeze and index the knowledge of a purpose, compose what decisions query, and load the replicas."""
    policy = retrieval_for(purpose)
    with job.step("Knowledge snapshot, index, recall input", 4) as advance:
        with job.stores.ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(selection_for(purpose)).freeze(reader, job.namespace)
        job.append(Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot)
        advance(1)
        with job.meter.measured(Component.INDEX_BUILD, str(snapshot.id)) as spent:
            rules, data = _indexed(job, snapshot, build_index, MEMORY_INDEX)
            builds = [rules]
            if SourceKind.PROCEDURE in policy.kinds:
                procedures, _ = _indexed(job, snapshot, build_procedure_index, PROCEDURE_INDEX)
                builds += [procedures] if procedures.document_count else []
                spent.on = [rules.id, procedures.id]
            else:
                spent.on = [rules.id]
        for build in builds:
            job.append(Transition.INDEX_RECEIPT, index_key(build), build)
        advance(1)
        composed = RecallInputSnapshotBuilder(policy).compose(snapshot, builds)
        job.append(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
        advance(1)
        job.owners.retrievers.load(RecallInputId(composed.id), data)
        advance(1)
    return RecallInputId(composed.id)


def _indexed(job: Job, snapshot: KnowledgeSnapshot, build: BuildIndex, schema: str) -> tuple[IndexBuild, bytes]:
    """Return a published index of a snapshot; where it fails, a receipt says so before the error goes on."""
    embedder = job.owners.embedder
    try:
        made, data = build(job.stores.ledger, snapshot, embedder)
        job.stores.artifacts.publish(data)
    except VrmError as error:
        failure = index_failure(snapshot, None, schema, embedder, error=error, now=now())
        job.append(Transition.INDEX_RECEIPT, failure_key(failure), failure)
        raise
    return made, data
