"""The gate of the earlier design, exactly: which experience became a lesson, and how sure it was said to be.

Pure, and for comparison arms only (arm C2 of the evaluation protocol; docs/adr/0072): no mode but `legacy_recall` asks
it, and what it promotes is never a Knowledge Record. Facts: the public program LIHUA919/AI-Researcher (Apache-2.0), and
its published phase-3 evidence, from which the tests compute every confidence and every knowledge id again.

Rules kept here, its known weaknesses included:

- one valid verified outcome that is not neutral is enough for a lesson, however generic its text;
- confidence grows with the NUMBER of earlier valid outcomes of the same sign on the task, whatever was run;
- any earlier valid outcome of the other sign on the task refuses the lesson, whatever was run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from records.canonical import digest_bytes

ELIGIBLE: Final = "eligible_verified_experience"
"""The one reason of a lesson that was promoted."""

GATE_VERSION: Final = "1"
BASE_CONFIDENCE: Final = 0.7
CONFIDENCE_STEP: Final = 0.1
MAX_CONFIDENCE: Final = 0.99

_COMPARISON: Final = frozenset({"metric", "baseline", "value", "delta", "direction"})
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")


class LegacyOutcome(StrEnum):
    """What its evaluator made of an observation."""

    POSITIVE = "positive"
    NEUTRAL = "neutral"
    NEGATIVE = "negative"
    INVALID = "invalid"


OPPOSITE: Final = {
    LegacyOutcome.POSITIVE: LegacyOutcome.NEGATIVE,
    LegacyOutcome.NEGATIVE: LegacyOutcome.POSITIVE,
}


class LegacyRefusal(StrEnum):
    """Why an experience became no lesson; the first two carry what was met behind a colon."""

    MISSING_VERIFICATION = "missing_verification"
    ATTEMPT_NOT_COMPLETED = "attempt_not_completed"
    OBSERVATION_EXIT_CODE = "observation_exit_code"
    INVALID_VERIFICATION = "invalid_verification"
    NON_REUSABLE_OUTCOME = "non_reusable_outcome"
    INCONSISTENT_POSITIVE_OUTCOME = "inconsistent_positive_outcome"
    INCONSISTENT_NEGATIVE_OUTCOME = "inconsistent_negative_outcome"
    INCOMPLETE_BASELINE_COMPARISON = "incomplete_baseline_comparison"
    MISSING_EVIDENCE_ARTIFACTS = "missing_evidence_artifacts"
    INVALID_ARTIFACT_DIGEST = "invalid_artifact_digest"
    MISSING_LESSON = "missing_lesson"
    MISSING_CONDITIONS = "missing_conditions"
    CONTRADICTORY_VERIFIED_EXPERIENCE = "contradictory_verified_experience"


@dataclass(frozen=True, kw_only=True)
class LegacyVerification:
    """What the evaluator found; a complete `comparison` has metric, baseline, value, delta and direction."""

    valid: bool
    passed: bool
    outcome: LegacyOutcome
    comparison: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LegacyExperience:
    """One finished trial as the earlier design kept it.

    Attributes:
        status: of the attempt; `exit_code` of its observation.
        artifacts: the SHA-256 texts of what it left behind.
        lesson: the analysis, in prose; conditions: what it was run under, in prose.
        created_at: the time of its record, as that record writes it.
    """

    experience_id: str
    task_id: str
    dataset_id: str
    status: str
    exit_code: int
    artifacts: tuple[str, ...]
    verification: LegacyVerification | None
    lesson: str
    conditions: tuple[str, ...]
    created_at: str

    def says(self, outcome: LegacyOutcome, task_id: str) -> bool:
        """Tell whether this is a valid outcome of a sign on a task."""
        found = self.verification
        return found is not None and found.valid and (found.outcome, self.task_id) == (outcome, task_id)


@dataclass(frozen=True, kw_only=True)
class LegacyKnowledge:
    """A lesson that the gate promoted; `knowledge_id` covers everything but itself, `supersedes` and `created_at`."""

    knowledge_id: str
    task_id: str
    domain: str
    dataset_id: str
    model_family: str
    lesson: str
    conditions: tuple[str, ...]
    outcome: LegacyOutcome
    confidence: float
    source_experience_ids: tuple[str, ...]
    created_at: str


@dataclass(frozen=True, kw_only=True)
class LegacyDecision:
    """What the gate decided about one experience, with every reason, in its own order."""

    experience_id: str
    reasons: tuple[str, ...]
    knowledge: LegacyKnowledge | None

    @property
    def accepted(self) -> bool:
        """Whether it became a lesson."""
        return self.knowledge is not None


@dataclass(frozen=True, kw_only=True)
class LegacyGate:
    """The gate of one domain and model family."""

    domain: str
    model_family: str

    def decide(self, experience: LegacyExperience, earlier: Iterable[LegacyExperience]) -> LegacyDecision:
        """Decide about an experience, given those that were recorded before it."""
        related = list(earlier)
        reasons = tuple(_refusals(experience, related))
        found = experience.verification
        if reasons or found is None:
            return LegacyDecision(experience_id=experience.experience_id, reasons=reasons, knowledge=None)
        same = [each for each in related if each.says(found.outcome, experience.task_id)]
        return LegacyDecision(
            experience_id=experience.experience_id,
            reasons=(ELIGIBLE,),
            knowledge=self._lesson(experience, found.outcome, same),
        )

    def fold(self, experiences: Iterable[LegacyExperience]) -> list[LegacyDecision]:
        """Decide about experiences one after the other, each given those before it."""
        before: list[LegacyExperience] = []
        decisions = []
        for experience in experiences:
            decisions.append(self.decide(experience, before))
            before.append(experience)
        return decisions

    def _lesson(
        self, experience: LegacyExperience, outcome: LegacyOutcome, same: list[LegacyExperience]
    ) -> LegacyKnowledge:
        sources = sorted({experience.experience_id, *(each.experience_id for each in same)})
        covered = {
            "task_id": experience.task_id,
            "domain": self.domain,
            "dataset_id": experience.dataset_id,
            "model_family": self.model_family,
            "lesson": experience.lesson.strip(),
            "conditions": list(experience.conditions),
            "outcome": outcome.value,
            "confidence": confidence(len(same)),
            "source_experience_ids": sources,
            "promotion_policy_version": GATE_VERSION,
        }
        return LegacyKnowledge(
            knowledge_id=digest_bytes(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()),
            task_id=experience.task_id,
            domain=self.domain,
            dataset_id=experience.dataset_id,
            model_family=self.model_family,
            lesson=experience.lesson.strip(),
            conditions=experience.conditions,
            outcome=outcome,
            confidence=confidence(len(same)),
            source_experience_ids=tuple(sources),
            created_at=experience.created_at,
        )


def confidence(same: int) -> float:
    """Return the confidence of a lesson after `same` earlier outcomes of its sign on its task."""
    return round(min(MAX_CONFIDENCE, BASE_CONFIDENCE + CONFIDENCE_STEP * same), 2)


def _refusals(experience: LegacyExperience, related: list[LegacyExperience]) -> Iterator[str]:
    """Yield every reason against a lesson, in the gate's order; without a verification that is the only one."""
    found = experience.verification
    if found is None:
        yield LegacyRefusal.MISSING_VERIFICATION.value
        return
    if experience.status != "completed":
        yield f"{LegacyRefusal.ATTEMPT_NOT_COMPLETED.value}:{experience.status}"
    if experience.exit_code != 0:
        yield f"{LegacyRefusal.OBSERVATION_EXIT_CODE.value}:{experience.exit_code}"
    opposite = OPPOSITE.get(found.outcome)
    digests = [_DIGEST.fullmatch(each) is not None for each in experience.artifacts]
    for broken, reason in (
        (not found.valid, LegacyRefusal.INVALID_VERIFICATION),
        (opposite is None, LegacyRefusal.NON_REUSABLE_OUTCOME),
        (found.outcome is LegacyOutcome.POSITIVE and not found.passed, LegacyRefusal.INCONSISTENT_POSITIVE_OUTCOME),
        (found.outcome is LegacyOutcome.NEGATIVE and found.passed, LegacyRefusal.INCONSISTENT_NEGATIVE_OUTCOME),
        (not found.comparison.keys() >= _COMPARISON, LegacyRefusal.INCOMPLETE_BASELINE_COMPARISON),
        (not digests, LegacyRefusal.MISSING_EVIDENCE_ARTIFACTS),
        (not all(digests), LegacyRefusal.INVALID_ARTIFACT_DIGEST),
        (not experience.lesson.strip(), LegacyRefusal.MISSING_LESSON),
        (not experience.conditions, LegacyRefusal.MISSING_CONDITIONS),
        (opposite is not None and any(each.says(opposite, experience.task_id) for each in related),
         LegacyRefusal.CONTRADICTORY_VERIFIED_EXPERIENCE),
    ):  # fmt: skip
        if broken:
            yield reason.value
