"""A thousand swaps on one lifecycle head, and a hundred projectors of one work item, through the real owners.

Threads share the owners of one process, as callers of an actor do. In every wave all of them read one head and propose
to move it from there, so of each generation exactly one can win.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from memory.campaigns import Campaigns, Failure
from memory.distillation.distiller import Cover, Covering, DistillationRequest, KnowledgeDistiller
from memory.distillation.drafting import Judgement
from memory.distillation.view import Finding
from memory.fsck import fsck
from policies.distiller import VariantVerdict
from records.appends import AppendReceipt, Head
from records.conflicts import HeadConflict
from records.errors import VrmError
from records.ids import ExperienceId, ScopeVariantId
from records.ingestion import WorkAssignment, WorkItem
from records.knowledge import GENESIS, LifecycleEvent
from records.outcomes import NoCommitReason
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.stack import GOOD, POLICIES, Stack, Stores, effects, quiet, record_of
from tests.support.stores import Clock, expect, fresh_namespace, ticking_clock

THREADS: Final = 25
EACH: Final = 2
"""Proposals that one thread carries as a group."""
GENERATIONS: Final = 20
SWAPS: Final = THREADS * EACH * GENERATIONS
SEEDS: Final = 9
"""Eight items each: as many as a wave needs, and one more for every one that a winner used up."""
PROJECTORS: Final = 100

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def stack(ledger: LedgerStore, runtime: RuntimeStore) -> Stack:
    clock, lock = ticking_clock(), threading.Lock()

    def now() -> str:
        with lock:
            return clock()

    namespace = fresh_namespace()
    artifacts = ArtifactStore(f"memory://{namespace}")  # a thousand proposals, whose syncs are no part of a race
    return Stack(Stores(ledger, runtime, artifacts), namespace, clock=now)


def at_once(act: Callable[[int], Any], count: int) -> list[Any]:
    """Let threads act at one moment, each with its number, and return what each of them got."""
    gate = threading.Barrier(count)

    def run(number: int) -> Any:
        gate.wait(60)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class Rival(KnowledgeDistiller):
    """Has something of its own to say about a variant whenever it is asked, whatever stands there.

    It cites a few of the comparisons only, so that a thousand proposals stay small.
    """

    def __init__(self, stack: Stack, clock: Clock) -> None:
        super().__init__(stack.stores.ledger, POLICIES, clock)
        self._numbers = itertools.count()

    def _cover(
        self, request: DistillationRequest, verdict: Judgement, _led: dict[ScopeVariantId, Covering], now: str
    ) -> Cover:
        assert isinstance(verdict, VariantVerdict)
        own = replace(
            verdict, claim=f"{verdict.claim} Said {next(self._numbers)} times.", links=verdict.links[: len(GOOD)]
        )
        cover = super()._cover(request, own, {}, now)
        return replace(cover, read=tuple(sorted({*cover.read, ExperienceId(request.item.experience_id)})))

    def _found(self, request: DistillationRequest, orphaned: Collection[ScopeVariantId]) -> Finding:
        """Speak of the task scope alone; a task with many seeds has a variant of its own."""
        finding = super()._found(request, orphaned)
        return replace(finding, verdicts=finding.verdicts[:1])

    def _standing(self, _draft: object) -> None:
        return None


@dataclass
class Contest:
    """Work items that are assigned and wait, all about one scope variant."""

    stack: Stack

    def begin(self) -> Contest:
        stack = self.stack
        run_id = stack.admit("first")
        for seed in range(SEEDS):
            stack.evidence(effects(stack, "first", GOOD, seed=seed))
        assert not stack.campaigns.ingest(run_id, quiet)
        assert not stack.campaigns.project(quiet)
        self.snapshot = stack.capture()
        self.rival = Rival(stack, ticking_clock())
        self.waiting = stack.campaigns.waiting()
        return self

    def wave(self) -> list[AppendReceipt]:
        """Let every thread read the same head and swap it; return the receipts."""
        requests, _ = self.stack.campaigns._lease(self.waiting[: THREADS * EACH], self.snapshot)
        assert len(requests) == THREADS * EACH
        proposed = threading.Barrier(THREADS)

        def swap(number: int) -> list[tuple[str, AppendReceipt]]:
            proposals = self.rival.propose(requests[number::THREADS])
            proposed.wait(60)
            answers = self.stack.spine.carry(proposals)
            return [(each.subject_id, expect(AppendReceipt, got)) for each, got in zip(proposals, answers, strict=True)]

        receipts = dict(itertools.chain.from_iterable(at_once(swap, THREADS)))
        self.waiting = [pair for pair in self.waiting if not self.won(pair, receipts)]
        return list(receipts.values())

    @staticmethod
    def won(pair: tuple[WorkItem, WorkAssignment], receipts: dict[str, AppendReceipt]) -> bool:
        receipt = receipts.get(str(pair[1].activity_id))
        return receipt is not None and receipt.committed

    def head(self) -> Head | None:
        return next(iter(self.stack.stores.ledger.variant_heads(self.stack.namespace).values()), None)


def test_a_thousand_swaps_on_one_head(stack: Stack) -> None:
    """One winner a generation, a typed receipt for every loser, one line of events, nothing lost."""
    contest = Contest(stack).begin()
    answered: list[AppendReceipt] = []
    stood = GENESIS
    for _generation in range(GENERATIONS):
        receipts = contest.wave()
        answered += receipts
        (winner,) = [receipt for receipt in receipts if receipt.committed]
        head = contest.head()
        assert head is not None
        assert head.event_id in winner.record_ids, "the head is where its one winner moved it"
        for receipt in receipts:
            if receipt is not winner:
                require_typed_loser(stack, receipt, (stood, head.event_id))
        stood = head.event_id
    assert len(answered) == SWAPS == 1000
    assert len({receipt.permit_key for receipt in answered}) == SWAPS
    require_one_line(stack, stood)
    require_sound(stack)


def require_typed_loser(stack: Stack, receipt: AppendReceipt, moved: tuple[str, str]) -> None:
    """A loser holds a conflict that says what it expected and what it found, and wrote nothing else."""
    assert receipt.reason is NoCommitReason.LIFECYCLE_HEAD_STALE
    assert receipt.record_ids == (str(receipt.no_commit_id),)
    refusal = expect(HeadConflict, record_of(stack, str(receipt.no_commit_id)))
    assert [(head.expected, head.observed) for head in refusal.heads] == [moved]


def require_one_line(stack: Stack, last: str) -> None:
    """The events are one chain from the beginning to the head: each is consumed once, none is lost."""
    events: list[LifecycleEvent] = stack.load("knowledge-lifecycle-event")
    after = {str(event.expected_prior): event for event in events}
    assert len(after) == len(events) == 2 * GENERATIONS - 1, "the first promotes; every other one supersedes, too"
    reached, walked = GENESIS, 0
    while reached in after:
        reached, walked = str(after[reached].id), walked + 1
    assert (reached, walked) == (last, len(events))
    (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
    assert (head.event_id, head.version) == (last, len(events))
    assert len(stack.load("memory-record")) == len(stack.load("distillation-report")) == GENERATIONS


def require_sound(stack: Stack) -> None:
    """Nothing is left open, every losing attempt was fenced off, and the integrity check finds nothing."""
    settled = Counter(
        phase
        for (machine, phase), count in stack.phases().items()
        for _ in range(count)
        if machine == Machine.AUTHORIZATION
    )
    assert settled[Phase.RETIRED_NO_COMMIT] == SWAPS - GENERATIONS
    assert not settled[Phase.GRANTED]
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, stack.stores.artifacts, namespace=stack.namespace)
    assert report.clean, report.text()


class TestProjectors:
    def test_a_hundred_of_them_on_one_item_admit_one_campaign(self, stack: Stack) -> None:
        """All of them have read that it waits; whoever comes late reads back what is there."""
        run_id = stack.admit("first")
        stack.evidence(effects(stack, "first", {"a": 0.05})[:1])
        assert not stack.campaigns.ingest(run_id, quiet)
        (item,) = stack.load("distillation-work-item")
        assert stack.campaigns.unassigned() == [item]

        projectors = [Projector(stack) for _ in range(PROJECTORS)]
        answers = at_once(lambda number: projectors[number].answer(), PROJECTORS)

        assert answers == [[]] * PROJECTORS, "every one of them has made it or read it back"
        (assignment,) = stack.load("distillation-work-assignment")
        assert assignment.work_item_id == item.id
        runs = campaign_runs(stack, item)
        assert [(run.id, run.phase) for run in runs] == [(assignment.run_id, Phase.RUNNING)]
        (activity,) = stack.stores.runtime.find(Machine.ACTIVITY, run_id=assignment.run_id)
        assert (activity.id, activity.phase, activity.generation, activity.fence) == (
            assignment.activity_id,
            Phase.READY,
            1,
            1,
        )
        assert stack.campaigns.unassigned() == []
        with stack.stores.ledger.reading() as reader:
            report = fsck(reader, stack.stores.runtime, stack.stores.artifacts, namespace=stack.namespace)
        assert report.clean, report.text()


class Projector(Campaigns):
    """A driver of its own over the same stores, which has read what waits before anybody projected anything."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack.campaigns._ports, POLICIES, stack.campaigns._profile, stack.namespace)
        self._read = super().unassigned()

    def unassigned(self) -> list[WorkItem]:
        return self._read

    def answer(self) -> list[Failure] | VrmError:
        try:
            return self.project(quiet)
        except VrmError as error:
            return error


def campaign_runs(stack: Stack, item: WorkItem) -> Sequence[Any]:
    """Return the Runs that some admission of the item has made."""
    return [run for run in stack.stores.runtime.find(Machine.RUN) if item.id in run.body]
