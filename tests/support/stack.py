"""The whole protocol as plain classes over any pair of stores, no cluster; and what can break it at any call.

A `Stack` is what one process of owners is: it claims its epochs when it is built, so a second one over the same stores
is the successor after a crash. `Faults` raises `Crash` at a chosen call into a store or an owner, before or after the
call took effect; what a crashed stack still held is lost with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from memory.campaigns import CampaignPorts, Campaigns, Failure
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.policies import Policies
from memory.erasing import ErasurePorts, RetentionOfficer
from memory.evidence import Trial, bundle_records
from memory.heads import LifecycleHeads, Reservation
from memory.leases import admission, completion
from memory.orphans import Orphans
from memory.ports import all_good
from memory.recovery import Reads, Recovery
from memory.run_owner import RunOwner
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import Spine
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.appends import Append, AppendReceipt
from records.base import KINDS, Record
from records.errors import VrmError
from records.flows import Transition
from records.ids import EvidenceSnapshotId, RunId
from records.knowledge import LifecycleEvent
from records.runtime import RunBody
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.governance import manifest, publish_admitted
from tests.support.samples import PROFILE
from tests.support.stores import Clock, ticking_clock
from tests.support.trials import NOW, digest, make_task, make_trial

CHANGE = ("scaler", "none", "standard")
NULL = ("tol", 0.001, 0.01)
GOOD = {"a": 0.05, "b": 0.051, "c": 0.049, "d": 0.053}
"""Effects on four roots that make an active rule."""
POLICIES = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())


class Crash(BaseException):
    """The process is gone; no handler for errors may see it."""


@dataclass
class Faults:
    """Counts calls, and ends the process at call number `at` (from 1), before or after it took effect."""

    at: int = 0
    after: bool = False
    calls: list[str] = field(default_factory=list)

    def wrap(self, inner: object, *methods: str) -> Any:
        """Return `inner` with the methods counted."""
        return _Breakable(inner, methods, self)

    def run(self, name: str, method: Any, arguments: tuple[Any, ...]) -> Any:
        """Carry out one counted call."""
        gone = 0 < self.at <= len(self.calls)
        self.calls.append(name)
        hit = len(self.calls) == self.at
        if gone or (hit and not self.after):
            raise Crash(name)  # nor does anything happen on the way out of a process that is gone
        answer = method(*arguments)
        if hit:
            raise Crash(name)
        return answer


@dataclass
class Interrupted(Faults):
    """Lets somebody else act in full just before call number `at`."""

    other: Callable[[], object] = field(default=lambda: None)

    def run(self, name: str, method: Any, arguments: tuple[Any, ...]) -> Any:
        """Carry out one call."""
        self.calls.append(name)
        if len(self.calls) == self.at:
            self.at = 0
            self.other()
        return method(*arguments)


class _Breakable:
    def __init__(self, inner: object, methods: tuple[str, ...], faults: Faults) -> None:
        self._inner, self._methods, self._faults = inner, methods, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._methods:
            return method
        return lambda *arguments: self._faults.run(f"{type(self._inner).__name__}.{name}", method, arguments)


class Hosts:
    """The heads of every variant on one host."""

    def __init__(self, ledger: LedgerStore) -> None:
        """Claim the host."""
        self.host = LifecycleHeads(ledger, "test")

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        """Take the variants of a plan's events."""
        return [self.host.reserve(namespace, plan, events)]

    def release(self, plan: str) -> None:
        """Let go of a plan's variants."""
        self.host.release(plan)


@dataclass(frozen=True)
class Stores:
    """What survives a crash."""

    ledger: LedgerStore
    runtime: RuntimeStore
    artifacts: ArtifactStore


