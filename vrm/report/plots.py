"""Plots as SVG text that stands inside a page: no fonts, no scripts, no requests, colours from the page's own style.

Rules kept here:

- the same facts give the same bytes: fixed hash salt, no date, no generator in the metadata;
- colours are the page's variables, so that light, dark and print need one drawing;
- text stays text, is never read as mathematics, and is escaped by the writer;
- ids carry the plot's name, so that several plots can stand in one page.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

WIDTH: Final = 5.2  # inches: as wide as a telephone, so that text keeps its size there
INK: Final = "#111111"
MUTED: Final = "#222222"
LINE: Final = "#333333"
ACCENT: Final = "#444444"
WARM: Final = "#555555"
GROUND: Final = "#666666"
_VARIABLES: Final = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    WARM: "var(--warm)",
    GROUND: "var(--ground)",
}
"""The colours that drawings use stand for variables of the page; they are never shown themselves."""

_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vrm-report",
    "text.parse_math": False,
    "text.color": INK,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "axes.unicode_minus": True,
}
_NOTED: Final = 0.56
_BARE: Final = 0.4
_FOOT: Final = 0.16
_ABOVE: Final = 0.1
_LINE: Final = 0.15
"""Heights in inches: of a row with a note and without, under the last mark, of text over a mark, of a line of text."""

_AXIS: Final = 0.5
_SIDE: Final = 0.15
"""Margins in inches: for the axis at the bottom, and at either side."""

_TITLE_SHOWN: Final = 44
_NOTE_SHOWN: Final = 80
"""Characters that fit into a line."""


_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A horizontal interval with the weight of its line in points; `below` draws it under the others of its row."""

    low: float
    high: float
    weight: float
    color: str = ACCENT
    below: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a plot of effects: two lines of text, dots for single units, bars for intervals, a mark for the mean.

    `hollow` dots are drawn as rings.
    """

    title: str
    note: str
    right: str = ""
    dots: tuple[float, ...] = ()
    hollow: tuple[float, ...] = ()
    bars: tuple[Bar, ...] = ()
    mean: float | None = None


def effects_plot(name: str, rows: Sequence[Row], label: str, alt: str) -> str:
    """Draw effects around zero, one row each, top down.

    Args:
        name: of the plot, unique in the page.
        rows: what to draw; one or more.
        label: what the horizontal axis shows, with its unit.
        alt: the plot in words, for those who cannot see it.
    """
    heights = [_NOTED if row.note else _BARE for row in rows]
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # the stubs list keys, not values
        figure, axes = _figure(sum(heights))
        axes.axvline(0, color=LINE, linewidth=1, zorder=1)
        for place, row in enumerate(rows):
            _draw(axes, row, sum(heights[place + 1 :]))
        axes.margins(x=0.04)
        axes.set_ylim(-_FOOT, sum(heights) - _FOOT)
        axes.set_xlabel(_clipped(label, _NOTE_SHOWN))
        axes.xaxis.set_major_formatter("{x:+g}")
        return _svg(figure, name, alt)


def bars_plot(name: str, bars: Sequence[tuple[str, float]], label: str, alt: str) -> str:
    """Draw amounts from zero on, one row each, with the amount at the end of its title line."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # as above
        figure, axes = _figure(_BARE * len(bars))
        for place, (title, amount) in enumerate(bars):
            height = _BARE * (len(bars) - 1 - place)
            axes.barh(height, amount, height=0.1, color=ACCENT)
            _titles(axes, height + _ABOVE, title, f"{amount:.1f}")
        axes.set_ylim(-_FOOT, _BARE * len(bars) - _FOOT)
        axes.set_xlim(left=0)
        axes.set_xlabel(_clipped(label, _NOTE_SHOWN))
        return _svg(figure, name, alt)


def _figure(inches: float) -> tuple[Figure, Axes]:
    """Return an empty drawing whose vertical unit is about an inch."""
    height = inches + _AXIS
    figure = Figure(figsize=(WIDTH, height))
    # Margins are fixed: a layout that makes room for long texts would squeeze the drawing to nothing.
    axes = figure.add_axes((_SIDE / WIDTH, _AXIS / height, 1 - 2 * _SIDE / WIDTH, inches / height))
    for item in (figure.patch, axes.patch):
        item.set_visible(False)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_yticks([])
    return figure, axes


def _draw(axes: Axes, row: Row, height: float) -> None:
    for bar in row.bars:
        level = height - 0.08 if bar.below else height
        axes.plot(
            [bar.low, bar.high], [level, level],
            color=bar.color, linewidth=bar.weight, solid_capstyle="butt", zorder=2,
        )  # fmt: skip
    for dots, face in ((row.dots, INK), (row.hollow, "none")):
        axes.plot(
            dots, [height] * len(dots), linestyle="none", marker="o", markersize=5, alpha=0.6, zorder=3,
            markerfacecolor=face, markeredgecolor=INK, markeredgewidth=0.9,
        )  # fmt: skip
    if row.mean is not None:
        axes.plot(
            [row.mean], [height], linestyle="none", marker="D", markersize=6.5, zorder=4,
            markerfacecolor=WARM, markeredgecolor=GROUND, markeredgewidth=1,
        )  # fmt: skip
    _titles(axes, height + _ABOVE + (_LINE if row.note else 0), row.title, row.right)
    if row.note:
        axes.text(
            0,
            height + _ABOVE,
            _clipped(row.note, _NOTE_SHOWN),
            transform=axes.get_yaxis_transform(),
            fontsize=8.5,
            color=MUTED,
        )


def _titles(axes: Axes, height: float, left: str, right: str) -> None:
    across = axes.get_yaxis_transform()
    axes.text(0, height, _clipped(left, _TITLE_SHOWN), transform=across)
    axes.text(1, height, _clipped(right, _TITLE_SHOWN), transform=across, ha="right")


def _clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _svg(figure: Figure, name: str, alt: str) -> str:
    written = io.StringIO()
    FigureCanvasSVG(figure).print_svg(written, metadata=_METADATA)  # type: ignore[no-untyped-call]
    text = written.getvalue()
    text = text[text.index("<svg") :]
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    # A style element inside would rule the whole page; the page has these two rules for its drawings itself.
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL).replace("font-family: 'DejaVu Sans'; ", "")
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    # The page sets the size; the numbers of the drawing keep its shape.
    text = re.sub(r'^<svg[^>]* viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" role="img" aria-label="@">', text)
    return text.replace('aria-label="@"', f'aria-label="{html.escape(alt)}"', 1).strip()
