"""The forest plot: every mark of the SVG stands where its value is, by the axis that is drawn under it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace

import pytest

from policies.statistics import Bounds
from vrm.report.forest import FORMATS, Forest, ForestRow, Side, draw_forest, limits

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
ROWS = (
    ForestRow(label="alpha", effect=0.12, pairs=9, side=Side.SUPPORTS, interval=Bounds(0.02, 0.22)),
    ForestRow(label="beta", effect=-0.06, pairs=4, side=Side.CONTRADICTS),
    ForestRow(label="gamma", effect=0.0, pairs=1, side=Side.TIES),
)
FOREST = Forest(
    title="Changing a <b>knob</b> & more improves the metric.", subtitle="active: recommend", footer=("n = 3 units.",),
    metric="balanced accuracy", unit="share", better_up=True, noun="root", counted="pairs", rows=ROWS, mean=0.02,
    mean_interval=Bounds(-0.2, 0.24), mean_range=None, prediction=Bounds(-0.3, 0.34), level=0.95, margin=0.01,
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A drawing, read back."""

    root: ET.Element

    @classmethod
    def of(cls, forest: Forest) -> Drawn:
        """Draw and read."""
        return cls(ET.fromstring(draw_forest(forest, "svg")))  # noqa: S314  # it was drawn here

    @property
    def texts(self) -> list[str]:
        """Every text, in the order in which it is drawn."""
        return ["".join(each.itertext()).strip() for each in self.root.iter(f"{SVG}text")]

    def named(self, name: str) -> ET.Element | None:
        """Return the group of a name."""
        return next((each for each in self.root.iter(f"{SVG}g") if each.get("id") == name), None)

    def names(self, pattern: str) -> list[str]:
        """Return the names of groups that match."""
        found = (each.get("id", "") for each in self.root.iter(f"{SVG}g"))
        return [name for name in found if re.fullmatch(pattern, name)]

    def marks(self, name: str) -> list[float]:
        """Return where the marks of a group stand, in the units of the axis."""
        group = self.named(name)
        assert group is not None, name
        return [self.value(float(use.get("x", "nan"))) for use in group.iter(f"{SVG}use")]

    def ends(self, name: str) -> tuple[float, float]:
        """Return the left and the right end of a line or polygon, in the units of the axis."""
        group = self.named(name)
        assert group is not None, name
        (path,) = [each for each in group.iter(f"{SVG}path") if not each.get("id")]
        places = [float(x) for x, _ in re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))]
        return self.value(min(places)), self.value(max(places))

    def value(self, x: float) -> float:
        """Return the value at a horizontal place, by the outermost labelled ticks."""
        ticks = []
        for name in self.names(r"xtick_\d+"):
            group = self.named(name)
            assert group is not None
            (use,) = group.iter(f"{SVG}use")
            (text,) = group.iter(f"{SVG}text")
            label = "".join(text.itertext()).strip().replace("\N{MINUS SIGN}", "-")
            ticks.append((float(use.get("x", "nan")), float(label)))
        (x0, v0), (x1, v1) = min(ticks), max(ticks)
        return v0 + (x - x0) * (v1 - v0) / (x1 - x0)


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    """The forest of this module."""
    return Drawn.of(FOREST)


def test_marks_stand_where_their_values_are(drawn: Drawn) -> None:
    # Rows are drawn largest effect first: alpha, gamma, beta.
    assert drawn.marks("unit-0") == [pytest.approx(0.12, abs=1e-4)]
    assert drawn.marks("unit-1") == [pytest.approx(0.0, abs=1e-4)]
    assert drawn.marks("unit-2") == [pytest.approx(-0.06, abs=1e-4)]
    assert drawn.ends("interval-0") == pytest.approx((0.02, 0.22), abs=1e-4)
    assert drawn.ends("mean") == pytest.approx((-0.2, 0.24), abs=1e-4)
    assert drawn.ends("prediction") == pytest.approx((-0.3, 0.34), abs=1e-4)
    assert drawn.ends("equivalence") == pytest.approx((-0.01, 0.01), abs=1e-4)
    assert drawn.ends("zero") == pytest.approx((0, 0), abs=1e-4)
    assert drawn.names(r"interval-\d+") == ["interval-0"]
    assert not drawn.names(r"outside-.*|.*-beyond-.*|seeds-.*")


def test_the_area_of_a_mark_is_its_pairs(drawn: Drawn) -> None:
    def side(place: int) -> float:
        group = drawn.named(f"unit-{place}")
        assert group is not None
        (path,) = [each for each in group.iter(f"{SVG}path") if each.get("id")]
        xs = [float(x) for x, _ in re.findall(r"[MLC] (\S+) (\S+)", path.get("d", ""))]
        return max(xs) - min(xs)

    assert side(0) ** 2 / side(2) ** 2 == pytest.approx(9 / 4, rel=0.01)


