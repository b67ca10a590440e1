"""Claims inside the Ledger transaction, on both stores: chains, contradictions, traces, outcomes counted once."""

from __future__ import annotations

from typing import Any

import pytest

from memory.fsck import Code, fsck
from memory.index.lexical import terms
from memory.workspace.board import board_of, heads_of, history_of, one_claim
from memory.workspace.keeping import read_trace
from policies.workspace import moves
from policies.workspace.lifecycle import Added, Newcomer, add
from policies.workspace.policy import workspace_policy
from records.appends import Append, AppendReceipt
from records.base import Record
from records.claim_traces import ClaimReceipt, ClaimTrace
from records.errors import AmbiguousIdError, IdentityConflictError, IntegrityError, NotFoundError, VrmError
from records.flows import Transition
from records.values import PolicyIdentity
from records.workspace import (
    ClaimReason,
    ClaimSource,
    ClaimState,
    ClaimStatus,
    FileHash,
    PredicateFinding,
    PredicateOutcome,
    Trust,
    WorkspaceClaim,
)
from store.ledger.memory import MemoryLedger
from tests.support.stores import Writer, expect, fresh_namespace
from tests.support.trials import NOW, digest
from tests.support.workspace_samples import (
    TEXT,
    evidence,
    make_claim,
    make_claim_event,
    make_item,
    make_receipt,
    make_trace,
)

POLICY = workspace_policy()
NOT = "Retries of the client are not capped at 3"
DURABLE: dict[str, Any] = {"source": ClaimSource.DETERMINISTIC}


def append(writer: Writer, transition: Transition, *records: Record, key: str = "") -> AppendReceipt | VrmError:
    name = key or f"test/{digest(' '.join(str(each.id) for each in records))}"
    return writer.commit(Append.direct(transition, name, records))[0]


def planned(writer: Writer, claim: WorkspaceClaim, **more: Any) -> Added:
    board = board_of(writer.store, writer.namespace, claim.workspace)
    done = add(Newcomer(claim, **more), board, POLICY, terms, NOW)
    assert isinstance(done, Added), done
    return done


def added(writer: Writer, text: str = TEXT, **changes: Any) -> WorkspaceClaim:
    claim = make_claim(text, namespace=writer.namespace, **changes)
    done = planned(writer, claim)
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, *done.claims, *done.events))
    return claim


def state(writer: Writer, claim: WorkspaceClaim) -> ClaimState:
    return heads_of(writer.store, writer.namespace, [str(claim.id)])[str(claim.id)].state


def refused(answer: AppendReceipt | VrmError, words: str) -> None:
    assert isinstance(answer, IdentityConflictError), answer
    assert words in answer.value, answer


def traced(writer: Writer, claim: WorkspaceClaim, occasion: str = "first") -> ClaimTrace:
    event = history_of(writer.store, claim)[-1]
    trace = make_trace(writer.namespace, make_item(event), occasion=occasion)
    expect(AppendReceipt, append(writer, Transition.TRACE_CLAIMS, trace))
    return trace


def test_defect_3_a_claim_moves_by_events_and_keeps_its_history(writer: Writer) -> None:
    claim = added(writer, predicates=(FileHash(path="config.json", sha256=digest("{}")),), **DURABLE)
    before = writer.store.get(str(claim.id))
    held = board_of(writer.store, writer.namespace, "app")[str(claim.id)]
    finding = PredicateFinding(ordinal=1, outcome=PredicateOutcome.DIFFERS)
    events = moves.go_stale(held, [finding], POLICY, NOW)
    assert isinstance(events, tuple)
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, *events))
    assert state(writer, claim) is ClaimState.STALE
    assert writer.store.get(str(claim.id)) == before
    told = [(event.reason.value, event.state.value) for event in history_of(writer.store, claim)]
    assert told == [("locally_verified", "durable"), ("predicate_failed", "stale")]
    head = writer.store.namespace_head(writer.namespace)
    assert (head.evidence, head.lifecycle, head.retention) == (0, 0, 0)


