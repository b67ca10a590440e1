"""Procedures: reusable research workflows as candidates and records (spec 4.6, 8.4, 9.4).

Rules kept here:

- a procedure is evidence, never permission: each step names an allowlisted action at one exact version, and that
  version is among those that the procedure declares compatible, so an unknown or changed tool blocks execution;
- conditions are typed observations that need no judgement, values are canonical JSON text of a declared type;
- a record names how it succeeds and when to stop early, and cites every Experience that it speaks of;
- identity works as for rules: wording, scope and amount of evidence are outside the family.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from records.canonical import canonical_bytes, parse_canonical
from records.errors import InvalidRecordError
from records.fields import Digest, Metric, Name, Text
from records.ids import ExperienceId, FamilyId
from records.knowledge import Candidate, GovernedRecord, variant_under
from records.models import Model
from records.values import ArtifactRef, DecisionPoint, MetricSpec


class ValueType(StrEnum):
    """The type of a value in a procedure."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


_TYPES: Final[dict[ValueType, tuple[type, ...]]] = {
    ValueType.TEXT: (str,),
    ValueType.INTEGER: (int,),
    ValueType.NUMBER: (int, float),
    ValueType.BOOLEAN: (bool,),
}


class TypedValue(Model):
    """A value as canonical JSON text, of the type that it declares; a boolean is no number."""

    type: ValueType
    value: Text

    @model_validator(mode="after")
    def _is_of_its_type(self) -> TypedValue:
        try:
            read: Any = parse_canonical(self.value)
            text = canonical_bytes(read).decode()
        except InvalidRecordError as error:
            raise ValueError("the value is canonical JSON text") from error
        fits = isinstance(read, _TYPES[self.type]) and isinstance(read, bool) == (self.type is ValueType.BOOLEAN)
        if text != self.value or not fits:
            raise ValueError("the value is canonical JSON text of its type")
        return self


class Comparison(StrEnum):
    """How an observed value is compared with the value of a check."""

    BELOW = "below"
    AT_MOST = "at_most"
    EQUALS = "equals"
    AT_LEAST = "at_least"
    ABOVE = "above"


class Check(Model):
    """A condition on something that can be observed; `after_step` is null where it holds for the whole procedure."""

    name: Name
    observable: Name
    comparison: Comparison
    expected: TypedValue
    after_step: Name | None = None


class Trigger(Model):
    """When a procedure is of use: at which point, in which situation, towards which goal, told by which metric."""

    decision_point: DecisionPoint
    situation: Name
    goal: Name
    metric: MetricSpec


class Parameter(Model):
    """One parameter of an action."""

    name: Name
    value: TypedValue


class Action(Model):
    """An action of the governing allowlist: tool or adapter, exact version, operation, parameters."""

    tool: Name
    version: Name
    operation: Name
    parameters: tuple[Parameter, ...]


class Step(Model):
    """One step; the order of the steps is their order in the procedure."""

    name: Name
    purpose: Text
    action: Action


class ToolRequirement(Model):
    """A tool or adapter that the procedure needs, and the versions it was seen to work with, sorted."""

    tool: Name
    versions: Annotated[tuple[Name, ...], Field(min_length=1)]


class FailureMode(Model):
    """A known way to fail: its code, how it shows, and the Experiences in which it did."""

    code: Name
    detail: Text
    experience_ids: tuple[ExperienceId, ...]


class Counterexample(Model):
    """An Experience in which the procedure was followed and did not help."""

    experience_id: ExperienceId
    detail: Text


class CostBound(Model):
    """What one run of the procedure is expected to use of a resource, and what it may use at most."""

    resource: Name
    unit: Name
    expected: Metric
    limit: Metric

    @model_validator(mode="after")
    def _expected_within_limit(self) -> CostBound:
        if not 0 <= float(self.expected) <= float(self.limit):
            raise ValueError("a cost is not negative, and the expected one is within the limit")
        return self


class CostEnvelope(Model):
    """The expected cost of one run within a budget class."""

    budget_class: Name
    bounds: tuple[CostBound, ...]


