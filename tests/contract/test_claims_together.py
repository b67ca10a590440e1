"""Events that name another claim, and claims that come back, inside the Ledger transaction (spec 004)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.index.lexical import terms
from memory.workspace.board import board_of, history_of
from policies.workspace import moves
from records.appends import AppendReceipt
from records.flows import Transition
from records.ids import WorkspaceClaimId
from records.workspace import (
    GENESIS,
    ClaimEvent,
    ClaimReason,
    ClaimState,
    FileHash,
    PredicateFinding,
    PredicateOutcome,
    Trust,
    WorkspaceClaim,
)
from tests.contract.test_claims import DURABLE, NOT, POLICY, added, append, planned, refused, state
from tests.support.stores import Writer, expect
from tests.support.trials import NOW, digest
from tests.support.workspace_samples import evidence, make_claim, make_claim_event

FIVE = "Retries of the client are capped at 5"
OTHER = "The build takes about four minutes"


def step(claim: WorkspaceClaim, prior: str, reason: ClaimReason, after: ClaimState, **more: Any) -> ClaimEvent:
    if "counterpart" in more:
        more["counterpart"] = WorkspaceClaimId(more["counterpart"])
    return make_claim_event(claim, reason, expected_prior=prior, state=after, **more)


def last(writer: Writer, claim: WorkspaceClaim) -> str:
    return str(history_of(writer.store, claim)[-1].id)


def take(writer: Writer, *records: Any) -> None:
    expect(AppendReceipt, append(writer, Transition.APPEND_CLAIMS, *records))


@pytest.mark.parametrize(
    ("changes", "promoted", "words"),
    [
        ({"trust": Trust.EXTERNAL, "events": evidence("a")}, False, "added and promoted with it"),
        ({"trust": Trust.EXTERNAL, "events": evidence("a", "b")}, True, "less_trusted"),
        ({"trust": Trust.UNTRUSTED, "events": evidence("a", "b")}, False, "added and promoted with it"),
        ({"events": evidence("a", "b")}, False, "added and promoted with it"),
        ({"events": evidence("config-read-1", "b=config-read-1", "c=config-read-1")}, False, "added and promoted"),
    ],
)
def test_what_could_not_be_added_as_a_revision_revises_nothing(
    writer: Writer, changes: dict[str, Any], promoted: bool, words: str
) -> None:
    old = added(writer, **DURABLE)
    new = make_claim(FIVE, namespace=writer.namespace, **changes)
    held = new.trust is Trust.UNTRUSTED
    first = make_claim_event(
        new,
        ClaimReason.UNTRUSTED_SOURCE if held else ClaimReason.ADDED,
        state=ClaimState.QUARANTINED if held else ClaimState.PROBATIONARY,
    )
    up = [step(new, str(first.id), ClaimReason.PROMOTED, ClaimState.DURABLE)] if promoted else []
    out = step(old, last(writer, old), ClaimReason.REVISED, ClaimState.SUPERSEDED, counterpart=new.id)
    refused(append(writer, Transition.APPEND_CLAIMS, new, first, *up, out), words)
    assert state(writer, old) is ClaimState.DURABLE


def test_a_claim_that_is_there_already_revises_nothing(writer: Writer) -> None:
    old, other = added(writer, **DURABLE), added(writer, OTHER, events=evidence("a", "b"))
    out = step(old, last(writer, old), ClaimReason.REVISED, ClaimState.SUPERSEDED, counterpart=other.id)
    refused(append(writer, Transition.APPEND_CLAIMS, out), "added and promoted with it")


def test_an_acceptable_revision_is_taken(writer: Writer) -> None:
    old = added(writer, **DURABLE)
    done = planned(writer, make_claim(FIVE, namespace=writer.namespace, events=evidence("a", "b")), revises=str(old.id))
    take(writer, *done.claims, *done.events)
    assert state(writer, old) is ClaimState.SUPERSEDED


def test_a_claim_is_rejected_only_for_one_that_is_upheld_over_it(writer: Writer) -> None:
    one, two = added(writer), added(writer, NOT, events=evidence("b"))
    third = added(writer, OTHER, events=evidence("c"))
    out = step(one, last(writer, one), ClaimReason.REJECTED, ClaimState.SUPERSEDED, counterpart=two.id)
    refused(append(writer, Transition.APPEND_CLAIMS, out), "upheld with it")
    stray = step(one, last(writer, one), ClaimReason.REJECTED, ClaimState.SUPERSEDED, counterpart=third.id)
    up: dict[str, Any] = {"counterpart": one.id, "evidence": evidence("d")}
    won = step(two, last(writer, two), ClaimReason.UPHELD, ClaimState.PROBATIONARY, **up)
    refused(append(writer, Transition.APPEND_CLAIMS, won, stray), "upheld with it")
    refused(append(writer, Transition.APPEND_CLAIMS, won), "left contested with the upheld one")
    stale = step(two, last(writer, two), ClaimReason.UPHELD, ClaimState.PROBATIONARY,
                 **(up | {"evidence": evidence("config-read-1")}))  # fmt: skip
    refused(append(writer, Transition.APPEND_CLAIMS, stale, out), "has the evidence already")
    for foreign in (third, make_claim(OTHER, namespace=writer.namespace, events=evidence("nowhere"))):
        lost = step(two, last(writer, two), ClaimReason.UPHELD, ClaimState.PROBATIONARY,
                    **(up | {"counterpart": foreign.id}))  # fmt: skip
        refused(append(writer, Transition.APPEND_CLAIMS, lost, out), "")
    take(writer, won, out)
    assert (state(writer, one), state(writer, two)) == (ClaimState.SUPERSEDED, ClaimState.PROBATIONARY)


def test_a_claim_is_contested_by_a_live_one_of_its_workspace_that_is_contested_in_turn(writer: Writer) -> None:
    one, away = added(writer, **DURABLE), added(writer, OTHER, workspace="site", events=evidence("b"), **DURABLE)
    near = added(writer, "The cache is shared between workers", events=evidence("c"))
    poison = added(writer, NOT, trust=Trust.UNTRUSTED, events=evidence("e"))

    def against(claim: WorkspaceClaim, other: WorkspaceClaim) -> ClaimEvent:
        prior = last(writer, claim)
        return step(claim, prior, ClaimReason.CONTRADICTED, ClaimState.CONTESTED, counterpart=other.id)

    refused(append(writer, Transition.APPEND_CLAIMS, against(one, near)), "in turn")
    pair = (against(one, away), against(away, one))
    refused(append(writer, Transition.APPEND_CLAIMS, *pair), "not of its workspace")
    pair = (against(one, poison), against(poison, one))
    refused(append(writer, Transition.APPEND_CLAIMS, *pair), "quarantined -> contradicted")
    take(writer, against(one, near), against(near, one))
    assert {state(writer, one), state(writer, near)} == {ClaimState.CONTESTED}


@pytest.mark.parametrize(
    ("ordinal", "outcome", "words"),
    [
        (7, PredicateOutcome.DIFFERS, "does not have"),
        (2, PredicateOutcome.DIFFERS, "does not have"),
        (1, PredicateOutcome.TIMED_OUT, "tells nothing"),
        (1, PredicateOutcome.CHANGING, "tells nothing"),
    ],
)
def test_a_claim_is_stale_by_a_predicate_that_it_has_and_that_tells_something(
    writer: Writer, ordinal: int, outcome: PredicateOutcome, words: str
) -> None:
    claim = added(writer, predicates=(FileHash(path="config.json", sha256=digest("{}")),), **DURABLE)

    def failed(number: int, found: PredicateOutcome) -> ClaimEvent:
        findings = (PredicateFinding(ordinal=number, outcome=found),)
        return step(claim, last(writer, claim), ClaimReason.PREDICATE_FAILED, ClaimState.STALE, findings=findings)

    refused(append(writer, Transition.APPEND_CLAIMS, failed(ordinal, outcome)), words)
    assert state(writer, claim) is ClaimState.DURABLE
    take(writer, failed(1, PredicateOutcome.DIFFERS))


def test_two_claims_of_one_append_are_held_against_each_other(writer: Writer) -> None:
    pair = [make_claim(namespace=writer.namespace), make_claim(NOT, namespace=writer.namespace, events=evidence("b"))]
    events = [make_claim_event(each) for each in pair]
    refused(append(writer, Transition.APPEND_CLAIMS, *pair, *events), "not contested with exactly")
    assert events[0].expected_prior == GENESIS


@pytest.mark.parametrize("reason", [ClaimReason.INVALIDATED, ClaimReason.SUSPECTED])
def test_what_comes_back_is_held_against_what_is_live(writer: Writer, reason: ClaimReason) -> None:
    first = added(writer, **DURABLE)
    board = board_of(writer.store, writer.namespace, "app")
    take(writer, *moves.withdraw(board[str(first.id)], reason, POLICY, NOW))
    second = added(writer, FIVE, events=evidence("a"), **DURABLE)
    assert state(writer, second) is ClaimState.DURABLE
    back = moves.RETURNING[state(writer, first)]
    alone = step(first, last(writer, first), back, ClaimState.PROBATIONARY, evidence=evidence("d"))
    refused(append(writer, Transition.APPEND_CLAIMS, alone), "not contested with exactly")
    board = board_of(writer.store, writer.namespace, "app")
    done = moves.come_back(board[str(first.id)], board, evidence("d"), POLICY, NOW, words=terms, holds=True)
    assert isinstance(done, tuple)
    take(writer, *done)
    assert {state(writer, first), state(writer, second)} == {ClaimState.CONTESTED}


def test_an_event_has_one_content_whichever_claim_brings_it(writer: Writer) -> None:
    one, two = added(writer, events=evidence("e1=X")), added(writer, OTHER, events=evidence("b"))
    poison = added(writer, "Something else of the client altogether", trust=Trust.UNTRUSTED, events=evidence("e2=lies"))
    assert state(writer, poison) is ClaimState.QUARANTINED

    def up(claim: WorkspaceClaim, *names: str) -> ClaimEvent:
        prior = last(writer, claim)
        return step(claim, prior, ClaimReason.PROMOTED, ClaimState.DURABLE, evidence=evidence(*names))

    refused(append(writer, Transition.APPEND_CLAIMS, up(two, "e1=Y")), "e1 has another content")
    pair = (up(one, "e3=X3"), up(two, "e3=Y3"))
    refused(append(writer, Transition.APPEND_CLAIMS, *pair), "e3 has another content")
    for trust, reason, after in (
        (Trust.EXTERNAL, ClaimReason.ADDED, ClaimState.PROBATIONARY),
        (Trust.UNTRUSTED, ClaimReason.UNTRUSTED_SOURCE, ClaimState.QUARANTINED),
    ):
        late = make_claim("The cache is warm", namespace=writer.namespace, trust=trust, events=evidence("e1=Y"))
        start = make_claim_event(late, reason, state=after)
        refused(append(writer, Transition.APPEND_CLAIMS, late, start), "e1 has another content")
    take(writer, up(two, "e2=truth"))
