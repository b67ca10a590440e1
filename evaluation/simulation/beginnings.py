"""What schedules begin with; each beginning is made once, by the same roles without faults."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

from evaluation.bench.corpus import CONTRACT
from evaluation.simulation import material, roles, trials
from evaluation.simulation.faults import Fate, Step
from evaluation.simulation.lines import Line
from evaluation.simulation.strands import Straight
from evaluation.simulation.world import Beginning, HeldArtifacts, OpenLedger, OpenRuntime, Parts, World
from memory.coordinator import CommitCoordinator
from memory.ports import all_good
from records.appends import Append
from records.canonical import digest_bytes
from records.flows import Transition

_RUBBISH: Final = b"what nobody needs"


class Begins(StrEnum):
    """What is there when a schedule begins."""

    EMPTY = "a Recall Input over nothing"
    ASSIGNED = "two items, assigned and not distilled"
    EVIDENCE = "earlier trials"


@lru_cache(maxsize=len(Begins))
def beginning(begins: Begins) -> Beginning:
    """Return what a schedule begins with."""
    if begins is Begins.ASSIGNED:
        return _assigned()
    ledger, artifacts = OpenLedger(), HeldArtifacts({})
    coordinator = CommitCoordinator(ledger, OpenRuntime(), artifacts, "simulation")
    appends, index = material.recall_input()
    made = [Append.direct(transition, key, (record,)) for transition, key, record in appends]
    made.append(Append.direct(Transition.APPEND_EVIDENCE, "contract", (CONTRACT,)))
    if begins is Begins.EVIDENCE:
        earlier = [trials.trial("earlier", task, changed=changed) for task in range(2) for changed in (False, True)]
        earlier += [trials.trial("earlier", task, changed=False) for task in (2, 3, 4)]
        made += [Append.direct(Transition.APPEND_EVIDENCE, f"trial/{each[-1].id}", each) for each in earlier]
    all_good(coordinator.append_direct(made))
    return Beginning(ledger.content, {digest_bytes(data): data for data in (index, material.ANSWER, _RUBBISH)})


def _assigned() -> Beginning:
    world = World(Parts(), beginning(Begins.EVIDENCE))
    straight: Straight[Step, Fate] = Straight("beginning", Fate(), lambda: None)
    line = Line(world, straight, lambda *_told: None, lambda *_posted: None)
    for number, name in enumerate(trials.SWEEPS):
        run = material.study(name)
        roles.append_evidence(run, (trials.trial(name, 2 + number, changed=True),))(line)
        roles.ingest(run)(line)
    roles.project(line)
    roles.capture(line)
    return Beginning(world.ledger.content, world.artifacts.content, world.runtime.content)
