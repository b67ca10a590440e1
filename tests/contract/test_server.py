"""The embedded server against the real programs: start, attach, crash, strangers' files, refusals."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import create_engine, text

from records.errors import InvalidInputError, UnavailableError
from store.embedded import account, binaries
from store.embedded.postmaster import leftovers, running, wait_until
from store.server import DatabaseUrls, EmbeddedPostgres, open_databases, sqlalchemy_url
from vrm.home import Home

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(open_path: Path) -> Home:
    return Home(open_path / "h").create()


@pytest.fixture
def server(home: Home) -> Iterator[EmbeddedPostgres]:
    made = EmbeddedPostgres(home.postgres, home.postgres_sockets, bound=True, wait_seconds=30)
    yield made
    made.stop()


def one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as link:
        row = link.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def test_durable_and_local(postgres_urls: DatabaseUrls) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert one(postgres_urls.ledger_app, f"SHOW {setting}") == "on"
    assert one(postgres_urls.ledger_app, "SHOW listen_addresses") == ""
    assert one(postgres_urls.ledger_app, "SHOW TimeZone") == "UTC"


def test_text_sorts_by_code_point(postgres_urls: DatabaseUrls) -> None:
    words = ["b", "B", "ä", "a", "Z", "😀", "z"]
    found = one(
        postgres_urls.ledger_app, "SELECT array_agg(w ORDER BY w) FROM unnest(ARRAY['b','B','ä','a','Z','😀','z']) w"
    )
    assert found == sorted(words)


def test_roles_are_apart(postgres_urls: DatabaseUrls) -> None:
    pairs = {
        postgres_urls.ledger_admin: ("vrm_ledger_admin", "vrm_ledger"),
        postgres_urls.ledger_app: ("vrm_ledger_app", "vrm_ledger"),
        postgres_urls.runtime_admin: ("vrm_runtime_admin", "vrm_runtime"),
        postgres_urls.runtime_app: ("vrm_runtime_app", "vrm_runtime"),
    }
    for dsn, (role, name) in pairs.items():
        assert (one(dsn, "SELECT current_user::text"), one(dsn, "SELECT current_database()::text")) == (role, name)
        assert one(dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(postgres_urls.ledger_app) as link:
        link.execute("CREATE TABLE public.intruder ()")
    crossed = postgres_urls.ledger_app.replace("user=vrm_ledger_app", "user=vrm_runtime_app")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(crossed)


def test_addresses_work_in_sqlalchemy(postgres_urls: DatabaseUrls) -> None:
    engine = create_engine(sqlalchemy_url(postgres_urls.runtime_app))
    with engine.connect() as link:
        assert link.execute(text("SELECT current_user::text")).scalar_one() == "vrm_runtime_app"
    engine.dispose()


def test_keyword_address_and_password() -> None:
    url = sqlalchemy_url("host=db.example port=5433 dbname=x user=u password='p w'")
    assert (url.drivername, url.username, url.password, url.database) == ("postgresql+psycopg", "u", "p w", "x")
    assert dict(url.query) == {"host": "db.example", "port": "5433"}
    with pytest.raises(InvalidInputError) as caught:
        sqlalchemy_url("secret=hunter2")
    assert "hunter2" not in caught.value.value


def test_restart_keeps_rows_and_second_start_attaches(server: EmbeddedPostgres) -> None:
    urls = server.start()
    pid = server.pid()
    with psycopg.connect(urls.ledger_admin) as link:
        link.execute("CREATE TABLE kept AS SELECT 7 AS n")
    assert server.start() == urls
    assert server.pid() == pid
    assert server.stop()
    assert not server.stop()
    assert server.pid() is None
    assert server.start() == urls
    assert one(urls.ledger_admin, "SELECT n FROM kept") == 7


def test_kill_9_then_start(server: EmbeddedPostgres) -> None:
    urls = server.start()
    with psycopg.connect(urls.runtime_admin) as link:
        link.execute("CREATE TABLE kept AS SELECT 8 AS n")
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)  # our child: it stays a zombie until it is reaped, and must not count as alive
    assert server.start() == urls
    assert server.pid() != pid
    assert one(urls.runtime_admin, "SELECT n FROM kept") == 8


def test_reused_pid_is_not_the_server(server: EmbeddedPostgres, home: Home) -> None:
    server.start()
    server.stop()
    data = home.postgres / "data"
    owner = data.stat().st_uid
    with subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None) as stranger:  # noqa: S607
        pid_file = data / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{data}\n1\n5432\n{home.postgres_sockets}\n\n  0 0\nready   \n")
        shutil.copy(pid_file, home.postgres_sockets / ".s.PGSQL.5432.lock")
        assert server.pid() is None
        assert not server.stop()
        urls = server.start()
        assert one(urls.ledger_app, "SELECT 1") == 1
        assert stranger.poll() is None, "a stranger's process is never touched"
        stranger.kill()


def test_truncated_pid_file(server: EmbeddedPostgres, home: Home) -> None:
    server.start()
    server.stop()
    (home.postgres / "data" / "postmaster.pid").write_text("")
    assert one(server.start().ledger_app, "SELECT 1") == 1


def test_two_processes_at_once_make_one_server(home: Home) -> None:
    program = textwrap.dedent(f"""
        from pathlib import Path
        from store.server import EmbeddedPostgres
        server = EmbeddedPostgres(Path({str(home.postgres)!r}), Path({str(home.postgres_sockets)!r}))
        server.start()
        print(server.pid())
    """)
    starters = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = {starter.communicate(timeout=90)[0].strip() for starter in starters}
    server = EmbeddedPostgres(home.postgres, home.postgres_sockets)
    try:
        assert [starter.returncode for starter in starters] == [0, 0]
        assert answers == {str(server.pid())}, "detached: it outlives both"
    finally:
        assert server.stop()
    assert leftovers(home.postgres / "data") == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's death signal is Linux only")
def test_bound_server_dies_with_a_killed_owner(home: Home) -> None:
    program = textwrap.dedent(f"""
        from pathlib import Path
        from store.server import EmbeddedPostgres
        server = EmbeddedPostgres(Path({str(home.postgres)!r}), Path({str(home.postgres_sockets)!r}), bound=True)
        server.start()
        print(server.pid(), flush=True)
        input()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
        assert wait_until(lambda: not psutil.pid_exists(pid), 20)
    assert leftovers(home.postgres / "data") == []


