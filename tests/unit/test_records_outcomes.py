"""The closed matrices of an Outcome against a table written from the specification (reference: spec 9.7 and 13)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from records.errors import InvalidRecordError
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


CLOSING = {
    "cancelled_before_recall": TerminalEvidenceKind.CANCEL_EVENT,
    "failed_before_recall": TerminalEvidenceKind.RUNTIME_FAILURE,
}


def body(source: str, decision: str, reason: str | None) -> dict[str, Any]:
    """Return the fields that this row of the matrix requires, and none that it forbids."""
    shown = source in {"ok", "empty", "degraded"}
    early = source in {"cancelled_before_recall", "failed_before_recall"}
    done = decision == "completed"
    ran = source != "blocked" and not early
    fields = {name: getattr(OUTCOME, name) for name in RecallOutcome.model_fields}
    return fields | {
        "source_status": SourceStatus(source),
        "decision_status": DecisionStatus(decision),
        "terminal_reason": TerminalReason(reason) if reason else None,
        "outcome_reason": SOURCE_REASON[source],
        "context_id": fields["context_id"] if shown else None,
        "dispositions": (),
        "blocked_proof_digest": digest("proof") if source == "blocked" else None,
        "closure_event_digest": digest("closure") if early else None,
        "terminal_evidence_kind": CLOSING.get(source) if early else None,
        "terminal_evidence_digest": digest("closure") if early else None,
        "artifact_committed": done,
        "artifact_digest": digest("plan") if done else None,
        "effective_config_digest": digest("config") if done else None,
        "memory_binding_digest": digest("binding") if ran else None,
        "executed_actor": fields["executed_actor"] if ran else None,
    }


FAILURE = TerminalEvidenceKind.RUNTIME_FAILURE
ROWS = list(itertools.product(SourceStatus, DecisionStatus, [None, *TerminalReason]))


@pytest.mark.parametrize(("source", "decision", "reason"), ROWS)
def test_matrix_is_closed(source: str, decision: str, reason: str | None) -> None:
    legal = decision in DECISIONS[source] and reason in REASONS[decision]
    fields = body(source, decision, reason)
    if legal:
        assert RecallOutcome.build(**fields).decision_status == decision
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
    (card,) = OUTCOME.dispositions  # type: ignore[attr-defined]  # it is an outcome
    changes = {"verdict": CardVerdict.NOT_CONSIDERED, "reason": CardReason(reason), "action_knob": None}
    card = type(card).build(**(dict(card) | changes | {"action_value": None}))
    fields = {"dispositions": (card,)}
    with pytest.raises(InvalidRecordError, match="closure"):
        RecallOutcome.build(**(body("ok", "completed", None) | fields))
    RecallOutcome.build(**(body("ok", "cancelled", "CANCELLED_BY_COMMAND") | fields))


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