class Stack:
    """One process of owners over stores, in one namespace."""

    def __init__(
        self,
        stores: Stores,
        namespace: str,
        faults: Faults | None = None,
        clock: Clock | None = None,
        holder: str = "test",
    ) -> None:
        """Claim every epoch; without `faults` nothing breaks. `holder` has the leases of campaigns."""
        broken, now = faults or Faults(), clock or ticking_clock()
        self.stores, self.namespace = stores, namespace
        ledger = cast("LedgerStore", broken.wrap(stores.ledger, "commit"))
        runtime = cast("RuntimeStore", broken.wrap(stores.runtime, "apply"))
        artifacts = cast("ArtifactStore", broken.wrap(stores.artifacts, "publish", "publish_many", "erase"))
        owner = RunOwner(runtime, ledger, artifacts, now, "test")
        coordinator = CommitCoordinator(ledger, runtime, artifacts, "test")
        self.owner = cast("RunOwner", broken.wrap(owner, "apply", "grant", "reconcile", "resolve", "release"))
        self.coordinator = cast("CommitCoordinator", broken.wrap(coordinator, "append_granted", "append_direct"))
        self.heads = Hosts(ledger)
        self.spine = Spine(artifacts, self.owner, self.coordinator)
        ports = CampaignPorts(
            ledger=ledger,
            runtime=runtime,
            artifacts=artifacts,
            owner=self.owner,
            spine=self.spine,
            heads=cast("Hosts", broken.wrap(self.heads, "reserve", "release")),
            clock=now,
            holder=holder,
        )
        self.orphans = Orphans(runtime, ledger, artifacts, self.owner, self.spine)
        erasures = ErasurePorts(
            ledger=ledger, runtime=runtime, artifacts=artifacts, owner=self.owner, spine=self.spine, clock=now
        )
        self.officer = RetentionOfficer(erasures)
        reads = Reads(ledger=ledger, runtime=runtime, artifacts=artifacts, clock=now)
        self.recovery = Recovery(reads, self.owner, self.coordinator)
        self.campaigns = Campaigns(ports, POLICIES, PROFILE, namespace)
        self.distiller = KnowledgeDistiller(stores.ledger, POLICIES, now)

    def body(self, key: str) -> RunBody:
        """Return the specification of a scientific Run."""
        return RunBody(
            namespace=self.namespace,
            run_kind="SCIENTIFIC",
            admission_key=key,
            specification_digest=manifest().canonical_digest,
            admitted_at=NOW,
        )

    def admit(self, key: str, *slots: str) -> RunId:
        """Admit a scientific Run."""
        publish_admitted(self.stores.artifacts)
        all_good(self.owner.apply([admission(self.body(key), slots or ["sweep"])]))
        return self.body(key).id

    def complete(self, run_id: RunId) -> None:
        """Complete a Run."""
        all_good(self.owner.apply([completion(run_id)]))

    def evidence(self, trials: Iterable[Trial]) -> list[AppendReceipt]:
        """Append the bundle of each trial."""
        appends = []
        for trial in trials:
            records = bundle_records(trial)
            appends.append(Append.direct(Transition.APPEND_EVIDENCE, f"trial/{records[-1].id}", records))
        return all_good(self.spine.direct(appends))

    def capture(self) -> EvidenceSnapshotId:
        """Capture the evidence of this moment."""
        with self.stores.ledger.reading() as reader:
            key = f"evidence-at-{reader.namespace_head(self.namespace).evidence}"
            request = FreezeEvidence(namespace=self.namespace, operation_key=key)
            snapshot, operation = EvidenceSnapshotBuilder(POLICIES.distillation).freeze(reader, request)
        append = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
        all_good(self.spine.direct([append]))
        return EvidenceSnapshotId(snapshot.id)

    def campaign(self, run_id: RunId) -> list[Failure]:
        """Carry a Run's evidence through receipts, campaigns and distillation."""
        failures = self.campaigns.ingest(run_id, quiet)
        failures += self.campaigns.project(quiet)
        return failures + self.campaigns.distil(self.capture(), self.distiller, quiet)

    def study(self, key: str, trials: Iterable[Trial]) -> list[Failure]:
        """Admit a Run, append its evidence, and carry it to knowledge."""
        run_id = self.admit(key)
        self.evidence(trials)
        failures = self.campaign(run_id)
        self.complete(run_id)
        return failures

    def recover(self) -> list[AppendReceipt | VrmError]:
        """Settle what a crash left unresolved."""
        return self.spine.recover(self.stores.runtime)

    def load(self, noun: str) -> list[Any]:
        """Return every record of a kind, in journal order."""
        return [stored.load() for stored in self.stores.ledger.find(noun, self.namespace)]

    def ids(self) -> dict[str, list[str]]:
        """Return the ids of every record by kind."""
        return {noun: sorted(str(record.id) for record in self.load(noun)) for noun in KINDS}

    def counts(self) -> dict[str, int]:
        """Return how many records there are of each kind that has any."""
        return {noun: len(found) for noun, found in self.ids().items() if found}

    def phases(self) -> Counter[tuple[str, str]]:
        """Return how many subjects of this namespace's Runs stand in each phase."""
        runs = [subject.id for subject in self.stores.runtime.find(Machine.RUN) if _of(subject.body, self.namespace)]
        return Counter(
            (machine.value, subject.phase.value)
            for machine in Machine
            for run in runs
            for subject in self.stores.runtime.find(machine, run_id=run)
        )

    def granted(self) -> list[str]:
        """Return the authorizations that nobody settled."""
        return [subject.id for subject in self.stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED])]

    def position(self) -> int:
        """Return where the journal stands."""
        return self.stores.ledger.namespace_head(self.namespace).position

    def journal(self) -> list[Any]:
        """Return every journal row."""
        return self.stores.ledger.journal(self.namespace, limit=100_000)

    def state(self) -> tuple[Any, ...]:
        """Return all that can be seen of the namespace in both stores."""
        runs = [subject for subject in self.stores.runtime.find(Machine.RUN) if _of(subject.body, self.namespace)]
        subjects = [self.stores.runtime.find(machine, run_id=run.id) for machine in Machine for run in runs]
        ledger = self.stores.ledger
        return ledger.namespace_head(self.namespace), self.journal(), ledger.variant_heads(self.namespace), subjects


