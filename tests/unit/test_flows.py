"""The registry of appends: closed, consistent with the state machines, and the same on both sides."""

from __future__ import annotations

import itertools

import pytest

from records.appends import Append
from records.base import KINDS
from records.errors import InvalidInputError
from records.flows import FLOWS, Authority, Transition, require_legal
from records.outcomes import NoCommitReason
from records.states import ARROWS, STARTS, Phase
from store.ledger import schema
from tests.support.trials import make_evidence

COMMON = ["PRECONDITION_CONFLICT", "CANONICAL_RECORD_CONFLICT", "AUTHORIZED_PAYLOAD_REJECTED"]

# The granted half of the table of flows, written down a second time.
GRANTED = {
    ("APPEND_INTENT", "ADMISSION"): COMMON,
    ("APPEND_CONTEXT", "NORMAL"): ["RETENTION_FRONTIER_STALE", *COMMON],
    ("APPEND_OUTCOME", "NORMAL"): COMMON,
    ("APPEND_OUTCOME", "RUNTIME_CLOSURE"): COMMON,
    ("ENQUEUE_DISTILLATION", "HANDOFF_ATTEMPT"): COMMON,
    ("ABANDON_ENQUEUE", "HANDOFF_ABANDONMENT"): COMMON,
    ("COMMIT_DISTILLATION", "NORMAL"): ["RETENTION_REVOKED", "LIFECYCLE_HEAD_STALE", *COMMON],
    ("CLOSE_WORK_ITEM", "RUNTIME_CLOSURE"): COMMON,
    ("BEGIN_ERASURE", "RETENTION"): ["LIFECYCLE_HEAD_STALE", *COMMON],
    ("CLOSE_ERASURE", "RETENTION"): COMMON,
}


@pytest.mark.parametrize(("transition", "authority"), list(itertools.product(Transition, Authority)))
def test_pairs_of_transition_and_authority_are_closed(transition: Transition, authority: Authority) -> None:
    flow = FLOWS[transition]
    legal = (transition, authority) in GRANTED or (not flow.is_granted and authority is Authority.DIRECT)
    if legal:
        assert require_legal(transition, authority, frozenset()) is flow
    else:
        with pytest.raises(InvalidInputError):
            require_legal(transition, authority, frozenset())


def test_reasons_in_order_of_precedence() -> None:
    for (transition, _), reasons in GRANTED.items():
        assert [reason.value for reason in FLOWS[Transition(transition)].reasons] == reasons
    assert not any(flow.reasons for flow in FLOWS.values() if not flow.is_granted)


@pytest.mark.parametrize("transition", Transition)
def test_only_kinds_of_the_row_may_be_written(transition: Transition) -> None:
    flow = FLOWS[transition]
    authority = min(flow.authorities)
    for noun in KINDS:
        if noun in flow.writes:
            require_legal(transition, authority, frozenset({noun}))
        else:
            with pytest.raises(InvalidInputError, match=noun):
                require_legal(transition, authority, frozenset({noun}))


def test_every_kind_has_one_way_in() -> None:
    ways = [noun for flow in FLOWS.values() for noun in flow.writes]
    # A receipt may be written with a work item, without one or in place of one, an event by a verdict or an erasure, a
    # completion with its batch or by closure; the proofs of a no-commit are written by no flow.
    twice = {noun for noun in ways if ways.count(noun) > 1}
    assert twice == {"distillation-receipt", "knowledge-lifecycle-event", "distillation-work-completion"}
    assert set(KINDS) - set(ways) == {"no-commit-receipt", "distillation-commit-conflict"}
    assert set(schema.RECORD_TABLES) == set(KINDS)


def test_conflicts_are_the_reasons_of_a_distillation_alone() -> None:
    conflicts = {flow.transition: set(flow.conflicts) for flow in FLOWS.values() if flow.conflicts}
    assert conflicts == {Transition.COMMIT_DISTILLATION: set(KINDS["distillation-commit-conflict"].variants)}


def test_granted_rows_fit_their_machine() -> None:
    for flow in FLOWS.values():
        assert flow.primary in flow.writes
        assert flow.shared <= flow.writes
        if flow.machine is None:
            continue
        retired = flow.retired or {}
        waiting = {
            ARROWS[flow.machine, phase, flow.granted] if flow.granted else phase
            for phase in (retired if flow.granted else STARTS[flow.machine])
        }
        assert len(waiting) == 1
        (phase,) = waiting
        assert (flow.committed is None) == bool(flow.ends)
        assert all((flow.machine, phase, event) in ARROWS for event in flow.ends.values() or [flow.committed])
        for origin, event in retired.items():
            after = ARROWS[flow.machine, phase, event]
            ends = {
                Transition.APPEND_INTENT,
                Transition.COMMIT_DISTILLATION,
                Transition.CLOSE_WORK_ITEM,
                Transition.BEGIN_ERASURE,
            }
            anew = {Transition.ENQUEUE_DISTILLATION: Phase.PENDING, Transition.ABANDON_ENQUEUE: Phase.RETIRED}
            assert after in {origin, anew.get(flow.transition)} or flow.transition in ends


def test_every_grant_has_a_way_back() -> None:
    for flow in FLOWS.values():
        if flow.machine is not None and flow.granted is not None:
            origins = {phase for machine, phase, event in ARROWS if machine is flow.machine and event is flow.granted}
            assert set(flow.retired or {}) == origins


def test_reasons_are_all_used() -> None:
    assert {reason for flow in FLOWS.values() for reason in flow.reasons} == set(NoCommitReason)


@pytest.mark.parametrize("key", ["", "with space", "tab\t", "x" * 201, "-first", "new\n"])
def test_an_operation_key_is_a_name(key: str) -> None:
    with pytest.raises(InvalidInputError, match="operation key"):
        Append.direct(Transition.APPEND_EVIDENCE, key, make_evidence("demo"))
