"""`vrm import phase3` and `vrm import ai-researcher` as commands, against Postgres and the installation's owners."""

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

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_both_imports_and_a_clean_check(place: Installation, ray_cluster: ClusterInfo, open_path: Path) -> None:
    environment = os.environ | ray_cluster.environment() | {
        "VRM_HOME": str(open_path / "h"),
        "VRM_LEDGER_DSN": place.ledger_database.app,
        "VRM_LEDGER_ADMIN_DSN": place.ledger_database.admin,
        "VRM_RUNTIME_DSN": place.runtime_database.app,
        "VRM_RUNTIME_ADMIN_DSN": place.runtime_database.admin,
        "VRM_ARTIFACTS_URL": str(place.folder),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def vrm(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", "from vrm.cli import main; main()", *arguments, "--json"],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return json.loads(done.stdout)

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
