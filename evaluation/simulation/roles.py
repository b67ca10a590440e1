"""What the participants do; each is the product's own code, or a few lines over the product's spine.

Rules kept here:

- a role begins with what is stored and keeps nothing from an earlier life: one that crashed is begun again;
- a role may be taken by several participants at once, about the same decision, Run or item;
- an error of our family ends a pass, and the next one begins from what is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from evaluation.bench.corpus import SPACE
from evaluation.simulation import material
from evaluation.simulation.lines import Line
from evaluation.simulation.material import POLICIES, PROFILE, Decision
from memory.campaigns import CampaignPorts, Campaigns
from memory.closure import ClosurePorts, RunClosure
from memory.commands import RunCommands
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.view import View, read_view
from memory.ports import all_good
from memory.retention import check_input
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import Spine
from records.appends import Append
from records.base import Record
from records.control import ControlCause
from records.decisions import RecallContext
from records.errors import VrmError
from records.flows import Authority, Transition
from records.ids import EvidenceSnapshotId
from records.ingestion import CaptureOperation, EvidenceSnapshot, SnapshotMember, WorkAssignment, WorkItem
from records.outcomes import DecisionStatus, SourceStatus
from records.runtime import RunBody
from records.states import Machine, Phase
from store.recent import Recent

Role = Callable[[Line], object]
PASSES: Final = 4
"""How often a role begins anew before it leaves the rest to others."""


@dataclass(frozen=True)
class Named:
    """A role with the name that the history gives it, and the moment at which its job began, if that was before."""

    name: str
    role: Role
    since: float | None = None


def spine_of(line: Line) -> Spine:
    """Return the spine that a participant carries its proposals over."""
    return line.world.parts.spine(line.artifacts, line.owner, line.coordinator)


def commands_of(line: Line) -> RunCommands:
    """Return the commands that a participant gives to Runs."""
    return RunCommands(line.world.runtime, line.artifacts, line.owner, line.world.clock)


def passes(line: Line, work: Callable[[], bool]) -> None:
    """Do `work` until it says that there is nothing left, each time from what is stored."""
    for _ in range(PASSES):
        try:
            if work():
                return
        except VrmError as error:
            line.wait(f"after {type(error).__name__}")
        else:
            line.wait("for others")


def decide(subject: Decision) -> Role:
    """Return the role of taking a decision from wherever it stands to its outcome."""

    def role(line: Line) -> None:
        passes(line, lambda: _decided(line, subject))

    return role


def _decided(line: Line, subject: Decision) -> bool:
    """Go one step of the spine further; true once nothing is left to do."""
    line.artifacts.publish_many(subject.admitted)
    line.owner.apply([material.admitted(subject.run, material.SLOT)])
    for _ in range(PASSES):
        found = line.world.runtime.subject(Machine.DECISION, str(subject.intent.id))
        if found is not None and found.phase in {Phase.OUTCOME_COMMITTED, Phase.RETIRED}:
            return True
        attempt = (1, 1) if found is None else (found.generation, found.fence)
        phase = None if found is None else found.phase
        transition, held = _next(line, subject, phase)
        if transition is Transition.APPEND_OUTCOME and subject.ending.account.authority is Authority.RUNTIME_CLOSURE:
            return _stopped(line, subject)
        if transition is Transition.APPEND_OUTCOME:
            line.artifacts.publish_many(subject.artifacts)
        denied = None
        if transition is Transition.APPEND_CONTEXT:
            denied = check_input(line.world.ledger, SPACE, material.input_id())
        all_good(spine_of(line).carry([material.proposal(subject, transition, attempt, held, denied)]))
    return False


def _stopped(line: Line, subject: Decision) -> bool:
    """Stop the decision's Run in the way that this worker wants it to end, and close it."""
    commands = commands_of(line)
    if subject.ending.account.status is DecisionStatus.CANCELLED:
        commands.cancel_run(subject.run.id)
    else:
        commands.fail_run(subject.run.id, ControlCause.INFRASTRUCTURE)
    closure_of(line).close(subject.run.id)
    return True


