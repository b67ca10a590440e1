"""A socket between a client and a real server, which breaks at a chosen step of the protocol.

A step is what the client has carried out or ended: a simple query, the execution of a prepared one, a synchronisation.
Faults are exact: the server has been given every step before the chosen one and nothing behind it (`CUT`, `TERMINATE`),
or has answered it and what was sent with it, up to the next synchronisation, and the answers are lost (`MUTE`).
Nothing here waits for a length of time.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_STEPS: Final = b"QES"
_CHUNK: Final = 65536
_HEADER: Final = 5
_READY: Final = b"Z"


class Fault(StrEnum):
    """How the wire breaks."""

    CUT = "cut"
    TERMINATE = "terminate"
    MUTE = "mute"


class Wire:
    """Listens in `folder` and passes everything to the server of `dsn`; counts the steps of writing connections."""

    def __init__(self, folder: Path, dsn: str, superuser: str) -> None:
        """Begin to listen; `superuser` ends backends."""
        self._superuser = superuser
        parts = conninfo_to_dict(dsn)
        self._server = f"{parts['host']}/.s.PGSQL.{parts.get('port', '5432')}"
        self.dsn = make_conninfo(dsn, host=str(folder), port="5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._lock = threading.Lock()
        self._at: int | str = 0
        self._fault = Fault.CUT
        self.steps: list[str] = []
        self.broke_at = self.broke_behind = ""  # the step at which it broke, and the one before
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, at: int | str = 0, fault: Fault = Fault.CUT) -> None:
        """Count from here; break at step number `at` (from 1), or at the first of that name, or never."""
        with self._lock:
            self.steps, self._at, self._fault, self.broke_at, self.broke_behind = [], at, fault, "", ""

    def close(self) -> None:
        """Stop listening; open connections go on."""
        self._listener.close()

    def step(self, name: str) -> Fault | None:
        """Count a step; return the fault that is due now, once."""
        with self._lock:
            self.steps.append(name)
            if self._at not in (len(self.steps), name):
                return None
            self._at, self.broke_at, self.broke_behind = 0, name, self.steps[-2] if self.steps[1:] else ""
            return self._fault

    def terminate(self, backend: int) -> None:
        """End a backend as an administrator does, and wait until it is gone."""
        with psycopg.connect(self._superuser, autocommit=True) as link:
            link.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                _Link(self, client, self._server).start()


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, wire: Wire, client: socket.socket, server: str) -> None:
        self._wire, self._client = wire, client
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(server)
        self._backend = 0
        self._writes = False
        self._muted = threading.Event()
        self._statements: dict[bytes, str] = {}
        self._bound = b""

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        down = threading.Thread(target=self._down, daemon=True)
        with self._client, self._server:
            down.start()
            self._up()
            down.join()

    def _up(self) -> None:
        """Pass on what the client sends, message by message."""
        with contextlib.suppress(OSError):
            for message in _messages(self._client, headless=True):
                if message[:1] not in (b"\0", *(bytes([kind]) for kind in _STEPS)):
                    self._learn(message)
                    self._server.sendall(message)
                    continue
                if message[:1] == b"\0":  # the first message has a length and no kind
                    self._writes = b" writer " in message
                    self._server.sendall(message)
                    continue
                if self._broken(message):
                    break
        self._hang_up()

    def _broken(self, message: bytes) -> bool:
        """Carry out a step, or the fault that is due at it; return whether nothing may follow."""
        fault = self._wire.step(self._name(message)) if self._writes else None
        match fault:
            case Fault.CUT:
                return True
            case Fault.TERMINATE:
                self._wire.terminate(self._backend)
            case Fault.MUTE:
                self._muted.set()
        self._server.sendall(message)
        return False

    def _down(self) -> None:
        """Pass on what the server answers."""
        with contextlib.suppress(OSError):
            for message in _messages(self._server, headless=False):
                if self._muted.is_set():
                    if message[:1] == _READY:
                        break
                    continue
                if message[:1] == b"K":
                    (self._backend,) = struct.unpack_from("!I", message, _HEADER)
                self._client.sendall(message)
        self._hang_up()

    def _learn(self, message: bytes) -> None:
        """Note which statement a name stands for, and which one is executed next."""
        parts = message[_HEADER:].split(b"\0", 2)
        if message[:1] == b"P":
            self._statements[parts[0]] = parts[1].decode()
        elif message[:1] == b"B":
            self._bound = parts[1]

    def _name(self, message: bytes) -> str:
        match message[:1]:
            case b"Q":
                return message[_HEADER:-1].decode()
            case b"E":
                return self._statements.get(self._bound, "")
            case kind:
                return kind.decode()

    def _hang_up(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _messages(source: socket.socket, *, headless: bool) -> Iterator[bytes]:
    """Split a stream of the protocol into messages; the first of a client has no kind."""
    buffer = b""
    while chunk := source.recv(_CHUNK):
        buffer += chunk
        while True:
            begin = 0 if headless else 1
            if len(buffer) < begin + 4:
                break
            (length,) = struct.unpack_from("!I", buffer, begin)
            if len(buffer) < begin + length:
                break
            yield buffer[: begin + length]
            buffer, headless = buffer[begin + length :], False
