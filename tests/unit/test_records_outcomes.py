"""The closed matrices of an Outcome against a table written from the specification (reference: spec 9.7 and 13)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from memory.proofs import require_authority
from records.errors import IntegrityError, InvalidRecordError, NotFoundError
from records.flows import FLOWS, Authority, Transition
from records.outcomes import (
    LEGAL_DECISIONS,
    LEGAL_REASONS,
    CardReason,
    CardVerdict,
    DecisionStatus,
    RecallOutcome,
    SourceStatus,
    TerminalEvidenceKind,
    TerminalReason,
)
from tests.support.decision_samples import sample_records
from tests.support.trials import digest

OUTCOME = sample_records()["recall-decision-outcome"]

FREE = {"actor_failed", "rejected", "no_op", "completed", "cancelled"}
DECISIONS = {
    "blocked": {"blocked"},
    "not_requested": FREE,
    "cancelled_before_recall": {"cancelled"},
    "failed_before_recall": {"actor_failed"},
    "empty": FREE,
    "degraded": FREE,
    "ok": FREE,
}
REASONS: dict[str, set[str | None]] = {
    "blocked": {"BLOCKED_RECALL_SOURCE"},
    "actor_failed": {"ACTOR_INVOCATION_FAILED", "ACTOR_OUTPUT_MALFORMED", "RUNTIME_FAILURE_CLOSURE"},
    "rejected": {"PROPOSAL_POLICY_REJECTED", "PREFLIGHT_REJECTED"},
    "no_op": {"NO_APPLICABLE_ACTION", "ALREADY_SATISFIED"},
    "completed": {None},
    "cancelled": {"CANCELLED_BY_COMMAND", "CANCELLED_BY_INCIDENT"},
}
SOURCE_REASON = {
    "blocked": "blocked_retention_revoked",
    "not_requested": "not_requested_control_arm",
    "cancelled_before_recall": "cancelled_before_recall",
    "failed_before_recall": "failed_before_recall",
    "empty": "empty_below_threshold",
    "degraded": "degraded_adapter_fallback",
    "ok": "ok_cards_returned",
}


CLOSED = {
    "cancelled": TerminalEvidenceKind.CANCEL_EVENT,
    "actor_failed": TerminalEvidenceKind.RUNTIME_FAILURE,
}
"""The decision statuses that only Runtime closure writes, with the event that it rests on (spec 9.7)."""
FATES = {"cancelled": "not_considered_cancelled", "actor_failed": "not_considered_actor_failed"}


def cards(decision: str) -> tuple[Any, ...]:
    """Return the dispositions of the one card, as the authority of a status writes them."""
    if decision not in FATES:
        return OUTCOME.dispositions  # type: ignore[attr-defined,no-any-return]  # it is an outcome
    return (fated(FATES[decision]),)


def fated(reason: str) -> Any:
    """Return the disposition of the one card that was not considered, for a reason."""
    (card,) = OUTCOME.dispositions  # type: ignore[attr-defined]  # it is an outcome
    changes = {"verdict": CardVerdict.NOT_CONSIDERED, "reason": CardReason(reason), "action_knob": None}
    return type(card).build(**(dict(card) | changes | {"action_value": None}))


def body(source: str, decision: str, reason: str | None) -> dict[str, Any]:
    """Return the fields that this row of the matrix requires, and none that it forbids."""
    shown = source in {"ok", "empty", "degraded"}
    early = source in {"cancelled_before_recall", "failed_before_recall"}
    done = decision == "completed"
    ran = source != "blocked" and not early
    closed = decision in CLOSED
    evidence = digest("closure")
    fields = {name: getattr(OUTCOME, name) for name in RecallOutcome.model_fields}
    return fields | {
        "source_status": SourceStatus(source),
        "decision_status": DecisionStatus(decision),
        "terminal_reason": TerminalReason(reason) if reason else None,
        "outcome_reason": SOURCE_REASON[source],
        "context_id": fields["context_id"] if shown else None,
        "dispositions": cards(decision) if source == "ok" else (),
        "blocked_proof_digest": digest("proof") if source == "blocked" else None,
        "closure_event_digest": evidence if early else None,
        "terminal_evidence_kind": CLOSED[decision] if closed else None,
        "terminal_evidence_digest": evidence if closed else None,
        "artifact_committed": done,
        "artifact_digest": digest("plan") if done else None,
        "effective_config_digest": digest("config") if done else None,
        "memory_binding_digest": digest("binding") if ran else None,
        "executed_actor": fields["executed_actor"] if ran else None,
        "proposed_knob": fields["proposed_knob"] if ran and not closed else None,
        "proposed_value": fields["proposed_value"] if ran and not closed else None,
    }


FAILURE = TerminalEvidenceKind.RUNTIME_FAILURE
ROWS = list(itertools.product(SourceStatus, DecisionStatus, [None, *TerminalReason]))
LEGAL = [row for row in ROWS if row[1] in DECISIONS[row[0]] and row[2] in REASONS[row[1]]]


@pytest.mark.parametrize(("source", "decision", "reason"), ROWS)
def test_vrm_r07_the_matrix_is_closed(source: str, decision: str, reason: str | None) -> None:
    """Every source status by decision status by terminal reason: 7 by 6 by 11 rows, of which 46 are legal."""
    legal = decision in DECISIONS[source] and reason in REASONS[decision]
    fields = body(source, decision, reason)
    if legal:
        assert RecallOutcome.build(**fields).decision_status == decision
    else:
        with pytest.raises(InvalidRecordError):
            RecallOutcome.build(**fields)


def test_how_many_rows_are_legal() -> None:
    """By hand: blocked 1, the pre-recall two 2 and 3, and four sources with 3 + 2 + 2 + 1 + 2 reasons each."""
    assert len(ROWS) == 7 * 6 * 11
    assert sum(decision in DECISIONS[source] and reason in REASONS[decision] for source, decision, reason in ROWS) == 46


@pytest.mark.parametrize(("source", "decision", "reason"), LEGAL)
@pytest.mark.parametrize("authority", list(Authority))
def test_vrm_r07_each_legal_row_has_one_authority(
    source: str, decision: str, reason: str | None, authority: Authority
) -> None:
    """Closure writes cancellations and failures of the actor, and nothing else; normal authority writes the rest."""
    outcome = RecallOutcome.build(**body(source, decision, reason))
    due = Authority.RUNTIME_CLOSURE if decision in CLOSED else Authority.NORMAL
    assert (outcome.terminal_evidence_digest is not None) == (due is Authority.RUNTIME_CLOSURE)
    if authority not in FLOWS[Transition.APPEND_OUTCOME].authorities:
        return
    if authority is not due:
        with pytest.raises(IntegrityError, match="status"):
            require_authority(authority, [outcome], None, current=True)
    elif due is Authority.NORMAL:
        require_authority(authority, [outcome], None, current=True)
    else:
        with pytest.raises(NotFoundError, match="run"):  # the status is its own; the event is asked of its Run
            require_authority(authority, [outcome], None, current=True)


@pytest.mark.parametrize(("source", "decision", "reason"), LEGAL)
@pytest.mark.parametrize("kind", [None, *TerminalEvidenceKind])
def test_terminal_evidence_is_that_of_the_status(
    source: str, decision: str, reason: str | None, kind: TerminalEvidenceKind | None
) -> None:
    """A foreign event, closure without one, and normal authority with one are refused by the type."""
    changes = {"terminal_evidence_kind": kind, "terminal_evidence_digest": None if kind is None else digest("closure")}
    fields = body(source, decision, reason) | changes
    if kind is CLOSED.get(decision):
        RecallOutcome.build(**fields)
    else:
        with pytest.raises(InvalidRecordError):
            RecallOutcome.build(**fields)


def test_tables_are_the_same() -> None:
    assert {str(key): set(map(str, value)) for key, value in LEGAL_DECISIONS.items()} == DECISIONS
    assert {str(k): {v and str(v) for v in value} for k, value in LEGAL_REASONS.items()} == REASONS


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (("ok", "completed", None), {"context_id": None}),
        (("ok", "completed", None), {"outcome_reason": "empty_below_threshold"}),
        (("ok", "completed", None), {"artifact_committed": False}),
        (("ok", "completed", None), {"dispositions": ()}),
        (("ok", "completed", None), {"dispositions": OUTCOME.dispositions * 2}),  # type: ignore[attr-defined]  # it is an outcome
        (("empty", "completed", None), {"dispositions": OUTCOME.dispositions}),  # type: ignore[attr-defined]  # same
        (("ok", "completed", None), {"proposed_value": None, "dispositions": (fated("not_considered_budget"),)}),
        (("ok", "cancelled", "CANCELLED_BY_COMMAND"), {"dispositions": cards("actor_failed")}),
        (("ok", "cancelled", "CANCELLED_BY_COMMAND"), {"dispositions": OUTCOME.dispositions}),  # type: ignore[attr-defined]  # same
        (("ok", "actor_failed", "ACTOR_OUTPUT_MALFORMED"), {"proposed_knob": "C", "proposed_value": "10"}),
        (("blocked", "blocked", "BLOCKED_RECALL_SOURCE"), {"memory_binding_digest": digest("x")}),
        (("blocked", "blocked", "BLOCKED_RECALL_SOURCE"), {"proposed_knob": "C", "proposed_value": "10"}),
        (("failed_before_recall", "actor_failed", "RUNTIME_FAILURE_CLOSURE"), {"memory_binding_digest": digest("x")}),
        (("ok", "completed", None), {"artifact_digest": None}),
        (("ok", "completed", None), {"blocked_proof_digest": digest("x")}),
        (("ok", "completed", None), {"closure_event_digest": digest("x")}),
        (("ok", "completed", None), {"memory_binding_digest": None}),
        (("ok", "rejected", "PREFLIGHT_REJECTED"), {"effective_config_digest": digest("x")}),
        (("ok", "rejected", "PREFLIGHT_REJECTED"), {"artifact_digest": digest("x")}),
        (("not_requested", "completed", None), {"context_id": OUTCOME.context_id}),  # type: ignore[attr-defined]  # it is an outcome
        (("not_requested", "completed", None), {"dispositions": OUTCOME.dispositions}),  # type: ignore[attr-defined]  # same
        (("blocked", "blocked", "BLOCKED_RECALL_SOURCE"), {"blocked_proof_digest": None}),
        (("blocked", "blocked", "BLOCKED_RECALL_SOURCE"), {"executed_actor": OUTCOME.executed_actor}),  # type: ignore[attr-defined]  # same
        (("cancelled_before_recall", "cancelled", "CANCELLED_BY_COMMAND"), {"closure_event_digest": None}),
        (("cancelled_before_recall", "cancelled", "CANCELLED_BY_COMMAND"), {"terminal_evidence_kind": None}),
        (("cancelled_before_recall", "cancelled", "CANCELLED_BY_COMMAND"), {"terminal_evidence_kind": FAILURE}),
        (("cancelled_before_recall", "cancelled", "CANCELLED_BY_COMMAND"), {"terminal_evidence_digest": digest("y")}),
    ],
)
def test_fields_that_a_row_requires_or_forbids(row: tuple[str, str, str | None], changes: dict[str, Any]) -> None:
    RecallOutcome.build(**body(*row))
    with pytest.raises(InvalidRecordError):
        RecallOutcome.build(**(body(*row) | changes))


@pytest.mark.parametrize("changes", [{"proposed_knob": "C"}, {"proposed_value": "10"}])
def test_vrm_r08_an_adopted_card_is_mapped_to_what_was_proposed(changes: dict[str, Any]) -> None:
    fields = body("ok", "completed", None) | {"dispositions": OUTCOME.dispositions}  # type: ignore[attr-defined]  # it is an outcome
    RecallOutcome.build(**fields)
    with pytest.raises(InvalidRecordError, match="R08"):
        RecallOutcome.build(**(fields | changes))


def test_verdict_of_every_card_reason() -> None:
    expected = {
        "adopted_applicable": "adopted",
        "rejected_scope_mismatch": "rejected",
        "rejected_counterevidence": "rejected",
        "rejected_protected_action": "rejected",
        "rejected_stale_dependency": "rejected",
        "rejected_low_expected_utility": "rejected",
        "not_considered_budget": "not_considered",
        "not_considered_cancelled": "not_considered",
        "not_considered_actor_failed": "not_considered",
    }
    assert {reason.value: reason.verdict.value for reason in CardReason} == expected
    assert set(expected.values()) == {verdict.value for verdict in CardVerdict}


@pytest.mark.parametrize("reason", ["not_considered_cancelled", "not_considered_actor_failed"])
def test_closure_reasons_are_for_closure(reason: str) -> None:
    for row in (("ok", "completed", None), ("ok", "rejected", "PREFLIGHT_REJECTED")):
        with pytest.raises(InvalidRecordError, match="closure"):
            RecallOutcome.build(**(body(*row) | {"dispositions": (fated(reason),)}))


def test_a_rejected_answer_is_kept_as_its_actor_gave_it() -> None:
    """Its mapping may be what it was rejected for; of what was executed nothing contradicts its mapping."""
    changes = {"proposed_knob": "C", "proposed_value": "10"}
    RecallOutcome.build(**(body("ok", "rejected", "PREFLIGHT_REJECTED") | changes))
    with pytest.raises(InvalidRecordError, match="R08"):
        RecallOutcome.build(**(body("ok", "completed", None) | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": CardVerdict.REJECTED},
        {"action_knob": None},
        {"reason": CardReason.REJECTED_SCOPE_MISMATCH},
        {"action_value": None},
    ],
)
def test_card_that_contradicts_itself(changes: dict[str, Any]) -> None:
    (card,) = OUTCOME.dispositions  # type: ignore[attr-defined]  # it is an outcome
    with pytest.raises(InvalidRecordError):
        type(card).build(**(dict(card) | changes))
