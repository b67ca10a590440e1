"""Who serves: a set of owners and workers, as Ray actors or as plain processes, and where their processes are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import psutil

from actors.cluster import ClusterInfo
from actors.handles import Owners, Role, owners_of
from actors.settings import Settings
from evaluation.chaos.faults import Who
from evaluation.chaos.gates import processes
from evaluation.chaos.nursery import ForkedHandle, Nursery

_CLASSES: Final = {
    Who.RUN_OWNER: ("RunOwnerActor", "run-owner writer"),
    Who.COORDINATOR: ("CommitCoordinatorActor", "coordinator writer"),
    Who.HEAD_HOST: ("LifecycleHeadActor", "lifecycle-head"),
    Who.WORKER: ("DistillationWorkerActor", "distiller"),
}
"""How an actor's process is recognised: by its class, and by how its connections begin."""


class Crew(Protocol):
    """A set of owners and workers."""

    @property
    def name(self) -> str:
        """What its processes are."""

    @property
    def owners(self) -> Owners:
        """The ports; nobody is started before a call."""

    def process(self, who: Who, number: str = "") -> int:
        """Return the process of one of them; 0 if none is there. `number` says which of several, where it matters."""


@dataclass(frozen=True)
class Actors:
    """Named, detached Ray actors, found, made and replaced by the product's handles."""

    owners: Owners
    settings: Settings
    cluster: ClusterInfo
    name: str = "Ray actors"

    def process(self, who: Who, number: str = "") -> int:
        """Return the process as the database knows it by a connection, or else the kernel by its title."""
        actor, connection = _CLASSES[who]
        dsn = self.settings.runtime_dsn if who is Who.RUN_OWNER else self.settings.ledger_dsn
        known = processes(dsn, f"{connection} {number}".strip())
        return _living([*known, *_titled(self.cluster, f"ray::{actor}")])


@dataclass(frozen=True)
class Processes:
    """Plain processes."""

    owners: Owners
    name: str = "plain processes"

    def process(self, who: Who, number: str = "") -> int:
        """Return the process that a handle talks to."""
        handles = {
            Who.RUN_OWNER: (self.owners.run_owner.handle,),
            Who.COORDINATOR: (self.owners.coordinator.handle,),
            Who.HEAD_HOST: self.owners.heads.hosts[int(number or 0) :],
            Who.WORKER: self.owners.distillers.workers,
        }[who]
        return _living(handle.pid for handle in handles if isinstance(handle, ForkedHandle))


def forked(nursery: Nursery, settings: Settings) -> Processes:
    """Return plain processes that work in an installation."""

    def handle(role: Role, where: Settings) -> ForkedHandle:
        return ForkedHandle(nursery, role, where)

    return Processes(owners_of(settings, handle))


def is_alive(pid: int) -> bool:
    """Return whether a process runs, or could run."""
    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False


def _living(pids: Iterable[int]) -> int:
    return next((pid for pid in pids if pid and is_alive(pid)), 0)


def _titled(cluster: ClusterInfo, title: str) -> list[int]:
    """Return the processes of a cluster whose title begins so."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == cluster.pid and "".join(process.cmdline()).startswith(title):
                found.append(process.pid)
    return found
