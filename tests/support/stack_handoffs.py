"""Handoffs over a `Stack`, cut short at a step of their enqueue, for whoever has to recover them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from memory.fsck import fsck
from memory.handoffs import recovery_request
from memory.orphans import Abandonment, Orphans
from records.appends import AppendReceipt
from records.canonical import parse_canonical
from records.errors import VrmError
from records.handoffs import AbandonmentProof, Absent, StoreProof
from records.ids import HandoffId, RunId
from records.runtime import Subject
from records.states import Machine, Phase
from records.values import ProofRef
from store.runtime.port import RuntimeReader
from tests.support.stack import Crash, Faults, Stack, effects, quiet
from tests.support.stack_control import closure, run_of, stop

STEPS: Final = {
    "opened": ("RunOwner.apply", True),
    "published": ("RunOwner.grant", False),
    "granted": ("RunOwner.grant", True),
    "appended": ("CommitCoordinator.append_granted", True),
    "unheard": ("RunOwner.reconcile", True),
}
"""Where an enqueue is cut: at which call, and whether it took effect. The last one is the lost reply of the bind."""


@dataclass
class CutAt(Faults):
    """Ends the process at the first call of a name."""

    name: str = ""

    def run(self, name: str, method: Any, arguments: tuple[Any, ...]) -> Any:
        """Carry out one call."""
        self.calls.append(name)
        if self.at:
            raise Crash(name)
        if name != self.name:
            return method(*arguments)
        if self.after:
            method(*arguments)
        self.at = len(self.calls)
        raise Crash(name)


class Scene:
    """A Run with two Experiences whose enqueue may be cut short, and the successor that finds them so."""

    def __init__(self, stack: Stack, key: str = "first") -> None:
        """Admit the Run and append its evidence."""
        self.stack = stack
        self.run_id: RunId = stack.admit(key)
        stack.evidence(effects(stack, key, {"a": 0.05}))

    def cut(self, step: str) -> Scene:
        """Cut the enqueue at a step; a successor with new epochs takes over."""
        name, after = STEPS[step]
        with pytest.raises(Crash):
            self.ingest(Stack(self.stack.stores, self.stack.namespace, CutAt(name=name, after=after)))
        self.stack = Stack(self.stack.stores, self.stack.namespace)
        return self

    def ingest(self, stack: Stack | None = None) -> None:
        """Give every Experience its receipt."""
        assert not (stack or self.stack).campaigns.ingest(self.run_id, quiet)

    def handoffs(self) -> list[Subject]:
        """Return the handoffs as they are."""
        return self.stack.stores.runtime.find(Machine.HANDOFF, run_id=self.run_id)

    def ids(self) -> list[HandoffId]:
        """Return their ids."""
        return [HandoffId.check(each.id) for each in self.handoffs()]

    def phases(self) -> set[Phase]:
        """Return the phases that they are in."""
        return {each.phase for each in self.handoffs()}

    def attempts(self) -> set[tuple[int, int]]:
        """Return the generations and fences that they are at."""
        return {(each.generation, each.fence) for each in self.handoffs()}

    def retire(self) -> None:
        """Retire every attempt."""
        answers = self.stack.orphans.retire(self.ids())
        assert not [each for each in answers if isinstance(each, Exception)]

    def absent(self) -> Scene:
        """Retire every attempt and have it proved absent."""
        self.retire()
        assert all(isinstance(each, Absent) for each in self.recovered())
        return self

    def recovered(self, orphans: Orphans | None = None) -> list[StoreProof | VrmError]:
        """Recover, and return what was said about the handoffs of this Run; the stores hold others' as well."""
        answers = (orphans or self.stack.orphans).recover()
        return [answers[each] for each in self.ids() if each in answers]

    def proofs(self) -> list[str]:
        """Return the digests of the proofs that closed the attempts."""
        return [parse_canonical(each.facts)["proof"] for each in self.handoffs()]

    def absences(self) -> list[str]:
        """Return the digests of the proofs of absence that the abandoned receipts rest on."""
        artifacts = self.stack.stores.artifacts
        proofs = (artifacts.read(each.proof.digest) for each in self.stack.load("distillation-receipt"))
        return [AbandonmentProof.load(each).absence for each in proofs]

    def authorizations(self) -> list[str]:
        """Return the last grant of each handoff."""
        return [str(recovery_request(each).authorization_id) for each in self.handoffs()]

    def granted(self) -> list[str]:
        """Return the grants of this Run that nobody settled."""
        found = self.stack.stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], run_id=self.run_id)
        return [each.id for each in found]

    def cause(self) -> ProofRef:
        """Cancel the Run, if it is not cancelled yet, and return the control event that ended the work."""
        control = stop(self.stack, self.run_id, fail=False).control
        assert control is not None
        return ProofRef(ref=control.kind.value, digest=control.digest)

    def abandonments(self) -> list[Abandonment]:
        """Return what gives every handoff up."""
        cause = self.cause()
        return [Abandonment(each, cause, "source_run_cancelled") for each in self.ids()]

    def abandon(self) -> Scene:
        """Give every handoff up."""
        answers = self.stack.orphans.abandon(self.abandonments())
        assert all(isinstance(each, AppendReceipt) and each.committed for each in answers)
        return self

    def require_clean(self) -> None:
        """Nothing is found by the integrity check, and no grant is unresolved."""
        stores = self.stack.stores
        with stores.ledger.reading() as reader:
            report = fsck(reader, stores.runtime, stores.artifacts, namespace=self.stack.namespace)
        assert not report.violations, report.violations
        assert not report.notes

    def finish(self) -> None:
        """Carry the Run to its end."""
        assert not self.stack.campaign(self.run_id)
        if run_of(self.stack, self.run_id).phase is Phase.CANCELLING:
            assert closure(self.stack).close(self.run_id) is Phase.CANCELLED
        else:
            self.stack.complete(self.run_id)


class SlowRuntime:
    """A Runtime whose reader goes on seeing the handoffs of an earlier moment while it is `asleep`."""

    def __init__(self, inner: RuntimeReader) -> None:
        """Read through `inner`."""
        self._inner = inner
        self._before: dict[str, Subject] = {}
        self.asleep = False

    def sleep(self, handoffs: Iterable[Subject]) -> None:
        """See these handoffs from now on."""
        self._before = {each.id: each for each in handoffs}
        self.asleep = True

    def subjects(self, machine: Machine, subject_ids: Iterable[str]) -> dict[str, Subject]:
        """Return subjects, the handoffs perhaps of an earlier moment."""
        found = self._inner.subjects(machine, list(subject_ids))
        return found | {key: self._before[key] for key in found if self.asleep and key in self._before}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
