"""What kind of failure a run is, told from its records alone (spec 11, step 6; reference 1.1).

Pure and total: every run falls into one class, or into none if it worked and its change did good or was not judged.
The first line that holds decides:

    budget               the Attempt was cancelled; exit code 124 (timeout), 152 or -24 (processor time used up); a
                         violation that names a time or budget limit, such as `evaluator_timeout`
    environment          exit code 126 or 127 (cannot be run, not found), 137 or -9 (killed, as for want of memory); an
                         error of the machine: a module, file, device or connection that is not there, no memory
    execution            any other exit code but zero; the Attempt failed, or its Observation names another error
    evaluation_invalid   no Verification, or one that is not valid; an Attempt that is invalid or never ended
    scientific_negative  it worked, and its change does harm
    neutral              it worked, and its change makes no difference, or none that can be told

Only the last two ever enter an effect. The others say nothing about the change: they are never counter-evidence.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from policies.effects import Classification
from records.evidence import Attempt, AttemptStatus, Observation, Verification, VerifiedEvidenceBundle


class FailureClass(StrEnum):
    """The closed classes of failures."""

    SCIENTIFIC_NEGATIVE = "scientific_negative"
    NEUTRAL = "neutral"
    ENVIRONMENT = "environment"
    EXECUTION = "execution"
    EVALUATION_INVALID = "evaluation_invalid"
    BUDGET = "budget"

    @property
    def is_evidence(self) -> bool:
        """Whether runs of this class say something about the change."""
        return self in {FailureClass.SCIENTIFIC_NEGATIVE, FailureClass.NEUTRAL}


_BUDGET_EXITS: Final = frozenset({124, 152, -24})
_MACHINE_EXITS: Final = frozenset({126, 127, 137, -9})
_BUDGET_VIOLATION: Final = re.compile(r"(^|_)(timeout|timed_out|budget|time_limit)(_|:|$)")
_MACHINE_ERROR: Final = re.compile(
    r"\b(ModuleNotFoundError|ImportError|FileNotFoundError|PermissionError|OSError|IOError|Connection\w*Error"
    r"|MemoryError|OutOfMemoryError|out of memory|no space left|cuda error|no such device)\b",
    re.IGNORECASE,
)


def failure_class(
    attempt: Attempt, observation: Observation, verification: Verification | None, effect: Classification | None = None
) -> FailureClass | None:
    """Return the class of a run; `effect` is what its change was found to do, None for a baseline or an unjudged run.

    None means that the run worked and is no failure.
    """
    return _did_not_work(attempt, observation, verification) or _worked(effect)


def broken(bundle: VerifiedEvidenceBundle) -> FailureClass | None:
    """Return why a run can never enter an effect, or None if it can."""
    return _did_not_work(bundle.attempt, bundle.observation, bundle.verification)


def _did_not_work(attempt: Attempt, observation: Observation, verification: Verification | None) -> FailureClass | None:
    violations = () if verification is None else verification.violations
    code, error = observation.exit_code, observation.error or ""
    limited = any(_BUDGET_VIOLATION.search(name) for name in violations)
    if attempt.status is AttemptStatus.CANCELLED or code in _BUDGET_EXITS or limited:
        return FailureClass.BUDGET
    if code in _MACHINE_EXITS or _MACHINE_ERROR.search(error):
        return FailureClass.ENVIRONMENT
    if code != 0 or error or attempt.status is AttemptStatus.FAILED:
        return FailureClass.EXECUTION
    if verification is None or not verification.valid or attempt.status is not AttemptStatus.COMPLETED:
        return FailureClass.EVALUATION_INVALID
    return None


def _worked(effect: Classification | None) -> FailureClass | None:
    match effect:
        case Classification.HARMS:
            return FailureClass.SCIENTIFIC_NEGATIVE
        case Classification.NO_EFFECT | Classification.UNCERTAIN:
            return FailureClass.NEUTRAL
        case Classification.IMPROVES | None:
            return None
