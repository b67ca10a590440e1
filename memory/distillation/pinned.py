"""A distiller for each set of policies that work items pin.

Rules kept here:

- a work item is distilled under the policies that it was queued under, also after other versions became the default;
- a policy is what its identity says: a version that ships with another digest is refused and never stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.distillation.distiller import DistillationRequest, KnowledgeDistiller
from memory.distillation.policies import Policies
from memory.distillation.wording import Drafter
from memory.ports import Clock
from memory.work_state import Pinned
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.appends import Proposal
from records.errors import StaleError
from records.values import PolicyIdentity
from store.ledger.port import LedgerReader

Resolve = Callable[[PolicyIdentity, PolicyIdentity], Policies]
"""Finds the policies that a Distillation and a Lifecycle Policy's identity name."""


def packaged(distillation: PolicyIdentity, lifecycle: PolicyIdentity) -> Policies:
    """Return the packaged policies that have exactly these identities.

    Raises:
        InvalidInputError: no such version ships.
        StaleError: the version that ships has another content.
    """
    found = Policies(
        distillation=distillation_policy(distillation.version), lifecycle=lifecycle_policy(lifecycle.version)
    )
    for wanted, policy in ((distillation, found.distillation), (lifecycle, found.lifecycle)):
        if policy.identity != wanted:
            remedy = "Work that pins it waits for a program that ships it; install that one and distil again."
            raise StaleError("policy", f"{wanted.policy_id} v{wanted.version} {wanted.digest}", remedy)
    return found


class PinnedDistillers:
    """Proposes for each item under the policies that it pins."""

    def __init__(
        self, reader: LedgerReader, clock: Clock, resolve: Resolve = packaged, drafter: Drafter | None = None
    ) -> None:
        """Read from the Ledger; `resolve` finds policies by their identities, `drafter` words what is promoted."""
        self._reader, self._clock, self._resolve, self._drafter = reader, clock, resolve, drafter
        self._distillers: dict[tuple[PolicyIdentity, PolicyIdentity], KnowledgeDistiller] = {}

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one complete proposal per request, in order.

        Raises:
            VrmError: as `packaged`, and as `KnowledgeDistiller.propose`.
        """
        groups: dict[Pinned, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault(Pinned.of(request.item), []).append(place)
        found: dict[int, Proposal] = {}
        for pinned, places in groups.items():
            answers = self._distiller(pinned).propose([requests[place] for place in places])
            found |= dict(zip(places, answers, strict=True))
        return [found[place] for place in range(len(requests))]

    def _distiller(self, pinned: Pinned) -> KnowledgeDistiller:
        key = pinned.distillation, pinned.lifecycle
        if key not in self._distillers:
            self._distillers[key] = KnowledgeDistiller(self._reader, self._resolve(*key), self._clock, self._drafter)
        return self._distillers[key]
