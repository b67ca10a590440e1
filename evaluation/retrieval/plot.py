"""Dot plots of the reporting half: decisions, in all and by stratum, and graded sets by source, with intervals.

Rules kept here:

- a dashed line is a threshold, a cross a published figure, which is about all queries of a set;
- each panel begins below its lowest interval or threshold, so that shades near 1 can be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.retrieval.graded import REPORT
from evaluation.retrieval.questions import Stratum
from records.errors import InvalidInputError, UnavailableError

_MEASURES: Final = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "all_required")
_ROWS: Final = (
    ("all", "#1b6ca8"),
    *zip(
        (stratum.value for stratum in Stratum if stratum is not Stratum.ABSTAIN),
        ("#b3541e", "#6a8d2f", "#8a4f9e"),
        strict=True,
    ),
)
_SOURCES: Final = (("lexical", "#b3541e"), ("semantic", "#6a8d2f"), ("fused", "#1b6ca8"))
_STEP: Final = 0.16


def draw_retrieval(found: Mapping[str, Any], path: Path) -> None:
    """Draw a report into a file; its name says the format (png, svg, pdf).

    Raises:
        InvalidInputError: no format of that name.
        UnavailableError: the file cannot be written.
    """
    count = 2 if found["graded"] else 1
    figure = Figure(figsize=(5.6 * count, 4.8), layout="constrained")
    if path.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        raise InvalidInputError("plot", str(path), "Give a file that ends in .png, .svg or .pdf.")
    panels = figure.subplots(1, count, squeeze=False)[0]
    _draw_decisions(panels[0], found)
    for axes in panels[1:]:
        _draw_graded(axes, found["graded"])
    figure.supxlabel(
        "reporting half, 95 % interval; dashed: threshold; cross: published, all queries", fontsize="small"
    )
    try:
        figure.savefig(path)
    except OSError as error:
        raise UnavailableError("plot", str(error), "Name a file that can be written.") from error


def _draw_decisions(axes: Axes, found: Mapping[str, Any]) -> None:
    least = 1.0
    for place, measure in enumerate(_MEASURES):
        rows = [found[measure] if name == "all" else found["strata"][name][measure] for name, _ in _ROWS]
        threshold = found[measure]["threshold"]
        least = min(least, threshold, _draw_group(axes, place, _ROWS, rows))
        axes.vlines(threshold, place - 0.45, place + 0.45, color="#555555", linestyles="dashed")
    questions = found["candidate_recall_20"]["denominator"]
    _finish(
        axes, f"decisions: {questions} questions with an answer", [name.replace("_", " ") for name in _MEASURES], least
    )


def _draw_graded(axes: Axes, sets: Iterable[Mapping[str, Any]]) -> None:
    least, names = 1.0, []
    for place, each in enumerate(sets):
        rows = [each[source][REPORT] for source, _ in _SOURCES]
        least = min(least, _draw_group(axes, place, _SOURCES, rows))
        names.append(f"{each['set']}\n{rows[0]['denominator']} queries")
        for number, (source, color) in enumerate(_SOURCES):
            published = each["published"].get(source)
            if published is not None:
                axes.plot(published["beside"], _height(place, number, len(_SOURCES)), "x", color=color, markersize=9)
    _finish(axes, "graded sets: nDCG@10", names, least)


def _draw_group(axes: Axes, place: int, parts: Iterable[tuple[str, str]], rows: list[Mapping[str, Any]]) -> float:
    """Draw one figure of several parts beside each other, and return the lowest end of an interval."""
    least = 1.0
    for number, ((name, color), row) in enumerate(zip(parts, rows, strict=True)):
        if row["value"] is None:
            continue
        reach = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
        label = name.replace("_", " ") if not place else None
        height = _height(place, number, len(rows))
        axes.errorbar(row["value"], height, xerr=reach, fmt="o", color=color, capsize=2, label=label)
        least = min(least, row["low"])
    return least


def _height(place: int, number: int, count: int) -> float:
    return place + (number - (count - 1) / 2) * _STEP


def _finish(axes: Axes, title: str, names: list[str], least: float) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    start = max(0.0, math.floor(least * 20) / 20 - 0.05)
    axes.set_xlim(start, 1.0 + 0.02 * (1.0 - start))
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=4, frameon=False, fontsize="small")
