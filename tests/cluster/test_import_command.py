"""`vrm import` as a command, in all its forms, against Postgres and the installation's owners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import ClusterInfo
from records.fields import UNSCOPED
from tests.cluster.installation import Installation
from tests.data.legacy import bundle_to, real_rows, write_ledger
from tests.data.tables import run_lines, write_runs

ROOT = Path(__file__).parents[2]


class Command:
    """The installed command, in an environment that points at the test's services."""

    def __init__(self, place: Installation, ray_cluster: ClusterInfo, home: Path) -> None:
        self._environment = os.environ | ray_cluster.environment() | {
            "VRM_HOME": str(home),
            "VRM_LEDGER_DSN": place.ledger_database.app,
            "VRM_LEDGER_ADMIN_DSN": place.ledger_database.admin,
            "VRM_RUNTIME_DSN": place.runtime_database.app,
            "VRM_RUNTIME_ADMIN_DSN": place.runtime_database.admin,
            "VRM_ARTIFACTS_URL": str(place.folder),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def __call__(self, *arguments: str) -> Any:
        """Run it to its end and return the JSON value that it printed."""
        done = subprocess.run(
            [sys.executable, "-c", "from vrm.cli import main; main()", *arguments, "--json"],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return json.loads(done.stdout)


@pytest.fixture
def vrm(place: Installation, ray_cluster: ClusterInfo, open_path: Path) -> Command:
    """The command of one installation."""
    return Command(place, ray_cluster, open_path / "h")


@pytest.mark.slow
def test_both_imports_and_a_clean_check(place: Installation, vrm: Command, open_path: Path) -> None:
    folder = bundle_to(open_path / "bundle")
    ledger = write_ledger(open_path / "ledger.sqlite", real_rows(), revision=1, wal=True)
    before = ledger.read_bytes()
    assert vrm("import", "phase3", str(folder))["written"]["new_records"] == 84
    own = 145 - (32 + 34 + 11)  # the rest are records of the bundle
    assert vrm("import", "ai-researcher", str(ledger))["written"]["new_records"] == own + 1
    assert ledger.read_bytes() == before
    head = place.ledger.namespace_head(UNSCOPED)
    assert (head.position, head.evidence, head.lifecycle) == (84 + own + 1, 0, 0)
    assert place.fsck().clean


@pytest.mark.slow
def test_a_table_of_arms_becomes_one_rule_and_one_refusal(place: Installation, vrm: Command, open_path: Path) -> None:
    """Six runs an arm: one record shows an effect at equal length, the other changes its length and is confounded."""
    folder = write_runs(open_path / "table", run_lines(6), runs=6)
    assert vrm("import", "table", str(folder))["new_records"] > 30 * 7
    vrm("distil")
    (rule,) = vrm("knowledge", "list", "--metric", "loss")  # others may have left rules of theirs in this place
    assert rule["disposition"] == "active"
    assert rule["record"]["scope"]["budget_class"] == "short/1xbox/steps:10"
    knob = rule["record"]["target"]["knob"]
    assert (knob["name"], knob["from_value"], knob["to_value"]) == ("first", '"old"', '"new"')
    assert place.fsck().clean
