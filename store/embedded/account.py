"""The account that the embedded Postgres runs as, and the places that this account can reach.

Rules: PostgreSQL refuses root, so root runs it as the owner of the data folder, else as `nobody`; everybody else runs
it as themselves. No permission of a folder that is not ours is ever changed: what the account cannot reach is placed,
or copied, under `/var/lib/vrm` instead (docs/adr/0021).
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from records.errors import UnavailableError
from store.embedded.binaries import Binaries

_STATE: Final = Path("/var/lib/vrm")
_SECONDS: Final = 20


class Identity(TypedDict, total=False):
    """What `subprocess` is told to run a program as somebody else; empty for ourselves."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server.

    Attributes:
        uid: user id.
        gid: primary group id.
        other: whether it differs from the user of this process (who then is root).
    """

    uid: int
    gid: int
    other: bool

    @property
    def identity(self) -> Identity:
        """Return the arguments of `subprocess` that make a child run as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.other else {}

    def make_own_folder(self, folder: Path) -> None:
        """Make `folder` private to the account; its parent must exist."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.other and folder.stat().st_uid != self.uid:
            os.chown(folder, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        """Return whether the account can pass through every folder down to `folder`."""
        command = ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)]
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, **self.identity)  # noqa: S603 - fixed command
        return done.returncode == 0


def choose_account(data: Path) -> Account:
    """Return the account for a data folder that exists or is about to be made.

    Raises:
        UnavailableError: the data folder belongs to another user, or root has no unprivileged user to turn to.
    """
    mine = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if mine != 0:
        if owner not in {None, mine}:
            raise UnavailableError(
                "data folder", str(data), "It belongs to another user; set VRM_HOME to one of yours."
            )
        return Account(mine, os.getegid(), other=False)
    try:
        # initdb asks for the name of its user, so a bare number would not do.
        entry = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    except KeyError as error:
        remedy = "PostgreSQL refuses root; make the user `nobody`, or set VRM_LEDGER_DSN and VRM_RUNTIME_DSN."
        raise UnavailableError("unprivileged user", str(error), remedy) from error
    return Account(entry.pw_uid, entry.pw_gid, other=True)


def reachable_folder(wanted: Path, account: Account) -> Path:
    """Return `wanted`, or a stand-in under `/var/lib/vrm` when the account cannot get there; both exist afterwards.

    A file `location.txt` in `wanted` names the stand-in.
    """
    passage = 0o711 if account.other else 0o700
    wanted.mkdir(mode=passage, parents=True, exist_ok=True)
    pointer = wanted / "location.txt"
    if pointer.is_file():
        return Path(pointer.read_text(encoding="utf-8").strip())
    if not account.other or account.can_enter(wanted):
        return wanted
    if (wanted / "data").exists():
        remedy = f"The database user (uid {account.uid}) can no longer reach it; give the folders above it mode o+x."
        raise UnavailableError("data folder", str(wanted / "data"), remedy)
    instead = _STATE / f"home-{_key(wanted)}"
    instead.mkdir(mode=passage, parents=True, exist_ok=True)
    pointer.write_text(f"{instead}\n", encoding="utf-8")
    return instead


def reachable_binaries(found: Binaries, account: Account) -> Binaries:
    """Return programs that the account can run: the ones found, or a copy under `/var/lib/vrm`."""
    if not account.other or account.can_enter(found.folder):
        return found
    if found.bundle is None:
        remedy = f"The database user (uid {account.uid}) cannot reach it; give the folders above it mode o+x."
        raise UnavailableError("PostgreSQL programs", str(found.folder), remedy)
    stat = (found.folder / "postgres").stat()
    home = _STATE / f"programs-{_key(found.bundle)}-{stat.st_size}-{stat.st_mtime_ns}"
    copy = home / found.bundle.name
    if not copy.exists():
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        if found.libraries is not None:
            shutil.copytree(found.libraries, home / found.libraries.name, dirs_exist_ok=True)
        partial = home / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(found.bundle, partial, ignore=shutil.ignore_patterns("__pycache__"))
        partial.rename(copy)
    return Binaries(copy / found.folder.relative_to(found.bundle), found.major, copy, found.libraries)


def _key(path: Path) -> str:
    return hashlib.sha256(os.fsencode(str(path.resolve()))).hexdigest()[:16]
