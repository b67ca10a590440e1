"""The proof behind the admission of a decision: its Run, the arm manifest and the memory profile (spec 9.7).

Both sides of the spine ask: the run owner before it grants, the coordinator before it opens the Ledger transaction. The
Ledger keeps the binding that was checked here, and every Outcome is held against it.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.modes import may_require
from records.base import Record
from records.decisions import DecisionIntent
from records.errors import IntegrityError, NotFoundError
from records.governance import ArmManifest, read_profile
from records.runtime import RunBody, Subject
from records.values import RecallRequirement
from store.artifacts import ArtifactStore


def require_admitted(artifacts: ArtifactStore, records: Iterable[Record], run: Subject | None) -> None:
    """Check that each intent carries what its Run was admitted with for its arm; `run` is as the Runtime holds it.

    Raises:
        NotFoundError: the Run was never admitted, or manifest or profile never published.
        InvalidRecordError: the bytes are no manifest or no profile.
        IntegrityError: the Run was admitted with another manifest, which has no such arm or says another thing of it,
            or the arm requires what its mode does not give (spec 18).
    """
    for intent in records:
        if isinstance(intent, DecisionIntent):
            _require(artifacts, intent, run)


def _require(artifacts: ArtifactStore, intent: DecisionIntent, run: Subject | None) -> None:
    if run is None:
        raise NotFoundError("run", intent.run_id, "It was never admitted; admit it first.")
    governance, admitted = intent.governance, RunBody.load(run.body).specification_digest
    if governance.assignment_manifest_digest != admitted:
        remedy = f"The Run was admitted with {admitted}."
        raise IntegrityError("governance.assignment_manifest_digest", governance.assignment_manifest_digest, remedy)
    manifest = ArmManifest.read(artifacts.read(admitted), admitted)
    wanted = manifest.binding(intent.arm)
    for name in ("profile_ref", "profile_digest", "recall_requirement"):
        met, due = getattr(governance, name), getattr(wanted, name)
        if met != due:
            raise IntegrityError(f"governance.{name}", met, f"Arm {intent.arm} was admitted with {due}.")
    profile = read_profile(artifacts.read(wanted.profile_digest), wanted.profile_digest)
    if profile.profile_ref != wanted.profile_ref:
        raise IntegrityError("governance.profile_ref", wanted.profile_ref, f"The profile is {profile.profile_ref}.")
    if wanted.recall_requirement is RecallRequirement.REQUIRED and not may_require(profile.mode):
        remedy = f"Under {profile.mode} no Recall Context is given; register the arm as not requesting one."
        raise IntegrityError("governance.recall_requirement", wanted.recall_requirement, remedy)
