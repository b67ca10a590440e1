"""The plot of a report: every panel is drawn, whatever is missing, and a bad place is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.retrieval.measures import mean_of, share_of
from evaluation.retrieval.plot import draw_retrieval
from evaluation.retrieval.questions import Stratum
from records.errors import InvalidInputError, UnavailableError

MEASURES = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3")


def report(*, graded: bool = True) -> dict[str, Any]:
    """A report with a stratum that has no answers, as every report has one or may have."""
    figures = {**dict.fromkeys(MEASURES, mean_of([1.0, 0.9, 1.0])), "all_required": share_of(9, 10)}
    nothing = {**dict.fromkeys(MEASURES, mean_of([])), "all_required": share_of(0, 0)}
    strata = {stratum.value: nothing if stratum is Stratum.FORBIDDEN else figures for stratum in Stratum}
    halves = {"report": mean_of([0.5, 0.75]), **mean_of([0.5])}
    sets = [
        {
            "set": "one",
            **dict.fromkeys(("lexical", "semantic", "fused"), halves),
            "published": {"lexical": {"beside": 0.6}},
        },
        {"set": "two", **dict.fromkeys(("lexical", "semantic", "fused"), halves), "published": {}},
    ]
    checked = {name: {**figure, "threshold": 0.85} for name, figure in figures.items()}
    return {**checked, "strata": strata, "graded": sets if graded else []}


@pytest.mark.parametrize("graded", [True, False])
def test_every_name_of_a_report_is_in_its_plot(tmp_path: Path, graded: bool) -> None:
    place = tmp_path / "plot.svg"
    draw_retrieval(report(graded=graded), place)
    drawn = place.read_text(encoding="utf-8")  # matplotlib writes each text as a comment beside its glyphs
    wanted = ["candidate recall 20", "all required", "recall several", "decisions: 3 questions"]
    wanted += ["graded sets", "one", "two", "2 queries"] if graded else []
    assert [name for name in wanted if f"<!-- {name}" not in drawn] == []
    assert "<!-- forbidden" not in drawn, "nothing was measured there"
    assert ("graded sets" in drawn) is graded


def test_a_bad_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="plot"):
        draw_retrieval(report(), tmp_path / "plot.txt")
    with pytest.raises(UnavailableError, match="plot"):
        draw_retrieval(report(), tmp_path / "none" / "plot.png")
