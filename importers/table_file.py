"""The bytes of a published table as lines of plain cells: CSV, gzipped CSV, or ARFF.

Rules kept here:

- a file is read whole or refused, with file, line and remedy; nothing is repaired or skipped, except that blank lines
  and comments of an ARFF file are no rows;
- the exact bytes of every line are kept, for they are what a row's evidence is;
- ARFF is read by scipy: what its header declares is checked there, and its numbers come as their shortest decimals.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from records.canonical import digest_bytes, metric_text
from records.errors import InvalidRecordError, InvalidSourceError

MAX_BYTES: Final = 64 * 2**20
"""Size from which on a file is refused, packed or not."""


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes:
        number: line number in the (unpacked) file, the first being 1.
        data: the exact bytes of the line, without its end.
        cells: what stands in its columns.
    """

    number: int
    data: bytes
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Lines:
    """The header of a table, and its rows."""

    header: Line
    rows: tuple[Line, ...]


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes.

    Raises:
        InvalidSourceError: it is not there, cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidSourceError(path.name, f"more than {MAX_BYTES} bytes", "Split the table into several.")
        return path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(path.name, error.strerror or str(error), f"Restore the file {path}.") from error


def table_lines(name: str, data: bytes, rows: int) -> Lines:
    """Return the lines of a table by the ending of its name; `rows` is how many were published.

    Raises:
        InvalidSourceError: it is cut off, has another number of rows, or is not what its name says.
    """
    if name.endswith(".arff"):
        return _arff(name, data, rows)
    return _csv(name, _unpacked(name, data) if name.endswith(".gz") else data, rows)


def _unpacked(name: str, data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            unpacked = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidSourceError(name, str(error), "Restore the whole file.") from error
    if len(unpacked) > MAX_BYTES:
        raise InvalidSourceError(name, f"more than {MAX_BYTES} bytes unpacked", "Split the table into several.")
    return unpacked


def _csv(name: str, data: bytes, rows: int) -> Lines:
    lines = _whole_lines(name, data)
    _counted(name, len(lines), len(lines) - 1, rows)
    header, *others = (Line(number, line, _cells(name, number, line)) for number, line in enumerate(lines, start=1))
    return Lines(header, tuple(others))


def _whole_lines(name: str, data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if lines[-1]:
        raise InvalidSourceError(f"{name} line {len(lines)}", "the file ends inside a line", "Restore the whole file.")
    lines.pop()
    return lines


def _counted(name: str, last: int, found: int, published: int) -> None:
    if found != published:
        raise InvalidSourceError(
            f"{name} line {last}", f"{found} rows", f"{published} were published; restore the file."
        )


def _cells(name: str, number: int, line: bytes) -> tuple[str, ...]:
    where = f"{name} line {number}"
    try:
        text = line.decode("utf-8")
        cells = next(csv.reader([text], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidSourceError(where, str(error), "Give comma separated values in UTF-8.") from error
    if ",".join(cells) != text:
        raise InvalidSourceError(where, text, "Write plain cells: no quotes, no carriage returns.")
    return tuple(cells)


def _arff(name: str, data: bytes, rows: int) -> Lines:
    lines = _whole_lines(name, data)
    start = next((place for place, line in enumerate(lines) if line.strip().lower() == b"@data"), None)
    if start is None:
        raise InvalidSourceError(f"{name} line {len(lines)}", "no @DATA", "Give an ARFF file with its header.")
    given = [(number, line) for number, line in enumerate(lines[start + 1 :], start + 2) if _is_row(line)]
    _counted(name, len(lines), len(given), rows)
    head = lines[: start + 1]
    values, names = _loaded(name, head, given)
    header = Line(start + 1, lines[start], names)
    return Lines(
        header,
        tuple(
            Line(number, line, tuple(_text(f"{name} line {number}", cell) for cell in row))
            for (number, line), row in zip(given, values, strict=True)
        ),
    )


def _is_row(line: bytes) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(b"%")


def _loaded(
    name: str, head: Sequence[bytes], given: Sequence[tuple[int, bytes]]
) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
    lines = [line for _, line in given]
    try:
        return _load(head, lines)
    except _ARFF_FAULTS as error:
        number = next((number for number, line in given if not _loads(head, line)), 1)
        met = str(error) or type(error).__name__
        remedy = "Give every value as the header declares it."
        raise InvalidSourceError(f"{name} line {number}", met, remedy) from error


_ARFF_FAULTS: Final = (OSError, ValueError, LookupError, TypeError, NotImplementedError, StopIteration, RuntimeError)
"""What scipy's reader lets out of a file that is none; it has no error of its own for most of it."""


def _load(head: Sequence[bytes], lines: Sequence[bytes]) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
    from scipy.io import arff  # noqa: PLC0415  # half a second that a CSV does without

    text = b"\n".join((*head, *lines, b"")).decode("utf-8")
    values, meta = arff.loadarff(io.StringIO(text))
    if len(values) != len(lines):
        raise ValueError(f"{len(values)} of {len(lines)} rows were read")
    return values.tolist(), tuple(meta.names())


def _loads(head: Sequence[bytes], line: bytes) -> bool:
    try:
        _load(head, [line])
    except _ARFF_FAULTS:
        return False
    return True


def _text(where: str, value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    try:
        return metric_text(float(str(value)))
    except InvalidRecordError as error:
        raise InvalidSourceError(where, str(value), "Give a finite number; a failed trial has no row here.") from error


def require_declared(name: str, size_bytes: int, sha256: str, data: bytes) -> None:
    """Refuse bytes that are not those which the manifest declares.

    Raises:
        InvalidSourceError: size or SHA-256 is another.
    """
    if len(data) != size_bytes or digest_bytes(data) != sha256:
        raise InvalidSourceError(
            name,
            f"{len(data)} bytes, SHA-256 {digest_bytes(data)[:12]}…",
            f"The manifest declares {size_bytes} bytes, SHA-256 {sha256[:12]}…; restore the published file.",
        )
