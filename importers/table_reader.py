"""Strict reading of a published table: the evaluator of `published_record` evidence.

A published table is a folder with three files: `manifest.json` (where the table comes from, when it was published, what
its columns may hold), `catalog.yaml` (the knobs that it contrasts) and the table itself, a CSV of one row per trial.

Rules kept here:

- what is read is what was published: every file has the size and SHA-256 that the manifest declares;
- a row is refused, and with it the whole table, if a value is no finite plain decimal, is not in the declared search
  space, or is not registered in the catalog; if a trial is given twice; if a seed, a baseline or a row is missing;
- every error names file, line and remedy; nothing is repaired, skipped or filled in;
- the digest of this module and of the manifest is the evaluator digest of the table's contract. How trials are built
  from the rows is therefore another module's work: changing that must not make a new contract.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from policies.catalog import Change, Config, InterventionCatalog, parse_catalog
from records.canonical import digest_bytes, domain_digest
from records.errors import InvalidInputError, InvalidRecordError, InvalidSourceError
from records.evidence import Seed
from records.fields import Digest, Metric, Name, Text, Timestamp
from records.models import Model
from records.values import Count, MetricSpec

MANIFEST: Final = "manifest.json"
_MAX_BYTES: Final = 64 * 2**20
_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_INTEGER: Final = re.compile(r"\d{1,16}", re.ASCII)

_FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+\.(csv|yaml)$")]
_Number = Annotated[int | float, Field(allow_inf_nan=False)]
_Numbers = Annotated[tuple[_Number, ...], Field(min_length=1)]


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


class Manifest(Model):
    """What was published: source, time, files, columns and what they may hold.

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
    rows: Annotated[int, Field(ge=1, le=2**53 - 1)]
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
        for what, names in (("tasks", [task.name for task in self.tasks]), ("seeds", list(self.seeds))):
            if len(set(names)) != len(names):
                raise ValueError(f"{what} are given once each")
        if float(self.metric_low) >= float(self.metric_high) or float(self.equivalence_margin) < 0:
            raise ValueError("metric_low is below metric_high, and the margin is not negative")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table, in order."""
        return ("task", "seed", *sorted(self.search_space), self.metric.name)


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One trial of the table.

    Attributes:
        line: line number in the file, the header being 1.
        data: the exact bytes of the line, without its end.
        change: the one knob that differs from the baseline; None for the baseline.
        value: the metric, in its unit.
    """

    line: int
    data: bytes
    task: str
    seed: int
    config: Config
    change: Change | None
    value: float


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table that has passed every check, with the exact bytes it was read from."""

    manifest: Manifest
    catalog: InterventionCatalog
    rows: tuple[PublishedRow, ...]
    data: bytes

    @cached_property
    def evaluator_digest(self) -> str:
        """The digest of what verifies a row: this reader and the manifest that it reads by."""
        reader = digest_bytes(Path(__file__).read_bytes())
        return domain_digest("table-reader", {"reader": reader, "manifest": self.manifest.canonical_digest})


def read_published_table(folder: Path) -> PublishedTable:
    """Read and check a published table.

    Raises:
        InvalidSourceError: a file is missing, damaged or breaks a rule; file, line and remedy are named.
    """
    manifest = _manifest(folder)
    catalog = _catalog(folder, manifest)
    data = _bytes(folder / manifest.table.name)
    lines = _lines(manifest, data)
    _header(manifest, lines[0])
    rows = tuple(_row(manifest, catalog, number, line) for number, line in enumerate(lines[1:], start=2))
    _complete(manifest, catalog, rows)
    _declared(manifest.table, data)
    return PublishedTable(manifest=manifest, catalog=catalog, rows=rows, data=data)


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidSourceError(path.name, f"more than {_MAX_BYTES} bytes", "Split the table into several.")
        return path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(path.name, error.strerror or str(error), f"Restore the file {path}.") from error


def _manifest(folder: Path) -> Manifest:
    try:
        return Manifest.load(_bytes(folder / MANIFEST))
    except InvalidRecordError as error:
        raise InvalidSourceError(f"{MANIFEST}: {error.field}", error.value, error.remedy) from error


def _catalog(folder: Path, manifest: Manifest) -> InterventionCatalog:
    name = manifest.catalog.name
    data = _bytes(folder / name)
    try:
        catalog = parse_catalog(data.decode("utf-8"))
    except (InvalidInputError, UnicodeDecodeError) as error:
        raise InvalidSourceError(name, str(error), "Restore the catalog that was published.") from error
    if catalog.knobs.keys() != manifest.search_space.keys() or catalog.fixed:
        wrong = ", ".join(sorted(catalog.knobs.keys() ^ manifest.search_space.keys() | catalog.fixed.keys()))
        raise InvalidSourceError(name, wrong, "The catalog has exactly the knobs of the manifest's search space.")
    for knob, entry in catalog.knobs.items():
        foreign = [value for value in entry.allowed if value not in manifest.search_space[knob]]
        if foreign:
            raise InvalidSourceError(f"{name}: {knob}", foreign, "Register only values of the published search space.")
    _declared(manifest.catalog, data)
    return catalog


def _declared(file: DeclaredFile, data: bytes) -> None:
    if len(data) != file.size_bytes or digest_bytes(data) != file.sha256:
        raise InvalidSourceError(
            file.name,
            f"{len(data)} bytes, SHA-256 {digest_bytes(data)[:12]}…",
            f"The manifest declares {file.size_bytes} bytes, SHA-256 {file.sha256[:12]}…; restore the published file.",
        )


def _lines(manifest: Manifest, data: bytes) -> list[bytes]:
    name = manifest.table.name
    lines = data.split(b"\n")
    if lines[-1]:
        raise InvalidSourceError(f"{name} line {len(lines)}", "the file ends inside a line", "Restore the whole file.")
    lines.pop()
    if len(lines) != manifest.rows + 1:
        raise InvalidSourceError(
            f"{name} line {len(lines)}", f"{len(lines) - 1} rows", f"{manifest.rows} were published; restore the file."
        )
    return lines


def _cells(manifest: Manifest, number: int, line: bytes) -> list[str]:
    where = f"{manifest.table.name} line {number}"
    try:
        text = line.decode("utf-8")
        cells = next(csv.reader([text], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidSourceError(where, str(error), "Give comma separated values in UTF-8.") from error
    if ",".join(cells) != text:
        raise InvalidSourceError(where, text, "Write plain cells: no quotes, no carriage returns.")
    return cells


def _header(manifest: Manifest, line: bytes) -> None:
    found, wanted = tuple(_cells(manifest, 1, line)), manifest.columns
    where = f"{manifest.table.name} line 1"
    for name in found:
        if name not in wanted:
            raise InvalidSourceError(where, f"unknown column {name}", f"The columns are {', '.join(wanted)}.")
    if found != wanted:
        raise InvalidSourceError(where, ", ".join(found), f"Give each column once, in this order: {', '.join(wanted)}.")


def _row(manifest: Manifest, catalog: InterventionCatalog, number: int, line: bytes) -> PublishedRow:
    where = f"{manifest.table.name} line {number}"
    cells = _cells(manifest, number, line)
    if len(cells) != len(manifest.columns):
        raise InvalidSourceError(where, f"{len(cells)} cells", f"Give {len(manifest.columns)}, one for each column.")
    named = dict(zip(manifest.columns, cells, strict=True))
    tasks = [task.name for task in manifest.tasks]
    if named["task"] not in tasks:
        raise InvalidSourceError(f"{where}: task", named["task"], f"The manifest declares {', '.join(tasks)}.")
    config, change = _config(manifest, catalog, where, named)
    return PublishedRow(
        line=number,
        data=line,
        task=named["task"],
        seed=_seed(manifest, where, named["seed"]),
        config=config,
        change=change,
        value=_metric(manifest, where, named[manifest.metric.name]),
    )


def _seed(manifest: Manifest, where: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in manifest.seeds:
        seeds = ", ".join(str(seed) for seed in manifest.seeds)
        raise InvalidSourceError(f"{where}: seed", text, f"The manifest declares the seeds {seeds}.")
    return int(text)


def _metric(manifest: Manifest, where: str, text: str) -> float:
    value = _number(f"{where}: {manifest.metric.name}", text)
    if not float(manifest.metric_low) <= value <= float(manifest.metric_high):
        legal = f"{manifest.metric_low} to {manifest.metric_high}"
        raise InvalidSourceError(f"{where}: {manifest.metric.name}", text, f"The metric lies in {legal}.")
    return value


def _number(where: str, text: str) -> float:
    # float() takes nan, infinity, blanks and underscores as well, and turns 1e999 into infinity.
    if not _DECIMAL.fullmatch(text) or float(text) in (float("inf"), float("-inf")):
        raise InvalidSourceError(where, text, "Give a finite number in plain decimals; a failed trial has no row here.")
    return float(text)


def _config(
    manifest: Manifest, catalog: InterventionCatalog, where: str, named: dict[str, str]
) -> tuple[Config, Change | None]:
    values: dict[str, object] = {}
    for knob, space in manifest.search_space.items():
        value = _number(f"{where}: {knob}", named[knob])
        if value not in space:
            raise InvalidSourceError(f"{where}: {knob}", named[knob], "The manifest's search space has no such value.")
        values[knob] = value
    try:
        config = catalog.effective_config(values)
    except InvalidInputError as error:
        raise InvalidSourceError(f"{where}: {error.field}", error.value, error.remedy) from error
    if config == catalog.baseline:
        return config, None
    change = catalog.one_knob_difference(catalog.baseline, config)
    if change is None:
        raise InvalidSourceError(where, "several knobs changed", "A row is the baseline, or one knob away from it.")
    return config, change


def _complete(manifest: Manifest, catalog: InterventionCatalog, rows: Sequence[PublishedRow]) -> None:
    name = manifest.table.name
    first: dict[tuple[str, str, int], int] = {}
    arms: dict[tuple[str, str], int] = {}
    for row in rows:
        arm = (row.task, catalog.config_digest(row.config))
        earlier = first.setdefault((*arm, row.seed), row.line)
        if earlier != row.line:
            raise InvalidSourceError(f"{name} line {row.line}", f"the trial of line {earlier} again", "Give it once.")
        arms.setdefault(arm, row.line)
    for (task, config), line in arms.items():
        missing = [seed for seed in manifest.seeds if (task, config, seed) not in first]
        if missing:
            raise InvalidSourceError(
                f"{name} line {line}", f"{task} lacks seed {missing[0]} here", "Give every declared seed of a setting."
            )
    baseline = catalog.config_digest(catalog.baseline)
    for entry in manifest.tasks:
        if (entry.name, baseline) not in arms:
            raise InvalidSourceError(f"{name} line 1", f"no baseline of {entry.name}", "Give each task its baseline.")
