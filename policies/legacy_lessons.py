"""The earlier design on evidence of this one: what it would have learnt from verified runs, and how a planner reads it.

Pure, and for comparison arms only (docs/adr/0072). Rules kept here:

- its evidence is what verified memory may rest on: complete bundles of development runs that belong to no arm, so that
  both designs had the same trials to learn from;
- a run is compared with the baseline configuration of its own task and seed; without one the comparison is incomplete,
  and the gate refuses. The lesson is the analysis of the experience, the conditions are those of its hypothesis;
- a task's data set is taken to be its public scope: by the letter of the earlier scope rule no lesson of one task could
  ever be recalled on another;
- a reader finds the action of a lesson in its first words, for the lesson holds nothing typed. What it cannot read, or
  what is not allowed, changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from policies.legacy_gate import LegacyExperience, LegacyOutcome, LegacyVerification
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, answer_without_cards
from records.decisions import AllowedAction
from records.evidence import Corpus, VerifiedEvidenceBundle
from records.legacy_recall import RecalledLesson
from records.values import Direction

_ACTION: Final = re.compile(r"(?P<knob>[A-Za-z]\w*) set to (?P<value>.+?) on ")


def experiences_of(bundles: Iterable[VerifiedEvidenceBundle]) -> list[LegacyExperience]:
    """Return runs as the earlier design kept them, in the order of their times and then of their ids."""
    own = [each for each in bundles if each.attempt.corpus is Corpus.DEVELOPMENT and each.attempt.arm is None]
    baselines = {_place(each, each.attempt.config_digest): each for each in own if each.intervention.knob is None}
    found = [_experience(each, baselines.get(_place(each, each.intervention.baseline_config_digest))) for each in own]
    return sorted(found, key=lambda each: (each.created_at, each.experience_id))


def plan_with_lessons(
    question: PlannerQuestion, lessons: Sequence[RecalledLesson], policy: PlannerPolicy
) -> PlannerAnswer:
    """Return the proposal of a planner that reads lessons instead of cards, and lets them go as early as cards.

    The first lesson about an action counts. A success is tried, a failure is passed over; the rest is exploration, in
    the order of every other arm.
    """
    read: dict[AllowedAction, LegacyOutcome] = {}
    for lesson in lessons if question.decision_index < policy.steered_decisions else ():
        action = action_of(lesson.lesson)
        if action is not None:
            read.setdefault(action, LegacyOutcome(lesson.outcome))
    advised = [action for action, outcome in read.items() if outcome is LegacyOutcome.POSITIVE]
    avoided = [action for action, outcome in read.items() if outcome is LegacyOutcome.NEGATIVE]
    return answer_without_cards(question, advised, avoided)


def action_of(lesson: str) -> AllowedAction | None:
    """Return the action that a lesson is about, or None where its words name none."""
    found = _ACTION.match(lesson)
    return None if found is None else AllowedAction(knob=found["knob"], value=found["value"])


def _place(bundle: VerifiedEvidenceBundle, config_digest: str) -> tuple[Any, ...]:
    attempt = bundle.attempt
    return attempt.evaluation_task_id, attempt.seed, attempt.contract_id, attempt.source_digest, config_digest


def _experience(bundle: VerifiedEvidenceBundle, baseline: VerifiedEvidenceBundle | None) -> LegacyExperience:
    return LegacyExperience(
        experience_id=str(bundle.experience.id),
        task_id=str(bundle.attempt.evaluation_task_id),
        dataset_id=str(bundle.attempt.task_scope_id),
        status=bundle.attempt.status.value,
        exit_code=bundle.observation.exit_code,
        artifacts=tuple(each.sha256 for each in bundle.observation.artifacts),
        verification=_verification(bundle, baseline),
        lesson=bundle.experience.analysis,
        conditions=bundle.hypothesis.conditions,
        created_at=bundle.experience.created_at,
    )


def _verification(bundle: VerifiedEvidenceBundle, baseline: VerifiedEvidenceBundle | None) -> LegacyVerification:
    """Return the finding with its comparison: the sign of the difference in the metric's direction (reference 1.1)."""
    metric = bundle.contract.primary_metric
    value = bundle.verification.metric(metric.name)
    start = None if baseline is None else baseline.verification.metric(metric.name)
    valid = bundle.verification.valid
    if not valid or value is None or start is None:
        return LegacyVerification(valid=valid, passed=False, outcome=LegacyOutcome.INVALID, comparison={})
    gain = value - start if metric.direction is Direction.MAXIMIZE else start - value
    outcome = LegacyOutcome.NEUTRAL if gain == 0 else (LegacyOutcome.POSITIVE if gain > 0 else LegacyOutcome.NEGATIVE)
    comparison = {
        "metric": metric.name,
        "baseline": start,
        "value": value,
        "delta": value - start,
        "direction": metric.direction.value,
    }
    return LegacyVerification(valid=True, passed=gain > 0, outcome=outcome, comparison=comparison)
