"""The Retrieval Policy: what a decision point may recall, how much of it, and how it is ranked and shown.

Rules kept here (spec 12, VRM-R02 to R05, R10; docs/adr/0060, 0061):

- every decision point that may recall has exactly one profile; a point without a profile recalls nothing, and no
  experiential profile is ever available to the evaluator, which is no decision point at all;
- a profile may lower the bounds of three cards and 1,200 tokens, never raise them;
- contested records are for diagnosis alone, and never for a confirmatory policy;
- features are integers and so are their weights. Those of versions 1 and 2 are declared initial values, not fitted;
- whether a failed embedder may be replaced by lexical and structured search alone is said here, per profile; a
  confirmatory policy never allows it;
- version 1 knows rules at interventions alone. What it does not have is absent from it, so that it keeps its digest,
  and is read as it always was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from policies.loading import Policy, PolicyPart, packaged_policy
from records.errors import NotFoundError
from records.fields import Metric, Name
from records.values import ActionKind, DecisionPoint, Disposition, Grade, PolicyIdentity, SourceKind

MAX_ITEMS: Final = 3
TOKEN_BUDGET: Final = 1200
VERSION: Final = "2"
"""The version under which new Recall Inputs are composed."""

Weight = Annotated[int, Field(ge=0, le=1_000_000)]
Permille = Annotated[int, Field(ge=0, le=1000)]


class Fallback(StrEnum):
    """What may replace the semantic list when the embedder fails."""

    NONE = "none"
    WITHOUT_SEMANTIC = "without_semantic"


class RequiredFilter(StrEnum):
    """Hard filters that a profile asks for besides those that always hold (spec 12, "Required filters").

    Namespace, visibility, membership, retention, disposition, action kind, exact scope, metric and budget always hold.
    """

    CATALOG = "catalog"
    NOVELTY = "novelty"
    PRIOR_CONFIG = "prior_config"
    ALLOWED_ACTION = "allowed_action"
    SITUATION = "situation"
    TOOLS = "tools"
    FAILURE_SIGNATURE = "failure_signature"
    CITATIONS = "citations"


_OF_INTERVENTIONS: Final = (
    RequiredFilter.CATALOG, RequiredFilter.NOVELTY, RequiredFilter.ALLOWED_ACTION, RequiredFilter.PRIOR_CONFIG,
)  # fmt: skip


class _Grown(PolicyPart):
    """A section that has fields which version 1 has not; those that are absent are no part of its content."""

    added: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return {name: value for name, value in values.items() if value is not None or name not in self.added}


class Lane(PolicyPart):
    """One kind of source that a profile may show, and how many cards of it."""

    kind: SourceKind
    max_items: Annotated[int, Field(ge=1, le=MAX_ITEMS)]


class FreshStart(PolicyPart):
    """How far ideation may lean on memory (spec 12, VRM-O05).

    Attributes:
        branches: ideas of one decision that are made without any memory, so that there is always something to compare.
        dependence_cap: largest share of a decision's ideas that may rest on a card, in thousandths.
    """

    branches: Annotated[int, Field(ge=1, le=100)]
    dependence_cap: Permille


class Fusion(PolicyPart):
    """What each candidate list counts when the lists are joined by shares (docs/adr/0062).

    Attributes:
        lexical: for the best score of its list, and in proportion below it.
        semantic: for a cosine of 1, and in proportion down to the floor.
        structured: for the first place, and less for each one after it.
        semantic_floor: the cosine, in thousandths, that counts for nothing, and everything below it.
    """

    lexical: Weight
    semantic: Weight
    structured: Weight
    semantic_floor: Annotated[int, Field(ge=0, lt=1000)]

    @model_validator(mode="after")
    def _something_counts(self) -> Fusion:
        if not (self.lexical or self.semantic or self.structured):
            raise ValueError("at least one candidate list counts")
        return self


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


class RetrievalProfile(_Grown):
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
        sources: the kinds of source that may be shown, each with its own bound; absent in version 1, which has rules.
        record_points: decision points of the rules and procedures that may be shown; in version 1 the profile's own.
        filters: the hard filters that this point asks for; in version 1 all of an intervention's.
        fresh_start: how far ideation may lean on memory; given for ideation alone.
    """

    added: ClassVar[frozenset[str]] = frozenset({"sources", "record_points", "filters", "fresh_start"})

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
    sources: Annotated[tuple[Lane, ...], Field(min_length=1)] | None = None
    record_points: Annotated[tuple[DecisionPoint, ...], Field(min_length=1)] | None = None
    filters: tuple[RequiredFilter, ...] | None = None
    fresh_start: FreshStart | None = None

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The kinds of source that may be shown, in the order of the file."""
        return self.sources or (Lane(kind=SourceKind.SEMANTIC, max_items=MAX_ITEMS),)

    @property
    def kinds(self) -> frozenset[SourceKind]:
        """The kinds of source that may be shown."""
        return frozenset(lane.kind for lane in self.lanes)

    @property
    def points(self) -> tuple[DecisionPoint, ...]:
        """The decision points of the rules and procedures that may be shown."""
        return self.record_points or (self.decision_point,)

    def requires(self, wanted: RequiredFilter) -> bool:
        """Tell whether a hard filter is asked for here."""
        return wanted in (_OF_INTERVENTIONS if self.filters is None else self.filters)

    def most(self, kind: SourceKind) -> int:
        """Return how many cards of a kind may be shown."""
        return next((lane.max_items for lane in self.lanes if lane.kind is kind), 0)

    @model_validator(mode="after")
    def _fits_its_point(self) -> RetrievalProfile:
        if len(self.kinds) < len(self.lanes):
            raise ValueError("name each kind of source once")
        if Disposition.CONTESTED in self.dispositions and self.decision_point is not DecisionPoint.DIAGNOSIS:
            raise ValueError("contested records are for diagnosis alone")
        if self.fresh_start is not None and self.decision_point is not DecisionPoint.IDEATION:
            raise ValueError("a fresh start is for ideation alone")
        return self

    @field_validator("dispositions")
    @classmethod
    def _live(cls, dispositions: tuple[Disposition, ...]) -> tuple[Disposition, ...]:
        if not set(dispositions) <= {Disposition.ACTIVE, Disposition.CONTESTED}:
            raise ValueError("a card is active, or contested where that is asked for")
        return dispositions

    @field_validator("smallest_margin")
    @classmethod
    def _a_unit(cls, margin: str) -> str:
        if float(margin) <= 0:
            raise ValueError("the smallest margin is a unit of measure: give a number above zero")
        return margin


class Rendering(_Grown):
    """How cards are shown.

    Attributes:
        renderer: identity of the renderer; another layout is another renderer.
        tokenizer: identity of the tokenizer that measures the section: encoding and hash of its ranks.
        citations: how many experiences are named per side; the rest is counted.
        id_digits: hex digits shown of an id; the Ledger resolves any unambiguous beginning.
        text_limit: characters shown of one text of a record.
        scan: the policy by which texts that read like instructions are marked; version 1 marks none.
    """

    added: ClassVar[frozenset[str]] = frozenset({"scan"})

    renderer: Name
    tokenizer: Name
    citations: Annotated[int, Field(ge=1, le=20)]
    id_digits: Annotated[int, Field(ge=8, le=64)]
    text_limit: Annotated[int, Field(ge=40, le=4000)]
    scan: PolicyIdentity | None = None


class RetrievalPolicy(_Grown, Policy):
    """One version of the policy.

    Attributes:
        private_visibilities: visibilities that no actor may see; a Recall Input that holds one is blocked.
        rendering: how cards are shown and measured.
        profiles: one for each decision point that may recall.
        confirmatory: whether it is for confirmatory trials: active records, and no fallback; absent in version 1, which
            is not.
        fusion: what the candidate lists count; absent in version 1, where they count the same.
    """

    added: ClassVar[frozenset[str]] = frozenset({"confirmatory", "fusion"})

    private_visibilities: tuple[Name, ...]
    rendering: Rendering
    profiles: Annotated[tuple[RetrievalProfile, ...], Field(min_length=1)]
    confirmatory: bool | None = None
    fusion: Fusion | None = None

    @model_validator(mode="after")
    def _confirms(self) -> RetrievalPolicy:
        if self.confirmatory and any(profile.fallback is not Fallback.NONE for profile in self.profiles):
            raise ValueError("a confirmatory policy allows no fallback (VRM-R10)")
        if self.confirmatory and any(set(each.dispositions) != {Disposition.ACTIVE} for each in self.profiles):
            raise ValueError("a confirmatory policy shows active records alone")
        return self

    @property
    def kinds(self) -> frozenset[SourceKind]:
        """The kinds of source that some profile may show; nothing else of a Recall Input is opened."""
        return frozenset().union(*(profile.kinds for profile in self.profiles))

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


def retrieval_policy(version: str = VERSION) -> RetrievalPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(RetrievalPolicy, "retrieval", version)


def confirmatory_policy(version: str = "1") -> RetrievalPolicy:
    """Return the packaged policy of confirmatory trials.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(RetrievalPolicy, "retrieval-confirmatory", version)


def shipped_policy(pinned: PolicyIdentity) -> RetrievalPolicy:
    """Return the policy that ships under an identity, which something of the Ledger pins.

    Raises:
        NotFoundError: none does; it was made by a program that has other policies.
    """
    found = next((policy for policy in shipped_policies() if policy.identity == pinned), None)
    if found is None:
        remedy = "Name a Recall Input of a policy that ships, or compose a new one: `vrm distil`."
        raise NotFoundError("retrieval policy", f"{pinned.policy_id} {pinned.version} {pinned.digest}", remedy)
    return found


def shipped_policies() -> tuple[RetrievalPolicy, ...]:
    """Return every policy that ships: a Recall Input is answered under the one that it pins, however old it is."""
    return (retrieval_policy("1"), retrieval_policy("2"), confirmatory_policy("1"))