def test_foreign_data_folder_is_left_alone(server: EmbeddedPostgres, home: Home) -> None:
    data = home.postgres / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, "nobody")
    (data / "PG_VERSION").write_text("18\n")
    with pytest.raises(UnavailableError, match="not made by this project"):
        server.start()
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_other_major_version(server: EmbeddedPostgres, home: Home) -> None:
    server.start()
    server.stop()
    (home.postgres / "data" / "PG_VERSION").write_text("13\n")
    with pytest.raises(UnavailableError, match=r"version: 13\. The programs are PostgreSQL \d+"):
        server.start()


def test_half_made_folder_is_made_again(server: EmbeddedPostgres, home: Home) -> None:
    (home.postgres / "data.new" / "base").mkdir(parents=True)
    assert one(server.start().ledger_app, "SELECT 1") == 1


def test_taken_socket(server: EmbeddedPostgres, home: Home, open_path: Path) -> None:
    server.start()
    second = Home(open_path / "second").create()
    intruder = EmbeddedPostgres(second.postgres, home.postgres_sockets, bound=True, wait_seconds=20)
    with pytest.raises(UnavailableError, match="Another server holds the socket") as caught:
        intruder.start()
    assert "postgres.log" in str(caught.value)
    assert server.pid() is not None


def test_refused_start_shows_the_log(server: EmbeddedPostgres, home: Home) -> None:
    server.start()
    server.stop()
    (home.postgres / "data" / "postgresql.conf").write_text("shared_buffers = 'nonsense'\n")
    with pytest.raises(UnavailableError, match="nonsense"):
        server.start()


def test_no_programs(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(binaries, "_WHEELS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="VRM_LEDGER_DSN"):
        server.start()


def test_failing_initdb(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, home: Home) -> None:
    monkeypatch.setattr("store.embedded.data_folder.SUPERUSER", "pg_reserved")
    with pytest.raises(UnavailableError, match="pg_"):
        server.start()
    assert not (home.postgres / "data").exists()
    assert not (home.postgres / "data.new").exists()


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="VRM_HOME"):
        EmbeddedPostgres(tmp_path / "file" / "x", tmp_path / "s").start()


def test_named_databases_are_used_and_nothing_is_started(home: Home, postgres_urls: DatabaseUrls) -> None:
    idle = EmbeddedPostgres(home.postgres, home.postgres_sockets)
    environ = {"VRM_LEDGER_DSN": postgres_urls.ledger_app, "VRM_RUNTIME_DSN": postgres_urls.runtime_app}
    urls = open_databases(idle, {**environ, "VRM_LEDGER_ADMIN_DSN": postgres_urls.ledger_admin})
    assert urls == DatabaseUrls(
        postgres_urls.ledger_admin, postgres_urls.ledger_app, postgres_urls.runtime_app, postgres_urls.runtime_app
    )
    assert not (home.postgres / "data").exists()


def test_dead_address_is_told_by_name(server: EmbeddedPostgres) -> None:
    with pytest.raises(UnavailableError, match="VRM_RUNTIME_DSN") as caught:
        open_databases(server, {"VRM_RUNTIME_DSN": "postgresql://u:hunter2@127.0.0.1:1/x"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_root_data_under_a_closed_folder_is_placed_elsewhere(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in for /root, and one for /var/lib/vrm that `nobody` can reach.
    monkeypatch.setattr(account, "_STATE", open_path / "state")
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    folder = closed / "h" / "postgres"
    server = EmbeddedPostgres(folder, open_path / "s", bound=True, wait_seconds=30)
    urls = server.start()
    try:
        place = Path((folder / "location.txt").read_text().strip())
        assert running(place / "data") is not None
        assert closed.stat().st_mode & 0o777 == 0o700, "nobody's door was opened"
        assert (place / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert EmbeddedPostgres(folder, open_path / "s").start() == urls
    finally:
        assert server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_root_programs_in_a_closed_folder_are_copied(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = binaries.find_binaries()
    if found.bundle is None:
        pytest.skip("system programs are reachable by everybody")
    monkeypatch.setattr(account, "_STATE", open_path / "state")
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    bundle = closed / found.bundle.name
    bundle.symlink_to(found.bundle)
    hidden = binaries.Binaries(bundle / found.folder.relative_to(found.bundle), found.major, bundle, found.libraries)
    nobody = account.choose_account(open_path / "data")
    usable = account.reachable_binaries(hidden, nobody)
    done = subprocess.run([usable.program("initdb"), "--version"], check=True, capture_output=True, **nobody.identity)
    assert str(found.major) in done.stdout.decode()
    assert account.reachable_binaries(hidden, nobody) == usable
