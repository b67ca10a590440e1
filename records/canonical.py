"""Canonical bytes, digests and content-derived ids.

Rules kept here, decided once because every id depends on them (docs/adr/0002):

- canonical bytes are RFC 8785 (JCS) of strict JSON: objects with string keys, arrays, strings, booleans, null,
  integers within ±(2^53 - 1) and finite floats;
- strings are NFC and free of NUL and lone surrogates; what is not is refused, never repaired here
  (`normalise` repairs text once, at the boundary);
- minus zero becomes zero in `normalise`; in canonical bytes it is refused;
- a digest is SHA-256 in lower-case hex; an id is `<noun>:<digest>` where the digest covers
  `vrm/<noun>/v1`, one NUL byte and the canonical bytes of the identity projection.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import orjson
import rfc8785

from records.errors import InvalidRecordError

MAX_SAFE_INTEGER: Final = 2**53 - 1
DIGEST_PATTERN: Final = r"^[0-9a-f]{64}$"
_DIGEST = re.compile(DIGEST_PATTERN)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_NUL: Final = b"\\u0000"
_PART: Final = 4096  # items of a long list that are made canonical at a time
_BEYOND_BMP = re.compile(rb"[\xf0-\xf4]")

Json = Any  # strict JSON; `canonical_bytes` proves it


def canonical_bytes(value: object) -> bytes:
    """Return the RFC 8785 bytes of `value`.

    Raises:
        InvalidRecordError: a part of `value` has no canonical form; the error names the path to it.
    """
    data = _fast_json(value) if _has_no_float(value) else None
    if data is not None:
        return data
    return _proved_bytes(value)


def _proved_bytes(value: object) -> bytes:
    """Return the RFC 8785 bytes of a value of which every part is looked at."""
    if _is_plain(value, "$"):
        # RFC 8785 and the standard library differ only in how they write floats and sort keys beyond ASCII.
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return rfc8785.dumps(value)  # type: ignore[arg-type]  # it was proved to be strict JSON


def canonical_json(value: object) -> bytes:
    """Return what `canonical_bytes` does, for what is known to be JSON without floats, such as a dumped record.

    Raises:
        InvalidRecordError: a part of `value` has no canonical form; the error names the path to it.
    """
    data = _fast_json(value)
    return _proved_bytes(value) if data is None else data


def _fast_json(value: object) -> bytes | None:
    """Return the RFC 8785 bytes of JSON without floats, or None where they must be made part by part.

    The fast serialiser writes strings, integers and order of keys as RFC 8785 does, up to keys beyond the Basic
    Multilingual Plane, which it orders by code point; what it might write differently or would let through is left to
    `_proved_bytes`, which also names the part at fault.
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except TypeError:
        return None
    if _ESCAPED_NUL in data or not (data.isascii() or _is_plain_text(data)):
        return None
    return data


def _has_no_float(value: object) -> bool:
    """Tell whether a value is made of what JSON has and no float is among it; what is refused is seen to elsewhere."""
    if value is None or isinstance(value, str | int):
        return True
    if isinstance(value, dict):
        return all(map(_has_no_float, value.values()))
    return isinstance(value, list | tuple) and all(map(_has_no_float, value))


def _is_plain_text(data: bytes) -> bool:
    """Tell whether text is in NFC, which all of its parts then are, and within the Basic Multilingual Plane."""
    return _BEYOND_BMP.search(data) is None and unicodedata.is_normalized("NFC", data.decode())


