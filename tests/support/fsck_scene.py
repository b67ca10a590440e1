"""A world on Postgres that may be damaged: both databases are opened by the superuser, with every protection off.

What a case damages is rolled back, so no case can hide behind another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from importers.published_table import read_published_table
from memory.fsck import Code, FsckReport, fsck
from store.artifacts import ArtifactStore
from store.install import Definition
from store.ledger.postgres import PostgresLedger
from store.ledger.reader import PostgresReader
from store.ledger.schema import DEFINITION as LEDGER
from store.questions import Questions
from store.runtime.postgres import PostgresRuntime, PostgresRuntimeReader
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls
from tests.data.tables import write_table
from tests.data.world import World, build_world
from tests.support.stores import Addresses, fresh_database

Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True)
class Scene:
    """A world on Postgres, with the superuser's addresses of its databases."""

    world: World
    ledger: Addresses
    runtime: Addresses


@contextmanager
def set_scene(urls: DatabaseUrls, folder: Path) -> Iterator[Scene]:
    """Write a world through its owners, into databases of its own, and then switch off every trigger."""
    with (
        fresh_database(urls.ledger_admin, urls.ledger_app, LEDGER) as ledger_at,
        fresh_database(urls.runtime_admin, urls.runtime_app, RUNTIME) as runtime_at,
    ):
        ledger, runtime = PostgresLedger(ledger_at.app, "test"), PostgresRuntime(runtime_at.app, "test")
        table = read_published_table(write_table(folder / "table"))
        world = build_world(ledger, runtime, ArtifactStore(str(folder / "artifacts")), table)
        _disarm(ledger_at.superuser, LEDGER)
        _disarm(runtime_at.superuser, RUNTIME)
        try:
            yield Scene(world, ledger_at, runtime_at)
        finally:
            ledger.close()
            runtime.close()


@dataclass(frozen=True)
class Defenceless:
    """Both databases of a scene, open in transactions in which no trigger and no foreign key holds."""

    scene: Scene
    ledger: Connection
    runtime: Connection

    def check(self, *, with_runtime: bool = True, namespace: str | None = None) -> FsckReport:
        """Check what is there now."""
        runtime = _Reader(self.runtime) if with_runtime else None
        return fsck(PostgresReader(self.ledger), runtime, self.scene.world.artifacts, namespace=namespace)

    def ids(self, statement: str) -> set[str]:
        """Return the first column of what a query of either database gives."""
        connection = self.runtime if " runtime." in statement else self.ledger
        return {str(row[0]) for row in connection.execute(sql.SQL(statement)).fetchall()}

    def run(self, statement: str) -> None:
        """Damage something; it must be there."""
        connection = self.runtime if " runtime." in statement else self.ledger
        assert connection.execute(sql.SQL(statement)).rowcount > 0, statement


@contextmanager
def defenceless(scene: Scene) -> Iterator[Defenceless]:
    """Open both databases, and undo everything afterwards."""
    with _opened(scene.ledger.superuser) as ledger, _opened(scene.runtime.superuser) as runtime:
        yield Defenceless(scene, ledger, runtime)


def _disarm(address: str, definition: Definition) -> None:
    """Switch off the triggers of a database, those of its foreign keys too."""
    with psycopg.connect(address) as connection:
        for name in sorted(table.name for table in definition.metadata.sorted_tables):
            place = sql.Identifier(definition.schema, name)
            connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER ALL").format(place))


@contextmanager
def _opened(address: str) -> Iterator[Connection]:
    with psycopg.connect(address) as connection:
        yield connection
        connection.rollback()


class _Reader(PostgresRuntimeReader):
    """The Runtime as a transaction that damaged it sees it."""

    def __init__(self, connection: Connection) -> None:  # it opens no connection of its own
        self._questions = Questions(connection, "runtime")


def named(report: FsckReport, code: Code) -> set[str]:
    """Return what a report finds a code for."""
    return {violation.record for violation in report.violations if violation.code is code}
