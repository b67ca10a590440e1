"""A server that dies, fills its disk or does not answer under a writer: fsck and asking again are the oracle."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memory.fsck import fsck
from records.appends import Append, AppendReceipt
from records.errors import UnavailableError
from store.embedded.databases import SUPERUSER
from store.install import install
from store.ledger.port import Request
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION
from store.server import DatabaseUrls, EmbeddedPostgres
from tests.support.stores import Writer, evidence_append
from tests.support.trials import make_evidence
from vrm.home import Home

LIMIT_SECONDS: Final = 60.0
DISK: Final = "320m"
"""What initdb asks for before it begins, and a little more."""


@dataclass
class Scene:
    """A server, and a writer that outlives it."""

    server: EmbeddedPostgres
    urls: DatabaseUrls
    writer: Writer

    @property
    def store(self) -> PostgresLedger:
        assert isinstance(self.writer.store, PostgresLedger)
        return self.writer.store

    @property
    def superuser(self) -> str:
        return make_conninfo(self.urls.ledger_admin, user=SUPERUSER)

    def append(self, seed: int, **changes: Any) -> Append:
        records = make_evidence(self.writer.namespace, seed=seed, **changes)
        return evidence_append(records, f"k{seed}")

    def commit(self, *appends: Append) -> list[Any]:
        return list(self.store.commit(self.writer.epoch, [Request(append) for append in appends]))

    def found(self, *appends: Append) -> dict[str, AppendReceipt]:
        return self.store.receipts(self.writer.namespace, [append.permit_key for append in appends])

    def back(self) -> None:
        """Start the server again."""
        assert self.server.start() == self.urls

    def clean(self) -> None:
        with self.store.reading() as reader:
            report = fsck(reader, None, None)
        assert report.clean, report.text()


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    home = Home(folder / "h").create()
    server = EmbeddedPostgres(home.postgres, home.postgres_sockets, bound=True, wait_seconds=LIMIT_SECONDS)
    try:
        urls = server.start()
        install(urls.ledger_admin, str(conninfo_to_dict(urls.ledger_app)["user"]), DEFINITION)
        store = PostgresLedger(urls.ledger_app, "faults")
        scene = Scene(server, urls, Writer.claim(store))
        yield scene
        scene.clean()
        store.close()
    finally:
        server.stop()


@pytest.fixture
def scene(open_path: Path) -> Iterator[Scene]:
    with scene_in(open_path) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    """Look until it is so; each look asks a server or the kernel, which paces the loop."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "it never came to be"


def answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn, connect_timeout=5):
            return True
    except psycopg.OperationalError:
        return False


def guarded(scene: Scene, act: Callable[[], None], *appends: Append) -> list[Any]:
    """Commit a group; `act` once the last append is about to be written."""
    asked: list[object] = []

    def guard(_reader: object, _append: object) -> None:
        asked.append(1)
        if len(asked) == len(appends):
            act()

    return list(scene.store.commit(scene.writer.epoch, [Request(append, guard) for append in appends]))


def first_refusal(act: Callable[[], object]) -> UnavailableError:
    """Act until it is refused; each act asks a server, which paces the loop."""
    limit = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < limit:
        try:
            act()
        except UnavailableError as error:
            return error
    raise AssertionError("it was never refused")


class TestServerGone:
    def test_killed_between_two_commits_and_started_again(self, scene: Scene) -> None:
        first, second = scene.append(1), scene.append(2)
        kept = scene.commit(first)
        pid = scene.server.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: not answers(scene.urls.ledger_app))
        for refuse in (lambda: scene.commit(second), lambda: scene.found(first), lambda: scene.store.claim("x", "y")):
            # Backends notice the death of their server when they wait; until then they may answer.
            assert "again" in first_refusal(refuse).remedy
        scene.back()
        assert scene.commit(first) == kept
        assert scene.commit(second)[0].committed
        assert len(scene.found(first, second)) == 2

    def test_killed_in_the_middle_of_a_group(self, scene: Scene) -> None:
        group = [scene.append(seed) for seed in (1, 2, 3)]

        def kill() -> None:
            pid = scene.server.pid()
            assert pid is not None
            backends = psutil.Process(pid).children()
            os.kill(pid, signal.SIGKILL)
            for backend in backends:
                backend.kill()
            psutil.wait_procs(backends, LIMIT_SECONDS)

        with pytest.raises(UnavailableError) as caught:
            guarded(scene, kill, *group)
        assert "again" in caught.value.remedy
        scene.back()
        assert scene.found(*group) == {}
        assert not scene.writer.journal()
        assert all(answer.committed for answer in scene.commit(*group))

    def test_a_backend_that_crashes_takes_the_server_through_recovery(self, scene: Scene) -> None:
        group = [scene.append(seed) for seed in (1, 2)]
        kept = scene.commit(group[0])
        connection = scene.store._writer._connection
        assert connection is not None
        backend = psutil.Process(connection.info.backend_pid)

        def crash() -> None:
            backend.kill()
            backend.wait(LIMIT_SECONDS)

        with pytest.raises(UnavailableError):
            guarded(scene, crash, group[1])
        until(lambda: answers(scene.superuser))
        assert scene.commit(*group)[0] == kept[0]
        assert len(scene.found(*group)) == 2

    def test_an_orderly_shutdown_while_a_group_is_open(self, scene: Scene) -> None:
        group = [scene.append(seed) for seed in (1, 2)]
        with pytest.raises(UnavailableError):
            guarded(scene, lambda: require(scene.server.stop()), *group)
        with pytest.raises(UnavailableError):
            scene.commit(*group)
        scene.back()
        assert scene.found(*group) == {}
        assert all(answer.committed for answer in scene.commit(*group))


