"""A Ray of one benchmark: in a temporary folder, gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from actors.cluster import connect, disconnect, start_local
from actors.cluster import stop as stop_cluster

PATIENCE_SECONDS: Final = 180.0
"""How long to wait for a cluster, or for its processes to end, on a machine that has other work."""


@contextmanager
def own_cluster() -> Iterator[None]:
    """Start a Ray of our own and connect to it; it is gone afterwards.

    Raises:
        UnavailableError: no cluster can be started here.
    """
    folder = Path(tempfile.mkdtemp(prefix="vrm-bench-"))
    os.environ.setdefault("RAY_worker_niceness", "0")  # at Ray's own 15 owners starve on a busy machine
    try:
        connect(start_local(folder / "ray", os.cpu_count() or 1, temp=folder / "r", wait_seconds=PATIENCE_SECONDS))
        yield
    finally:
        disconnect()
        stop_cluster(folder / "ray")
        shutil.rmtree(folder, ignore_errors=True)
