"""The bytes of an index artifact: a canonical header and raw arrays.

Layout, integers little-endian:

    0   8 bytes   magic
    8   8 bytes   length of the header
    16  8 bytes   length of the whole artifact
    24  32 bytes  SHA-256 of the header
    56  8 bytes   zero
    64            header, canonical JSON: {"meta": ..., "parts": [{name, dtype, shape, offset, sha256}, ...]}
    ...           the parts in that order, each at the next multiple of 64, gaps zero

Rules kept here: equal meta and arrays give equal bytes; every byte is covered by a hash or is checked to be zero, so no
change goes unseen; reading makes views, never copies, and the views are read-only.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from records.canonical import canonical_bytes, parse_canonical
from records.errors import IntegrityError, InvalidRecordError

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]

_MAGIC: Final = b"VRMIDX\x00\x01"
_PREAMBLE: Final = struct.Struct("<8sQQ32s8x")
_ALIGN: Final = 64
_DTYPES: Final = frozenset({"|u1", "|i1", "<i4", "<i8"})
_REMEDY: Final = "The index artifact is damaged; build it again from its snapshot."


@dataclass(frozen=True, slots=True)
class Frame:
    """What an artifact holds.

    Attributes:
        meta: the JSON value given to `pack`.
        parts: the arrays by name, read-only views of the buffer.
        digests: SHA-256 of the bytes of each part.
    """

    meta: Any
    parts: Mapping[str, NDArray[Any]]
    digests: Mapping[str, str]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    dtype: str
    shape: list[int]
    offset: int
    sha256: str

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=object))


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    meta: dict[str, Any]
    parts: list[_Part]


def pack(meta: Mapping[str, Any], parts: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the artifact of `meta` (JSON) and named arrays, in the order given."""
    raw = {name: _raw(array) for name, array in parts.items()}
    offset = 0  # from the end of the header: its own length would otherwise depend on the numbers inside it
    described = []
    for name, array in parts.items():
        dtype = array.dtype.str
        if dtype not in _DTYPES:
            raise ValueError(f"part {name} has dtype {dtype}; {sorted(_DTYPES)} are framed")
        digest = hashlib.sha256(raw[name]).hexdigest()
        described.append({"name": name, "dtype": dtype, "shape": list(array.shape), "offset": offset, "sha256": digest})
        offset = _aligned(offset + len(raw[name]))
    header = canonical_bytes({"meta": dict(meta), "parts": described})
    start = _aligned(_PREAMBLE.size + len(header))
    total = start + offset
    preamble = _PREAMBLE.pack(_MAGIC, len(header), total, hashlib.sha256(header).digest())
    padded = [piece for each in raw.values() for piece in (each, bytes(-len(each) % _ALIGN))]
    return b"".join([(preamble + header).ljust(start, b"\0"), *padded])  # the one copy that is made


def unpack(buffer: Buffer) -> Frame:
    """Read an artifact back without copying it.

    Raises:
        IntegrityError: it is truncated, extended or changed; the error names the first part that does not hold.
    """
    view = view_of(buffer)
    header, start = _read_header(view)
    parts: dict[str, NDArray[Any]] = {}
    end = start
    for part in header.parts:
        begin = start + part.offset
        end = _check_part(view, part, begin, end)
        parts[part.name] = np.frombuffer(view, dtype=part.dtype, count=part.count, offset=begin).reshape(part.shape)
    if end != len(view):
        raise IntegrityError("index.length", f"{len(view)} bytes, {end} described", _REMEDY)
    return Frame(header.meta, parts, {part.name: part.sha256 for part in header.parts})


def view_of(buffer: Buffer) -> memoryview:
    """Return a read-only view of the bytes of `buffer`, which is contiguous."""
    view = buffer.data if isinstance(buffer, np.ndarray) else memoryview(buffer)
    return (view if view.format == "B" else view.cast("B")).toreadonly()


def _raw(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array, in place where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _read_header(view: memoryview) -> tuple[_Header, int]:
    if len(view) < _PREAMBLE.size:
        raise IntegrityError("index.preamble", f"{len(view)} bytes", _REMEDY)
    magic, length, total, digest = _PREAMBLE.unpack(view[: _PREAMBLE.size])
    if magic != _MAGIC or any(view[_PREAMBLE.size - 8 : _PREAMBLE.size]):
        raise IntegrityError("index.preamble", bytes(view[:8]).hex(), _REMEDY)
    if total != len(view):
        raise IntegrityError("index.length", f"{len(view)} of {total} bytes", _REMEDY)
    header = bytes(view[_PREAMBLE.size : _PREAMBLE.size + length])
    if hashlib.sha256(header).digest() != digest:
        raise IntegrityError("index.header", "its SHA-256 differs", _REMEDY)
    start = _aligned(_PREAMBLE.size + length)
    if any(view[_PREAMBLE.size + length : start]):
        raise IntegrityError("index.padding", "not zero after the header", _REMEDY)
    try:
        return _Header.model_validate(parse_canonical(header)), start
    except (InvalidRecordError, ValidationError) as error:
        raise IntegrityError("index.header", str(error), _REMEDY) from error


def _check_part(view: memoryview, part: _Part, begin: int, expected: int) -> int:
    """Check one part and the gap behind it; return where the next part must begin."""
    field = f"index.{part.name}"
    if part.dtype not in _DTYPES or any(side < 0 for side in part.shape):
        raise IntegrityError(field, f"{part.dtype} {part.shape}", _REMEDY)
    size = part.count * np.dtype(part.dtype).itemsize
    end = _aligned(begin + size)
    if begin != expected or end > len(view):
        raise IntegrityError(field, f"bytes {begin} to {end} of {len(view)}", _REMEDY)
    if hashlib.sha256(view[begin : begin + size]).hexdigest() != part.sha256:
        raise IntegrityError(field, "its SHA-256 differs", _REMEDY)
    if any(view[begin + size : end]):
        raise IntegrityError("index.padding", f"not zero after {part.name}", _REMEDY)
    return end


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
