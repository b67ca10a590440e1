"""`ray job submit`: a script of the user's own that finds the installation and its owners by `vrm.connect()`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import cluster
from tests.cluster.installation import session
from vrm import bootstrap
from vrm.home import Home

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, os
import ray, store, vrm

with vrm.connect("job") as memory:
    found = [name for name, handle in memory.actors.handles().items() if handle.find() is not None]
    print("answer", json.dumps({
        "rules": len(memory.rules()),
        "owners": found,
        "namespace": ray.get_runtime_context().namespace,
        "project": os.path.dirname(os.path.dirname(store.__file__)),
    }))
"""


@pytest.fixture
def home(open_path: Path) -> Iterator[Home]:
    """An installation of its own whose cluster takes jobs."""
    made = Home(open_path / "h").create()
    server = bootstrap.server_of(made)
    yield made
    cluster.stop(made.ray)
    server.stop()


@pytest.mark.slow
def test_job_finds_rules_and_owners(home: Home, open_path: Path) -> None:
    info = bootstrap.start_cluster(home, dashboard=True, environ={})
    _start_owner(home)
    work = open_path / "work"
    work.mkdir()
    (work / "job.py").write_text(SCRIPT)
    needs = json.dumps({"env_vars": {"VRM_HOME": str(home.root)}})
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", f"--address={info.dashboard}"]
    done = subprocess.run(
        [*submit, f"--working-dir={work}", f"--runtime-env-json={needs}", "--", "python", "job.py"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=os.environ | info.environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert json.loads(line.removeprefix("answer ")) == {
        "rules": 0,
        "owners": ["commit-coordinator"],
        "namespace": "vrm",
        "project": str(ROOT),
    }
    assert cluster.stop(home.ray)
    assert session(info.pid) == []


def _start_owner(home: Home) -> None:
    """Let another driver bring one owner up: this process belongs to the session's cluster, or to none."""
    program = (
        "import vrm\n"
        "from memory.ports import all_good\n"
        "from tests.support.stores import evidence_append\n"
        "from tests.support.trials import make_contract\n"
        "with vrm.connect() as memory:\n"
        "    all_good(memory.actors.coordinator.append_direct([evidence_append([make_contract('job')])]))\n"
    )
    environ = os.environ | {"VRM_HOME": str(home.root), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
