"""Records as they were read before.

A record never changes, so the same row need not be parsed and checked twice: what is kept here stands under everything
that the row says, payload included, and a row that was changed is another row. The row itself is read every time.

What is kept is bounded: a number of records, of those with large payloads, such as snapshots, a few.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from records.appends import StoredRecord
from records.base import Record

_LARGE: Final = 16_384
"""Characters of payload from which on a record counts as large."""


def load(stored: StoredRecord) -> Record:
    """Return what a row holds, as `StoredRecord.load` does.

    Raises:
        InvalidRecordError: the payload is no record of its noun.
        IntegrityError: the payload is not canonical, or belongs to another id or namespace.
    """
    return _large(stored) if len(stored.payload) > _LARGE else _small(stored)


@lru_cache(maxsize=512)
def _small(stored: StoredRecord) -> Record:
    return stored.load()


@lru_cache(maxsize=4)
def _large(stored: StoredRecord) -> Record:
    return stored.load()