class Procedure(Model):
    """A whole workflow; the same value in the candidate and in the record that comes of it.

    `catalog_digest` is that of the allowlist that governs its actions, as a rule's is that of its knobs.
    """

    trigger: Trigger
    catalog_digest: Digest
    preconditions: tuple[Check, ...]
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    tools: tuple[ToolRequirement, ...]
    success_checks: tuple[Check, ...]
    manipulation_checks: tuple[Check, ...]
    early_stop_checks: tuple[Check, ...]
    rollback_checks: tuple[Check, ...]
    failure_modes: tuple[FailureMode, ...]
    counterexamples: tuple[Counterexample, ...]
    cost: CostEnvelope
    artifacts: tuple[ArtifactRef, ...]

    @model_validator(mode="after")
    def _hangs_together(self) -> Procedure:
        for fits, rule in _rules(self):
            if not fits:
                raise ValueError(rule)
        return self

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, preconditions included."""
        after = self.success_checks + self.manipulation_checks + self.early_stop_checks + self.rollback_checks
        return self.preconditions + after

    @property
    def experience_ids(self) -> frozenset[ExperienceId]:
        """The Experiences that it speaks of."""
        failed = {each for mode in self.failure_modes for each in mode.experience_ids}
        return frozenset(failed | {item.experience_id for item in self.counterexamples})


def _rules(procedure: Procedure) -> Iterator[tuple[bool, str]]:
    steps = [step.name for step in procedure.steps]
    tools = {need.tool: need.versions for need in procedure.tools}
    resources = [bound.resource for bound in procedure.cost.bounds]
    yield len(set(steps)) == len(steps), "the names of steps differ"
    yield list(tools) == sorted(need.tool for need in procedure.tools), "tools are sorted, each named once"
    yield all(list(versions) == sorted(set(versions)) for versions in tools.values()), "versions are sorted"
    for step in procedure.steps:
        named = [parameter.name for parameter in step.action.parameters]
        yield named == sorted(set(named)), "parameters are sorted by name"
        compatible = step.action.version in tools.get(step.action.tool, ())
        yield compatible, "a step uses a tool at a version that is not declared compatible"
    places = {check.after_step for check in procedure.checks if check.after_step is not None}
    yield places.issubset(steps), "a check comes after a step that is not there"
    yield all(check.after_step is None for check in procedure.preconditions), "a precondition comes before every step"
    yield resources == sorted(set(resources)), "cost bounds are sorted by resource"


def procedure_family_id(namespace: str, trigger: Trigger, mechanism: str) -> FamilyId:
    """Return the Knowledge Family of a procedure (spec 4.4): its target is the goal in a situation, at one point."""
    return FamilyId.derive(
        {
            "namespace": namespace,
            "record_kind": "procedure",
            "decision_point": trigger.decision_point.value,
            "situation": trigger.situation,
            "goal": trigger.goal,
            "metric": trigger.metric.name,
            "mechanism": mechanism,
        }
    )


class ProcedureCandidate(Candidate):
    """A proposed procedure."""

    record_kind: Literal["procedure"] = "procedure"
    procedure: Procedure


class ProcedureRecord(GovernedRecord):
    """An immutable version of a verified procedure with all of its evidence (spec 9.4)."""

    record_kind: Literal["procedure"] = "procedure"
    procedure: Procedure

    @model_validator(mode="after")
    def _is_complete(self) -> ProcedureRecord:
        procedure = self.procedure
        family = procedure_family_id(self.namespace, procedure.trigger, self.mechanism)
        if self.family_id != family:
            raise ValueError("family_id does not follow from trigger and mechanism")
        if self.scope_variant_id != variant_under(self.namespace, family, self.scope, procedure.catalog_digest):
            raise ValueError("scope_variant_id does not follow from family and scope")
        if not (procedure.preconditions and procedure.success_checks and procedure.early_stop_checks):
            raise ValueError("a record has preconditions and says when it has succeeded and when to stop early")
        if not procedure.experience_ids.issubset({link.experience_id for link in self.links}):
            raise ValueError("every experience that the procedure speaks of is cited by a link")
        return self