def closure_of(line: Line) -> RunClosure:
    """Return who closes Runs, over the ports of a participant."""
    ports = ClosurePorts(
        ledger=line.world.ledger,
        runtime=line.world.runtime,
        artifacts=line.artifacts,
        owner=line.owner,
        spine=spine_of(line),
    )
    return RunClosure(ports)


def close(line: Line) -> None:
    """End every Run that is cancelling or failing."""
    passes(line, lambda: [closure_of(line).close(each) for each in closure_of(line).waiting()] == [])


def _next(line: Line, subject: Decision, phase: Phase | None) -> tuple[Transition, RecallContext | None]:
    """Return which append this worker means to make, and the context that is held."""
    if phase in {None, Phase.REGISTERING}:
        return Transition.APPEND_INTENT, None
    stored = line.world.ledger.find("decision-recall-context", SPACE, intent_id=str(subject.intent.id))
    held = stored[0].load() if stored else None
    if subject.ending.source is SourceStatus.EMPTY and held is None:
        return Transition.APPEND_CONTEXT, None
    return Transition.APPEND_OUTCOME, held if isinstance(held, RecallContext) else None


def append_evidence(run: RunBody, trials: tuple[tuple[Record, ...], ...]) -> Role:
    """Return the role of admitting a Run and appending its trials."""

    def role(line: Line) -> None:
        passes(line, lambda: _appended(line, run, trials))

    return role


def _appended(line: Line, run: RunBody, trials: tuple[tuple[Record, ...], ...]) -> bool:
    all_good(line.owner.apply([material.admitted(run, "sweep")]))
    appends = [Append.direct(Transition.APPEND_EVIDENCE, f"trial/{each[-1].id}", each) for each in trials]
    all_good(spine_of(line).direct(appends))
    return True


def ingest(run: RunBody) -> Role:
    """Return the role of giving every experience of a Run its receipt, and queueing what is to be distilled."""

    def role(line: Line) -> None:
        passes(line, lambda: not campaigns_of(line).ingest(run.id, _quiet))

    return role


def project(line: Line) -> None:
    """Admit and assign a campaign for every item that has none."""
    passes(line, lambda: not campaigns_of(line).project(_quiet) and bool(campaigns_of(line).waiting()))


def distil(line: Line) -> None:
    """Lease, propose and commit everything that is assigned."""
    _distil(line, None)


def distil_one(place: int) -> Role:
    """Return the role of one that distils one item only, so that another one leads at the same time.

    Whoever takes the second item works on the capture that was made first, as one does who captured long ago.
    """
    return lambda line: _distil(line, place)


def _distil(line: Line, place: int | None) -> None:
    def work() -> bool:
        campaigns = campaigns_of(line, place)
        if not campaigns.waiting():
            return not campaigns.unassigned() and _complete(line, campaigns)
        snapshot = _first_capture(line) if place else _captured(line)
        return not campaigns.distil(snapshot, _Distiller(line), _quiet)

    passes(line, work)


def _complete(line: Line, campaigns: Campaigns) -> bool:
    """Complete the Runs of what an earlier pass committed; nothing is waiting."""
    running = line.world.runtime.find(Machine.RUN, [Phase.RUNNING])
    if any(RunBody.load(run.body).run_kind == "MEMORY_DISTILLATION" for run in running):
        campaigns.distil(_captured(line), _Distiller(line), _quiet)
    return True


def campaign(run: RunBody) -> Role:
    """Return the role of one driver that does everything for the evidence of a Run."""

    def role(line: Line) -> None:
        ingest(run)(line)
        project(line)
        distil(line)

    return role


def recover(line: Line) -> None:
    """Resolve what is unresolved; whoever is hasty asks for the settlement before the append."""
    for _ in range(2):
        found = line.world.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED])
        if found:
            line.owner.reconcile([subject.id for subject in found])
        spine_of(line).recover(line.world.runtime)
        line.wait("for the next scan")


