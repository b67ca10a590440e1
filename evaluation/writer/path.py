"""The product's own path from records to knowledge, in memory: one process of owners, one namespace.

Rules kept here:

- every step is the product's: append with its guards, receipt, work item behind a handoff, campaign, lease, Evidence
  Snapshot, distiller, grant, commit, lifecycle heads;
- of the Experiences of a round that are queued, only those that lead are enqueued: the first for every set of verdicts
  that the distiller's own view gives them, and the first for every refusal. The others would be covered by the same
  Decisions and change nothing that is scored; `whole=True` enqueues all of them, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from evaluation.simulation import material
from evaluation.simulation.world import HeldArtifacts, OpenLedger, OpenRuntime
from evaluation.writer.groups import SPACE, Group, PlannedRun, Taint
from evaluation.writer.trials import records_of, source_run, space_of
from memory.campaigns import CampaignPorts, Campaigns, Failure
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.policies import Policies
from memory.distillation.view import Finding, View
from memory.evidence import Trial, bundle_records
from memory.heads import LifecycleHeads, Reservation
from memory.leases import admission
from memory.ports import all_good
from memory.run_owner import RunOwner
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import Spine
from records.appends import Append, AppendReceipt
from records.errors import IntegrityError, VrmError
from records.evidence import Experience
from records.flows import Transition
from records.governance import ArmManifest
from records.ids import EvidenceSnapshotId, ExperienceId, RunId
from records.knowledge import LifecycleEvent
from records.runtime import RunBody

_HOLDER: Final = "writer"
_SLOT: Final = "sweep"


class Writer:
    """Writes groups into one Ledger.

    Attributes:
        ledger: what it ends up holding; artifacts: the bytes behind it.
        entered: what became of every planned run, by Experience: the group and the run.
        turned_away: the Experiences that the Ledger did not take.
    """

    def __init__(self, policies: Policies, *, whole: bool = False) -> None:
        """Begin with an empty Ledger under pinned policies; `whole` enqueues every Experience."""
        self._policies, self._whole = policies, whole
        self._ticks = 0
        self.ledger, self.artifacts, runtime = OpenLedger(), HeldArtifacts({}), OpenRuntime()
        artifacts = self.artifacts
        self.entered: dict[str, tuple[Group, PlannedRun]] = {}
        self.turned_away: set[str] = set()
        self._manifest: ArmManifest = material.manifest(requested=True)
        artifacts.publish_many([material.profile().canonical, self._manifest.canonical])
        self._owner = RunOwner(runtime, self.ledger, artifacts, self._clock, _HOLDER)
        self._spine = Spine(artifacts, self._owner, CommitCoordinator(self.ledger, runtime, artifacts, _HOLDER))
        ports = CampaignPorts(
            ledger=self.ledger,
            runtime=runtime,
            artifacts=artifacts,
            owner=self._owner,
            spine=self._spine,
            heads=_Heads(self.ledger),
            clock=self._clock,
            holder=_HOLDER,
        )
        self._campaigns = _Leading(ports, policies, material.PROFILE, SPACE)
        self._distiller = KnowledgeDistiller(self.ledger, policies, self._clock)

    def import_trials(self, body: RunBody, trials: Iterable[Trial]) -> None:
        """Record finished trials of one Run of this namespace, whatever they come from, and distil them.

        Raises:
            IntegrityError: a step of the path failed, so that nothing can be said about the writer.
        """
        all_good(self._owner.apply([admission(body, [_SLOT])]))
        made = [bundle_records(trial) for trial in trials]
        keyed = [(f"trial/{records[-1].id}", records) for records in made]
        all_good(
            self._spine.direct([Append.direct(Transition.APPEND_EVIDENCE, key, records) for key, records in keyed])
        )
        self._learn({ExperienceId(records[-1].id) for records in made}, {body.id})

    def write(self, groups: Sequence[Group]) -> None:
        """Record the groups round by round, and distil after each.

        Raises:
            IntegrityError: a step of the path failed, so that nothing can be said about the writer.
        """
        for place in range(max(len(group.rounds) for group in groups)):
            planned = [(group, run) for group in groups for each in group.rounds[place : place + 1] for run in each]
            self._round(planned)

    def _round(self, planned: Sequence[tuple[Group, PlannedRun]]) -> None:
        runs = self._admit(planned)
        fresh = self._append(planned, runs)
        self._learn(fresh, {runs[key] for key in sorted(runs) if key[0] == SPACE})

    def _learn(self, fresh: set[ExperienceId], sources: set[RunId]) -> None:
        """Distil what is new, which is of these Runs."""
        snapshot_id = self._capture()
        view = self._distiller.view(snapshot_id)
        self._campaigns.chosen = fresh if self._whole else _leading(view, fresh)
        for run_id in sorted(sources):
            _require_none(self._campaigns.ingest(run_id, _quiet))
        _require_none(self._campaigns.project(_quiet))
        _require_none(self._campaigns.distil(snapshot_id, self._distiller, _quiet))

    def _admit(self, planned: Iterable[tuple[Group, PlannedRun]]) -> dict[tuple[str, str], RunId]:
        wanted = sorted({(space_of(run), run.source_run) for _, run in planned})
        bodies = {key: source_run(*key, self._manifest) for key in wanted}
        all_good(self._owner.apply([admission(body, [_SLOT]) for body in bodies.values()]))
        return {key: body.id for key, body in bodies.items()}

    def _append(
        self, planned: Sequence[tuple[Group, PlannedRun]], runs: dict[tuple[str, str], RunId]
    ) -> set[ExperienceId]:
        """Append every planned run and return the Experiences of this namespace that are new."""
        made = [records_of(group, run, runs[space_of(run), run.source_run]) for group, run in planned]
        appends = [
            Append.direct(Transition.APPEND_EVIDENCE, f"trial/{records[-1].id}/{run.copy_of}", records)
            for (_, run), records in zip(planned, made, strict=True)
        ]
        answers = self._spine.direct(appends)
        fresh: set[ExperienceId] = set()
        for entry, records, answer in zip(planned, made, answers, strict=True):
            experience_id = ExperienceId(records[-1].id)
            self.entered.setdefault(experience_id, entry)
            if isinstance(answer, VrmError) or not answer.committed:
                _require_forged(entry[1], answer)
                self.turned_away.add(experience_id)
            elif space_of(entry[1]) == SPACE:
                fresh.add(experience_id)
        return fresh

    def _capture(self) -> EvidenceSnapshotId:
        with self.ledger.reading() as reader:
            key = f"evidence-at-{reader.namespace_head(SPACE).evidence}"
            request = FreezeEvidence(namespace=SPACE, operation_key=key)
            snapshot, operation = EvidenceSnapshotBuilder(self._policies.distillation).freeze(reader, request)
        append = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
        all_good(self._spine.direct([append]))
        return EvidenceSnapshotId(snapshot.id)

    def _clock(self) -> str:
        """Return a moment later than the one before."""
        self._ticks += 1
        return f"2026-02-01T00:00:00.{self._ticks:06d}Z"


class _Leading(Campaigns):
    """Campaigns that give receipts to the chosen Experiences only."""

    chosen: frozenset[ExperienceId] | set[ExperienceId] = frozenset()

    def without_receipt(self, source_run: RunId) -> list[Experience]:
        """Return the chosen Experiences of a Run that have no receipt yet."""
        return [each for each in super().without_receipt(source_run) if each.id in self.chosen]


class _Heads:
    """The heads of every variant on one host."""

    def __init__(self, ledger: OpenLedger) -> None:
        self._host = LifecycleHeads(ledger, _HOLDER)

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        """Take the variants of a plan's events."""
        return [self._host.reserve(namespace, plan, events)]

    def release(self, plan: str) -> None:
        """Let go of a plan's variants."""
        self._host.release(plan)


