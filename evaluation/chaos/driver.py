"""Drives work through owners that are struck, and recovers by the product's own means.

Rules kept here:

- a pass begins with what is stored and keeps nothing from an earlier one; it ends with the first error, after which
  the product's own recovery runs, and the next pass begins;
- every call, those of recovery included, goes through the striker.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Protocol, cast

from actors.settings import now
from evaluation.bench.corpus import SPACE
from evaluation.chaos.accounting import Unit
from evaluation.chaos.faults import Call
from evaluation.chaos.place import Place, StuckError
from evaluation.chaos.striker import Made, Striker
from evaluation.simulation.material import POLICIES, PROFILE
from memory.campaigns import CampaignPorts, Campaigns
from memory.closure import ClosurePorts, RunClosure
from memory.commands import RunCommands
from memory.orphans import Orphans
from memory.ports import all_good
from memory.reserving import HeadsPort
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.spine import Spine
from records.appends import Append
from records.errors import UnavailableError, VrmError
from records.flows import Transition
from records.ids import EvidenceSnapshotId

_PASSES: Final = 30
"""How often a piece of work begins anew; each fault costs it one or two passes."""


class Work(Protocol):
    """A piece of work."""

    def due(self) -> Iterator[Unit]:
        """Return what there must be when it is done."""

    def advance(self, driver: Driver) -> bool:
        """Go on from what is stored; true once nothing is left."""


class _Through:
    """The owner that `pick` takes, with the striker before each of its calls."""

    def __init__(self, striker: Striker, pick: Any) -> None:
        self._striker, self._pick = striker, pick

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._pick(self._striker.crew.owners), name)
        if name not in set(Call):
            return inner

        def call(*arguments: Any) -> Any:
            there = getattr(self._pick(self._striker.successors.owners), name)
            return self._striker.through(
                Made(Call(name), arguments, lambda: inner(*arguments), lambda: there(*arguments))
            )

        return call


class Driver:
    """Drives work through owners that are struck, and recovers by the product's own means.

    Attributes:
        recoveries: how often recovery ran after an error.
        resolved: how many unresolved authorizations it found and settled.
        unfinished: work that did not come to its end, and what it met last.
    """

    def __init__(self, place: Place, striker: Striker) -> None:
        """Work in an installation; nothing is started yet."""
        owner = _Through(striker, lambda owners: owners.run_owner)
        coordinator = _Through(striker, lambda owners: owners.coordinator)
        self.place, self.owner = place, cast("Any", owner)
        self.distillers = cast("Any", _Through(striker, lambda owners: owners.distillers))
        self._heads = cast("HeadsPort", _Through(striker, lambda owners: owners.heads))
        self.spine = Spine(place.artifacts, self.owner, cast("Any", coordinator))
        self.commands = RunCommands(place.runtime, place.artifacts, self.owner, now)
        self.recoveries = self.resolved = 0
        self.unfinished: list[str] = []

    @cached_property
    def closure(self) -> RunClosure:
        """Closes Runs that are cancelling or failing."""
        place = self.place
        return RunClosure(
            ClosurePorts(
                ledger=place.ledger,
                runtime=place.runtime,
                artifacts=place.artifacts,
                owner=self.owner,
                spine=self.spine,
            )
        )

    @cached_property
    def campaigns(self) -> Campaigns:
        """Carries evidence to knowledge."""
        place = self.place
        ports = CampaignPorts(
            ledger=place.ledger, runtime=place.runtime, artifacts=place.artifacts, owner=self.owner, spine=self.spine,
            heads=self._heads, clock=now, holder="chaos",
        )  # fmt: skip
        return Campaigns(ports, POLICIES, PROFILE, SPACE)

    def finish(self, work: Work) -> None:
        """Drive a piece of work until nothing of it is left; one that does not come to its end is noted.

        Raises:
            StuckError: an owner that was replaced does not leave, or the like.
        """
        reason = "something was left each time"
        for _ in range(_PASSES):
            try:
                if work.advance(self):
                    return
            except StuckError:
                raise
            except VrmError as error:
                reason = str(error)
                self._recover()
        self.unfinished.append(f"{work}: {reason}")

    def settle(self) -> None:
        """Recover until a pass of it meets no error: no grant is unresolved, no Run is left closing.

        Raises:
            UnavailableError: every pass of it meets one.
        """
        for _ in range(_PASSES):
            if self._recover():
                return
        raise UnavailableError("recovery", "no pass without an error", "Report this.")

    def _recover(self) -> bool:
        """Do what an operator does after a fault: see that the server runs, then let the product recover."""
        place = self.place
        place.heal()
        self.recoveries += 1
        try:
            self.resolved += len(all_good(self.spine.recover(place.runtime)))
            Orphans(place.runtime, place.ledger, place.artifacts, self.owner, self.spine).recover()
            for run in self.closure.waiting():
                self.closure.close(run)
        except StuckError:
            raise
        except VrmError:
            return False
        return True

    def capture(self) -> EvidenceSnapshotId:
        """Capture the evidence of this moment."""
        with self.place.ledger.reading() as reader:
            key = f"evidence-at-{reader.namespace_head(SPACE).evidence}"
            request = FreezeEvidence(namespace=SPACE, operation_key=key)
            snapshot, operation = EvidenceSnapshotBuilder(POLICIES.distillation).freeze(reader, request)
        append = Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))
        all_good(self.spine.direct([append]))
        return EvidenceSnapshotId(snapshot.id)
