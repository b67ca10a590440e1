"""What must hold once the faults are over, recovery has run and everybody has had time to finish.

Rules checked here: no grant is unresolved and no subject waits; every intent that was admitted has its outcome, and
every erasure its tombstone; every experience of a Run that was driven has its receipt, every item its assignment and
its completion, every Run is over and every handoff released; no artifact is missing that something names; the
integrity check finds nothing, and has nothing to note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluation.bench.corpus import SPACE
from evaluation.simulation.between import OVER, unsettled
from evaluation.simulation.world import World
from memory.erasing.officer import is_own
from memory.fsck import fsck
from records.runtime import RunBody
from records.states import Machine, Phase, phases_of

_ITEMS = ("distillation-work-assignment", "distillation-work-completion", "enqueue-transaction")


def check_ending(world: World, driven: Iterable[RunBody], *, thorough: bool) -> None:
    """Check what is left at the end of a schedule.

    Args:
        world: the stores.
        driven: the Runs whose evidence somebody carried through.
        thorough: whether the integrity check runs over both stores as well.
    """
    for broken in (*unsettled(world), *_undecided(world), *_unerased(world), *_undone(world, driven)):
        world.complain(f"at the end: {broken}")
    for digest in sorted(world.artifacts.dropped - world.artifacts.content.keys()):
        world.require_unnamed(digest)
    if thorough and not world.complaints:
        with world.ledger.reading() as reader:
            report = fsck(reader, world.runtime, world.artifacts)
        for violation in report.violations:
            world.complain(f"fsck: {violation.code} {violation.record}: {violation.met}")
        for note in report.notes:
            world.complain(f"fsck notes {note.code} {note.record}: {note.met}")


def _undecided(world: World) -> Iterator[str]:
    decided = _about(world, "recall-decision-outcome", "intent_id")
    for stored in world.ledger.find("decision-intent", SPACE):
        if stored.id not in decided:
            yield f"{stored.id} has no outcome"


def _unerased(world: World) -> Iterator[str]:
    closed = _about(world, "memory-retention-tombstone", "intent_id")
    for stored in world.ledger.find("retention-erasure-intent", SPACE):
        if stored.id not in closed:
            yield f"{stored.id} has no tombstone"


def _undone(world: World, driven: Iterable[RunBody]) -> Iterator[str]:
    items = {stored.id for stored in world.ledger.find("distillation-work-item", SPACE)}
    for noun in _ITEMS:
        for item in sorted(items - _about(world, noun, "work_item_id")):
            yield f"{item} has no {noun}"
    receipts = _about(world, "distillation-receipt", "experience_id")
    for run in driven:
        attempts = [stored.id for stored in world.ledger.find("attempt", SPACE, run_id=str(run.id))]
        for stored in world.ledger.find("experience", SPACE, attempt_id=attempts):
            if stored.id not in receipts:
                yield f"{stored.id} has no receipt"
    for subject in world.runtime.find(Machine.RUN, set(phases_of(Machine.RUN)) - OVER):
        erasures = world.runtime.find(Machine.ERASURE, run_id=subject.id)
        if not is_own(subject) or any(each.phase is not Phase.RETIRED for each in erasures):
            yield f"{subject.id} is still {subject.phase}"  # an erasure that never began may be asked for again
    for subject in world.runtime.find(Machine.HANDOFF, set(phases_of(Machine.HANDOFF)) - {Phase.RELEASED}):
        yield f"{subject.id} is still {subject.phase}"


def _about(world: World, noun: str, column: str) -> set[str]:
    """Return what the records of a kind are about."""
    columns = world.ledger.content.columns
    return {str(columns[stored.id].get(column)) for stored in world.ledger.find(noun, SPACE)}
