"""`vrm runs` as a user gives it: processes of their own, over Postgres and the installation's owners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import ClusterInfo
from memory.ports import all_good
from records.states import Machine, Phase
from tests.cluster.installation import Installation, Study

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_run_is_paused_resumed_and_cancelled_while_decisions_are_open(
    place: Installation, study: Study, ray_cluster: ClusterInfo, open_path: Path
) -> None:
    environment = os.environ | ray_cluster.environment() | {
        "VRM_HOME": str(open_path / "h"),
        "VRM_LEDGER_DSN": place.ledger_database.app,
        "VRM_LEDGER_ADMIN_DSN": place.ledger_database.admin,
        "VRM_RUNTIME_DSN": place.runtime_database.app,
        "VRM_RUNTIME_ADMIN_DSN": place.runtime_database.admin,
        "VRM_ARTIFACTS_URL": str(place.folder),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def vrm(*arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", "from vrm.cli import main; main()", "runs", *arguments, "--json"],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
        return json.loads(done.stdout)

    run = str(study.run.id)
    receipts = all_good(place.spine.carry(study.proposals(1, 2)))
    assert all(receipt.committed for receipt in receipts)
    assert vrm("budget", run, "model_tokens=1000")["budget"][0]["limit"] == 1000
    assert vrm("pause", run, "--reason", "the cluster is needed")["phase"] == "PAUSED"
    (listed,) = [each for each in vrm("list", "--phase", "PAUSED")["runs"] if each["id"] == run]
    assert listed["open"]["decision"] == {"OPEN": 2}
    assert vrm("resume", run)["phase"] == "RUNNING"
    study.grant(3)
    assert vrm("pause", run, code=2)["error"] == "CommitArbitrationBusyError"
    stopped = vrm("cancel", run, "--incident", "--reason", "a disk is failing")
    assert (stopped["phase"], stopped["closed_decisions"], stopped["open"]) == ("CANCELLED", 3, [])
    assert vrm("show", run)["decisions"] == {"OUTCOME_COMMITTED": 3}
    outcomes = place.ledger.find("recall-decision-outcome", study.run.namespace, run_id=run)
    assert {each.load().as_json()["terminal_reason"] for each in outcomes} == {"CANCELLED_BY_INCIDENT"}
    assert not place.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], run)
    report = place.fsck()
    assert report.clean, report.text()
