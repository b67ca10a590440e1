"""What keeps one item from its end keeps no other: a profile that is lost, a head that cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from memory.campaigns import Campaigns
from memory.heads import Reservation
from memory.work_state import work_of
from records.control import RunFacts
from records.errors import NotFoundError, StaleError, UnavailableError, VrmError
from records.ids import ScopeVariantId
from records.knowledge import LifecycleEvent
from records.states import Machine
from tests.contract.test_campaigns import require_clean
from tests.contract.test_campaigns_pinned import PLAIN, campaigns, queue
from tests.support.samples import PROFILE
from tests.support.stack import GOOD, POLICIES, Hosts, Stack, effects, quiet
from tests.support.stack_jobs import job_over
from vrm.mainjob.distillation import retry

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def attempts(stack: Stack) -> dict[str, int]:
    """Return how many attempts each item has cost."""
    runs = {str(each.work_item_id): str(each.run_id) for each in stack.load("distillation-work-assignment")}
    subjects = stack.stores.runtime.subjects(Machine.RUN, list(runs.values()))
    facts = {item: RunFacts.load(subjects[run].facts).budget for item, run in runs.items()}
    return {item: lines[0].spent for item, lines in facts.items()}


class TestProfiles:
    def test_an_item_whose_profile_is_lost_is_set_apart_alone(self, stack: Stack) -> None:
        queue(stack, "before", campaigns(stack, POLICIES, PLAIN))
        now = campaigns(stack, POLICIES)
        queue(stack, "after", now, seed=1)
        lost = {item.id for item in now.unassigned() if item.campaign_profile_digest == PLAIN.canonical_digest}
        Path(stack.stores.artifacts.location(PLAIN.canonical_digest)).unlink()
        for _ in range(2):
            failures = now.project(quiet)
            assert {each.subject for each in failures} == lost
            assert {type(each.error) for each in failures} == {NotFoundError}
            assert {item.id for item in now.unassigned()} == lost
        assert not now.distil(stack.capture(), stack.distiller, quiet)
        assert len(stack.load("distillation-work-completion")) == len(lost) == 2 * len(GOOD)
        stack.stores.artifacts.publish(PLAIN.canonical)
        assert not now.project(quiet)
        assert not now.distil(stack.capture(), stack.distiller, quiet)
        assert not now.unassigned()
        assert not now.waiting()
        require_clean(stack)

    def test_retry_says_why_such_an_item_still_waits(self, stack: Stack) -> None:
        queue(stack, "before", campaigns(stack, POLICIES, PLAIN))
        Path(stack.stores.artifacts.location(PLAIN.canonical_digest)).unlink()
        answers = retry(job_over(stack), work_of(stack.stores.ledger, stack.namespace))
        assert {each.outcome for each in answers} == {"waiting"}
        assert all(PLAIN.canonical_digest in each.detail for each in answers)


class Away:
    """Hosts of heads of which one cannot be had for some variants."""

    def __init__(self, inner: Hosts, variants: Sequence[ScopeVariantId], error: VrmError) -> None:
        self.inner, self.variants, self.error = inner, variants, error

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        if any(event.scope_variant_id in self.variants for event in events):
            raise self.error
        return self.inner.reserve(namespace, plan, events)

    def release(self, plan: str) -> None:
        self.inner.release(plan)


@pytest.mark.parametrize(
    "error", [UnavailableError("actor", "lifecycle-head-0", "It cannot start."), StaleError("head", "held", "Wait.")]
)
def test_a_head_that_cannot_be_had_costs_those_alone_that_touch_it(stack: Stack, error: VrmError) -> None:
    run_id = stack.admit("source")
    stack.evidence([*effects(stack, "source", GOOD), *effects(stack, "source", GOOD, size="large")])
    assert not stack.campaigns.ingest(run_id, quiet)
    assert not stack.campaigns.project(quiet)
    snapshot = stack.capture()
    scopes = sorted({item.task_scope_id for item in stack.load("distillation-work-item")})
    verdicts = stack.distiller.view(snapshot).verdicts
    away = [key for key, each in verdicts.items() if cast("Any", each).variant.scope.task_scope_id == scopes[0]]
    touching = {item.id for item in stack.load("distillation-work-item") if item.task_scope_id == scopes[0]}
    ports = replace(stack.campaigns._ports, heads=Away(stack.heads, away, error))
    apart = Campaigns(ports, POLICIES, PROFILE, stack.namespace)
    failures = apart.distil(snapshot, stack.distiller, quiet)
    assert {each.subject for each in failures} == touching
    assert {each.error for each in failures} == {error}
    assert len(stack.load("distillation-work-completion")) == 2 * len(GOOD)
    assert not stack.load("no-commit-receipt"), "whoever rests on a Decision that is held back is granted nothing"
    assert not stack.campaigns.distil(snapshot, stack.distiller, quiet)
    assert attempts(stack) == {item: 1 + (item in touching) for item in attempts(stack)}
    require_clean(stack)
