"""A crash at every call, before and after it took effect; a successor with new epochs ends where no crash would have.

The reference is a run without a crash on stores of its own in the same namespace, so ids compare across adapters too.
What names the attempt that did the work differs and is compared by the work item that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

import memory.campaigns
import memory.spine
from memory.fsck import fsck
from records.base import KINDS
from records.ids import RecallInputId
from records.states import Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeStore
from tests.support.stack import Crash, Faults, Stack, Stores, effects
from tests.support.stack_control import Staged, closure, ended, stop
from tests.support.stack_decisions import ARMS, Study, learn
from tests.support.stores import fresh_namespace

GOOD = {"a": 0.05, "b": 0.051, "c": 0.049}
ATTEMPT: Final = frozenset(
    {
        "enqueue-transaction", "distillation-batch", "distillation-work-disposition", "distillation-report",
        "distillation-work-completion",
    }
)  # fmt: skip
"""Kinds that hold a fence, or what the leading item alone read: which item leads depends on the journal's order."""

Driver = Callable[[Stack], object]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let six items need two groups, so that a crash also comes between groups."""
    monkeypatch.setattr(memory.campaigns, "GROUP", 3)
    monkeypatch.setattr(memory.spine, "GROUP", 3)


@contextmanager
def in_memory() -> Iterator[Stores]:
    ledger, runtime = MemoryLedger(), MemoryRuntime()
    yield Stores(ledger, runtime, ArtifactStore(f"memory://{fresh_namespace()}"))
    ledger.close()


def campaign(stack: Stack) -> None:
    assert not stack.study("first", effects(stack, "first", GOOD))


def picture(stack: Stack) -> dict[str, Any]:
    """Return what must be the same after a crash: ids, bindings of work items, heads, and where every Run stands."""
    content: dict[str, Any] = {noun: ids for noun, ids in stack.ids().items() if noun not in ATTEMPT}
    for noun in ATTEMPT:
        content[noun] = sorted(str(record.work_item_id) for record in stack.load(noun))
    covered = stack.load("distillation-work-disposition")
    content["covered"] = sorted((str(item.work_item_id), item.outcome, str(item.decision_id)) for item in covered)
    content["heads"] = stack.stores.ledger.variant_heads(stack.namespace)
    content["phases"] = stack.phases()
    assert set(content) >= set(KINDS)
    return content


def reference(drive: Driver, namespace: str) -> tuple[dict[str, Any], int]:
    """Return the picture of a run without a crash, and how many calls it makes."""
    with in_memory() as stores:
        faults = Faults()
        stack = Stack(stores, namespace, faults)
        drive(stack)
        return picture(stack), len(faults.calls)


def recovered(stores: Stores, faults: Faults) -> None:
    """Recover and go on with faults."""
    stack = Stack(stores, "space", faults)
    stack.recover()
    campaign(stack)


def crash_and_go_on(stores: Stores, namespace: str, drive: Driver, faults: Faults) -> Stack:
    """Drive until the crash, then again with a successor after recovery."""
    with pytest.raises(Crash):
        drive(Stack(stores, namespace, faults))
    successor = Stack(stores, namespace)
    successor.recover()
    drive(successor)
    return successor


def require_clean(stack: Stack, artifacts: ArtifactStore) -> None:
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, artifacts)
    assert not report.violations
    assert not report.notes
    assert not stack.granted()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_campaign_survives_a_crash_at_every_call(after: bool) -> None:
    wanted, calls = reference(campaign, "space")
    assert calls > 60
    for at in range(1, calls + 1):
        faults = Faults(at, after)
        with in_memory() as stores:
            stack = crash_and_go_on(stores, "space", campaign, faults)
            assert picture(stack) == wanted, faults.calls[at - 1]
            require_clean(stack, stores.artifacts)


def test_a_campaign_survives_two_crashes_in_a_row() -> None:
    """The successor dies as well, at a call of its own."""
    wanted, calls = reference(campaign, "space")
    for at in range(5, calls, 9):
        with in_memory() as stores:
            with pytest.raises(Crash):
                campaign(Stack(stores, "space", Faults(at, after=True)))
            with suppress(Crash):  # it may have less left to do than six calls
                recovered(stores, Faults(6))
            last = Stack(stores, "space")
            last.recover()
            campaign(last)
            assert picture(last) == wanted
            require_clean(last, stores.artifacts)


def test_recovery_itself_may_crash_anywhere() -> None:
    """Three grants are unresolved; recovery is cut at each of its calls and run again."""
    wanted, calls = reference(campaign, "space")
    granted = next(at for at in range(1, calls) if _unresolved(Faults(at, after=True)))
    for at in range(1, 5):
        with in_memory() as stores:
            with pytest.raises(Crash):
                campaign(Stack(stores, "space", Faults(granted, after=True)))
            with pytest.raises(Crash):
                Stack(stores, "space", Faults(at)).recover()
            last = Stack(stores, "space")
            last.recover()
            campaign(last)
            assert picture(last)["phases"] == wanted["phases"]
            require_clean(last, stores.artifacts)


def _unresolved(faults: Faults) -> bool:
    with in_memory() as stores:
        stack = Stack(stores, "space", faults)
        with pytest.raises(Crash):
            campaign(stack)
        return bool(stack.granted())


class TestPostgres:
    """A sample of the calls on a real database; what each statement of it survives is in the Postgres-only suite."""

    pytestmark = pytest.mark.parametrize(("ledger", "runtime"), [("postgres", "postgres")], indirect=True)

    def test_a_campaign_survives_a_crash(self, ledger: LedgerStore, runtime: RuntimeStore) -> None:
        for at in range(3, 66, 9):
            stores = Stores(ledger, runtime, ArtifactStore(f"memory://{fresh_namespace()}"))
            namespace = fresh_namespace()
            wanted, _ = reference(campaign, namespace)
            stack = crash_and_go_on(stores, namespace, campaign, Faults(at, after=at % 2 == 0))
            assert picture(stack) == wanted
            assert not stack.granted()
        with ledger.reading() as reader:
            assert not fsck(reader, runtime, None).violations

    def test_a_decision_survives_a_crash(self, ledger: LedgerStore, runtime: RuntimeStore) -> None:
        every_decision(Stores(ledger, runtime, ArtifactStore(f"memory://{fresh_namespace()}")), step=5)
        with ledger.reading() as reader:
            assert not fsck(reader, runtime, None).violations


@pytest.mark.slow
def test_a_decision_survives_a_crash_at_every_call() -> None:
    with in_memory() as stores:
        stack = every_decision(stores, step=1)
        require_clean(stack, stores.artifacts)


def every_decision(stores: Stores, step: int) -> Stack:
    """Take one decision per arm and call, each in a Run of its own, crashed at that call; compare with an uncut one."""
    namespace = fresh_namespace()
    stack = Stack(stores, namespace)
    recall_input = learn(stack, GOOD | {"d": 0.053})
    for arm in ARMS:
        faults = Faults()
        Study(Stack(stores, namespace, faults), "uncut", arm, recall_input).decide()
        wanted = account(Study(Stack(stores, namespace), "uncut", arm, recall_input))
        for at in range(1, len(faults.calls) + 1, step):
            for after in (False, True):
                key = f"{arm}-{at}-{after}"
                with pytest.raises(Crash):
                    Study(Stack(stores, namespace, Faults(at, after)), key, arm, recall_input).decide()
                successor = Stack(stores, namespace)
                successor.recover()
                study = Study(successor, key, arm, recall_input)
                study.decide()
                assert account(study) == wanted, (arm, faults.calls[at - 1], after)
    assert not stack.granted()
    return stack


@pytest.mark.parametrize("fail", [False, True], ids=["cancel", "fail"])
def test_closure_survives_a_crash_at_every_call(*, fail: bool) -> None:
    """A decision's context is granted and not settled; each call of closure fails before and after it took effect."""
    with in_memory() as stores:
        recall_input = learn(Stack(stores, "space"), GOOD)
        wanted, calls = closed_after(stores, recall_input, Faults(), fail=fail)
        assert len(calls) > 5
        for at in range(1, len(calls) + 1):
            for after in (False, True):
                faults = Faults(at, after)
                assert closed_after(stores, recall_input, faults, fail=fail)[0] == wanted, (calls[at - 1], after)
        require_clean(Stack(stores, "space"), stores.artifacts)


