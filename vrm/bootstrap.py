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
from typing import TYPE_CHECKING

from actors.cluster import ClusterInfo, attach, connect, start_local
from actors.handles import Owners, owners_of
from actors.settings import Settings
from memory.trace.log import VARIABLE, Form, form_of, open_log
from policies.embedding_policy import EmbeddingPolicy, embedding_policy
from policies.loading import load_policy
from records.errors import InvalidInputError, UnavailableError
from store.artifacts import ArtifactStore
from store.database import address_of
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntimeReader
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls, EmbeddedPostgres, open_databases
from vrm.home import Home, find_home

if TYPE_CHECKING:
    from store.migrations.run import Migration


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
        InvalidInputError: `VRM_LOG` says something unknown.
        UnavailableError: no server can be started or reached.
        OutdatedSchemaError: a database holds an earlier revision; `migrate_stores` brings it up to date.
        SchemaError: a database holds a foreign, partial or unknown schema.
    """
    env = os.environ if environ is None else environ
    where = home or home_of(env)
    open_log(where.events, form_of(env.get(VARIABLE, "")))
    urls = open_databases(server_of(where), env)
    _refuse_one_database(urls)
    install(urls.ledger_admin, address_of(urls.ledger_app).role, LEDGER)
    install(urls.runtime_admin, address_of(urls.runtime_app).role, RUNTIME)
    return Stores(
        home=where,
        urls=urls,
        ledger=PostgresLedger(urls.ledger_app, "reader"),
        runtime=PostgresRuntimeReader(urls.runtime_app, "reader"),
        artifacts=ArtifactStore(env.get("VRM_ARTIFACTS_URL", "") or str(where.artifacts)),
    )


def migrate_stores(
    home: Home | None = None, environ: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> list[Migration]:
    """Start or find the databases, and bring the schema of each to this program's revision; the Ledger first.

    Both are looked at before the first is changed. Each is one transaction of its own: if the second fails, the first
    stays migrated, and running it again goes on with the second.

    Returns:
        What was done to each schema, or with `dry_run` what would be done.

    Raises:
        UnavailableError: no server can be started or reached, or somebody still writes.
        SchemaError: a database holds no schema of ours, a partial one, or one of an unknown revision.
    """
    from store.migrations import chain  # noqa: PLC0415  # Alembic is loaded for this alone
    from store.migrations.run import migrate, planned  # noqa: PLC0415  # as above

    env = os.environ if environ is None else environ
    urls = open_databases(server_of(home or home_of(env)), env)
    _refuse_one_database(urls)
    places = [
        (urls.ledger_admin, urls.ledger_app, chain.LEDGER),
        (urls.runtime_admin, urls.runtime_app, chain.RUNTIME),
    ]
    plans = [planned(admin, each) for admin, _, each in places]
    if dry_run:
        return plans
    return [migrate(admin, address_of(app).role, each) for admin, app, each in places]


@contextmanager
def stores(home: Home | None = None) -> Iterator[Stores]:
    """Open the stores for the length of a block."""
    opened = open_stores(home)
    try:
        yield opened
    finally:
        opened.close()


def cluster_of(home: Home, environ: Mapping[str, str] | None = None) -> ClusterInfo | None:
    """Return the cluster that `RAY_ADDRESS` names, or the home's own if it runs; nothing is started."""
    env = os.environ if environ is None else environ
    return ClusterInfo.from_environment(env) or attach(home.ray)


def start_cluster(home: Home, *, dashboard: bool = False, environ: Mapping[str, str] | None = None) -> ClusterInfo:
    """Return the cluster in use, after starting the home's own if there is none."""
    found = cluster_of(home, environ)
    return found or start_local(home.ray, os.cpu_count() or 1, temp=home.ray_temp, dashboard=dashboard)


def embedding(environ: Mapping[str, str] | None = None) -> EmbeddingPolicy:
    """Return the Embedding Policy of an installation: the file that `VRM_EMBEDDING_POLICY` names, or the packaged one.

    Raises:
        InvalidInputError: the file cannot be read, or it is no such policy.
    """
    path = (os.environ if environ is None else environ).get("VRM_EMBEDDING_POLICY", "")
    if not path:
        return embedding_policy()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError("VRM_EMBEDDING_POLICY", path, f"Give a policy file: {error}") from error
    return load_policy(EmbeddingPolicy, text, path)


def owners(opened: Stores, info: ClusterInfo | None) -> Owners:
    """Connect to a cluster and return the actors of this installation; each is found or created when first called.

    Raises:
        UnavailableError: there is no cluster, or it does not answer.
        InvalidInputError: the Embedding Policy cannot be used.
    """
    if info is None:
        raise UnavailableError("ray", "no cluster runs", "Start one with `vrm up`, or set RAY_ADDRESS.")
    connect(info)
    events = "" if form_of(os.environ.get(VARIABLE, "")) is Form.OFF else str(opened.home.events)
    return owners_of(
        Settings(opened.urls.ledger_app, opened.urls.runtime_app, opened.artifacts.url, embedding(), events=events)
    )


def _refuse_one_database(urls: DatabaseUrls) -> None:
    """Ledger and Runtime are two authorities; one database for both would invite one transaction over both."""
    ledger, runtime = address_of(urls.ledger_app), address_of(urls.runtime_app)
    if ledger.place == runtime.place:
        raise InvalidInputError("VRM_RUNTIME_DSN", ledger.database, "Give the Runtime a database of its own.")
