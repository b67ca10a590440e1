"""The command line as a user gives it: a process for each command, over an installation of the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from actors.cluster import ClusterInfo
from tests.cluster.installation import Installation

ROOT: Final = Path(__file__).parents[2]


class Product:
    """The command line, in the environment of an installation."""

    def __init__(self, place: Installation, cluster: ClusterInfo, home: Path) -> None:
        """Work in `home`."""
        self._environment = os.environ | cluster.environment() | {
            "RAY_ADDRESS": cluster.address,  # or it would start a cluster in its home, which outlives it
            "VRM_HOME": str(home),
            "VRM_LEDGER_DSN": place.ledger_database.app,
            "VRM_LEDGER_ADMIN_DSN": place.ledger_database.admin,
            "VRM_RUNTIME_DSN": place.runtime_database.app,
            "VRM_RUNTIME_ADMIN_DSN": place.runtime_database.admin,
            "VRM_ARTIFACTS_URL": str(place.folder),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        """Give a command to its end, and return what it said."""
        with self.started(*arguments) as process:
            out, errors = process.communicate(timeout=500)
        assert process.returncode == code, out[-2000:] + errors[-2000:]
        return json.loads(out)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Give a command; one that still runs at the end of the block is killed."""
        command = [sys.executable, "-c", "from vrm.cli import main; main()", *arguments, "--json"]
        with subprocess.Popen(
            command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()
