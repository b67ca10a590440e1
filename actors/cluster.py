"""The local Ray cluster, and the connection to any cluster.

Rules:

- Every process of the local cluster listens on loopback only and asks for the token that lies, private, in the folder
  of the cluster (docs/adr/0022). A cluster named by `RAY_ADDRESS` is taken as it is and never started or stopped.
- The head is the leader of a session of its own; whatever belongs to that session is ours, nothing else is ever
  signalled. `ray stop` is never used: it ends every Ray of the machine.
- A recorded process counts only when it is alive and was started at the recorded time.
- Connecting to a cluster that is not there fails in seconds: the port is probed first.
- Nothing durable lies in Ray. Stopping may therefore be abrupt; owners claim new epochs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import ray
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without types

from actors.environment import MODEL_KEY
from records.errors import UnavailableError

NAMESPACE: Final = "vrm"
"""Ray namespace of all named actors."""

_ROOT: Final = Path(__file__).resolve().parents[1]
_RECORD: Final = "cluster.json"
_LOOPBACK: Final = "127.0.0.1"
_ATTEMPTS: Final = 3
_STORE_BYTES: Final = 512 * 2**20
_PROBE_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.1
_TAIL_CHARACTERS: Final = 1_500
_STARTED: Final = "Ray runtime started"


class ClusterInfo(BaseModel):
    """How to reach a cluster, and which process to end if it is ours.

    Attributes:
        address: `host:port` of the cluster's control service, or `ray://host:port` of its client service.
        token_path: file with the token; None leaves authentication to Ray's own environment.
        dashboard: URL for `ray job submit`; None if there is none or it is not known.
        pid: process id of the head; None for a cluster that is not ours.
        started: start of that process, seconds since 1970.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    token_path: Path | None = None
    dashboard: str | None = None
    pid: int | None = None
    started: float = 0.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ClusterInfo | None:
        """Return the cluster that `RAY_ADDRESS` names; None if it is unset or empty."""
        address = environ.get("RAY_ADDRESS", "")
        return cls(address=address) if address else None

    def environment(self) -> dict[str, str]:
        """Return the variables that a process needs before it talks to this cluster with Ray's own tools."""
        if self.token_path is None:
            return {}
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_path)}


# Heads that this process started: polled, so that one that ends does not stay a zombie.
_children: Final[dict[int, subprocess.Popen[bytes]]] = {}


def start_local(
    folder: Path, num_cpus: int, *, temp: Path, dashboard: bool = False, wait_seconds: float = 60.0
) -> ClusterInfo:
    """Start the local cluster, or attach to the one of this folder that runs.

    The cluster outlives this process. After return its control service answers.

    Args:
        folder: private folder for the address, the token and the log.
        num_cpus: processors that Ray counts; ignored when attaching.
        temp: folder for Ray's sessions; its path must be short (about 40 bytes). Sessions of earlier clusters in it
            are removed.
        dashboard: also serve the page and the job interface (slower to start).
        wait_seconds: limit for one attempt, for the lock, and for the end of a failed attempt.

    Raises:
        UnavailableError: it did not start in three attempts, or one without a dashboard runs and one was wanted.
    """
    with _locked(folder, wait_seconds):
        running = attach(folder)
        if running is not None:
            if dashboard and running.dashboard is None:
                remedy = "Stop the cluster and start it again with the dashboard."
                raise UnavailableError("Ray dashboard", running.address, remedy)
            return running
        _end(folder, wait_seconds)
        problem = ""
        # On a busy machine the raylet gives up when its agent is not there within 15 s; the next attempt finds
        # everything in the page cache.
        for _ in range(_ATTEMPTS):
            try:
                return _start(folder, num_cpus, temp, dashboard=dashboard, wait_seconds=wait_seconds)
            except _StartError as error:
                problem = str(error)
        remedy = f"Ray refused {_ATTEMPTS} times. Log {folder / 'ray.log'} ends:\n{problem}"
        raise UnavailableError("local Ray", problem.rsplit("\n", 1)[-1], remedy)


def attach(folder: Path) -> ClusterInfo | None:
    """Return the running cluster of the folder, or None."""
    info = _recorded(folder)
    if info is None or _head(info) is None or not _answers(info.address):
        return None
    return info


def stop(folder: Path, *, wait_seconds: float = 15.0) -> bool:
    """End the cluster of the folder and everything that it started; return whether one was running.

    Raises:
        UnavailableError: parts of it do not end.
    """
    with _locked(folder, wait_seconds):
        return _end(folder, wait_seconds)


