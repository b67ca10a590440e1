"""Participants that erase, from intent to tombstone, while others decide and distil.

Rules kept here:

- whoever erases is the product's retention officer over the ports of a participant; several may erase the same target;
- a target is an artifact that nothing rests on, evidence of an earlier trial, or the rule that was learnt meanwhile.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from evaluation.bench.corpus import SPACE
from evaluation.simulation import trials
from evaluation.simulation.lines import Line
from evaluation.simulation.roles import Role, passes, spine_of
from memory.erasing import ErasurePorts, ErasureRequest, RetentionOfficer
from records.evidence import Observation
from records.retention import ErasureIntent, ErasureReason
from records.values import Disposition

RAW: Final = b"raw material"
_LEARNT: Final = frozenset({Disposition.ACTIVE.value, Disposition.PROVISIONAL.value})


class Target(StrEnum):
    """What is erased."""

    ARTIFACT = "artifact"
    OBSERVATION = "observation"
    RULE = "rule"


def erase(target: Target) -> Role:
    """Return the role of erasing a target; where there is no rule yet, there is nothing to do."""
    return lambda line: passes(line, lambda: _erased(line, target))


def _erased(line: Line, target: Target) -> bool:
    """Carry an erasure to its end from wherever it stands."""
    named = _named(line, target)
    if named is None:
        return False
    officer = officer_of(line)
    asked = ErasureRequest(target=named, reason=ErasureReason.PRIVACY_REQUEST, incident=target.value, namespace=SPACE)
    officer.finish(officer.begin(asked))
    return True


def officer_of(line: Line) -> RetentionOfficer:
    """Return who erases, over the ports of a participant."""
    world = line.world
    ports = ErasurePorts(
        ledger=world.ledger,
        runtime=world.runtime,
        artifacts=line.artifacts,
        owner=line.owner,
        spine=spine_of(line),
        clock=world.clock,
    )
    return RetentionOfficer(ports)


def _named(line: Line, target: Target) -> str | None:
    """Return the target's id; an erasure that has begun names it for ever."""
    begun = line.world.ledger.find("retention-erasure-intent", SPACE, incident=target.value)
    if begun:
        intent = begun[0].load()
        return intent.target_id if isinstance(intent, ErasureIntent) else None
    if target is Target.ARTIFACT:
        return line.artifacts.publish_many([RAW])[0]
    if target is Target.OBSERVATION:
        made = trials.trial("earlier", 0, changed=True)
        return next(str(each.id) for each in made if isinstance(each, Observation))
    heads = line.world.ledger.variant_heads(SPACE).values()
    return next((head.memory_id for head in heads if head.disposition in _LEARNT), None)
