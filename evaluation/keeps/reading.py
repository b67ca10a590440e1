"""The log of an automated search as rows: which column is what, and what counts as a value.

Rules kept here:

- the first line names the columns; a file without one is refused. Columns are found by the names below or named by the
  caller, never guessed from what is in them; of several metrics the first one in the file is meant;
- a crash, an empty cell, a word and 0 are no values: these logs write 0.000000 where a run gave none;
- what a configuration is, is said by its own column, or else by the description without the marks of a rerun;
- a line that cannot be read is told with its number, and takes part in nothing.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from records.errors import InvalidInputError, InvalidSourceError
from records.values import Direction

_LESS: Final = (
    "val_bpb", "bpb", "val_loss", "valid_loss", "validation_loss", "eval_loss", "test_loss", "loss", "val_perplexity",
    "val_ppl", "perplexity", "ppl", "val_fid", "fid", "val_rmse", "rmse", "val_mae", "mae", "mse", "wer", "latency_ms",
    "latency_us", "runtime_s",
)  # fmt: skip
_MORE: Final = (
    "score", "metric", "val_acc", "val_accuracy", "accuracy", "acc", "balanced_accuracy", "val_auc", "auc", "val_f1",
    "f1", "val_r2", "r2", "sharpe", "reward", "tok_s", "tg_tok_s", "tok_per_sec", "tokens_per_second", "throughput",
    "throughput_tflops",
)  # fmt: skip
METRICS: Final[dict[str, Direction]] = {
    **dict.fromkeys(_LESS, Direction.MINIMIZE),
    **dict.fromkeys(_MORE, Direction.MAXIMIZE),
}
"""The metrics that are known by name, with the direction in which they are better."""
STATUS_COLUMNS: Final = ("status", "decision", "outcome")
LABEL_COLUMNS: Final = ("commit", "commit_hash", "sha", "run_id", "config_id", "experiment", "exp", "id")
CONFIG_COLUMNS: Final = ("config_id", "config_hash", "config", "configuration")
DESCRIPTION_COLUMNS: Final = ("description", "desc", "change", "notes", "name")
SEED_COLUMNS: Final = ("seed",)

_RERUN: Final = re.compile(
    r"[(\[]?\b(?:re-?runs?|repeat(?:ed)?|repro(?:duc\w+)?|replicat\w+|again|(?:seed|run|take)[ =#]*[0-9]+)\b[)\]]?"
    r"|#[0-9]+",
    re.IGNORECASE,
)
_NO_CHANGE: Final = frozenset({"", "baseline", "the baseline", "incumbent", "control", "no change"})
_EXAMPLE: Final = "commit<TAB>val_bpb<TAB>status<TAB>description"


class Status(StrEnum):
    """What was decided about a row."""

    KEEP = "keep"
    BASELINE = "baseline"
    DISCARD = "discard"
    CRASH = "crash"
    OTHER = "other"


STATUSES: Final[dict[str, Status]] = {
    **dict.fromkeys(("keep", "kept", "accept", "accepted"), Status.KEEP),
    "baseline": Status.BASELINE,
    **dict.fromkeys(("discard", "discarded", "revert", "reverted", "reject", "rejected"), Status.DISCARD),
    **dict.fromkeys(
        ("crash", "crashed", "error", "fail", "failed", "oom", "timeout", "aborted", "killed", "nan"), Status.CRASH
    ),
}
"""The words of the status column; any other word is a try that was not kept."""


@dataclass(frozen=True)
class Row:
    """One try.

    Attributes:
        line: its line in the file, from 1.
        label: commit or id; empty if there is none.
        value: the metric; None if the run gave none.
        config: the value of a configuration column; None if there is none.
        change: the description without marks of a rerun, in lower case; empty for the incumbent as it is.
        seed: the seed as written; empty if none is.
    """

    line: int
    label: str
    value: float | None
    status: Status
    description: str
    config: str | None
    change: str
    seed: str


@dataclass(frozen=True)
class KeepLog:
    """A whole log.

    Attributes:
        metric, direction: what was searched for.
        columns: which column was taken for what.
        unread: lines that could not be read, each with its number and why.
    """

    metric: str
    direction: Direction
    columns: dict[str, str]
    rows: tuple[Row, ...]
    unread: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns that the caller names; None leaves one to the closed lists."""

    metric: str | None = None
    status: str | None = None
    config: str | None = None
    description: str | None = None
    direction: Direction | None = None


