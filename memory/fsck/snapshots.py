"""Snapshots and what is built on them: members of their own moment, and names that fit together (spec 4.11 to 4.13).

Members are checked in groups, so that a snapshot of many members is no burden beyond its own payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from records.ingestion import CaptureOperation, EvidenceSnapshot
from records.knowledge import LifecycleEvent, MemoryRecord
from records.snapshots import IndexBuild, KnowledgeMember, KnowledgeSnapshot, RecallInput

_GROUP: Final = 500


def check_snapshots(case: Case, chunk: Chunk) -> None:
    """Check the snapshots, captures, index builds and recall inputs of a stretch of journal."""
    places = {row.id: row.position for row in chunk.rows}
    for key, evidence in chunk.of(EvidenceSnapshot).items():
        _check_evidence(case, key, evidence, places[key])
    for key, knowledge in chunk.of(KnowledgeSnapshot).items():
        _check_knowledge(case, key, knowledge, places[key])
    _check_captures(case, chunk)
    _check_builds(case, chunk)
    _check_inputs(case, chunk)


def _check_evidence(case: Case, key: str, snapshot: EvidenceSnapshot, own: int) -> None:
    add, cut = case.findings.add, snapshot.evidence_position
    if cut >= own:
        add(Code.SNAPSHOT_MEMBER, key, f"it claims the evidence of position {cut} and stands at {own}")
    for start in range(0, len(snapshot.members), _GROUP):
        places = case.places(member.experience_id for member in snapshot.members[start : start + _GROUP])
        for name in sorted(name for name, place in places.items() if place.position > cut):
            add(Code.SNAPSHOT_MEMBER, key, f"{name} came after its position {cut}")


def _check_knowledge(case: Case, key: str, snapshot: KnowledgeSnapshot, own: int) -> None:
    cut = snapshot.lifecycle_position
    if cut >= own:
        case.findings.add(Code.SNAPSHOT_MEMBER, key, f"it claims the heads of position {cut} and stands at {own}")
    variants = {member.scope_variant_id for member in snapshot.members}
    if len(variants) != len(snapshot.members):
        case.findings.add(Code.SNAPSHOT_MEMBER, key, "a scope variant has two members (VRM-L02)")
    for start in range(0, len(snapshot.members), _GROUP):
        for fault in _member_faults(case, snapshot, snapshot.members[start : start + _GROUP]):
            case.findings.add(Code.SNAPSHOT_MEMBER, key, fault)


def _member_faults(case: Case, snapshot: KnowledgeSnapshot, members: Sequence[KnowledgeMember]) -> Iterator[str]:
    """Yield the members that were not the heads of their scope variants at the snapshot's position."""
    cut = snapshot.lifecycle_position
    names = [str(member.event_id) for member in members]
    events, places = case.read(names, LifecycleEvent), case.places(names)
    following = _following(case, snapshot.namespace, names)
    for member in members:
        name = str(member.event_id)
        event, place = events.get(name), places.get(name)
        if event is None or place is None:
            continue  # a reference that leads nowhere is another check's finding
        own = (event.scope_variant_id, event.family_id, event.memory_id, event.disposition)
        if own != (member.scope_variant_id, member.family_id, member.memory_id, member.disposition):
            yield f"{name} is not about its member {member.memory_id}"
        if place.position > cut:
            yield f"{name} came after its position {cut}"
        if following.get(name, cut + 1) <= cut:
            yield f"{name} was no longer the head at position {cut}"


def _following(case: Case, namespace: str, names: list[str]) -> dict[str, int]:
    """Return the positions of the events that consume those given, by the event that is consumed."""
    events = case.find(LifecycleEvent, namespace, "expected_prior", names)
    places = case.places(events)
    return {str(event.expected_prior): places[key].position for key, event in events.items() if key in places}


def _check_captures(case: Case, chunk: Chunk) -> None:
    captures = chunk.of(CaptureOperation)
    snapshots = case.read((each.snapshot_id for each in captures.values()), EvidenceSnapshot)
    for key, capture in captures.items():
        snapshot = snapshots.get(str(capture.snapshot_id))
        if snapshot is not None and snapshot.evidence_position != capture.evidence_position:
            met = f"it chose position {capture.evidence_position}, its snapshot is of {snapshot.evidence_position}"
            case.findings.add(Code.CAPTURE_MISMATCH, key, met)


def _check_builds(case: Case, chunk: Chunk) -> None:
    builds = chunk.of(IndexBuild)
    snapshots = case.read((each.knowledge_snapshot_id for each in builds.values()), KnowledgeSnapshot)
    for key, build in builds.items():
        snapshot = snapshots.get(str(build.knowledge_snapshot_id))
        if snapshot is not None and build.document_count != _documents(case, snapshot, build.document_count):
            met = f"{build.document_count} documents of a snapshot of {len(snapshot.members)} members"
            case.findings.add(Code.INDEX_MISMATCH, key, met)


def _documents(case: Case, snapshot: KnowledgeSnapshot, told: int) -> int:
    """Return how many members of a snapshot are indexed: the rules; they are read only where not all members are."""
    if told == len(snapshot.members):
        return told
    names = [str(member.memory_id) for member in snapshot.members]
    groups = (names[start : start + _GROUP] for start in range(0, len(names), _GROUP))
    return sum(len(case.read(group, MemoryRecord)) for group in groups)


def _check_inputs(case: Case, chunk: Chunk) -> None:
    inputs = chunk.of(RecallInput)
    builds = case.read((ref.index_build_id for each in inputs.values() for ref in each.index_builds), IndexBuild)
    for key, recall_input in inputs.items():
        own = (recall_input.knowledge_snapshot_id, recall_input.evidence_snapshot_id)
        for ref in recall_input.index_builds:
            build = builds.get(str(ref.index_build_id))
            if build is None:
                continue
            if build.payload_digest != ref.digest:
                case.findings.add(Code.INDEX_MISMATCH, key, f"{ref.index_build_id} has other bytes than it binds")
            if (build.knowledge_snapshot_id, build.evidence_snapshot_id) != own:
                case.findings.add(Code.INDEX_MISMATCH, key, f"{ref.index_build_id} is of another snapshot")
