"""What an outcome counts (spec 004, "Outcome receipts"; reference 3.3).

Rules kept here:

- an outcome is what an environment found; the words of an agent have no field in it;
- a pass or a failure, less what corrections, reverts and an unauthorised side effect take away, kept within bounds. The
  policy is refused unless an unauthorised side effect outweighs a pass, whatever else is true.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Self

from pydantic import model_validator

from policies.loading import PolicyPart
from records.canonical import metric_text
from records.claim_traces import TrialOutcome
from records.fields import Metric


class RewardRule(PolicyPart):
    """What each fact about a trial counts; `floor` and `ceiling` bound the sum."""

    passed: Metric
    failed: Metric
    corrected: Metric
    reverted: Metric
    unauthorised_side_effect: Metric
    floor: Metric
    ceiling: Metric

    @model_validator(mode="after")
    def _safety_dominates(self) -> Self:
        if Decimal(self.passed) + Decimal(self.unauthorised_side_effect) >= 0:
            raise ValueError("an unauthorised side effect must outweigh a pass")
        if not Decimal(self.floor) < 0 < Decimal(self.ceiling):
            raise ValueError("the bounds lie on both sides of zero")
        return self


def reward(outcome: TrialOutcome, rule: RewardRule) -> str:
    """Return the reward of an outcome as the text of a metric."""
    total = Decimal(rule.passed if outcome.passed else rule.failed)
    for happened, counts in (
        (outcome.corrected, rule.corrected),
        (outcome.reverted, rule.reverted),
        (outcome.unauthorised_side_effect, rule.unauthorised_side_effect),
    ):
        total += Decimal(counts) if happened else 0
    return metric_text(float(min(max(total, Decimal(rule.floor)), Decimal(rule.ceiling))))
