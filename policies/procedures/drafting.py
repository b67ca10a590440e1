"""From comparable trajectories to the typed procedure that they describe: checks, failures, cost, citations.

Pure. Rules kept here (docs/adr/0032):

- nothing is worded freely and no figure is made up: every step is a change that was run, every bound was observed or is
  the contract's margin;
- every check says what must hold. A precondition that does not hold keeps the procedure from starting, a manipulation
  check from going on; an early-stop check that does not hold stops it and undoes the step; a rollback check that does
  not hold at the end puts the start back; the success check says whether it helped;
- checks in the middle look at the steering metric where it was verified, so that they choose by no row that judges;
- a step may lose as much as it did where the whole was a success in the end, and the margin in any case;
- a failure is a step after which the metric fell by more than the margin, in a whole trajectory or in one that got no
  further; a counterexample was followed to its end and did not help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from policies.effects import figure
from policies.procedures.policy import ProcedurePolicy, ToolRule
from policies.procedures.trajectories import Route, Trajectory
from policies.statistics import mean
from records.canonical import canonical_bytes, domain_digest, metric_text, parse_canonical
from records.evidence import EvaluationContract
from records.ids import ExperienceId
from records.procedures import (
    Action,
    Check,
    Comparison,
    CostBound,
    CostEnvelope,
    Counterexample,
    FailureMode,
    Parameter,
    Procedure,
    Step,
    ToolRequirement,
    Trigger,
    TypedValue,
    ValueType,
)
from records.values import ArtifactRef, DecisionPoint, Direction, Knob

EXPERIMENTS: Final = "experiments"
"""The resource of which each run of a step is charged one, the run of the start included."""

OVER_START: Final = "gain_over_start."
OVER_LAST: Final = "gain_over_last."
"""What a metric gained over the start, or over the run before; the metric's name follows."""

_TYPES: Final = {str: ValueType.TEXT, bool: ValueType.BOOLEAN, int: ValueType.INTEGER, float: ValueType.NUMBER}
_WRITTEN: Final = 120


@dataclass(frozen=True)
class Group:
    """Whole trajectories of one route, and those that only began it."""

    whole: tuple[Trajectory, ...]
    begun: tuple[Trajectory, ...]

    @property
    def route(self) -> Route:
        """The route of all of the whole ones."""
        return self.whole[0].route

    @property
    def contract(self) -> EvaluationContract:
        """A contract that all of them are comparable under."""
        return self.whole[0].contract

    @property
    def margin(self) -> float:
        """The smallest effect that matters, in the unit of the primary metric."""
        return float(self.contract.equivalence_margin)

    @cached_property
    def every(self) -> tuple[Trajectory, ...]:
        """All of them."""
        return self.whole + self.begun

    @cached_property
    def helped(self) -> tuple[Trajectory, ...]:
        """The whole ones whose end beats their start beyond the margin."""
        return tuple(each for each in self.whole if each.total() > self.margin)

    def steering(self, tool: ToolRule) -> str:
        """Return the metric that checks in the middle look at: the tool's score, where the primary is a score too."""
        primary = self.contract.primary_metric
        verified = all(each.values(tool.steering) is not None for each in self.whole)
        return tool.steering if verified and primary.direction is Direction.MAXIMIZE else primary.name


def situation_of(config_digest: str) -> str:
    """Return the situation in which a configuration is in effect, as triggers and requests name it."""
    return f"configuration:{config_digest}"


def step_names(route: Route) -> tuple[str, ...]:
    """Return the names of the steps of a route, in order."""
    return tuple(f"step-{place}:{knob.name[:_WRITTEN]}" for place, knob in enumerate(route.changes, 1))


def trigger_of(group: Group, point: DecisionPoint) -> Trigger:
    """Return when the procedure is of use: at the configuration that all started from, towards a better metric."""
    metric = group.contract.primary_metric
    towards = "raise" if metric.direction is Direction.MAXIMIZE else "lower"
    return Trigger(
        decision_point=point,
        situation=situation_of(group.route.configs[0]),
        goal=f"{towards}:{metric.name[:_WRITTEN]}",
        metric=metric,
    )


