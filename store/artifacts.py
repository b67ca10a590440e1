"""Content-addressed bytes behind fsspec: a folder by default, any fsspec URL by setting.

Rules kept here: the name of an artifact is its SHA-256, so publishing twice is one artifact; bytes are durable before
their digest is returned (in a folder: file and folder are synced); what is read is verified, and bytes that do not
match their name are an error, never data.

What is garbage is decided elsewhere (`memory.garbage`); here stands what makes removal safe beside publication. Bytes
have an age, counted from their last publication: publishing what is there already makes it young again, and only what
is old may be dropped. Making young and dropping exclude each other by a lock on the folder, so that no publisher is
told of bytes which are gone a moment later. Other stores than a folder cannot promise that, and drop nothing.

Erasing is another thing than dropping: it is for ever. A mark beside the bytes says that they were erased, and whoever
publishes them again is refused. The mark is durable before the bytes go, and a publisher looks for it after his bytes
are there: so one of the two always removes them, whatever the order, in every kind of store.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from records.canonical import digest_bytes, is_digest
from records.errors import ErasedError, IntegrityError, InvalidInputError, NotFoundError, UnavailableError
from records.values import ArtifactRef

_LOCK: Final = ".lock"
_DIGITS: Final = 64
_ERASED: Final = ".erased"
"""What follows the digest in the name of the mark that its bytes were erased."""
_WRITERS: Final = 8
"""Threads that write into the folders of many artifacts; they halve the time of 64 (docs/performance.md)."""
_FEW: Final = 4
"""Folders that are written into one after the other, since to start threads costs more."""
_OURS: Final = re.compile(rf"[0-9a-f]{{{_DIGITS}}}(\.[0-9a-f]{{32}})?")
"""The names of artifacts, and of files that become one when they are whole."""


class Kept(NamedTuple):
    """A file of the store: its name, which begins with a digest, its size, and when it was last published."""

    name: str
    size: int
    published: float


class ArtifactStore:
    """The artifact bytes under one fsspec URL.

    Attributes:
        syncs: how often this store has waited for the disk so far, for files and folders; 0 if it is not a folder.
    """

    def __init__(self, url: str) -> None:
        """Open the store; a plain path is a folder, which is made when missing.

        Raises:
            UnavailableError: the URL's protocol or folder cannot be used.
        """
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
            self._files.makedirs(self._root, exist_ok=True)
        except (OSError, ValueError, ImportError) as error:
            raise UnavailableError("artifact store", url, f"Give a folder or an fsspec URL: {error}") from error
        self.url = url
        self._is_folder = isinstance(self._files, LocalFileSystem)
        self.syncs = 0

    def publish(self, data: bytes) -> str:
        """Store bytes durably and return their digest."""
        return self.publish_many([data])[0]

    def publish_many(self, items: Sequence[bytes]) -> list[str]:
        """Store several byte strings durably and return their digests in order; folders are synced once.

        Raises:
            ErasedError: some of them were erased; of those nothing is stored.
            UnavailableError: the store cannot be written.
        """
        digests = [digest_bytes(data) for data in items]
        given = dict(zip(digests, items, strict=True))
        try:
            self._refuse_erased(given)
            if self._is_folder:
                paths = {self._path(digest): data for digest, data in given.items()}
                with self._locked(fcntl.LOCK_SH):
                    missing = [path for path in paths if not _made_young(path)]
                self.syncs += _write_durably({path: paths[path] for path in missing}, first=not self.syncs)
            else:
                for digest, data in given.items():
                    if not self.holds(digest):
                        self._files.pipe_file(self._path(digest), data)
            self._refuse_erased(given)  # an erasure that began meanwhile may have looked before the bytes were there
        except OSError as error:
            remedy = f"Free space or repair the store, then run the command again: {error}"
            raise UnavailableError("artifact store", self.url, remedy) from error
        return digests

    def reference(self, role: str, data: bytes, media_type: str = "application/octet-stream") -> ArtifactRef:
        """Store bytes and return the reference that a record holds."""
        return ArtifactRef(role=role, sha256=self.publish(data), size_bytes=len(data), media_type=media_type)

    def holds(self, digest: str) -> bool:
        """Tell whether the bytes are there; they are verified when read."""
        return bool(self._files.exists(self._path(digest)))

    def read(self, digest: str) -> bytes:
        """Return the bytes of a digest.

        Raises:
            NotFoundError: they are not in the store; `ErasedError`, if they were erased.
            IntegrityError: the stored bytes have another digest.
        """
        try:
            path = self._path(digest)
            data: bytes = Path(path).read_bytes() if self._is_folder else self._files.cat_file(path)
        except FileNotFoundError as error:
            if self.erased(digest):
                raise _erased(digest) from error
            raise NotFoundError("artifact", digest, "Its bytes are missing; restore the artifact store.") from error
        if digest_bytes(data) != digest:
            raise IntegrityError("artifact", digest, "The stored bytes were changed; restore the artifact store.")
        return data

    def mapped(self, digest: str) -> bytes | memoryview:
        """Return the bytes of a digest as `read` does, mapped from the file where the store is a folder.

        All processes that map a file share its memory, which the system takes back when it is needed elsewhere.

        Raises:
            NotFoundError, IntegrityError: as `read`.
        """
        path = Path(self._path(digest))
        if not self._is_folder or not path.is_file() or not path.stat().st_size:
            return self.read(digest)
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if hashlib.sha256(data).hexdigest() != digest:
            raise IntegrityError("artifact", digest, "The stored bytes were changed; restore the artifact store.")
        return data

    def erase(self, digest: str) -> None:
        """Remove bytes for ever; they need not be there. Again it does nothing more.

        Raises:
            UnavailableError: the store cannot be written.
        """
        path = self._path(digest)
        try:
            if not self.erased(digest):
                self._mark(f"{path}{_ERASED}")
            self._remove(path)
            if self._is_folder:
                for draft in Path(path).parent.glob(f"{digest}.*"):  # of a writer that died with the bytes half written
                    if draft.suffix != _ERASED:
                        self._remove(str(draft))
        except OSError as error:
            remedy = f"Repair the store, then run recovery: {error}"
            raise UnavailableError("artifact store", self.url, remedy) from error

    def erased(self, digest: str) -> bool:
        """Tell whether bytes were erased."""
        return bool(self._files.exists(f"{self._path(digest)}{_ERASED}"))

    def _refuse_erased(self, digests: Iterable[str]) -> None:
        gone = [digest for digest in digests if self.erased(digest)]
        for digest in gone:
            self._remove(self._path(digest))
        if gone:
            raise _erased(gone[0])

    def _mark(self, path: str) -> None:
        if self._is_folder:
            self.syncs += _write_durably({path: b""}, first=not self.syncs)
        else:
            self._files.pipe_file(path, b"")

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(path)
            if self._is_folder:
                _sync(Path(path).parent)
                self.syncs += 1

    def location(self, digest: str) -> str:
        """Return where the bytes lie, for a process that reads them itself and checks the digest again."""
        return self._path(digest)

    def digests(self) -> Iterable[str]:
        """Return every digest in the store, sorted."""
        found = (path.rpartition("/")[2] for path in self._files.find(self._root))
        return sorted(name for name in found if is_digest(name))

    def ages(self) -> Iterator[Kept]:
        """Return everything in a folder with its age, unfinished files of writers that are gone included.

        Raises:
            UnavailableError: the store is no folder.
        """
        self._require_folder()
        for folder in sorted(Path(self._root).iterdir()):
            files = sorted(folder.iterdir()) if folder.is_dir() else []
            for file in (each for each in files if _OURS.fullmatch(each.name)):
                with suppress(FileNotFoundError):  # somebody finished or dropped it meanwhile
                    held = file.stat()
                    yield Kept(file.name, held.st_size, held.st_mtime)

    def drop(self, name: str, published_before: float) -> bool:
        """Remove what `ages` named, unless it was published again since; tell whether it was removed.

        Raises:
            UnavailableError: the store is no folder.
        """
        self._require_folder()
        file = Path(self._path(name[:_DIGITS])).with_name(name)
        with self._locked(fcntl.LOCK_EX):
            try:
                if file.stat().st_mtime >= published_before:
                    return False
                file.unlink()
            except FileNotFoundError:
                return False
        return True

    @contextmanager
    def _locked(self, mode: int) -> Iterator[None]:
        """Hold the lock of the folder: shared to publish, exclusive to drop."""
        handle = os.open(f"{self._root}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, mode)
            yield
        finally:
            os.close(handle)

    def _require_folder(self) -> None:
        if not self._is_folder:
            raise UnavailableError("artifact store", self.url, "Only a folder can be swept; other stores keep all.")

    def _path(self, digest: str) -> str:
        if not is_digest(digest):
            raise InvalidInputError("artifact digest", digest, "Give 64 lower-case hex digits.")
        return f"{self._root}/{digest[:2]}/{digest}"


def _made_young(path: str) -> bool:
    """Make a file young, if it is there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write_durably(files: dict[str, bytes], *, first: bool) -> int:
    """Write files that are durable afterwards, and return how often the disk was waited for.

    The root is synced with the `first` files of a process: another one may have died between making folders and that.
    """
    folders: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = data
    roots = _made({Path(folder).parent for folder in folders if first or not Path(folder).exists()})
    for root in roots:
        _write_into(str(root), {})
    if len(folders) <= _FEW:
        for folder, held in folders.items():
            _write_into(folder, held)
    else:  # a file system makes what waits for the disk together durable together
        with ThreadPoolExecutor(_WRITERS) as threads:
            list(threads.map(_write_into, folders, folders.values()))
    return len(files) + len(folders) + len(roots)


def _write_into(folder: str, files: dict[str, bytes]) -> None:
    """Write files into a folder, each under its name when its bytes are durable, and then make the names so."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        for name, data in files.items():
            draft = f"{name}.{uuid.uuid4().hex}"
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=handle), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=handle, dst_dir_fd=handle)
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _erased(digest: str) -> ErasedError:
    return ErasedError("artifact", digest, "Retention erased these bytes; they are not kept here again.")


def _made(roots: set[Path]) -> set[Path]:
    """Make all sub-folders that artifacts can lie in, so that later ones need no other sync of the root."""
    for root in roots:
        for number in range(256):
            (root / f"{number:02x}").mkdir(parents=True, exist_ok=True)
    return roots
