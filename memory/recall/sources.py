"""The sources behind candidates, read from the Ledger after they passed the hard filters (spec 8.2, stage 6; VRM-R06).

Rules kept here: a source is read by its id, and must have the payload digest that its index holds; an episode is
resolved again from its authoritative rows, and must be the bundle that the Evidence Snapshot has as its member. What
was found already can be read while the query is embedded; which flaw is told does not depend on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memory.evidence import resolve_bundles
from memory.recall.candidates import Gathered
from memory.recall.loaded import LoadedInput, ReadableLedger
from memory.recall.memory_index import MemoryIndex
from policies.episodes import Episode
from policies.ranker import Source
from records.appends import StoredRecord
from records.canonical import digest_bytes
from records.decisions import CorruptInputEvidence
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId
from records.knowledge import LinkRelation, MemoryRecord
from records.procedures import ProcedureRecord
from records.values import SourceKind
from store.ledger.port import LedgerReader

_MODELS: Final[dict[SourceKind, type[MemoryRecord | ProcedureRecord | Experience]]] = {
    SourceKind.SEMANTIC: MemoryRecord, SourceKind.PROCEDURE: ProcedureRecord, SourceKind.EPISODIC: Experience,
}  # fmt: skip
_NAMES: Final = {
    SourceKind.SEMANTIC: "memory-record", SourceKind.PROCEDURE: "memory-record", SourceKind.EPISODIC: "experience",
}  # fmt: skip


class Sources:
    """The sources of one answer, each read once."""

    def __init__(self, ledger: ReadableLedger, loaded: LoadedInput) -> None:
        """Read nothing yet."""
        self._ledger, self._loaded = ledger, loaded
        self._known: dict[tuple[SourceKind, str], Source | CorruptInputEvidence] = {}

    def read(self, wanted: Mapping[SourceKind, Sequence[str]]) -> None:
        """Read what was not read yet, and prove each to be the one that was indexed."""
        missing = {kind: [each for each in ids if (kind, each) not in self._known] for kind, ids in wanted.items()}
        if not any(missing.values()):
            return
        with self._ledger.reading() as reader:
            stored = reader.get_many([each for ids in missing.values() for each in ids])
            for kind, ids in missing.items():
                proved = {each: _proved(kind, self._loaded.lanes[kind], each, stored.get(each)) for each in ids}
                experiences = [record for record in proved.values() if isinstance(record, Experience)]
                episodes = _episodes(reader, self._loaded, experiences) if experiences else {}
                for each, record in proved.items():
                    self._known[kind, each] = episodes[each] if isinstance(record, Experience) else record

    def of(self, lanes: Mapping[SourceKind, Gathered]) -> dict[tuple[SourceKind, str], Source] | CorruptInputEvidence:
        """Return the source of every candidate; or of the first one that is not what was indexed, what is wrong."""
        wanted = {kind: [hit.id for hit in gathered.hits] for kind, gathered in lanes.items()}
        self.read(wanted)
        found: dict[tuple[SourceKind, str], Source] = {}
        for key in ((kind, each) for kind, ids in wanted.items() for each in ids):
            known = self._known[key]
            if isinstance(known, CorruptInputEvidence):
                return known
            found[key] = known
        return found


def is_cited(source: Source) -> bool:
    """Tell whether a source names at least one Experience that speaks for it; an episode is its own."""
    return isinstance(source, Episode) or any(link.relation is LinkRelation.SUPPORTS for link in source.links)


def _proved(
    kind: SourceKind, index: MemoryIndex, name: str, stored: StoredRecord | None
) -> MemoryRecord | ProcedureRecord | Experience | CorruptInputEvidence:
    payload = "" if stored is None else stored.payload
    if stored is None or digest_bytes(payload.encode()) != index.payload_digest(index.search.row(name)):
        return CorruptInputEvidence(attempted=name, finding=f"{_NAMES[kind]}.payload")
    record = stored.load()
    if not isinstance(record, _MODELS[kind]):
        return CorruptInputEvidence(attempted=name, finding=f"{_NAMES[kind]}.kind")
    return record


def _episodes(
    reader: LedgerReader, loaded: LoadedInput, experiences: Sequence[Experience]
) -> dict[str, Episode | CorruptInputEvidence]:
    held = {member.experience_id: member.bundle_digest for member in loaded.metadata.require_evidence().members}
    found: dict[str, Episode | CorruptInputEvidence] = {}
    for name, bundle in resolve_bundles(reader, experiences).items():
        same = isinstance(bundle, VerifiedEvidenceBundle) and bundle.digest == held.get(ExperienceId(name))
        flaw = CorruptInputEvidence(attempted=str(name), finding="experience.bundle")
        found[str(name)] = Episode(bundle) if same and isinstance(bundle, VerifiedEvidenceBundle) else flaw
    return found
