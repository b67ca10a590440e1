"""Ideation with a fresh start: how much of a search may follow from memory, and how far apart its ideas lie (VRM-O05).

Pure. Rules kept here (specification 12; docs/adr/0072):

- a search has two registered branches on the same task, seed, budget and order of exploration: one with memory, and one
  that starts fresh;
- an approach family is a mechanism class of the catalog. Coverage of a branch is the number of distinct families among
  its VALID ideas over the number of ideas that it was allowed (reference 1.3), so that an idea that fails covers
  nothing;
- cards may steer the first ideas of the branch with memory, at most the capped share; after that it explores, whatever
  they say. Dependence is the share of ideas that did follow from a card. The cap is that of the Retrieval Policy's
  profile for ideation, and stands nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from policies.loading import Policy, packaged_policy
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, plan
from policies.retrieval_policy import RetrievalPolicy
from records.fields import Metric, Name
from records.values import DecisionPoint


class Branch(StrEnum):
    """The two branches of a search, by the names of their arms."""

    WITH_MEMORY = "with_memory"
    FRESH_START = "fresh_start"


class IdeationPolicy(Policy):
    """One version of the policy.

    Attributes:
        proposals: ideas of each branch.
        level: of the intervals over searches, as a share.
    """

    proposals: Annotated[int, Field(ge=2, le=100)]
    level: Metric


def ideation_policy(version: str = "1") -> IdeationPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(IdeationPolicy, "ideation", version)


@dataclass(frozen=True, kw_only=True)
class Idea:
    """One idea that was carried out.

    Attributes:
        family: the mechanism class of its change; None where nothing was proposed.
        valid: whether the evaluator found its result valid.
        steered: whether a card decided it.
    """

    family: Name | None
    valid: bool
    steered: bool


def dependence_cap(policy: RetrievalPolicy) -> int:
    """Return the largest share of ideas that may follow from a card, in thousandths.

    Raises:
        ValueError: the policy has no profile for ideation, or none that says how far it may lean on memory.
    """
    start = policy.require_profile(DecisionPoint.IDEATION).fresh_start
    if start is None:
        raise ValueError("the policy's profile for ideation has no fresh start")
    return start.dependence_cap


def steerable(proposals: int, cap: int) -> int:
    """Return how many of so many ideas cards may steer under a cap in thousandths."""
    return proposals * cap // 1000


def coverage(ideas: Iterable[Idea], proposals: int) -> float:
    """Return the distinct families of valid ideas over the number of ideas that were allowed."""
    return len({idea.family for idea in ideas if idea.valid and idea.family is not None}) / proposals


def dependence(ideas: Iterable[Idea], proposals: int) -> float:
    """Return the share of the allowed ideas that followed from a card."""
    return sum(idea.steered for idea in ideas) / proposals


def propose(question: PlannerQuestion, planner: PlannerPolicy, most: int) -> PlannerAnswer:
    """Return the planner's next idea: steered while fewer than `most` could be, and explored from then on."""
    free = question.decision_index >= most
    place = max(question.decision_index, planner.steered_decisions) if free else 0
    return plan(replace(question, decision_index=place), planner)
