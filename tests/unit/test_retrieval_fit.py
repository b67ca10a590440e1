"""Which fusion is chosen from a table: nowhere below a single source, not one step away either, then the best."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from evaluation.retrieval.fit import FLOORS, chosen_fusion, fusions
from policies.retrieval_policy import Fusion

Found = Mapping[str, tuple[float, float]]


def table(**special: Found) -> list[tuple[Fusion, Found]]:
    """Every fusion of the grid: 0.7 and 0.1 above a single source, but for those that are named by floor and weight."""
    plain = {"set": (0.7, 0.1)}
    return [(each, special.get(f"f{each.semantic_floor}_{each.lexical}", plain)) for each in fusions()]


def test_the_best_on_average_is_chosen() -> None:
    found = chosen_fusion(table(f400_4={"set": (0.8, 0.2)}))
    assert (found.semantic_floor, found.lexical, found.semantic, found.structured) == (400, 4, 5, 1)


@pytest.mark.parametrize("edge", ["f350_3", "f400_3", "f450_5"])
def test_a_loss_one_step_away_rules_a_fusion_out(edge: str) -> None:
    """Another one that is a little worse and stands on even ground is preferred."""
    found = chosen_fusion(
        table(**{"f400_4": {"set": (0.8, 0.2)}, "f100_6": {"set": (0.75, 0.15)}, edge: {"set": (0.5, -0.1)}})
    )
    assert (found.semantic_floor, found.lexical) == (100, 6)


def test_a_loss_two_steps_away_rules_nothing_out() -> None:
    low = {"set": (0.5, -0.1)}
    found = chosen_fusion(table(f400_4={"set": (0.8, 0.2)}, f400_2=low, f300_4=low, f500_4=low))
    assert (found.semantic_floor, found.lexical) == (400, 4)


def test_a_loss_of_one_set_is_not_made_up_for_by_another() -> None:
    mixed = {"one": (0.99, 0.3), "other": (0.6, -0.01)}
    even = {"one": (0.7, 0.1), "other": (0.6, 0.0)}
    given = [(each, mixed if each.semantic_floor == FLOORS[0] else even) for each in fusions()]
    assert chosen_fusion(given).semantic_floor not in FLOORS[:2]


def test_where_all_lose_the_least_loss_is_chosen() -> None:
    given = [(each, {"set": (0.6, -0.1 if each.semantic_floor >= 300 else -0.2)}) for each in fusions()]
    found = chosen_fusion(given)
    assert found.semantic_floor >= 350
    assert abs(found.lexical - found.semantic) == 1
