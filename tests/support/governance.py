"""What the Runs of tests are admitted with: one memory profile, and the manifest of two arms."""

from __future__ import annotations

from functools import cache

from policies.retrieval_policy import retrieval_policy
from records.governance import ArmAssignment, ArmManifest, MemoryProfile, Mode
from records.values import RecallRequirement
from store.artifacts import ArtifactStore
from tests.support.trials import digest


@cache
def profile() -> MemoryProfile:
    """Return the memory profile."""
    return MemoryProfile(profile_ref="study", mode=Mode.DECISION_MEMORY, retrieval_policy=retrieval_policy().identity)


@cache
def manifest(memory: RecallRequirement = RecallRequirement.REQUIRED) -> ArmManifest:
    """Return the manifest; `memory` is what the arm of that name is assigned, the others say what they are."""
    assigned = {
        "control": RecallRequirement.REGISTERED_NOT_REQUESTED,
        "memory": memory,
        "required": RecallRequirement.REQUIRED,
    }
    arms = tuple(ArmAssignment.of(arm, profile(), each) for arm, each in assigned.items())
    return ArmManifest(study="study", specification=digest("specification"), arms=arms)


def publish_admitted(artifacts: ArtifactStore, memory: RecallRequirement = RecallRequirement.REQUIRED) -> None:
    """Publish what a Run rests on before it is admitted."""
    artifacts.publish_many([profile().canonical, manifest(memory).canonical])
