"""The name of a driver: under it the driver's leases are held, so that it gets its own back after a crash.

Rules kept here:

- each name is a file in the home with a lock on it, which the system takes from a process that ends, however it ends;
- a driver takes the first name that nobody has: after a crash the same one, and beside a living driver another one;
- a name is drawn once and unlike any other, so two installations on the same databases have different names.
"""

from __future__ import annotations

import fcntl
import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from records.errors import UnavailableError


@contextmanager
def driver(folder: Path) -> Iterator[str]:
    """Give the name of a driver for the length of a block; `folder` keeps the names.

    Raises:
        UnavailableError: the folder cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UnavailableError("drivers", str(folder), f"Make it a folder of your own ({error.strerror}).") from error
    for number in itertools.count():
        with (folder / str(number)).open("a+", encoding="utf-8") as file:
            if _is_free(file):
                yield _name(file)
                return


def _is_free(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name(file: TextIO) -> str:
    file.seek(0)
    name = file.read()
    if not name:
        name = f"driver-{secrets.token_hex(6)}"
        file.write(name)
        file.flush()
    return name
