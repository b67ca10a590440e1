"""The composition root: from a home folder and the environment to open stores and running owners.

Rules kept here: nothing else decides which adapter is used; databases are brought up to this program's schema or
refused before anybody reads them; the Ledger and the Runtime are opened as their application roles, never as owners of
a schema.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from records.errors import InvalidInputError
from store.artifacts import ArtifactStore
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntimeReader
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls, EmbeddedPostgres, open_databases
from vrm.home import Home, find_home

DEFAULT_NAMESPACE: Final = "demo"


@dataclass(frozen=True, kw_only=True)
class Stores:
    """Open stores, to read from; owners open their own connections to write."""

    home: Home
    urls: DatabaseUrls
    ledger: PostgresLedger
    runtime: PostgresRuntimeReader
    artifacts: ArtifactStore

    def close(self) -> None:
        """Give back the connections; the servers keep running."""
        self.ledger.close()
        self.runtime.close()


def home_of(environ: Mapping[str, str] | None = None) -> Home:
    """Return the home that the environment and the working folder name, with its folders made."""
    return find_home(os.environ if environ is None else environ, Path.cwd()).create()


def server_of(home: Home) -> EmbeddedPostgres:
    """Return the embedded server of a home; not started."""
    return EmbeddedPostgres(home.postgres, home.postgres_sockets)


def open_stores(home: Home | None = None, environ: Mapping[str, str] | None = None) -> Stores:
    """Start or find the databases, bring them up to the schema, and open them.

    Raises:
        UnavailableError: no server can be started or reached.
        IntegrityError: a database holds a foreign, partial or unknown schema.
    """
    env = os.environ if environ is None else environ
    where = home or home_of(env)
    urls = open_databases(server_of(where), env)
    _refuse_one_database(urls)
    install(urls.ledger_admin, _role(urls.ledger_app), LEDGER)
    install(urls.runtime_admin, _role(urls.runtime_app), RUNTIME)
    return Stores(
        home=where,
        urls=urls,
        ledger=PostgresLedger(urls.ledger_app, "reader"),
        runtime=PostgresRuntimeReader(urls.runtime_app, "reader"),
        artifacts=ArtifactStore(env.get("VRM_ARTIFACTS_URL", "") or str(where.artifacts)),
    )


@contextmanager
def stores(home: Home | None = None) -> Iterator[Stores]:
    """Open the stores for the length of a block."""
    opened = open_stores(home)
    try:
        yield opened
    finally:
        opened.close()


def _role(dsn: str) -> str:
    return str(conninfo_to_dict(dsn).get("user") or "")


def _refuse_one_database(urls: DatabaseUrls) -> None:
    """Ledger and Runtime are two authorities; one database for both would invite one transaction over both."""
    ledger, runtime = (conninfo_to_dict(dsn) for dsn in (urls.ledger_app, urls.runtime_app))
    place = [(parts.get("host"), parts.get("port"), parts.get("dbname")) for parts in (ledger, runtime)]
    if place[0] == place[1]:
        raise InvalidInputError("VRM_RUNTIME_DSN", str(place[1][2]), "Give the Runtime a database of its own.")
