"""Metrics: counts that an independent reading of the Ledger gives, closed labels, and times from the events."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from memory.trace.costs import Component, CostBook, Meter
from memory.trace.metrics import COUNTED, EventTimes, Standing, registry_of
from records.base import KINDS
from tests.data.world import World
from tests.support.trials import NOW
from tests.unit.facts_world import filled_world
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores
from vrm.home import Home

Samples = dict[tuple[str, tuple[str, ...]], float]
"""Values by the name of the sample and the values of its labels, in the order of their names."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return filled_world(tmp_path_factory.mktemp("world"))


def _standing(world: World, home: Home) -> Standing:
    return Standing(world.ledger, world.runtime.phase_counts, CostBook(home.costs), EventTimes(home.events))


def _samples(text: str) -> Samples:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "logs").mkdir()
    return Home(tmp_path)


@pytest.fixture
def samples(world: World, home: Home) -> Samples:
    return _samples(generate_latest(registry_of(_standing(world, home))).decode())


def test_counts_are_those_of_the_records(world: World, samples: Samples) -> None:
    records = {noun: [each.load() for each in world.ledger.find(noun, world.namespace)] for noun in KINDS}
    for each in COUNTED:
        fields = (tuple(str(getattr(record, name)) for name in sorted(each.labels)) for record in records[each.noun])
        assert {labels: value for (name, labels), value in samples.items() if name == each.name} == Counter(fields)
    kinds = {labels[0]: value for (name, labels), value in samples.items() if name == "vrm_records"}
    assert kinds == {noun: len(found) for noun, found in records.items() if found}
    assert samples["vrm_scope_variant_heads", ("active",)] == 1
    assert samples["vrm_decisions", ("completed", "ok")] == 3
    assert samples["vrm_runtime_subjects", ("authorization", "COMMITTED")] == 51


def test_a_new_process_says_the_same(world: World, home: Home, samples: Samples) -> None:
    assert _samples(generate_latest(registry_of(_standing(world, home))).decode()) == samples


def test_labels_are_closed_lists(samples: Samples) -> None:
    labels = {label for _, values in samples for label in values}
    assert not [label for label in labels if ":" in label or len(label) > 40]


def test_each_event_is_counted_once_by_many_readers(home: Home) -> None:
    line = json.dumps({"event": "index.built", "seconds": 2}) + "\n"
    home.events.write_text(line * 2000, encoding="utf-8")
    times = EventTimes(home.events)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: times.read(), range(8)))
    (found,) = [each for each in times.metrics() if each.name == "vrm_index_build_seconds"]
    assert [each.value for each in found.samples if each.name.endswith("_count")] == [2000]


def test_times_are_those_of_the_events(world: World, home: Home) -> None:
    lines = [{"event": "recall.answered", "status": "ok", "seconds": each} for each in (0.004, 0.02, 3.0, 100.0)]
    lines += [
        {"event": "recall.answered", "status": "blocked", "seconds": 0.001},
        {"event": "index.built", "seconds": 2},
    ]
    home.events.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    standing = _standing(world, home)
    found = _samples(generate_latest(registry_of(standing)).decode())
    assert found["vrm_recall_seconds_bucket", ("0.005", "ok")] == 1
    assert found["vrm_recall_seconds_bucket", ("0.025", "ok")] == 2
    assert found["vrm_recall_seconds_bucket", ("+Inf", "ok")] == found["vrm_recall_seconds_count", ("ok",)] == 4
    assert found["vrm_recall_seconds_sum", ("ok",)] == pytest.approx(103.024)
    assert found["vrm_index_build_seconds_count", ()] == 1
    with home.events.open("a", encoding="utf-8") as file:
        file.write(json.dumps(lines[0]) + "\n")
    again = _samples(generate_latest(registry_of(standing)).decode())
    assert again["vrm_recall_seconds_count", ("ok",)] == 5, "the same process reads on"


def test_costs_are_sums_of_the_statements(world: World, home: Home) -> None:
    for _ in range(2):
        with Meter(CostBook(home.costs), world.namespace, lambda: NOW).measured(Component.DISTILLATION, "x"):
            pass
    found = _samples(generate_latest(registry_of(_standing(world, home))).decode())
    stated = sum(each.amount for each in CostBook(home.costs).read())
    assert found["vrm_cost_seconds_total", ("distillation",)] == pytest.approx(stated)


def _invoke(world: World, home: Home, *arguments: str) -> Any:
    @contextmanager
    def stores() -> Iterator[OpenStores]:
        yield world

    return CliRunner().invoke(app, list(arguments), obj=Connection(stores, list, home=lambda: home))


def test_the_command_prints_the_exposition_format_and_json(world: World, home: Home, samples: Samples) -> None:
    shown = _invoke(world, home, "metrics")
    assert shown.exit_code == 0, shown.output
    assert _samples(shown.stdout) == samples
    value = json.loads(_invoke(world, home, "metrics", "--json").stdout)
    assert value["vrm_decisions"]["type"] == "gauge"
    assert sum(each["value"] for each in value["vrm_decisions"]["samples"]) == 8


def test_what_is_served_is_what_is_printed(world: World, home: Home, samples: Samples) -> None:
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry_of(_standing(world, home)))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:  # loopback
            assert _samples(answer.read().decode()) == samples
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