def finish(runs: tuple[RunBody, ...]) -> Role:
    """Return the role of completing Runs at any time; one that has something open refuses."""

    def role(line: Line) -> None:
        for _ in range(2):
            present = [run for run in runs if line.world.runtime.subject(Machine.RUN, run.id)]
            if present:
                line.owner.apply([material.completed(run.id) for run in present])
            line.wait("for the Runs")

    return role


class _Some(Campaigns):
    """The product's driver of distillation work, of one item only if it is told which."""

    place: int | None = None

    def waiting(self) -> list[tuple[WorkItem, WorkAssignment]]:
        found = super().waiting()
        items = [work.item for work in self._work()]
        return found if self.place is None else [each for each in found if each[0] == items[self.place]]


def campaigns_of(line: Line, place: int | None = None) -> Campaigns:
    """Return the driver of distillation work over the ports of a participant."""
    ports = CampaignPorts(
        ledger=line.world.ledger,
        runtime=line.world.runtime,
        artifacts=line.artifacts,
        owner=line.owner,
        spine=spine_of(line),
        heads=line.heads,
        clock=line.world.lease_clock,
        holder=line.name,
    )
    made = _Some(ports, POLICIES, PROFILE, SPACE)
    made.place = place
    return made


def _captured(line: Line) -> EvidenceSnapshotId:
    """Capture the evidence of this moment."""
    snapshot, operation = _frozen(line)
    append = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
    all_good(spine_of(line).direct([append]))
    return EvidenceSnapshotId(snapshot.id)


def capture(line: Line) -> None:
    """Capture the evidence of this moment."""
    _captured(line)


def _first_capture(line: Line) -> EvidenceSnapshotId:
    """Return the snapshot that was captured first."""
    return EvidenceSnapshotId.check(line.world.ledger.find("evidence-snapshot", SPACE)[0].id)


def _frozen(line: Line) -> tuple[EvidenceSnapshot, CaptureOperation]:
    """Freeze the evidence, once in a process for the same experiences and denials at the same positions."""
    ledger = line.world.ledger
    head = ledger.namespace_head(SPACE)
    denied = ledger.content.by_kind.get(("retention-erasure-intent", SPACE), [])
    key = head.evidence, head.retention, (*ledger.content.by_kind["experience", SPACE], *denied)
    if key not in _FROZEN:
        operation = f"evidence-at-{head.evidence}-{head.retention}"
        request = FreezeEvidence(namespace=SPACE, operation_key=operation)
        with ledger.reading() as reader:
            _FROZEN.put(key, EvidenceSnapshotBuilder(POLICIES.distillation).freeze(reader, request))
    return _FROZEN[key]


_FROZEN: Final[Recent[tuple[int, int, tuple[str, ...]], tuple[EvidenceSnapshot, CaptureOperation]]] = Recent(1024)


class _Distiller(KnowledgeDistiller):
    """The product's distiller, which judges the same members once in a process, whichever snapshot holds them."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.world.ledger, POLICIES, line.world.clock)
        self._ledger = line.world.ledger

    def view(self, snapshot_id: EvidenceSnapshotId) -> View:
        if snapshot_id not in self._views:
            stored = self._ledger.get(snapshot_id)
            snapshot = None if stored is None else stored.load()
            members = snapshot.members if isinstance(snapshot, EvidenceSnapshot) else ()
            if members not in _VIEWS:
                _VIEWS.put(members, read_view(self._reader, snapshot_id, POLICIES.distillation))
            view = _VIEWS[members]
            own = snapshot if isinstance(snapshot, EvidenceSnapshot) else view.snapshot
            self._views[snapshot_id] = replace(view, snapshot=own)
        return self._views[snapshot_id]


_VIEWS: Final[Recent[tuple[SnapshotMember, ...], View]] = Recent(64)


def _quiet(_done: int) -> None:
    """Report no progress."""
