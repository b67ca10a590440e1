"""Files below a folder, read without ever leaving it (reference.md 2.5(6)).

Rules kept here: a path is followed part by part from the folder, each part opened without following a link, so that
neither a link nor a folder that is exchanged meanwhile leads out; only regular files are read, and none that changes
meanwhile gives a digest; what cannot be read is a typed fault, and a file that is not there is none.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from records.lineage import path_fault

_CHUNK: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe must not wait for a writer


class FileFault(StrEnum):
    """Why a path gives no bytes."""

    UNSAFE_PATH = "unsafe_path"
    LINK = "link"
    NOT_REGULAR = "not_regular"
    UNREADABLE = "unreadable"
    MISSING = "missing"


class UnreadableFileError(Exception):
    """A path that gives no bytes, with the fault; whoever asks says what follows from it."""

    def __init__(self, fault: FileFault, path: str) -> None:
        """Name fault and path."""
        super().__init__(fault, path)
        self.fault = fault
        self.path = path


@dataclass(frozen=True, slots=True)
class Hashed:
    """The digest of a file's bytes, and how many there are."""

    sha256: str
    size_bytes: int


def hash_below(folder: Path, path: str, inside: tuple[str, ...] = ()) -> Hashed:
    """Return the digest of a file below a folder.

    Args:
        folder: where it begins; a link to a folder is followed here alone.
        path: relative, as records hold it.
        inside: folders between the two, none of which may be a link.

    Raises:
        UnreadableFileError: there are no bytes to read there, or the path leads out of the folder.
    """
    digest, size = hashlib.sha256(), 0
    source = _opened(folder, path, inside)
    try:
        with os.fdopen(source, "rb") as stream:
            before = os.fstat(source)
            while part := stream.read(_CHUNK):
                digest.update(part)
                size += len(part)
            after = os.fstat(source)
    except OSError as error:
        raise UnreadableFileError(FileFault.UNREADABLE, path) from error
    if (size, before.st_mtime_ns, before.st_ctime_ns) != (after.st_size, after.st_mtime_ns, after.st_ctime_ns):
        raise UnreadableFileError(FileFault.UNREADABLE, f"{path}: it changes while it is read")
    return Hashed(digest.hexdigest(), size)


def read_below(folder: Path, path: str, max_bytes: int) -> tuple[bytes, float]:
    """Return the bytes of a file below a folder, and when it was last changed, in seconds of the epoch.

    Raises:
        UnreadableFileError: as `hash_below`, or it is larger than `max_bytes`.
    """
    with os.fdopen(_opened(folder, path), "rb") as stream:
        changed = os.fstat(stream.fileno()).st_mtime
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnreadableFileError(FileFault.UNREADABLE, f"{path}: more than {max_bytes} bytes")
    return data, changed


def _opened(folder: Path, path: str, inside: tuple[str, ...] = ()) -> int:
    """Open a regular file part by part."""
    if path_fault(path) is not None:
        raise UnreadableFileError(FileFault.UNSAFE_PATH, path)
    *folders, name = path.split("/")
    at = -1
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in (*inside, *folders):
            below = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        found = os.open(name, _FLAGS, dir_fd=at)
    except OSError as error:
        raise UnreadableFileError(_fault_of(error, folder, (*inside, *path.split("/"))), path) from error
    finally:
        if at >= 0:
            os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise UnreadableFileError(FileFault.NOT_REGULAR, path)
    return found


def _fault_of(error: OSError, folder: Path, parts: tuple[str, ...]) -> FileFault:
    if error.errno == errno.ENOENT:
        return FileFault.MISSING
    if error.errno == errno.ENXIO:  # a socket, or a pipe
        return FileFault.NOT_REGULAR
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return FileFault.LINK if _has_link(folder, parts) else FileFault.MISSING
    return FileFault.UNREADABLE


def _has_link(folder: Path, parts: tuple[str, ...]) -> bool:
    """Tell whether some part of a path is a link; it only words a refusal that has happened."""
    at = folder
    with suppress(OSError):
        for part in parts:
            at /= part
            if at.is_symlink():
                return True
    return False
