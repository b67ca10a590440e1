"""The local cluster with the real Ray: start, find it from other processes, crash, stop without a trace."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray

from actors import cluster
from actors.environment import MODEL_KEY
from records.errors import UnavailableError
from tests.cluster.installation import session
from vrm.home import Home

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    # pytest's own folders have names too long for Ray's sockets.
    with tempfile.TemporaryDirectory(prefix="vrm-test-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODEL_KEY, "secret")
        made = Home(Path(folder) / "h").create()
        yield made
        cluster.stop(made.ray)


@pytest.fixture
def info(home: Home) -> cluster.ClusterInfo:
    """The running cluster of the module, started again if the test before ended it."""
    return cluster.start_local(home.ray, 2, temp=home.ray_temp)


def second_process(home: Home, body: str) -> str:
    """Run a driver in a process of its own, started outside the project and knowing only the home."""
    head = f"from pathlib import Path; from actors import cluster; folder = Path({str(home.ray)!r})\n"
    environ = os.environ | {"PYTHONPATH": str(ROOT), "RAY_NUM_REDIS_GET_RETRIES": "2"}  # tries to be let in
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=home.root,
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.usefixtures("info")
def test_found_by_other_processes(home: Home) -> None:
    made = """
        import ray
        cluster.connect(cluster.attach(folder))

        class Counter:
            def __init__(self): self.n = 0
            def up(self): self.n += 1; return self.n

        handle = ray.remote(Counter).options(name="lifecycle-counter", lifetime="detached", num_cpus=0).remote()
        print(ray.get(handle.up.remote()))
    """
    found = """
        import json, ray
        cluster.connect(cluster.attach(folder))

        @ray.remote
        def where():
            import records, store
            return records.__file__, store.__file__

        handle = ray.get_actor("lifecycle-counter")
        print(json.dumps([ray.get(handle.up.remote()), ray.get(where.remote())]))
        ray.kill(handle)
    """
    assert second_process(home, made) == "1"
    count, files = json.loads(second_process(home, found))
    assert count == 2
    assert [Path(file).parents[1] for file in files] == [ROOT, ROOT], "workers import this very project"


def test_second_start_attaches(home: Home, info: cluster.ClusterInfo) -> None:
    assert cluster.start_local(home.ray, 2, temp=home.ray_temp) == info
    assert cluster.attach(home.ray) == info


def test_loopback_only(info: cluster.ClusterInfo) -> None:
    listening = [
        connection.laddr.ip
        for process in session(info.pid)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_token_is_private_and_needed(home: Home, info: cluster.ClusterInfo) -> None:
    assert info.token_path is not None
    assert info.token_path.stat().st_mode & 0o777 == 0o600
    wrong = home.ray / "wrong"
    wrong.write_text("0" * 64)
    refused = f"""
        from records.errors import UnavailableError
        info = cluster.attach(folder)
        try:
            cluster.connect(info.model_copy(update={{"token_path": Path({str(wrong)!r})}}))
        except UnavailableError as error:
            print(type(error).__name__)
    """
    assert second_process(home, refused) == "UnavailableError"


def test_no_process_of_it_is_given_the_key_to_a_model(info: cluster.ClusterInfo) -> None:
    """It is exported where the cluster was started, which outlives that shell."""
    assert os.environ[MODEL_KEY] == "secret"
    processes = cluster._members(info)
    assert len(processes) > 3
    assert all(MODEL_KEY not in process.environ() for process in processes)


def test_killed_head_leaves_nothing_behind(home: Home, info: cluster.ClusterInfo) -> None:
    assert info.pid is not None
    head = psutil.Process(info.pid)
    head.kill()
    head.wait(30)
    after = cluster.start_local(home.ray, 2, temp=home.ray_temp)
    assert after.pid != info.pid
    assert session(info.pid) == []
    assert (
        second_process(home, "import ray; cluster.connect(cluster.attach(folder)); print(ray.is_initialized())")
        == "True"
    )


def test_stop_leaves_no_process(home: Home, info: cluster.ClusterInfo) -> None:
    assert len(session(info.pid)) > 3
    assert cluster.stop(home.ray)
    assert session(info.pid) == []
    assert cluster.attach(home.ray) is None
    assert not cluster.stop(home.ray)


def test_reused_pid_is_never_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:  # noqa: S607
        record = cluster.ClusterInfo(address="127.0.0.1:1", pid=stranger.pid, started=time.time() + 3600)
        (tmp_path / "cluster.json").write_text(record.model_dump_json())
        assert cluster.attach(tmp_path) is None
        assert not cluster.stop(tmp_path)
        assert stranger.poll() is None
        stranger.kill()


def test_damaged_record_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"address": "127.0')
    assert cluster.attach(tmp_path) is None
    assert not cluster.stop(tmp_path)


def test_dead_and_impossible_addresses_fail_in_seconds(home: Home) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{unused.getsockname()[1]}"
    refused = f"""
        from records.errors import UnavailableError
        for address in ({dead!r}, "auto", "nowhere.invalid:6379", "127.0.0.1:99999999"):
            try:
                cluster.connect(cluster.ClusterInfo.from_environment({{"RAY_ADDRESS": address}}))
            except UnavailableError as error:
                print("host:port" in error.remedy)
    """
    begin = time.monotonic()
    assert second_process(home, refused).split() == ["True"] * 4
    assert time.monotonic() - begin < 20


def test_empty_address_is_none() -> None:
    assert cluster.ClusterInfo.from_environment({"RAY_ADDRESS": ""}) is None
    assert cluster.ClusterInfo.from_environment({}) is None


def test_refused_start_shows_the_log(tmp_path: Path) -> None:
    too_long = tmp_path / ("d" * 120)
    too_long.mkdir()
    with pytest.raises(UnavailableError, match="AF_UNIX path length") as caught:
        cluster.start_local(tmp_path / "ray", 1, temp=too_long)
    assert "refused 3 times" in str(caught.value)
    assert not (tmp_path / "ray" / "cluster.json").exists()


def test_session_cluster(ray_cluster: cluster.ClusterInfo) -> None:
    assert ray.is_initialized()
    assert ray.get_runtime_context().namespace == cluster.NAMESPACE
    assert sum(node["Resources"]["CPU"] for node in ray.nodes()) == 8  # type: ignore[no-untyped-call]  # Ray's own
    assert ray_cluster.token_path is not None
