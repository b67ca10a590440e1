"""Records as the check reads them.

A record read to be compared with others keeps the id and the bytes that it is stored under: whether those follow from
its content is found where its own row is checked.
"""

from __future__ import annotations

from pydantic import ValidationError

from records.appends import StoredRecord
from records.base import Record, load_record
from records.errors import VrmError


def read_stored(row: StoredRecord) -> Record:
    """Return a stored record under the id and the bytes that it is stored with.

    Raises:
        VrmError: the payload is no record of its kind.
    """
    record = load_record(row.noun, row.payload).model_copy()  # equal bytes elsewhere are the same object
    vars(record)["sealed"] = (row.payload.encode(), record.kind.id_class(row.id))
    return record


def is_illegal(error: VrmError) -> bool:
    """Tell whether a payload was refused by a rule of its kind, such as a closed matrix, and not for its form."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return False
    found = cause.errors(include_url=False, include_context=False)
    return all(each["type"] == "value_error" and isinstance(each["input"], dict) for each in found)