def effects(
    stack: Stack,
    key: str,
    deltas: dict[str, float],
    *,
    seed: int = 0,
    change: tuple[str, object, object] = CHANGE,
    size: str = "small",
    configs: tuple[str, str] | None = None,
    **fields: Any,
) -> list[Trial]:
    """Return baseline and changed trial of one seed for each root, `deltas[root]` apart.

    `size` sets the task scope, `configs` the digests of both configurations; other fields go into every trial.
    """
    run_id = stack.body(key).id
    before, after = configs or (digest("config None"), digest(f"config {change}"))
    trials = []
    for place, (root, delta) in enumerate(sorted(deltas.items())):
        task = replace(make_task(root), attributes={"problem": "multiclass", "size": size})
        for made, value, config in ((None, 0.0, before), (change, delta, after)):
            left = f"predictions of {root}, seed {seed}, {made}".encode()
            own = {
                "task": task,
                "seed": seed,
                "change": made,
                "mechanism": "baseline" if made is None else f"mechanism-of-{change[0]}",
                "run_id": run_id,
                "iteration": 0 if made is None else 1,
                "config_digest": config,
                "artifacts": (stack.stores.artifacts.reference("predictions", left),),
                "verified": {"balanced_accuracy": round(0.7 + place / 100 + value, 6)},
            }
            trials.append(make_trial(stack.namespace, **(own | fields)))
    return trials


def record_of(stack: Stack, record_id: str) -> Record:
    """Return a record that must be there."""
    stored = stack.stores.ledger.get(record_id)
    assert stored is not None, record_id
    return stored.load()


def quiet(_done: int) -> None:
    """Report no progress."""


def _of(body: str, namespace: str) -> bool:
    return RunBody.load(body).namespace == namespace
