"""Many Experiences from evidence to completion through the real owners, as the bulk benchmark times them.

A sweep is everything that the product does with finished trials: evidence is appended, each Experience gets its receipt
and its work item, each item its campaign, every campaign is distilled against one Evidence Snapshot and completed, and
the source Runs end. Left out, because they are no part of it: the trials, and the start of server and owners.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import psutil

from actors.settings import now
from evaluation.bench import studies
from evaluation.bench.corpus import NOW, SPACE
from evaluation.bench.server import Bench
from evaluation.simulation.material import POLICIES, PROFILE
from memory.campaigns import CampaignPorts, Campaigns, DistillerPort, Failure
from memory.distillation.distiller import DistillationRequest
from memory.evidence import bundle_records
from memory.leases import admission, completion
from memory.ports import CoordinatorPort, RunOwnerPort, all_good
from memory.reserving import HeadsPort
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import GROUP, Spine, chunks
from records.appends import Append, Proposal
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.flows import Transition
from records.ids import EvidenceSnapshotId
from records.ingestion import CompletionStatus, WorkCompletion
from records.knowledge import DistillationDecision
from records.runtime import RunBody
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

A_RUN: Final = 20 * studies.TRIALS
"""Experiences of one source Run."""
_PARTS: Final = 10
_PASSES: Final = 5
_MEGABYTE: Final = 1e6
_OWNERS: Final = "^vrm (coordinator|run-owner|lifecycle-head|distiller)"
"""The names under which owners and workers are connected; the last word of a name is the process."""


@dataclass
class Spent:
    """Seconds of a sweep by stage, and of the calls to the distillation workers, which lie within the last stage."""

    stages: dict[str, float] = field(default_factory=dict)
    proposing: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the whole sweep."""
        return sum(self.stages.values())

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - begun


class Processes:
    """What each process that takes part used: its highest resident memory, and its processor time.

    Both are read between the groups of a sweep.
    """

    def __init__(self, bench: Bench) -> None:
        """Look at nobody yet."""
        self._bench = bench
        self._processes: dict[str, psutil.Process] = {}
        self._before: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def find(self) -> None:
        """Find the owners and workers by their connections to the Ledger, and begin to count."""
        rows = self._bench.admin.execute(
            "SELECT DISTINCT application_name FROM pg_stat_activity WHERE application_name ~ %s", [_OWNERS]
        ).fetchall()
        words = [str(name).removeprefix("vrm ").split() for (name,) in rows]
        found = {f"{each[0]} {each[-1]}": psutil.Process(int(each[-1])) for each in words}
        self._processes = {"driver": psutil.Process()} | found
        self._before = {name: _cpu_seconds(process) for name, process in self._processes.items()}

    def look(self) -> None:
        """Read what everybody uses."""
        for name, process in self._processes.items():
            with suppress(psutil.NoSuchProcess):
                self.peaks[name] = max(self.peaks.get(name, 0.0), process.memory_info().rss / _MEGABYTE)
                self.seconds[name] = _cpu_seconds(process) - self._before[name]


class Timed:
    """A distiller whose time is added up."""

    def __init__(self, distiller: DistillerPort, spent: Spent) -> None:
        """Propose through `distiller`."""
        self._distiller, self._spent = distiller, spent

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one proposal per request, in order."""
        begun = time.perf_counter()
        proposals = self._distiller.propose(requests)
        self._spent.proposing += time.perf_counter() - begun
        return proposals


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Who acts in a sweep."""

    run_owner: RunOwnerPort
    coordinator: CoordinatorPort
    heads: HeadsPort
    distillers: DistillerPort


