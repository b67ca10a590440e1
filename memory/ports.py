"""What the deep modules ask of each other across processes.

The same protocols are met by the plain classes here and by the actor handles that host them, so the modules run and are
tested without Ray. Every method takes and returns lists: a call between processes costs about as much as a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from memory.releases import Release
from records.appends import Append, AppendReceipt
from records.control import Controlled
from records.errors import VrmError
from records.runtime import Applied, Authorization, Command

T = TypeVar("T")

Clock = Callable[[], str]
"""Reads the time as a record timestamp: UTC, microseconds."""

Fence = tuple[str, int]
"""A resource and the epoch at which somebody owns it."""


class RunOwnerPort(Protocol):
    """Owner of Runtime transitions."""

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out Runtime commands that concern no append."""

    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        """Read published proposals back and authorize each one."""

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        """Read the Ledger's answers back and settle each authorization."""


class HandoffOwnerPort(RunOwnerPort, Protocol):
    """Owner of Runtime transitions, as whoever recovers and ends handoffs sees it."""

    def resolve(self, proof_digests: Sequence[str]) -> list[Applied | VrmError]:
        """Close retired attempts of handoffs by published proofs of the Store."""

    def release(self, releases: Sequence[Release]) -> list[Applied | VrmError]:
        """Release handoffs with the references they bound, or say why they are kept."""


class RunControlPort(RunOwnerPort, Protocol):
    """Owner of Runtime transitions, as those see it who control Runs."""

    def control(self, event_digests: Sequence[str]) -> list[Controlled | VrmError]:
        """Read published control events back and let each take its effect."""


class OwnerPort(HandoffOwnerPort, RunControlPort, Protocol):
    """Owner of Runtime transitions, with everything that it does."""


class CoordinatorPort(Protocol):
    """The one writer of the Ledger."""

    def append_granted(
        self, authorization_ids: Sequence[str], fences: Sequence[Fence] = ()
    ) -> list[AppendReceipt | VrmError]:
        """Carry out authorized appends while the epochs in `fences` hold."""

    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        """Carry out direct appends."""


def all_good(answers: Sequence[T | VrmError]) -> list[T]:
    """Return the answers, or raise the first error among them."""
    good: list[T] = []
    for answer in answers:
        if isinstance(answer, VrmError):
            raise answer
        good.append(answer)
    return good
