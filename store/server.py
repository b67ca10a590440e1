"""The embedded Postgres: one server, two databases, reached through a socket only.

Rules:

- `fsync`, `synchronous_commit` and `full_page_writes` are on and given on the command line, above any file.
- No TCP port is opened. The socket folder is private to the account that runs the server.
- `start` is safe to call from several processes at once: a file lock lets one start and the others attach.
- A data folder counts as ours only with our marker in it; nothing else is ever touched. `initdb` works beside the
  final place and is renamed into it, so a half-made folder is never taken for a whole one.
- Detached servers outlive the command that started them and are stopped by `stop`. Bound servers get the signal for a
  fast shutdown from the kernel when the thread that started them dies (Linux; elsewhere only `stop` ends them).
- Every failure is an `UnavailableError` with the end of the server's log in it; every wait has a limit.

Schemas are not made here: the databases come up empty, owned by an admin role, with an application role that may
connect and own nothing. The choice of programs, account and places is docs/adr/0021.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from records.errors import UnavailableError
from store.embedded.account import Account, choose_account, reachable_binaries, reachable_folder
from store.embedded.binaries import Binaries, find_binaries
from store.embedded.data_folder import CHILD_ENVIRONMENT, check_ours, explain, initialise
from store.embedded.databases import DatabaseUrls, provide, refuses_for_now, require_answer, sqlalchemy_url
from store.embedded.postmaster import Postmaster, clear_socket, leftovers, running, stop, wait_until

_ATTEMPTS: Final = 4
_DYING_SECONDS: Final = 2.0
_LOG_BYTES: Final = 16 * 2**20
_SETTINGS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
}

__all__ = ["DatabaseUrls", "EmbeddedPostgres", "open_databases", "sqlalchemy_url"]


class EmbeddedPostgres:
    """The server of one folder.

    Args:
        folder: holds the data folder, the log and the lock; made when missing.
        sockets: folder of the socket, whose parent exists; its path must be short (107 bytes with the socket's name).
        bound: end with the thread that calls `start`, instead of outliving this process.
        wait_seconds: limit for each wait: for the lock, for readiness, for the end.
    """

    # Kept so that a child that dies is reaped, and no warning is raised about one that lives on.
    _children: Final[dict[int, subprocess.Popen[bytes]]] = {}

    def __init__(self, folder: Path, sockets: Path, *, bound: bool = False, wait_seconds: float = 60.0) -> None:
        self._wanted = folder.absolute()
        self._sockets = sockets.absolute()
        self._bound = bound
        self._wait = wait_seconds

    def start(self) -> DatabaseUrls:
        """Start the server, or attach to the one that runs, and return the addresses of its databases.

        After return both databases and all roles exist and the server answers.

        Raises:
            UnavailableError: no programs, a foreign data folder, one of another major version, a refused start, a
                full disk, a taken socket, or a limit that passed.
        """
        with self._locked():
            account = choose_account(self._wanted / "data")
            folder = reachable_folder(self._wanted, account)
            account = choose_account(folder / "data")
            for _ in range(_ATTEMPTS):
                current = self._settled(folder / "data")
                if current is None:
                    self._start(folder, account)
                    continue
                try:
                    return provide(current.sockets)
                except UnavailableError:
                    # It may have been killed a moment ago and still be seen; one that stays has a reason to refuse.
                    if not wait_until(lambda: self._settled(folder / "data") != current, _DYING_SECONDS):  # noqa: B023 - used at once
                        raise
            raise explain("server", folder / "postgres.log", 0, "It ends as soon as it is started.")

    def stop(self) -> bool:
        """Stop the server; return whether one was running. Nothing of it is left after return.

        Raises:
            UnavailableError: it did not end within the limit, even when told to do so at once.
        """
        with self._locked():
            data = self._data()
            was = running(data) is not None
            if not stop(data, self._wait):
                raise UnavailableError("embedded Postgres", str(data), "Its processes do not end; stop them by hand.")
            self._reap()
            return was

    def pid(self) -> int | None:
        """Return the process id of the running server, or None."""
        found = running(self._data())
        return None if found is None else found.pid

    @property
    def log_path(self) -> Path:
        """Path of the server's log."""
        return self._data().with_name("postgres.log")

    def _data(self) -> Path:
        pointer = self._wanted / "location.txt"
        folder = Path(pointer.read_text(encoding="utf-8").strip()) if pointer.is_file() else self._wanted
        return folder / "data"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._wanted.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            with FileLock(self._wanted / "lock", timeout=self._wait):
                yield
        except Timeout as error:
            remedy = "Another process is starting or stopping this server and does not finish; end it and try again."
            raise UnavailableError("lock", str(self._wanted / "lock"), remedy) from error
        except OSError as error:
            raise UnavailableError("embedded Postgres", str(error), "Check the folder, or set VRM_HOME.") from error

    def _settled(self, data: Path) -> Postmaster | None:
        """Wait until the server, if there is one, is ready or gone."""
        self._reap()

        def known() -> bool:
            current = running(data)
            # After a crash of one of its processes a server recovers while its file still says that it is ready.
            return current is None or (current.status == "ready" and not refuses_for_now(current.sockets))

        if not wait_until(known, self._wait):
            raise explain("server", data.with_name("postgres.log"), 0, "It neither gets ready nor ends.")
        return running(data)

    def _start(self, folder: Path, account: Account) -> None:
        data = folder / "data"
        binaries = reachable_binaries(find_binaries(), account)
        if data.is_dir() and not any(data.iterdir()):
            data.rmdir()
        if not data.exists():
            initialise(data, binaries, account)
        check_ours(data, binaries.major)
        # Parts of a killed server end by themselves; the lock file they leave is removed only then.
        if not wait_until(lambda: not leftovers(data), self._wait):
            raise UnavailableError("data folder", str(data), "Parts of an older server still use it; end them first.")
        (data / "postmaster.pid").unlink(missing_ok=True)
        sockets = self._sockets if account.can_enter(self._sockets.parent) else folder / "sockets"
        account.make_own_folder(sockets)
        clear_socket(sockets)
        self._launch(data, sockets, binaries, account)

    def _launch(self, data: Path, sockets: Path, binaries: Binaries, account: Account) -> None:
        log = data.with_name("postgres.log")
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.old"))
        begin = log.stat().st_size if log.exists() else 0
        settings = {**_SETTINGS, "unix_socket_directories": str(sockets)}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with log.open("ab") as sink:
            process = subprocess.Popen(  # noqa: S603 - our own arguments only
                [binaries.program("postgres"), "-D", str(data), *options],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd="/",
                env=CHILD_ENVIRONMENT,
                start_new_session=True,  # a Ctrl-C in the terminal is not for the server
                preexec_fn=_ends_with_parent() if self._bound else None,  # noqa: PLW1509 - only system calls, prepared before the fork
                **account.identity,
            )
        self._children[process.pid] = process
        self._await_ready(process, log, begin)

    def _await_ready(self, process: subprocess.Popen[bytes], log: Path, begin: int) -> None:
        data = log.with_name("data")

        def decided() -> bool:
            current = running(data)
            ready = current is not None and current.pid == process.pid and current.status == "ready"
            return ready or process.poll() is not None

        if not wait_until(decided, self._wait):
            process.send_signal(signal.SIGQUIT)
            raise explain("server", log, begin, f"It was not ready within {self._wait:.0f} s.")
        if process.poll() is not None:
            raise explain("server", log, begin, "PostgreSQL refused to start.")

    @classmethod
    def _reap(cls) -> None:
        for pid in [pid for pid, child in cls._children.items() if child.poll() is not None]:
            del cls._children[pid]


def open_databases(server: EmbeddedPostgres, environ: Mapping[str, str]) -> DatabaseUrls:
    """Return the databases named by the environment, and the embedded ones for what it does not name.

    Args:
        server: started only if `VRM_LEDGER_DSN` or `VRM_RUNTIME_DSN` is missing or empty.
        environ: `VRM_LEDGER_ADMIN_DSN` and `VRM_RUNTIME_ADMIN_DSN` name the owners' addresses, where they differ.

    Raises:
        UnavailableError: a named database does not answer, or the embedded server cannot be started.
    """
    ledger, runtime = environ.get("VRM_LEDGER_DSN", ""), environ.get("VRM_RUNTIME_DSN", "")
    ledger_admin = environ.get("VRM_LEDGER_ADMIN_DSN", "") or ledger
    runtime_admin = environ.get("VRM_RUNTIME_ADMIN_DSN", "") or runtime
    named = {"VRM_LEDGER_DSN": ledger, "VRM_RUNTIME_DSN": runtime}
    for name, dsn in named.items():
        if dsn:
            require_answer(name, dsn)
    if ledger and runtime:
        return DatabaseUrls(ledger_admin, ledger, runtime_admin, runtime)
    urls = server.start()
    if ledger:
        return replace(urls, ledger_admin=ledger_admin, ledger_app=ledger)
    if runtime:
        return replace(urls, runtime_admin=runtime_admin, runtime_app=runtime)
    return urls


def _ends_with_parent() -> Callable[[], None] | None:
    """Return what a child calls before it becomes the server, so that it ends with its parent; None off Linux."""
    if not sys.platform.startswith("linux"):
        return None
    control, parent, set_death_signal = ctypes.CDLL(None).prctl, os.getpid(), 1

    def arrange() -> None:
        control(set_death_signal, signal.SIGINT)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return arrange
