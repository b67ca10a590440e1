"""Files of a workspace, opened so that nothing outside its root is ever reached (spec 004, "Claim lifecycle").

Rules kept here:

- the root is resolved once and held open; a path is walked part by part from there, and no part may be a link, wherever
  it leads. What is swapped for a link while it is walked is refused by the kernel, not by a look beforehand;
- folders that were walked stay open, a few at a time, until the workspace is closed: open it for one pass. What is put
  in the place of such a folder meanwhile is not seen in that pass, and nothing that it leads to is reached;
- only a regular file is opened for reading. What is not is found out before it is opened, so no pipe, device or socket
  is woken; should it be swapped in between, it is opened without waiting, and refused all the same;
- nothing is written, and no program is run.

A link inside the workspace that leads to another place inside is refused too: where it leads is not decided here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from records.errors import InvalidInputError
from records.workspace import PredicateOutcome, path_fault

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MISSING: Final = frozenset({errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR})
_KEPT: Final = 64
"""Folders that stay open."""


class CheckRefused(Exception):  # noqa: N818  # an answer on its way, not an error of a caller
    """A check cannot go on; it has this outcome."""

    def __init__(self, outcome: PredicateOutcome) -> None:
        """Keep the outcome."""
        super().__init__(outcome)
        self.outcome = outcome


class OpenFile(NamedTuple):
    """A regular file that is open: its descriptor, and what it was when it was opened."""

    descriptor: int
    found: os.stat_result


class Workspace:
    """The folder of a code base, held open."""

    def __init__(self, root: Path) -> None:
        """Open the real folder behind a path.

        Raises:
            InvalidInputError: it is no folder, or cannot be opened.
        """
        try:
            self._root = os.open(os.path.realpath(root, strict=True), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise InvalidInputError("root", str(root), "Name the folder of the workspace.") from error
        self._folders: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the folder."""
        self.close()

    def close(self) -> None:
        """Let go of the folder; again it does nothing."""
        while self._folders:
            os.close(self._folders.popitem()[1])
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    @contextmanager
    def opened(self, path: str) -> Iterator[OpenFile]:
        """Give a regular file of the workspace, open for reading.

        Raises:
            CheckRefused: there is no such file, or it is none that is read.
        """
        if path_fault(path) is not None:
            raise CheckRefused(PredicateOutcome.OUTSIDE)
        folder, _, name = path.rpartition("/")
        file = _file(name, self._folder(folder) if folder else self._root)
        try:
            yield file
        finally:
            os.close(file.descriptor)

    def _folder(self, path: str) -> int:
        """Return the descriptor of a folder, walked to from the root unless it is open."""
        if path not in self._folders:
            above, _, name = path.rpartition("/")
            self._folders[path] = _folder(name, self._folder(above) if above else self._root)
            if len(self._folders) > _KEPT:
                os.close(self._folders.popitem(last=False)[1])
        self._folders.move_to_end(path)
        return self._folders[path]


def _folder(name: str, place: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=place)
    except (OSError, ValueError) as error:
        raise CheckRefused(_outcome(error, name, place)) from error


def _file(name: str, place: int) -> OpenFile:
    try:
        before = os.stat(name, dir_fd=place, follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode):
            raise CheckRefused(_kind(before))
        file = os.open(name, _FILE, dir_fd=place)
    except (OSError, ValueError) as error:
        raise CheckRefused(_outcome(error, name, place)) from error
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise CheckRefused(PredicateOutcome.NOT_A_FILE)
    return OpenFile(file, found)


def _kind(found: os.stat_result) -> PredicateOutcome:
    return PredicateOutcome.OUTSIDE if stat.S_ISLNK(found.st_mode) else PredicateOutcome.NOT_A_FILE


def _outcome(error: OSError | ValueError, name: str, place: int) -> PredicateOutcome:
    """Say what an error while walking means; a link where a folder should be is told apart from nothing at all."""
    number = error.errno if isinstance(error, OSError) else errno.ENOENT
    if number == errno.ELOOP:
        return PredicateOutcome.OUTSIDE
    if number == errno.ENOTDIR:
        try:
            found = os.stat(name, dir_fd=place, follow_symlinks=False)
        except OSError:
            return PredicateOutcome.MISSING
        return PredicateOutcome.CHANGING if stat.S_ISDIR(found.st_mode) else _kind(found)
    return PredicateOutcome.MISSING if number in _MISSING else PredicateOutcome.UNREADABLE