def mechanism_of(route: Route) -> str:
    """Return the ordered changes as one name, which ends in their digest; another order is another mechanism."""
    changes = [[knob.name, knob.from_value, knob.to_value] for knob in route.changes]
    written = "+".join(f"{knob.name}:{''.join(filter(str.isalnum, knob.to_value))}" for knob in route.changes)
    return f"{written.encode('ascii', 'ignore').decode()[:_WRITTEN]}/{domain_digest('procedure-steps', changes)[:16]}"


def draft(group: Group, point: DecisionPoint, tool: ToolRule, policy: ProcedurePolicy) -> Procedure:
    """Return the procedure of a group of comparable trajectories."""
    return Procedure(
        trigger=trigger_of(group, point),
        catalog_digest=group.route.catalog_digest,
        preconditions=_preconditions(group.route),
        steps=_steps(group.route, tool),
        tools=_tools(group, tool),
        success_checks=_success(group),
        manipulation_checks=_manipulation(group.route),
        early_stop_checks=_early_stop(group, tool),
        rollback_checks=_rollback(group, tool),
        failure_modes=_failures(group),
        counterexamples=_counterexamples(group),
        cost=_cost(group, policy),
        artifacts=_artifacts(group.every),
    )


def typed(value: object) -> TypedValue:
    """Return a scalar as a typed value.

    Raises:
        InvalidRecordError: it has no canonical form.
        KeyError: it is no scalar.
    """
    return TypedValue(type=_TYPES[type(value)], value=canonical_bytes(value).decode())


def is_typed(knob: Knob) -> bool:
    """Tell whether both values of a change are scalars, so that a step can name them."""
    return all(type(parse_canonical(value)) in _TYPES for value in (knob.from_value, knob.to_value))


def _preconditions(route: Route) -> tuple[Check, ...]:
    facts = {
        "budget_class": route.budget_class,
        "catalog_digest": route.catalog_digest,
        "config_digest": route.configs[0],
        "contract_digest": route.contract_digest,
        "model_family": route.model_family,
        "task_scope_id": str(route.task_scope_id),
    }
    return tuple(_equals(f"same-{name}", name, value) for name, value in facts.items())


def _steps(route: Route, tool: ToolRule) -> tuple[Step, ...]:
    return tuple(
        Step(
            name=name,
            purpose=f"Change {knob.name} from {knob.from_value} to {knob.to_value}.",
            action=Action(
                tool=tool.tool,
                version=route.source_digest,
                operation=tool.operation,
                parameters=(
                    Parameter(name="from", value=typed(parse_canonical(knob.from_value))),
                    Parameter(name="knob", value=typed(knob.name)),
                    Parameter(name="to", value=typed(parse_canonical(knob.to_value))),
                ),
            ),
        )
        for name, knob in zip(step_names(route), route.changes, strict=True)
    )


def _tools(group: Group, tool: ToolRule) -> tuple[ToolRequirement, ...]:
    environments = tuple(sorted({each.start.observation.environment_digest for each in group.whole}))
    needed = {tool.tool: (group.route.source_digest,), tool.runtime: environments}
    return tuple(ToolRequirement(tool=name, versions=versions) for name, versions in sorted(needed.items()))


def _success(group: Group) -> tuple[Check, ...]:
    last = step_names(group.route)[-1]
    observable = OVER_START + group.contract.primary_metric.name
    return (_bound("better-than-the-start", observable, Comparison.ABOVE, group.margin, last),)


def _manipulation(route: Route) -> tuple[Check, ...]:
    changed = zip(step_names(route), route.configs[1:], strict=True)
    return tuple(_equals(f"changed-by-{name}", "config_digest", config, name) for name, config in changed)


