"""Which runs a rule may be drafted from at all (spec 11, steps 3 and 8).

Pure. A run whose drafting inputs name the private evaluator would carry it into a rule that actors read; a change that
was made where no knob is decided has no decision point to speak at. Version 1 of the policy asks neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from policies.distillation_policy import CandidateReason, DistillationPolicy
from records.evidence import VerifiedEvidenceBundle


def refusal(bundle: VerifiedEvidenceBundle, policy: DistillationPolicy) -> CandidateReason | None:
    """Return why no rule may be drafted from a run, or None if one may."""
    if policy.comparison is None:
        return None
    if bundle.intervention.decision_point not in policy.comparison.decision_points:
        return CandidateReason.MISSING_DECISION_POINT
    private = _named(bundle.contract.evaluator, bundle.contract.evaluator_digest)
    if any(private.search(text) for text in _drafting_inputs(bundle)):
        return CandidateReason.PRIVATE_EVALUATOR_DEPENDENCY
    return None


@lru_cache(maxsize=64)
def _named(*names: str) -> re.Pattern[str]:
    """Return what finds one of the names as a whole word; a name may have dots and dashes of its own."""
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w.-])")


def _drafting_inputs(bundle: VerifiedEvidenceBundle) -> Iterator[str]:
    """Yield every text of a run that the words or the target of a rule are made of."""
    knob = bundle.intervention.knob
    if knob is not None:
        yield from (knob.name, knob.from_value, knob.to_value)
    yield bundle.hypothesis.mechanism
    yield from bundle.hypothesis.conditions
