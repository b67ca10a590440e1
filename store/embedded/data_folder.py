"""The data folder: how it is made, how it is known to be ours, what its server's log says when it fails.

Rules: a folder without our marker is foreign and is left alone. `initdb` works in a neighbour that is renamed when
it is whole. Text sorts by code point on every machine.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from records.errors import UnavailableError
from store.embedded.account import Account
from store.embedded.binaries import Binaries
from store.embedded.databases import SUPERUSER

CHILD_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""The whole environment of the server and of `initdb`: nothing of the caller's (PGDATA, PGPORT...) gets in."""

_MARKER: Final = "vrm-data"
_BUILTIN_LOCALE_SINCE: Final = 17
_FREE_BYTES: Final = 256 * 2**20
_SECONDS: Final = 180
_TAIL_BYTES: Final = 2_000
_REMEDIES: Final = (
    ("No space left on device", "The disk is full; free some space and start again."),
    (
        "Is another postmaster",
        "Another server holds the socket or the data folder; stop it, or set VRM_HOME elsewhere.",
    ),
    ("could not bind Unix address", "The socket is taken; stop the server that holds it, or set VRM_HOME elsewhere."),
    ("Permission denied", "The database user cannot read or write there; check the owner and mode of the folders."),
    ("Cannot allocate memory", "The machine is short of memory; stop other programs."),
)


def initialise(data: Path, binaries: Binaries, account: Account) -> None:
    """Make a data folder with `initdb`.

    Raises:
        UnavailableError: too little space, or `initdb` failed.
    """
    free = shutil.disk_usage(data.parent).free
    if free < _FREE_BYTES:
        remedy = f"A new database wants {_FREE_BYTES // 2**20} MiB; free some space, or set VRM_HOME elsewhere."
        raise UnavailableError("disk space", f"{free // 2**20} MiB free at {data.parent}", remedy)
    partial = data.with_name("data.new")
    shutil.rmtree(partial, ignore_errors=True)
    account.make_own_folder(partial)
    command = [binaries.program("initdb"), "-D", str(partial), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C"]
    command += ["--auth-local=trust", "--auth-host=reject"]
    if binaries.major >= _BUILTIN_LOCALE_SINCE:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    try:
        subprocess.run(  # noqa: S603 - our own arguments only
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd="/",
            env=CHILD_ENVIRONMENT,
            **account.identity,
        )
    except subprocess.CalledProcessError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UnavailableError("initdb", error.stderr.strip()[-_TAIL_BYTES:], _remedy(error.stderr)) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UnavailableError("initdb", f"{error}", "Check the PostgreSQL programs and the disk.") from error
    (partial / _MARKER).write_text("Data folder of Verified Research Memory.\n", encoding="utf-8")
    partial.rename(data)


def check_ours(data: Path, major: int) -> None:
    """Refuse a data folder that is not ours or that these programs cannot open.

    Raises:
        UnavailableError: with which of the two it is.
    """
    if not (data / _MARKER).is_file():
        remedy = "It was not made by this project and is left alone; set VRM_HOME to another folder."
        raise UnavailableError("data folder", str(data), remedy)
    version = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if version != str(major):
        remedy = f"The programs are PostgreSQL {major}: install those of {version}, or move the data with pg_upgrade."
        raise UnavailableError("data folder version", version, remedy)


def explain(what: str, log: Path, begin: int, summary: str) -> UnavailableError:
    """Return the error for a server that did not do what it was asked, with the end of its log.

    Args:
        what: the field of the error.
        log: the server's log.
        begin: size of the log in bytes before the attempt; only what follows is used.
        summary: what went wrong, one sentence.
    """
    text = ""
    if log.is_file():
        with log.open("rb") as source:
            source.seek(max(begin, log.stat().st_size - _TAIL_BYTES))
            text = source.read().decode("utf-8", "replace").strip()
    problem = next((line for line in text.splitlines() if "FATAL" in line or "PANIC" in line), summary)
    return UnavailableError(what, problem, f"{_remedy(text)} {summary} Log {log} ends:\n{text}")


def _remedy(text: str) -> str:
    return next((remedy for sign, remedy in _REMEDIES if sign in text), "Read the log for the cause.")
