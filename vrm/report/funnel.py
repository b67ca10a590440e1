"""The plot of a mediation trace: how far the decisions of each arm came, and below them every decision, stage by stage.

Rules kept here: the bars are the same counts as the metrics of `evaluation.mediation`, each with its number; a decision
is one row, with a filled mark where it went through a stage and all before it, a ring where it did not, none where it
has no such stage, and a cross at the end where its chain is broken, so that no broken one is left out; what differs by
colour differs by shape as well. The same trace gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from evaluation.mediation import OF_MEMORY, STAGES, Mediation, by_arm
from policies.mediation import DecisionTrace

WIDTH: Final = 7.2  # inches, as the other plots for pages and papers
SHOWN: Final = 120
"""Most decisions that are drawn one by one; how many are left out is said."""

_ROW: Final = 0.17
_BAR: Final = 0.2
_LEFT: Final = 1.75
_RIGHT: Final = 0.35
_HEAD: Final = 0.42
_GAP: Final = 0.95
_FOOT: Final = 0.42
"""Lengths in inches: a row of a decision, a bar, the margins, the title, the names of the stages, the legend."""

_COLORS: Final = ("#0072B2", "#D55E00", "#6E6E6E", "#009E73")
_INK: Final = "#111111"
_MUTED: Final = "#555555"
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vrm-trace",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
}
_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}


def draw_funnel(found: Mediation, traces: Sequence[DecisionTrace]) -> bytes:
    """Return the plot as SVG.

    Raises:
        ValueError: there is no decision.
    """
    if not traces:
        raise ValueError("draw one decision or more")
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # the stubs list keys, not values
        figure = _figure(found, traces)
        written = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(written, metadata=_METADATA)  # type: ignore[no-untyped-call]
    return written.getvalue()


def _figure(found: Mediation, traces: Sequence[DecisionTrace]) -> Figure:
    bars = [(name, arm, count) for name in STAGES for arm, count in _counts(found.funnel, name)]
    rows = traces[:SHOWN]
    upper, lower = _BAR * len(bars), _ROW * len(rows)
    height = _HEAD + upper + _GAP + lower + _FOOT
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    wide = (WIDTH - _LEFT - _RIGHT) / WIDTH
    top = figure.add_axes((_LEFT / WIDTH, (height - _HEAD - upper) / height, wide, upper / height))
    table = figure.add_axes((_LEFT / WIDTH, _FOOT / height, wide, lower / height))
    colors = {arm: _COLORS[place % len(_COLORS)] for place, arm in enumerate(by_arm(traces))}
    _draw_bars(top, bars, colors)
    _draw_rows(table, rows, colors)
    title = f"{found.decisions} decisions: {found.cards} cards, {sum(found.breaks.values())} broken links"
    figure.text(0.12 / WIDTH, (height - 0.24) / height, title, fontsize=9.5, weight="bold", color=_INK)
    left = len(traces) - len(rows)
    legend = (
        "Filled: through this stage and all before it. Ring: not. Cross: a link of the chain is missing or differs."
    )
    figure.text(0.12 / WIDTH, 0.14 / height, legend + (f" {left} more decisions are not drawn." if left else ""),
                fontsize=6.8, color=_MUTED)  # fmt: skip
    return figure


def _counts(funnels: Mapping[str, Mapping[str, int]], stage: str) -> list[tuple[str, int]]:
    return [(arm, stages[stage]) for arm, stages in funnels.items() if stage in stages]


def _draw_bars(axes: Axes, bars: Sequence[tuple[str, str, int]], colors: Mapping[str, str]) -> None:
    most = max(count for _, _, count in bars)
    for place, (stage, arm, count) in enumerate(bars):
        height = len(bars) - 1 - place
        axes.barh(height, count, height=0.7, color=colors[arm], gid=f"bar-{stage}-{place}")
        axes.text(-0.01 * most, height, f"{stage}, {arm}", ha="right", va="center", color=_INK)
        axes.text(count + 0.01 * most, height, str(count), va="center", color=_INK)
    axes.set_xlim(0, most * 1.06)
    axes.set_ylim(-0.5, len(bars) - 0.5)
    _bare(axes)


def _draw_rows(axes: Axes, rows: Sequence[DecisionTrace], colors: Mapping[str, str]) -> None:
    stages = [name for name in STAGES if name != "intents"]
    for place, trace in enumerate(rows):
        height, color = len(rows) - 1 - place, colors[trace.arm or "none"]
        label = f"{trace.pair or trace.intent_id.rpartition(':')[2][:10]} #{trace.iteration} {trace.arm or ''}"
        axes.text(-0.6, height, label[-34:], ha="right", va="center", color=_INK, fontsize=6.5)
        for stage, through in _through(trace):
            at = stages.index(stage)
            face = color if through else "none"
            axes.plot([at], [height], marker="o", markersize=4.5, markerfacecolor=face, markeredgecolor=color,
                      markeredgewidth=0.9, linestyle="none", gid=f"mark-{stage}-{place}")  # fmt: skip
        if trace.breaks:
            axes.plot([len(stages)], [height], marker="x", markersize=5, color=_INK, linestyle="none",
                      gid=f"break-{place}")  # fmt: skip
    for at, name in enumerate([*stages, "broken"]):
        axes.text(at, len(rows) - 0.3, name, rotation=40, ha="left", va="bottom", color=_MUTED, fontsize=6.8)
    axes.set_xlim(-0.5, len(stages) + 0.5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    _bare(axes)


def _through(trace: DecisionTrace) -> list[tuple[str, bool]]:
    """Return the stages after the first that a decision can go through, with whether it did, and through all before."""
    whole, marks = True, []
    for name, (_, reaches) in STAGES.items():
        if trace.asked or name not in OF_MEMORY:
            whole = whole and reaches(trace)
            marks.append((name, whole))
    return marks[1:]


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.patch.set_visible(False)
