"""The lifecycle of claims, as pure decisions: starts, contradictions, promotion, staleness, revision (spec 004)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from memory.index.lexical import terms
from policies.workspace import moves
from policies.workspace.arrows import ARROWS, ClaimHead, advance, fold, next_state
from policies.workspace.lifecycle import (
    Added,
    Addition,
    HeldClaim,
    Lack,
    Newcomer,
    NotDone,
    add,
    independent,
    new_evidence,
)
from policies.workspace.policy import Admission, workspace_policy
from records.errors import IdentityConflictError, IllegalTransitionError, IntegrityError, InvalidInputError
from records.workspace import (
    ClaimEvent,
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
from tests.support.trials import NOW, digest
from tests.support.workspace_samples import evidence, make_claim, make_claim_event

POLICY = workspace_policy()
NOT = "Retries of the client are not capped at 3"
TWO = evidence("config-read-1", "test-pass-7")

# The arrows of docs/claims.md, written down a second time.
DRAWN = {
    ("start", "added", "probationary"), ("start", "locally_verified", "durable"),
    ("start", "contradicted", "contested"), ("start", "untrusted_source", "quarantined"),
    ("start", "stated_invalid", "stale"), ("probationary", "promoted", "durable"),
    ("probationary", "contradicted", "contested"), ("durable", "contradicted", "contested"),
    ("contested", "contradicted", "contested"), ("contested", "upheld", "probationary"),
    ("contested", "rejected", "superseded"), ("probationary", "revised", "superseded"),
    ("durable", "revised", "superseded"), ("contested", "revised", "superseded"), ("stale", "revised", "superseded"),
    ("probationary", "predicate_failed", "stale"), ("durable", "predicate_failed", "stale"),
    ("contested", "predicate_failed", "stale"), ("probationary", "invalidated", "stale"),
    ("durable", "invalidated", "stale"), ("contested", "invalidated", "stale"),
    ("stale", "new_evidence", "probationary"), ("probationary", "suspected", "quarantined"),
    ("durable", "suspected", "quarantined"), ("contested", "suspected", "quarantined"),
    ("stale", "suspected", "quarantined"), ("quarantined", "released", "probationary"),
}  # fmt: skip


class Board:
    """Claims of a workspace, moved by the policy alone."""

    def __init__(self) -> None:
        self.claims: dict[str, WorkspaceClaim] = {}
        self.events: list[ClaimEvent] = []

    def held(self) -> dict[str, HeldClaim]:
        heads = fold(self.events)
        return {name: HeldClaim(each, heads[name]) for name, each in self.claims.items()}

    def one(self, claim: WorkspaceClaim) -> HeldClaim:
        return self.held()[str(claim.id)]

    def state(self, claim: WorkspaceClaim) -> ClaimState:
        return self.one(claim).head.state

    def take(self, done: Any) -> Any:
        if isinstance(done, Added):
            self.claims |= {str(each.id): each for each in done.claims}
            self.events += done.events
        elif not isinstance(done, NotDone):
            self.events += done
        return done

    def add(self, claim: WorkspaceClaim, **more: Any) -> Any:
        return self.take(add(Newcomer(claim, **more), self.held(), POLICY, terms, NOW))

    def promote(self, claim: WorkspaceClaim, *names: str, holds: bool = True) -> Any:
        return self.take(moves.promote(self.one(claim), self.held(), evidence(*names), POLICY, NOW, holds=holds))

    def stale(self, claim: WorkspaceClaim, outcome: PredicateOutcome = PredicateOutcome.DIFFERS) -> Any:
        finding = PredicateFinding(ordinal=1, outcome=outcome)
        return self.take(moves.go_stale(self.one(claim), [finding], POLICY, NOW))

    def back(self, claim: WorkspaceClaim, *names: str) -> Any:
        return self.take(
            moves.come_back(self.one(claim), self.held(), evidence(*names), POLICY, NOW, words=terms, holds=True)
        )

    def resolve(self, claim: WorkspaceClaim, *names: str) -> Any:
        return self.take(moves.resolve(self.one(claim), self.held(), evidence(*names), POLICY, NOW, holds=True))


@pytest.fixture
def board() -> Board:
    return Board()


def test_the_arrows_are_those_that_are_drawn_and_no_others() -> None:
    assert {(state or "start", reason.value, after.value) for (state, reason), after in ARROWS.items()} == DRAWN
    for state, reason in itertools.product([None, *ClaimState], ClaimReason):
        if (state, reason) not in ARROWS:
            with pytest.raises(IllegalTransitionError):
                next_state(state, reason)


def test_only_promotion_and_local_verification_lead_to_durable() -> None:
    ways = {reason for (_, reason), after in ARROWS.items() if after is ClaimState.DURABLE}
    assert ways == {ClaimReason.PROMOTED, ClaimReason.LOCALLY_VERIFIED}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "probationary"),
        ({"source": ClaimSource.DETERMINISTIC}, "durable"),
        ({"source": ClaimSource.DETERMINISTIC, "status": ClaimStatus.TENTATIVE}, "probationary"),
        ({"source": ClaimSource.DETERMINISTIC, "trust": Trust.EXTERNAL}, "probationary"),
        ({"trust": Trust.UNTRUSTED}, "quarantined"),
        ({"trust": Trust.UNTRUSTED, "source": ClaimSource.DETERMINISTIC}, "quarantined"),
        ({"trust": Trust.UNTRUSTED, "status": ClaimStatus.INVALIDATED}, "quarantined"),
        ({"status": ClaimStatus.INVALIDATED}, "stale"),
        ({"confidence": "1"}, "probationary"),
    ],
)
def test_where_a_claim_starts(board: Board, changes: dict[str, Any], state: str) -> None:
    claim = make_claim(**changes)
    assert board.add(claim).addition is Addition.ADDED
    assert board.state(claim) == state


def test_a_deterministic_claim_whose_predicate_fails_does_not_start_durable(board: Board) -> None:
    claim = make_claim(source=ClaimSource.DETERMINISTIC)
    board.add(claim, holds=False)
    assert board.state(claim) is ClaimState.PROBATIONARY


def test_the_example_of_the_reference(board: Board) -> None:
    """Retries capped at 3: verified, by a model, with config-read-1; test-pass-7 makes it durable; an edit, stale."""
    claim = make_claim(predicates=(FileHash(path="config.json", sha256=digest("{}")),))
    board.add(claim)
    assert board.promote(claim).lacks == (Lack.EVIDENCE_MISSING,)
    board.promote(claim, "test-pass-7")
    assert board.state(claim) is ClaimState.DURABLE
    board.stale(claim)
    assert board.state(claim) is ClaimState.STALE


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("confidences", [("0.1", "0.9"), ("0.9", "0.1")])
def test_defect_1_no_confidence_and_no_order_makes_one_side_durable(
    board: Board, order: int, confidences: tuple[str, str]
) -> None:
    """A deterministic, verified claim of any confidence does not become durable over one that it contradicts."""
    pair = [
        make_claim(source=ClaimSource.DETERMINISTIC, confidence=confidences[0]),
        make_claim(NOT, source=ClaimSource.DETERMINISTIC, confidence=confidences[1], events=evidence("other-read")),
    ]
    first, second = pair if order == 0 else reversed(pair)
    board.add(first)
    assert board.state(first) is ClaimState.DURABLE
    assert board.add(second).contradicts == (first.id,)
    assert {board.state(first), board.state(second)} == {ClaimState.CONTESTED}
    for each in (first, second):
        assert Lack.NOT_PROBATIONARY in board.promote(each, "test-pass-1", "test-pass-2").lacks
        assert board.resolve(each).lacks == (Lack.EVIDENCE_NOT_NEW,)
        known = {first.id: "other-read", second.id: "config-read-1"}[each.id]
        assert board.resolve(each, known).lacks == (Lack.EVIDENCE_NOT_NEW,), "what the other side has is not new"
    board.resolve(second, "test-pass-9")
    assert (board.state(first), board.state(second)) == (ClaimState.SUPERSEDED, ClaimState.DURABLE)


def test_an_untrusted_claim_contests_nothing(board: Board) -> None:
    claim, poison = make_claim(source=ClaimSource.DETERMINISTIC), make_claim(NOT, trust=Trust.UNTRUSTED)
    board.add(claim)
    board.add(poison)
    assert (board.state(claim), board.state(poison)) == (ClaimState.DURABLE, ClaimState.QUARANTINED)
    assert Lack.QUARANTINED_BY_ORIGIN in board.back(poison, "seen-1", "seen-2").lacks
    spoilt = make_claim("Something else of the client altogether", trust=Trust.UNTRUSTED,
                        events=evidence("test-pass-7=lies"))  # fmt: skip
    board.add(spoilt)
    later = make_claim("The client speaks HTTP/2 by default", events=TWO)
    assert board.add(later).addition is Addition.ADDED, "content that an untrusted claim gives an event binds nobody"


def test_a_third_claim_contests_both_and_is_settled_with_them(board: Board) -> None:
    one, two = make_claim(), make_claim(NOT, events=evidence("b"))
    three = make_claim("Retries of the client are never capped at 3", events=evidence("c"))
    for each in (one, two, three):
        board.add(each)
    assert {board.state(each) for each in (one, two, three)} == {ClaimState.CONTESTED}
    assert set(board.one(one).head.counterparts) == {two.id, three.id}
    board.resolve(one, "d")
    assert board.state(one) is ClaimState.DURABLE
    assert {board.state(two), board.state(three)} == {ClaimState.SUPERSEDED}


def test_a_winner_without_enough_evidence_is_probationary(board: Board) -> None:
    one, two = make_claim(status=ClaimStatus.TENTATIVE), make_claim(NOT, events=evidence("b"))
    board.add(one)
    board.add(two)
    board.resolve(one, "c")
    assert board.state(one) is ClaimState.PROBATIONARY


def test_defect_2_evidence_counts_by_different_events_with_different_content(board: Board) -> None:
    claim = make_claim(events=evidence("run-1=same"))
    board.add(claim)
    assert board.promote(claim, "run-2=same").lacks == (Lack.EVIDENCE_MISSING,), "another event, the same content"
    with pytest.raises(IdentityConflictError, match="one content"):
        board.promote(claim, "run-1=other")
    assert board.promote(claim, "run-1=same").lacks == (Lack.EVIDENCE_MISSING,), "the same event again"
    board.promote(claim, "run-3=other")
    assert board.state(claim) is ClaimState.DURABLE


def test_an_event_has_one_content_whichever_claim_brings_it(board: Board) -> None:
    one, three = make_claim(), make_claim(NOT)
    two = make_claim("The build takes about four minutes", events=evidence("b"))
    board.add(one)
    board.promote(one, "e1=X")
    board.add(two)
    with pytest.raises(IdentityConflictError, match="one content"):
        board.promote(two, "e1=Y")
    board.add(three)
    with pytest.raises(IdentityConflictError, match="one content"):
        board.resolve(three, "b=other")
    board.stale(two)
    with pytest.raises(IdentityConflictError, match="one content"):
        board.back(two, "e1=Y")


def test_independence_is_the_largest_set_without_a_shared_event_or_content() -> None:
    """Against a search through all subsets, over every way in which up to five events have up to three contents."""
    for size in range(1, 6):
        for contents in itertools.product("abc", repeat=size):
            given = evidence(*(f"e{number}={content}" for number, content in enumerate(contents)))
            best = max(
                some
                for some in range(1, size + 1)
                for chosen in itertools.combinations(given, some)
                if len({each.content_digest for each in chosen}) == some
            )
            assert independent(given) == best


def test_what_keeps_a_claim_from_promotion_is_said_in_full(board: Board) -> None:
    claim = make_claim(status=ClaimStatus.TENTATIVE)
    board.add(claim)
    assert board.promote(claim, holds=False).lacks == (
        Lack.NOT_VERIFIED, Lack.EVIDENCE_MISSING, Lack.PREDICATE_FAILS,
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match="not_verified, evidence_missing, predicate_fails"):
        raise board.promote(claim, holds=False).error()


def test_a_stale_claim_comes_back_by_new_evidence_alone(board: Board) -> None:
    claim = make_claim(events=TWO)
    board.add(claim)
    board.promote(claim)
    board.stale(claim)
    assert Lack.NOT_PROBATIONARY in board.promote(claim, "run-3").lacks
    for names in ((), ("config-read-1",), ("run-9=test-pass-7",)):
        assert board.back(claim, *names).lacks == (Lack.EVIDENCE_NOT_NEW,), names
    assert board.state(claim) is ClaimState.STALE
    again = board.add(claim)
    assert (again.addition, board.state(claim)) == (Addition.REPLAYED, ClaimState.STALE), "adding it again is a replay"
    board.back(claim, "run-3")
    assert board.state(claim) is ClaimState.PROBATIONARY
    board.promote(claim)
    assert board.state(claim) is ClaimState.DURABLE


def test_what_comes_back_is_held_against_what_is_live(board: Board) -> None:
    """Stale by an edit; another text is added and promoted meanwhile; then the first comes back: both are contested."""
    first, second = (
        make_claim(events=TWO),
        make_claim("Retries of the client are capped at 5", events=evidence("a", "b")),
    )
    board.add(first)
    board.promote(first)
    board.stale(first)
    board.add(second)
    board.promote(second)
    board.back(first, "run-3")
    assert {board.state(first), board.state(second)} == {ClaimState.CONTESTED}
    assert Lack.NOT_PROBATIONARY in board.promote(first).lacks
    board.resolve(first, "run-4")
    assert (board.state(first), board.state(second)) == (ClaimState.DURABLE, ClaimState.SUPERSEDED)


@pytest.mark.parametrize("outcome", [each for each in PredicateOutcome if each is not PredicateOutcome.HOLDS])
def test_what_tells_nothing_about_the_world_marks_nothing_stale(board: Board, outcome: PredicateOutcome) -> None:
    claim = make_claim()
    board.add(claim)
    board.stale(claim, outcome)
    silent = {
        PredicateOutcome.CHANGING, PredicateOutcome.TIMED_OUT, PredicateOutcome.FAILED, PredicateOutcome.TOO_LARGE,
        PredicateOutcome.UNREADABLE, PredicateOutcome.NO_REVISION,
    }  # fmt: skip
    assert board.state(claim) == (ClaimState.PROBATIONARY if outcome in silent else ClaimState.STALE)


def test_a_revision_takes_the_place_of_the_old_claim(board: Board) -> None:
    old, new = make_claim(events=TWO), make_claim("Retries of the client are capped at 5", events=evidence("a", "b"))
    board.add(old)
    board.promote(old)
    board.add(new, revises=str(old.id))
    assert (board.state(old), board.state(new)) == (ClaimState.SUPERSEDED, ClaimState.DURABLE)
    assert board.events[-1].counterpart == new.id


@pytest.mark.parametrize(
    ("changes", "lack"),
    [
        ({"events": TWO}, Lack.EVIDENCE_NOT_NEW),
        ({"events": evidence("a")}, Lack.EVIDENCE_MISSING),
        ({"status": ClaimStatus.TENTATIVE, "events": evidence("a", "b"), "confidence": "1"}, Lack.NOT_VERIFIED),
        ({"trust": Trust.EXTERNAL, "events": evidence("a", "b")}, Lack.LESS_TRUSTED),
    ],
)
def test_a_revision_that_is_not_accepted_changes_nothing(board: Board, changes: dict[str, Any], lack: Lack) -> None:
    old = make_claim(events=TWO)
    board.add(old)
    done = board.add(make_claim("Retries of the client are capped at 5", **changes), revises=str(old.id))
    assert lack in done.lacks
    assert (len(board.claims), board.state(old)) == (1, ClaimState.PROBATIONARY)


def test_a_duplicate_writes_nothing_and_names_the_claim_that_stands(board: Board) -> None:
    claim = make_claim()
    board.add(claim)
    again = make_claim("retries of the CLIENT are capped at 3", confidence="0.9", events=evidence("elsewhere"))
    done = board.add(again)
    assert (done.addition, done.stands, done.events) == (Addition.DUPLICATE, claim.id, ())
    other = make_claim(predicates=(FileHash(path="config.json", sha256=digest("{}")),))
    assert board.add(other).addition is Addition.ADDED, "another predicate makes another claim"


@pytest.mark.parametrize("text", ["", " " * 40, "too short"])
def test_a_claim_says_something(board: Board, text: str) -> None:
    with pytest.raises((InvalidInputError, ValueError)):
        board.add(make_claim(text))


def test_a_chain_is_folded_in_any_order_and_a_broken_one_is_refused(board: Board) -> None:
    claim = make_claim(events=TWO)
    board.add(claim)
    board.promote(claim)
    board.stale(claim)
    head = board.one(claim).head
    for order in itertools.permutations(board.events):
        assert fold(order) == {claim.id: head}
    assert head.length == 3
    with pytest.raises(IntegrityError, match="do not follow"):
        fold([board.events[0], board.events[2]])
    with pytest.raises(IntegrityError, match="consumed twice"):
        fold([*board.events, board.events[1].model_copy(update={"evidence": evidence("z")})])
    with pytest.raises(IllegalTransitionError):
        advance(None, make_claim_event(claim, state=ClaimState.DURABLE))
    with pytest.raises(IntegrityError, match="last one"):
        advance(ClaimHead(claim.id, "x", ClaimState.DURABLE, 1), board.events[1])  # type: ignore[arg-type]  # on purpose


def test_an_untrusted_claim_is_in_no_policy_that_makes_durable() -> None:
    with pytest.raises(ValueError, match="untrusted"):
        Admission(trusts=(Trust.UNTRUSTED,), evidence=1)


def test_new_evidence_is_new_in_event_and_content() -> None:
    known = evidence("a", "b")
    assert new_evidence(known, evidence("a", "c=b", "d")) == evidence("d")
