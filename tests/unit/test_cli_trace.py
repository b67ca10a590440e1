"""`vrm trace` as a user runs it, and its plot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from evaluation.mediation import mediation
from memory.trace.costs import Component, CostBook, Meter
from memory.trace.reading import Asked, read_traces
from records.decisions import RecallContext
from tests.data.world import World
from tests.support.trials import NOW
from tests.unit.facts_world import filled_world
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores
from vrm.home import Home
from vrm.report.funnel import draw_funnel


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return filled_world(tmp_path_factory.mktemp("world"))


def _run(world: World, home: Path, *arguments: str) -> Any:
    @contextmanager
    def stores() -> Iterator[OpenStores]:
        yield world

    joined = Connection(stores, list, home=lambda: Home(home))
    return CliRunner().invoke(app, ["trace", *arguments], obj=joined, env={"COLUMNS": "240", "NO_COLOR": "1"})


def _json(world: World, home: Path, *arguments: str) -> Any:
    answer = _run(world, home, *arguments, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_the_trace_of_a_namespace(world: World, tmp_path: Path) -> None:
    found = _json(world, tmp_path, "--namespace", "world")
    assert len(found["decisions"]) == found["mediation"]["decisions"] == 8
    assert found["mediation"]["breaks"] == {"link_missing": 1, "mapping_differs": 1}
    share = found["mediation"]["metrics"]["manifest_fidelity"]
    assert (share["numerator"], share["denominator"]) == (5, 6)
    assert "gain" not in json.dumps(found["mediation"]["stages"]).lower()
    assert set(found) == {"mediation", "decisions"}


def test_one_decision_in_full(world: World, tmp_path: Path) -> None:
    every = _json(world, tmp_path, "--namespace", "world")["decisions"]
    wanted = next(each for each in every if each["arm"] == "memory" and each["cards"])
    digits = wanted["intent_id"].partition(":")[2][:16]
    (found,) = _json(world, tmp_path, "--intent", digits)["decisions"]
    assert found["intent_id"] == wanted["intent_id"]
    shown = _run(world, tmp_path, "--intent", digits).stdout
    assert "manipulation check" in shown
    assert wanted["cards"][0]["reason"] in shown


def test_the_decisions_of_one_run(world: World, tmp_path: Path) -> None:
    every = _json(world, tmp_path, "--namespace", "world")["decisions"]
    study = next(each for each in every if each["pair"] == "pair-1")
    (found,) = _json(world, tmp_path, "--namespace", "world", "--run", study["run_id"])["decisions"]
    assert found["intent_id"] == study["intent_id"]
    assert [each["what"] for each in found["breaks"]] == ["link_missing"]


def test_a_run_is_traced_in_its_own_namespace(world: World, tmp_path: Path) -> None:
    every = _json(world, tmp_path, "--namespace", "world")["decisions"]
    study = next(each for each in every if each["pair"] == "pair-1")
    assert len(_json(world, tmp_path, "--run", study["run_id"])["decisions"]) == 1


def test_text_tells_shares_with_their_denominators(world: World, tmp_path: Path) -> None:
    shown = _run(world, tmp_path, "--namespace", "world").stdout
    assert re.search(r"manifest fidelity\s+0\.833\s+5 of 6", shown)
    assert "paired verified outcome delta: -0.0125 over 2 tasks" in shown
    assert "link_missing" in shown


def test_costs_beside_it(world: World, tmp_path: Path) -> None:
    with Meter(CostBook(tmp_path / "costs.jsonl"), "world", lambda: NOW).measured(Component.RETRIEVAL, "x") as spent:
        contexts = [each.load() for each in world.ledger.find("decision-recall-context", "world")]
        spent.on = [each.intent_id for each in contexts if isinstance(each, RecallContext)]
    costs = _json(world, tmp_path, "--namespace", "world", "--costs")["costs"]
    retrieval = next(each for each in costs["components"] if each["component"] == "retrieval")
    assert (retrieval["measured"], retrieval["of"], retrieval["complete"]) == (4, 4, True)
    assert costs["per_valid_improvement"]["memory_seconds"] is None, "distillation was not measured"
    assert costs["per_valid_improvement"]["prompt_tokens"] == {"kind": "positive_infinity"}
    shown = _run(world, tmp_path, "--namespace", "world", "--costs").stdout
    assert re.search(r"distillation\s+0\s+seconds\s+0 of 24", shown)
    assert "infinite: there is none" in shown


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--run", "3f", "--intent", "3f"), "--intent"),
        (("--plot", "trace.png"), "--plot"),
        (("--plot", "nowhere/trace.svg"), "--plot"),
        (("--intent", "ffffffffffff"), "decision-intent"),
        (("--namespace", "No Name"), "namespace"),
    ],
)
def test_what_cannot_be_asked_is_refused(world: World, tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    answer = _run(world, tmp_path, *arguments, "--json")
    assert answer.exit_code == 2
    assert word in answer.stdout


def test_a_namespace_without_decisions(world: World, tmp_path: Path) -> None:
    assert "No decision was admitted here yet" in _run(world, tmp_path, "--namespace", "nothing").stdout
    assert _json(world, tmp_path, "--namespace", "nothing")["decisions"] == []
    assert _run(world, tmp_path, "--namespace", "nothing", "--plot", str(tmp_path / "x.svg")).exit_code == 2


class TestPlot:
    """Every decision is drawn, and the bars are the counts."""

    def test_marks_and_bars(self, world: World, tmp_path: Path) -> None:
        path = tmp_path / "trace.svg"
        found = _json(world, tmp_path, "--namespace", "world", "--plot", str(path))
        assert found["plot"] == str(path)
        ids = [each.get("id", "") for each in ET.parse(path).iter()]  # noqa: S314  # our own file
        stages = sum(len(each) for each in found["mediation"]["funnel"].values())
        assert sum(each.startswith("bar-") for each in ids) == stages
        decisions = found["decisions"]
        marks = sum(8 if each["requirement"] == "REQUIRED" else 4 for each in decisions)
        assert sum(each.startswith("mark-") for each in ids) == marks == 4 * 8 + 4 * 4
        broken = sum(bool(each["breaks"]) for each in decisions)
        assert sum(each.startswith("break-") for each in ids) == broken == 2

    def test_the_same_trace_gives_the_same_bytes(self, world: World) -> None:
        with world.ledger.reading() as reader:
            traced = read_traces(reader, Asked(namespace="world"))
        found = mediation(traced.traces, traced.fidelity)
        assert draw_funnel(found, traced.traces) == draw_funnel(found, traced.traces)
        assert b"dc:date" not in draw_funnel(found, traced.traces)
        with pytest.raises(ValueError, match="one decision"):
            draw_funnel(found, [])
