"""What is fixed about memory before a Run decides anything: profiles, and which arm has which (spec 4.2, 9.7).

Both are published artifacts. A Run that takes decisions is admitted with the digest of its arm manifest as its
specification, and each of its intents carries the binding of its own arm; so a decision cannot say of itself whether it
was to have memory.

A profile names one mode of the six (spec 18), and an arm has one profile: a decision has exactly one way to memory.
What a mode does is `policies/modes.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from records.canonical import parse_canonical
from records.errors import IntegrityError
from records.fields import Digest, Name
from records.ids import RecallInputId
from records.models import Model
from records.values import GovernanceBinding, PolicyIdentity, RecallRequirement


class _Published(Model):
    @classmethod
    def read(cls, data: bytes, digest: str) -> Self:
        """Read what was published under a digest.

        Raises:
            InvalidRecordError: the bytes are nothing of this kind.
            IntegrityError: they are not in canonical form.
        """
        found = cls.load(data)
        if found.canonical != data or found.canonical_digest != digest:
            raise IntegrityError(cls.__name__, digest, "The artifact is not in canonical form.")
        return found


class Mode(StrEnum):
    """How a Run uses memory; the modes exclude each other (spec 18)."""

    OFF = "off"
    RECORD_ONLY = "record_only"
    LEGACY_RECALL = "legacy_recall"
    MEMORY_SHADOW = "memory_shadow"
    DECISION_MEMORY = "decision_memory"
    FROZEN_MEMORY = "frozen_memory"


class MemoryProfile(_Published):
    """How memory is used in decisions of one kind: the mode, and the policy of retrieval."""

    profile_ref: Name
    mode: Mode
    retrieval_policy: PolicyIdentity

    @model_validator(mode="after")
    def _frozen_names_its_input(self) -> MemoryProfile:
        if (self.mode is Mode.FROZEN_MEMORY) != isinstance(self, FrozenMemoryProfile):
            raise ValueError("frozen_memory, and no other mode, names the one Recall Input that it queries")
        return self


class FrozenMemoryProfile(MemoryProfile):
    """Frozen memory: every decision queries this one Recall Input, and nothing changes what it holds."""

    mode: Literal[Mode.FROZEN_MEMORY] = Mode.FROZEN_MEMORY
    recall_input_id: RecallInputId


def read_profile(data: bytes, digest: str) -> MemoryProfile:
    """Read a published profile; that of frozen memory comes with its Recall Input.

    Raises:
        InvalidRecordError: the bytes are no profile.
        IntegrityError: they are not in canonical form.
    """
    content = parse_canonical(data)
    is_frozen = isinstance(content, dict) and content.get("mode") == Mode.FROZEN_MEMORY
    return (FrozenMemoryProfile if is_frozen else MemoryProfile).read(data, digest)


class ArmAssignment(Model):
    """What one arm was admitted with; `arm` is None where a study has no arms."""

    arm: Name | None
    profile_ref: Name
    profile_digest: Digest
    recall_requirement: RecallRequirement

    @classmethod
    def of(cls, arm: str | None, profile: MemoryProfile, requirement: RecallRequirement) -> Self:
        """Return the assignment of a profile to an arm."""
        return cls(
            arm=arm,
            profile_ref=profile.profile_ref,
            profile_digest=profile.canonical_digest,
            recall_requirement=requirement,
        )


class ArmManifest(_Published):
    """The arms of a study; `specification` is the digest of whatever else its Runs were specified by."""

    study: Name
    specification: Digest
    arms: tuple[ArmAssignment, ...]

    @model_validator(mode="after")
    def _each_arm_once(self) -> ArmManifest:
        if len({each.arm for each in self.arms}) != len(self.arms):
            raise ValueError("a manifest names an arm once")
        return self

    def binding(self, arm: str | None) -> GovernanceBinding:
        """Return what every intent of an arm carries.

        Raises:
            IntegrityError: the manifest has no such arm.
        """
        found = next((each for each in self.arms if each.arm == arm), None)
        if found is None:
            raise IntegrityError("intent.arm", arm, f"The admitted arms are {[each.arm for each in self.arms]}.")
        return GovernanceBinding(
            profile_ref=found.profile_ref,
            profile_digest=found.profile_digest,
            assignment_manifest_digest=self.canonical_digest,
            recall_requirement=found.recall_requirement,
        )
