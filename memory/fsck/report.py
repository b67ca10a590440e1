"""What the integrity check can find, and how it is told.

Rules kept here: every finding has a code of a closed set, the record it is about, what was met and a remedy; all
findings are counted, the first of each code are listed; a note is something to know about that breaks nothing.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from records.base import Model, Text
from records.values import Count

LISTED_PER_CODE: Final = 100
"""How many findings of one code a report lists; the rest are counted only."""

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
    RECEIPT_MISMATCH = "receipt_mismatch"
    RECEIPT_MISSING = "receipt_missing"
    PERMIT_ANSWERED_TWICE = "permit_answered_twice"
    OUTCOME_MISSING = "outcome_missing"
    OUTCOME_REPEATED = "outcome_repeated"
    OUTCOME_CONTEXT = "outcome_context"
    DISPOSITIONS = "dispositions"
    CARD_SOURCE = "card_source"
    RUN_UNKNOWN = "run_unknown"
    QUEUED_INCOMPLETE = "queued_incomplete"
    WORK_ITEM_UNRECEIPTED = "work_item_unreceipted"
    COMPLETION_UNBOUND = "completion_unbound"
    BUNDLE_BROKEN = "bundle_broken"
    LINK_MISMATCH = "link_mismatch"
    SNAPSHOT_MEMBER = "snapshot_member"
    AUTHORIZATION_UNKNOWN = "authorization_unknown"
    AUTHORIZATION_MISMATCH = "authorization_mismatch"
    AUTHORIZATION_UNANSWERED = "authorization_unanswered"
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
        Code.SNAPSHOT_MEMBER, Code.EVENT_RECORD, Code.BUNDLE_BROKEN,
    }
)  # fmt: skip
_BETWEEN_STORES: Final = frozenset(
    {Code.RUN_UNKNOWN, Code.AUTHORIZATION_UNKNOWN, Code.AUTHORIZATION_MISMATCH, Code.AUTHORIZATION_UNANSWERED}
)
_REMEDIES: Final = {
    Code.OUTCOME_MISSING: "A finished Run left a decision without its account; run recovery and check again.",
    Code.UNKNOWN_KIND: "A newer version wrote this store; check it with that version.",
    Code.ARTIFACT_MISSING: "Restore the bytes into the artifact store; its file name is the digest.",
    Code.ARTIFACT_CHANGED: "Replace the bytes by a copy with the right digest.",
}


class Violation(Model):
    """One finding: its code, the record or key it is about, what was met, what to do."""

    code: Code
    record: Text
    met: Text
    remedy: Text


class Note(Model):
    """Something to know about that breaks no rule."""

    code: Text
    record: Text
    met: Text


class FsckReport(Model):
    """The result of one check.

    Attributes:
        checked: how much was looked at, by sort.
        counts: number of violations by code, of which `violations` lists the first of each code.
    """

    checked: dict[str, Count]
    counts: dict[str, Count]
    violations: tuple[Violation, ...]
    notes: tuple[Note, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found; notes do not count."""
        return not self.counts

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if clean, else 1."""
        return 0 if self.clean else 1

    def text(self) -> str:
        """Return the report for people, one finding per block."""
        looked = ", ".join(f"{number} {what}" for what, number in self.checked.items())
        lines = [f"Checked {looked}."]
        lines += [f"note {note.code}: {note.record}: {note.met}" for note in self.notes]
        for found in self.violations:
            lines += [f"{found.code}: {found.record}", f"  met:    {found.met}", f"  remedy: {found.remedy}"]
        total = sum(self.counts.values())
        if total > len(self.violations):
            lines.append(f"{total - len(self.violations)} more are counted and not listed.")
        lines.append("Clean." if self.clean else f"{total} violations: " + ", ".join(
            f"{number} {code}" for code, number in self.counts.items()
        ))  # fmt: skip
        return "\n".join(lines)


class Findings:
    """Collects what the checks find."""

    def __init__(self) -> None:
        self._counts: Counter[Code] = Counter()
        self._violations: list[Violation] = []
        self._notes: list[Note] = []
        self.checked: Counter[str] = Counter()

    def add(self, code: Code, record: object, met: object) -> None:
        """Add a violation."""
        self._counts[code] += 1
        if self._counts[code] <= LISTED_PER_CODE:
            text = met if isinstance(met, str) else repr(met)
            self._violations.append(Violation(code=code, record=str(record), met=text[:2000], remedy=code.remedy))

    def note(self, code: str, record: object, met: str) -> None:
        """Add a note."""
        if len(self._notes) < LISTED_PER_CODE:
            self._notes.append(Note(code=code, record=str(record), met=met))

    def report(self) -> FsckReport:
        """Return what was found so far."""
        return FsckReport(
            checked=dict(self.checked),
            counts={code.value: number for code, number in sorted(self._counts.items())},
            violations=tuple(self._violations),
            notes=tuple(self._notes),
        )
