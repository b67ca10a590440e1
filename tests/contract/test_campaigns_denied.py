"""What becomes of work and of knowledge whose evidence retention denies (spec 4.15, 8.1)."""

from __future__ import annotations

import pytest

from memory.dead_letters import DeadLetters, dead_letters
from memory.work_state import work_of
from records.control import ControlCause
from records.ingestion import ReceiptDisposition
from records.states import Phase
from tests.contract.test_campaigns_apart import attempts
from tests.support.incidents import Incident
from tests.support.stack import NULL, effects, quiet
from tests.support.stack_control import checked, closure, commands

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def test_an_item_whose_own_experience_is_denied_ends_at_once(incident: Incident) -> None:
    """Spec 8.1: clean inputs, or the typed closure; no clean input is left for this one."""
    stack = incident.stack
    run_id = stack.admit("second")
    stack.evidence(effects(stack, "second", {"e": 0.05, "f": 0.05}, change=NULL))
    assert not stack.campaigns.ingest(run_id, quiet)
    assert not stack.campaigns.project(quiet)
    intent = incident.opened(incident.of_observation(-1))
    (failure,) = stack.campaigns.distil(stack.capture(), stack.distiller, quiet)
    assert failure.hopeless is ControlCause.RETENTION_REVOKED
    assert attempts(stack)[failure.subject] == 0
    assert not stack.load("distillation-commit-conflict")
    buried = DeadLetters(commands(stack), closure(stack), stack.namespace).bury([failure])
    assert buried == {failure.subject: Phase.FAILED}
    ledger, artifacts = stack.stores.ledger, stack.stores.artifacts
    (letter,) = dead_letters(ledger, artifacts, stack.namespace, work_of(ledger, stack.namespace))
    assert (letter.work_item_id, letter.cause) == (failure.subject, ControlCause.RETENTION_REVOKED)
    assert intent.target_id in letter.detail
    assert not stack.campaigns.waiting()
    assert not checked(stack).violations


def test_evidence_that_is_denied_before_its_receipt_is_not_queued(incident: Incident) -> None:
    stack = incident.stack
    run_id = stack.admit("second")
    stack.evidence(effects(stack, "second", {"e": 0.05}, change=NULL))
    incident.opened(incident.of_observation(-1))
    queued = len(stack.load("distillation-work-item"))
    assert not stack.campaigns.ingest(run_id, quiet)
    first, second = stack.load("distillation-receipt")[-2:]
    assert sorted([first.disposition, second.disposition]) == [
        ReceiptDisposition.DEFERRED,
        ReceiptDisposition.QUEUED,
    ]
    assert ("retention_revoked",) in (first.reasons, second.reasons)
    assert len(stack.load("distillation-work-item")) == queued + 1
