"""What each row of a table is compared with, and whether the table is complete.

Rules kept here:

- a row changes one knob of what it is compared with, or is itself a baseline. What no single knob explains is never
  passed off as one change: a setting of a knob whose values were tuned apart differs in other knobs too, so its
  baseline is the setting that differs in that knob alone. Nobody ran that one, so the row has no comparator;
- every declared seed, run and baseline is there, and no trial twice;
- one log is one run, and one program is one setting of its record: two settings that name the same program would be a
  change of nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from importers.table_manifest import Comparison, RunManifest
from importers.table_rows import Row
from policies.catalog import Change, Config, InterventionCatalog, KnobValue
from records.errors import InvalidSourceError


@dataclass(frozen=True, kw_only=True)
class Compared(Row):
    """A row beside its baseline.

    Attributes:
        baseline: the configuration that it is compared with; its own for a baseline.
        change: the one knob that differs; None for a baseline.
        differs: every knob in which it differs from what the source compares it with; several only where the values
            of a knob were tuned apart.
    """

    baseline: Config
    change: Change | None
    differs: tuple[str, ...]


def compare(manifest: RunManifest, catalog: InterventionCatalog, rows: Sequence[Row]) -> tuple[Compared, ...]:
    """Return every row beside its baseline, in the table's order.

    Raises:
        InvalidSourceError: a row changes what it may not, or a trial is missing or given twice; its line is named.
    """
    table = manifest.table.name
    compared = tuple(_WAYS[manifest.comparison](manifest, catalog, rows))
    _once(table, ((row.line, (*_setting(row), row.budget_class, row.arm, row.seed)) for row in rows), _AGAIN)
    _once(table, ((row.line, row.log) for row in rows if row.log is not None), "the log of line {} again")
    _seeds(manifest, rows)
    if manifest.comparison is Comparison.DEFAULTS and not manifest.arms:
        _baselines(manifest, catalog, rows)
    _runs(manifest, rows)
    _programs(table, rows)
    return compared


def _with_defaults(manifest: RunManifest, catalog: InterventionCatalog, rows: Sequence[Row]) -> Iterable[Compared]:
    for row in rows:
        if row.config == catalog.baseline:
            yield _baseline(row)
            continue
        change = catalog.one_knob_difference(catalog.baseline, row.config)
        if change is None:
            where, remedy = f"{manifest.table.name} line {row.line}", "A row is the baseline, or one knob away from it."
            raise InvalidSourceError(where, "several knobs changed", remedy)
        yield _changed(row, catalog.baseline, change)


def _with_tuned(manifest: RunManifest, catalog: InterventionCatalog, rows: Sequence[Row]) -> Iterable[Compared]:
    knob = str(manifest.tuned_knob)
    default, mechanism = catalog.knobs[knob].default, catalog.knobs[knob].mechanism
    tuned: dict[str, Row] = {}
    for row in rows:
        if row.config[knob] == default and tuned.setdefault(row.task, row).config != row.config:
            where = f"{manifest.table.name} line {row.line}: {knob}"
            raise InvalidSourceError(where, f"another setting than line {tuned[row.task].line}", "Tune it once a task.")
    for row in rows:
        if row.task not in tuned:
            where, met = f"{manifest.table.name} line {row.line}", f"no {knob} {default} for {row.task}"
            raise InvalidSourceError(where, met, "Give each task the setting that others are compared with.")
        if row.config[knob] == default:
            yield _baseline(row)
        else:
            alone = dict(sorted((row.config | {knob: default}).items()))
            change = Change(knob, default, row.config[knob], mechanism)
            yield _changed(row, alone, change, against=tuned[row.task].config)


def _with_neighbours(_: RunManifest, catalog: InterventionCatalog, rows: Sequence[Row]) -> Iterable[Compared]:
    baselines: dict[str, list[Config]] = {}
    for row in rows:
        known = baselines.setdefault(row.task, [])
        near = next((config for config in known if len(_differing(config, row.config)) == 1), None)
        if near is None:
            known.append(row.config)
            yield _baseline(row)
        else:
            (name,) = _differing(near, row.config)
            yield _changed(row, near, Change(name, near[name], row.config[name], catalog.knobs[name].mechanism))


_WAYS: Final[
    Mapping[Comparison, Callable[[RunManifest, InterventionCatalog, Sequence[Row]], Iterable[Compared]]]
] = {
    Comparison.DEFAULTS: _with_defaults,
    Comparison.TUNED: _with_tuned,
    Comparison.NEIGHBOURS: _with_neighbours,
}  # fmt: skip


def _baseline(row: Row) -> Compared:
    return Compared(**vars(row), baseline=row.config, change=None, differs=())


def _changed(row: Row, baseline: Config, change: Change, against: Config | None = None) -> Compared:
    differs = _differing(baseline if against is None else against, row.config)
    return Compared(**vars(row), baseline=baseline, change=change, differs=differs)


def _differing(before: Config, after: Config) -> tuple[str, ...]:
    return tuple(name for name in before if before[name] != after[name])


_Setting = tuple[str, tuple[tuple[str, KnobValue], ...]]
_AGAIN: Final = "the trial of line {} again"


def _setting(row: Row) -> _Setting:
    return row.task, tuple(row.config.items())


def _once(table: str, trials: Iterable[tuple[int, Hashable]], met: str) -> None:
    first: dict[Hashable, int] = {}
    for line, trial in trials:
        earlier = first.setdefault(trial, line)
        if earlier != line:
            raise InvalidSourceError(f"{table} line {line}", met.format(earlier), "Give it once.")


def _seeds(manifest: RunManifest, rows: Sequence[Row]) -> None:
    found: dict[_Setting, dict[int, int]] = {}
    for row in rows:
        found.setdefault(_setting(row), {})[row.seed] = row.line
    for (task, _), lines in found.items():
        missing = [seed for seed in manifest.seeds if seed not in lines]
        if missing:
            where, met = f"{manifest.table.name} line {min(lines.values())}", f"{task} lacks seed {missing[0]} here"
            raise InvalidSourceError(where, met, "Give every declared seed of a setting.")


def _baselines(manifest: RunManifest, catalog: InterventionCatalog, rows: Sequence[Row]) -> None:
    found = {row.task for row in rows if row.config == catalog.baseline}
    for task in manifest.tasks:
        if task.name not in found:
            where = f"{manifest.table.name} line 1"
            raise InvalidSourceError(where, f"no baseline of {task.name}", "Give each task its baseline.")


def _runs(manifest: RunManifest, rows: Sequence[Row]) -> None:
    found = Counter((row.arm.record, row.arm.arm) for row in rows if row.arm is not None)
    for arm in manifest.arms:
        runs = found[arm.record, arm.arm]
        if runs != arm.runs:
            where, met = f"{manifest.table.name}: {arm.record}, {arm.arm}", f"{runs} runs"
            raise InvalidSourceError(where, met, f"{arm.runs} were published; restore the file or the manifest.")


def _programs(table: str, rows: Sequence[Row]) -> None:
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.arm is None or row.source is None:
            continue
        known = first.setdefault((row.arm.record, row.source), row)
        if known.config != row.config:
            where, met = f"{table} line {row.line}", f"the program of line {known.line} under another setting"
            raise InvalidSourceError(where, met, "One program is one setting of its record.")
