"""The closed set of what the integrity check can find, and what to do about each.

A code is a kind of finding that somebody would act on in a way of its own; what exactly was met is text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_RESTORE = "The row was changed outside the coordinator; restore the Ledger from a backup."
_TRACE = "A writer broke a rule of its flow; keep the store as it is and trace the permit named in the journal."
_RUNTIME = "Ledger and Runtime are of different moments or one was changed; restore both to one moment."


class Code(StrEnum):
    """Every kind of violation."""

    JOURNAL_GAP = "journal_gap"
    CHAIN_BROKEN = "chain_broken"
    NAMESPACE_HEAD = "namespace_head"
    FRONTIER = "frontier"
    UNKNOWN_KIND = "unknown_kind"
    ROW_MISSING = "row_missing"
    ROW_UNJOURNALED = "row_unjournaled"
    ROW_POSITION = "row_position"
    PAYLOAD_UNREADABLE = "payload_unreadable"
    PAYLOAD_ILLEGAL = "payload_illegal"
    PAYLOAD_NOT_CANONICAL = "payload_not_canonical"
    PAYLOAD_DIGEST = "payload_digest"
    ID_MISMATCH = "id_mismatch"
    COLUMN_MISMATCH = "column_mismatch"
    CHILD_MISMATCH = "child_mismatch"
    CHILD_STRAY = "child_stray"
    REFERENCE_DANGLING = "reference_dangling"
    HEAD_NOT_FOLD = "head_not_fold"
    LIFECYCLE_CHAIN = "lifecycle_chain"
    EVENT_RECORD = "event_record"
    MEMORY_CHAIN = "memory_chain"
    KNOWLEDGE_UNFOUNDED = "knowledge_unfounded"
    RECEIPT_MISMATCH = "receipt_mismatch"
    RECEIPT_MISSING = "receipt_missing"
    RECEIPT_ILLEGAL = "receipt_illegal"
    PERMIT_ANSWERED_TWICE = "permit_answered_twice"
    OUTCOME_MISSING = "outcome_missing"
    OUTCOME_REPEATED = "outcome_repeated"
    OUTCOME_CONTEXT = "outcome_context"
    OUTCOME_ILLEGAL = "outcome_illegal"
    ATTEMPT_LINK = "attempt_link"
    DISPOSITIONS = "dispositions"
    CARD_SOURCE = "card_source"
    RUN_UNKNOWN = "run_unknown"
    QUEUED_INCOMPLETE = "queued_incomplete"
    WORK_ITEM_UNRECEIPTED = "work_item_unreceipted"
    COMPLETION_UNBOUND = "completion_unbound"
    COMPLETION_MISSING = "completion_missing"
    BUNDLE_BROKEN = "bundle_broken"
    LINK_MISMATCH = "link_mismatch"
    SNAPSHOT_MEMBER = "snapshot_member"
    CAPTURE_MISMATCH = "capture_mismatch"
    INDEX_MISMATCH = "index_mismatch"
    REFERENCE_MISMATCH = "reference_mismatch"
    LINEAGE_MISMATCH = "lineage_mismatch"
    CLAIM_MISMATCH = "claim_mismatch"
    OWNER_EPOCH = "owner_epoch"
    AUTHORIZATION_UNKNOWN = "authorization_unknown"
    AUTHORIZATION_MISMATCH = "authorization_mismatch"
    AUTHORIZATION_UNANSWERED = "authorization_unanswered"
    ERASURE_MISMATCH = "erasure_mismatch"
    ERASURE_UNPROVED = "erasure_unproved"
    ERASED_PRESENT = "erased_present"
    ARTIFACT_MISSING = "artifact_missing"
    ARTIFACT_CHANGED = "artifact_changed"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self in _BY_FLOW:
            return _TRACE
        if self in _BETWEEN_STORES:
            return _RUNTIME
        return _REMEDIES.get(self, _RESTORE)


_BY_FLOW: Final = frozenset(
    {
        Code.PERMIT_ANSWERED_TWICE, Code.OUTCOME_REPEATED, Code.OUTCOME_CONTEXT, Code.DISPOSITIONS, Code.CARD_SOURCE,
        Code.QUEUED_INCOMPLETE, Code.WORK_ITEM_UNRECEIPTED, Code.COMPLETION_UNBOUND, Code.LINK_MISMATCH,
        Code.SNAPSHOT_MEMBER, Code.EVENT_RECORD, Code.BUNDLE_BROKEN, Code.PAYLOAD_ILLEGAL, Code.RECEIPT_ILLEGAL,
        Code.MEMORY_CHAIN, Code.OUTCOME_ILLEGAL, Code.ATTEMPT_LINK, Code.CAPTURE_MISMATCH, Code.ERASURE_MISMATCH,
        Code.REFERENCE_MISMATCH, Code.LINEAGE_MISMATCH, Code.CLAIM_MISMATCH,
    }
)  # fmt: skip
_BETWEEN_STORES: Final = frozenset(
    {Code.RUN_UNKNOWN, Code.AUTHORIZATION_UNKNOWN, Code.AUTHORIZATION_MISMATCH, Code.AUTHORIZATION_UNANSWERED}
)
_REMEDIES: Final = {
    Code.OUTCOME_MISSING: "A finished Run left a decision without its account; run recovery and check again.",
    Code.COMPLETION_MISSING: "A campaign ended without the completion of its item; run recovery and check again.",
    Code.UNKNOWN_KIND: "A newer version wrote this store; check it with that version.",
    Code.KNOWLEDGE_UNFOUNDED: "Do not use the rule: retract it, then trace the permit named in the journal.",
    Code.INDEX_MISMATCH: "Build the index of its snapshot anew and compose a new Recall Input; stop using this one.",
    Code.OWNER_EPOCH: "Stop every owner and restore the owners table, so that no epoch is given out twice.",
    Code.ERASURE_UNPROVED: "Restore the proof into the artifact store; a proof of something else was never legal.",
    Code.ERASED_PRESENT: "Somebody brought erased bytes back past the artifact store; remove the file again.",
    Code.ARTIFACT_MISSING: "Restore the bytes into the artifact store; its file name is the digest.",
    Code.ARTIFACT_CHANGED: "Replace the bytes by a copy with the right digest.",
}
