"""The Workspace Policy: every number of the lifecycle of claims (policies/files/workspace-v*.yaml)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from policies.loading import Policy, PolicyPart, packaged_policy
from policies.workspace.arrows import ARROWS_VERSION
from records.fields import Name
from records.workspace import PredicateOutcome, Trust

Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]


class Extraction(PolicyPart):
    """What a claim must be: its fewest characters, and its most predicates."""

    text_min: Positive
    max_predicates: Positive


class Likeness(PolicyPart):
    """When two texts speak of the same.

    Attributes:
        overlap_percent: words shared of all words of both, negations left out, in hundredths.
        negations: words that turn a claim round.
        numbers_contradict: whether texts of the same words, one of whose numbers is another, contradict each other.
    """

    overlap_percent: Annotated[int, Field(ge=1, le=100)]
    negations: tuple[Name, ...]
    numbers_contradict: bool


class Admission(PolicyPart):
    """Which claims may become durable: their trust, and the independent evidence that they need."""

    trusts: tuple[Trust, ...]
    evidence: Positive

    @field_validator("trusts")
    @classmethod
    def _never_untrusted(cls, trusts: tuple[Trust, ...]) -> tuple[Trust, ...]:
        if Trust.UNTRUSTED in trusts:
            raise ValueError("an untrusted claim never becomes durable")
        return trusts


class NewEvidence(PolicyPart):
    """How much new independent evidence is needed."""

    evidence: Positive


class WorkspacePolicy(Policy):
    """One version of the policy (docs/adr/0085 says why).

    Attributes:
        arrows: the table of arrows that it is for.
        deterministic_start: which deterministically extracted, verified claims start durable.
        promotion: which probationary, verified claims are promoted.
        revival: what a stale or quarantined claim needs to come back.
        resolution: what settles a contradiction.
        stale_on: outcomes of a predicate that mark its claim stale; others only withhold it.
    """

    arrows: Name
    extraction: Extraction
    likeness: Likeness
    deterministic_start: Admission
    promotion: Admission
    revival: NewEvidence
    resolution: NewEvidence
    stale_on: tuple[PredicateOutcome, ...]

    @field_validator("arrows")
    @classmethod
    def _of_this_code(cls, arrows: str) -> str:
        if arrows != ARROWS_VERSION:
            raise ValueError(f"this program moves claims by {ARROWS_VERSION}")
        return arrows

    @field_validator("stale_on")
    @classmethod
    def _nothing_that_holds(cls, outcomes: tuple[PredicateOutcome, ...]) -> tuple[PredicateOutcome, ...]:
        if PredicateOutcome.HOLDS in outcomes:
            raise ValueError("a predicate that holds marks nothing stale")
        return outcomes


def workspace_policy(version: str = "1") -> WorkspacePolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(WorkspacePolicy, "workspace", version)
