"""One execution of a procedure: what must hold before it, and what became of it, from what was observed. Pure.

Rules kept here (spec 8.4; docs/adr/0032):

- a procedure grants nothing. Each step is mapped to an action that the governing catalog allows by itself; the tool
  must be one that runs here, at the exact version of the step. Whatever does not fit blocks before anything runs;
- the account follows from the procedure and the observations alone, so that it is the same whenever it is made: a check
  whose observable was not observed does not hold;
- a step whose manipulation or early-stop check does not hold ends the execution and is undone; then, or at the end, a
  rollback check that does not hold puts the start back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from policies.catalog import Change, Config, InterventionCatalog, value_text
from policies.effects import PairedDelta, figure
from policies.procedures.drafting import OVER_LAST, OVER_START
from records.canonical import parse_canonical
from records.procedures import Action, Check, Comparison, Procedure, Step, TypedValue
from records.values import Direction, MetricSpec

_CONFIG: Final = "config_digest"


class BlockCode(StrEnum):
    """Why an execution does not begin; a closed set."""

    NOT_ACTIVE = "not_active"
    UNKNOWN_TOOL = "unknown_tool"
    TOOL_VERSION = "tool_version_changed"
    UNKNOWN_OPERATION = "unknown_operation"
    CATALOG = "another_catalog"
    NOT_ALLOWED = "action_not_allowed"
    PRECONDITION = "precondition_unmet"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One thing that stands against an execution: what it is about, what was met, what is needed."""

    code: BlockCode
    about: str
    met: str
    needed: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.code.value}: {self.about} is {self.met}, needed is {self.needed}"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where an execution would take place.

    Attributes:
        active: whether the record is the active head of its scope variant.
        tools: the allowlisted tools that run here, with their versions.
        operations: what each of them may be asked for.
        observed: what preconditions may look at, by the name of the observable.
    """

    active: bool
    tools: Mapping[str, str]
    operations: Mapping[str, frozenset[str]]
    catalog: InterventionCatalog
    config: Config
    observed: Mapping[str, str]


def preflight(procedure: Procedure, ground: Ground) -> tuple[Block, ...]:
    """Return everything that stands against an execution here; nothing, and it may begin."""
    return (*_standing(procedure, ground), *_tools(procedure, ground), *_actions(procedure, ground))


def changes_of(procedure: Procedure, catalog: InterventionCatalog, config: Config) -> tuple[Change, ...]:
    """Return the steps as changes of the catalog, each from where the one before it leaves.

    Raises:
        LookupError: a step is none that the catalog allows from there; `preflight` says which.
    """
    changes = []
    for step in procedure.steps:
        change = _change(step.action, catalog, config)
        if change is None:
            raise LookupError(step.name)
        changes.append(change)
        config = config | {change.knob: change.to_value}
    return tuple(changes)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run of an execution: its Experience, its configuration and its verified metrics; none if it is invalid."""

    experience_id: str
    config_digest: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A check with what was observed; None where nothing was."""

    check: Check
    observed: Any
    holds: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        check = self.check.as_json() | {"expected": parse_canonical(self.check.expected.value)}
        return {"check": check, "observed": self.observed, "holds": self.holds}


class Status(StrEnum):
    """How an execution stands."""

    GOING = "going"
    SUCCEEDED = "succeeded"
    NO_SUCCESS = "no_success"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What became of an execution so far.

    Attributes:
        runs: the start, then one run for each step that was done.
        findings: every check that was reached, in order.
        stopped_by: the check that ended it before its time.
        kept: the place among `runs` of the configuration in effect.
        rolled_back: whether the start was put back by a rollback check.
    """

    status: Status
    runs: tuple[Seen, ...]
    findings: tuple[Finding, ...]
    stopped_by: str | None
    kept: int
    rolled_back: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "status": self.status.value,
            "steps_done": max(len(self.runs) - 1, 0),
            "stopped_by": self.stopped_by,
            "rolled_back": self.rolled_back,
            "kept": self.kept,
            "runs": [{**vars(run), "metrics": dict(sorted(run.metrics.items()))} for run in self.runs],
            "checks": [finding.as_json() for finding in self.findings],
        }


def account_of(procedure: Procedure, runs: Sequence[Seen]) -> Account:
    """Return the account of an execution from its runs, the start first; runs after a stop are left out."""
    findings: list[Finding] = []
    kept, stopped_by = 0, None
    for place, step in enumerate(procedure.steps[: max(len(runs) - 1, 0)], 1):
        checks = (*_after(procedure.manipulation_checks, step), *_after(procedure.early_stop_checks, step))
        met = [_judge(check, procedure, runs, (kept, place)) for check in checks]
        findings += met
        stopped_by = next((each.check.name for each in met if not each.holds), None)
        if stopped_by is not None:
            runs = runs[: place + 1]
            break
        kept = place
    done = len(runs) > len(procedure.steps)
    if not (done or stopped_by):
        return _made(Status.GOING, runs, findings, (None, kept, False))
    return _ended(procedure, runs, findings, (stopped_by, kept))


