"""Retention: the first and the last fact of an erasure (spec 4.15, 15).

Rules kept here:

- an intent denies its target from its journal position on, a tombstone goes on denying it; neither is ever undone;
- what is erased is material outside the Ledger: the canonical row, its ids, digests and journal stay;
- a memory record is retracted in the same append that opens its erasure, so intent and tombstone name that event; what
  has no lifecycle says so with a type of its own and a null;
- the tombstone repeats its intent, and holds the receipt of the erasure and an acknowledgement for each affected index
  build and artifact as reference and digest;
- what stands behind such a digest is a typed proof of the Runtime: it names the one object that it is about, and its
  place among the proofs of its erasure, so that a foreign, swapped or reordered one does not fit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import model_validator

from records.base import Child, Frontier, Kind, Record
from records.canonical import is_digest
from records.fields import Digest, Name, Namespace, Timestamp
from records.ids import ErasureIntentId, EventId, IndexBuildId
from records.models import Model
from records.values import Count, PolicyIdentity, ProofRef


class TargetKind(StrEnum):
    """What can be erased: the material of a record of this noun, or an artifact by its digest."""

    MEMORY = "memory-record"
    HYPOTHESIS = "hypothesis"
    ATTEMPT = "attempt"
    OBSERVATION = "observation"
    VERIFICATION = "verification"
    EXPERIENCE = "experience"
    REFERENCE = "reference-source"
    NODE_REPORT = "node-report"
    LINEAGE_ENTRY = "lineage-entry"
    ARTIFACT = "artifact"


class ErasureReason(StrEnum):
    """Why material is erased."""

    PRIVACY_REQUEST = "privacy_request"
    LEGAL_ORDER = "legal_order"
    LICENCE_WITHDRAWN = "licence_withdrawn"
    SECURITY_INCIDENT = "security_incident"
    RETENTION_EXPIRED = "retention_expired"


class Retraction(StrEnum):
    """Whether the target has a lifecycle that the erasure must end."""

    LIFECYCLE_EVENT = "lifecycle_event"
    NOT_APPLICABLE = "not_applicable"


class ExternalMaterial(Model):
    """The exact object outside the Ledger that is to be erased: who keeps it, its name there, its generation."""

    store: Name
    object_ref: Name
    generation: Count


class AffectedIndex(Model):
    """An index build that holds something of the target, with the digest of its receipt."""

    index_build_id: IndexBuildId
    digest: Digest


class AffectedArtifact(Model):
    """An artifact that holds something of the target."""

    sha256: Digest


class ErasureIntent(
    Record,
    kind=Kind(
        noun="retention-erasure-intent",
        table="retention_erasure_intents",
        frontier=Frontier.RETENTION,
        columns=("incident", "target_kind", "target_id"),
        unique=(("namespace", "target_id"),),
        children=(
            Child(
                path="affected_indexes",
                table="retention_affected_indexes",
                columns=("index_build_id", "digest"),
                unique=("index_build_id",),
            ),
            Child(
                path="affected_artifacts",
                table="retention_affected_artifacts",
                columns=("sha256",),
                unique=("sha256",),
            ),
        ),
        discriminator="retraction",
    ),
):
    """What every erasure begins with; open until its tombstone. One target has one, so no erasure is begun twice."""

    incident: Name
    target_kind: TargetKind
    target_id: Name
    target_digest: Digest
    reason: ErasureReason
    retraction: Retraction
    retraction_event_id: EventId | None
    material: ExternalMaterial
    affected_indexes: tuple[AffectedIndex, ...]
    affected_artifacts: tuple[AffectedArtifact, ...]
    policy: PolicyIdentity

    @model_validator(mode="after")
    def _affected_is_sorted(self) -> ErasureIntent:
        affected = self.affected
        indexes, artifacts = affected[: len(self.affected_indexes)], affected[len(self.affected_indexes) :]
        if indexes != sorted(set(indexes)) or artifacts != sorted(set(artifacts)):
            raise ValueError("affected index builds and artifacts are sorted, each named once")
        return self

    @property
    def affected(self) -> list[str]:
        """Everything whose invalidation must be acknowledged: index builds, then artifacts."""
        return [*map(str, (part.index_build_id for part in self.affected_indexes)),
                *(part.sha256 for part in self.affected_artifacts)]  # fmt: skip

    @property
    def erased_bytes(self) -> list[str]:
        """The digests of all bytes that the erasure removes: the affected artifacts, and the target if it is one."""
        own = {self.target_id} if self.target_kind is TargetKind.ARTIFACT else set()
        return sorted(own.union(part.sha256 for part in self.affected_artifacts))


class MemoryErasureIntent(ErasureIntent):
    """The intent to erase the material of a rule or procedure, which is retracted in the same append."""

    target_kind: Literal[TargetKind.MEMORY] = TargetKind.MEMORY
    retraction: Literal[Retraction.LIFECYCLE_EVENT] = Retraction.LIFECYCLE_EVENT
    retraction_event_id: EventId


OtherTarget = Literal[
    TargetKind.HYPOTHESIS,
    TargetKind.ATTEMPT,
    TargetKind.OBSERVATION,
    TargetKind.VERIFICATION,
    TargetKind.EXPERIENCE,
    TargetKind.REFERENCE,
    TargetKind.NODE_REPORT,
    TargetKind.LINEAGE_ENTRY,
    TargetKind.ARTIFACT,
]
"""The targets that have no lifecycle."""


class OtherErasureIntent(ErasureIntent):
    """The intent to erase material of something that has no lifecycle."""

    target_kind: OtherTarget
    retraction: Literal[Retraction.NOT_APPLICABLE] = Retraction.NOT_APPLICABLE
    retraction_event_id: None = None


class Acknowledgement(Model):
    """The proof that one affected index build or artifact was invalidated."""

    affected: IndexBuildId | Digest
    proof: ProofRef


class ErasureOperation(StrEnum):
    """What was done to an object."""

    ERASED = "ERASED"
    INVALIDATED = "INVALIDATED"

    @classmethod
    def of(cls, object_ref: str) -> ErasureOperation:
        """Return what is done to an affected object: bytes are erased, an index build is denied for ever."""
        return cls.ERASED if is_digest(object_ref) else cls.INVALIDATED


class TerminalState(StrEnum):
    """What an object is in for ever after."""

    GONE = "GONE"
    DENIED = "DENIED"


_STATES = {ErasureOperation.ERASED: TerminalState.GONE, ErasureOperation.INVALIDATED: TerminalState.DENIED}


class ErasureProof(Model):
    """The Runtime's proof of what became of one object of an erasure; published as an artifact before the tombstone.

    Attributes:
        target_id: the target of the erasure, with the digest that the intent binds.
        object_ref: the object: the target itself for its material, or one affected index build or artifact.
        generation: which generation of the object it was.
        sequence: its place among the proofs of the erasure, from one: the receipt, then every affected object in order.
        at: when the object was found in its terminal state.
    """

    namespace: Namespace
    incident: Name
    intent_id: ErasureIntentId
    target_id: Name
    target_digest: Digest
    object_ref: Name
    generation: Count
    operation: ErasureOperation
    state: TerminalState
    sequence: Count
    at: Timestamp

    @model_validator(mode="after")
    def _ends_so(self) -> ErasureProof:
        if self.state is not _STATES[self.operation]:
            raise ValueError("what is erased is GONE, what is invalidated is DENIED")
        return self

    @classmethod
    def about(cls, intent: ErasureIntent, at: str) -> list[ErasureProof]:
        """Return every proof of an erasure, in order: that of the target's material, then each affected object's."""
        objects = [(intent.target_id, ErasureOperation.ERASED)]
        objects += [(each, ErasureOperation.of(each)) for each in intent.affected]
        return [
            cls(
                namespace=intent.namespace,
                incident=intent.incident,
                intent_id=ErasureIntentId(intent.id),
                target_id=intent.target_id,
                target_digest=intent.target_digest,
                object_ref=object_ref,
                generation=intent.material.generation,
                operation=operation,
                state=_STATES[operation],
                sequence=sequence,
                at=at,
            )
            for sequence, (object_ref, operation) in enumerate(objects, start=1)
        ]


class RetentionTombstone(
    Record,
    kind=Kind(
        noun="memory-retention-tombstone",
        table="memory_retention_tombstones",
        frontier=Frontier.RETENTION,
        columns=("incident", "target_kind", "target_id"),
        unique=(("intent_id",),),
        discriminator="retraction",
    ),
):
    """What every erasure ends with: the lasting denial of a target whose material is gone, with every proof of it."""

    intent_id: ErasureIntentId
    incident: Name
    target_kind: TargetKind
    target_id: Name
    target_digest: Digest
    reason: ErasureReason
    retraction: Retraction
    retraction_event_id: EventId | None
    erasure_receipt: ProofRef
    acknowledgements: tuple[Acknowledgement, ...]

    @model_validator(mode="after")
    def _acknowledged_once(self) -> RetentionTombstone:
        named = [part.affected for part in self.acknowledgements]
        if len(named) != len(set(named)):
            raise ValueError("each affected index build or artifact is acknowledged once")
        return self

    @property
    def proofs(self) -> tuple[ProofRef, ...]:
        """Every proof that the tombstone rests on."""
        return (self.erasure_receipt, *(part.proof for part in self.acknowledgements))

    @property
    def objects(self) -> tuple[str, ...]:
        """What each of the proofs must be about, in the same order."""
        return (self.target_id, *(part.affected for part in self.acknowledgements))


class MemoryTombstone(RetentionTombstone):
    """The tombstone of a rule or procedure."""

    target_kind: Literal[TargetKind.MEMORY] = TargetKind.MEMORY
    retraction: Literal[Retraction.LIFECYCLE_EVENT] = Retraction.LIFECYCLE_EVENT
    retraction_event_id: EventId


class OtherTombstone(RetentionTombstone):
    """The tombstone of something that has no lifecycle."""

    target_kind: OtherTarget
    retraction: Literal[Retraction.NOT_APPLICABLE] = Retraction.NOT_APPLICABLE
    retraction_event_id: None = None
