"""The bytes that records point at: they must be there and have their digest.

A digest is read once among those met last; one that is met again much later is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from records.base import Record
from records.decisions import RecallContext
from records.errors import IntegrityError, NotFoundError
from records.evidence import Observation
from records.ingestion import AbandonedReceipt, WorkCompletion, WorkItem
from records.legacy import LegacyArtifactStatus, LegacyImport
from records.outcomes import RecallOutcome
from records.snapshots import IndexBuild
from store.recent import Recent

_REMEMBERED: Final = 100_000


class ArtifactCheck:
    """Checks the artifacts that records and proposals name."""

    def __init__(self) -> None:
        self._seen: Recent[bytes, None] = Recent(_REMEMBERED)

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the artifacts of a stretch of journal; nothing, if the check was asked to leave artifacts alone."""
        if case.artifacts is not None:
            for key, record in chunk.records.items():
                self._check_all(case, key, _named(record))

    def check_proposals(self, case: Case, proposals: Iterable[tuple[str, str]]) -> None:
        """Check the proposals behind authorizations, given as id and digest."""
        for done, (key, digest) in enumerate(proposals if case.artifacts is not None else (), start=1):
            self._check_all(case, key, [digest])
            if done % 100 == 0:
                case.progress("proposals", done, 0)

    def _check_all(self, case: Case, key: str, digests: Iterable[str]) -> None:
        for digest in digests:
            short = bytes.fromhex(digest)
            if case.artifacts is None or short in self._seen:
                continue
            self._seen.put(short, None)
            try:
                case.artifacts.read(digest)
            except NotFoundError:
                case.findings.add(Code.ARTIFACT_MISSING, key, f"no bytes of {digest}")
            except IntegrityError:
                case.findings.add(Code.ARTIFACT_CHANGED, key, f"the bytes of {digest} have another digest")
            case.findings.checked["artifacts"] += 1


def _named(record: Record) -> Iterator[str]:
    match record:
        case Observation():
            yield from (reference.sha256 for reference in record.artifacts)
        case IndexBuild():
            yield record.artifact.sha256
        case AbandonedReceipt():
            yield record.proof.digest
        case WorkItem():
            yield record.campaign_profile_digest
        case RecallContext(query_vector_digest=str() as digest):
            yield digest
        case LegacyImport():
            kept = (each for each in record.artifacts if each.status is LegacyArtifactStatus.VERIFIED)
            yield from (artifact.sha256 for artifact in kept)
        case (
            RecallOutcome(blocked_proof_digest=str() as digest)
            | RecallOutcome(terminal_evidence_digest=str() as digest)
            | WorkCompletion(terminal_evidence_digest=str() as digest)
        ):
            yield digest
        case _:
            return
