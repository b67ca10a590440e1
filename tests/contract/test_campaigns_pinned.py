"""Work that was queued under other policies or another profile than are configured now (spec 4.14, VRM-W09)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.campaigns import CampaignPorts, Campaigns
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.pinned import PinnedDistillers, packaged
from memory.distillation.policies import Policies
from memory.ports import all_good
from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, capture_key
from memory.work_state import Pinned, by_pinned
from policies.distillation_policy import DistillationPolicy
from records.appends import Append
from records.canonical import canonical_bytes
from records.errors import InvalidInputError, StaleError
from records.flows import Transition
from records.ids import EvidenceSnapshotId
from records.ingestion import CompletionStatus
from records.values import CampaignProfile, PolicyIdentity
from tests.support.samples import PROFILE
from tests.support.stack import GOOD, POLICIES, Stack, effects, quiet
from tests.support.stores import ticking_clock
from tests.support.trials import digest

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

LATER = DistillationPolicy.load(canonical_bytes(POLICIES.distillation.as_json() | {"version": "999"}))
"""A version that is the default after the items were queued; it says the same under another identity."""
MOVED = Policies(distillation=LATER, lifecycle=POLICIES.lifecycle)
PLAIN = PROFILE.model_copy(update={"budget_class": "plain"})


def resolve(distillation: PolicyIdentity, lifecycle: PolicyIdentity) -> Policies:
    """Return the policies of an installation that has both versions."""
    known = {each.distillation.identity: each for each in (POLICIES, MOVED)}
    assert lifecycle == POLICIES.lifecycle.identity
    return known[distillation]


def campaigns(stack: Stack, policies: Policies, profile: CampaignProfile = PROFILE) -> Campaigns:
    """Return the driver of an installation with these defaults."""
    ports = CampaignPorts(
        ledger=stack.stores.ledger, runtime=stack.stores.runtime, artifacts=stack.stores.artifacts,
        owner=stack.owner, spine=stack.spine, heads=stack.heads, clock=ticking_clock(), holder="test",
    )  # fmt: skip
    return Campaigns(ports, policies, profile, stack.namespace)


def captured(stack: Stack, policy: DistillationPolicy) -> EvidenceSnapshotId:
    """Capture all evidence under a policy."""
    with stack.stores.ledger.reading() as reader:
        request = FreezeEvidence(namespace=stack.namespace, operation_key=f"under-v{policy.version}")
        snapshot, operation = EvidenceSnapshotBuilder(policy).freeze(reader, request)
    all_good(
        stack.spine.direct([Append.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), (snapshot, operation))])
    )
    return EvidenceSnapshotId(snapshot.id)


def queue(stack: Stack, key: str, made: Campaigns, **changes: Any) -> None:
    """Queue the evidence of a Run under the defaults of `made`."""
    run_id = stack.admit(key)
    stack.evidence(effects(stack, key, GOOD, **changes))
    assert not made.ingest(run_id, quiet)


class TestPolicies:
    def test_items_of_two_versions_are_each_distilled_under_their_own(self, stack: Stack) -> None:
        old, new = campaigns(stack, POLICIES), campaigns(stack, MOVED)
        queue(stack, "before", old)
        queue(stack, "after", new, seed=1)
        assert not new.project(quiet)
        groups = by_pinned(new.waiting())
        assert [each.distillation.version for each in groups] == [POLICIES.distillation.version, "999"]
        distillers = PinnedDistillers(stack.stores.ledger, ticking_clock(), resolve)
        for pinned, group in groups.items():
            snapshot = captured(stack, resolve(pinned.distillation, pinned.lifecycle).distillation)
            assert not new.distil(snapshot, distillers, quiet, group)
        assert not new.waiting()
        items = {item.id: item for item in stack.load("distillation-work-item")}
        batches = stack.load("distillation-batch")
        assert len(batches) == len(items) == 4 * len(GOOD)
        assert all(batch.distillation_policy == items[batch.work_item_id].distillation_policy for batch in batches)
        assert {each.status for each in stack.load("distillation-work-completion")} == {CompletionStatus.COMPLETED}

    def test_one_call_with_items_of_both_keeps_their_order(self, stack: Stack) -> None:
        old, new = campaigns(stack, POLICIES), campaigns(stack, MOVED)
        queue(stack, "after", new)
        queue(stack, "before", old, seed=1)
        assert not new.project(quiet)
        waiting = new.waiting()[::-1]
        requests, refused = new._lease(waiting, captured(stack, POLICIES.distillation))
        proposals = PinnedDistillers(stack.stores.ledger, ticking_clock(), resolve).propose(requests)
        assert not refused
        assert [each.subject_id for each in proposals] == [assignment.activity_id for _, assignment in waiting]
        batches = [next(each for each in proposal.unpack() if each.kind.noun == "distillation-batch")
                   for proposal in proposals]  # fmt: skip
        assert [each.as_json()["distillation_policy"] for each in batches] == [
            item.distillation_policy.as_json() for item, _ in waiting
        ]

    def test_the_default_alone_would_leave_them(self, stack: Stack) -> None:
        """What a distiller with the new default proposes for an old item is refused, so grouping is not for show."""
        old, new = campaigns(stack, POLICIES), campaigns(stack, MOVED)
        queue(stack, "before", old)
        assert not new.project(quiet)
        wrong = KnowledgeDistiller(stack.stores.ledger, MOVED, ticking_clock())
        failures = new.distil(captured(stack, LATER), wrong, quiet)
        assert len(failures) == 2 * len(GOOD)
        assert not stack.load("distillation-work-completion")

    def test_a_record_of_a_later_version_stands_against_an_item_of_an_earlier_one(self, stack: Stack) -> None:
        """What the item's own policy would say is that the rule is not carried any more."""
        old, new = campaigns(stack, POLICIES), campaigns(stack, MOVED)
        queue(stack, "after", new)
        assert not new.project(quiet)
        later = KnowledgeDistiller(stack.stores.ledger, MOVED, ticking_clock())
        assert not new.distil(captured(stack, LATER), later, quiet)
        (rule,), before = stack.load("memory-record"), stack.stores.ledger.variant_heads(stack.namespace)
        (decision,) = stack.load("distillation-decision")
        run_id = stack.admit("before")
        stack.evidence(effects(stack, "before", dict.fromkeys("ghijkl", -0.06), seed=1))
        assert not old.ingest(run_id, quiet)
        assert not old.project(quiet)
        waiting = [item.id for item, _ in old.waiting()]
        assert not old.distil(captured(stack, POLICIES.distillation), stack.distiller, quiet)
        assert stack.stores.ledger.variant_heads(stack.namespace) == before
        ends = {end.work_item_id: end for end in stack.load("distillation-work-disposition")}
        assert {ends[item].decision_id for item in waiting} == {decision.id}
        assert decision.memory_id == rule.id


