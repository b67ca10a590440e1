"""What becomes of work and of knowledge whose evidence retention denies (spec 4.15, 8.1)."""

from __future__ import annotations

from typing import Any

import pytest

from memory.dead_letters import DeadLetters, dead_letters
from memory.work_state import work_of
from records.control import ControlCause
from records.ingestion import ReceiptDisposition
from records.knowledge import EventType
from records.states import Phase
from records.values import Disposition
from tests.contract.test_campaigns import AGAINST, heads
from tests.contract.test_campaigns_apart import attempts
from tests.support.incidents import Incident
from tests.support.stack import GOOD, NULL, effects, quiet
from tests.support.stack_control import checked, closure, commands
from tests.support.stack_decisions import CATALOG

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


def test_vrm_w07_a_live_record_of_which_nothing_is_left_is_retracted(incident: Incident) -> None:
    """By the next distillation of the namespace, whatever it is about."""
    stack, rule = incident.stack, incident.rule
    for place in range(2 * len(GOOD)):
        incident.opened(incident.of_observation(place))
    assert not stack.study("elsewhere", effects(stack, "elsewhere", {"z": 0.05}, size="large"))
    (head,) = [each for each in heads(stack) if each.memory_id == rule.id]
    assert head.disposition == Disposition.RETRACTED
    begun, ended = stack.load("knowledge-lifecycle-event")
    assert (ended.event_type, ended.memory_id, ended.expected_prior) == (EventType.RETRACTED, rule.id, begun.id)
    assert ended.reasons == ("retention_revoked",)
    (report,) = [each for each in stack.load("distillation-report") if each.active_view and each.memory_ids == ()]
    assert [each.event_id for each in report.active_view] == [ended.id]
    before = stack.state()
    assert not stack.study("elsewhere", effects(stack, "elsewhere", {"z": 0.05}, size="large"))
    assert stack.state() == before
    assert not checked(stack).violations


def test_an_item_of_its_own_scope_ends_it_first(incident: Incident) -> None:
    stack = incident.stack
    for place in range(2 * len(GOOD)):
        incident.opened(incident.of_observation(place))
    elsewhere = effects(stack, "more", {"y": 0.05}, size="large")
    assert not stack.study("more", [*elsewhere, *effects(stack, "more", {"z": 0.05}, change=NULL)])
    (report,) = [each for each in stack.load("distillation-report") if each.active_view and each.memory_ids == ()]
    (item,) = [each for each in stack.load("distillation-work-item") if each.id == report.work_item_id]
    assert item.task_scope_id == incident.rule.scope.task_scope_id


def test_vrm_w07_what_is_left_of_denied_evidence_retracts_as_well(incident: Incident) -> None:
    """The report of a retraction names the record that it ends, which rests on what is denied."""
    stack, rule = incident.stack, incident.rule
    incident.opened(incident.of_observation(0))
    base, scaled = (CATALOG.config_digest(CATALOG.baseline | {"scaler": value}) for value in ("none", "standard"))
    own: dict[str, Any] = {"catalog_digest": CATALOG.digest, "baseline_config_digest": base}
    own |= {"configs": (base, scaled)}
    assert not stack.study("against", effects(stack, "against", AGAINST, **own))
    (head,) = [each for each in heads(stack) if each.memory_id == rule.id]
    assert head.disposition == Disposition.RETRACTED
    assert not checked(stack).violations
