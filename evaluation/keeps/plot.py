"""The path of the incumbent through a search, each keep in the colour of its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from evaluation.keeps.reading import KeepLog, Row
from evaluation.keeps.rule import KeepAudit, KeepVerdict
from records.errors import InvalidInputError, UnavailableError

FORMATS: Final = (".png", ".svg")
COLOURS: Final[dict[KeepVerdict, str]] = {
    KeepVerdict.BASELINE: "#555555",
    KeepVerdict.SURVIVES: "#1b7837",
    KeepVerdict.NO_GAIN: "#8073ac",
    KeepVerdict.NOISE_UNKNOWN: "#c98f00",
    KeepVerdict.ONE_RUN: "#e08214",
    KeepVerdict.COVERS_ZERO: "#b2182b",
    KeepVerdict.NOT_CORRECTED: "#d6604d",
}


def require_format(path: Path) -> None:
    """Accept a file that a plot can be written to.

    Raises:
        InvalidInputError: its name ends in no known format.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidInputError("--plot", str(path), f"Let the name end in one of {', '.join(FORMATS)}.")


def draw(log: KeepLog, audit: KeepAudit, path: Path) -> None:
    """Write the plot of an audited log.

    Raises:
        InvalidInputError: the name of the file ends in no known format.
        UnavailableError: the file cannot be written.
    """
    require_format(path)
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    order = {row.line: place for place, row in enumerate(log.rows, start=1)}

    def spread(rows: Iterable[Row]) -> tuple[list[int], list[float]]:
        valued = [(order[row.line], row.value) for row in rows if row.value is not None]
        return [place for place, _ in valued], [value for _, value in valued]

    axes.scatter(*spread(log.rows), 9, "#bbbbbb", label="tried", zorder=1)
    places, values = spread(keep.row for keep in audit.keeps)
    axes.step(places, values, where="post", color="#555555", linewidth=1, zorder=2)
    for verdict, colour in COLOURS.items():
        places, shown = spread(keep.row for keep in audit.keeps if keep.verdict is verdict)
        if places:
            axes.scatter(
                places, shown, 42, colour, label=f"{verdict.value.replace('_', ' ')} ({len(places)})", zorder=3
            )
    if values and min(values) < max(values):  # a try that went far astray would flatten everything else
        room = 0.35 * (max(values) - min(values))
        axes.set_ylim(min(values) - room, max(values) + room)
    axes.set_xlabel("try")
    axes.set_ylabel(f"{log.metric} ({log.direction.value})")
    axes.legend(fontsize="small")
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise UnavailableError("--plot", str(path), f"Name a file that can be written: {error}") from error
