"""Erasures: every tombstone is the end of its intent, its proofs resolve and match, and what is gone is gone.

An intent without a tombstone is open. That is no fault, for recovery finishes it; it is told as a note.
"""

from __future__ import annotations

from contextlib import suppress

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.fsck.reading import read_stored
from memory.proofs import require_erased
from records.errors import StaleError, VrmError
from records.retention import ErasureIntent, ErasureProof, RetentionTombstone
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

_REPEATED = ("incident", "target_kind", "target_id", "target_digest", "reason", "retraction_event_id")


def erased_bytes(reader: LedgerReader) -> frozenset[str]:
    """Return the digests of all bytes that an erasure has removed or may remove now."""
    found: set[str] = set()
    for namespace in reader.namespaces():
        for stored in reader.find(ErasureIntent.kind.noun, namespace):
            with suppress(VrmError):  # an unreadable row is found where it is checked itself
                intent = read_stored(stored)
                found.update(intent.erased_bytes if isinstance(intent, ErasureIntent) else ())
    return frozenset(found)


def check_erasures(case: Case, chunk: Chunk) -> None:
    """Check the intents and tombstones of a stretch of journal."""
    intents, tombstones = chunk.of(ErasureIntent), chunk.of(RetentionTombstone)
    closed = case.find(RetentionTombstone, chunk.namespace, "intent_id", intents)
    ended = {str(tombstone.intent_id) for tombstone in closed.values()}
    for key in sorted(intents.keys() - ended):
        case.findings.note("erasure", key, f"{intents[key].target_id} is denied and not erased yet; recovery does it")
    known = case.read((tombstone.intent_id for tombstone in tombstones.values()), ErasureIntent)
    for key, tombstone in tombstones.items():
        intent = known.get(str(tombstone.intent_id))
        if intent is None:
            case.findings.add(Code.ERASURE_MISMATCH, key, f"{tombstone.intent_id} is no intent")
            continue
        _check_end(case, key, tombstone, intent)
        if case.artifacts is not None:
            _check_gone(case, case.artifacts, key, tombstone, intent)


def _check_end(case: Case, key: str, tombstone: RetentionTombstone, intent: ErasureIntent) -> None:
    for name in _REPEATED:
        if getattr(tombstone, name) != getattr(intent, name):
            case.findings.add(Code.ERASURE_MISMATCH, key, f"its intent has another {name}")
    if sorted(part.affected for part in tombstone.acknowledgements) != sorted(intent.affected):
        case.findings.add(Code.ERASURE_MISMATCH, key, "it acknowledges not exactly what was affected")


def _check_gone(
    case: Case, artifacts: ArtifactStore, key: str, tombstone: RetentionTombstone, intent: ErasureIntent
) -> None:
    try:
        require_erased(artifacts, tombstone)
        generation = ErasureProof.load(artifacts.read(tombstone.erasure_receipt.digest)).generation
        if generation != intent.material.generation:
            case.findings.add(Code.ERASURE_UNPROVED, key, f"its proofs are of generation {generation}")
    except StaleError:
        pass  # bytes that are there are told one by one
    except VrmError as error:
        case.findings.add(Code.ERASURE_UNPROVED, key, str(error))
    for digest in intent.erased_bytes:
        if artifacts.holds(digest):
            case.findings.add(Code.ERASED_PRESENT, key, f"the bytes of {digest} are there")
    case.findings.checked["erasures"] += 1