def require(fact: bool) -> None:
    assert fact


class TestSlowServer:
    @pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
    def test_a_lock_that_is_not_given_in_time(self, scene: Scene, limit: str) -> None:
        first, second = scene.append(1), scene.append(2)
        scene.commit(first)
        connection = scene.store._writer._connection
        assert connection is not None
        connection.execute(sql.SQL("SET {} = 50").format(sql.Identifier(limit)))
        with psycopg.connect(scene.superuser) as other:
            other.execute("SELECT 1 FROM ledger.namespace_heads FOR UPDATE")
            with pytest.raises(UnavailableError, match="timeout") as caught:
                scene.commit(second)
            assert "again" in caught.value.remedy
            assert scene.found(second) == {}
        assert scene.commit(second)[0].committed

    def test_an_owner_that_stands_still_in_its_transaction_is_ended(self, scene: Scene) -> None:
        """It has sent a part of a group, so the server does not take it for idle; the limit of the whole ends it."""
        append = scene.append(1)
        connection = scene.store._writer._connection
        assert connection is not None
        assert connection.execute("SHOW transaction_timeout").fetchone() == ("5min",)
        connection.execute("SET transaction_timeout = 200")
        watched = connection.info.backend_pid

        def idle() -> None:
            with psycopg.connect(scene.superuser, autocommit=True) as link:
                query = "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = %s"
                until(lambda: link.execute(query, [watched]).fetchone() == (True,))

        with pytest.raises(UnavailableError):
            guarded(scene, idle, append)
        assert scene.found(append) == {}
        assert scene.commit(append)[0].committed


@pytest.fixture
def small_disk(open_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own that is soon full."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux mounts a small disk")
    home = open_path / "h"
    home.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK},mode=0711", "tmpfs"]
    done = subprocess.run(["mount", *options, str(home)], capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode != 0:
        pytest.skip(f"this machine does not let root mount: {done.stderr.strip()}")
    yield open_path
    subprocess.run(["umount", str(home)], check=True)  # noqa: S607


class Ballast:
    """A file that takes what is left of a disk."""

    def __init__(self, folder: Path, spare: int) -> None:
        """Leave `spare` bytes."""
        self._path = folder / "ballast"
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - spare)

    def drop(self) -> None:
        """Give the space back."""
        self._path.unlink()


class TestDiskFull:
    def bulky(self, scene: Scene, seed: int) -> Append:
        """Return an append of some 600 kB that do not compress."""
        records = make_evidence(scene.writer.namespace, seed=seed)
        hypotheses = [
            records[1].model_copy(update={"statement": secrets.token_hex(40_000), "mechanism": f"m{seed}-{number}"})
            for number in range(8)
        ]
        return evidence_append([records[0], *hypotheses], f"bulky-{seed}")

    def test_a_table_that_cannot_grow(self, small_disk: Path) -> None:
        with scene_in(small_disk) as scene:
            scene.commit(scene.append(1))
            ballast = Ballast(small_disk / "h", spare=400_000)
            appends = [self.bulky(scene, seed) for seed in range(40)]
            done: list[Append] = []
            left = iter(appends)

            def next_one() -> None:
                append = next(left)
                scene.commit(append)
                done.append(append)

            error = first_refusal(next_one)
            failed = appends[len(done)]
            assert (error.value, error.remedy) == ("disk full", "Free disk space; nothing was acknowledged.")
            assert scene.found(*appends).keys() == {append.permit_key for append in done}
            ballast.drop()
            assert scene.commit(failed)[0].committed
            assert scene.found(failed).keys() == {failed.permit_key}

    def test_a_log_that_cannot_grow_ends_the_server(self, small_disk: Path) -> None:
        with scene_in(small_disk) as scene:
            append = scene.append(1)
            kept = scene.commit(scene.append(2))
            ballast = Ballast(small_disk / "h", spare=100_000)
            with psycopg.connect(scene.superuser, autocommit=True) as link:
                try:
                    while True:  # until no further segment can be made
                        link.execute("SELECT pg_switch_wal()")
                        link.execute("CREATE TEMPORARY TABLE filler AS SELECT 1; DROP TABLE filler")
                        link.execute("SELECT pg_logical_emit_message(true, 'vrm', 'x')")
                except psycopg.Error:
                    pass
            last = scene.append(3)
            first_refusal(lambda: scene.commit(append, last))  # the server may still be on its way down
            ballast.drop()
            scene.back()
            assert scene.commit(scene.append(2)) == kept
            assert all(answer.committed for answer in scene.commit(append, last))