def test_an_event_that_expects_another_than_the_last_is_refused(writer: Writer) -> None:
    claim = added(writer, **DURABLE)
    held = board_of(writer.store, writer.namespace, "app")[str(claim.id)]
    stale = moves.withdraw(held, ClaimReason.INVALIDATED, POLICY, NOW)
    suspected = moves.withdraw(held, ClaimReason.SUSPECTED, POLICY, NOW)
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, *stale))
    refused(append(writer, Transition.APPEND_CLAIMS, *suspected), "It consumes")
    again = append(writer, Transition.APPEND_CLAIMS, *stale)
    assert expect(AppendReceipt, again).committed, "the same request is a replay"
    (unguarded,) = writer.commit(
        Append.direct(Transition.APPEND_CLAIMS, "past-the-guard", suspected), guard=lambda _r, _a: None
    )
    assert isinstance(unguarded, IntegrityError), "the database itself lets no two events consume one"


def test_two_additions_that_contradict_each_other_cannot_pass_by_each_other(writer: Writer) -> None:
    one = make_claim(namespace=writer.namespace, **DURABLE)
    two = make_claim(NOT, namespace=writer.namespace, events=evidence("b"), **DURABLE)
    plans = [planned(writer, one), planned(writer, two)]  # neither sees the other
    parts = [(*each.claims, *each.events) for each in plans]
    first, second = writer.commit(
        *(Append.direct(Transition.APPEND_CLAIMS, f"add/{n}", each) for n, each in enumerate(parts))
    )
    expect(AppendReceipt, first)
    refused(second, "not contested with exactly what it contradicts")
    done = planned(writer, two)
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, *done.claims, *done.events))
    assert {state(writer, one), state(writer, two)} == {ClaimState.CONTESTED}


@pytest.mark.parametrize(
    ("changes", "reason", "after", "words"),
    [
        ({}, ClaimReason.LOCALLY_VERIFIED, "durable", "deterministically"),
        (
            {"status": ClaimStatus.TENTATIVE, **DURABLE},
            ClaimReason.LOCALLY_VERIFIED,
            "durable",
            "starts a claim durable",
        ),
        ({"trust": Trust.EXTERNAL, **DURABLE}, ClaimReason.LOCALLY_VERIFIED, "durable", "starts a claim"),
        ({"trust": Trust.UNTRUSTED}, ClaimReason.ADDED, "probationary", "starts as untrusted_source"),
        ({"status": ClaimStatus.INVALIDATED}, ClaimReason.ADDED, "probationary", "starts as stated_invalid"),
        ({}, ClaimReason.PROMOTED, "durable", "not started -> promoted"),
        ({}, ClaimReason.ADDED, "durable", "It leads to probationary"),
    ],
)
def test_a_start_that_the_policy_does_not_give_is_refused(
    writer: Writer, changes: dict[str, Any], reason: ClaimReason, after: str, words: str
) -> None:
    claim = make_claim(namespace=writer.namespace, events=evidence("a", "b"), **changes)
    event = make_claim_event(claim, reason, state=ClaimState(after))
    refused(append(writer, Transition.APPEND_CLAIMS, claim, event), words)
    assert writer.journal() == []


def test_a_promotion_without_evidence_is_refused(writer: Writer) -> None:
    claim = added(writer, events=evidence("run-1=same"))
    last = history_of(writer.store, claim)[-1]
    forged = {"expected_prior": last.id, "state": ClaimState.DURABLE}
    same = make_claim_event(claim, ClaimReason.PROMOTED, evidence=evidence("run-2=same"), **forged)
    refused(append(writer, Transition.APPEND_CLAIMS, same), "promotion needs")
    other = make_claim_event(claim, ClaimReason.PROMOTED, evidence=evidence("run-1=other"), **forged)
    refused(append(writer, Transition.APPEND_CLAIMS, other), "another content")
    foreign = PolicyIdentity(policy_id="workspace", version="1", digest=digest("mine"))
    lax = make_claim_event(claim, ClaimReason.PROMOTED, evidence=evidence("run-2"), policy=foreign, **forged)
    refused(append(writer, Transition.APPEND_CLAIMS, lax), "does not have")
    good = make_claim_event(claim, ClaimReason.PROMOTED, evidence=evidence("run-2"), **forged)
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, good))
    assert state(writer, claim) is ClaimState.DURABLE