class TestProfiles:
    def test_a_campaign_has_the_profile_that_its_item_pins(self, stack: Stack) -> None:
        queue(stack, "before", campaigns(stack, POLICIES, PLAIN))
        now = campaigns(stack, POLICIES)
        queue(stack, "after", now, seed=1)
        assert not now.project(quiet)
        groups = by_pinned(now.waiting())
        assert [each.profile_digest for each in groups] == [PLAIN.canonical_digest, PROFILE.canonical_digest]
        assert not now.distil(captured(stack, POLICIES.distillation), stack.distiller, quiet)
        assert not now.waiting()


def test_what_is_packaged_is_found_by_its_whole_identity(stack: Stack) -> None:
    distillation, lifecycle = POLICIES.distillation.identity, POLICIES.lifecycle.identity
    assert packaged(distillation, lifecycle) == POLICIES
    with pytest.raises(StaleError, match="policy"):
        packaged(distillation.model_copy(update={"digest": digest("other")}), lifecycle)
    with pytest.raises(InvalidInputError, match="distillation-v999"):
        packaged(LATER.identity, lifecycle)
    assert stack.position() == 0


def test_groups_keep_the_order_in_which_items_come(stack: Stack) -> None:
    old = campaigns(stack, POLICIES)
    queue(stack, "before", old)
    assert not old.project(quiet)
    found = old.waiting()
    assert by_pinned(found) == {Pinned.of(found[0][0]): found}
    assert by_pinned([]) == {}