def _early_stop(group: Group, tool: ToolRule) -> tuple[Check, ...]:
    steering = group.steering(tool)
    direction = group.contract.primary_metric.direction
    gains = [each.gains(steering, direction) for each in group.helped]
    checks = []
    for place, name in enumerate(step_names(group.route)):
        floor = figure(min([-group.margin, *(each[place] for each in gains)]))
        checks.append(_bound(f"no-harm-by-{name}", OVER_LAST + steering, Comparison.AT_LEAST, floor, name))
    return tuple(checks)


def _rollback(group: Group, tool: ToolRule) -> tuple[Check, ...]:
    return (_bound("not-below-the-start", OVER_START + group.steering(tool), Comparison.AT_LEAST, 0.0),)


def _failures(group: Group) -> tuple[FailureMode, ...]:
    metric = group.contract.primary_metric
    modes = []
    for place, name in enumerate(step_names(group.route)):
        losses: dict[ExperienceId, tuple[float, str]] = {}
        for each in group.every:
            gains = each.gains(metric.name, metric.direction)
            if place < len(gains) and gains[place] < -group.margin:
                attempt = each.runs[place + 1]
                losses[ExperienceId(attempt.experience.id)] = (-gains[place], each.start.attempt.dataset_root)
        if losses:
            roots = ", ".join(sorted({root for _, root in losses.values()}))
            worst = max(loss for loss, _ in losses.values())
            detail = f"{metric.name} got worse by up to {figure(worst):.4g} {metric.unit} on {roots}."
            modes.append(FailureMode(code=f"harm-by-{name}", detail=detail, experience_ids=tuple(sorted(losses))))
    return tuple(modes)


def _counterexamples(group: Group) -> tuple[Counterexample, ...]:
    metric = group.contract.primary_metric
    found = [each for each in group.whole if each not in group.helped]
    return tuple(
        Counterexample(
            experience_id=each.closing_id,
            detail=f"{metric.name} gained {figure(each.total()):.4g} {metric.unit} from start to end on "
            f"{each.start.attempt.dataset_root}, which is not beyond the margin of {group.margin:g}.",
        )
        for each in sorted(found, key=lambda item: item.closing_id)
    )


def _cost(group: Group, policy: ProcedurePolicy) -> CostEnvelope:
    seconds, runs = [each.seconds for each in group.whole], len(group.route.configs)
    limit = figure(max(seconds) * policy.cost_headroom)
    return CostEnvelope(
        budget_class=group.route.budget_class,
        bounds=(
            CostBound(resource=EXPERIMENTS, unit="runs", expected=str(runs), limit=str(runs)),
            CostBound(
                resource="wall_time",
                unit="seconds",
                expected=metric_text(min(figure(mean(seconds)), limit)),
                limit=metric_text(limit),
            ),
        ),
    )


def _artifacts(trajectories: Iterable[Trajectory]) -> tuple[ArtifactRef, ...]:
    """Return what the verifications of first and last runs rest on."""
    cited: dict[tuple[str, str], ArtifactRef] = {}
    for run in (run for each in trajectories for run in (each.start, each.end)):
        rests = set(run.verification.evidence_digests)
        cited |= {(ref.role, ref.sha256): ref for ref in run.observation.artifacts if ref.sha256 in rests}
    return tuple(ref for _, ref in sorted(cited.items()))


def _equals(name: str, observable: str, value: str, after: str | None = None) -> Check:
    expected = typed(value)
    return Check(name=name, observable=observable, comparison=Comparison.EQUALS, expected=expected, after_step=after)


def _bound(name: str, observable: str, comparison: Comparison, value: float, after: str | None = None) -> Check:
    whole = float(value).is_integer()
    expected = TypedValue(type=ValueType.NUMBER, value=metric_text(int(value) if whole else value))
    return Check(name=name, observable=observable, comparison=comparison, expected=expected, after_step=after)


def begun_by(trajectories: Sequence[Trajectory], route: Route) -> tuple[Trajectory, ...]:
    """Return the trajectories that took the first steps of a route and then did something else, or nothing."""
    return tuple(each for each in trajectories if each.route.begins(route))
