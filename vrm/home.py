"""Where the state of one installation lives on disk.

Rules: the home is `VRM_HOME`, else the nearest `.vrm` in the working folder or above it, else a new `.vrm` in the
working folder (docs/adr/0020). A folder that already holds something else is refused, never mixed with. Everything
durable lies under the home; only what must have a short path (sockets: 107 bytes on Linux, 103 on macOS) may lie in a
temporary folder, keyed by the home's path and refused unless it is ours alone. Nothing here starts or stops a service.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.errors import InvalidInputError, UnavailableError

DEFAULT_NAMESPACE: Final = "demo"
"""The Ledger namespace that is meant when none is named."""

_MARKER: Final = "vrm-home"
_MARKER_TEXT: Final = "State of Verified Research Memory, layout 1. Deleting this folder forgets everything.\n"
_SOCKET_PATH_BYTES: Final = 103
_POSTGRES_SOCKET: Final = "/.s.PGSQL.5432.lock"
_RAY_SOCKET: Final = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one installation.

    Attributes:
        root: absolute path of the home.
    """

    root: Path

    @property
    def postgres(self) -> Path:
        """Folder of the embedded Postgres: its data folder, log and lock."""
        return self.root / "postgres"

    @property
    def postgres_sockets(self) -> Path:
        """Folder of the database socket; short enough for a socket path."""
        return self._short("pg", _POSTGRES_SOCKET)

    @property
    def artifacts(self) -> Path:
        """Folder of the content-addressed artifacts, unless another store is configured."""
        return self.root / "artifacts"

    @property
    def logs(self) -> Path:
        """Folder of the project's own logs."""
        return self.root / "logs"

    @property
    def events(self) -> Path:
        """The events of the installation, one a line."""
        return self.logs / "events.jsonl"

    @property
    def costs(self) -> Path:
        """The statements of cost of the installation, one a line."""
        return self.root / "costs.jsonl"

    @property
    def ray(self) -> Path:
        """Folder of the local cluster's address, process and token files."""
        return self.root / "ray"

    @property
    def ray_temp(self) -> Path:
        """Folder of Ray's sessions (sockets and logs); short enough for Ray's socket paths."""
        return self._short("rt", _RAY_SOCKET)

    @property
    def drivers(self) -> Path:
        """Folder of the names under which drivers hold leases."""
        return self.root / "drivers"

    @property
    def drafts(self) -> Path:
        """Folder of what models were asked and said about rules."""
        return self.root / "drafts"

    @property
    def reports(self) -> Path:
        """Folder of the pages that runs write."""
        return self.root / "reports"

    def create(self) -> Home:
        """Make the folders that are missing and return self; safe to repeat.

        Folders are private to the user. Root is the exception: its database runs as an unprivileged user, who must be
        able to pass through (not list) the home.

        Raises:
            InvalidInputError: the path is a file, or a folder that holds something else.
            UnavailableError: the folder cannot be made, or a temporary folder of its name belongs to somebody else.
        """
        passage = 0o711 if os.geteuid() == 0 else 0o700
        try:
            self._claim(passage)
            self.postgres.mkdir(mode=passage, exist_ok=True)
            for private in (self.artifacts, self.logs, self.ray, self.reports):
                private.mkdir(mode=0o700, exist_ok=True)
            for short in (self.postgres_sockets, self.ray_temp):
                if not short.is_relative_to(self.root):
                    _claim_temporary(short.parent, passage)
                short.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            remedy = f"Set VRM_HOME to a folder that you can write to ({error.strerror})."
            raise UnavailableError("home folder", str(self.root), remedy) from error
        return self

    def _claim(self, mode: int) -> None:
        marker = self.root / _MARKER
        if marker.is_file():
            return
        if self.root.exists():
            if not self.root.is_dir():
                raise InvalidInputError("VRM_HOME", str(self.root), "It is a file; name a folder.")
            if any(self.root.iterdir()):
                raise InvalidInputError("VRM_HOME", str(self.root), "It holds something else; name an empty folder.")
        self.root.mkdir(mode=mode, parents=True, exist_ok=True)
        (self.root / ".gitignore").write_text("*\n", encoding="utf-8")
        marker.write_text(_MARKER_TEXT, encoding="utf-8")

    def _short(self, name: str, longest: str) -> Path:
        inside = self.root / name
        if len(os.fsencode(str(inside))) + len(longest) <= _SOCKET_PATH_BYTES:
            return inside
        key = hashlib.sha256(os.fsencode(str(self.root))).hexdigest()[:12]
        return _temporary_root() / f"vrm-{os.geteuid()}-{key}" / name


def find_home(environ: Mapping[str, str], start: Path) -> Home:
    """Choose the home; nothing is created.

    Args:
        environ: the environment; `VRM_HOME` decides when it is set and not empty, a leading `~` means the user's home.
        start: the working folder.

    Returns:
        The home, whose root is absolute and free of symbolic links.
    """
    named = environ.get("VRM_HOME", "")
    if named:
        return Home(Path(start, Path(named).expanduser()).resolve())
    origin = start.resolve()
    for folder in (origin, *origin.parents):
        if (folder / ".vrm" / _MARKER).is_file():
            return Home(folder / ".vrm")
    return Home(origin / ".vrm")


def _temporary_root() -> Path:
    # TMPDIR is long on macOS; /tmp is short everywhere that has it.
    short = Path("/tmp")  # noqa: S108 - the folder made in it is checked to be ours alone
    return short if os.access(short, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _claim_temporary(folder: Path, mode: int) -> None:
    folder.mkdir(mode=mode, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        remedy = "Another user owns it or may write to it; remove it, or set VRM_HOME to a shorter path."
        raise UnavailableError("temporary folder", str(folder), remedy)
