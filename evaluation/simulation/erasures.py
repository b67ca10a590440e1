"""Participants that erase, from intent to tombstone, while others decide and distil.

Rules kept here:

- an eraser goes on from what the Ledger holds of its target, so that several may erase the same one;
- its target is an artifact that nothing rests on, evidence of an earlier trial, or the rule that was learnt meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from evaluation.bench.corpus import SPACE
from evaluation.simulation import material, trials
from evaluation.simulation.lines import Line
from evaluation.simulation.material import POLICIES, TIMES
from evaluation.simulation.roles import Role, passes, spine_of
from memory.ports import all_good
from memory.retention import affected_indexes
from records.appends import Head, Proposal
from records.base import Record
from records.canonical import digest_bytes
from records.evidence import Observation
from records.flows import Authority, Transition
from records.ids import ErasureIntentId, EventId
from records.knowledge import EventType, LifecycleEvent, MemoryRecord
from records.retention import (
    Acknowledgement,
    AffectedArtifact,
    AffectedIndex,
    ErasureIntent,
    ErasureReason,
    ExternalMaterial,
    MemoryErasureIntent,
    MemoryTombstone,
    OtherErasureIntent,
    OtherTombstone,
    RetentionTombstone,
    TargetKind,
)
from records.runtime import RunBody
from records.states import Machine, Phase
from records.values import Disposition, ProofRef

RUN: Final = "erasure"
"""The admission key of the Run in which all erasures are made."""
_RAW: Final = digest_bytes(b"raw material")
_COPY: Final = digest_bytes(b"a copy of it")
_LEARNT: Final = frozenset({Disposition.ACTIVE.value, Disposition.PROVISIONAL.value})


class Target(StrEnum):
    """What is erased."""

    ARTIFACT = "artifact"
    OBSERVATION = "observation"
    RULE = "rule"


def run() -> RunBody:
    """Return the Run in which all erasures are made."""
    return material.study(RUN)


def erase(target: Target) -> Role:
    """Return the role of erasing a target; where there is no rule yet, there is nothing to do."""
    return lambda line: passes(line, lambda: _erased(line, target))


def _erased(line: Line, target: Target) -> bool:
    """Go one step of the erasure further; true once it is closed."""
    all_good(line.owner.apply([material.admitted(RUN, "erase")]))
    begun = _begun(line, target)
    if begun is None:
        records = _intended(line, target)
        if records:
            all_good(spine_of(line).carry([_proposal(line, Transition.BEGIN_ERASURE, str(records[-1].id), records)]))
        return False
    subject = line.world.runtime.subject(Machine.ERASURE, str(begun.id))
    if subject is not None and subject.phase is Phase.CLOSED:
        return True
    line.artifacts.publish_many([_proof(name) for name in ("erased", *begun.affected)])
    tombstone = (_tombstone(begun),)
    all_good(spine_of(line).carry([_proposal(line, Transition.CLOSE_ERASURE, str(begun.id), tombstone)]))
    return False


def _begun(line: Line, target: Target) -> ErasureIntent | None:
    found = line.world.ledger.find("retention-erasure-intent", SPACE, incident=target.value)
    loaded = (stored.load() for stored in found)
    return next((each for each in loaded if isinstance(each, ErasureIntent)), None)


def _intended(line: Line, target: Target) -> tuple[Record, ...]:
    """Return what an erasure begins with: the intent, and before it the end of the rule that is its target."""
    if target is Target.ARTIFACT:
        return (_other(line, TargetKind.ARTIFACT, _RAW, _RAW),)
    if target is Target.OBSERVATION:
        records = trials.trial("earlier", 0, changed=True)
        (observation,) = (each for each in records if isinstance(each, Observation))
        return (_other(line, TargetKind.OBSERVATION, str(observation.id), observation.payload_digest),)
    heads = line.world.ledger.variant_heads(SPACE).values()
    learnt = next((head for head in heads if head.disposition in _LEARNT), None)
    return () if learnt is None else _of_rule(line, learnt)


def _of_rule(line: Line, head: Head) -> tuple[Record, ...]:
    stored = line.world.ledger.get_many([head.memory_id, head.event_id])
    rule, last = stored[head.memory_id].load(), stored[head.event_id].load()
    if not isinstance(rule, MemoryRecord) or not isinstance(last, LifecycleEvent):
        return ()
    names = ("namespace", "created_at", "memory_id", "family_id", "scope_variant_id", "evidence_snapshot_id", "policy")
    event = LifecycleEvent(
        **{name: getattr(last, name) for name in names},
        event_type=EventType.RETRACTED,
        disposition=Disposition.RETRACTED,
        expected_prior=EventId(last.id),
        reasons=("erasure",),
        evidence_ids=(),
    )
    intent = MemoryErasureIntent(
        **_facts(line, Target.RULE, str(rule.id)),
        target_id=str(rule.id),
        target_digest=rule.payload_digest,
        retraction_event_id=EventId(event.id),
    )
    return event, intent


def _other(line: Line, kind: Any, target_id: str, digest: str) -> OtherErasureIntent:
    facts = _facts(line, Target(kind.value), target_id)
    return OtherErasureIntent(**facts, target_kind=kind, target_id=target_id, target_digest=digest)


def _facts(line: Line, target: Target, target_id: str) -> dict[str, Any]:
    with line.world.ledger.reading() as reader:
        builds = affected_indexes(reader, SPACE, target_id)
    return {
        "namespace": SPACE,
        "created_at": TIMES[0],
        "incident": target.value,
        "reason": ErasureReason.PRIVACY_REQUEST,
        "material": ExternalMaterial(store="artifacts", object_ref=f"raw/{target}", generation=1),
        "affected_indexes": tuple(
            AffectedIndex.build(index_build_id=build.id, digest=build.payload_digest) for build in builds
        ),
        "affected_artifacts": (AffectedArtifact(sha256=_COPY),),
        "policy": POLICIES.lifecycle.identity,
    }


def _tombstone(intent: ErasureIntent) -> RetentionTombstone:
    names = ("namespace", "created_at", "incident", "target_id", "target_digest", "reason")
    fields: dict[str, Any] = {name: getattr(intent, name) for name in names} | {
        "intent_id": ErasureIntentId(intent.id),
        "erasure_receipt": ProofRef(ref="erasure", digest=digest_bytes(_proof("erased"))),
        "acknowledgements": tuple(
            Acknowledgement(affected=name, proof=ProofRef(ref="gone", digest=digest_bytes(_proof(name))))
            for name in intent.affected
        ),
    }
    if isinstance(intent, MemoryErasureIntent):
        return MemoryTombstone(**fields, retraction_event_id=intent.retraction_event_id)
    return OtherTombstone.build(**fields, target_kind=intent.target_kind)


def _proof(name: str) -> bytes:
    return f"gone: {name}".encode()


def _proposal(line: Line, transition: Transition, intent_id: str, records: Sequence[Record]) -> Proposal:
    subject = line.world.runtime.subject(Machine.ERASURE, intent_id)
    return Proposal(
        namespace=SPACE,
        transition=transition,
        authority=Authority.RETENTION,
        machine=Machine.ERASURE,
        subject_id=intent_id,
        run_id=run().id,
        generation=subject.generation if subject else 1,
        fence=subject.fence if subject else 1,
        records=Proposal.bodies(tuple(records)),
    )
