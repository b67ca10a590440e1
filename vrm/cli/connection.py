"""How commands reach the stores: one seam, the object of the command context.

A test puts a `Connection` of its own there; otherwise the composition root is asked, and only then imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

if TYPE_CHECKING:
    from actors.handles import Owners
    from memory.ports import CoordinatorPort, OwnerPort
    from store.artifacts import ArtifactStore
    from store.ledger.port import LedgerStore
    from store.runtime.port import RuntimeReader
    from vrm.home import Home


class OpenStores(Protocol):
    """Stores that are open for reading."""

    @property
    def ledger(self) -> LedgerStore:
        """The Experiment Ledger."""

    @property
    def runtime(self) -> RuntimeReader:
        """The Durable Runtime."""

    @property
    def artifacts(self) -> ArtifactStore:
        """The artifact bytes."""


@dataclass(frozen=True)
class Service:
    """A program that the installation uses: its name, whether it answers, and where or why not."""

    name: str
    running: bool
    detail: str


def _owners(stores: OpenStores) -> Owners:
    from vrm.bootstrap import Stores, owners, start_cluster  # noqa: PLC0415  # brings Ray along; help does without

    if not isinstance(stores, Stores):
        raise TypeError("a connection to other stores names its own owners")
    return owners(stores, start_cluster(stores.home))


def _coordinator(stores: OpenStores) -> CoordinatorPort:
    return _owners(stores).coordinator


def _run_owner(stores: OpenStores) -> OwnerPort:
    return _owners(stores).run_owner


def _home() -> Home:
    from vrm.home import find_home  # noqa: PLC0415  # as above

    return find_home(os.environ, Path.cwd())


@dataclass(frozen=True)
class Connection:
    """What commands work on.

    Attributes:
        stores: opens the stores for the length of a block; may start the embedded server.
        services: looks what runs, without starting anything.
        coordinator: the one writer of the Ledger; may start the cluster it lives in.
        run_owner: the owner of Runtime transitions; as above.
        home: finds the folders of the installation; nothing is made.
    """

    stores: Callable[[], AbstractContextManager[OpenStores]]
    services: Callable[[], list[Service]]
    coordinator: Callable[[OpenStores], CoordinatorPort] = _coordinator
    run_owner: Callable[[OpenStores], OwnerPort] = _run_owner
    home: Callable[[], Home] = _home


def connection(context: typer.Context) -> Connection:
    """Return the connection of a command: that of its context, else the installation's own."""
    given = context.find_object(Connection)
    return _own() if given is None else given


def _own() -> Connection:
    from vrm.bootstrap import stores  # noqa: PLC0415  # brings the drivers along; help does without

    return Connection(stores=stores, services=_services)


def _services() -> list[Service]:
    home = _home()
    return [_postgres(home.postgres, home.postgres_sockets, os.environ), _ray(home.ray, os.environ)]


def _postgres(folder: Path, sockets: Path, environ: Mapping[str, str]) -> Service:
    from store.server import EmbeddedPostgres  # noqa: PLC0415  # as above

    if environ.get("VRM_LEDGER_DSN") and environ.get("VRM_RUNTIME_DSN"):
        # An address may hold a password, so it is not shown.
        return Service("postgres", running=True, detail="given by VRM_LEDGER_DSN and VRM_RUNTIME_DSN")
    pid = EmbeddedPostgres(folder, sockets).pid()
    if pid is None:
        return Service("postgres", running=False, detail="stopped; `vrm up` starts it")
    return Service("postgres", running=True, detail=f"embedded, process {pid}")


def _ray(folder: Path, environ: Mapping[str, str]) -> Service:
    from actors import cluster  # noqa: PLC0415  # imports Ray

    if cluster.ClusterInfo.from_environment(environ) is not None:
        return Service("ray", running=True, detail="given by RAY_ADDRESS")
    info = cluster.attach(folder)
    if info is None:
        return Service("ray", running=False, detail="stopped; `vrm up` starts it")
    return Service("ray", running=True, detail=f"local, {info.address}")