def parse_canonical(data: bytes | str) -> Any:
    """Read JSON back; duplicate keys, NaN, infinities and numbers too large for a double are refused.

    Raises:
        InvalidRecordError: the bytes are not strict JSON.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite_float,
            parse_int=_integer,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError("json", str(error), "Give strict JSON in UTF-8.") from error


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of `data` in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def domain_digest(noun: str, projection: object) -> str:
    """Return the digest of a projection under the domain of its noun."""
    return domain_digest_bytes(noun, canonical_bytes(projection))


def domain_digest_list(noun: str, items: Iterable[object]) -> str:
    """Return `domain_digest(noun, list(items))`; the list may be long, for it is never held as a whole."""
    digest = hashlib.sha256(f"vrm/{noun}/v1".encode("ascii") + b"\0[")
    remaining = iter(items)
    comma = b""
    while part := list(islice(remaining, _PART)):
        digest.update(comma + canonical_bytes(part)[1:-1])
        comma = b","
    digest.update(b"]")
    return digest.hexdigest()


def domain_digest_bytes(noun: str, data: bytes) -> str:
    """Return the digest of a projection, given as canonical bytes, under the domain of its noun."""
    return digest_bytes(f"vrm/{noun}/v1".encode("ascii") + b"\0" + data)


def content_id(noun: str, projection: object) -> str:
    """Return `<noun>:<64 hex>` for an identity projection."""
    return f"{noun}:{domain_digest(noun, projection)}"


def is_digest(text: str) -> bool:
    """Tell whether `text` is a SHA-256 digest in lower-case hex."""
    return _DIGEST.fullmatch(text) is not None


def normalise(value: Any) -> Any:
    """Bring text to NFC and minus zero to zero, once, at the boundary where outside data comes in."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float) and value == 0:
        return 0.0
    if isinstance(value, Mapping):
        return {normalise(key): normalise(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(item) for item in value]
    return value


def metric_text(value: float) -> str:
    """Return a finite number as the decimal text that identities hold (RFC 8785, ECMAScript shortest form).

    Raises:
        InvalidRecordError: the number is NaN or infinite; such a run keeps it as a typed fact, not as a metric.
    """
    if isinstance(value, bool) or not math.isfinite(value):
        raise InvalidRecordError("metric", value, "Give a finite number; record NaN or infinity as a violation.")
    return rfc8785.dumps(float(value) if value else 0.0).decode("ascii")


def text_fault(text: str) -> str | None:
    """Return what to do about a text that has no canonical form; None where it has one."""
    if text.isascii() and "\0" not in text:
        return None
    if "\0" in text:
        return "Remove the NUL character."
    if _SURROGATE.search(text):
        return "Remove the lone surrogate; text is valid Unicode."
    if not unicodedata.is_normalized("NFC", text):
        return "Normalise the text to NFC before it enters a record."
    return None


def require_plain(value: object, path: str) -> None:
    """Refuse what has no canonical form; `path` is what the whole value is called.

    Raises:
        InvalidRecordError: a part has none; the error names the path to it.
    """
    _is_plain(value, path)


def _is_plain(value: object, path: str) -> bool:
    """Prove that `value` is strict JSON, and tell whether it has neither floats nor keys beyond ASCII."""
    match value:
        case None | bool():
            return True
        case str():
            _check_text(value, path)
            return True
        case int() | float():
            _check_number(value, path)
            return isinstance(value, int)
        case dict():
            parts = [_is_plain_entry(key, item, path) for key, item in value.items()]
        case list() | tuple():
            parts = [_is_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
        case _:
            raise InvalidRecordError(path, type(value).__name__, "Only JSON values have canonical bytes.")
    return all(parts)


def _is_plain_entry(key: object, item: object, path: str) -> bool:
    if not isinstance(key, str):
        raise InvalidRecordError(path, key, "Object keys are strings.")
    _check_text(key, f"{path}.{key}")
    return _is_plain(item, f"{path}.{key}") and key.isascii()


def _check_number(value: float, path: str) -> None:
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise InvalidRecordError(path, value, "Integers beyond 2^53 - 1 have no canonical form; use text.")
    elif not math.isfinite(value) or (value == 0 and math.copysign(1.0, value) < 0):
        raise InvalidRecordError(path, value, "Give a finite number; minus zero is written as zero.")


def _check_text(text: str, path: str) -> None:
    fault = text_fault(text)
    if fault is not None:
        raise InvalidRecordError(path, text, fault)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate object key")
    return result


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of a double")
    return value


def _integer(text: str) -> float:
    """Read an integer; one beyond 2^53 - 1 is a double, and only in the text that a double is written as."""
    value = int(text)
    if abs(value) <= MAX_SAFE_INTEGER:
        return value
    number = _finite_float(text)
    if rfc8785.dumps(number).decode("ascii") != text:
        raise ValueError(f"{text} is an integer that no double holds; use text")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
