"""Bugs that only those can reveal who control Runs, end handoffs, recover, erase, or collect garbage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from evaluation.simulation.world import HeldArtifacts
from memory.control import Ruling, rule
from memory.coordinator import CommitCoordinator
from memory.garbage import Garbage, collect
from memory.guards import GUARDS
from memory.handoffs import guard_retired, prove, recovery_request
from memory.orphans import Orphans
from memory.releases import Release, read_holding
from memory.run_owner import RunOwner
from memory.spine import Spine
from records.appends import Append, AppendReceipt
from records.canonical import canonical_bytes, parse_canonical
from records.control import ControlEvent, Controlled, RunFacts
from records.errors import VrmError
from records.handoffs import Absent, StoreProof, read_proof
from records.outcomes import NoCommitReason
from records.runtime import Command, Move, Subject
from records.states import Event, Machine
from store.ledger.port import Guard, LedgerReader, OpenLedger, Refusal, Request, no_guard
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeReader


class _Rules(RunOwner):
    """The owner with a ruling of its own on control events."""

    def _rule(self, run: Subject, event: ControlEvent) -> Ruling:
        raise NotImplementedError

    def _controlled(self, event: ControlEvent) -> Controlled:
        run = self._runtime.subject(Machine.RUN, event.run_id)
        if run is None:
            return super()._controlled(event)
        ruling = self._rule(run, event)
        if ruling.command is not None:
            (answer,) = self._runtime.apply(self._epoch, [ruling.command])
            if isinstance(answer, VrmError):
                raise answer
            run = self._runtime.subjects(Machine.RUN, [run.id])[run.id]
        return Controlled(ruling.effect, run.phase, RunFacts.load(run.facts).control)


class PausesBusy(_Rules):
    """A Run is paused whatever is granted in it."""

    def _rule(self, run: Subject, event: ControlEvent) -> Ruling:
        return rule(run, event)


class AmendsAnyVersion(_Rules):
    """A budget is amended whichever version of the Run that was decided on."""

    def _rule(self, run: Subject, event: ControlEvent) -> Ruling:
        version = run.version if event.expected_version is None else event.expected_version
        ruling = rule(run.model_copy(update={"version": version}), event)
        command = None if ruling.command is None else ruling.command.model_copy(update={"requires": ()})
        return Ruling(ruling.effect, command)


class ReleasesEarly(RunOwner):
    """A handoff is released whenever somebody asks, whatever still needs its profile."""

    def _releasing(self, release: Release) -> Command:
        holding = read_holding(self._runtime, self._ledger, release)
        held = [each for each in (holding.handoff, holding.reference) if each is not None]
        return Command(moves=tuple(_moved(each, Event.RELEASE) for each in held))


class ProvesUndrained(Orphans):
    """A retired attempt is closed as absent before its grant has an answer, which is then written all the same."""

    def recover(self) -> dict[str, StoreProof | VrmError]:
        """Prove and close without the drain."""
        return self.close()

    def _proofs(self, handoffs: Sequence[Subject]) -> list[StoreProof | VrmError]:
        answers = super()._proofs(handoffs)
        with self._ledger.reading() as reader:
            return [
                _undrained(reader, handoff) if isinstance(answer, VrmError) else answer
                for handoff, answer in zip(handoffs, answers, strict=True)
            ]


class TakesAnyProof(RunOwner):
    """Whatever proof of absence is published closes a retired attempt; the Store is not asked again."""

    def _closing(self, digest: str) -> Command | None:
        proof = read_proof(self._artifacts.read(digest), digest)
        handoff = self._runtime.subject(Machine.HANDOFF, proof.request.handoff_id)
        if handoff is None or not isinstance(proof, Absent):
            return super()._closing(digest)
        facts = canonical_bytes(parse_canonical(handoff.facts) | {"proof": digest}).decode()
        return Command(moves=(_moved(handoff, Event.ABSENT).model_copy(update={"facts": facts}),))


class AppendsRetired(CommitCoordinator):
    """What was granted to an attempt that was retired is appended."""

    def _commit(
        self,
        prepared: Sequence[Append | VrmError],
        over: frozenset[str] = frozenset(),  # noqa: ARG002  # that is the bug
    ) -> list[AppendReceipt | VrmError]:
        return super()._commit(prepared)


class _Lenient(CommitCoordinator):
    """The coordinator with guards that do not refuse for one reason."""

    ignored: ClassVar[NoCommitReason]

    def _commit(
        self, prepared: Sequence[Append | VrmError], over: frozenset[str] = frozenset()
    ) -> list[AppendReceipt | VrmError]:
        requests = [
            Request(item, guard_retired if item.permit_key in over else self._guard(item))
            for item in prepared
            if not isinstance(item, VrmError)
        ]
        answers = iter(self._ledger.commit(self._epoch, requests))
        return [item if isinstance(item, VrmError) else next(answers) for item in prepared]

    def _guard(self, append: Append) -> Guard:
        guard = GUARDS.get(append.transition, no_guard)

        def lenient(reader: LedgerReader, append: Append) -> Refusal | None:
            refusal = guard(reader, append)
            return None if refusal is not None and refusal.reason is self.ignored else refusal

        return lenient


class IgnoresFrontier(_Lenient):
    """A context is appended although something was erased after it was made."""

    ignored = NoCommitReason.RETENTION_FRONTIER_STALE


class IgnoresDenial(_Lenient):
    """What was distilled is appended although what it rests on is denied by now."""

    ignored = NoCommitReason.RETENTION_REVOKED


class DropsUnasked(HeldArtifacts):
    """What was found old is removed, although it was published again since."""

    def drop(self, name: str, published_before: float) -> bool:  # noqa: ARG002  # that is the bug
        """Remove it."""
        return super().drop(name, math.inf)


class RecoversUnread(Spine):
    """Recovery gives up what is unresolved instead of asking the Ledger: it appends nothing and settles nothing."""

    def recover(
        self,
        runtime: RuntimeReader,  # noqa: ARG002  # that is the bug
        run_id: str | None = None,  # noqa: ARG002
    ) -> list[AppendReceipt | VrmError]:
        """Do nothing."""
        return []


def collect_by_ledger(ledger: OpenLedger, runtime: RuntimeReader, *more: Any, **options: Any) -> Garbage:
    """Garbage is whatever no record of the Ledger names; the Runtime is not read."""
    del runtime
    return collect(ledger, MemoryRuntime(), *more, **options)


def _undrained(reader: LedgerReader, handoff: Subject) -> StoreProof | VrmError:
    request = recovery_request(handoff)
    try:
        answer = prove(reader, request.model_copy(update={"authorization_id": None}))
    except VrmError as error:
        return error
    return answer.model_copy(update={"request": request})


def _moved(subject: Subject, event: Event) -> Move:
    return Move.of(subject, event)
