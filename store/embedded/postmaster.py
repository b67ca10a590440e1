"""The running server process of one data folder, as the operating system sees it.

Rules: a pid is believed only when it is alive, not a zombie, a `postgres`, and works in this very data folder; a stale
or reused pid is nobody. Waiting is polling with a time limit; on the limit the caller gets False, never silence.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_POLL_SECONDS: Final = 0.02
_STATUS_LINE: Final = 7
_SOCKET_LINE: Final = 4


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says of a live server.

    Attributes:
        pid: process id.
        sockets: folder of its socket.
        status: `starting`, `ready`, `stopping` or `standby`; empty while the file is being written.
    """

    pid: int
    sockets: Path
    status: str


def running(data: Path) -> Postmaster | None:
    """Return the live server of the data folder, or None."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    if not _serves(pid, data):
        return None
    padded = lines + [""] * (_STATUS_LINE + 1 - len(lines))
    return Postmaster(pid, Path(padded[_SOCKET_LINE].strip()), padded[_STATUS_LINE].strip())


def leftovers(data: Path) -> list[psutil.Process]:
    """Return live PostgreSQL processes that work in the data folder, whoever their parent is."""
    return [process for process in psutil.process_iter() if _serves(process.pid, data)]


def clear_socket(sockets: Path) -> None:
    """Remove the socket and the lock that a killed server left; those of a live one stay."""
    lock = sockets / ".s.PGSQL.5432.lock"
    if lock.is_file():
        lines = lock.read_text(encoding="utf-8").splitlines()
        live = len(lines) > 1 and lines[0].strip().isdigit() and _serves(int(lines[0]), Path(lines[1].strip()))
        if not live:
            lock.unlink(missing_ok=True)
            (sockets / ".s.PGSQL.5432").unlink(missing_ok=True)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; return whether it did within the limit."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def stop(data: Path, seconds: float) -> bool:
    """Stop the server of the data folder: fast, then immediate; return whether nothing of it is left."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        current = running(data)
        if current is None:
            break
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(current.pid).send_signal(number)
        wait_until(lambda: running(data) is None, seconds)
    return wait_until(lambda: not leftovers(data), seconds)


def _serves(pid: int, data: Path) -> bool:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres"):
                return False
            return Path(process.cwd()) == data.resolve()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except psutil.AccessDenied:  # another user's: never ours
        return False
