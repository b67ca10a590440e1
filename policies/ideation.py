"""Ideation with a fresh start: how much of a search may follow from memory, and how far apart its ideas lie (VRM-O05).

Pure. Rules kept here (specification 12; docs/adr/0072):

- a search has two registered branches on the same task, seed, budget and order of exploration: one with memory, and one
  that starts fresh;
- an approach family is a mechanism class of the catalog. Coverage of a branch is the number of distinct families among
  its VALID ideas over the number of ideas that it was allowed (reference 1.3), so that an idea that fails covers
  nothing;
- cards may steer the first ideas of the branch with memory, at most the capped share; after that it explores, whatever
  they say. Dependence is the share of ideas that did follow from a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from policies.loading import Policy, packaged_policy
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, plan
from records.fields import Metric, Name


class Branch(StrEnum):
    """The two branches of a search, by the names of their arms."""

    WITH_MEMORY = "with_memory"
    FRESH_START = "fresh_start"


class IdeationPolicy(Policy):
    """One version of the policy.

    Attributes:
        proposals: ideas of each branch.
        dependence_cap: most of them that may follow from memory, in thousandths.
        level: of the intervals over searches, as a share.
    """

    proposals: Annotated[int, Field(ge=2, le=100)]
    dependence_cap: Annotated[int, Field(ge=0, le=1000)]
    level: Metric

    @property
    def steerable(self) -> int:
        """How many ideas of a branch cards may steer."""
        return self.proposals * self.dependence_cap // 1000


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


def coverage(ideas: Iterable[Idea], proposals: int) -> float:
    """Return the distinct families of valid ideas over the number of ideas that were allowed."""
    return len({idea.family for idea in ideas if idea.valid and idea.family is not None}) / proposals


def dependence(ideas: Iterable[Idea], proposals: int) -> float:
    """Return the share of the allowed ideas that followed from a card."""
    return sum(idea.steered for idea in ideas) / proposals


def propose(question: PlannerQuestion, planner: PlannerPolicy, policy: IdeationPolicy) -> PlannerAnswer:
    """Return the planner's next idea: steered while the cap allows it, and explored from then on."""
    free = question.decision_index >= policy.steerable
    place = max(question.decision_index, planner.steered_decisions) if free else 0
    return plan(replace(question, decision_index=place), planner)
