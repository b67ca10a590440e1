"""What a published table says about itself: where it comes from, what its columns mean, what they may hold.

Two layouts, one meaning. `published-table/1` is a full grid: one row per task, seed and setting, one metric. In
`published-table/2` every column has a declared role, so that tables which others laid out are read as they are. The
first is read as the second that says the same (`Manifest.as_runs`); its own digest stays what it was.

What decides about a row is here or in the row, never in the importer's code: which arm is the baseline under which
name, which machine it ran on, how many runs it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from records.evidence import Seed, VerificationKind
from records.fields import Digest, Metric, Name, Text, Timestamp
from records.models import Model
from records.values import Count, MetricSpec

_FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+\.(csv|csv\.gz|arff|yaml)$")]
_Number = Annotated[int | float, Field(allow_inf_nan=False)]
_Numbers = Annotated[tuple[_Number, ...], Field(min_length=1)]
_Rows = Annotated[int, Field(ge=1, le=2**53 - 1)]


class DeclaredFile(Model):
    """One file of the table: its name inside the folder, its digest, its size in bytes."""

    name: _FileName
    sha256: Digest
    size_bytes: Count


class PublishedTask(Model):
    """One task of the table.

    Attributes:
        root: the data collection that the rows come from, the independent unit of support.
        attributes: public attributes that make the task's scope.
        description: further public facts, in words; they decide nothing.
    """

    name: Name
    root: Name
    attributes: dict[Name, Name]
    description: dict[Name, Text]


class Role(StrEnum):
    """What a column of a table is for; each but KNOB, METRIC, BUDGET and NOTE comes at most once.

    TASK: the name of a task. SEED: a logged seed, which pairs runs. RUN: the name of one repetition without a seed.
    KNOB: the value of the knob, or of the fixed setting, that the column is named after. RECORD and ARM: a knob by the
    name of the record that published it, and its setting by the name of the arm. METRIC: a metric. BUDGET: part of the
    budget class, so that rows which differ here are not compared. SOURCE and LOG: SHA-256 of the program and of the
    log of a run. NOTE: kept with the row's bytes, decides nothing.
    """

    TASK = "task"
    SEED = "seed"
    RUN = "run"
    KNOB = "knob"
    RECORD = "record"
    ARM = "arm"
    METRIC = "metric"
    BUDGET = "budget"
    SOURCE = "source"
    LOG = "log"
    NOTE = "note"


_MANY: Final = {Role.KNOB, Role.METRIC, Role.BUDGET, Role.NOTE}


class Column(Model):
    """One column, by its name in the file."""

    name: Name
    role: Role


class PublishedMetric(Model):
    """A metric, and the smallest and the largest value it can have, in its unit."""

    spec: MetricSpec
    low: Metric
    high: Metric

    @model_validator(mode="after")
    def _is_a_range(self) -> PublishedMetric:
        if float(self.low) >= float(self.high):
            raise ValueError("low is below high")
        return self


class Machine(Model):
    """What some runs ran on.

    Attributes:
        hardware: the class of hardware; it is part of the budget class, so that a rule says what it holds for.
        description: what the runs' logs say of it; together they are the environment of a run.
    """

    hardware: Name
    description: dict[Name, Text]


class Arm(Model):
    """Repeated runs of one setting, as one record published them.

    Attributes:
        record: what the file calls the record; arm: what it calls the arm.
        knob: the knob of the catalog that the record changes.
        setting: its value here. An arm that is the baseline at another length or on another machine has the
            baseline's setting.
        machine: one of the manifest's machines.
        runs: how many rows the arm has.
    """

    record: Name
    arm: Name
    knob: Name
    setting: Name
    machine: Name
    runs: _Rows


class Comparison(StrEnum):
    """What a row is compared with.

    DEFAULTS: the catalog's defaults, from which a row differs in one knob at most. TUNED: the task's own setting of one
    value of one knob, where every value was tuned apart. NEIGHBOURS: nothing was published as a baseline; a row is
    compared with the first baseline of its task that differs in one knob, and is a baseline if there is none.
    """

    DEFAULTS = "defaults"
    TUNED = "tuned"
    NEIGHBOURS = "neighbours"


class RunManifest(Model):
    """What was published, layout 2.

    Attributes:
        published_at: when the source published the files; the only time that imported records carry.
        verification: `published_record` where each row is a run's own result; `attested` where a report is all that
            is left of the runs, so that nothing active may rest on it.
        rows: number of trials in the table.
        columns: every column of the file, in order.
        seeds: the seeds that every setting of every task must have, where seeds were logged.
        metrics: the first is the primary metric, the others are guardrails.
        equivalence_margin: smallest difference of the primary metric that matters, in its unit.
        search_space: published values of number knobs, of which the catalog registers some; a knob that is not named
            here has the catalog's values.
        comparison: what a row is compared with; tuned_knob: the knob whose values were tuned apart.
        arms: every arm of the table, if it has records and arms.
    """

    layout: Literal["published-table/2"]
    table_id: Name
    version: Name
    title: Text
    published_at: Timestamp
    source: dict[Name, Text]
    verification: Literal[VerificationKind.PUBLISHED_RECORD, VerificationKind.ATTESTED]
    table: DeclaredFile
    catalog: DeclaredFile
    rows: _Rows
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    seeds: tuple[Seed, ...]
    domain: Name
    model_family: Name
    budget_class: Name
    metrics: Annotated[tuple[PublishedMetric, ...], Field(min_length=1)]
    equivalence_margin: Metric
    search_space: dict[Name, _Numbers]
    comparison: Comparison
    tuned_knob: Name | None
    tasks: Annotated[tuple[PublishedTask, ...], Field(min_length=1)]
    machines: dict[Name, Machine]
    arms: tuple[Arm, ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> RunManifest:
        _distinct("tasks", [task.name for task in self.tasks])
        _distinct("seeds", self.seeds)
        _distinct("columns", [column.name for column in self.columns])
        _distinct("arms", [(arm.record, arm.arm) for arm in self.arms])
        roles = Counter(column.role for column in self.columns)
        for wrong, rule in self._broken(roles):
            if wrong:
                raise ValueError(rule)
        return self

    def _broken(self, roles: Counter[Role]) -> Iterable[tuple[bool, str]]:
        metrics = [metric.spec.name for metric in self.metrics]
        known = {arm.machine for arm in self.arms} <= self.machines.keys()
        return (
            (any(count > 1 and role not in _MANY for role, count in roles.items()), "a role was given to two columns"),
            (sorted(self.named(Role.METRIC)) != sorted(metrics), "every metric has its column, and no other has one"),
            (not roles[Role.TASK] and len(self.tasks) > 1, "a table of several tasks has a column of role task"),
            (bool(self.seeds) != bool(roles[Role.SEED]), "seeds are declared if there is a column of role seed"),
            (roles[Role.SEED] + roles[Role.RUN] > 1, "a repetition has a seed or a run's name, not both"),
            (len({bool(self.arms), bool(roles[Role.RECORD]), bool(roles[Role.ARM])}) > 1,
             "arms are declared if there are columns of role record and arm"),
            (bool(self.arms) == bool(roles[Role.KNOB]), "knobs come from columns of role knob, or from arms"),
            (bool(self.arms) and self.comparison is not Comparison.DEFAULTS, "arms are compared with the defaults"),
            (not known, "every arm's machine is described under machines"),
            ((self.comparison is Comparison.TUNED) != (self.tuned_knob is not None),
             "tuned_knob is given if comparison is tuned"),
            (not self.search_space.keys() <= set(self.named(Role.KNOB)), "search_space names columns of role knob"),
            (float(self.equivalence_margin) < 0, "the margin is not negative"),
        )  # fmt: skip

    def named(self, role: Role) -> tuple[str, ...]:
        """Return the columns of a role, in order."""
        return tuple(column.name for column in self.columns if column.role is role)

    def one(self, role: Role) -> str | None:
        """Return the column of a role that comes once at most."""
        return next(iter(self.named(role)), None)


class Manifest(Model):
    """What was published, layout 1: source, time, files, columns and what they may hold.

    Attributes:
        published_at: when the source published the files; the only time that imported records carry.
        rows: number of trials in the table.
        seeds: the seeds that every configuration of every task must have.
        metric_low: smallest possible metric value; metric_high: the largest, both in the metric's unit.
        equivalence_margin: smallest difference that matters, in the metric's unit.
        search_space: every published value of every knob, of which the catalog registers some.
    """

    layout: Literal["published-table/1"]
    table_id: Name
    version: Name
    title: Text
    published_at: Timestamp
    source: dict[Name, Text]
    table: DeclaredFile
    catalog: DeclaredFile
    rows: _Rows
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    domain: Name
    model_family: Name
    budget_class: Name
    metric: MetricSpec
    metric_low: Metric
    metric_high: Metric
    equivalence_margin: Metric
    search_space: dict[Name, _Numbers]
    tasks: Annotated[tuple[PublishedTask, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Manifest:
        _distinct("tasks", [task.name for task in self.tasks])
        _distinct("seeds", self.seeds)
        if float(self.metric_low) >= float(self.metric_high) or float(self.equivalence_margin) < 0:
            raise ValueError("metric_low is below metric_high, and the margin is not negative")
        _distinct("columns", ["task", "seed", self.metric.name, *self.search_space])
        return self

    def as_runs(self) -> RunManifest:
        """Return the manifest of layout 2 that says the same."""
        shared = (
            "table_id", "version", "title", "published_at", "source", "table", "catalog", "rows", "seeds", "domain",
            "model_family", "budget_class", "equivalence_margin", "search_space", "tasks",
        )  # fmt: skip
        knobs = (Column(name=knob, role=Role.KNOB) for knob in sorted(self.search_space))
        first = (Column(name="task", role=Role.TASK), Column(name="seed", role=Role.SEED))
        return RunManifest(
            **{name: getattr(self, name) for name in shared},
            layout="published-table/2",
            verification=VerificationKind.PUBLISHED_RECORD,
            columns=(*first, *knobs, Column(name=self.metric.name, role=Role.METRIC)),
            metrics=(PublishedMetric(spec=self.metric, low=self.metric_low, high=self.metric_high),),
            comparison=Comparison.DEFAULTS,
            tuned_knob=None,
            machines={},
            arms=(),
        )


def _distinct(what: str, names: Iterable[Hashable]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise ValueError(f"{what} are given once each")
