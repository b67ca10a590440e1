"""A Postgres of one benchmark: in a temporary folder, durable like a real one, gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memory.ports import CoordinatorPort
from records.appends import Append, AppendReceipt
from records.errors import VrmError
from store.artifacts import ArtifactStore
from store.database import Connection, connect
from store.embedded.databases import SUPERUSER
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION
from store.runtime import schema as runtime_schema
from store.runtime.postgres import PostgresRuntime
from store.server import DatabaseUrls, EmbeddedPostgres

_SETTINGS: Final = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")


@dataclass(frozen=True)
class Peer:
    """A database for references: a connection, and what others connect by."""

    connection: Connection
    dsn: str


@dataclass(frozen=True)
class Bench:
    """What a benchmark works on.

    Attributes:
        urls: addresses of the server's databases.
        ledger: an empty Ledger, as its application role.
        artifacts: an empty artifact store.
        admin: a connection as the role that owns the Ledger's database, for tables of references.
    """

    urls: DatabaseUrls
    ledger: PostgresLedger
    artifacts: ArtifactStore
    admin: Connection

    @contextmanager
    def peer(self) -> Iterator[Peer]:
        """Make a database for a reference that needs the superuser of the server, and connect to it."""
        place = self.admin.info
        root = f"host='{place.host}' port={place.port} user={SUPERUSER}"
        with connect(f"{root} dbname=postgres", "bench reference") as link:
            link.execute("CREATE DATABASE peer")
        with connect(f"{root} dbname=peer", "bench reference") as made:
            yield Peer(made, f"{root} dbname=peer")

    def settings(self) -> dict[str, str]:
        """Return the settings that decide what a commit costs, as the server says them."""
        shown = {name: self.admin.execute("SELECT current_setting(%s)", [name]).fetchone() for name in _SETTINGS}
        return {name: str(row[0]) for name, row in shown.items() if row is not None}


def carry_out(coordinator: CoordinatorPort, appends: Sequence[Append]) -> list[AppendReceipt]:
    """Append directly, in one group, and return the receipts; in a benchmark no append may be refused.

    Raises:
        VrmError: what the first refused append was answered.
    """
    receipts = []
    for answer in coordinator.append_direct(appends):
        if isinstance(answer, VrmError):
            raise answer
        receipts.append(answer)
    return receipts


@contextmanager
def throwaway() -> Iterator[Bench]:
    """Start a server, open an empty Ledger on it, and leave nothing behind.

    Raises:
        UnavailableError: no server can be started here.
    """
    folder = Path(tempfile.mkdtemp(prefix="vrm-bench-"))
    folder.chmod(0o711)  # root's server runs as an unprivileged account, which must get in
    server = EmbeddedPostgres(folder / "postgres", folder / "sockets", bound=True)
    try:
        urls = server.start()
        try:
            with _opened(urls, folder) as bench:
                yield bench
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def with_runtime(bench: Bench) -> Iterator[PostgresRuntime]:
    """Open an empty Runtime on the server of a bench, in the database that is its own."""
    with connect(bench.urls.runtime_app, "bench") as probe:
        role = probe.info.user
    install(bench.urls.runtime_admin, role, runtime_schema.DEFINITION)
    runtime = PostgresRuntime(bench.urls.runtime_app, "bench")
    try:
        yield runtime
    finally:
        runtime.close()


@contextmanager
def _opened(urls: DatabaseUrls, folder: Path) -> Iterator[Bench]:
    with connect(urls.ledger_app, "bench") as probe:
        role = probe.info.user
    install(urls.ledger_admin, role, DEFINITION)
    ledger = PostgresLedger(urls.ledger_app, "bench")
    admin = connect(urls.ledger_admin, "bench reference")
    try:
        yield Bench(urls, ledger, ArtifactStore(str(folder / "artifacts")), admin)
    finally:
        admin.close()
        ledger.close()
