"""What an erasure affects: the complete intent, before anything is written (spec 4.15, 15; docs/retention.md).

Rules kept here:

- a target is a record by any unambiguous beginning of its id, or an artifact by its whole digest; only material is
  erased, never the proposals, proofs and events that the stores rest on;
- the material of an observation or an experience is the artifact bytes that it alone refers to: bytes that another
  record needs, which is not denied, stay; the artifact that is a target itself goes, whoever names it;
- every index build that rests on the target is affected, and the bytes of its index go, whoever names them; so do the
  bytes of every reference index and Reference Context that hold something of a reference source, of every prompt
  section with a card that rests on the target, and of the lessons of the earlier design that were learnt from it;
- a rule or procedure is retracted by the legal step of the Lifecycle Policy, and by no other.

Reads only: a dry run is this function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from memory.erasing.copies import copies_of
from memory.material import Denied, Need, Use, material_of, needs
from memory.retention import affected_indexes, affected_references, affected_sections
from policies.lifecycle_policy import lifecycle_policy, next_disposition
from policies.retention import retention_policy
from records.base import Record
from records.canonical import is_digest
from records.errors import (
    AmbiguousIdError,
    IdentityConflictError,
    IllegalTransitionError,
    InvalidInputError,
    NotFoundError,
    StaleError,
)
from records.evidence import Experience
from records.ids import EventId, IndexBuildId
from records.knowledge import EventType, GovernedRecord, LifecycleEvent
from records.models import noun_of
from records.retention import (
    AffectedArtifact,
    AffectedIndex,
    ErasureIntent,
    ErasureReason,
    ExternalMaterial,
    MemoryErasureIntent,
    OtherErasureIntent,
    TargetKind,
)
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

_STORE: Final = "artifacts"
_GENERATION: Final = 1
"""Bytes under a digest never change, so there is one generation of them."""
_KINDS: Final = frozenset(kind.value for kind in TargetKind)


@dataclass(frozen=True, kw_only=True)
class ErasureRequest:
    """What somebody asks to be erased; a namespace is needed only for an artifact that several or no records name."""

    target: str
    reason: ErasureReason
    incident: str
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class ErasurePlan:
    """An erasure as it will begin, or has begun.

    Attributes:
        retraction: the lifecycle event to be appended with the intent, if one is needed.
        kept: bytes of the target that stay, each with who needs it.
        begun: whether the intent is in the Ledger already.
    """

    intent: ErasureIntent
    retraction: LifecycleEvent | None = None
    kept: tuple[Need, ...] = ()
    begun: bool = False

    @property
    def records(self) -> tuple[Record, ...]:
        """What is appended to begin it."""
        return (self.intent,) if self.retraction is None else (self.retraction, self.intent)

    def at(self, moment: str) -> ErasurePlan:
        """Return the plan with another time in its records; their ids stay."""
        event = self.retraction
        moved = None if event is None else event.model_copy(update={"created_at": moment})
        return replace(self, intent=self.intent.model_copy(update={"created_at": moment}), retraction=moved)


@dataclass(frozen=True)
class _Target:
    namespace: str
    kind: TargetKind
    id: str
    digest: str
    record: Record | None


def plan(
    reader: LedgerReader, runtime: RuntimeReader, artifacts: ArtifactStore, request: ErasureRequest, now: str
) -> ErasurePlan:
    """Return the erasure that a request asks for; `reader` must be of one moment.

    Raises:
        NotFoundError: no record and no artifact is called so.
        AmbiguousIdError: several records are.
        InvalidInputError: it is nothing that can be erased, or its namespace must be named.
        InvalidRecordError: the incident is no name.
        StaleError: its erasure has begun under another incident.
        IdentityConflictError: the incident has begun it for another reason.
        IllegalTransitionError: the Lifecycle Policy has no step that retracts the rule from where it stands.
    """
    target = _target(reader, runtime, artifacts, request)
    if (earlier := _earlier(reader, target, request)) is not None:
        return ErasurePlan(intent=earlier, begun=True)
    builds = affected_indexes(reader, target.namespace, target.id)
    own, kept = _own_bytes(reader, runtime, target)
    derived = [*builds, *affected_references(reader, target.namespace, target.id)]
    digests = own.union(*map(material_of, derived))
    digests |= set(affected_sections(reader, target.namespace, target.id))
    digests |= copies_of(reader, artifacts, target.id).digests
    fields: dict[str, Any] = {
        "namespace": target.namespace,
        "created_at": now,
        "incident": request.incident,
        "target_kind": target.kind,
        "target_id": target.id,
        "target_digest": target.digest,
        "reason": request.reason,
        "material": ExternalMaterial(store=_STORE, object_ref=target.id, generation=_GENERATION),
        "affected_indexes": tuple(
            AffectedIndex(index_build_id=IndexBuildId(build.id), digest=build.payload_digest) for build in builds
        ),
        "affected_artifacts": tuple(AffectedArtifact(sha256=each) for each in sorted(digests)),
        "policy": retention_policy().identity,
    }
    if not isinstance(target.record, GovernedRecord):
        return ErasurePlan(intent=OtherErasureIntent.build(**fields), kept=kept)
    event_id, event = _retraction(reader, target.record, request, now)
    intent = MemoryErasureIntent.build(**fields, retraction_event_id=event_id)
    return ErasurePlan(intent=intent, retraction=event, kept=kept)


def _target(reader: LedgerReader, runtime: RuntimeReader, artifacts: ArtifactStore, request: ErasureRequest) -> _Target:
    wanted = request.target.strip().lower()
    named = reader.resolve(wanted)
    if is_digest(wanted) and not named:
        return _artifact(needs(reader, runtime, [wanted]), wanted, request.namespace, held=_was_kept(artifacts, wanted))
    found = [each for each in named if noun_of(each) in _KINDS]
    if len(found) > 1:
        raise AmbiguousIdError("target", request.target, f"It begins {len(found)} or more ids: {', '.join(found[:3])}.")
    if not found:
        remedy = f"Name one of: {', '.join(sorted(_KINDS))}; an artifact by its whole digest."
        raise (InvalidInputError if named else NotFoundError)("target", named[0] if named else request.target, remedy)
    record = reader.get_many(found)[found[0]].load()
    if request.namespace not in (None, record.namespace):
        raise NotFoundError("target", found[0], f"It is of namespace {record.namespace}.")
    kind = TargetKind(noun_of(found[0]))
    return _Target(record.namespace, kind, found[0], record.payload_digest, record)


def _was_kept(artifacts: ArtifactStore, digest: str) -> bool:
    """Tell whether bytes are there, or were until an erasure, which may have to be finished."""
    return artifacts.holds(digest) or artifacts.erased(digest)


def _artifact(found: Iterable[Need], digest: str, namespace: str | None, *, held: bool) -> _Target:
    uses = list(found)
    for need in uses:
        if need.use is Use.PROTOCOL:
            remedy = f"{need.holder} rests on it; only what was observed, built or imported is erased."
            raise InvalidInputError("target", digest, remedy)
    if not uses and not held:
        raise NotFoundError("target", digest, "No record begins so, and no such artifact is kept or named.")
    spaces = sorted({need.namespace for need in uses if need.namespace is not None})
    if namespace is None and len(spaces) != 1:
        where = f"Records of {', '.join(spaces)} name it" if spaces else "No record names it"
        raise InvalidInputError("namespace", "none given", f"{where}; say in which namespace it is erased.")
    return _Target(namespace or spaces[0], TargetKind.ARTIFACT, digest, digest, None)


def _earlier(reader: LedgerReader, target: _Target, request: ErasureRequest) -> ErasureIntent | None:
    stored = reader.find(ErasureIntent.kind.noun, target.namespace, target_id=target.id)
    intent = stored[0].load() if stored else None
    if not isinstance(intent, ErasureIntent):
        return None
    if intent.incident != request.incident:
        raise StaleError("target", target.id, f"Its erasure has begun as {intent.incident}; finish that incident.")
    if intent.reason is not request.reason:
        raise IdentityConflictError("reason", request.reason.value, f"The incident began for {intent.reason.value}.")
    return intent


def _own_bytes(reader: LedgerReader, runtime: RuntimeReader, target: _Target) -> tuple[set[str], tuple[Need, ...]]:
    """Return the bytes of a record that go with it, and those that stay, each with one who needs it."""
    if target.record is None:
        return set(), ()
    parts = [target.record]
    if isinstance(target.record, Experience):
        parts += [stored.load() for stored in reader.get_many([target.record.observation_id]).values()]
    digests = {digest for part in parts for digest in material_of(part)}
    mine, denied = {str(part.id) for part in parts}, Denied(reader)
    kept: dict[str, Need] = {}
    for need in needs(reader, runtime, digests):
        if need.holder not in mine and need.use is not Use.HELD and not denied.denies(need):
            kept.setdefault(need.digest, need)
    return digests - kept.keys(), tuple(kept[digest] for digest in sorted(kept))


def _retraction(
    reader: LedgerReader, record: GovernedRecord, request: ErasureRequest, now: str
) -> tuple[EventId, LifecycleEvent | None]:
    """Return the event that ended a record, or the one that is to end it now."""
    variant, space = str(record.scope_variant_id), record.namespace
    stored = reader.find(LifecycleEvent.kind.noun, space, scope_variant_id=variant)
    chain = [event for item in stored if isinstance(event := item.load(), LifecycleEvent)]
    last = next((event for event in reversed(chain) if event.memory_id == record.id), None)
    if last is not None and last.event_type is EventType.RETRACTED:
        return EventId(last.id), None
    disposition = next_disposition(None if last is None else last.disposition, EventType.RETRACTED)
    head = reader.variant_heads(space, [variant]).get(variant)
    if last is None or head is None or head.event_id != last.id:
        taken = "nothing" if head is None else head.memory_id
        raise IllegalTransitionError("memory_id", record.id, f"It heads its variant no longer; {taken} does.")
    event = LifecycleEvent.build(
        namespace=space,
        created_at=now,
        memory_id=last.memory_id,
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_type=EventType.RETRACTED,
        disposition=disposition,
        expected_prior=EventId(last.id),
        reasons=("erasure", request.reason.value),
        evidence_ids=(),
        evidence_snapshot_id=last.evidence_snapshot_id,
        policy=lifecycle_policy().identity,
    )
    return EventId(event.id), event
