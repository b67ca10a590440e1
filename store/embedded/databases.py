"""The two databases of a server, their roles and their addresses.

Rules: a database is owned by its admin role, which is no superuser; its application role may connect and owns nothing;
nobody else may connect. Making them is repeatable: what exists stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import URL

from records.errors import InvalidInputError, UnavailableError

SUPERUSER: Final = "vrm_superuser"
_DATABASES: Final = ("vrm_ledger", "vrm_runtime")
_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """Addresses of the two databases, in a form that psycopg takes as it is; for SQLAlchemy see `sqlalchemy_url`.

    Attributes:
        ledger_admin: Ledger as the role that owns its schema.
        ledger_app: Ledger as the role that the commit coordinator uses.
        runtime_admin: Runtime as the role that owns its schema.
        runtime_app: Runtime as the role that the run owners use.
    """

    ledger_admin: str
    ledger_app: str
    runtime_admin: str
    runtime_app: str


def sqlalchemy_url(dsn: str) -> URL:
    """Turn any libpq connection string (URI or key=value) into a SQLAlchemy URL for psycopg 3.

    Raises:
        InvalidInputError: libpq cannot read it.
    """
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    except psycopg.ProgrammingError as error:
        raise InvalidInputError("connection string", "(not shown)", f"libpq cannot read it: {error}") from error
    user, password, name = parts.pop("user", None), parts.pop("password", None), parts.pop("dbname", None)
    return URL.create("postgresql+psycopg", username=user, password=password, database=name, query=parts)


def provide(sockets: Path) -> DatabaseUrls:
    """Make the roles and databases that are missing and return their addresses.

    Raises:
        UnavailableError: the server refuses or does not answer.
    """
    try:
        with psycopg.connect(
            _address(sockets, SUPERUSER, "postgres"), autocommit=True, connect_timeout=_SECONDS
        ) as link:
            for name in _DATABASES:
                _make(link, name)
    except psycopg.Error as error:
        remedy = "Another server may hold this socket; stop it, or set VRM_HOME elsewhere."
        raise UnavailableError("embedded Postgres", f"{error}".strip(), remedy) from error
    pairs = [_address(sockets, f"{name}_{role}", name) for name in _DATABASES for role in ("admin", "app")]
    return DatabaseUrls(*pairs)


def refuses_for_now(sockets: Path) -> bool:
    """Tell whether a server is there that is starting, recovering from a crash or shutting down."""
    asked = psycopg.pq.PGconn.ping(_address(sockets, SUPERUSER, "postgres").encode())
    return asked == psycopg.pq.Ping.REJECT


def _make(link: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    admin, app = f"{name}_admin", f"{name}_app"
    for role in (admin, app):
        if link.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
            link.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    if link.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
        link.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(admin)))
    link.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
    link.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(name), sql.Identifier(app)))


def _address(sockets: Path, role: str, name: str) -> str:
    return f"postgresql:///{name}?host={quote(str(sockets), safe='/')}&port=5432&user={role}"


def require_answer(name: str, dsn: str) -> None:
    """Connect once, within five seconds.

    Args:
        name: of the variable that holds the address.
        dsn: libpq connection string; never shown, for it may hold a password.

    Raises:
        UnavailableError: it does not answer or refuses.
    """
    try:
        psycopg.connect(dsn, connect_timeout=_SECONDS).close()
    except psycopg.Error as error:
        raise UnavailableError(
            name, f"{error}".strip(), "Check the address, or unset it to use the embedded one."
        ) from error
