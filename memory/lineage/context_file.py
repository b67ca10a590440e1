"""`verified_context.json`: written, left alone, or removed (spec 003; reference.md 2.3).

Rules kept here:

- the file holds the canonical bytes of the context and nothing else, and is there whole or not at all;
- where nothing is known any more, or another node won, or the lineage changed, what is there is removed before anything
  new is written, so that no paper reads on of a node that lost or was erased;
- a store, a model or a folder that cannot be reached now changes nothing: what is there stays;
- what contradicts itself is no context: the file goes, and the error is told;
- where a question cannot be answered, a file of which the best node or a node of the lineage cannot be read any more
  goes too: an erasure leaves no file behind that names what was erased;
- with the gate off nothing is built and nothing is touched.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from memory.lineage.evidence import WeighedLineage
from records.errors import IntegrityError, UnavailableError, VrmError

FILE_NAME: Final = "verified_context.json"


class Outcome(StrEnum):
    """What became of the file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    NOTHING = "nothing"
    GATE_OFF = "gate_off"


class ContextFile(NamedTuple):
    """The file's path, what became of it, and what it is made of; null where there is nothing."""

    path: Path
    outcome: Outcome
    lineage: WeighedLineage | None


def write_context(
    folder: Path, build: Callable[[], WeighedLineage | None], readable: Callable[[], Collection[str]], *, gate: bool
) -> ContextFile:
    """Build a context and bring the file in a folder up to it.

    Args:
        folder: where the file is; it is made where it is missing.
        build: builds the context; called only with the gate on.
        readable: names the nodes that can be read now; called only where `build` cannot answer.
        gate: whether verified contexts are built at all.

    Raises:
        UnavailableError: what is needed, or the folder, cannot be used now; the file stays as it is.
        IntegrityError: what is known contradicts itself; the file is gone.
        VrmError: what `build` raises of a question that cannot be answered; the file stays if every node of it can be
            read.
    """
    path = folder / FILE_NAME
    if not gate:
        return ContextFile(path, Outcome.GATE_OFF, None)
    try:
        found = build()
    except IntegrityError:
        _remove(path)
        raise
    except UnavailableError:
        raise
    except VrmError:
        _remove_unless(path, readable)
        raise
    if found is None:
        return ContextFile(path, Outcome.REMOVED if _remove(path) else Outcome.NOTHING, None)
    data = found.context.canonical
    before = _read(path)
    if before == data:
        return ContextFile(path, Outcome.UNCHANGED, found)
    if before is not None and _is_of_another(before, found):
        _remove(path)
    _write(path, data)
    return ContextFile(path, Outcome.WRITTEN, found)


def _is_of_another(before: bytes, found: WeighedLineage) -> bool:
    """Tell whether a file is of another winner or lineage; one that cannot be read is."""
    try:
        held: Any = json.loads(before)
        own = found.context
        return [held["best_node_id"], held["lineage"]] != [own.best_node_id, list(own.lineage)]
    except (ValueError, TypeError, KeyError):
        return True


def _remove_unless(path: Path, readable: Callable[[], Collection[str]]) -> None:
    before = _read(path)
    if before is not None and not _nodes_of(before) <= set(readable()):
        _remove(path)


def _nodes_of(before: bytes) -> set[str]:
    """Return the nodes that a file is about; of one that cannot be read a name that no node has."""
    try:
        held: Any = json.loads(before)
        return {str(each) for each in (held["best_node_id"], *held["lineage"])}
    except (ValueError, TypeError, KeyError):
        return {""}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
    return True


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
    except OSError as error:
        raise _unusable(path, error) from error


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _unusable(path: Path, error: OSError) -> UnavailableError:
    return UnavailableError("out", str(path), f"Make the folder writable: {error}")
