"""Reading the same bytes again gives what was read from them before.

Rules kept here:

- records and bodies never change and reading them is pure, so whoever reads bytes that were read before is given the
  same object; most of what a schedule writes another one of its process wrote as well;
- what is refused is not remembered: it is read, and refused, each time;
- it holds for the simulation alone, and only while a schedule runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, cast

from records.base import KINDS, Kind, Record
from records.models import Model

_KEPT: Final = 8192
_LOAD_MODEL: Final = vars(Model)["load"]
_LOAD_RECORD: Final = Kind.load


@lru_cache(maxsize=_KEPT)
def _model(model: type[Model], data: bytes | str) -> Any:
    return _LOAD_MODEL.__func__(model, data)


@lru_cache(maxsize=_KEPT)
def _record(noun: str, payload: bytes | str) -> Record:
    return _LOAD_RECORD(KINDS[noun], payload)


def _load_record(kind: Kind, payload: bytes | str) -> Record:
    return _record(kind.noun, payload)


_FOUND_MODEL: Final = classmethod(cast("Callable[..., Any]", _model))


@contextmanager
def remembering() -> Iterator[None]:
    """Remember what is read."""
    _put(_FOUND_MODEL, _load_record)
    try:
        yield
    finally:
        _put(_LOAD_MODEL, _LOAD_RECORD)


def _put(model: Any, record: Any) -> None:
    """Put in how models and how records are read."""
    Model.load = model  # type: ignore[method-assign]
    Kind.load = record  # type: ignore[method-assign]
