"""The Retrieval Policy: what a decision point may recall, how much of it, and how it is ranked and shown.

Rules kept here (spec 12, VRM-R02 to R05, R10; docs/adr/0060):

- every decision point that may recall has exactly one profile; a point without a profile recalls nothing, and no
  experiential profile is ever available to the evaluator;
- a profile may lower the bounds of three cards and 1,200 tokens, never raise them;
- features are integers and so are their weights. The weights of version 1 are declared initial values, not fitted ones;
- whether a failed embedder may be replaced by lexical and structured search alone is said here, per profile.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.loading import Policy, PolicyPart, packaged_policy
from records.fields import Metric, Name
from records.values import ActionKind, DecisionPoint, Disposition, Grade

MAX_ITEMS: Final = 3
TOKEN_BUDGET: Final = 1200

Weight = Annotated[int, Field(ge=0, le=1_000_000)]
Permille = Annotated[int, Field(ge=0, le=1000)]


class Fallback(StrEnum):
    """What may replace the semantic list when the embedder fails."""

    NONE = "none"
    WITHOUT_SEMANTIC = "without_semantic"


class Weights(PolicyPart):
    """What one step of each feature counts in the total; penalties are subtracted.

    Attributes:
        applicability: per scope field that the record constrains, all of which match.
        relevance: per thousandth of the best fused rank.
        gain: per thousandth of an equivalence margin of expected gain.
        downside: per thousandth of a margin that one new unit may lose; a penalty.
        grade: per step of the evidence grade.
        support: per supporting unit, up to `support_cap`.
        counter: per thousandth of units that speak against the rule; a penalty.
    """

    applicability: Weight
    relevance: Weight
    gain: Weight
    downside: Weight
    grade: Weight
    support: Weight
    counter: Weight


class Thresholds(PolicyPart):
    """What a card must reach; below it recall rather says nothing (VRM-R05).

    Attributes:
        min_gain: expected gain beyond the equivalence margin, in thousandths of it.
        min_grade: lowest grade, by its place in `policies.ranker.GRADE_STEPS`.
        min_total: lowest weighted total.
    """

    min_gain: Annotated[int, Field(ge=0)]
    min_grade: Grade
    min_total: int


class RetrievalProfile(PolicyPart):
    """What one decision point may recall.

    Attributes:
        decision_point: the point that the profile is for.
        dispositions: dispositions that may be shown.
        actions: kinds of implication that may be shown.
        candidate_limit: longest candidate list, of each source.
        weights: the weights of the ranker's features.
        thresholds: the abstention thresholds.
        smallest_margin: the unit of gain where the contract's equivalence margin is smaller, in the metric's unit.
        gain_cap: largest gain or downside that counts, in thousandths of a margin.
        avoid_share: what the gain of an avoided harm counts, in thousandths of that of a gain.
        support_cap: most supporting units that count.
        per_mechanism: most cards of one mechanism class, for cards of one mechanism do not add up.
        max_items: most cards.
        token_budget: most tokens of the whole rendered section.
        fallback: what may replace a failed embedder.
    """

    decision_point: DecisionPoint
    dispositions: Annotated[tuple[Disposition, ...], Field(min_length=1)]
    actions: Annotated[tuple[ActionKind, ...], Field(min_length=1)]
    candidate_limit: Annotated[int, Field(ge=1, le=1000)]
    weights: Weights
    thresholds: Thresholds
    smallest_margin: Metric
    gain_cap: Annotated[int, Field(ge=1, le=10_000_000)]
    avoid_share: Permille
    support_cap: Annotated[int, Field(ge=0, le=1000)]
    per_mechanism: Annotated[int, Field(ge=1, le=MAX_ITEMS)]
    max_items: Annotated[int, Field(ge=0, le=MAX_ITEMS)]
    token_budget: Annotated[int, Field(ge=0, le=TOKEN_BUDGET)]
    fallback: Fallback

    @field_validator("smallest_margin")
    @classmethod
    def _a_unit(cls, margin: str) -> str:
        if float(margin) <= 0:
            raise ValueError("the smallest margin is a unit of measure: give a number above zero")
        return margin


class Rendering(PolicyPart):
    """How cards are shown.

    Attributes:
        renderer: identity of the renderer; another layout is another renderer.
        tokenizer: identity of the tokenizer that measures the section: encoding and hash of its ranks.
        citations: how many experiences are named per side; the rest is counted.
        id_digits: hex digits shown of an id; the Ledger resolves any unambiguous beginning.
        text_limit: characters shown of one text of a record.
    """

    renderer: Name
    tokenizer: Name
    citations: Annotated[int, Field(ge=1, le=20)]
    id_digits: Annotated[int, Field(ge=8, le=64)]
    text_limit: Annotated[int, Field(ge=40, le=4000)]


class RetrievalPolicy(Policy):
    """One version of the policy.

    Attributes:
        private_visibilities: visibilities that no actor may see; a Recall Input that holds one is blocked.
        rendering: how cards are shown and measured.
        profiles: one for each decision point that may recall.
    """

    private_visibilities: tuple[Name, ...]
    rendering: Rendering
    profiles: Annotated[tuple[RetrievalProfile, ...], Field(min_length=1)]

    @field_validator("profiles")
    @classmethod
    def _one_each(cls, profiles: tuple[RetrievalProfile, ...]) -> tuple[RetrievalProfile, ...]:
        if len({profile.decision_point for profile in profiles}) != len(profiles):
            raise ValueError("give each decision point one profile")
        return profiles

    def profile(self, point: DecisionPoint) -> RetrievalProfile | None:
        """Return the profile of a decision point, or None where nothing may be recalled."""
        return next((profile for profile in self.profiles if profile.decision_point is point), None)

    def require_profile(self, point: DecisionPoint) -> RetrievalProfile:
        """Return the profile of a decision point that is known to have one.

        Raises:
            ValueError: it has none; the caller asked before it checked.
        """
        found = self.profile(point)
        if found is None:
            raise ValueError(f"the policy has no profile for {point.value}")
        return found


def retrieval_policy(version: str = "1") -> RetrievalPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(RetrievalPolicy, "retrieval", version)
