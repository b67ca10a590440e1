"""Freeze a small real store as SQL: `python -m tests.data.freeze_store FOLDER`.

The store is what the present code writes: a sweep carried from evidence to a rule, and one decision in each of two
arms. It is run once for a revision, by the code that made it, before the next revision changes the schema; what it
writes is never changed afterwards. `pg_dump` of the server's own programs does the writing.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.artifacts import ArtifactStore
from store.database import address_of
from store.embedded.binaries import find_binaries
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntime
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls, EmbeddedPostgres
from tests.support.stack import Stack, Stores
from tests.support.stack_decisions import ARMS, Study, learn

_LEFT_OUT = ("\\", "--", "SET transaction_timeout")  # of psql, comments, unknown to older servers
ROOTS = {"a": 0.05, "b": 0.051, "c": 0.049, "d": 0.053}


@contextmanager
def throwaway() -> Iterator[tuple[DatabaseUrls, Path]]:
    """Give a server with empty databases, and its folder; both are gone afterwards."""
    work = Path(tempfile.mkdtemp(prefix="vrm-freeze-"))
    work.chmod(0o711)  # root's server runs as an unprivileged account, which must get in
    server = EmbeddedPostgres(work / "postgres", work / "sockets", bound=True)
    try:
        yield server.start(), work
    finally:
        server.stop()
        shutil.rmtree(work, ignore_errors=True)


def freeze(folder: Path) -> None:
    """Write a store and leave it in `folder` as `ledger.sql.gz`, `runtime.sql.gz` and `artifacts.tar.gz`."""
    with throwaway() as (urls, work):
        artifacts = work / "artifacts"
        _fill(urls, artifacts)
        _write(folder / "ledger.sql.gz", _dump(urls.ledger_admin, LEDGER.schema))
        _write(folder / "runtime.sql.gz", _dump(urls.runtime_admin, RUNTIME.schema))
        _write(folder / "artifacts.tar.gz", _packed(artifacts))


def _fill(urls: DatabaseUrls, artifacts: Path) -> None:
    install(urls.ledger_admin, address_of(urls.ledger_app).role, LEDGER)
    install(urls.runtime_admin, address_of(urls.runtime_app).role, RUNTIME)
    ledger, runtime = PostgresLedger(urls.ledger_app, "freeze"), PostgresRuntime(urls.runtime_app, "freeze")
    stack = Stack(Stores(ledger, runtime, ArtifactStore(str(artifacts))), "demo")
    recall_input = learn(stack, ROOTS)
    for arm in ARMS:
        Study(stack, "pair-1", arm, recall_input).decide()
    ledger.close()
    runtime.close()


def _dump(dsn: str, schema: str) -> bytes:
    """Return the schema with its rows as statements that any client can run; psql's own commands are left out."""
    command = [find_binaries().program("pg_dump"), "--schema", schema, "--no-owner", "--rows-per-insert=50"]
    environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
    done = subprocess.run([*command, f"--dbname={dsn}"], capture_output=True, check=True, env=environment)
    lines = [line for line in done.stdout.decode().splitlines() if not line.startswith(_LEFT_OUT) and line]
    return ("\n".join(lines) + "\n").encode()


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(str(path.relative_to(folder)))
                entry.size = path.stat().st_size
                with path.open("rb") as source:
                    archive.addfile(entry, source)
    return packed.getvalue()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    freeze(Path(sys.argv[1]))