class Sweep:
    """Carries some Experiences from evidence to completion in an empty store.

    Attributes:
        spent: how long it took.
        processes: what it took of memory and processor time.
    """

    def __init__(self, bench: Bench, runtime: RuntimeReader, crew: Crew, told: Callable[[str, int, int], None]) -> None:
        """Work through a crew over the stores of a bench; nothing is started yet."""
        self._bench, self._crew, self._told = bench, crew, told
        self._spine = Spine(bench.artifacts, crew.run_owner, crew.coordinator)
        ports = CampaignPorts(
            ledger=bench.ledger,
            runtime=runtime,
            artifacts=bench.artifacts,
            owner=crew.run_owner,
            spine=self._spine,
            heads=crew.heads,
            clock=now,
            holder="bench",
        )
        self._campaigns = Campaigns(ports, POLICIES, PROFILE, SPACE)
        self.spent, self.processes = Spent(), Processes(bench)
        self._ticks: list[tuple[float, int]] = []

    def carry(self, experiences: int) -> None:
        """Carry out the whole sweep.

        Raises:
            IntegrityError: something was refused, or an item has no completion in the end.
        """
        self.processes.find()
        runs = [source_run(number) for number in range(-(-experiences // A_RUN))]
        for number, run in enumerate(runs):
            self.append(run, range(number * A_RUN, min((number + 1) * A_RUN, experiences)), experiences)
        with self.spent.timed("receipts and items"), self._bar("receipts and items", experiences) as advance:
            for run in runs:
                _require(self._campaigns.ingest(run.id, advance))
        with self.spent.timed("campaigns"), self._bar("campaigns", experiences) as advance:
            _require(self._campaigns.project(advance))
        self.distil(experiences)
        with self.spent.timed("end of source runs"):
            all_good(self._crew.run_owner.apply([completion(run.id) for run in runs]))
        self.processes.look()
        self._checked(experiences)

    def append(self, run: RunBody, numbers: Sequence[int], total: int) -> None:
        """Admit a source Run, and append the evidence of its trials with what they left behind."""
        trials = [studies.trial(number, run.id) for number in numbers]
        with self.spent.timed("evidence"):
            all_good(self._crew.run_owner.apply([admission(run, ["sweep"])]))
            for group in chunks(trials, GROUP):
                self._bench.artifacts.publish_many([made.predictions for made in group])
                records = [bundle_records(made.trial) for made in group]
                appends = [Append.direct(Transition.APPEND_EVIDENCE, f"trial/{each[-1].id}", each) for each in records]
                all_good(self._spine.direct(appends))
                self.processes.look()
        self._told("evidence", numbers[-1] + 1, total)

    def distil(self, experiences: int) -> None:
        """Capture one snapshot, and distil everything that is waiting against it."""
        with self.spent.timed("snapshot"):
            snapshot = self._captured()
        with self.spent.timed("distillation"), self._bar("distillation", experiences) as advance:
            for _ in range(_PASSES):  # workers that led one variant at the same time leave an item to the next pass
                failures = self._campaigns.distil(snapshot, Timed(self._crew.distillers, self.spent), advance)
                if not failures:
                    break
            _require(failures)

    @property
    def rates(self) -> list[float]:
        """Experiences a second in each tenth of the distillation stage, or in each group if there are fewer."""
        ticks = self._ticks
        step = max(1, (len(ticks) - 1) // _PARTS)
        marks = [*ticks[:-1:step], ticks[-1]]
        return [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(marks)]

    def decisions(self, ledger: LedgerReader) -> dict[str, int]:
        """Return how many Decisions of each kind there are."""
        loaded = (stored.load() for stored in ledger.find("distillation-decision", SPACE))
        return dict(Counter(each.decision.value for each in loaded if isinstance(each, DistillationDecision)))

    def _captured(self) -> EvidenceSnapshotId:
        builder = EvidenceSnapshotBuilder(POLICIES.distillation)
        with self._bench.ledger.reading() as reader:
            snapshot, operation = builder.freeze(reader, FreezeEvidence(namespace=SPACE, operation_key="bench"))
        append = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
        all_good(self._spine.direct([append]))
        return EvidenceSnapshotId(snapshot.id)

    def _checked(self, experiences: int) -> None:
        loaded = (stored.load() for stored in self._bench.ledger.find("distillation-work-completion", SPACE))
        done = [each for each in loaded if isinstance(each, WorkCompletion)]
        if len(done) != experiences or any(each.status is not CompletionStatus.COMPLETED for each in done):
            raise IntegrityError("benchmark store", f"{len(done)} completions", "An item was left; report this.")

    @contextmanager
    def _bar(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._ticks.append((time.perf_counter(), done))
            self._told(what, done, total)
            self.processes.look()

        self._ticks = [(time.perf_counter(), 0)]
        yield advance


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def source_run(number: int) -> RunBody:
    """Return the specification of a Run that evidence comes from."""
    return RunBody(
        namespace=SPACE,
        run_kind="SCIENTIFIC",
        admission_key=f"bench/{number}",
        specification_digest=digest_bytes(b"sweep"),
        admitted_at=NOW,
    )


def _require(failures: Sequence[Failure]) -> None:
    if failures:
        raise IntegrityError("benchmark sweep", str(failures[0]), "It was refused; report this.")
