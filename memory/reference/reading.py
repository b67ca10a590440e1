"""A file of the disk as a source: its bytes, its text, and everything that makes it no source.

Rules kept here:

- a file is read whole before anything is written; a folder gives the files in it, hidden ones left out, in the order of
  their paths. Links are followed for a file that was named, never inside a folder;
- the time of retrieval is the file's own, unless it was given. It is no clock of this program;
- what cannot be read is an `InvalidSourceError` with the file and the remedy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory.reference.formats import ReadText, format_of
from policies.references.policy import FileLimits
from records.errors import InvalidSourceError
from records.reference import ReferenceKind

_SPDX: Final = re.compile(rb"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+()\- ]{1,200})")
_TOP: Final = 4096
"""Bytes at the beginning of a file among which an SPDX tag is looked for."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read.

    Attributes:
        path: as it was given, or as it was found in the folder that was given.
        kind: what its form is taken for where nobody says it.
        stated_licence: the SPDX expression that the file states at its beginning.
        modified_at: the file's own time, as a timestamp.
    """

    path: str
    data: bytes
    media_type: str
    kind: ReferenceKind
    read: ReadText
    stated_licence: str | None
    modified_at: str


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files that paths stand for, each once.

    Raises:
        InvalidSourceError: a path does not exist, or a folder holds no file.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [Path(folder) / name for folder, name in _inside(path)]
            if not inside:
                raise InvalidSourceError(str(path), "a folder without files", "Name a folder that holds sources.")
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        else:
            raise InvalidSourceError(str(path), "no such file or folder", "Name a file or folder that exists.")
    return list(found)


def _inside(folder: Path) -> list[tuple[str, str]]:
    made = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = sorted(name for name in names if not name.startswith("."))
        made += [(place, name) for name in visible if not (Path(place) / name).is_symlink()]
    return made


def read_source(path: Path, limits: FileLimits, encoding: str = "utf-8") -> SourceFile:
    """Read a file as a source.

    Args:
        path: where it is.
        limits: the largest file that is taken, and what reading a PDF may take.
        encoding: of its text, where it is one.

    Raises:
        InvalidSourceError: it is no file, cannot be read, is empty, too large, or of no form that is read, or
            its text cannot be written as UTF-8.
    """
    name = str(path)
    data, modified = _bytes_of(path, limits.max_bytes)
    form = format_of(name, data)
    if not data.strip():
        raise InvalidSourceError(name, f"{len(data)} bytes without content", "Give a file that holds something.")
    read = form.read(name, data, encoding, limits.pdf)
    _require_encodable(name, read.text)
    if not read.text.strip().strip("\ufeff"):
        raise InvalidSourceError(name, "no text in it", "Give a file that holds text.")
    stated = _SPDX.search(data[:_TOP]) if form.is_text else None
    licence = stated[1].decode("ascii").strip() if stated else None
    return SourceFile(name, data, form.media_type, form.kind, read, licence or None, modified)


def _require_encodable(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at = f"half a character (U+{ord(text[error.start]):04X}) in its text"
        raise InvalidSourceError(name, at, "Give a file, and its encoding, whose text is whole Unicode.") from error


def _bytes_of(path: Path, max_bytes: int) -> tuple[bytes, str]:
    """Return the bytes of a file and its own time."""
    name = str(path)
    try:
        if not path.is_file():
            raise InvalidSourceError(name, "no regular file", "Name a file or a folder of files.")
        found = path.stat()
        if found.st_size > max_bytes:
            remedy = f"Files of up to {max_bytes} bytes are taken; split it, or add the parts that you cite."
            raise InvalidSourceError(name, f"{found.st_size} bytes", remedy)
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(name, str(error), "Make the file readable.") from error
    seconds, rest = divmod(found.st_mtime_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return data, moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