def closed_after(
    stores: Stores, recall_input: RecallInputId, faults: Faults, *, fail: bool
) -> tuple[dict[str, Any], list[str]]:
    """Close a Run with faults, then once more without; return what is left of it, and the calls."""
    key = f"closed-{fail}-{faults.at}-{faults.after}"
    stage = Staged(Study(Stack(stores, "space"), key, "memory", recall_input)).reach(Phase.CONTEXT_COMMITTING)
    stop(stage.study.stack, stage.study.run_id, fail=fail)
    with suppress(Crash):
        closure(Stack(stores, "space", faults)).close(stage.study.run_id)
    stage.study = Study(Stack(stores, "space"), key, "memory", recall_input)
    ended(stage, fail=fail)
    return account(stage.study), faults.calls


def account(study: Study) -> dict[str, Any]:
    """Return what one decision left behind, by number and by phase."""
    stack = study.stack
    found = {
        noun: stack.stores.ledger.find(noun, stack.namespace, **{column: str(value)})
        for noun, column, value in (
            ("decision-intent", "run_id", study.run_id),
            ("decision-recall-context", "intent_id", study.intent.id),
            ("recall-decision-outcome", "run_id", study.run_id),
            ("attempt", "run_id", study.run_id),
        )
    }
    outcome = found["recall-decision-outcome"][0].load()
    links = stack.stores.ledger.find("outcome-attempt-link", stack.namespace, outcome_id=str(outcome.id))
    assert study.intent.id in {item.id for item in found["decision-intent"]}
    return {noun: len(items) for noun, items in found.items()} | {
        "links": len(links),
        "outcome": (outcome.source_status, outcome.decision_status, len(outcome.dispositions)),  # type: ignore[attr-defined]
        "phase": study.phase(),
    }
