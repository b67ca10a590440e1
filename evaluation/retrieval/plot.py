"""A dot plot of the figures of the reporting half, in all and by stratum, with intervals and thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.retrieval.questions import Stratum
from records.errors import InvalidInputError, UnavailableError

_MEASURES: Final = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "all_required")
_ROWS: Final = (
    ("all", "#1b6ca8"),
    *((stratum.value, "#b3541e") for stratum in Stratum if stratum is not Stratum.ABSTAIN),
)
_STEP: Final = 0.16


def draw_retrieval(found: Mapping[str, Any], path: Path) -> None:
    """Draw a report into a file; its name says the format (png, svg, pdf).

    Raises:
        InvalidInputError: no format of that name.
        UnavailableError: the file cannot be written.
    """
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    if path.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        raise InvalidInputError("plot", str(path), "Give a file that ends in .png, .svg or .pdf.")
    axes = figure.add_subplot()
    for place, measure in enumerate(_MEASURES):
        _draw(axes, place, measure, found)
    axes.set_yticks(range(len(_MEASURES)), [name.replace("_", " ") for name in _MEASURES])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.02)
    axes.set_xlabel("reporting half, 95 % interval; dashed: threshold")
    axes.legend(loc="lower left", frameon=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise UnavailableError("plot", str(error), "Name a file that can be written.") from error


def _draw(axes: Axes, place: int, measure: str, found: Mapping[str, Any]) -> None:
    for number, (name, color) in enumerate(_ROWS):
        row = found[measure] if name == "all" else found["strata"][name][measure]
        if row["value"] is None:
            continue
        height = place + (number - (len(_ROWS) - 1) / 2) * _STEP
        reach = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
        shade = 1.0 - 0.25 * max(0, number - 1)
        label = name.replace("_", " ") if not place else None
        axes.errorbar(row["value"], height, xerr=reach, fmt="o", color=color, alpha=shade, capsize=2, label=label)
    axes.vlines(found[measure]["threshold"], place - 0.45, place + 0.45, color="#555555", linestyles="dashed")
