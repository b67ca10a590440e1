"""The owners as actor classes: thin shells around the plain classes of `memory`, one per piece of state.

Rules kept here:

- sync actors, one call at a time; a `health` group answers while a call is running and touches no state;
- a constructor claims an epoch from Postgres; an owner that finds itself fenced leaves, so that its name is free; one
  that is told of somebody else's lost epoch hands that on and stays;
- every method is safe to run twice, because a retry after a lost reply does just that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import ray

from actors.settings import Settings, code_digest, now
from memory.coordinator import CommitCoordinator
from memory.heads import LifecycleHeads, Reservation
from memory.ports import Fence
from memory.releases import Release
from memory.run_owner import RunOwner
from records.appends import Append, AppendReceipt
from records.control import Controlled
from records.errors import FencedError, VrmError
from records.knowledge import LifecycleEvent
from records.runtime import Applied, Authorization, Command
from store.artifacts import ArtifactStore
from store.ledger.postgres import PostgresLedger
from store.runtime.postgres import PostgresRuntime, PostgresRuntimeReader

T = TypeVar("T")

COORDINATOR: Final = "commit-coordinator"
RUN_OWNER: Final = "run-owner"
LIFECYCLE_HEAD: Final = "lifecycle-head"
"""What the owners' resources are called; each is followed by a slash and the number of the shard."""


class CommitCoordinatorActor:
    """The one writer of the Ledger."""

    def __init__(self, settings: Settings) -> None:
        """Open the stores and claim the Ledger."""
        settings.watch()
        holder = settings.holder(COORDINATOR)
        self._coordinator = CommitCoordinator(
            PostgresLedger(settings.ledger_dsn, "coordinator"),
            PostgresRuntimeReader(settings.runtime_dsn, "coordinator"),
            ArtifactStore(settings.artifacts_url),
            holder,
        )

    @ray.method
    def append_granted(
        self, authorization_ids: Sequence[str], fences: Sequence[Fence]
    ) -> list[AppendReceipt | VrmError]:
        """Carry out authorized appends."""
        return or_leave(COORDINATOR, lambda: self._coordinator.append_granted(authorization_ids, fences))

    @ray.method
    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        """Carry out direct appends."""
        return or_leave(COORDINATOR, lambda: self._coordinator.append_direct(appends))

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


class RunOwnerActor:
    """The owner of Runtime transitions."""

    def __init__(self, settings: Settings) -> None:
        """Open the stores and claim the shard."""
        self._owner = RunOwner(
            PostgresRuntime(settings.runtime_dsn, "run-owner"),
            PostgresLedger(settings.ledger_dsn, "run-owner"),
            ArtifactStore(settings.artifacts_url),
            now,
            settings.holder(RUN_OWNER),
        )

    @ray.method
    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out Runtime commands."""
        return or_leave(RUN_OWNER, lambda: self._owner.apply(commands))

    @ray.method
    def control(self, event_digests: Sequence[str]) -> list[Controlled | VrmError]:
        """Let published control events take effect."""
        return or_leave(RUN_OWNER, lambda: self._owner.control(event_digests))

    @ray.method
    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        """Authorize published proposals."""
        return or_leave(RUN_OWNER, lambda: self._owner.grant(proposal_digests))

    @ray.method
    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        """Settle authorizations by what the Ledger holds."""
        return or_leave(RUN_OWNER, lambda: self._owner.reconcile(authorization_ids))

    @ray.method
    def resolve(self, proof_digests: Sequence[str]) -> list[Applied | VrmError]:
        """Close retired attempts of handoffs by proofs of the Store."""
        return or_leave(RUN_OWNER, lambda: self._owner.resolve(proof_digests))

    @ray.method
    def release(self, releases: Sequence[Release]) -> list[Applied | VrmError]:
        """Release handoffs with the references they bound."""
        return or_leave(RUN_OWNER, lambda: self._owner.release(releases))

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


class LifecycleHeadActor:
    """One host of lifecycle heads."""

    def __init__(self, settings: Settings, host: int) -> None:
        """Open the Ledger and claim the host's share."""
        ledger = PostgresLedger(settings.ledger_dsn, f"{LIFECYCLE_HEAD} {host}")
        self._heads = LifecycleHeads(ledger, settings.holder(f"{LIFECYCLE_HEAD} {host}"), host)

    @ray.method
    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Reservation:
        """Take the variants of a plan's events."""
        return or_leave(LIFECYCLE_HEAD, lambda: self._heads.reserve(namespace, plan, events))

    @ray.method
    def release(self, plan: str) -> None:
        """Let go of a plan's variants."""
        self._heads.release(plan)

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


def or_leave(resource: str, act: Callable[[], T]) -> T:
    """Act, and leave for good if somebody else owns the resource by now: the successor answers from then on."""
    try:
        return act()
    except FencedError as error:
        if error.field.startswith(f"{resource}/"):
            ray.actor.exit_actor()  # type: ignore[no-untyped-call]  # Ray leaves it untyped
        raise
