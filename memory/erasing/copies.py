"""Copies of what records say in artifacts that no record names as its own.

These are the lessons of the earlier design, and prompt sections of contexts that the Ledger refused or never saw.

Rules kept here:

- such an artifact is found by what it is, wherever it is named and whether or not anything names it yet, so every
  artifact is looked at, as an erasure looks at both stores;
- lessons rest on the Experiences that they name, a section on the rules, procedures and Experiences that its cards name
  by the beginnings of their ids; where several ids begin so, it rests on each of them;
- what cannot be read may be such a copy: an erasure denies at once, and does not end before somebody has settled that.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NamedTuple

from memory.retention import reachable
from policies.rendering import OPENING
from records.errors import IntegrityError, InvalidRecordError, NotFoundError
from records.legacy_recall import LegacyRecall
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

_MARKS: Final = (b'{"intent_id":', b'"memory_digest":')
"""What canonical bytes of such lessons begin with and hold; whatever lacks it is not parsed."""
_SECTION: Final = f"{OPENING}\n".encode()
_SHOWN: Final = re.compile(rb"\b(?:version|experience) ([0-9a-f]{6,64})\b")
"""How a card names what it shows (`policies.rendering`); a text that reads so too makes the sweep look at more."""


class Copies(NamedTuple):
    """What was found in the artifacts of a store.

    Attributes:
        digests: of the copies that rest on the target.
        unreadable: digests of what may be one and cannot be read, because it is damaged or of another form.
    """

    digests: frozenset[str]
    unreadable: frozenset[str]

    def require_readable(self, going: Collection[str]) -> None:
        """Refuse to call an erasure complete while something else than `going` cannot be read.

        Raises:
            IntegrityError: something cannot; the error names it and says what helps.
        """
        left = sorted(self.unreadable.difference(going))
        if left:
            more = f"; {len(left) - 1} more like it" if len(left) > 1 else ""
            remedy = (
                "It may say what is erased, and cannot be read. Restore its bytes, or erase it by its digest "
                f"(`vrm erase {left[0]}`), then run `vrm recover`{more}."
            )
            raise IntegrityError("artifact", left[0], remedy)


def copies_of(reader: LedgerReader, artifacts: ArtifactStore, target_id: str) -> Copies:
    """Return what shows a target, or what rests on it, and what cannot be read."""
    resting: dict[str, bool] = {}

    def rests(name: str) -> bool:
        if name not in resting:
            ids = reader.resolve(name)
            resting[name] = target_id in ids or target_id in reachable(reader, ids)
        return resting[name]

    found, unreadable = set(), set()
    for digest in artifacts.digests():
        with suppress(NotFoundError):  # gone meanwhile
            try:
                sources = _sources(artifacts.read(digest))
            except (IntegrityError, InvalidRecordError):
                unreadable.add(digest)
                continue
            if any(map(rests, sorted(sources))):
                found.add(digest)
    return Copies(frozenset(found), frozenset(unreadable))


def _sources(data: bytes) -> set[str]:
    """Return ids, or beginnings of ids, of what bytes were made of, if they are such a copy.

    Raises:
        InvalidRecordError: they begin as lessons and are of no form that is known here.
    """
    if data.startswith(_SECTION):
        return {name.decode() for name in _SHOWN.findall(data)}
    if not data.startswith(_MARKS[0]) or _MARKS[1] not in data:
        return set()
    return {str(source) for item in LegacyRecall.load(data).items for source in item.sources}
