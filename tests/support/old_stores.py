"""Stores as earlier revisions made them (`tests/data/store_revision_*`), loaded into databases of their own."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from store.server import DatabaseUrls
from tests.support.stores import Addresses, address, fresh_database

_NUMBERS = itertools.count(1)
_DATA = Path(__file__).resolve().parents[1] / "data"
FOLDERS = {int(path.name.rpartition("_")[2]): path for path in sorted(_DATA.glob("store_revision_*"))}
"""The folder of each revision that a store was kept of."""


def load(dsn: str, folder: Path, schema: str) -> None:
    """Run the statements of a kept store as the role that owns the database."""
    with psycopg.connect(dsn) as link:
        link.execute(gzip.decompress((folder / f"{schema}.sql.gz").read_bytes()))


def unpack_artifacts(folder: Path, target: Path) -> None:
    """Unpack the artifacts of a kept store."""
    data = gzip.decompress((folder / "artifacts.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")


@contextmanager
def loaded(urls: DatabaseUrls, folder: Path, schema: str) -> Iterator[Addresses]:
    """Give a database that holds one schema of a kept store."""
    admin, app = (getattr(urls, f"{schema}_{role}") for role in ("admin", "app"))
    with fresh_database(admin, app, None) as made:
        load(made.admin, folder, schema)
        yield made


def cloned(origin: Addresses) -> Addresses:
    """Return a copy of a database that nobody is connected to; it goes with the session's server.

    Dropping a database waits for a checkpoint, which takes longer than a test.
    """
    name = f"copy_{next(_NUMBERS)}"
    parts = {
        "name": sql.Identifier(name),
        "source": sql.Identifier(str(conninfo_to_dict(origin.superuser)["dbname"])),
        "owner": sql.Identifier(str(conninfo_to_dict(origin.admin)["user"])),
    }
    with psycopg.connect(address(origin.superuser, dbname="postgres"), autocommit=True) as link:
        link.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {source} OWNER {owner}").format(**parts))
    return Addresses(*(address(getattr(origin, role), dbname=name) for role in ("superuser", "admin", "app")))


def stored_bytes(addresses: Addresses, schema: str, columns: str = "payload|receipt|chain_digest|body|facts") -> str:
    """Return one digest over what every row of every table stores for good."""
    digest = hashlib.sha256()
    with psycopg.connect(addresses.superuser) as link:
        tables = link.execute(
            "SELECT table_name, array_agg(column_name::text ORDER BY column_name) FROM information_schema.columns "
            "WHERE table_schema = %s GROUP BY 1 ORDER BY 1",
            [schema],
        ).fetchall()
        for table, names in tables:
            kept = [name for name in names if re.fullmatch(columns, name)]
            if kept:
                query = sql.SQL("SELECT {} FROM {} AS held ORDER BY 1").format(
                    sql.SQL(", ").join(map(sql.Identifier, kept)), sql.Identifier(schema, table)
                )
                rows = sorted(link.execute(query).fetchall())
                digest.update(f"{table} {rows}\n".encode() if rows else b"")
    return digest.hexdigest()
