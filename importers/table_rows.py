"""From the cells of one line to one row: every cell checked by the role of its column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from importers.table_file import Line
from importers.table_manifest import Arm, PublishedMetric, Role, RunManifest
from policies.catalog import Config, InterventionCatalog, KnobValue
from records.canonical import DIGEST_PATTERN, digest_bytes, domain_digest
from records.errors import InvalidInputError, InvalidSourceError
from records.fields import NAME_PATTERN

_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_INTEGER: Final = re.compile(r"\d{1,16}", re.ASCII)
_TRUTH: Final = {"True": True, "False": False}
_SEED_BITS: Final = 53
"""As many as a seed may have; a digest has 256."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trial of a table.

    Attributes:
        line: line number in the file.
        data: the exact bytes of the line, without its end.
        seed: the logged seed, or one that follows from the name of the run, or from the row where it has no name:
            such a seed is nobody else's, so that it pairs the row with no other.
        config: the full configuration.
        metrics: every metric, in its unit.
        budget_class: with all that must be equal for two rows to have had the same budget.
        arm: the arm that the row belongs to, if the table has arms.
        source: digest of the program that ran; log: digest of the run's log, as far as they are given.
    """

    line: int
    data: bytes
    task: str
    seed: int
    config: Config
    metrics: Mapping[str, float]
    budget_class: str
    arm: Arm | None
    source: str | None
    log: str | None


_SETTING: Final = (Role.TASK, Role.RECORD, Role.ARM, Role.KNOB, Role.BUDGET)
"""The columns that say what a row is a run of."""


def run_seed(table_id: str, setting: str, run: str) -> int:
    """Return the seed of a repetition without a logged one: 53 bits of a digest of the run's name.

    The setting that it is a run of is part of it, since a table may count the runs of each setting from one: the first
    runs of two arms have nothing in common, and must not pair.
    """
    parts = {"table": table_id, "setting": setting, "run": run}
    return int(domain_digest("published-run", parts), 16) >> (256 - _SEED_BITS)


class RowReader:
    """Reads the rows of one table."""

    def __init__(self, manifest: RunManifest, catalog: InterventionCatalog) -> None:
        """Read by a manifest and a catalog."""
        self._manifest = manifest
        self._catalog = catalog
        self._names = tuple(column.name for column in manifest.columns)
        self._knobs = manifest.named(Role.KNOB)
        self._budgets = manifest.named(Role.BUDGET)
        self._tasks = {task.name for task in manifest.tasks}
        self._arms = {(arm.record, arm.arm): arm for arm in manifest.arms}

    def row(self, line: Line) -> Row:
        """Return the row of a line.

        Raises:
            InvalidSourceError: a cell breaks a rule; line, column and remedy are named.
        """
        where = f"{self._manifest.table.name} line {line.number}"
        if len(line.cells) != len(self._names):
            remedy = f"Give {len(self._names)}, one for each column."
            raise InvalidSourceError(where, f"{len(line.cells)} cells", remedy)
        named = dict(zip(self._names, line.cells, strict=True))
        task, arm = self._task(where, named), self._arm(where, named)
        return Row(
            line=line.number,
            data=line.data,
            task=task,
            config=self._config(where, named, arm),
            seed=self._seed(where, named, line.data),
            metrics={metric.spec.name: _metric(where, metric, named) for metric in self._manifest.metrics},
            budget_class=self._budget(where, named, arm),
            arm=arm,
            source=self._digest(where, named, Role.SOURCE),
            log=self._digest(where, named, Role.LOG),
        )

    def _task(self, where: str, named: Mapping[str, str]) -> str:
        column = self._manifest.one(Role.TASK)
        if column is None:
            return self._manifest.tasks[0].name
        if named[column] not in self._tasks:
            declared = ", ".join(task.name for task in self._manifest.tasks)
            raise InvalidSourceError(f"{where}: {column}", named[column], f"The manifest declares {declared}.")
        return named[column]

    def _arm(self, where: str, named: Mapping[str, str]) -> Arm | None:
        record, arm = self._manifest.one(Role.RECORD), self._manifest.one(Role.ARM)
        if record is None or arm is None:
            return None
        found = self._arms.get((named[record], named[arm]))
        if found is None:
            met = f"{named[record]}, {named[arm]}"
            raise InvalidSourceError(f"{where}: {arm}", met, "The manifest declares every arm of every record.")
        return found

    def _config(self, where: str, named: Mapping[str, str], arm: Arm | None) -> Config:
        values = {knob: self._value(where, knob, named[knob]) for knob in self._knobs}
        if arm is not None:
            values = {arm.knob: arm.setting}
        changes = {}
        for knob, value in values.items():
            if knob not in self._catalog.fixed:
                changes[knob] = value
            elif value != self._catalog.fixed[knob]:
                place, met = (where, named[knob]) if arm is None else (f"{where}: {arm.record}, {arm.arm}", value)
                raise InvalidSourceError(f"{place}: {knob}", met, f"It is {self._catalog.fixed[knob]} here.")
        try:
            return self._catalog.effective_config(changes)
        except InvalidInputError as error:
            raise InvalidSourceError(f"{where}: {error.field}", error.value, error.remedy) from error

    def _value(self, where: str, knob: str, text: str) -> KnobValue:
        known = self._catalog.knobs.get(knob)
        kind = type(self._catalog.fixed[knob]) if known is None else type(known.default)
        if kind is str:
            return text
        if kind is bool:
            return _truth(f"{where}: {knob}", text)
        value = _number(f"{where}: {knob}", text)
        space = self._manifest.search_space.get(knob)
        if space is not None and value not in space:
            raise InvalidSourceError(f"{where}: {knob}", text, "The manifest's search space has no such value.")
        return value

    def _seed(self, where: str, named: Mapping[str, str], data: bytes) -> int:
        seed, run = self._manifest.one(Role.SEED), self._manifest.one(Role.RUN)
        if seed is not None:
            return self._logged_seed(f"{where}: {seed}", named[seed])
        if run is not None and not re.fullmatch(NAME_PATTERN, named[run]):
            raise InvalidSourceError(
                f"{where}: {run}", named[run], "Give the run's name in letters, digits and -_.:/+."
            )
        setting = "/".join(named[column] for role in _SETTING for column in self._manifest.named(role))
        return run_seed(self._manifest.table_id, setting, digest_bytes(data) if run is None else named[run])

    def _logged_seed(self, where: str, text: str) -> int:
        if not _INTEGER.fullmatch(text) or int(text) not in self._manifest.seeds:
            seeds = ", ".join(str(seed) for seed in self._manifest.seeds)
            raise InvalidSourceError(where, text, f"The manifest declares the seeds {seeds}.")
        return int(text)

    def _budget(self, where: str, named: Mapping[str, str], arm: Arm | None) -> str:
        """Return the budget class; what the manifest names first comes first: class, hardware, columns."""
        hardware = () if arm is None else (self._manifest.machines[arm.machine].hardware,)
        parts = "/".join((self._manifest.budget_class, *hardware, *(f"{name}:{named[name]}" for name in self._budgets)))
        if not re.fullmatch(NAME_PATTERN, parts):
            raise InvalidSourceError(f"{where}: {', '.join(self._budgets)}", parts, "Give a plain word or number.")
        return parts

    def _digest(self, where: str, named: Mapping[str, str], role: Role) -> str | None:
        column = self._manifest.one(role)
        if column is None:
            return None
        if not re.fullmatch(DIGEST_PATTERN, named[column]):
            raise InvalidSourceError(f"{where}: {column}", named[column], "Give a SHA-256 in lower-case hex.")
        return named[column]


def _metric(where: str, metric: PublishedMetric, named: Mapping[str, str]) -> float:
    place, text = f"{where}: {metric.spec.name}", named[metric.spec.name]
    value = _number(place, text)
    if not float(metric.low) <= value <= float(metric.high):
        raise InvalidSourceError(place, text, f"The metric lies in {metric.low} to {metric.high}.")
    return value


def _number(where: str, text: str) -> float:
    # float() takes nan, infinity, blanks and underscores as well, and turns 1e999 into infinity.
    if not _DECIMAL.fullmatch(text) or float(text) in (float("inf"), float("-inf")):
        raise InvalidSourceError(where, text, "Give a finite number in plain decimals; a failed trial has no row here.")
    return float(text)


def _truth(where: str, text: str) -> bool:
    if text not in _TRUTH:
        raise InvalidSourceError(where, text, f"Give {' or '.join(_TRUTH)}.")
    return _TRUTH[text]
