"""The forest plot of one rule, for a page or a paper: PNG, SVG or PDF.

Rules kept here:

- one row per effect unit, largest effect first; the area of a mark grows with the pairs or runs behind it; what
  supports the rule, what contradicts it and what ties differ by shape as well as by colour (Okabe and Ito's, safe for
  colour-blind readers);
- below them the mean with its interval as a diamond, and the prediction interval for one new unit as a bar, each named;
- what lies outside the drawing is marked by an arrow at its edge; its figures stand beside it in any case. Only a unit
  far from the others is left outside, so that it does not squeeze them to a line;
- the same forest gives the same bytes: fixed hash salt, no date, no generator.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from policies.statistics import Bounds
from vrm.report.words import MINUS


class Side(StrEnum):
    """What a unit says of the rule."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    TIES = "tie"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """One effect unit; `pairs` are the pairs or runs behind it, `seeds` its single pairs where they disagree."""

    label: str
    effect: float
    pairs: int
    side: Side
    interval: Bounds | None = None
    seeds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """What is drawn: everything as it was decided on.

    Attributes:
        title: the claim; subtitle: where the rule stands; footer: how the figures came about, line by line.
        metric: what the axis shows; unit: in which unit; better_up: whether larger is better.
        noun: what one row is; counted: what its mark is sized by.
        mean_range: the range of the units, where there is no interval of the mean.
        level: nominal coverage of every interval, as a share.
        margin: the equivalence margin; zero draws no band.
    """

    title: str
    subtitle: str
    footer: tuple[str, ...]
    metric: str
    unit: str
    better_up: bool
    noun: str
    counted: str
    rows: tuple[ForestRow, ...]
    mean: float
    mean_interval: Bounds | None
    mean_range: Bounds | None
    prediction: Bounds | None
    level: float
    margin: float


WIDTH: Final = 7.2  # inches: the text width of a page with two columns
_LEFT: Final = 1.7
_RIGHT: Final = 2.4
_PAIRS: Final = 0.38
_EFFECT: Final = 0.98
_ROW: Final = 0.23
_TIGHT_ROW: Final = 0.185
_MANY: Final = 30
_HEAD: Final = 0.26
_LINE: Final = 0.165
_AXIS: Final = 0.74
_EDGE: Final = 0.12
"""Lengths in inches: the columns beside the axis and where they end, a row, the line of column heads, a line of text,
the axis with its legend, the edge of the page."""

_LARGEST: Final = 9.0
_SMALLEST: Final = 4.0
"""Sides of the largest and the smallest mark, in points."""

_FAR: Final = 8.0
_FEW: Final = 5
"""From so many units on, one that is further from their median than so many robust standard deviations is far away."""

_TO_SD: Final = 1.4826
"""What makes the median absolute deviation the standard deviation of a normal distribution."""

_DECIMALS: Final = 6

_COLORS: Final = {Side.SUPPORTS: "#0072B2", Side.CONTRADICTS: "#D55E00", Side.TIES: "#6E6E6E"}
_MARKS: Final = {Side.SUPPORTS: "s", Side.CONTRADICTS: "v", Side.TIES: "o"}
_INK: Final = "#111111"
_MUTED: Final = "#555555"
_BAND: Final = "#E4E8EC"
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vrm-forest",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.edgecolor": _MUTED,
    "xtick.color": _INK,
    "axes.unicode_minus": True,
}
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
FORMATS: Final = tuple(_METADATA)


def draw_forest(forest: Forest, form: str) -> bytes:
    """Return the plot in one of `FORMATS`.

    Raises:
        ValueError: there is no row, or no such format.
    """
    if not forest.rows or form not in _METADATA:
        raise ValueError(f"{len(forest.rows)} rows as {form}: give one or more, as {', '.join(FORMATS)}")
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # the stubs list keys, not values
        figure = _figure(forest)
        written = io.BytesIO()
        figure.savefig(written, format=form, dpi=200, metadata=_METADATA[form])
    return written.getvalue()


def _figure(forest: Forest) -> Figure:
    title = textwrap.wrap(forest.title, 84)
    above = _EDGE + _LINE * (len(title) * 1.1 + 1.6)
    footer = [line for part in forest.footer for line in textwrap.wrap(part, 118)]
    below = _AXIS + _LINE * 0.9 * len(footer) + _EDGE
    row = _row_height(forest)
    inside = _HEAD + row * (len(forest.rows) + 2.6)
    height = above + inside + below
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes(
        (_LEFT / WIDTH, below / height, (WIDTH - _LEFT - _RIGHT) / WIDTH, inside / height), facecolor="none"
    )
    _prepare(axes, forest, inside)
    for place, each in enumerate(_ordered(forest)):
        _draw_row(axes, forest, each, (place, inside - _HEAD - row * (place + 0.5)))
    _draw_summary(axes, forest, row)
    _write(figure, title, forest.subtitle, footer)
    return figure


def _row_height(forest: Forest) -> float:
    return _ROW if len(forest.rows) <= _MANY else _TIGHT_ROW


def _ordered(forest: Forest) -> Sequence[ForestRow]:
    return sorted(forest.rows, key=lambda row: (-row.effect if forest.better_up else row.effect, row.label))


def limits(forest: Forest) -> Bounds:
    """Return what the axis shows: everything, but units that are far away from the others and what reaches there."""
    effects = [row.effect for row in forest.rows]
    kept = [0.0, -forest.margin, forest.margin, forest.mean]
    spans = [forest.mean_interval, forest.mean_range, forest.prediction, *(row.interval for row in forest.rows)]
    every = kept + effects + [end for span in spans if span is not None for end in (span.low, span.high)]
    every += [seed for row in forest.rows for seed in row.seeds]
    low, high = min(every), max(every)
    centre = median(effects)
    spread = _TO_SD * median(abs(effect - centre) for effect in effects)
    if len(effects) >= _FEW and spread > 0:
        reach = _FAR * spread
        low, high = max(low, min(centre - reach, *kept)), min(high, max(centre + reach, *kept))
    room = 0.04 * (high - low) or 1.0
    return Bounds(low - room, high + room)


def _prepare(axes: Axes, forest: Forest, inside: float) -> None:
    shown = limits(forest)
    axes.set_xlim(shown.low, shown.high)
    axes.set_ylim(0, inside)
    axes.set_yticks([])
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=7.5, length=3)
    axes.xaxis.set_major_formatter(lambda value, _: _said(value, ".4g") if value else "0")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"{forest.metric}, changed {MINUS} baseline ({forest.unit})", fontsize=8, labelpad=3)
    if forest.margin > 0:
        axes.axvspan(-forest.margin, forest.margin, ymax=1 - _HEAD / inside, color=_BAND, linewidth=0, zorder=0,
                     gid="equivalence")  # fmt: skip
    axes.plot([0, 0], [0, inside - _HEAD], color=_MUTED, linewidth=0.8, zorder=1, gid="zero")
    axes.plot([0, 1], [inside - _HEAD] * 2, transform=axes.get_yaxis_transform(), color=_MUTED, linewidth=0.6)
    head = inside - _HEAD + 0.07
    worse, better = ("\N{LEFTWARDS ARROW} worse", "better \N{RIGHTWARDS ARROW}")
    if not forest.better_up:
        worse, better = "\N{LEFTWARDS ARROW} better", "worse \N{RIGHTWARDS ARROW}"
    across = axes.get_yaxis_transform()
    axes.text(0, head, worse, transform=across, color=_MUTED, fontsize=7.5)
    axes.text(1, head, better, transform=across, color=_MUTED, fontsize=7.5, ha="right")
    _cells(axes, head, (forest.noun, forest.counted, "effect", f"{100 * forest.level:g} % interval"), color=_MUTED)
    axes.legend(
        handles=list(_legend(forest)), loc="upper center", bbox_to_anchor=(0.5, -0.44 / inside), ncols=5, frameon=False,
        fontsize=7, handletextpad=0.3, columnspacing=1.2, borderaxespad=0,
    )  # fmt: skip


def _legend(forest: Forest) -> Iterator[Line2D | Patch]:
    present = {row.side for row in forest.rows}
    for side in Side:
        if side in present:
            yield Line2D([], [], linestyle="none", markersize=5, label=side.value, **_mark(side))
    if any(row.seeds for row in forest.rows):
        yield Line2D([], [], linestyle="none", marker="|", color=_INK, markersize=6, label="seeds that disagree")
    if forest.margin > 0:
        yield Patch(color=_BAND, label=f"too small to matter (\N{PLUS-MINUS SIGN}{forest.margin:g})")


def _mark(side: Side) -> dict[str, Any]:
    color = _COLORS[side]
    face = "white" if side is Side.TIES else color
    return {"marker": _MARKS[side], "markerfacecolor": face, "markeredgecolor": color, "markeredgewidth": 1}


def _draw_row(axes: Axes, forest: Forest, row: ForestRow, at: tuple[int, float]) -> None:
    place, height = at
    color = _COLORS[row.side]
    shown = limits(forest)
    if row.interval is not None:
        _bar(axes, row.interval, height, {"color": color, "linewidth": 1.1, "zorder": 2, "gid": f"interval-{place}"})
    if row.seeds:
        axes.plot(
            row.seeds, [height] * len(row.seeds), linestyle="none", marker="|", markersize=6, color=_INK, zorder=3,
            gid=f"seeds-{place}",
        )  # fmt: skip
    most = max(each.pairs for each in forest.rows)
    size = max(_SMALLEST, _LARGEST * (row.pairs / most) ** 0.5)
    if shown.low <= row.effect <= shown.high:
        axes.plot(
            [row.effect], [height], linestyle="none", markersize=size, zorder=4, clip_on=False, gid=f"unit-{place}",
            **_mark(row.side),
        )  # fmt: skip
    else:
        _arrow(axes, (shown, height), up=row.effect > shown.high, color=color, gid=f"outside-{place}")
    said = _Figures(forest)
    cells = (_clipped(row.label), str(row.pairs), said.effect(row.effect), said.span(row.interval))
    _cells(axes, height - 0.04, cells)


def _draw_summary(axes: Axes, forest: Forest, row: float) -> None:
    line = row * 2.35
    axes.plot([0, 1], [line, line], transform=axes.get_yaxis_transform(), color=_MUTED, linewidth=0.6)
    said, number = _Figures(forest), len(forest.rows)
    label = f"mean of {number} {forest.noun}{'' if number == 1 else 's'}"
    pairs = str(sum(each.pairs for each in forest.rows))
    cells = (label, pairs, said.effect(forest.mean), said.span(forest.mean_interval))
    _cells(axes, row * 1.65 - 0.04, cells)
    _draw_mean(axes, forest, row)
    low = row * 0.65
    if forest.prediction is not None:
        _bar(axes, forest.prediction, low, {"color": _INK, "linewidth": 2.4, "zorder": 3, "gid": "prediction"})
        _cells(axes, low - 0.04, (f"one new {forest.noun}, predicted", "", "", said.span(forest.prediction)))
    elif forest.mean_range is not None:
        _cells(axes, low - 0.04, (f"range of the {forest.noun}s", "", "", said.span(forest.mean_range)))


def _draw_mean(axes: Axes, forest: Forest, row: float) -> None:
    """Draw the mean: a diamond as wide as its interval; a small one where it has none, over the range of two units."""
    height, span = row * 1.65, forest.mean_interval
    if span is None:
        if forest.mean_range is not None:
            _bar(axes, forest.mean_range, height, {"color": _INK, "linewidth": 1.1, "zorder": 2, "gid": "range"})
        axes.plot([forest.mean], [height], marker="D", markersize=6, color=_INK, linestyle="none", gid="mean")
        return
    half = 0.3 * row
    corners = [(span.low, height), (forest.mean, height + half), (span.high, height), (forest.mean, height - half)]
    axes.add_patch(Polygon(corners, closed=True, facecolor=_INK, edgecolor=_INK, linewidth=0.8, zorder=4, gid="mean"))
    _beyond(axes, span, height, (_INK, "mean"))


def _bar(axes: Axes, span: Bounds, height: float, style: dict[str, Any]) -> None:
    low, high = axes.get_xlim()
    axes.plot([max(span.low, low), min(span.high, high)], [height, height], solid_capstyle="butt", **style)
    _beyond(axes, span, height, (style["color"], style["gid"]))


def _beyond(axes: Axes, span: Bounds, height: float, named: tuple[str, str]) -> None:
    """Mark the ends of an interval that lie outside the drawing."""
    low, high = axes.get_xlim()
    for up, outside in ((False, span.low < low), (True, span.high > high)):
        if outside:
            _arrow(axes, (Bounds(low, high), height), up=up, color=named[0], gid=f"{named[1]}-beyond-{up:d}")


def _arrow(axes: Axes, at: tuple[Bounds, float], *, up: bool, color: str, gid: str) -> None:
    shown, height = at
    axes.plot(
        [shown.high if up else shown.low], [height], linestyle="none", marker=">" if up else "<", markersize=6,
        color=color, clip_on=False, zorder=5, gid=gid,
    )  # fmt: skip


def _cells(axes: Axes, height: float, cells: tuple[str, str, str, str], **style: Any) -> None:
    """Write the columns of a row: the label left of the axis; pairs, effect and interval right of it."""
    across = axes.get_yaxis_transform()
    axis = WIDTH - _LEFT - _RIGHT
    places = ((_EDGE - _LEFT) / axis, *(1 + place / axis for place in (_PAIRS, _EFFECT, _RIGHT - _EDGE)))
    for place, text in zip(places, cells, strict=True):
        axes.text(place, height, text, transform=across, ha="left" if place < 0 else "right", fontsize=7.5, **style)


def _write(figure: Figure, title: Sequence[str], subtitle: str, footer: Sequence[str]) -> None:
    height = float(figure.get_figheight())
    at = height - _EDGE - _LINE
    for line in title:
        figure.text(_EDGE / WIDTH, at / height, line, fontsize=9.5, weight="bold", color=_INK)
        at -= _LINE * 1.1
    figure.text(_EDGE / WIDTH, at / height, subtitle, fontsize=8, color=_MUTED)
    at = _EDGE + _LINE * 0.9 * (len(footer) - 1)
    for line in footer:
        figure.text(_EDGE / WIDTH, at / height, line, fontsize=6.8, color=_MUTED)
        at -= _LINE * 0.9


class _Figures:
    """Writes figures with as many decimals as their size asks for: three significant digits of an ordinary effect."""

    def __init__(self, forest: Forest) -> None:
        sizes = [abs(row.effect) for row in forest.rows]
        size = max(abs(forest.mean), median(sizes)) or 1.0
        self._form = f".{min(max(2 - math.floor(math.log10(size)), 0), _DECIMALS)}f"

    def effect(self, value: float) -> str:
        return _said(value, self._form)

    def span(self, span: Bounds | None) -> str:
        return "" if span is None else f"{_said(span.low, self._form)} to {_said(span.high, self._form)}"


def _said(value: float, form: str) -> str:
    if not value:
        return "0"
    said = f"{value:+{form}}"
    # What is not zero must not look like a tie.
    return (said if float(said) else f"{value:+.1g}").replace("-", MINUS)


def _clipped(text: str, length: int = 26) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