def _ended(
    procedure: Procedure, runs: Sequence[Seen], findings: list[Finding], where: tuple[str | None, int]
) -> Account:
    stopped_by, kept = where
    back = [_judge(check, procedure, runs, (kept, kept)) for check in procedure.rollback_checks]
    rolled_back = kept > 0 and not all(each.holds for each in back)
    findings += back
    success: list[Finding] = []
    if stopped_by is None:
        success = [_judge(check, procedure, runs, (kept, kept)) for check in procedure.success_checks]
        findings += success
    helped = bool(success) and all(each.holds for each in success) and not rolled_back
    status = Status.STOPPED if stopped_by else Status.SUCCEEDED if helped else Status.NO_SUCCESS
    return _made(status, runs, findings, (stopped_by, 0 if rolled_back else kept, rolled_back))


def _made(
    status: Status, runs: Sequence[Seen], findings: Sequence[Finding], where: tuple[str | None, int, bool]
) -> Account:
    return Account(
        status=status,
        runs=tuple(runs),
        findings=tuple(findings),
        stopped_by=where[0],
        kept=where[1],
        rolled_back=where[2],
    )


def holds(check: Check, observed: object) -> bool:
    """Tell whether a check holds for what was observed; values of another type than expected never fit."""
    expected = parse_canonical(check.expected.value)
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (expected, observed))
    if check.comparison is Comparison.EQUALS:
        return observed == expected and (numbers or type(observed) is type(expected))
    if not numbers:
        return False
    low, high = float(str(observed)), float(str(expected))
    return {
        Comparison.BELOW: low < high,
        Comparison.AT_MOST: low <= high,
        Comparison.AT_LEAST: low >= high,
        Comparison.ABOVE: low > high,
    }[check.comparison]


def _after(checks: Sequence[Check], step: Step) -> Iterator[Check]:
    return (check for check in checks if check.after_step == step.name)


def _judge(check: Check, procedure: Procedure, runs: Sequence[Seen], places: tuple[int, int]) -> Finding:
    observed = _observed(check.observable, procedure.trigger.metric, runs, places)
    return Finding(check=check, observed=observed, holds=observed is not None and holds(check, observed))


def _observed(observable: str, metric: MetricSpec, runs: Sequence[Seen], places: tuple[int, int]) -> Any:
    """Return what is observed of a run; `places` are those of the run in effect before it and of the run itself."""
    last, place = places
    if observable == _CONFIG:
        return runs[place].config_digest
    for prefix, start in ((OVER_START, 0), (OVER_LAST, last)):
        name = observable.removeprefix(prefix)
        if name != observable:
            return _gain(runs[start], runs[place], name, metric.direction)
    return None


def _gain(before: Seen, after: Seen, name: str, direction: Direction) -> float | None:
    if name not in before.metrics or name not in after.metrics:
        return None
    pair = PairedDelta("", "", "", before.metrics[name], after.metrics[name])
    return figure(pair.delta if direction is Direction.MAXIMIZE else -pair.delta)


def _standing(procedure: Procedure, ground: Ground) -> Iterator[Block]:
    if not ground.active:
        yield Block(code=BlockCode.NOT_ACTIVE, about="the record", met="no active head", needed="the active head")
    if procedure.catalog_digest != ground.catalog.digest:
        needed = procedure.catalog_digest
        yield Block(code=BlockCode.CATALOG, about="the catalog", met=ground.catalog.digest, needed=needed)
    for check in procedure.preconditions:
        observed = ground.observed.get(check.observable)
        if observed is None or not holds(check, observed):
            needed = f"{check.comparison.value} {check.expected.value}"
            yield Block(
                code=BlockCode.PRECONDITION, about=check.observable, met=str(observed or "not known"), needed=needed
            )


def _tools(procedure: Procedure, ground: Ground) -> Iterator[Block]:
    for need in procedure.tools:
        running = ground.tools.get(need.tool)
        if running is None:
            yield Block(code=BlockCode.UNKNOWN_TOOL, about=need.tool, met="not allowlisted here", needed="allowlisted")
        elif running not in need.versions:
            needed = " or ".join(need.versions)
            yield Block(code=BlockCode.TOOL_VERSION, about=need.tool, met=running, needed=needed)


def _actions(procedure: Procedure, ground: Ground) -> Iterator[Block]:
    config = ground.config
    for step in procedure.steps:
        action = step.action
        if ground.tools.get(action.tool, action.version) != action.version:
            met = ground.tools[action.tool]
            yield Block(code=BlockCode.TOOL_VERSION, about=step.name, met=met, needed=action.version)
        if action.operation not in ground.operations.get(action.tool, frozenset()):
            met = f"{action.operation} of {action.tool}"
            yield Block(code=BlockCode.UNKNOWN_OPERATION, about=step.name, met=met, needed="an allowlisted operation")
        change = _change(action, ground.catalog, config)
        if change is None:
            met = ", ".join(f"{each.name} {each.value.value}" for each in action.parameters)
            needed = f"a change that {ground.catalog.name} allows from there"
            yield Block(code=BlockCode.NOT_ALLOWED, about=step.name, met=met, needed=needed)
            return
        config = config | {change.knob: change.to_value}


def _change(action: Action, catalog: InterventionCatalog, config: Config) -> Change | None:
    """Return an action as a change that the catalog allows from a configuration, or None."""
    given: dict[str, TypedValue] = {each.name: each.value for each in action.parameters}
    if given.keys() != {"from", "knob", "to"}:
        return None
    name = parse_canonical(given["knob"].value)
    knob = catalog.knobs.get(name) if isinstance(name, str) else None
    if knob is None or value_text(config[name]) != given["from"].value:
        return None
    found = (value for value in knob.allowed if value_text(value) == given["to"].value)
    return next((Change(name, config[name], value, knob.mechanism) for value in found if value != config[name]), None)