def test_sides_differ_by_shape_and_by_colour(drawn: Drawn) -> None:
    shapes, colours = set(), set()
    for place in range(3):
        group = drawn.named(f"unit-{place}")
        assert group is not None
        (path,) = [each for each in group.iter(f"{SVG}path") if each.get("id")]
        (use,) = group.iter(f"{SVG}use")
        shapes.add(re.sub(r"[\d.e -]+", " ", path.get("d", "")))
        colours.add(re.search(r"stroke: (#\w+)", use.get("style", "")))
    assert len(shapes) == len(colours) == 3


def test_what_is_written(drawn: Drawn) -> None:
    texts = drawn.texts
    for said in ("\N{LEFTWARDS ARROW} worse", "better \N{RIGHTWARDS ARROW}", "+0.1200", "0", "mean of 3 roots",
                 "14", "one new root, predicted", "n = 3 units.", "too small to matter (\N{PLUS-MINUS SIGN}0.01)",
                 "balanced accuracy, changed \N{MINUS SIGN} baseline (share)", "tie", "contradicts"):  # fmt: skip
        assert said in texts, said
    assert "Changing a <b>knob</b> & more improves the metric." in texts


def test_a_metric_that_should_fall_is_better_to_the_left() -> None:
    falling = Drawn.of(replace(FOREST, better_up=False))
    assert "\N{LEFTWARDS ARROW} better" in falling.texts
    assert "worse \N{RIGHTWARDS ARROW}" in falling.texts
    assert falling.marks("unit-0") == [pytest.approx(-0.06, abs=1e-4)]  # the best is first


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_forest_gives_the_same_bytes(form: str) -> None:
    first = draw_forest(FOREST, form)
    assert first == draw_forest(FOREST, form)
    for trace in (b"matplotlib", b"CreationDate", b"dc:date"):
        assert trace not in first.replace(b"matplotlib.axis", b""), trace


def test_one_unit_has_a_mean_and_no_interval() -> None:
    one = replace(FOREST, rows=ROWS[:1], mean=0.12, mean_interval=None, prediction=None)
    drawn = Drawn.of(one)
    assert drawn.marks("mean") == [pytest.approx(0.12, abs=1e-4)]
    assert not drawn.names("range|prediction")
    assert "mean of 1 root" in drawn.texts


def test_two_units_have_their_range() -> None:
    two = replace(FOREST, rows=ROWS[:2], mean=0.03, mean_interval=None, mean_range=Bounds(-0.06, 0.12), prediction=None)
    drawn = Drawn.of(two)
    assert drawn.ends("range") == pytest.approx((-0.06, 0.12), abs=1e-4)
    assert "range of the roots" in drawn.texts


def test_a_unit_far_from_the_others_is_an_arrow_with_its_figure() -> None:
    rows = tuple(
        ForestRow(label=f"r{place}", effect=effect, pairs=1, side=Side.SUPPORTS)
        for place, effect in enumerate((0.01, 0.02, 0.03, 0.02, 0.01, 55.0))
    )
    far = replace(FOREST, rows=rows, mean=9.18, mean_interval=Bounds(-14.0, 32.0), prediction=Bounds(-50.0, 70.0))
    drawn = Drawn.of(far)
    assert drawn.names("outside-.*") == ["outside-0"]
    assert "unit-0" not in drawn.names(r"unit-\d+")
    assert set(drawn.names(".*-beyond-.")) >= {"mean-beyond-1", "prediction-beyond-0", "prediction-beyond-1"}
    assert any(text.startswith("+55") for text in drawn.texts)
    # The axis still shows the mean, which must not be left out.
    shown = limits(far)
    assert shown.low < 0
    assert far.mean < shown.high < 55


def test_seeds_that_disagree_are_drawn_one_by_one() -> None:
    disputed = replace(ROWS[0], seeds=(0.3, 0.31, -0.07))
    drawn = Drawn.of(replace(FOREST, rows=(disputed, *ROWS[1:])))
    assert drawn.marks("seeds-0") == [pytest.approx(each, abs=1e-4) for each in disputed.seeds]
    assert "seeds that disagree" in drawn.texts


def test_sixty_units_are_sixty_rows() -> None:
    rows = tuple(
        ForestRow(label=f"root-{n:02d}", effect=(n - 20) / 1000, pairs=n + 1, side=Side.SUPPORTS) for n in range(60)
    )
    drawn = Drawn.of(replace(FOREST, rows=rows, mean=0.0095))
    assert len(drawn.names(r"unit-\d+")) == 60
    assert [text for text in drawn.texts if text.startswith("root-")] == [f"root-{n:02d}" for n in range(59, -1, -1)]


def test_what_is_almost_nothing_does_not_look_like_a_tie() -> None:
    rows = (replace(ROWS[0], effect=0.3), replace(ROWS[1], effect=-0.0000021))
    assert "\N{MINUS SIGN}2e\N{MINUS SIGN}06" in Drawn.of(replace(FOREST, rows=rows)).texts


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="one or more"):
        draw_forest(replace(FOREST, rows=()), "svg")
    with pytest.raises(ValueError, match="as gif"):
        draw_forest(FOREST, "gif")
