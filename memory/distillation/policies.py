"""The policies that one campaign is distilled under."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.distillation_policy import DistillationPolicy
from policies.lifecycle_policy import LifecyclePolicy
from policies.loading import policy_set_digest
from policies.procedures.policy import ProcedurePolicy, procedure_policy
from records.values import PolicyIdentity


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The policies of a campaign; the Procedure Policy counts for procedures alone."""

    distillation: DistillationPolicy
    lifecycle: LifecyclePolicy
    procedures: ProcedurePolicy = field(default_factory=procedure_policy)

    @property
    def digest(self) -> str:
        """The digest of the ordered policy set behind a rule."""
        return policy_set_digest([self.distillation.identity, self.lifecycle.identity])


def is_later(theirs: PolicyIdentity, ours: PolicyIdentity) -> bool:
    """Tell whether theirs is a later version of our policy."""
    return theirs.policy_id == ours.policy_id and int(theirs.version) > int(ours.version)
