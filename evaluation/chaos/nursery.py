"""Owners as plain processes: the product's actor classes, each in a process of its own without Ray.

One process, the nursery, loads the program once and forks an owner whenever one is asked for, so that a replacement
costs little. Run as `python -m evaluation.chaos.nursery SOCKET`; it ends with whoever holds the other end, and so do
the owners.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

from actors.handles import Handle, Role
from actors.settings import Settings
from records.errors import FencedError, UnavailableError, VrmError

_ROOT: Final = Path(__file__).resolve().parents[2]
_TRIES: Final = 3


class Nursery:
    """Forks owners; every one of them ends when it is closed."""

    def __init__(self, folder: Path) -> None:
        """Start it, with its socket in a folder of its own."""
        folder.mkdir(mode=0o700)
        self._listener = Listener(str(folder / "socket"), "AF_UNIX")
        self._process = subprocess.Popen(  # noqa: S603 - our own arguments only
            [sys.executable, "-m", "evaluation.chaos.nursery", str(folder / "socket")],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # its group is what is ended in the end
        )
        self._lock = threading.Lock()
        self._orders = self._listener.accept()

    def fork(self, role: Role, settings: Settings) -> tuple[int, Connection[Any, Any]]:
        """Return a new owner's process and the line to it.

        Raises:
            VrmError: why it could not begin.
        """
        with self._lock:
            self._orders.send((role.actor, (settings, *role.arguments)))
            line = self._listener.accept()
        born = line.recv()
        if isinstance(born, VrmError):
            raise born
        return born, line

    def close(self) -> None:
        """End it with all that it forked, those included that are stopped."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.close()


class ForkedHandle(Handle):
    """One owner in a process of its own; a call that loses it is made again on its successor, as with actors.

    Attributes:
        pid: its process; 0 if there is none.
    """

    def __init__(self, nursery: Nursery, role: Role, settings: Settings) -> None:
        """Name the owner; nothing is started."""
        super().__init__(role, settings)
        self._nursery, self._wanted = nursery, (role, settings)
        self._line: Connection[Any, Any] | None = None
        self.pid = 0

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return its answer.

        Raises:
            VrmError: what the owner raised, or why it could not begin.
            UnavailableError: it could not be kept alive.
        """
        for _ in range(_TRIES):
            try:
                if self._line is None:
                    self.pid, self._line = self._nursery.fork(*self._wanted)
                self._line.send((method, arguments))
                answer = self._line.recv()
            except (EOFError, OSError):
                self._line, self.pid = None, 0
                continue
            if isinstance(answer, VrmError):
                raise answer
            return answer
        raise UnavailableError("owner", self._wanted[0].name, "It ended again and again; report this.")

    def kill(self) -> None:
        """End the owner without notice."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self._line, self.pid = None, 0


def _serve(line: Connection[Any, Any], actor: type[Any], arguments: tuple[Any, ...]) -> None:
    """Be an owner until nobody asks any more, or until it is fenced and leaves."""
    try:
        served = actor(*arguments)
    except VrmError as error:
        line.send(error)
        return
    line.send(os.getpid())
    while True:
        method, given = line.recv()
        try:
            answer = getattr(served, method)(*given)
        except VrmError as error:
            answer = error
        except TypeError as error:
            if isinstance(error.__context__, FencedError):  # it would leave Ray, and is not there
                return
            raise
        line.send(answer)


def main(address: str) -> None:
    """Fork an owner for every order."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with Client(address, "AF_UNIX") as orders:
        while True:
            try:
                actor, arguments = orders.recv()
            except EOFError:
                return
            if os.fork() == 0:
                orders.close()
                with Client(address, "AF_UNIX") as line:
                    try:
                        _serve(line, actor, arguments)
                    except (EOFError, OSError):
                        os._exit(0)
                os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
