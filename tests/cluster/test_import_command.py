"""`vrm import` as a command, in all its forms, against Postgres and the installation's owners."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.fields import UNSCOPED
from tests.cluster.installation import Installation
from tests.cluster.product import Product
from tests.data.legacy import bundle_to, real_rows, write_ledger
from tests.data.tables import run_lines, write_runs


@pytest.mark.slow
def test_both_imports_and_a_clean_check(place: Installation, product: Product, open_path: Path) -> None:
    folder = bundle_to(open_path / "bundle")
    ledger = write_ledger(open_path / "ledger.sqlite", real_rows(), revision=1, wal=True)
    before = ledger.read_bytes()
    assert product("import", "phase3", str(folder))["written"]["new_records"] == 84
    own = 145 - (32 + 34 + 11)  # the rest are records of the bundle
    assert product("import", "ai-researcher", str(ledger))["written"]["new_records"] == own + 1
    assert ledger.read_bytes() == before
    head = place.ledger.namespace_head(UNSCOPED)
    assert (head.position, head.evidence, head.lifecycle) == (84 + own + 1, 0, 0)
    assert place.fsck().clean


@pytest.mark.slow
def test_a_table_of_arms_becomes_one_rule_and_one_refusal(
    place: Installation, product: Product, open_path: Path
) -> None:
    """Six runs an arm: one record shows an effect at equal length, the other changes its length and is confounded."""
    folder = write_runs(open_path / "table", run_lines(6), runs=6)
    assert product("import", "table", str(folder))["new_records"] > 30 * 7
    product("distil")
    (rule,) = product("knowledge", "list", "--metric", "loss")  # others may have left rules of theirs in this place
    assert rule["disposition"] == "active"
    assert rule["record"]["scope"]["budget_class"] == "short/1xbox/steps:10"
    knob = rule["record"]["target"]["knob"]
    assert (knob["name"], knob["from_value"], knob["to_value"]) == ("first", '"old"', '"new"')
    assert place.fsck().clean
