"""`vrm bench distil`, run small as a user runs it: the shape of the report, never its speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.bench import studies

ROOT = Path(__file__).parents[2]
RATIOS = ("growth_20k_over_10k", "cpu_growth_20k_over_10k", "distil_vs_raw_inserts", "speedup_2_workers")


@pytest.mark.slow
def test_a_sweep_is_carried_through_and_told(open_path: Path) -> None:
    """In a process of its own: the bench connects to a Ray of its own, and leaves nothing behind."""
    command = [sys.executable, "-c", "from vrm.cli import main; main()", "bench", "distil", "--json"]
    done = subprocess.run(
        [*command, "--experiences", str(studies.TRIALS)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(open_path)},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert list(open_path.iterdir()) == []
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["experiences"] == studies.TRIALS
    assert sum(found["decisions"].values()) == len(studies.CHANGES), "one study has a variant for each change"
    assert all(found[name] > 0 and found["meaning"][name] for name in (*RATIOS, "experiences_per_s"))
    assert sum(found["shares"].values()) == pytest.approx(1, abs=0.001)
    assert 1 <= found["speedup_limit"] <= 2
    for name in ("peak_rss_mb_each", "cpu_seconds"):
        assert {each.split()[0] for each in found[name]["asked"]} == {
            "driver", "run-owner", "coordinator", "lifecycle-head", "distiller"
        }  # fmt: skip
    low, high = found["spread"]["experiences_per_s"]
    assert 0 < low <= high
    assert found["settings"]["fsync"] == found["settings"]["synchronous_commit"] == "on"
