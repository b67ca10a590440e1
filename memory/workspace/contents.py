"""What files of a workspace hold: read within limits, hashed, and remembered only where that can be trusted (spec 004).

Rules kept here:

- a file is read through one descriptor; if size or times are others after reading than before, it is `changing`, and
  nothing is remembered;
- a digest is remembered under device and inode with size, mtime and ctime. Two writes within one step of the file
  system's clock can leave all of them equal, so equal is not enough (what git calls racily clean). A digest is trusted
  only if the file had been seen with these very values some time before it was hashed, longer than any such step: had
  it been written afterwards, its ctime would be a later one. The time between is measured by a steady clock of this
  process, so no clock of the file system or of another machine is believed;
- a limit of bytes and a limit of time hold for each file; a read that the kernel does not answer cannot be cut short.

Not seen is what a program writes into a file that it holds mapped into memory, before the kernel writes it back.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from memory.workspace.place import CheckRefused, OpenFile
from records.workspace import PredicateOutcome
from store.recent import Recent

_BLOCK: Final = 1 << 20
_UNSAID: Final = 1 << 16
"""Bytes that are read at once of a file that does not say its size."""
_REMEMBERED: Final = 100_000

Clock = Callable[[], float]
"""A steady clock, in seconds."""


class Limits(NamedTuple):
    """Most bytes of a file, and most seconds for one check."""

    bytes: int
    seconds: float


class _Seal(NamedTuple):
    size: int
    mtime: int
    ctime: int


@dataclass(frozen=True, slots=True)
class _Known:
    seal: _Seal
    digest: str
    first_seen: float
    trusted: bool


class Digests:
    """The digests of files, for as long as a process lives.

    Attributes:
        hashed: how many files were read.
        reused: how often a remembered digest was trusted instead.
    """

    def __init__(self, settle_seconds: float, clock: Clock = time.monotonic, *, step_ns: int = 1) -> None:
        """Begin with nothing remembered.

        Args:
            settle_seconds: how long a file must have been seen unchanged before it was hashed; longer than `step_ns`.
            clock: a steady clock.
            step_ns: the step of the file system's clock; times are compared no finer.
        """
        self._settle, self._clock, self._step = settle_seconds, clock, step_ns
        self._known: Recent[tuple[int, int], _Known] = Recent(_REMEMBERED)
        self.hashed = 0
        self.reused = 0

    def digest(self, file: OpenFile, limits: Limits) -> str:
        """Return the SHA-256 of an open file.

        Raises:
            CheckRefused: it is too large, takes too long, or changes meanwhile.
            OSError: it cannot be read.
        """
        found = file.found
        key, seal, now = (found.st_dev, found.st_ino), _seal(found, self._step), self._clock()
        known = self._known.get(key)
        if known is not None and known.seal != seal:
            known = None
        if known is not None and known.trusted:
            self.reused += 1
            return known.digest
        self._known.pop(key, None)
        made = hashlib.sha256()
        for block in blocks(file, limits, self._clock):
            made.update(block)
        self.hashed += 1
        first_seen = now if known is None else known.first_seen
        entry = _Known(seal, made.hexdigest(), first_seen, now - first_seen >= self._settle)
        self._known.put(key, entry)
        return entry.digest


def _seal(found: os.stat_result, step: int = 1) -> _Seal:
    return _Seal(found.st_size, found.st_mtime_ns // step, found.st_ctime_ns // step)


def blocks(file: OpenFile, limits: Limits, clock: Clock = time.monotonic) -> Iterator[bytes]:
    """Yield the bytes of an open file, from its beginning.

    Raises:
        CheckRefused: it is too large, takes too long, or changes meanwhile.
        OSError: it cannot be read.
    """
    before, end, count = file.found, clock() + limits.seconds, 0
    if before.st_size > limits.bytes:
        raise CheckRefused(PredicateOutcome.TOO_LARGE)
    step = min(_BLOCK, before.st_size or _UNSAID)  # a buffer of a whole block costs more than a small file
    while block := os.read(file.descriptor, step):
        count += len(block)
        if count > limits.bytes:
            raise CheckRefused(PredicateOutcome.TOO_LARGE)
        if clock() > end:
            raise CheckRefused(PredicateOutcome.TIMED_OUT)
        yield block
        if count == before.st_size:
            break  # had it grown, its size would be another one now
    if _seal(os.fstat(file.descriptor)) != _seal(before):
        raise CheckRefused(PredicateOutcome.CHANGING)


def whole(file: OpenFile, limits: Limits, clock: Clock = time.monotonic) -> bytes:
    """Return the bytes of an open file; as `blocks`."""
    return b"".join(blocks(file, limits, clock))
