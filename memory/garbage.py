"""Artifact bytes that nobody needs: what may be removed, and its removal.

Rules kept here:

- reachable is what an ACTIVE reference holds, and every digest that stands anywhere in a record of the Ledger or in
  body or facts of a Runtime subject: proposals of authorizations, proofs, profiles, manifests, control events, indexes.
  Where a digest stands is not asked; when in doubt it is reachable;
- what stands in reachable bytes is reachable, and so is what stands in young ones: a proposal that was published and
  not granted yet names what its records will rest on. Bytes that cannot be read say nothing of what they name, so they
  end the collection;
- only what was published longer ago than the grace period is looked at, and its age is asked again as it is removed.
  The period must exceed the longest time that any job takes from publishing bytes to the record that names them;
- ages are read before the two authorities are: what became reachable afterwards was published again before it did, and
  is young by then. A released reference holds nothing, but the records that name its bytes still do;
- what was erased is no garbage and comes back by no collection: records go on naming it, and the mark of the erasure is
  no file that is looked at. Bytes that are erased while they are to be read name nothing any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from records.canonical import is_digest
from records.errors import ErasedError
from records.runtime import Subject
from records.states import Machine, Phase, phases_of
from store.artifacts import ArtifactStore, Kept
from store.ledger.port import LedgerReader, OpenLedger, journal_pages
from store.runtime.audit import scan_subjects
from store.runtime.port import RuntimeReader

_DIGITS: Final = 64
_RUN: Final = re.compile(rb"[0-9a-f]{64,}")


@dataclass(frozen=True)
class Garbage:
    """What a collection found, with how much of it was removed.

    Attributes:
        found: the files that nobody needs, sorted by name.
        removed: those of them that were removed: none if that was not asked for; what was published again stays.
        looked_at: how many files there were.
    """

    found: tuple[Kept, ...]
    removed: tuple[Kept, ...]
    looked_at: int


def collect(
    ledger: OpenLedger, runtime: RuntimeReader, artifacts: ArtifactStore, *, published_before: float, remove: bool
) -> Garbage:
    """Find what is not reachable and was published before a moment, and remove it if asked to.

    Raises:
        UnavailableError: the artifact store is no folder, or a store cannot be read.
        IntegrityError: a reachable artifact was changed, so that what it names is not known.
    """
    files = {each.name: each for each in artifacts.ages()}
    old = {name for name, each in files.items() if each.published < published_before}
    unreached = _Unreached(artifacts, {name for name in files if is_digest(name)})
    unreached.keep(name for name in files.keys() - old if is_digest(name))
    for reference in runtime.find(Machine.REFERENCE, [Phase.ACTIVE]):  # one statement: a moment in which each is held
        unreached.name(reference.body.encode())
    for subject in _subjects(runtime):
        unreached.name(subject.body.encode())
        unreached.name(subject.facts.encode())
    with ledger.reading() as reader:
        for payload in _payloads(reader):
            unreached.name(payload.encode())
    unreached.follow()
    found = tuple(files[name] for name in sorted(old) if name in unreached.digests or not is_digest(name))
    removed = tuple(each for each in found if artifacts.drop(each.name, published_before)) if remove else ()
    return Garbage(found, removed, len(files))


class _Unreached:
    """The artifacts that nothing was found to name so far; their number alone bounds the memory."""

    def __init__(self, artifacts: ArtifactStore, digests: set[str]) -> None:
        self.digests = digests
        self._artifacts = artifacts
        self._unread: list[str] = []

    def keep(self, digests: Iterable[str]) -> None:
        """Take artifacts as reached."""
        reached = self.digests.intersection(digests)
        self.digests -= reached
        self._unread += sorted(reached)

    def name(self, text: bytes) -> None:
        """Take every artifact whose digest stands in a text as reached."""
        for run in (found.group().decode() for found in _RUN.finditer(text)):
            self.keep(run[start : start + _DIGITS] for start in range(len(run) - _DIGITS + 1))

    def follow(self) -> None:
        """Read what was reached, and take what it names as reached, to the end."""
        while self._unread:
            with suppress(ErasedError):
                self.name(self._artifacts.read(self._unread.pop()))


def _subjects(runtime: RuntimeReader) -> Iterator[Subject]:
    for machine in Machine:
        if machine is not Machine.REFERENCE:
            yield from scan_subjects(runtime, machine, phases_of(machine))


def _payloads(reader: LedgerReader) -> Iterator[str]:
    for namespace in reader.namespaces():
        for rows in journal_pages(reader, namespace):
            yield from (stored.payload for stored in reader.get_many([row.id for row in rows]).values())
