"""Arrays in one file whose bytes depend on the arrays alone.

Rules kept here:

- an archive is an `.npz` that `numpy.load` reads, with entries sorted by name, stored without compression, with one
  fixed date and fixed attributes: equal arrays give equal bytes, so a digest names the content;
- nothing is ever unpickled; only integer, unsigned, boolean and float arrays are written or read;
- a file appears whole or not at all (written beside its place, then renamed);
- reading checks the entries' names, and what is damaged is an `InvalidSourceError` that names the file.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from records.canonical import digest_bytes
from records.errors import InvalidSourceError

Array = NDArray[Any]

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip entry can hold
_PLAIN_KINDS: Final = frozenset("iufb")
_UNIX: Final = 3


def archive_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return the archive of named arrays; equal arrays give equal bytes on any run.

    Raises:
        ValueError: an array holds objects or text (a bug of the caller).
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            entry.create_system = _UNIX
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, _npy_bytes(name, arrays[name]))
    return buffer.getvalue()


def parse_archive(data: bytes, names: frozenset[str], source: str) -> dict[str, Array]:
    """Read an archive that holds exactly `names`.

    Args:
        data: the bytes of the file.
        names: the entries that must be there, and no others.
        source: the file's name, for the error.

    Raises:
        InvalidSourceError: the bytes are no such archive, an entry is missing, or an entry would need unpickling.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if frozenset(archive.files) != names:
                raise InvalidSourceError(source, sorted(archive.files), f"The archive holds exactly {sorted(names)}.")
            return {name: _plain(name, archive[name]) for name in sorted(names)}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        remedy = "The archive is damaged or cut short; make it again from its source."
        raise InvalidSourceError(source, str(error), remedy) from error


def write_bytes(path: Path, data: bytes, mode: int = 0o644) -> str:
    """Put `data` at `path`, whole or not at all, and return its SHA-256.

    The folder is made when it is missing; a file that is already there is replaced in one step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return digest_bytes(data)


def _npy_bytes(name: str, array: Array) -> bytes:
    buffer = io.BytesIO()
    contiguous = np.asarray(_plain(name, array), order="C")  # ascontiguousarray would make a scalar a vector
    np.lib.format.write_array(buffer, contiguous, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _plain(name: str, array: Array) -> Array:
    if array.dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"array {name} has dtype {array.dtype}; only numbers are stored")
    return array
