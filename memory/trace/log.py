"""Events as lines: JSON into a file of the installation, and to standard error where somebody wants to watch.

Rules kept here:

- a process writes the events of one installation: the last that was opened. Every line is one write to the end of the
  file, so that processes do not mix theirs; nothing is rotated or deleted here;
- on standard error there is nothing unless `VRM_LOG` says so (`json` or `text`); `off` writes no file either;
- a line that cannot be written is lost, and the work goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import orjson
import structlog

from memory.trace import events
from memory.trace.events import Event
from records.errors import InvalidInputError

VARIABLE: Final = "VRM_LOG"
_STAMP: Final = structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")


class Form(StrEnum):
    """What `VRM_LOG` may say; the empty one is its default."""

    QUIET = ""
    JSON = "json"
    TEXT = "text"
    OFF = "off"


def form_of(text: str) -> Form:
    """Read the value of `VRM_LOG`.

    Raises:
        InvalidInputError: it is none of the forms.
    """
    try:
        return Form(text.strip().lower())
    except ValueError as error:
        raise InvalidInputError(
            VARIABLE, text, "Use json, text or off, or leave it empty for the file alone."
        ) from error


class EventLog:
    """Writes each event as a line, to a file and perhaps to standard error."""

    def __init__(self, path: Path | None, form: Form = Form.QUIET) -> None:
        """Open `path` to append; a file that cannot be opened is done without."""
        self._loggers: list[Any] = []
        self._file: FileIO | None = None
        if path is not None and form is not Form.OFF:
            with suppress(OSError):
                self._file = path.open("ab", buffering=0)
                self._loggers.append(_logger(structlog.BytesLogger(cast("BinaryIO", self._file)), _JSON))
        if form is Form.JSON:
            self._loggers.append(_logger(structlog.PrintLogger(sys.stderr), _TEXT_OF_JSON))
        elif form is Form.TEXT:
            self._loggers.append(
                _logger(structlog.PrintLogger(sys.stderr), structlog.dev.ConsoleRenderer(colors=False))
            )

    def __call__(self, told: Event) -> None:
        """Write an event."""
        for logger in self._loggers:
            with suppress(OSError, ValueError):  # a full disk, or a standard error that was closed
                logger.msg(told.name, namespace=told.namespace, **told.fields)

    def close(self) -> None:
        """Close the file; what is told from now on is not written."""
        self._loggers.clear()
        if self._file is not None:
            self._file.close()


def _logger(sink: Any, renderer: Any) -> Any:
    return structlog.wrap_logger(sink, processors=[_STAMP, renderer], wrapper_class=structlog.BoundLogger)


_JSON: Final = structlog.processors.JSONRenderer(serializer=lambda value, **_: orjson.dumps(value))
_TEXT_OF_JSON: Final = structlog.processors.JSONRenderer(serializer=lambda value, **_: orjson.dumps(value).decode())
_open: list[EventLog] = []


def open_log(path: Path | None, form: Form = Form.QUIET) -> None:
    """Write the events of this process from now on, in place of the log that was opened before."""
    close_log()
    _open.append(EventLog(path, form))
    events.add_listener(_open[0])


def close_log() -> None:
    """Write no more events of this process."""
    while _open:
        before = _open.pop()
        events.remove_listener(before)
        before.close()


def read_log(path: Path, begin: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the events of a file from a place on, each with the place behind it; a line that is none is left out."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(begin)
        for line in file:
            begin += len(line)
            if not line.endswith(b"\n"):
                return  # somebody is writing it
            with suppress(orjson.JSONDecodeError):
                value = orjson.loads(line)
                if isinstance(value, dict):
                    yield begin, value