def test_a_claim_comes_with_its_first_event_and_an_event_with_its_claim(writer: Writer) -> None:
    claim = make_claim(namespace=writer.namespace)
    refused(append(writer, Transition.APPEND_CLAIMS, claim), "without its first event")
    refused(append(writer, Transition.APPEND_CLAIMS, make_claim_event(claim)), "not in the Ledger")
    elsewhere = make_claim_event(claim, workspace="other")
    refused(append(writer, Transition.APPEND_CLAIMS, claim, elsewhere), "another workspace")


def test_a_workspace_and_a_namespace_see_their_own_claims_alone(writer: Writer) -> None:
    claim = added(writer, **DURABLE)
    other = added(writer, NOT, workspace="site", events=evidence("b"), **DURABLE)
    assert {state(writer, claim), state(writer, other)} == {ClaimState.DURABLE}, "no contradiction across workspaces"
    assert set(board_of(writer.store, writer.namespace, "app")) == {claim.id}
    foreign = Writer(writer.store, fresh_namespace(), writer.epoch)
    assert board_of(foreign.store, foreign.namespace, "app") == {}
    twin = added(foreign, **DURABLE)
    assert twin.id != claim.id
    assert one_claim(writer.store, writer.namespace, str(claim.id)[:40]) == claim
    with pytest.raises(NotFoundError):
        one_claim(writer.store, writer.namespace, str(twin.id))
    with pytest.raises(AmbiguousIdError):
        one_claim(writer.store, writer.namespace, "workspace-claim:")


def test_a_trace_shows_only_what_is_durable_at_that_moment(writer: Writer) -> None:
    claim, young = added(writer, **DURABLE), added(writer, "The build takes about four minutes")
    traced(writer, claim)
    event = history_of(writer.store, young)[-1]
    refused(append(writer, Transition.TRACE_CLAIMS, make_trace(writer.namespace, make_item(event), occasion="b")),
            "not durable now")  # fmt: skip
    seen = make_trace(writer.namespace, make_item(history_of(writer.store, claim)[-1]), occasion="c")
    held = board_of(writer.store, writer.namespace, "app")[str(claim.id)]
    writer.good(
        Append.direct(Transition.APPEND_CLAIMS, "out", moves.withdraw(held, ClaimReason.INVALIDATED, POLICY, NOW))
    )
    refused(append(writer, Transition.TRACE_CLAIMS, seen), "not durable now")
    foreign = make_trace(writer.namespace, make_item(event), occasion="d", workspace="site")
    refused(append(writer, Transition.TRACE_CLAIMS, foreign), "not of its workspace")


def test_a_trace_is_named_by_any_unambiguous_beginning(writer: Writer) -> None:
    claim = added(writer, **DURABLE)
    first, _ = traced(writer, claim), traced(writer, claim, "second")
    assert read_trace(writer.store, writer.namespace, str(first.id)[:40]) == first
    with pytest.raises(AmbiguousIdError):
        read_trace(writer.store, writer.namespace, "claim-trace:")
    with pytest.raises(NotFoundError):
        read_trace(writer.store, "other", str(first.id))