def _leading(view: View, fresh: Iterable[ExperienceId]) -> set[ExperienceId]:
    """Return the first Experience of each verdict and of each refusal; what is no member has a reason of its own."""
    led: set[object] = set()
    chosen: set[ExperienceId] = set()
    for experience_id in sorted(fresh):
        finding = view.find(experience_id)
        speaks = _speaks(finding)
        if not speaks <= led or experience_id not in view.members:
            led |= speaks
            chosen.add(experience_id)
    return chosen


def _speaks(finding: Finding) -> set[object]:
    """Return what an Experience has to do with: the verdicts that it speaks for, or why it speaks for none."""
    return {verdict.scope_variant_id for verdict in finding.verdicts} or {finding.refused}


def _require_forged(run: PlannedRun, answer: object) -> None:
    """Refuse to go on if sound evidence was turned away: then the plan is at fault, or the Ledger."""
    if run.taint is not Taint.FORGED:
        raise IntegrityError("writer evaluation", str(answer), f"{run.root}, seed {run.seed}: it was not appended.")


def _require_none(failures: Sequence[Failure]) -> None:
    if failures:
        raise IntegrityError("writer evaluation", str(failures[0].error), f"{failures[0].subject} was not carried out.")


def _quiet(_done: int) -> None:
    """Report no progress."""


Told = Callable[[str, int, int], None]
Answer = AppendReceipt | VrmError