def read_log(path: Path, named: Columns) -> KeepLog:
    """Read a log of tab- or comma-separated values.

    Raises:
        InvalidSourceError: the file cannot be read, or has no header or no rows.
        InvalidInputError: a column that is needed is not there, or nothing says which direction is better.
    """
    header, lines = _table(path)
    names = [name.strip().lower() for name in header]
    places = {name: names.index(name) for name in names if name}
    columns = {
        "metric": _column(places, "--metric", named.metric, tuple(name for name in places if name in METRICS)),
        "status": _column(places, "--status-column", named.status, STATUS_COLUMNS),
        "config": _column(places, "--config-column", named.config, CONFIG_COLUMNS, needed=False),
        "description": _column(places, "--description-column", named.description, DESCRIPTION_COLUMNS, needed=False),
        "label": _column(places, "", None, LABEL_COLUMNS, needed=False),
        "seed": _column(places, "", None, SEED_COLUMNS, needed=False),
    }
    metric = columns["metric"]
    direction = named.direction or METRICS.get(metric)
    if direction is None:
        raise InvalidInputError("--direction", None, f"Nothing says which way {metric} is better; say min or max.")
    at = {role: places[name] for role, name in columns.items() if name}
    rows, unread = [], []
    for number, cells in lines:
        row = _row(number, cells, at)
        if isinstance(row, Row):
            rows.append(row)
        else:
            unread.append(row)
    if not rows:
        raise InvalidSourceError(str(path), f"{len(unread)} lines, none of them readable", "Give a log with rows.")
    return KeepLog(metric, direction, {k: v for k, v in columns.items() if v}, tuple(rows), tuple(unread))


def _table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSourceError(str(path), error, "Give a readable file in UTF-8.") from error
    lines = text.splitlines()
    first = lines[0] if lines else ""
    tabs = "\t" in first  # which need no quotes, and descriptions have lone ones
    reader = (
        csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if tabs
        else csv.reader(lines, quoting=csv.QUOTE_MINIMAL)
    )
    try:
        table = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise InvalidSourceError(str(path), error, "Give tab- or comma-separated values.") from error
    if not table or _is_data(table[0][1]):
        remedy = f"The first line names the columns; put one there, such as {_EXAMPLE}."
        raise InvalidSourceError(str(path), first or "an empty file", remedy)
    return table[0][1], table[1:]


def _is_data(cells: list[str]) -> bool:
    """Tell whether what should be the header is a row: it has a number or the word of a status in it."""
    return any(cell.strip().lower() in STATUSES or _number(cell) is not None for cell in cells)


def _column(
    places: dict[str, int], flag: str, named: str | None, known: tuple[str, ...], *, needed: bool = True
) -> str:
    if named is not None:
        if named.strip().lower() not in places:
            raise InvalidInputError(flag, named, f"The file has the columns {', '.join(places)}.")
        return named.strip().lower()
    found = next((name for name in known if name in places), "")
    if not found and needed:
        remedy = f"None of the columns {', '.join(places)} is known for it; name one with {flag}."
        raise InvalidInputError(flag, None, remedy)
    return found


def _row(line: int, cells: list[str], at: dict[str, int]) -> Row | str:
    def cell(role: str) -> str:
        return cells[at[role]].strip() if role in at else ""

    if len(cells) <= max(at["metric"], at["status"]):
        return f"line {line}: {len(cells)} cells, too few for metric and status"
    cells = [*cells, *[""] * (max(at.values()) + 1 - len(cells))]
    word = cell("status").lower()
    if not word:
        return f"line {line}: no status"
    status = STATUSES.get(word, Status.OTHER)
    value = None if status is Status.CRASH else _number(cell("metric"))
    description = cell("description")
    return Row(
        line=line,
        label=cell("label"),
        value=value or None,
        status=status,
        description=description,
        config=cell("config") or None,
        change=_change(description),
        seed=cell("seed"),
    )


def _change(description: str) -> str:
    left = " ".join(_RERUN.sub(" ", description).lower().split()).strip(" -:,;()").removeprefix("of ")
    return "" if left in _NO_CHANGE else left


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
