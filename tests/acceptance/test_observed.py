"""A real round as it can be observed afterwards: traced, paid for, told and counted, by commands of other processes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from memory.trace.events import EVENTS, LOST, WITHHELD
from tests.acceptance.conftest import Product
from vrm.mainjob.plan import SMALL, held_out_tasks

DECISIONS = len(held_out_tasks(SMALL)) * 2 * SMALL.decisions
MEMORY_COSTS = ("distillation", "index_build", "retrieval")


def _round(product: Product, first_round: dict[str, Any]) -> dict[str, Any]:
    """Return the trace of the decisions of the first round; later ones of the session may have added more."""
    wanted = {
        decision["intent_id"]
        for trial in first_round["facts"]["held_out"]["trials"]
        for arm in ("control", "memory")
        for decision in trial[arm]["decisions"]
    }
    found = product.json("trace", "--costs")
    found["decisions"] = [each for each in found["decisions"] if each["intent_id"] in wanted]
    assert len(found["decisions"]) == len(wanted) == DECISIONS
    return dict(found)


def test_vrm_o04_every_decision_of_a_round_is_one_whole_chain(product: Product, first_round: dict[str, Any]) -> None:
    decisions = _round(product, first_round)["decisions"]
    assert not [each["breaks"] for each in decisions if each["breaks"]]
    told = {
        each["intent_id"]: each
        for trial in first_round["facts"]["held_out"]["trials"]
        for arm in ("control", "memory")
        for each in trial[arm]["decisions"]
    }
    for each in decisions:
        facts = told[each["intent_id"]]
        assert each["after"] == facts["tried_test"], "the report reads the same result in another way"
        assert [card["reason"] for card in each["cards"]] == [card["reason"] for card in facts["cards"]]
        assert each["executed_config_digest"] == facts["config_digest"]
        assert each["attempt_id"] is None or (each["before"] is not None and each["seconds"] > 0)
    adopted = [card for each in decisions for card in each["cards"] if card["verdict"] == "adopted"]
    assert adopted, "the rule that the sweep finds is recalled and followed"
    assert all(card["evidence"] and card["mapped_to"] for card in adopted)


def test_vrm_o06_every_component_of_a_round_was_measured(product: Product, first_round: dict[str, Any]) -> None:
    costs = _round(product, first_round)["costs"]
    components = {each["component"]: each for each in costs["components"]}
    for name in (*MEMORY_COSTS, "prompt_tokens", "downstream_task"):
        assert components[name]["complete"], components[name]
        assert components[name]["of"] > 0
    assert all(components[name]["amount"] > 0 for name in MEMORY_COSTS)
    share = costs["per_valid_improvement"]["memory_seconds"]
    spent = sum(components[name]["amount"] for name in MEMORY_COSTS)
    if costs["valid_improvements"]:
        assert abs(share["value"] * costs["valid_improvements"] - spent) < 1e-6 * spent
    else:
        assert share == {"kind": "positive_infinity"}


def test_events_of_all_processes_are_in_one_file_without_a_text(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    lines = (product.home / "logs" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    names = Counter(each["event"] for each in told)
    assert set(names) <= set(EVENTS) - {LOST}
    assert {"recall.answered", "strata.formed", "index.built", "decision.ended", "cost.stated"} <= set(names)
    records = product.json("status")["records"]
    assert (
        len({each["outcome"] for each in told if each["event"] == "decision.ended"})
        == records["recall-decision-outcome"]
    )
    assert not [line for line in lines if WITHHELD in line]
    assert not [line for line in lines if "postgresql" in line or str(product.home) in line]


def test_metrics_are_those_of_the_stores(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    records = product.json("status")["records"]
    families = {each.name: each for each in text_string_to_metric_families(product.call("metrics"))}
    assert {each.labels["kind"]: each.value for each in families["vrm_records"].samples} == records
    assert sum(each.value for each in families["vrm_decisions"].samples) == records["recall-decision-outcome"]
    seconds = {each.labels.get("status"): each.value for each in families["vrm_recall_seconds"].samples
               if each.name.endswith("_count")}  # fmt: skip
    assert sum(seconds.values()) >= records["decision-recall-context"]
