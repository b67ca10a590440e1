"""The lines of a procedure's card and of an episode's (spec 9.6; docs/adr/0061); `policies.rendering` has the rest.

Rules kept here: a procedure shows its trigger, what must hold before it, its steps in order with tool and version, when
it has succeeded, when to stop and when to go back, how it is known to fail and what it costs; nothing in it is
permission. An episode says that it is one run and no rule. Every value that a record words is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from policies.escaping import json_value, number, quoted, short, shown_ids
from policies.retrieval_policy import Rendering
from records.canonical import DIGEST_PATTERN
from records.cards import EpisodicCard, ProcedureCard
from records.procedures import Check, Step

_CHECKS = 4
"""Checks of one sort, failures and parameters that are shown; the rest is counted."""
_STEPS = 8


def procedure_lines(card: ProcedureCard, why: str, style: Rendering) -> tuple[str, ...]:
    """Return the lines of a procedure's card after its first."""
    limit, digits, strength, trigger = style.text_limit, style.id_digits, card.strength, card.trigger
    version = f"version {short(card.memory_id, digits)}, event {short(card.event_id, digits)}"
    steps = [_step(place, step, style) for place, step in enumerate(card.steps[:_STEPS], start=1)]
    tools = "; ".join(f"{need.tool} at {_some([_brief(each) for each in need.versions])}" for need in card.tools)
    cost = "; ".join(
        f"{bound.resource} {number(bound.expected)}, at most {number(bound.limit)} {bound.unit}"
        for bound in card.cost.bounds
    )
    failures = _some([f"{mode.code}: {quoted(mode.detail, limit)}" for mode in card.failure_modes])
    against = _some([quoted(item.detail, limit) for item in card.counterexamples])
    return (
        f"goal: {trigger.goal} at {trigger.decision_point.value}, told by {trigger.metric.name}",
        f"why retrieved: {why}",
        f"applies to: {quoted(card.applicability, limit)}",
        f"trigger: {_named(trigger.situation)}; before it: {_checks(card.preconditions, style)}",
        *steps,
        *((f"and {len(card.steps) - _STEPS} more steps",) if len(card.steps) > _STEPS else ()),
        f"tools: {tools or 'none'}; each step still needs its own authorization",
        f"succeeded if: {_checks(card.success_checks, style)}",
        f"stop early unless: {_checks(card.early_stop_checks, style)}",
        f"go back unless: {_checks(card.rollback_checks, style)}",
        f"known failures: {failures}",
        f"counterexamples: {against}",
        f"cost: {card.cost.budget_class}; {cost or 'not bounded'}",
        f"evidence: {strength.grade.value}; {strength.support_count} units for, {strength.counter_count} against",
        f"supporting: {shown_ids(card.supporting, style.citations, digits)}",
        f"contradicting: {shown_ids(card.contradicting, style.citations, digits)}",
        f"status: {card.disposition.value}; {version}, as of position {card.as_of_position}",
    )


def episode_lines(card: EpisodicCard, why: str, style: Rendering) -> tuple[str, ...]:
    """Return the lines of an episodic card after its first."""
    limit, digits, knob = style.text_limit, style.id_digits, card.change
    change = "none, a baseline" if knob is None else (
        f"{knob.name} from {json_value(knob.from_value, limit)} to {json_value(knob.to_value, limit)}"
    )  # fmt: skip
    verified = _some([f"{entry.name} {number(entry.value)}" for entry in card.verified])
    value = "not verified" if card.value is None else number(card.value)
    outcome = "worked" if card.failure is None else f"failed, {card.failure}, signature {card.signature}"
    source = f"{short(card.experience_id, digits)}, bundle {card.bundle_digest[:digits]}"
    own = f"run {short(card.run_id, digits)}, arm {card.arm or 'none'}, iteration {card.iteration}"
    return (
        f"hypothesis: {quoted(card.hypothesis, limit)}",
        f"why retrieved: {why}",
        f"applies to: {quoted(card.applicability, limit)}",
        f"change: {change} at {card.decision_point.value}",
        f"outcome: {outcome}; {card.metric.name} ({card.metric.direction.value}) {value}",
        f"verified: {verified}; violations: {_some(list(card.violations))}",
        f"analysis of the run itself: {quoted(card.analysis, limit)}",
        f"source: experience {source}, verification {short(card.verification_id, digits)}",
        f"status: one observation of {own}; no rule, no lifecycle; evidence as of position {card.evidence_position}",
    )


def _step(place: int, step: Step, style: Rendering) -> str:
    action, limit = step.action, style.text_limit
    given = _some([f"{each.name} {json_value(each.value.value, limit)}" for each in action.parameters])
    return f"step {place}: {quoted(step.purpose, limit)}; {action.operation} of {action.tool}: {given}"


def _checks(checks: Sequence[Check], style: Rendering) -> str:
    shown = [
        f"{each.observable} {each.comparison.value} {_value(each, style)}"
        + (f" after {each.after_step}" if each.after_step else "")
        for each in checks
    ]
    return _some(shown)


def _value(check: Check, style: Rendering) -> str:
    plain = check.expected.value.strip('"')
    brief = _brief(plain)
    return brief if brief != plain else json_value(check.expected.value, style.text_limit)


def _some(shown: Sequence[str]) -> str:
    more = f"; and {len(shown) - _CHECKS} more" if len(shown) > _CHECKS else ""
    return "; ".join(shown[:_CHECKS]) + more if shown else "none"


def _named(situation: str) -> str:
    name, _, value = situation.partition(":")
    return f"{name} {_brief(value)}" if value else name


def _brief(text: str) -> str:
    """Return the beginning of a digest, or of an id; any other text as it is."""
    value = text.rpartition(":")[2]
    return value[:10] if re.fullmatch(DIGEST_PATTERN, value) else text
