"""Which artifact bytes records point at, and who needs bytes that an erasure would remove.

Rules kept here:

- *material* is what was observed, published or built: artifacts of observations, procedures, index builds, imports,
  reference sources and what was made of those, reports of nodes. Only such bytes are ever erased;
- *protocol* is what the stores themselves rest on: proposals, proofs, control events, profiles, query vectors;
- bytes under an ACTIVE reference are *held*, whoever's they are; only its release lets go of them;
- who needs bytes is read from all namespaces, for the artifact store is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memory.retention import denials, reachable
from records.base import Record
from records.decisions import RecallContext
from records.evidence import Observation
from records.ingestion import AbandonedReceipt, DistillationReceipt, WorkCompletion, WorkItem
from records.legacy import LegacyArtifactStatus, LegacyImport
from records.lineage import NodeReport
from records.models import noun_of
from records.outcomes import RecallOutcome
from records.procedures import ProcedureRecord
from records.reference import ReferenceContext, ReferenceIndexBuild, ReferenceSource
from records.retention import RetentionTombstone
from records.snapshots import IndexBuild
from records.states import Machine, Phase, phases_of
from store.ledger.port import LedgerReader, journal_pages
from store.runtime.audit import scan_subjects
from store.runtime.port import RuntimeReader


class Use(StrEnum):
    """What bytes are to those who name them."""

    MATERIAL = "material"
    PROTOCOL = "protocol"
    HELD = "held"


def material_of(record: Record) -> list[str]:
    """Return the digests of the material that a record names, sorted."""
    match record:
        case Observation():
            found = {artifact.sha256 for artifact in record.artifacts}
        case ProcedureRecord():
            found = {artifact.sha256 for artifact in record.procedure.artifacts}
        case IndexBuild():
            found = {record.artifact.sha256}
        case LegacyImport():
            kept = (each for each in record.artifacts if each.status is LegacyArtifactStatus.VERIFIED)
            found = {artifact.sha256 for artifact in kept}
        case ReferenceSource():
            found = set(record.artifacts)
        case ReferenceIndexBuild():
            found = {record.artifact.sha256, record.vectors.sha256}
        case ReferenceContext():
            found = {record.rendered.sha256}
        case NodeReport():
            found = {record.report_digest}
        case _:
            found = set()
    return sorted(found)


def protocol_of(record: Record) -> list[str]:
    """Return the digests of what a record rests on besides, sorted."""
    found: tuple[str | None, ...] = ()
    match record:
        case AbandonedReceipt():
            found = (record.proof.digest,)
        case WorkItem():
            found = (record.campaign_profile_digest,)
        case RecallContext():
            found = (record.query_vector_digest,)
        case RecallOutcome():
            found = (record.blocked_proof_digest, record.terminal_evidence_digest)
        case WorkCompletion():
            found = (record.terminal_evidence_digest,)
        case RetentionTombstone():
            found = tuple(proof.digest for proof in record.proofs)
        case _:
            pass
    return sorted({each for each in found if each is not None})


_POINTING: Final = frozenset(
    kind.kind.noun
    for kind in (
        Observation, ProcedureRecord, IndexBuild, LegacyImport, DistillationReceipt, WorkItem, RecallContext,
        RecallOutcome, RetentionTombstone, WorkCompletion, ReferenceSource, ReferenceIndexBuild, ReferenceContext,
        NodeReport,
    )
)  # fmt: skip


@dataclass(frozen=True)
class Need:
    """Somebody who names bytes: a record of a namespace, or a subject of the Runtime, which is of none."""

    digest: str
    holder: str
    use: Use
    namespace: str | None = None


def needs(reader: LedgerReader, runtime: RuntimeReader, digests: Iterable[str]) -> list[Need]:
    """Return everybody who names bytes, in both stores; `reader` must be of one moment.

    Both stores are read whole, once. An erasure is rare, and must not overlook anybody.
    """
    wanted = sorted(set(digests))
    if not wanted:
        return []
    return [*_in_ledger(reader, wanted), *_in_runtime(runtime, wanted)]


def _in_ledger(reader: LedgerReader, wanted: list[str]) -> Iterator[Need]:
    sorts: tuple[tuple[Use, Callable[[Record], list[str]]], ...] = (
        (Use.MATERIAL, material_of),
        (Use.PROTOCOL, protocol_of),
    )
    for namespace, record in _pointing(reader, wanted):
        for use, of in sorts:
            yield from (Need(each, str(record.id), use, namespace) for each in of(record) if each in wanted)


def _pointing(reader: LedgerReader, wanted: list[str]) -> Iterator[tuple[str, Record]]:
    for namespace in reader.namespaces():
        for rows in journal_pages(reader, namespace):
            stored = reader.get_many([row.id for row in rows if row.noun in _POINTING])
            for item in stored.values():
                if any(digest in item.payload for digest in wanted):
                    yield namespace, item.load()


def _in_runtime(runtime: RuntimeReader, wanted: list[str]) -> Iterator[Need]:
    for machine in Machine:
        held = machine is Machine.REFERENCE
        for subject in scan_subjects(runtime, machine, [Phase.ACTIVE] if held else phases_of(machine)):
            text = subject.body + subject.facts
            use = Use.HELD if held else Use.PROTOCOL
            yield from (Need(digest, subject.id, use) for digest in wanted if digest in text)


class Denied:
    """Tells which records retention denies, each in its own namespace; `reader` must be of one moment."""

    def __init__(self, reader: LedgerReader) -> None:
        """Read denials when they are first asked for."""
        self._reader = reader
        self._targets: dict[str, frozenset[str]] = {}

    def denies(self, need: Need) -> bool:
        """Tell whether the record that needs bytes is denied itself, and so needs them no more.

        An observation is denied with the Experiences that rest on it.
        """
        if need.use is not Use.MATERIAL or need.namespace is None:
            return False
        space = need.namespace
        if space not in self._targets:
            self._targets[space] = frozenset(each.target_id for each in denials(self._reader, space))
        if self._meets(space, need.holder):
            return True
        users = self._reader.find("experience", space, observation_id=need.holder) if _observed(need.holder) else []
        return bool(users) and all(self._meets(space, each.id) for each in users)

    def _meets(self, space: str, holder: str) -> bool:
        targets = self._targets[space]
        return bool(targets) and not targets.isdisjoint(reachable(self._reader, [holder]))


def _observed(record_id: str) -> bool:
    return noun_of(record_id) == Observation.kind.noun