def connect(info: ClusterInfo, namespace: str = NAMESPACE) -> None:
    """Connect this process as a driver; does nothing if it is connected.

    Raises:
        UnavailableError: nobody listens at the address, or the cluster refuses.
    """
    if ray.is_initialized():
        return
    if not _answers(info.address):
        remedy = (
            "Nobody listens there: start the local cluster (vrm up), or set RAY_ADDRESS to host:port of a live one."
        )
        raise UnavailableError("Ray address", info.address, remedy)
    if info.token_path is not None:
        os.environ.update(info.environment())
        # Ray has read the variables when it was imported; this makes it read them again.
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
    try:
        with _loopback_stays(info.address):
            ray.init(address=info.address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        remedy = f"The cluster refuses this process; use its versions of Ray and Python, and its token. {error}"
        raise UnavailableError("Ray address", info.address, remedy) from error


def disconnect() -> None:
    """Leave the cluster, which keeps running; does nothing if this process is not connected."""
    ray.shutdown()


class _StartError(Exception):
    """One attempt failed; the text is the end of Ray's log."""


def _start(folder: Path, num_cpus: int, temp: Path, *, dashboard: bool, wait_seconds: float) -> ClusterInfo:
    token = folder / "token"
    if not token.is_file():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
    for old in temp.glob("session_*"):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
    gcs, client, page, agent = _free_ports(4)
    options = {
        "port": gcs,
        "ray-client-server-port": client,
        "dashboard-agent-listen-port": agent,
        "dashboard-port": page,
        "include-dashboard": dashboard,
        "num-cpus": num_cpus,
        "temp-dir": temp,
    }
    process = _launch(folder, token, options)
    info = ClusterInfo(
        address=f"{_LOOPBACK}:{gcs}",
        token_path=token,
        dashboard=f"http://{_LOOPBACK}:{page}" if dashboard else None,
        pid=process.pid,
        started=psutil.Process(process.pid).create_time(),
    )
    # Recorded before it is ready: if this process is killed now, the next start finds what to end.
    _record(folder, info)
    log = folder / "ray.log"
    _wait(lambda: process.poll() is not None or _STARTED in _text(log), wait_seconds)
    if process.poll() is not None or _STARTED not in _text(log) or not _answers(info.address):
        _end(folder, wait_seconds)
        raise _StartError(_text(log)[-_TAIL_CHARACTERS:] or "It said nothing.")
    return info


def _launch(folder: Path, token: Path, options: Mapping[str, object]) -> subprocess.Popen[bytes]:
    fixed = {
        "node-ip-address": _LOOPBACK,
        "dashboard-host": _LOOPBACK,
        "min-worker-port": 0,  # any free one: two clusters of a machine do not meet
        "max-worker-port": 0,
        "object-store-memory": _STORE_BYTES,
        "include-log-monitor": False,  # drivers do not echo what workers print
        "log-color": "false",
    }
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += [f"--{name}={value}" for name, value in {**fixed, **options}.items()]
    with (folder / "ray.log").open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own arguments only
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=folder,
            env=_environment(token),
            start_new_session=True,
        )
    _children[process.pid] = process
    return process


def _environment(token: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"RAY_ADDRESS", "RAY_NAMESPACE"}}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker would compile everything again
    inherited.pop(MODEL_KEY, None)  # every process of the cluster could read it, for as long as it runs
    path = [str(_ROOT), inherited.get("PYTHONPATH", "")]
    programs = [str(Path(sys.executable).parent), inherited.get("PATH", "")]  # a job's `python` is looked up here
    return inherited | {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PATH": os.pathsep.join(filter(None, programs)),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        # Off means: this node's address is 127.0.0.1. With any other address Ray listens on all interfaces.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def _end(folder: Path, wait_seconds: float) -> bool:
    info = _recorded(folder)
    if info is None or info.pid is None:
        return False
    head = _head(info)
    if head is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            head.terminate()
        _wait(lambda: not _members(info), wait_seconds)
    for process in _members(info):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if not _wait(lambda: not _members(info), wait_seconds):
        raise UnavailableError("local Ray", f"session {info.pid}", "Its processes do not end; stop them by hand.")
    (folder / _RECORD).unlink(missing_ok=True)
    return head is not None


def _head(info: ClusterInfo) -> psutil.Process | None:
    _reap()
    if info.pid is None:
        return None
    try:
        process = psutil.Process(info.pid)
        same = abs(process.create_time() - info.started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if same else None


def _members(info: ClusterInfo) -> list[psutil.Process]:
    """Return the live processes of the head's session; while one lives, the kernel gives its number to nobody else."""
    _reap()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            ours = os.getsid(process.pid) == info.pid and process.create_time() > info.started - 1.0
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _reap() -> None:
    for pid in [pid for pid, child in _children.items() if child.poll() is not None]:
        del _children[pid]


@contextmanager
def _locked(folder: Path, wait_seconds: float) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=wait_seconds):
            yield
    except Timeout as error:
        remedy = "Another process is starting or stopping this cluster and does not finish; end it and try again."
        raise UnavailableError("lock", str(folder / "lock"), remedy) from error
    except OSError as error:
        raise UnavailableError("local Ray", str(error), "Check the folder, or set VRM_HOME.") from error


@contextmanager
def _loopback_stays(address: str) -> Iterator[None]:
    """Keep Ray from turning a loopback address into the machine's own, where our cluster does not listen."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    if address.startswith(f"{_LOOPBACK}:"):
        ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _record(folder: Path, info: ClusterInfo) -> None:
    partial = folder / f"{_RECORD}.new"
    partial.write_text(info.model_dump_json(indent=1), encoding="utf-8")
    partial.replace(folder / _RECORD)


def _recorded(folder: Path) -> ClusterInfo | None:
    try:
        return ClusterInfo.model_validate_json((folder / _RECORD).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _answers(address: str) -> bool:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return False  # `auto` would be looked for, for minutes
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS).close()
    except (OSError, OverflowError):
        return False
    return True


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip() if log.is_file() else ""
