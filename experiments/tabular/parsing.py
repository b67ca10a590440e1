"""Read the tables that public data packages ship: KEEL/ARFF files and separated text.

Rules kept here:

- a header declares every column; a number must be finite and inside its declared range, a category must be declared,
  a row must have one field per column; the first thing that breaks a rule is an `InvalidSourceError` that names the
  file and the line. Nothing is guessed, filled in or skipped: a table with missing values is refused;
- numeric features keep their values, nominal features become one 0/1 column per declared category;
- classes are numbered in the order of their sorted names.

Not handled here: which tables exist and which root they belong to (`tasks`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from records.errors import InvalidSourceError

_ATTRIBUTE: Final = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|[^\s{\[]+)\s*(.*)", re.IGNORECASE)
_RANGE: Final = re.compile(r"\[\s*([^,\]]+),\s*([^,\]]+)\]")
_NUMERIC_TYPES: Final = ("real", "integer", "numeric")
_FEWEST_COLUMNS: Final = 2  # one feature and the class
_REPAIR: Final = "Restore the file from its package; the table is used only as it was published."


@dataclass(frozen=True)
class Column:
    """One declared column: numeric with an optional closed range, or nominal with its categories in file order."""

    name: str
    categories: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    @property
    def nominal(self) -> bool:
        """Tell whether the column holds categories."""
        return bool(self.categories)


@dataclass(frozen=True)
class Table:
    """A parsed table.

    Attributes:
        features: float64, shape (rows, encoded features); every value is finite.
        labels: int64, shape (rows,), numbers into `classes`.
        classes: names of the classes, sorted.
        n_features: features before one-hot encoding.
        n_nominal: how many of these are nominal.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    n_features: int
    n_nominal: int


@dataclass(frozen=True)
class _Row:
    line: int
    fields: tuple[str, ...]


def parse_keel(text: str, source: str) -> Table:
    """Parse a KEEL or ARFF table whose last column is the class.

    Args:
        text: the whole file.
        source: the file's name, for errors.

    Raises:
        InvalidSourceError: the header or a row breaks a rule of this module; `field` is `file:line`.
    """
    columns: list[Column] = []
    rows: list[_Row] = []
    in_data = False
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        if in_data:
            rows.append(_Row(number, tuple(field.strip().strip("'\"") for field in line.split(","))))
        elif line.lower().startswith("@attribute"):
            columns.append(_column(line, f"{source}:{number}"))
        elif line.lower().startswith("@data"):
            in_data = True
        elif not line.startswith("@"):
            raise InvalidSourceError(f"{source}:{number}", line, "Before @data a line starts with @ or %.")
    if not in_data or len(columns) < _FEWEST_COLUMNS:
        raise InvalidSourceError(source, f"{len(columns)} columns, @data: {in_data}", f"The header is cut. {_REPAIR}")
    return _table(columns, rows, source)


def parse_delimited(text: str, source: str, separator: str | None, nominal: frozenset[int]) -> Table:
    """Parse separated text without a header; the last column is the class.

    Args:
        text: the whole file.
        source: the file's name, for errors.
        separator: the separator; None is any run of blanks.
        nominal: positions of the nominal features; their categories are those that occur.

    Raises:
        InvalidSourceError: a row breaks a rule of this module; `field` is `file:line`.
    """
    rows = [
        _Row(number, tuple(field.strip() for field in line.split(separator)))
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    if not rows:
        raise InvalidSourceError(source, "an empty file", _REPAIR)
    width = len(rows[0].fields)
    for row in rows:
        _check_width(row, width, source)
    columns = [
        Column(f"column_{index}", _seen(rows, index) if index in nominal or index == width - 1 else ())
        for index in range(width)
    ]
    return _table(columns, rows, source)


def _column(line: str, where: str) -> Column:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise InvalidSourceError(where, line, f"Write '@attribute name type'. {_REPAIR}")
    name, kind = match[1].strip("'\""), match[2].strip()
    if kind.startswith("{") and kind.endswith("}"):
        return Column(name, tuple(item.strip().strip("'\"") for item in kind[1:-1].split(",")))
    if not kind.lower().startswith(_NUMERIC_TYPES):
        raise InvalidSourceError(where, kind, "A type is real, integer, numeric or {categories}.")
    bounds = _RANGE.search(kind)
    if bounds is None:
        return Column(name)
    return Column(name, (), _number(bounds[1], where), _number(bounds[2], where))


def _table(columns: list[Column], rows: list[_Row], source: str) -> Table:
    *features, target = columns
    if not target.nominal:
        raise InvalidSourceError(source, target.name, "The last column is the class and declares its categories.")
    for row in rows:
        _check_width(row, len(columns), source)
    parts = [_encode(column, index, rows, source) for index, column in enumerate(features)]
    names = [_category(target, row, len(features), source) for row in rows]
    classes = tuple(sorted(set(names)))
    number = {name: index for index, name in enumerate(classes)}
    return Table(
        features=np.ascontiguousarray(np.hstack(parts)) if rows else np.empty((0, 0)),
        labels=np.array([number[name] for name in names], dtype=np.int64),
        classes=classes,
        n_features=len(features),
        n_nominal=sum(column.nominal for column in features),
    )


def _encode(column: Column, index: int, rows: list[_Row], source: str) -> NDArray[np.float64]:
    if not column.nominal:
        return np.array([[_value(column, row, index, source)] for row in rows], dtype=np.float64)
    place = {name: position for position, name in enumerate(column.categories)}
    encoded: NDArray[Any] = np.zeros((len(rows), len(column.categories)), dtype=np.float64)
    for position, row in enumerate(rows):
        encoded[position, place[_category(column, row, index, source)]] = 1.0
    return encoded


def _value(column: Column, row: _Row, index: int, source: str) -> float:
    where = f"{source}:{row.line}"
    value = _number(row.fields[index], where)
    if not column.low <= value <= column.high:
        remedy = f"Column {column.name} is declared as [{column.low:g}, {column.high:g}]. {_REPAIR}"
        raise InvalidSourceError(where, row.fields[index], remedy)
    return value


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidSourceError(where, text, f"A number is expected here. {_REPAIR}") from None
    if not math.isfinite(value):
        raise InvalidSourceError(where, text, f"NaN and infinities are refused. {_REPAIR}")
    return value


def _category(column: Column, row: _Row, index: int, source: str) -> str:
    name = row.fields[index]
    if name not in column.categories:
        shown = ", ".join(column.categories[:8])
        raise InvalidSourceError(f"{source}:{row.line}", name, f"Column {column.name} declares {shown}. {_REPAIR}")
    return name


def _check_width(row: _Row, width: int, source: str) -> None:
    if len(row.fields) != width:
        remedy = f"A row has {width} fields; the file may be cut short. {_REPAIR}"
        raise InvalidSourceError(f"{source}:{row.line}", f"{len(row.fields)} fields", remedy)


def _seen(rows: list[_Row], index: int) -> tuple[str, ...]:
    return tuple(sorted({row.fields[index] for row in rows} - {"?", ""}))
