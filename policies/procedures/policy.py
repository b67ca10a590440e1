"""The Procedure Policy: how much support a procedure needs, where it may be offered, and which tools may run it.

Rules kept here (spec 8.4; docs/adr/0032):

- a procedure needs two independent units or more, whatever a file says; one trajectory alone never compiles;
- it is offered for the design of experiments and for diagnosis; ideation and writing are refused;
- a step is an operation of an allowlisted tool, at the exact version that its evidence was made with.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.loading import Policy, PolicyPart, packaged_policy
from records.fields import Name
from records.values import DecisionPoint

_OFFERED: Final = frozenset({DecisionPoint.EXPERIMENT_DESIGN, DecisionPoint.DIAGNOSIS})


class ProcedureReason(StrEnum):
    """Why something compiles to no procedure, or to none that may be used; a closed set."""

    NO_TRAJECTORY = "no_trajectory"
    NOT_A_CHAIN = "not_a_chain"
    PROSE_ONLY = "prose_only"
    NOT_COMPARABLE = "not_comparable"
    UNKNOWN_TOOL = "unknown_tool"
    IDEATION = "ideation_refused"
    TOO_FEW_UNITS = "too_few_independent_units"
    NO_GAIN = "end_not_beyond_the_margin"


class TriggerRule(PolicyPart):
    """Where the changes of a trajectory were decided, and where the procedure made of it is offered."""

    evidence: DecisionPoint
    procedure: DecisionPoint


class ToolRule(PolicyPart):
    """Who may carry out the steps of one domain.

    Attributes:
        domain: the experiment domain.
        tool: the adapter that runs an experiment; its version is the digest of its source.
        runtime: what it runs in; its version is the digest of the environment.
        operation: the one operation that a step may ask for.
        steering: the metric that checks in the middle look at, where it was verified; else the primary metric.
    """

    domain: Name
    tool: Name
    runtime: Name
    operation: Name
    steering: Name


class ProcedurePolicy(Policy):
    """One version of the policy.

    Attributes:
        support_units: fewest independent units whose end beats their start beyond the margin.
        min_steps, max_steps: how many changes a procedure has.
        triggers: where procedures come from and where they are offered.
        tools: the allowlist, one entry per domain.
        cost_headroom: what one execution may use, as a multiple of the most that was seen.
    """

    support_units: Annotated[int, Field(ge=2)]
    min_steps: Annotated[int, Field(ge=2)]
    max_steps: Annotated[int, Field(ge=2)]
    triggers: tuple[TriggerRule, ...]
    tools: tuple[ToolRule, ...]
    cost_headroom: Annotated[float, Field(ge=1)]

    @field_validator("triggers")
    @classmethod
    def _offered_where_allowed(cls, triggers: tuple[TriggerRule, ...]) -> tuple[TriggerRule, ...]:
        if not {rule.procedure for rule in triggers} <= _OFFERED:
            raise ValueError("procedures are offered for experiment_design and diagnosis only")
        if len({rule.evidence for rule in triggers}) != len(triggers):
            raise ValueError("name each decision point once")
        return triggers

    @field_validator("tools")
    @classmethod
    def _one_tool_each(cls, tools: tuple[ToolRule, ...]) -> tuple[ToolRule, ...]:
        if len({rule.domain for rule in tools}) != len(tools) or any(rule.tool == rule.runtime for rule in tools):
            raise ValueError("name each domain once, and tool and runtime apart")
        return tools

    def trigger(self, evidence: DecisionPoint) -> DecisionPoint | None:
        """Return where a procedure of changes decided at this point is offered, or None."""
        return next((rule.procedure for rule in self.triggers if rule.evidence is evidence), None)

    def tool(self, domain: str) -> ToolRule | None:
        """Return who may carry out the steps of a domain, or None."""
        return next((rule for rule in self.tools if rule.domain == domain), None)


def procedure_policy(version: str = "1") -> ProcedurePolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ProcedurePolicy, "procedure", version)
