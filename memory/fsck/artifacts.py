"""The bytes that records point at: they must be there and have their digest, or have been erased.

A digest is read once among those met last; one that is met again much later is read again. Which bytes were erased is
said by the intents in the Ledger, of all namespaces, never by the artifact store; they are read when the first bytes
are missing, and their number bounds the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.fsck.erasures import erased_bytes
from memory.material import material_of, protocol_of
from records.errors import IntegrityError, NotFoundError
from store.recent import Recent

_REMEMBERED: Final = 100_000


class ArtifactCheck:
    """Checks the artifacts that records and proposals name."""

    def __init__(self) -> None:
        self._seen: Recent[bytes, None] = Recent(_REMEMBERED)
        self._erased: frozenset[str] | None = None

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the artifacts of a stretch of journal; nothing, if the check was asked to leave artifacts alone."""
        if case.artifacts is not None:
            for key, record in chunk.records.items():
                self._check_all(case, key, [*material_of(record), *protocol_of(record)])

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
                if not self._was_erased(case, digest):
                    case.findings.add(Code.ARTIFACT_MISSING, key, f"no bytes of {digest}")
            except IntegrityError:
                case.findings.add(Code.ARTIFACT_CHANGED, key, f"the bytes of {digest} have another digest")
            case.findings.checked["artifacts"] += 1

    def _was_erased(self, case: Case, digest: str) -> bool:
        if self._erased is None:
            self._erased = erased_bytes(case.reader)
        return digest in self._erased
