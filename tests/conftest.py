"""What all tests share: the order of the tiers, one Postgres and one Ray for a session, started only when asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from actors.cluster import ClusterInfo
    from store.server import DatabaseUrls, EmbeddedPostgres
    from vrm.home import Home

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
for _name in (
    "VRM_HOME",
    "VRM_LEDGER_DSN",
    "VRM_LEDGER_ADMIN_DSN",
    "VRM_RUNTIME_DSN",
    "VRM_RUNTIME_ADMIN_DSN",
    "RAY_ADDRESS",
):
    os.environ.pop(_name, None)

settings.register_profile("thorough", max_examples=2_000, deadline=None)
"""For an hour of looking: `pytest --hypothesis-profile thorough`."""
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # how long an example takes says how busy the machine is

_TIERS = ("unit", "contract", "cluster", "acceptance")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tiers in order, random inside a tier: a broken rule is told before a cluster is started."""
    root = Path(__file__).parent

    def tier(item: pytest.Item) -> int:
        first = item.path.relative_to(root).parts[0]
        return _TIERS.index(first) if first in _TIERS else len(_TIERS)

    items.sort(key=tier)


def _open_folder() -> Path:
    # pytest's own folders are closed to others; root's database runs as somebody else, who must get in.
    folder = Path(tempfile.mkdtemp(prefix="vrm-test-"))
    folder.chmod(0o711)
    return folder


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A short temporary folder that an unprivileged account can pass through: the place for a home in a test."""
    folder = _open_folder()
    yield folder
    # A cluster whose folder is gone goes on owning what it claimed, and other tests would meet it.
    left = [each for each in psutil.process_iter(["cmdline"]) if _is_raylet_in(folder, each.info["cmdline"] or ())]
    for each in left:
        each.kill()
    shutil.rmtree(folder)
    assert not left, "the test left a cluster running; name the session's by RAY_ADDRESS, or stop its own"


def _is_raylet_in(folder: Path, command: Sequence[str]) -> bool:
    return bool(command) and command[0].endswith("raylet") and any(str(folder) in word for word in command)


@pytest.fixture(scope="session")
def session_home() -> Iterator[Home]:
    """The home of the session's own services."""
    from vrm.home import Home  # noqa: PLC0415 - the environment is set first

    folder = _open_folder()
    yield Home(folder / "h").create()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_server(session_home: Home) -> Iterator[EmbeddedPostgres]:
    """A real server that dies with the test process, however that ends."""
    from store.server import EmbeddedPostgres  # noqa: PLC0415 - unit tests must not pay for it

    server = EmbeddedPostgres(session_home.postgres, session_home.postgres_sockets, bound=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_urls(postgres_server: EmbeddedPostgres) -> DatabaseUrls:
    """Addresses of the session's two databases; tests that write choose their own schema or namespace."""
    return postgres_server.start()


@pytest.fixture(scope="session")
def ray_cluster(session_home: Home) -> Iterator[ClusterInfo]:
    """A real local cluster, this process connected to it; stopped at the end of the session."""
    from actors import cluster  # noqa: PLC0415 - unit tests must not pay for importing ray

    info = cluster.start_local(session_home.ray, 8, temp=session_home.ray_temp)
    try:
        cluster.connect(info)
        yield info
    finally:
        cluster.disconnect()
        cluster.stop(session_home.ray)