def test_defect_4_an_outcome_counts_once_for_a_trace_and_trial(writer: Writer) -> None:
    trace = traced(writer, added(writer, **DURABLE))
    receipt = make_receipt(trace)
    first = expect(AppendReceipt, append(writer, Transition.RECEIPT_CLAIMS, receipt, key="trial"))
    assert append(writer, Transition.RECEIPT_CLAIMS, receipt, key="trial") == first, "identical: a replay"
    later = receipt.model_copy(update={"created_at": "2026-06-01T00:00:00.000000Z"})
    again = ClaimReceipt.load(later.payload)
    assert append(writer, Transition.RECEIPT_CLAIMS, again, key="trial") == first, "its time is no other outcome"
    other = make_receipt(trace, passed=False)
    assert isinstance(append(writer, Transition.RECEIPT_CLAIMS, other, key="trial"), IdentityConflictError)
    refused(append(writer, Transition.RECEIPT_CLAIMS, other), "counts once")
    (unguarded,) = writer.commit(
        Append.direct(Transition.RECEIPT_CLAIMS, "past-the-guard", (other,)), guard=lambda _r, _a: None
    )
    assert isinstance(unguarded, IntegrityError), "the database itself takes one"
    expect(AppendReceipt, append(writer, Transition.RECEIPT_CLAIMS, make_receipt(trace, "trial-2")))
    found = writer.store.find("claim-receipt", writer.namespace)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task_id": "task-2"}, "another task"),
        ({"selected": ()}, "does not name what its trace showed"),
        ({"reward": "0.5"}, "not that of the outcome"),
        ({"policy": PolicyIdentity(policy_id="workspace-shadow", version="9", digest="0" * 64)}, "does not have"),
    ],
)
def test_a_receipt_repeats_its_trace_and_has_the_reward_of_its_outcome(
    writer: Writer, changes: dict[str, Any], words: str
) -> None:
    receipt = make_receipt(traced(writer, added(writer, **DURABLE)))
    fields = {name: getattr(receipt, name) for name in ClaimReceipt.model_fields}
    refused(append(writer, Transition.RECEIPT_CLAIMS, ClaimReceipt.build(**(fields | changes))), words)
    late = receipt.shadow.model_copy(update={"version": 7})
    refused(append(writer, Transition.RECEIPT_CLAIMS, ClaimReceipt.build(**(fields | {"shadow": late}))), "shadow")


def test_the_integrity_check_finds_what_a_guard_would_have_refused() -> None:
    writer = Writer.claim(MemoryLedger())
    claim = added(writer, **DURABLE)
    trace = traced(writer, claim)
    with writer.store.reading() as reader:
        assert fsck(reader, None, None).clean
    young = make_claim("The build takes about four minutes", namespace=writer.namespace)
    start = make_claim_event(young)
    bad = make_trace(writer.namespace, make_item(start), occasion="b")
    true = make_receipt(trace)
    fields = {name: getattr(true, name) for name in ClaimReceipt.model_fields}
    receipt = ClaimReceipt.build(**(fields | {"task_id": "task-9"}))
    praised = ClaimReceipt.build(**(fields | {"trial_id": "another", "reward": "0.25"}))
    still = make_claim("Nobody ever moved this claim", namespace=writer.namespace)
    skipped = make_claim_event(claim, ClaimReason.PROMOTED, expected_prior=start.id, state=ClaimState.DURABLE)
    poor = make_claim("One look was enough to be sure", namespace=writer.namespace)
    first = make_claim_event(poor)
    raised = make_claim_event(poor, ClaimReason.PROMOTED, expected_prior=first.id, state=ClaimState.DURABLE)
    forged = [
        Append.direct(Transition.APPEND_CLAIMS, "one", (young, start)),
        Append.direct(Transition.TRACE_CLAIMS, "two", (bad,)),
        Append.direct(Transition.RECEIPT_CLAIMS, "three", (receipt,)),
        Append.direct(Transition.APPEND_CLAIMS, "four", (skipped,)),
        Append.direct(Transition.APPEND_CLAIMS, "five", (still,)),
        Append.direct(Transition.RECEIPT_CLAIMS, "six", (praised,)),
        Append.direct(Transition.APPEND_CLAIMS, "seven", (poor, first, raised)),
    ]  # fmt: skip
    for each in writer.commit(*forged, guard=lambda _r, _a: None):
        expect(AppendReceipt, each)
    with writer.store.reading() as reader:
        found = [each for each in fsck(reader, None, None).violations if each.code is Code.CLAIM_MISMATCH]
    assert {each.record for each in found} == {bad.id, receipt.id, claim.id, still.id, praised.id, raised.id}
