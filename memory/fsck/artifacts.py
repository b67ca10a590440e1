"""The bytes that records point at: they must be there and have their digest. Each digest is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from records.base import Record
from records.decisions import RecallContext
from records.errors import IntegrityError, NotFoundError, VrmError
from records.evidence import Observation
from records.ingestion import WorkItem
from records.legacy import LegacyArtifactStatus, LegacyImport
from records.runtime import Authorization, Subject
from records.snapshots import IndexBuild


class ArtifactCheck:
    """Checks the artifacts that records and proposals name."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the artifacts of a stretch of journal; nothing, if the check was asked to leave artifacts alone."""
        if case.artifacts is not None:
            for key, record in chunk.records.items():
                self._check_all(case, key, _named(record))

    def check_proposals(self, case: Case, authorizations: Iterable[Subject]) -> None:
        """Check the proposals behind authorizations."""
        for subject in authorizations if case.artifacts is not None else ():
            try:
                digest = Authorization.load(subject.body).proposal_digest
            except VrmError:
                continue
            self._check_all(case, subject.id, [digest])

    def _check_all(self, case: Case, key: str, digests: Iterable[str]) -> None:
        for digest in digests:
            if case.artifacts is None or bytes.fromhex(digest) in self._seen:
                continue
            self._seen.add(bytes.fromhex(digest))
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
        case WorkItem():
            yield record.campaign_profile_digest
        case RecallContext(query_vector_digest=str() as digest):
            yield digest
        case LegacyImport():
            kept = (each for each in record.artifacts if each.status is LegacyArtifactStatus.VERIFIED)
            yield from (artifact.sha256 for artifact in kept)
        case _:
            return
