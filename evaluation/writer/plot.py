"""A dot plot of precision and recall by stratum, with Wilson intervals and thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from records.errors import InvalidInputError, UnavailableError

_MEASURES: Final = (("precision", "#1b6ca8", -0.14), ("recall", "#b3541e", 0.14))
"""What is drawn, in which colour, and how far from the middle of its row."""


def draw_strata(found: Mapping[str, Any], path: Path) -> None:
    """Draw a report into a file; its name says the format (png, svg, pdf).

    Raises:
        InvalidInputError: no format of that name.
        UnavailableError: the file cannot be written.
    """
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    if path.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        raise InvalidInputError("plot", str(path), "Give a file that ends in .png, .svg or .pdf.")
    axes = figure.add_subplot()
    rows = {"all": found, **found["strata"]}
    for place, row in enumerate(rows.values()):
        _draw_row(axes, place, row)
    for name, color, _ in _MEASURES:
        axes.axvline(
            found[name]["threshold"], color=color, linewidth=0.8, linestyle="dashed", label=f"{name} threshold"
        )
    axes.set_yticks(range(len(rows)), [_label(name, row) for name, row in rows.items()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.01)
    axes.set_xlabel("share, with 95 % Wilson interval")
    axes.set_title(f"Writer: {found['groups']} groups of {len(found['seeds'])} seeds", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UnavailableError("plot", str(path), f"Give a file that can be written: {error}") from error


def _draw_row(axes: Axes, place: int, row: Mapping[str, Any]) -> None:
    for name, color, offset in _MEASURES:
        measured = row[name]
        if measured["value"] is None or measured["low"] is None:
            continue
        axes.plot([measured["low"], measured["high"]], [place + offset] * 2, color=color, linewidth=2)
        axes.plot(measured["value"], place + offset, "o", color=color, label=name if place == 0 else None)


def _label(name: str, row: Mapping[str, Any]) -> str:
    """Return the name of a row with its denominators: active rules, and groups with gold."""
    return f"{name} ({row['precision']['denominator']} rules, {row['recall']['denominator']} gold)"
