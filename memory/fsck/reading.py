"""Records as the check reads them: each payload is decoded once and written once, and compared as bytes.

Rules kept here:

- a payload is canonical if writing what was read gives the same bytes. RFC 8785 has a short way here, on purpose not
  the writer's own: for ASCII text without floats it is compact JSON with sorted keys. What the short way cannot prove
  goes the long way through `records.canonical`, so the two never disagree about what is legal;
- a record read to be compared with others keeps the id and the bytes that it is stored under: whether those follow from
  its content is found where its own row is checked.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, Final

import orjson
from pydantic import ValidationError

from records.appends import StoredRecord
from records.base import KINDS, Kind, Model, Record, load_record
from records.errors import VrmError

_SHORT: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


def read_own(noun: str, payload: str) -> Record:
    """Return a record with the canonical bytes and the id that its content gives.

    Raises:
        VrmError: the payload is no record of its kind, or has no canonical form.
    """
    record = _load(noun, payload)
    content = record.as_json()
    if short_way(type(record), content, payload):
        vars(record)["canonical"] = payload.encode()
        vars(record)["id"] = record.kind.id_class(_content_id(record.kind, content))
    return record


def read_stored(row: StoredRecord) -> Record:
    """Return a stored record under the id and the bytes that it is stored with.

    Raises:
        VrmError: the payload is no record of its kind.
    """
    record = row.load()
    vars(record)["canonical"] = row.payload.encode()
    vars(record)["id"] = record.kind.id_class(row.id)
    return record


def _load(noun: str, payload: str) -> Record:
    try:
        return KINDS[noun].model.model_validate_json(payload)
    except (KeyError, ValidationError):
        return load_record(noun, payload)  # says what is wrong; to be ready for it costs more than reading a record


def is_canonical(value: Model, text: str) -> bool:
    """Tell whether a text is the canonical form of a value that was read from it."""
    return short_way(type(value), value.as_json(), text) or value.canonical == text.encode()


def short_way(model: type[Model], content: dict[str, Any], text: str) -> bool:
    """Tell whether `text` is the canonical form of `content`; False means only that the long way must be asked."""
    if not text.isascii() or "\\u0000" in text or _has_floats(model):
        return False
    try:
        return orjson.dumps(content, option=_SHORT) == text.encode()
    except TypeError:
        return False


def is_illegal(error: VrmError) -> bool:
    """Tell whether a payload was refused by a rule of its kind, such as a closed matrix, and not for its form."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return False
    found = cause.errors(include_url=False, include_context=False)
    return all(each["type"] == "value_error" and isinstance(each["input"], dict) for each in found)


def _content_id(kind: Kind, content: dict[str, Any]) -> str:
    projection = orjson.dumps(kind.project(content), option=_SHORT)
    return f"{kind.noun}:{hashlib.sha256(_domain(kind.noun) + projection).hexdigest()}"


@cache
def _domain(noun: str) -> bytes:
    return f"vrm/{noun}/v1".encode("ascii") + bytes(1)


@cache
def _has_floats(model: type[Model]) -> bool:
    """Tell whether a value of the model may hold a float, which the short way does not write as RFC 8785 does."""
    return '"number"' in json.dumps(model.model_json_schema(mode="serialization"))
