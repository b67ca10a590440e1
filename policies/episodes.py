"""Episodes: verified Experiences of one Run and arm, seen again by that Run itself (spec 4.12, 12; VRM-L04, O03).

Rules kept here (docs/adr/0061):

- an episode is a whole cross-validated bundle; that a run failed, or that its evaluation found it invalid, is a
  verified fact as well;
- a failure has a signature: its class, and the violation, error or exit code that the class was told by. Two failures
  are alike if their signatures are equal, letter by letter;
- an episode speaks of exactly what was run, so its scope leaves nothing open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final

from pydantic import Field

from policies.failures import FailureClass, broken
from policies.loading import Policy, packaged_policy
from records.evidence import VerificationKind, VerifiedEvidenceBundle
from records.values import MemoryScope

_ERROR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}(Error|Exception|Timeout|Interrupt|Exit|Warning)\b")


class EpisodicPolicy(Policy):
    """One version of the policy.

    Attributes:
        verifications: kinds of verification that an episode may have.
        max_members: most episodes of one snapshot, the newest.
    """

    verifications: Annotated[tuple[VerificationKind, ...], Field(min_length=1)]
    max_members: Annotated[int, Field(ge=1, le=10_000)]


@dataclass(frozen=True)
class Episode:
    """One episode, with its place in time among those of its snapshot, from 0, the oldest."""

    bundle: VerifiedEvidenceBundle
    place: int = 0

    @property
    def id(self) -> str:
        """The id of the Experience."""
        return str(self.bundle.experience.id)

    @property
    def failure(self) -> FailureClass | None:
        """The class of the failure; None for a run that worked."""
        return broken(self.bundle)

    @property
    def signature(self) -> str | None:
        """How it failed; None for a run that worked."""
        return failure_signature(self.bundle)

    @cached_property
    def scope(self) -> MemoryScope:
        """Exactly what was run."""
        attempt = self.bundle.attempt
        return MemoryScope(
            task_scope_id=attempt.task_scope_id,
            evaluation_task_id=attempt.evaluation_task_id,
            domain=self.bundle.contract.domain,
            dataset_digest=attempt.dataset_digest,
            source_digest=attempt.source_digest,
            model_family=attempt.model_family,
            environment_digest=self.bundle.observation.environment_digest,
            contract_digest=self.bundle.contract.comparability_digest,
            budget_class=attempt.budget_class,
            visibility=attempt.namespace,
        )


def failure_signature(bundle: VerifiedEvidenceBundle) -> str | None:
    """Return class and cause of a failure as one name, such as `execution/ValueError` or `execution/exit-3`.

    None means that the run worked.
    """
    kind = broken(bundle)
    if kind is None:
        return None
    named = _ERROR.search(bundle.observation.error or "")
    if bundle.verification.violations and kind in {FailureClass.BUDGET, FailureClass.EVALUATION_INVALID}:
        cause = min(bundle.verification.violations)
    elif named is not None:
        cause = named[0]
    elif bundle.observation.exit_code:
        cause = f"exit-{bundle.observation.exit_code}"
    else:
        cause = bundle.attempt.status.value
    return f"{kind.value}/{cause}"[:200]


def episodic_policy(version: str = "1") -> EpisodicPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(EpisodicPolicy, "episodic", version)
