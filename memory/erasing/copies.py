"""Copies of what Experiences say in artifacts that no record names as its own: the lessons of the earlier design.

Rules kept here: such an artifact is found by what it is, wherever it is named and whether or not anything names it yet,
so every artifact is looked at, as an erasure looks at both stores; and it rests on the Experiences that it names.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from memory.retention import reachable
from records.errors import IntegrityError, InvalidRecordError, NotFoundError
from records.legacy_recall import LegacyRecall
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

_MARKS: Final = (b'{"intent_id":', b'"memory_digest":')
"""What canonical bytes of such lessons begin with and hold; whatever lacks it is not parsed."""


def lessons_from(reader: LedgerReader, artifacts: ArtifactStore, target_id: str) -> set[str]:
    """Return the digests of the lessons that were learnt from a target, or from what rests on it."""
    resting: dict[str, bool] = {}
    found = set()
    for digest, lessons in _published(artifacts):
        for source in {str(source) for item in lessons.items for source in item.sources}:
            if source not in resting:
                resting[source] = target_id == source or target_id in reachable(reader, [source])
            if resting[source]:
                found.add(digest)
    return found


def _published(artifacts: ArtifactStore) -> list[tuple[str, LegacyRecall]]:
    made = []
    for digest in artifacts.digests():
        with suppress(NotFoundError, IntegrityError, InvalidRecordError):  # gone, damaged, or something else
            data = artifacts.read(digest)
            if data.startswith(_MARKS[0]) and _MARKS[1] in data:
                made.append((digest, LegacyRecall.load(data)))
    return made
