"""The sources behind candidates, read from the Ledger after they passed the hard filters (spec 8.2, stage 6; VRM-R06).

Rules kept here: a source is read by its id, and must have the payload digest that its index holds; an episode is
resolved again from its authoritative rows, and must be the bundle that the Evidence Snapshot has as its member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.evidence import resolve_bundles
from memory.recall.candidates import Gathered
from memory.recall.loaded import LoadedInput, ReadableLedger
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

_MODELS = {SourceKind.SEMANTIC: MemoryRecord, SourceKind.PROCEDURE: ProcedureRecord, SourceKind.EPISODIC: Experience}
_NAMES = {
    SourceKind.SEMANTIC: "memory-record", SourceKind.PROCEDURE: "memory-record", SourceKind.EPISODIC: "experience",
}  # fmt: skip


def read_sources(
    ledger: ReadableLedger, loaded: LoadedInput, lanes: Mapping[SourceKind, Gathered]
) -> dict[tuple[SourceKind, str], Source] | CorruptInputEvidence:
    """Return the source of every candidate, each proved to be the one that was indexed; or the first that is not."""
    found: dict[tuple[SourceKind, str], Source] = {}
    with ledger.reading() as reader:
        stored = reader.get_many([hit.id for gathered in lanes.values() for hit in gathered.hits])
        for kind, gathered in lanes.items():
            ids = [hit.id for hit in gathered.hits]
            flaw = _first_flaw(kind, loaded, stored, ids)
            if flaw is not None:
                return flaw
            if kind is SourceKind.EPISODIC:
                episodes = _episodes(reader, loaded, [stored[each] for each in ids])
                if isinstance(episodes, CorruptInputEvidence):
                    return episodes
                found |= {(kind, each.id): each for each in episodes}
            else:
                found |= {(kind, each): stored[each].load() for each in ids}  # type: ignore[misc]  # of the kind's model
    return found


def is_cited(source: Source) -> bool:
    """Tell whether a source names at least one Experience that speaks for it; an episode is its own."""
    return isinstance(source, Episode) or any(link.relation is LinkRelation.SUPPORTS for link in source.links)


def _first_flaw(
    kind: SourceKind, loaded: LoadedInput, stored: Mapping[str, StoredRecord], ids: Sequence[str]
) -> CorruptInputEvidence | None:
    index = loaded.lanes[kind]
    for each in ids:
        payload = stored[each].payload if each in stored else ""
        if digest_bytes(payload.encode()) != index.payload_digest(index.search.row(each)):
            return CorruptInputEvidence(attempted=each, finding=f"{_NAMES[kind]}.payload")
        if not isinstance(stored[each].load(), _MODELS[kind]):
            return CorruptInputEvidence(attempted=each, finding=f"{_NAMES[kind]}.kind")
    return None


def _episodes(
    reader: LedgerReader, loaded: LoadedInput, stored: Sequence[StoredRecord]
) -> list[Episode] | CorruptInputEvidence:
    held = {member.experience_id: member.bundle_digest for member in loaded.metadata.require_evidence().members}
    experiences = [record for item in stored if isinstance(record := item.load(), Experience)]
    episodes = []
    for name, bundle in resolve_bundles(reader, experiences).items():
        if not isinstance(bundle, VerifiedEvidenceBundle) or bundle.digest != held.get(ExperienceId(name)):
            return CorruptInputEvidence(attempted=str(name), finding="experience.bundle")
        episodes.append(Episode(bundle))
    return episodes
