"""The policies that one campaign is distilled under."""

from __future__ import annotations

from dataclasses import dataclass

from policies.distillation_policy import DistillationPolicy
from policies.lifecycle_policy import LifecyclePolicy
from policies.loading import policy_set_digest


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The policies of a campaign."""

    distillation: DistillationPolicy
    lifecycle: LifecyclePolicy

    @property
    def digest(self) -> str:
        """The digest of the ordered policy set."""
        return policy_set_digest([self.distillation.identity, self.lifecycle.identity])
