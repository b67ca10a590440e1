"""The spine: propose, grant, append, reconcile, as one mechanism for every granted flow.

Intent admission, context, outcome, enqueue and distillation commit all go through `carry`; what differs between them is
a row of `records.flows` and the records in the proposal. `recover` finishes whatever a crash left unresolved, from
stored facts alone, by the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from memory.ports import CoordinatorPort, Fence, RunOwnerPort
from records.appends import Append, AppendReceipt, Proposal
from records.errors import VrmError
from records.runtime import Authorization
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.runtime.port import RuntimeReader

GROUP: Final = 64
"""Appends that share one physical commit; measured, beyond this the commit is no longer what costs."""

T = TypeVar("T")


class Spine:
    """Carries proposals from a worker to a settled answer."""

    def __init__(self, artifacts: ArtifactStore, owner: RunOwnerPort, coordinator: CoordinatorPort) -> None:
        """Join the artifact store with the two owners; each may live in another process."""
        self._artifacts = artifacts
        self._owner = owner
        self._coordinator = coordinator

    def carry(self, proposals: Sequence[Proposal], fences: Sequence[Fence] = ()) -> list[AppendReceipt | VrmError]:
        """Publish, grant, append and reconcile; every proposal gets its receipt or its own error, in order."""
        answers: list[AppendReceipt | VrmError] = []
        for group in chunks(proposals, GROUP):
            digests = self._artifacts.publish_many([proposal.canonical for proposal in group])
            grants = self._owner.grant(digests)
            granted = [str(grant.id) for grant in grants if not isinstance(grant, VrmError)]
            settled = iter(self._settle(granted, fences))
            answers += [grant if isinstance(grant, VrmError) else next(settled) for grant in grants]
        return answers

    def direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        """Carry out direct appends in groups."""
        return [answer for group in chunks(appends, GROUP) for answer in self._coordinator.append_direct(group)]

    def recover(self, runtime: RuntimeReader, run_id: str | None = None) -> list[AppendReceipt | VrmError]:
        """Resolve every authorization, or every one of a Run, that was granted and never settled.

        It is safe to run at any time, by anyone. They are appended in the order in which they were granted, because one
        may rest on what another one writes.
        """
        return list(self.recovered(runtime, run_id).values())

    def recovered(self, runtime: RuntimeReader, run_id: str | None = None) -> dict[str, AppendReceipt | VrmError]:
        """Do what `recover` does, and return each answer under its authorization."""
        found = runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], run_id)
        waiting = [key for _, key in sorted((Authorization.load(each.body).granted_at, each.id) for each in found)]
        answers = [answer for group in chunks(waiting, GROUP) for answer in self._settle(group)]
        return dict(zip(waiting, answers, strict=True))

    def _settle(self, authorization_ids: Sequence[str], fences: Sequence[Fence] = ()) -> list[AppendReceipt | VrmError]:
        appended = self._coordinator.append_granted(authorization_ids, fences)
        pairs = zip(authorization_ids, appended, strict=True)
        answered = [key for key, answer in pairs if not isinstance(answer, VrmError)]
        settled = iter(self._owner.reconcile(answered))
        return [answer if isinstance(answer, VrmError) else next(settled) for answer in appended]


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))
