"""The installation that a run breaks: its own Postgres and its own Ray, real and durable, gone afterwards.

Rules kept here:

- only processes that this installation started are ever signalled: its owners and workers (`crews`), and its server;
- a killed process is waited for, so that what follows happens after its end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import psutil

from actors.cluster import ClusterInfo, connect, disconnect, start_local
from actors.cluster import stop as stop_cluster
from actors.handles import owners_of
from actors.settings import Settings
from evaluation.chaos.crews import Actors, Crew, forked
from evaluation.chaos.faults import Who
from evaluation.chaos.gates import Gates
from evaluation.chaos.nursery import Nursery
from memory.fsck import FsckReport, fsck
from records.errors import UnavailableError
from store.artifacts import ArtifactStore
from store.database import address_of
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntimeReader
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls, EmbeddedPostgres

LIMIT_SECONDS: Final = 120.0
"""How long anything may take that comes by itself, such as a replacement."""
_POLL_SECONDS: Final = 0.01
RESOURCES: Final = {Who.RUN_OWNER: "run-owner/0", Who.COORDINATOR: "commit-coordinator/0"}


class StuckError(UnavailableError):
    """What must come by itself does not come; no recovery helps."""


@dataclass(frozen=True)
class Place:
    """One installation; this process is connected to its cluster.

    Attributes:
        folder: where everything of it lies.
        server: its Postgres.
        urls: addresses of the databases.
        cluster: its Ray.
        nursery: its plain processes.
    """

    folder: Path
    server: EmbeddedPostgres
    urls: DatabaseUrls
    cluster: ClusterInfo
    nursery: Nursery

    @cached_property
    def crews(self) -> tuple[tuple[Crew, Crew], ...]:
        """Who may serve: each crew with its successors, as a second node would start them."""
        here, there = self._settings(""), self._settings("/")
        actors = Actors(owners_of(here), here, self.cluster), Actors(owners_of(there), there, self.cluster)
        return actors, (forked(self.nursery, here), forked(self.nursery, here))

    @cached_property
    def ledger(self) -> PostgresLedger:
        """The Ledger, to read."""
        return PostgresLedger(self.urls.ledger_app, "chaos")

    @cached_property
    def runtime(self) -> PostgresRuntimeReader:
        """The Runtime, to read."""
        return PostgresRuntimeReader(self.urls.runtime_app, "chaos")

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The artifact store."""
        return ArtifactStore(self._settings("").artifacts_url)

    def gates(self, who: Who) -> Gates:
        """Return the gates of the database that somebody works on."""
        if who is Who.RUN_OWNER:
            return Gates(self.urls.runtime_admin, self.urls.runtime_app, RUNTIME.schema)
        return Gates(self.urls.ledger_admin, self.urls.ledger_app, LEDGER.schema)

    def build_gates(self) -> None:
        """Put the gates into both databases; everything passes."""
        self.gates(Who.RUN_OWNER).build()
        self.gates(Who.COORDINATOR).build()

    def kill_server(self) -> None:
        """Kill the server with all its processes."""
        pid = self.server.pid()
        if pid is None:
            return
        members = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(members, LIMIT_SECONDS)

    def heal(self) -> None:
        """Start the server if it is gone, or wait until it has recovered."""
        self.server.start()

    def check(self) -> FsckReport:
        """Check both stores and the artifacts."""
        with self.ledger.reading() as reader:
            return fsck(reader, self.runtime, self.artifacts)

    def _settings(self, suffix: str) -> Settings:
        return Settings(self.urls.ledger_app, self.urls.runtime_app, f"{self.folder / 'artifacts'}{suffix}")


@contextmanager
def installed(folder: Path | None) -> Iterator[Place]:
    """Make an installation; a `folder` that is given is kept for whoever wants to look, without its processes.

    Raises:
        UnavailableError: no server or no cluster can be started here.
    """
    root = Path(tempfile.mkdtemp(prefix="vrm-chaos-")) if folder is None else folder.absolute()
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o711)  # root's server runs as an unprivileged account, which must get in
    server = EmbeddedPostgres(root / "postgres", root / "s", bound=True)
    before = signal.getsignal(signal.SIGTERM)
    try:
        urls = server.start()
        for admin, app, definition in (
            (urls.ledger_admin, urls.ledger_app, LEDGER),
            (urls.runtime_admin, urls.runtime_app, RUNTIME),
        ):
            install(admin, address_of(app).role, definition)
        os.environ.setdefault("RAY_worker_niceness", "0")  # at Ray's own 15 actors starve on a busy machine
        info = start_local(root / "ray", os.cpu_count() or 1, temp=root / "r")
        connect(info)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # instead of Ray's own: what was started is ended, too
        with closing(Nursery(root / "n")) as nursery:
            yield Place(root, server, urls, info, nursery)
    finally:
        signal.signal(signal.SIGTERM, before)
        disconnect()
        stop_cluster(root / "ray")
        server.stop()
        if folder is None:
            shutil.rmtree(root, ignore_errors=True)


def kill(pid: int) -> None:
    """Kill a process, and wait for its end."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.kill()
        process.wait(LIMIT_SECONDS)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process for the length of a block, which begins when the kernel has it stopped."""
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "a process that was stopped runs on")
        yield
    finally:
        with suppress(ProcessLookupError):  # it was killed meanwhile
            os.kill(pid, signal.SIGCONT)


def until(condition: Callable[[], bool], complaint: str) -> None:
    """Wait for something that comes by itself.

    Raises:
        StuckError: it does not come.
    """
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise StuckError("chaos", complaint, f"It was waited for {LIMIT_SECONDS:.0f} s; report this.")
        time.sleep(_POLL_SECONDS)
