"""The shadow policy: weights folded from receipts, which recommend and decide nothing (spec 004; reference 3.3).

Rules kept here:

- the weights are a pure fold over receipts in journal order, from zero: nothing is stored, so a version is discarded by
  naming another policy, and rolled back by folding fewer receipts. No schema knows of it;
- integers all the way: the same receipts give the same weights on any machine;
- a receipt teaches the mean of the features of what was shown, with a step that shrinks; weights are bounded, so no
  number of poisoned receipts makes a recommendation surer than the bound;
- what was withheld has no outcome. Credit is the mean over what was shown, and says nothing about what was not
  (reference: defect 5);
- no function here is given what is selected to change it: selection does not ask this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from policies.loading import Policy, PolicyPart, packaged_policy
from policies.workspace.reward import RewardRule
from records.canonical import domain_digest
from records.claim_traces import ClaimReceipt, ClaimTrace, Recommendation, ShadowVersion, TraceItem, TraceReason
from records.fields import Metric
from records.values import Count
from records.workspace import ClaimSource, Trust, WorkspaceClaim

SHADOW_RULE: Final = "claim-shadow/1"
BITS: Final = 20
ONE: Final = 1 << BITS
FEATURES: Final = ("bias", "score", "tokens", "meaning", "local", "deterministic")
MEANING: Final = "meaning"
"""The candidate list whose rank is a feature."""

Positive = Annotated[int, Field(ge=1, le=2**31)]


class Learning(PolicyPart):
    """How weights are learned; policies/files/workspace-shadow-v1.yaml says what each number is."""

    rule: Literal["claim-shadow/1"]
    score_scale: Positive
    token_whole: Positive
    largest_step_thousandths: Annotated[int, Field(ge=1, le=1000)]
    weight_bound: Annotated[int, Field(ge=1, le=100)]


class GateRule(PolicyPart):
    """The declared thresholds of the promotion gates."""

    trials_per_task: Positive
    tasks: Positive
    confidence: Metric
    resamples: Positive
    seed: Count
    unauthorised: Metric
    corrected: Metric
    mean_tokens: Metric
    mean_latency_ms: Metric


class ShadowPolicy(Policy):
    """One version of the policy (docs/adr/0085 says why)."""

    reward: RewardRule
    learning: Learning
    gates: GateRule


def shadow_policy(version: str = "1") -> ShadowPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ShadowPolicy, "workspace-shadow", version)


Features = tuple[int, ...]
"""One number for each of `FEATURES`, in steps of 2^-20, within -1 and 1."""


@dataclass(frozen=True, slots=True)
class ShadowState:
    """What was learned from so many receipts; weights in steps of 2^-20."""

    version: int = 0
    weights: Features = (0,) * len(FEATURES)

    def named(self, policy: ShadowPolicy) -> ShadowVersion:
        """Return the name of this state."""
        digest = domain_digest("claim-shadow-weights", list(self.weights))
        return ShadowVersion(policy=policy.identity, version=self.version, weights_digest=digest)

    def value(self, features: Features) -> int:
        """Return the value of a claim, in steps of 2^-20."""
        return sum(weight * each for weight, each in zip(self.weights, features, strict=True)) >> BITS

    def recommend(self, features: Features) -> tuple[Recommendation, int]:
        """Return what it would do with a claim, and by which value; at zero it injects."""
        value = self.value(features)
        return (Recommendation.INJECT if value >= 0 else Recommendation.WITHHOLD), value


@dataclass(frozen=True, slots=True)
class Seen:
    """What the features of a shown claim are made of; `score` is in millionths."""

    score: int
    tokens: int
    by_meaning: bool
    trust: Trust
    source: ClaimSource

    @classmethod
    def of(cls, item: TraceItem, claim: WorkspaceClaim) -> Seen:
        """Return it for an item of a trace."""
        by_meaning = any(rank.name == MEANING for rank in item.ranks)
        return cls(item.score, item.tokens, by_meaning, claim.trust, claim.source)


def features(seen: Seen, rule: Learning) -> Features:
    """Return the features of a claim."""
    return (
        ONE,
        round(math.tanh(seen.score / rule.score_scale) * ONE),
        min(ONE, seen.tokens * ONE // rule.token_whole),
        ONE if seen.by_meaning else 0,
        ONE if seen.trust is Trust.TRUSTED_LOCAL else 0,
        ONE if seen.source is ClaimSource.DETERMINISTIC else 0,
    )


def learn(state: ShadowState, reward: str, shown: Sequence[Features], rule: Learning) -> ShadowState:
    """Return the state after one receipt; one that showed nothing teaches nothing, and counts."""
    if not shown:
        return ShadowState(state.version + 1, state.weights)
    step = min(ONE * rule.largest_step_thousandths // 1000, math.isqrt(ONE * ONE // (state.version + 1)))
    gain = round(float(reward) * step)
    bound = rule.weight_bound * ONE
    means = [sum(column) // len(shown) for column in zip(*shown, strict=True)]
    moved = (weight + (gain * mean >> BITS) for weight, mean in zip(state.weights, means, strict=True))
    return ShadowState(state.version + 1, tuple(max(-bound, min(bound, each)) for each in moved))


@dataclass(frozen=True, slots=True)
class Lesson:
    """A receipt with the trace that it is of and the claims that the trace showed."""

    receipt: ClaimReceipt
    trace: ClaimTrace
    claims: Mapping[str, WorkspaceClaim]

    def shown(self, rule: Learning) -> list[Features]:
        """Return the features of what was shown."""
        items = (item for item in self.trace.items if item.reason is TraceReason.SELECTED)
        return [features(Seen.of(item, self.claims[item.claim_id]), rule) for item in items]


def fold(lessons: Iterable[Lesson], policy: ShadowPolicy) -> ShadowState:
    """Return what is learned from receipts, which come in journal order."""
    state = ShadowState()
    for lesson in lessons:
        state = learn(state, lesson.receipt.reward, lesson.shown(policy.learning), policy.learning)
    return state
